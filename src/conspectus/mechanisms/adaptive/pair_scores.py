"""From noisy distances to how strongly each pair of columns depends, level by level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

HALF_NORMAL = math.sqrt(2 / math.pi)
"""The mean size of a standard Gaussian number."""

RATIOS = (1.15, 1.08, 1.0, 0.75, 0.6)
"""How strong a pair is at each level of coarseness, next to level 2; used where a level was not scored. From Adult."""

LEAST_SIGNAL = 0.15
"""At least so much of a scored distance is taken for dependence, whatever sampling explains."""


def posterior_mean(noisy: NDArray[np.float64], deviation: float, mean: float) -> NDArray[np.float64]:
    """The mean of what lies behind noisy numbers, where it is exponential with this mean and the noise Gaussian."""
    shifted = noisy - deviation * deviation / mean
    ratio = shifted / deviation
    density = -0.5 * ratio * ratio - 0.5 * math.log(2 * math.pi)
    return np.asarray(shifted + deviation * np.exp(density - log_ndtr(ratio)))


def signals(noisy: NDArray[np.float64], deviation: float, sampling: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances that are due to dependence, from noisy ones: what sampling would make is taken away, in squares."""
    mean = max(float(noisy.mean()), 0.3 * deviation)
    behind = posterior_mean(noisy, deviation, mean)
    return np.sqrt(np.maximum(behind**2 - sampling**2, (LEAST_SIGNAL * behind) ** 2))


def sampling_distance(guess: NDArray[np.float64], variance: float) -> float:
    """The mean distance that sampling makes between a table and its expected counts, as far as it could be measured.

    `variance` is that of the noise with which the table would be measured: below it, sampling is not worth learning.
    """
    spread = HALF_NORMAL * float(np.sqrt(np.maximum(guess, 0.0)).sum())
    return spread * math.sqrt(variance / (variance + float(guess.mean())))


def nearest_scored(levels: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """The levels of a table that are scored: for each wanted level the coarsest that is no coarser."""
    return sorted({max((level for level in levels if level <= one), default=levels[0]) for one in wanted})


def increments(levels: Sequence[int], scored: Mapping[int, float]) -> dict[int, float]:
    """How much of a dependence each level adds to the coarser ones, in squares: Pythagoras.

    Levels that were not scored take the nearest that was, in the usual ratio. A coarser level cannot hold more than a
    finer one: where noise says so, both get their mean.
    """
    strength = []
    for level in levels:
        near = min(scored, key=lambda one: (abs(one - level), one))
        strength.append(scored[near] * RATIOS[level] / RATIOS[near])
    pooled: list[tuple[float, int]] = []
    for each in strength:
        pooled.append((each, 1))
        while len(pooled) > 1 and pooled[-2][0] < pooled[-1][0]:
            (value, many), (before, earlier) = pooled.pop(), pooled.pop()
            pooled.append(((before * earlier + value * many) / (earlier + many), earlier + many))
    flat = [value for value, many in pooled for _ in range(many)]
    found = {}
    for place, level in enumerate(levels):
        coarser = flat[place + 1] if place + 1 < len(flat) else 0.0
        found[level] = math.sqrt(max(flat[place] ** 2 - coarser**2, (0.02 * flat[place]) ** 2))
    return found
