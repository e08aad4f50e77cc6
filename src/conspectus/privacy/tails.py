"""Exact tails of discrete noise and of its sums, for honest intervals. Public mathematics: no truth, no sampler.

Quantiles err on the wide side alone: whatever is computed in floats is widened by a margin before it is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from .events import Kind, Noise

CAP = 1 << 20  # largest transform; beyond it a coarser lattice or a Chernoff bound answers
MARGIN = 1e-9  # above the float error of a transform of CAP points and the mass that wraps around it
FAR = 1e-10  # probability that may fall outside the transform's window


def laplace_tail(scale: float, t: float) -> float:
    """P(|Z| > t) for discrete Laplace noise: 2p^(⌊t⌋+1) / (1+p) with p = e^(−1/scale)."""
    if t < 0:
        return 1.0
    ratio = math.exp(-1 / scale)
    return 2 * math.exp(-(math.floor(t) + 1) / scale) / (1 + ratio)


def gaussian_tail(sigma: float, t: float) -> float:
    """P(|Z| > t) for discrete Gaussian noise, P(Z = z) ∝ e^(−z²/2σ²)."""
    if t < 0:
        return 1.0
    start = math.floor(t) + 1
    upper = _upper_sum(sigma, start)
    return min(1.0, 2 * upper / (1 + 2 * _upper_sum(sigma, 1)))


def _upper_sum(sigma: float, start: int) -> float:
    """Σ_{z ≥ start} e^(−z²/2σ²): term by term, or by Euler–Maclaurin where the terms are many and smooth."""
    if sigma <= 1000:
        terms = np.arange(start, start + math.ceil(40 * sigma) + 2, dtype=float)
        return float(np.sum(np.exp(-(terms * terms) / (2 * sigma * sigma))))
    x = start / sigma
    integral = sigma * math.sqrt(math.pi / 2) * math.erfc(x / math.sqrt(2))
    first = math.exp(-x * x / 2)
    return integral + first * (1 / 2 + x / (12 * sigma) - (3 * x - x**3) / (720 * sigma**3))


def lower_quantile(law: Noise, failure: float) -> int:
    """The smallest t ≥ 0 with P(Z < −t) ≤ failure for one noise: by symmetry the tail P(|Z| > t) halved."""
    return _quantile(law.kind, law.scale, 2 * failure)


def sum_quantile(kind: Kind, scale: float, terms: int, confidence: float) -> int:
    """The smallest t found with P(|sum of `terms` independent noises| ≤ t) ≥ confidence.

    One noise: its exact tail. Many Gaussian ones with σ ≥ 3: a discrete Gaussian of deviation σ√terms, to within one
    part in 10³⁰ a term. Otherwise the distribution is computed from its characteristic function on a window that
    holds all but 1e-10 of it; wider sums of Laplace noise on a coarser lattice, with a Hoeffding bound for what that
    loses; and what is wider still by a Chernoff bound.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence must be above 0 and below 1, not {confidence}")
    if terms < 1:
        return 0
    failure = 1 - confidence
    if terms == 1:
        return _quantile(kind, scale, failure)
    if kind == "gaussian" and scale >= 3:
        return _quantile(kind, scale * math.sqrt(terms), failure)
    return _sum_quantile(kind, scale, terms, failure)


@lru_cache(maxsize=1024)
def _quantile(kind: Kind, scale: float, failure: float) -> int:
    """That of one noise. A release is asked for the same one again with every answer."""
    tail = laplace_tail if kind == "laplace" else gaussian_tail
    return _smallest(lambda t: tail(scale, t) <= failure * (1 - MARGIN), scale)


def noise_margin(kind: Kind, scale: float, terms: int, confidence: float) -> int:
    """`sum_quantile`, but one step at least where there is noise: no interval that rests on noise is a point."""
    return max(1, sum_quantile(kind, scale, terms, confidence)) if terms else 0


def _smallest(enough: Callable[[int], bool], scale: float) -> int:
    """The smallest integer t ≥ 0 with a property that stays true once it is, searched from a first guess."""
    high = max(1, math.ceil(scale))
    while not enough(high):
        high *= 2
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@lru_cache(maxsize=1024)
def _sum_quantile(kind: Kind, scale: float, terms: int, failure: float) -> int:
    safe = failure - 2 * MARGIN
    chernoff = _chernoff(kind, scale, terms, failure)
    window = 2 * _chernoff(kind, scale, terms, FAR) + 2
    if safe <= 0:
        return chernoff
    if window <= CAP:
        return min(chernoff, _from_transform(kind, scale, terms, safe, window))
    if kind == "gaussian":
        return chernoff
    # G = gA + R splits a geometric number exactly into a coarser one and an independent remainder below g.
    coarse = math.ceil(window / CAP * 1.01)
    lost = coarse * math.sqrt(terms * math.log(2 / (safe / 50)))
    inner = scale / coarse
    if inner < 1:
        return chernoff
    window = 2 * _chernoff(kind, inner, terms, FAR) + 2
    if window > CAP:
        return chernoff
    return min(chernoff, coarse * _from_transform(kind, inner, terms, safe * 49 / 50, window) + math.ceil(lost))


def _from_transform(kind: Kind, scale: float, terms: int, failure: float, window: int) -> int:
    size = 1 << max(4, (window - 1).bit_length())
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    law = np.fft.irfft(characteristic(kind, scale, angles) ** terms, size)
    # Index z and size − z hold P(S = ±z), to which everything that wraps around adds at most FAR in all.
    within = law[0] + np.concatenate(([0.0], np.cumsum(2 * law[1 : size // 2])))
    return int(np.searchsorted(within, 1 - failure))


def characteristic(kind: Kind, scale: float, angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """E cos(θZ): a closed form for Laplace noise, a short sum for Gaussian noise."""
    if kind == "laplace":
        miss = -math.expm1(-1 / scale)
        ratio = 1 - miss
        # (1−p)² / ((1−p)² + 4p sin²(θ/2)), which loses no digits where p is near 1.
        law: NDArray[np.float64] = miss**2 / (miss**2 + 4 * ratio * np.sin(angles / 2) ** 2)
        return law
    if scale >= 1:  # by Poisson's summation: images of a Gaussian, of which the third is below e^(−40)
        near = angles - 2 * np.pi * np.round(angles / (2 * np.pi))
        # At a scale of 4 or more the nearest other image is below e^(−78), which is lost beside 1e-16.
        others = () if scale >= 4 else (-2, -1, 1, 2)
        images = [np.exp(-np.square(scale * (near + 2 * np.pi * k)) / 2) for k in (0, *others)]
        mass = 1 + 2 * math.fsum(math.exp(-((2 * math.pi * scale * k) ** 2) / 2) for k in (1, 2))
        return np.asarray(sum(images) / mass)
    integers = np.arange(1, math.ceil(40 * scale) + 2)
    chances = np.exp(-(integers * integers) / (2 * scale * scale))
    total = np.ones_like(angles)
    for z, chance in zip(integers, chances):
        total += 2 * chance * np.cos(angles * z)
    return np.asarray(total / (1 + 2 * float(np.sum(chances))))


def laplace_spread(scale: float, slopes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The s with moments M(λ) = 1/(1 − s) of discrete Laplace noise, where it is below 1: 4p sinh²(λ/2)/(1 − p)².

    That is p·e^λ·(1 − e^(−λ))²/(1 − p)² with p = e^(−1/b): in this form nothing leaves the floats near λ = 1/b, however
    small the scale b is.
    """
    miss = -math.expm1(-1 / scale)
    return np.asarray(np.exp(np.minimum(slopes - 1 / scale, 700.0)) * np.square(np.expm1(-slopes) / miss))


@lru_cache(maxsize=4096)
def _chernoff(kind: Kind, scale: float, terms: int, failure: float) -> int:
    """A t with P(|S| > t) ≤ failure by a moment bound: sub-Gaussian, or the exact moments of Laplace noise.

    P(S > t) ≤ M(λ)^n e^(−λt) holds for every λ in (0, 1/scale), so any λ gives a valid t; the best of a grid is taken.
    """
    wanted = math.log(2 / failure)
    if kind == "gaussian":
        return math.ceil(scale * math.sqrt(2 * terms * wanted) * (1 + MARGIN))
    shares = np.concatenate((np.geomspace(1e-9, 0.5, 400), 1 - np.geomspace(1e-6, 0.5, 100)))
    slopes = np.minimum(shares / scale, 600.0)  # beyond, sinh leaves the floats
    spread = laplace_spread(scale, slopes)
    usable = spread < 1
    moments = -np.log1p(-spread[usable])
    return math.ceil(float(np.min((terms * moments + wanted) / slopes[usable])) * (1 + MARGIN))


def weighted_quantile(law: Noise, weights: NDArray[np.float64], confidence: float) -> float:
    """A t with P(|Σ w_i Z_i| ≤ t) ≥ confidence for independent noises of one law.

    Weights of one size: the exact quantile of their sum. Otherwise a moment bound: discrete Gaussian noise is
    sub-Gaussian with parameter σ (Canonne, Kamath & Steinke 2020); of Laplace noise the exact moments are taken.
    """
    sizes = np.abs(weights[weights != 0]).astype(np.float64)
    if not len(sizes):
        return 0.0
    largest = float(sizes.max())
    if float(sizes.min()) == largest:
        return largest * sum_quantile(law.kind, law.scale, len(sizes), confidence)
    wanted = math.log(2 / (1 - confidence))
    if law.kind == "gaussian":
        return law.scale * math.sqrt(2 * wanted * float(np.sum(sizes * sizes))) * (1 + MARGIN)
    best = math.inf
    for share in np.geomspace(1e-4, 0.98, 80):
        slope = min(share / law.scale, 600.0) / largest
        spread = laplace_spread(law.scale, slope * sizes)
        if float(spread.max()) < 1:
            best = min(best, (wanted - float(np.sum(np.log1p(-spread)))) / slope)
    return best * (1 + MARGIN)


def mixture_quantile(law: Noise, squares: float, largest: float, failure: float) -> float:
    """A t with P(|Σ w_i Z_i| > t) ≤ failure, given Σ w_i² ≤ squares and that no |w_i| is above `largest`.

    Gaussian noise is sub-Gaussian, and from σ = 3 on nearly normal, which gives a smaller t. With G_i normal of
    variance τ² and c = σ²τ²/(σ² + τ²), the density of Z_i + G_i is that of a normal law of variance σ² + τ² times at
    most Σ_k e^(−2π²ck²), by Poisson's summation; c = 2 makes that 1 + 10⁻¹⁶, and for a million noises 1 + 10⁻¹⁰. Let
    G = Σ w_i G_i. It is symmetric and independent of S = Σ w_i Z_i, so for every h ≥ 0
    P(|S| > t)·P(G ≤ h) ≤ P(|S + G| > t − h), which is a normal tail.

    Laplace noise: ln E e^(λwZ) is convex in w² and 0 at 0 (its series in w² has no negative coefficient), so that all
    noises together have at most the moments of squares/largest² noises that weigh `largest` each.
    """
    if squares <= 0 or law.scale <= 0:
        return 0.0
    root, wanted = math.sqrt(squares), math.log(2 / failure)
    if law.kind == "laplace":
        weight = min(largest, root)
        shares = np.concatenate((np.geomspace(1e-4, 0.5, 60), 1 - np.geomspace(1e-6, 0.5, 60)))
        slopes = np.minimum(shares / law.scale, 600.0)
        spread = laplace_spread(law.scale, slopes)
        usable = spread < 1
        moments = -np.log1p(-spread[usable]) * (squares / weight**2)
        return float(np.min((moments + wanted) / slopes[usable])) * weight * (1 + MARGIN)
    best = law.scale * root * math.sqrt(2 * wanted)
    if law.scale >= 3:
        added = math.sqrt(2 / (1 - 2 / law.scale**2))
        for held in np.linspace(0.0, 6.0, 61).tolist():
            level = NormalDist().inv_cdf(1 - failure * NormalDist().cdf(held) * (1 - MARGIN) / 2)
            best = min(best, root * (held * added + level * math.hypot(law.scale, added)))
    return best * (1 + MARGIN)


def shown_interval(
    scale: float, counts: NDArray[np.int64], threshold: int, confidence: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Intervals for true counts c ≥ 1 of which only y = c + Z is shown, and only where y reached a threshold τ.

    Z is discrete Laplace noise. A count that is shown had high noise more often than not, so y ± a quantile of Z would
    miss too often, and for a rare record that was shown it would always miss. The ends therefore hold given that y
    was shown. The low end is the least c with P(Z ≥ y − c | Z ≥ τ − c) > α/2, the high end the largest c with
    P(Z ≤ y − c | Z ≥ τ − c) > α/2. Given that it is shown, y grows with c in distribution (its law has a monotone
    likelihood ratio). So both ends are found by bisection, and each fails with probability α/2 at most.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence must be above 0 and below 1, not {confidence}")
    shown, places = np.unique(counts, return_inverse=True)
    least = (1 - confidence) / 2 * (1 - MARGIN) - 1e-15
    # Given c, P(shown y or more) = upper(y − c) / upper(τ − c).
    low = _first(lambda c: _beyond(scale, shown - c, threshold - c) > least, np.zeros_like(shown), shown)
    quantile = sum_quantile("laplace", scale, 1, confidence) + 1 if scale else 1
    # Without the condition high would be larger still, and at most y + quantile.
    above = _first(lambda c: 1 - _beyond(scale, shown - c + 1, threshold - c) <= least, shown, shown + quantile)
    return low[places], above[places] - 1


def _first(
    holds: Callable[[NDArray[np.int64]], NDArray[np.bool_]], low: NDArray[np.int64], high: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The least integers above `low`, and at most `high`, from which on something holds."""
    while (high - low > 1).any():
        middle = (low + high) // 2
        found = holds(middle) & (middle > low)
        low, high = np.where(found, low, middle), np.where(found, middle, high)
    return high


def _beyond(scale: float, far: NDArray[np.int64], near: NDArray[np.int64]) -> NDArray[np.float64]:
    """P(Z ≥ far | Z ≥ near) for discrete Laplace noise and far ≥ near.

    P(Z ≥ t) is p^t/(1+p) for t > 0, with p = e^(−1/scale), and 1 − p^(1−t)/(1+p) for t ≤ 0.
    """
    ratio = math.exp(-1 / scale) if scale else 0.0

    def upper(t: NDArray[np.int64]) -> NDArray[np.float64]:
        tail = np.power(ratio, np.where(t > 0, t, 1 - t).astype(np.float64)) / (1 + ratio)
        return np.where(t > 0, tail, 1 - tail)

    # Both in the upper tail, where the chances of either may be too small for a float: their ratio is not.
    chances = np.power(ratio, (far - near).astype(np.float64))
    known = near <= 0
    chances[known] = upper(far[known]) / upper(near[known])
    return chances


def variance_of(law: Noise) -> float:
    """The variance of one draw of the discrete law, exact to rounding.

    The continuous laws' variances, 2b² and σ², are nearly right for wide noise alone. Where the scale is below 1 most
    draws are 0, and they would be far too large. Laplace: 1/(2·sinh²(1/2b)). Gaussian: σ² to all digits from σ = 3 on,
    the sum over the integers below.
    """
    if law.scale <= 1e-2:
        return 0.0  # below 10⁻⁴³
    if law.kind == "laplace":
        return 0.5 / math.sinh(0.5 / law.scale) ** 2
    return law.scale * law.scale if law.scale >= 3 else moments_of(law)[0]


def deviation_of(law: Noise) -> float:
    """The standard deviation of one draw of the discrete law: the root of `variance_of`."""
    return math.sqrt(variance_of(law))


@lru_cache(maxsize=64)
def moments_of(law: Noise) -> tuple[float, float]:
    """(E Z², E Z⁴) of one noise: sums over the integers where they are short, the continuous law's where they are long.

    For wide noise the two agree to within 1/scale² (Laplace), and to all digits (Gaussian).
    """
    if law.scale > 1000:
        square = law.scale**2
        return (square, 3 * square**2) if law.kind == "gaussian" else (2 * square - 1 / 6, 24 * square**2)
    integers = np.arange(1, math.ceil((40 if law.kind == "gaussian" else 800) * law.scale) + 2, dtype=float)
    power = integers / law.scale
    chances = np.exp(-power * power / 2 if law.kind == "gaussian" else -power)
    total = 1 + 2 * float(chances.sum())
    return 2 * float((chances * integers**2).sum()) / total, 2 * float((chances * integers**4).sum()) / total
