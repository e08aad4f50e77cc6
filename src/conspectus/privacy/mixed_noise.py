"""How far a weighted sum of independent noises of several laws may be from 0. Public mathematics, with no sampler.

The law of such a sum lies on no lattice that a transform could hold. But its characteristic function φ is a product of
known ones, and a little smoothing makes it short. Let U be a sum of six uniform numbers, within h of 0. Then S + U has
the characteristic function φ·φ_U, which falls like θ^(−6), and P(|S| > x + h) ≤ P(|S + U| > x). The right side is read
from a Fourier series on a window that holds all of S + U but for a probability of `FAR`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from .events import Noise
from .tails import FAR, MARGIN, characteristic, laplace_spread, noise_margin, variance_of

Term = tuple[Noise, float, int]
"""A law, the size of a weight, and how many noises of this law have that weight."""

_SMOOTHING = 0.02
"""h in standard deviations of the sum, or in steps of the largest weight, if that is more: what smoothing adds to a
quantile. No margin is below one such step, so that noise far narrower than a step need not be resolved."""

_UNIFORMS = 6
_CUT = 130.0
"""θ·h at which the series is cut: what is left of it is below (6/130)⁶/3π, or 1.1e-9."""

_RATIO = 1.01
"""Weights are put into classes this far apart, and what that moves is bounded apart."""

_SMALLEST = 1e-4
_FEW = 48
_REST = 0.02
"""Of the failure probability, for what the classes of weights moved."""

_NOTHING = 1e-14


@lru_cache(maxsize=4096)
def mixed_margin(terms: tuple[Term, ...], confidence: float) -> float:
    """A t with P(|Σ w Z| ≤ t) ≥ confidence, and little more than the least one; never 0 where there is noise.

    Args:
        terms: The noises of the sum, by law and weight.
        confidence: Strictly between 0 and 1.

    Returns:
        The exact quantile where all noises have one law and one weight. Otherwise it is at most a few per cent too
        large; beyond a confidence of 1 − 1e-7 it is a moment bound.
    """
    if not terms:
        return 0.0
    if len(terms) == 1:
        ((law, weight, times),) = terms
        return weight * noise_margin(law.kind, law.scale, times, confidence)
    failure = 1 - confidence
    one_step = max(weight for _, weight, _ in terms)
    bound = _moment_bound(terms, failure)
    if failure < 1e-7:
        return max(bound, one_step)
    classes, moved = _in_classes(terms)
    rest = _moment_bound(moved, failure * _REST) if moved else 0.0
    left = failure * (1 - _REST * bool(moved))
    return max(min(bound, _smoothed_quantile(classes, left) + rest), one_step)


WIDE, QUITE_WIDE, _FEW_NOISES, _APART = 1000.0, 200.0, 6, 1.01


def wide_margin(terms: Sequence[Term], confidence: float) -> float | None:
    """The same for noises much wider than their step, in closed form; None where there is none.

    Steps do not show there: the law of a noise is that of its continuous form to within a step, and a step of each is
    added. Normal noises of any weights sum to a normal one. A sum of few Laplace noises of scales b_i, all different,
    has the tail P(|S| > t) = Σ c_i·e^(−t/b_i) with c_i = Π_{j≠i} b_i²/(b_i² − b_j²), by partial fractions of its
    characteristic function. Scales that are nearly equal are first moved apart, the larger one upwards: that makes
    tails heavier, as the noises are symmetric and unimodal.
    """
    kinds = {law.kind for law, _, _ in terms}
    if len(kinds) != 1 or any(law.scale < WIDE for law, _, _ in terms) or not 1 - confidence >= 1e-7:
        return None
    steps = sum(weight * times for _, weight, times in terms)
    if kinds == {"gaussian"}:
        spread = math.sqrt(sum((weight * law.scale) ** 2 * times for law, weight, times in terms))
        return spread * NormalDist().inv_cdf((1 + confidence) / 2) * (1 + MARGIN) + steps
    scales = sorted(weight * law.scale for law, weight, times in terms for _ in range(min(times, _FEW_NOISES + 1)))
    if len(scales) > _FEW_NOISES:
        return None
    kept: list[float] = []
    for scale in scales:
        if scale > 1e-6 * scales[-1]:
            kept.append(max(scale, kept[-1] * _APART) if kept else scale)
        else:
            steps += 40 * scale  # its tail beyond that is far below what is asked for
    chances = [math.prod(b * b / (b * b - c * c) for c in kept if c != b) for b in kept]
    failure = (1 - confidence) * (1 - MARGIN)

    def excess(t: float) -> float:
        return math.fsum(chance * math.exp(-t / b) for chance, b in zip(chances, kept)) - failure

    return _root(excess, 40 * sum(kept)) + steps


def wide_as_one(terms: Sequence[Term]) -> tuple[tuple[Term, ...], float]:
    """The same noises, where all wide Gaussian ones are one; and how far steps may have moved the sum by that.

    Normal noises of any weights sum to a normal one, and a wide noise is its continuous form to within a step.
    """
    wide = [term for term in terms if term[0].kind == "gaussian" and term[0].scale >= QUITE_WIDE]
    if len(wide) < 2:
        return tuple(sorted(terms)), 0.0
    spread = math.sqrt(math.fsum((weight * law.scale) ** 2 * times for law, weight, times in wide))
    others = [term for term in terms if term[0].kind != "gaussian" or term[0].scale < QUITE_WIDE]
    one: Term = (Noise("gaussian", WIDE), spread / WIDE, 1)
    return tuple(sorted([one, *others])), math.fsum(weight * times for _, weight, times in wide) + spread / WIDE


def _in_classes(terms: Sequence[Term]) -> tuple[Sequence[Term], list[Term]]:
    """Noises with few different weights, and by how much each weight was moved for that."""
    if len(terms) <= _FEW:
        return terms, []
    largest = max(weight for _, weight, _ in terms)
    classes: dict[tuple[Noise, int], int] = {}
    moved: list[Term] = []
    for law, weight, times in terms:
        if weight < _SMALLEST * largest:
            moved.append((law, weight, times))
            continue
        number = round(math.log(largest / weight) / math.log(_RATIO))
        classes[law, number] = classes.get((law, number), 0) + times
        if (off := abs(weight - largest / _RATIO**number)) > 0:
            moved.append((law, off, times))
    return [(law, largest / _RATIO**number, times) for (law, number), times in classes.items()], moved


def _moment_bound(terms: Sequence[Term], failure: float) -> float:
    """A t with P(|S| > t) ≤ failure, by P(S > t) ≤ E e^(λS)·e^(−λt) for the best of some λ.

    Discrete Gaussian noise is sub-Gaussian with parameter σ; of Laplace noise the moments are exact.
    """
    if all(law.kind == "gaussian" for law, _, _ in terms):
        square = math.fsum(times * (weight * law.scale) ** 2 for law, weight, times in terms)
        return math.sqrt(2 * square * math.log(2 / failure)) * (1 + MARGIN)
    widest = max(weight * law.scale for law, weight, _ in terms)
    # From a small λ, for many terms whose sum is like a Gaussian one, to the largest that a single Laplace noise has.
    slopes = np.concatenate((np.geomspace(1e-4, 0.5, 60), 1 - np.geomspace(1e-4, 0.5, 30))) / widest
    logs = np.zeros_like(slopes)
    for law in dict.fromkeys(law for law, _, _ in terms):
        sizes, often = np.array([(weight, times) for each, weight, times in terms if each == law], dtype=np.float64).T
        if law.kind == "gaussian":
            logs += float(often @ np.square(sizes * law.scale)) * np.square(slopes) / 2
            continue
        spread = laplace_spread(law.scale, np.outer(sizes, slopes))
        logs += np.where((spread < 1).all(axis=0), -often @ np.log1p(-np.minimum(spread, 1 - 1e-15)), np.inf)
    return float(np.min((logs + math.log(2 / failure)) / slopes)) * (1 + MARGIN)


def _smoothed_quantile(terms: Sequence[Term], failure: float) -> float:
    deviation = math.sqrt(math.fsum(variance_of(law) * weight**2 * times for law, weight, times in terms))
    if not deviation > 0:
        return 0.0
    smooth = _SMOOTHING * max(deviation, max(weight for _, weight, _ in terms))
    window = _moment_bound(terms, FAR) + smooth
    count = math.ceil(_CUT / smooth * window / math.pi)
    angles: NDArray[np.float64] = np.arange(1, count + 1, dtype=np.float64) * (math.pi / window)
    places, chances = np.arange(count), np.sinc(angles * (smooth / _UNIFORMS / np.pi)) ** _UNIFORMS
    # Wide noises first: after them only few angles are left, near 0 and where a lattice comes round to itself.
    for law, weight, times in sorted(terms, key=lambda term: -term[1] * term[0].scale * math.sqrt(term[2])):
        chances = chances * characteristic(law.kind, law.scale, weight * angles[places]) ** times
        kept = np.abs(chances) > _NOTHING
        places, chances = places[kept], chances[kept]
    # P(|S + U| > x) = 1 − x/window − (2/π)·Σ weight·sin(angle·x), which falls as x grows.
    weights, angles, allowed = 2 / math.pi * chances / (places + 1), angles[places], failure - 2 * FAR - 2 * MARGIN

    def too_often(x: float) -> float:
        return 1 - x / window - float(weights @ np.sin(angles * x)) - allowed

    tolerance = 1e-3 * smooth
    return _root(too_often, window, tolerance) + tolerance + smooth


def _root(falling: Callable[[float], float], high: float, tolerance: float = 2e-12) -> float:
    """Where a function that falls from above 0 to below it, between 0 and `high`, is 0: at most a tolerance too far.

    By bisection: the root finders of scipy take longer to import than any answer takes to compute.
    """
    low = 0.0
    while high - low > tolerance and low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return high
