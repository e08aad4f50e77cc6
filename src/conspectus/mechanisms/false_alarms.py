"""How often the noise of a watch alone makes a hit: exact tails of the discrete laws, and the threshold that follows.

A comparison is a hit where error + ν ≥ T + Z, with Z the noise of the threshold and ν that of the comparison, in whole
steps. Let every error be at most e, and m = T − e. Given Z = z each of k comparisons is a false alarm with probability
at most p(z) = P(ν ≥ m + z), independently of all others, whoever chose the questions. So over k questions

    one threshold for all hits:    P(at least h alarms) ≤ E_Z P(Binomial(k, p(Z)) ≥ h)
    a new threshold after a hit:   P(at least h alarms) ≤ q^h   with q = E_Z[1 − (1 − p(Z))^k],

the second because each of the h watches has to end within k questions, and their noises are independent. E_Z is a sum
over the law of Z in which several values are taken together as the lowest of them, which makes the most alarms: what
is computed is never too small.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

Vector = NDArray[np.float64]

_REACH, _PARTS = 40.0, 640


def chance_of_alarms(
    hiding: float, comparing: float, margin: int, *, questions: int, alarms: int, one_threshold: bool
) -> float:
    """A bound on the probability that noise alone makes so many hits, which is exact but for the grouping of Z.

    Args:
        hiding: The scale of the threshold's noise, in steps.
        comparing: The scale of a comparison's noise, in steps.
        margin: How many whole steps every error stays below the threshold.
        questions: How many comparisons there are at most.
        alarms: How many false alarms are asked about.
        one_threshold: Whether one threshold serves all hits.
    """
    if alarms > questions:
        return 0.0
    lowest, masses = _law(hiding)
    each = _upper(comparing, margin + lowest)
    if one_threshold:
        chances = betainc(alarms, questions - alarms + 1, each)
        return min(1.0, float(masses @ chances))
    once = float(masses @ -np.expm1(questions * np.log1p(-np.minimum(each, 1 - 1e-15))))
    return min(1.0, once) ** alarms


@lru_cache(maxsize=4096)
def least_margin(
    hiding: float, comparing: float, *, questions: int, alarms: int, one_threshold: bool, failure: float
) -> int:
    """The smallest margin, in steps, at which so many false alarms have a chance of at most `failure`."""

    def enough(margin: int) -> bool:
        chance = chance_of_alarms(
            hiding, comparing, margin, questions=questions, alarms=alarms, one_threshold=one_threshold
        )
        return chance <= failure

    low, high = -1, max(1, math.ceil(hiding + comparing))
    while not enough(high):
        low, high = high, 2 * high
    while high - low > max(1, high >> 10):  # to a thousandth, on the safe side
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@lru_cache(maxsize=256)
def _law(scale: float) -> tuple[Vector, Vector]:
    """Discrete Laplace noise as few values, each the lowest of a group, and the masses of the groups.

    What lies below them all, e^(−40) of the mass, counts as its own lowest value: an alarm for certain.
    """
    reach = math.ceil(_REACH * scale) + 1
    starts = np.unique(np.linspace(-reach, reach, 2 * min(reach, _PARTS) + 1).astype(np.int64)).astype(np.float64)
    above = _upper(scale, starts)
    masses = above - np.append(above[1:], 0.0)
    return np.append(-1e300, starts), np.append(1 - above[0], masses)


def _upper(scale: float, t: Vector) -> Vector:
    """P(ν ≥ t) of discrete Laplace noise, for whole t: p^t/(1+p) above 0, and 1 − p^(1−t)/(1+p) from there down."""
    ratio = math.exp(-1 / scale)
    with np.errstate(under="ignore", over="ignore"):
        tail = np.exp(-np.where(t > 0, t, 1 - t) / scale) / (1 + ratio)
    return np.where(t > 0, tail, 1 - tail)
