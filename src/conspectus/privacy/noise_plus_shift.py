"""How far the sum of a noise N and an unknown shift D may be from 0, if only the mean square of D is bounded.

N has light tails that are known exactly. D is independent of N, and all that is known of it is E D² ≤ v. To add a
quantile of each (Chebyshev's for D) wastes most of the width. Instead, for every β ≥ 0: if P(|N + d| > t) ≤ α + β·d²
for all numbers d, then P(|N + D| > t) ≤ α + β·v, by taking means over D. Public mathematics: no truth and no sampler.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .events import Noise
from .tails import CAP, FAR, MARGIN, characteristic, laplace_spread

Tail = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""For each x at least P(S > x), of a symmetric S; 1 where x is below 0."""

MOST_SIZES = 64
"""Different weights in a sum whose law is computed exactly: each costs one more pass over its transform."""

_SHARE = 0.9
"""The most of a failure probability that goes to the shift: Chebyshev's inequality would take all of it."""
_SMALL_SHIFT = 0.75
"""Where β·d² is 1 if the shift is small, in quantiles of a Gaussian: a few per cent from the best at usual failures."""
_CELLS = 400
_PLACES = 2_000
NEVER = 1e-20
"""Below what is left of the smallest failure probability that a float has below a confidence of 1."""


def weighted_tail(law: Noise, weights: NDArray[np.int64], unit: float) -> Tail:
    """The tail of unit·Σ w_i Z_i for independent noises of one law and whole weights.

    On a lattice that fits a transform the exact one, widened by its float error; otherwise a moment bound.
    """
    sizes, times = np.unique(np.abs(weights[weights != 0]), return_counts=True)
    if not len(sizes):
        return lambda x: (x < 0).astype(np.float64)
    common = int(np.gcd.reduce(sizes))
    sizes, unit = sizes // common, unit * common
    bound = _moment_bound(law, sizes.astype(np.float64), times)
    window = _window(bound, law.scale * math.sqrt(float((sizes.astype(np.float64) ** 2 * times).sum())))
    if len(sizes) > MOST_SIZES or 2 * window + 2 > CAP:
        return lambda x: bound(x / unit)
    size = 1 << max(4, (2 * window + 1).bit_length())
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    transform = np.ones_like(angles)
    for step, often in zip(sizes.tolist(), times.tolist()):
        transform *= characteristic(law.kind, law.scale, step * angles) ** often
    chances = np.maximum(np.fft.irfft(transform, size)[: size // 2], 0.0)
    beyond = np.append(np.cumsum(chances[::-1])[::-1][1:], 0.0) + 2 * MARGIN  # P(S > z) for z = 0, 1, …
    return _stepped(np.minimum(beyond, bound(np.arange(len(beyond), dtype=np.float64))), unit)


def _stepped(falling: NDArray[np.float64], step: float) -> Tail:
    """A tail from its values at 0, step, 2·step, …: between and beyond them the one before."""

    def tail(x: NDArray[np.float64]) -> NDArray[np.float64]:
        places = np.clip(x * ((1 - 1e-12) / step), 0, len(falling) - 1).astype(np.int64)
        return np.where(x < 0, 1.0, falling[places])

    return tail


def _moment_bound(law: Noise, sizes: NDArray[np.float64], times: NDArray[np.int64]) -> Tail:
    """P(S > x) ≤ M(λ)·e^(−λx), for the best of some λ: sub-Gaussian, or the exact moments of Laplace noise."""
    if law.kind == "gaussian":
        square = 2 * law.scale**2 * float((sizes**2 * times).sum()) * (1 + MARGIN)
        return lambda x: np.where(x < 0, 1.0, np.exp(-np.square(np.maximum(x, 0)) / square))
    slopes, logs = [], []
    for share in np.concatenate((np.geomspace(1e-4, 0.5, 60), 1 - np.geomspace(1e-3, 0.5, 30))):
        slope = min(share / law.scale, 600.0) / float(sizes.max())
        spread = laplace_spread(law.scale, slope * sizes)
        if float(spread.max()) < 1:
            slopes.append(slope)
            logs.append(-float((np.log1p(-spread) * times).sum()) * (1 + MARGIN))
    lines, heights = np.array(slopes)[:, None], np.array(logs)[:, None]

    def bound(x: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.exp(np.minimum((heights - lines * x).min(axis=0), 0.0))
        return found

    # Asked for thousands of times: kept at a few thousand places, up to one that no failure probability reaches.
    step = _window(bound, float(sizes.max()) * law.scale, NEVER) / _PLACES
    return _stepped(bound(step * np.arange(_PLACES + 1, dtype=np.float64)), step)


def _window(bound: Tail, scale: float, chance: float = FAR / 2) -> int:
    """Whole steps beyond which a law has at most this probability."""
    high = max(scale, 1.0)
    while float(bound(np.array([high]))[0]) > chance:
        high *= 1.25
    return math.ceil(high)


def shifted_quantile(tail: Tail, square: float, failure: float, deviation: float) -> float:
    """A t with P(|N + D| > t) ≤ failure, for N of this tail and any D independent of it with E D² ≤ square.

    `deviation` is roughly that of N. β is 1/a² with a proportional to `deviation`, or 0.9·failure/square where that is
    less, so that at least a tenth of the failure is left to α; t grows with `square`.

    β does not depend on the tail. So the bound also holds where N has one of several laws and t is taken from the law
    that it has, even if D depends on which law that is; `square` and `deviation` must not depend on it.
    """
    normal = math.sqrt(2 * math.log(2 / failure))
    farthest = max(_SMALL_SHIFT * normal * deviation, math.sqrt(square / (_SHARE * failure)))
    if not farthest > 0:
        return _least(lambda t: 2 * float(tail(np.array([t]))[0]) <= failure, 1.0)
    ends = np.linspace(0.0, farthest, _CELLS + 1)
    low, high = ends[:-1], ends[1:]
    taken = np.square(low / farthest)
    left = failure * (1 - MARGIN) - square / farthest**2

    def enough(t: float) -> bool:
        """Whether P(|N + d| > t) is at most α + β·d², cell by cell of d; beyond the last one β·d² is 1."""
        either = np.minimum(tail(t - high) + tail(t + low), 1.0)
        return bool((either - taken).max() <= left)

    return _least(enough, farthest)


def _least(enough: Callable[[float], bool], start: float) -> float:
    """A t with a property that stays true once it is, and little more than the least one."""
    high = start
    while not enough(high):
        high *= 2
    low = 0.0
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
