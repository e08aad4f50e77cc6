"""Theorems of composition as pure functions, and their inverses.

Everything that is promised is rounded outward. Closed forms are short sums of well-conditioned terms, so their error is
a few units in the last place of the terms' total size; `_up` adds 2⁻⁴⁰ of that size (8,000 units), far more than the
arithmetic and the library's functions can lose. Inverses return the end of a bisection that was itself *checked* to
satisfy the rounded theorem. A comparison of several theorems is honest only for acts fixed before the first draw.

References: Dwork & Roth 2014 (the book), Theorems 3.14–3.22; Dwork, Rothblum & Vadhan 2010, Theorems III.1–III.3, whose
Definition III.1 (an adversary picks databases and mechanisms as it goes) all of them allow; Bun & Steinke 2016;
Kairouz, Oh & Viswanath 2015; Canonne, Kamath & Steinke 2020; Balle & Wang 2018.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

__all__ = [
    "CompositionError",
    "advanced",
    "advanced_approximate",
    "advanced_heterogeneous",
    "advanced_share",
    "advanced_sharp",
    "basic",
    "classical_sigma",
    "corollary_share",
    "expected_loss",
    "gaussian_delta",
    "loss_distribution_epsilon",
    "optimal_delta",
    "optimal_epsilon",
    "optimal_share",
    "zcdp",
    "zcdp_share",
    "zcdp_simple",
]

_MARGIN = 2.0**-40


class CompositionError(ValueError):
    """Parameters for which a theorem of composition says nothing."""


def _up(value: float, size: float | None = None) -> float:
    """`value` enlarged beyond any rounding error of the sum it came from, whose terms have this total size."""
    return value + _MARGIN * (abs(value) if size is None else size)


def _largest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number found in [low, high] for which a decreasing property was checked to hold; low must have it."""
    if holds(high):
        return high
    while high - low > 2.0**-50 * high:
        # Halving exponents first: the answer may lie many orders of magnitude below `high`.
        middle = math.sqrt(low * high) if low > 0 and high > 4 * low else (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _check(delta: float) -> None:
    if not _real(delta) or not 0 < delta < 1:
        raise CompositionError(f"this theorem needs a delta above 0 and below 1, not {delta!r}")


def _check_losses(*losses: float | Fraction, name: str = "an epsilon") -> None:
    for loss in losses:
        if not _real(loss) or not 0 <= loss < math.inf:
            raise CompositionError(f"{name} is a number from 0 on, not {loss!r}")


def _check_count(count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < 0:
        raise CompositionError(f"the number of acts is a whole number from 0 on, not {count!r}")


def _listed(epsilons: Iterable[float]) -> list[float]:
    if not isinstance(epsilons, Iterable) or isinstance(epsilons, str | bytes):
        raise CompositionError("give the epsilons of all acts as a list, as in [0.1, 0.1, 0.2]")
    listed = list(epsilons)
    _check_losses(*listed)
    return listed


def _rise(epsilon: float) -> float:
    """ε(e^ε − 1), without limit where no float holds it."""
    return epsilon * math.expm1(epsilon) if epsilon < 700 else math.inf


def basic(guarantees: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Theorem 3.16, and III.1 for equal acts: (ε₁, δ₁), (ε₂, δ₂), … compose to (Σε, Σδ), adaptively."""
    pairs = [_pair(each) for each in guarantees] if isinstance(guarantees, Iterable) else [_pair(guarantees)]
    return _up(math.fsum(e for e, _ in pairs)), min(1.0, _up(math.fsum(d for _, d in pairs)))


def _pair(guarantee: object) -> tuple[float, float]:
    if not isinstance(guarantee, tuple | list) or len(guarantee) != 2:
        raise CompositionError("give each guarantee as a pair (epsilon, delta), as in [(0.5, 0), (0.5, 1e-6)]")
    epsilon, delta = guarantee
    _check_losses(epsilon)
    if not _real(delta) or not 0 <= delta <= 1:
        raise CompositionError(f"a delta lies between 0 and 1, not at {delta!r}")
    return epsilon, delta


def expected_loss(epsilon: float) -> float:
    """Lemma III.2 (3.18 in the book): the expected loss of an act of pure ε is at most ε(e^ε − 1); 2ε² up to ε = 1.

    Half of it would do: the worst act, randomised response, loses ε·tanh(ε/2) on average.
    """
    _check_losses(epsilon)
    return _up(_rise(epsilon))


def advanced_approximate(epsilon: float, delta: float, count: int, slack: float) -> tuple[float, float]:
    """Theorem III.3: k acts of (ε, δ) each keep (ε', kδ + δ') at any slack δ' > 0, adaptively.

    With δ = 0 these are pure acts, and δ' is then the whole price of the smaller ε': without it the theorem is false.
    (The book's Theorem 3.20 is printed "for all δ' ≥ 0".)
    """
    if not _real(delta) or not 0 <= delta < 1:
        raise CompositionError(f"a delta lies between 0 and 1, not at {delta!r}")
    return advanced(epsilon, count, slack), min(1.0, _up(count * delta + slack))


def advanced(epsilon: float, count: int, delta: float) -> float:
    """Theorems III.3 and 3.20: ε' = √(2k ln(1/δ'))·ε + kε(e^ε − 1) for k acts of ε each, at slack δ' > 0."""
    _check(delta)
    _check_losses(epsilon)
    _check_count(count)
    if not count:
        return 0.0
    return _up(math.sqrt(2 * count * math.log(1 / delta)) * epsilon + count * _rise(epsilon))


def advanced_heterogeneous(epsilons: Sequence[float], delta: float) -> float:
    """Theorem 3.20 for unequal acts: √(2 ln(1/δ') Σε²) + Σε(e^ε − 1), by the same martingale."""
    _check(delta)
    listed = _listed(epsilons)
    squares = math.fsum(e * e for e in listed)
    return _up(math.sqrt(2 * math.log(1 / delta) * squares) + math.fsum(_rise(e) for e in listed))


def advanced_sharp(epsilons: Sequence[float], delta: float) -> float:
    """The same with the exact worst expected loss of one act, ε·tanh(ε/2), in place of ε(e^ε − 1)."""
    _check(delta)
    listed = _listed(epsilons)
    squares = math.fsum(e * e for e in listed)
    return _up(math.sqrt(2 * math.log(1 / delta) * squares) + math.fsum(e * math.tanh(e / 2) for e in listed))


def advanced_share(epsilon: float, count: int, delta: float) -> float:
    """Theorem 3.20 inverted: the largest ε₀ that each of `count` acts may have, so that together they keep (ε, δ)."""
    _check_losses(epsilon)
    return _largest(lambda share: advanced(share, count, delta) <= epsilon, 0.0, min(epsilon, 1e3))


def corollary_share(epsilon: float, count: int, delta: float) -> float:
    """Corollary 3.21: ε / (2√(2k ln(1/δ'))), for 0 < ε < 1.

    The printed corollary is false for δ' near 1 (0.99 at δ' = 0.9 costs 1.72), so the share is returned only after
    Theorem 3.20 has confirmed it. It wastes about half the budget: `advanced_share` does not.
    """
    _check(delta)
    _check_losses(epsilon)
    _check_count(count)
    if not 0 < epsilon < 1:
        raise CompositionError("Corollary 3.21 is stated for an epsilon between 0 and 1: use advanced_share")
    share = epsilon / (2 * math.sqrt(2 * max(count, 1) * math.log(1 / delta)))
    if advanced(share, count, delta) > epsilon:
        raise CompositionError("Corollary 3.21 does not hold for a delta this near 1: use advanced_share")
    return share


def zcdp_simple(rho: float, delta: float) -> float:
    """ρ-zCDP implies (ρ + 2√(ρ ln(1/δ)), δ) for every δ > 0 (Bun & Steinke, Proposition 1.3)."""
    _check(delta)
    _check_losses(rho, name="a rho")
    return _up(rho + 2 * math.sqrt(rho * math.log(1 / delta)))


@lru_cache(maxsize=4096)
def zcdp(rho: float, delta: float) -> float:
    """The tight conversion: the least ε with inf over α > 1 of e^((α−1)(αρ−ε)) / (α−1) · (1 − 1/α)^α ≤ δ.

    Solved for ε this is αρ + (ln(1/δ) − ln(α−1) + α ln(1−1/α)) / (α−1), which is a valid ε for *every* α; so an
    imperfect minimiser costs a little ε and never the guarantee (Canonne, Kamath & Steinke, Proposition 12).
    """
    _check(delta)
    _check_losses(rho, name="a rho")
    if not rho:
        return 0.0
    surprise = math.log(1 / delta)

    def slope(excess: float) -> float:
        # (α−1)² times the derivative: ρ(α−1)² − ln(1/δ) + ln(α−1) − ln(1−1/α), increasing in α.
        return rho * excess * excess - surprise + math.log1p(excess)

    low, high = -60.0, 60.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(math.exp(middle)) < 0 else (low, middle)
    best = math.inf
    for exponent in (low, high):
        excess = math.exp(exponent)
        alpha = 1 + excess
        # (1 − 1/α) = (α−1)/α, written so that no digits are lost at either end of the range of α.
        power = -alpha * math.log1p(1 / excess)
        value = alpha * rho + (surprise - exponent + power) / excess
        size = alpha * rho + (surprise + abs(exponent) + abs(power)) / excess
        best = min(best, _up(value, size))
    return max(best, 0.0)


@lru_cache(maxsize=4096)
def zcdp_share(epsilon: float, delta: float) -> float:
    """The largest ρ whose tight conversion at δ is at most ε, rounded down."""
    _check(delta)
    _check_losses(epsilon)
    return _largest(lambda rho: zcdp(rho, delta) <= epsilon, 0.0, max(2 * epsilon, 1.0))


@lru_cache(maxsize=4096)
def optimal_delta(epsilon: float, count: int, share: float) -> float:
    """The exact δ(ε) of `count` acts of pure ε₀ = `share`, rounded up (Kairouz, Oh & Viswanath, Theorem 3.3).

    δ(ε) = Σ_i Bin(i; k, p)·(1 − e^(ε−(2i−k)ε₀))₊ with p = e^ε₀ / (1+e^ε₀): all terms are positive, so logarithms keep
    it stable. The logarithm of a term loses a few units in the last place of log k!, which the margin covers; the far
    tail is bounded by a geometric series.
    """
    _check_losses(epsilon, share)
    _check_count(count)
    if Fraction(epsilon) >= Fraction(share) * count:
        return 0.0  # no loss is larger than all of them together
    up = -math.log1p(math.exp(-share))
    down = up - share
    first = max(0, math.floor((epsilon / share + count) / 2))
    if first > count:
        return 0.0
    chance = math.exp(up)
    middle = max(first, count * chance)
    last = min(count, math.ceil(middle + 40 * math.sqrt(count * chance * (1 - chance)) + 200))
    terms = np.arange(first, last + 1)
    from scipy.special import gammaln

    logs = gammaln(count + 1) - gammaln(terms + 1) - gammaln(count - terms + 1) + terms * up + (count - terms) * down
    chances = np.exp(logs)
    total = float(np.sum(chances * -np.expm1(np.minimum(0.0, epsilon - (2 * terms - count) * share))))
    if last < count:
        ratio = (count - last) / (last + 1) * math.exp(share)
        if ratio >= 1:
            raise CompositionError("this many acts are too many for optimal composition: use concentrated accounting")
        total += float(chances[-1]) * ratio / (1 - ratio)
    # Each log term has error below 2^-50 of its largest part, and the loss (2i−k)ε₀ − ε below 2^-50 of its own size.
    size = float(gammaln(count + 1)) + count * (1 + share) + abs(epsilon) + 1
    return min(1.0, total * (1 + 2.0**-48 * size) + 2.0**-50 * count * share * float(np.sum(chances)))


def optimal_epsilon(count: int, share: float, delta: float) -> float:
    """The least ε found with `optimal_delta` ≤ δ; never above basic composition."""
    _check(delta)
    _check_losses(share)
    _check_count(count)
    whole = _up(count * share)
    gap = _largest(lambda slack: optimal_delta(whole - slack, count, share) <= delta, 0.0, whole)
    return whole - gap


def optimal_share(epsilon: float, count: int, delta: float) -> float:
    """The largest ε₀ that each of `count` pure acts may have, so that together they keep (ε, δ)."""
    _check(delta)
    _check_losses(epsilon)
    _check_count(count)
    if not count:
        return epsilon
    start = epsilon / count * (1 - _MARGIN)
    # A single act 40 above ε has δ(ε) above 1/2 already.
    return _largest(lambda share: optimal_delta(epsilon, count, share) <= delta, start, epsilon + 40)


def loss_distribution_epsilon(acts: Mapping[Fraction, int], delta: float) -> float:
    """ε at δ of pure acts {ε_i: how often}, by their privacy loss distribution (a pessimistic estimate).

    Each act is dominated by randomised response, whose loss is ±ε_i. Losses are put on a lattice exactly where the ε_i
    have a common measure that is coarse enough, and rounded up otherwise. The library convolves by FFT in floats, so
    the question is asked at δ less a cushion of δ/1000 (at least 1e-12), far above what a convolution loses.
    """
    if not _real(delta) or not 1e-10 <= delta < 1:
        raise CompositionError("privacy loss distributions are kept to a delta of at least 1e-10")
    if not isinstance(acts, Mapping):
        raise CompositionError("give the acts as a mapping from an epsilon to how often it occurs, as in {0.1: 100}")
    for share, times in acts.items():
        _check_losses(share)
        _check_count(times)
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    acts = {Fraction(share): times for share, times in acts.items()}
    whole = sum((share * times for share, times in acts.items()), Fraction(0))
    if not whole:
        return 0.0
    step = _common_measure(acts)
    if whole / step > 1 << 18:
        step = whole / (1 << 18)
    width = math.nextafter(float(step), math.inf)
    together = None
    for share, times in acts.items():
        if not share or not times:
            continue
        lattice, chance = math.ceil(share / step), 1 / (1 + math.exp(-float(share)))
        # A larger chance of the larger loss dominates; so does rounding −ε up.
        chance = min(1.0, _up(chance))
        law = {lattice: chance, math.ceil(-share / step): 1 - chance}
        losses = PrivacyLossDistribution.create_from_rounded_probability(law, 0.0, width).self_compose(times)
        together = losses if together is None else together.compose(losses)
    assert together is not None
    epsilon = float(together.get_epsilon_for_delta(delta - max(delta / 1000, 1e-12)))
    return min(_up(epsilon), _up(float(whole)))


def _common_measure(acts: Iterable[Fraction]) -> Fraction:
    shares = [share for share in acts if share]
    bottom = math.lcm(*(share.denominator for share in shares))
    return Fraction(math.gcd(*(int(share * bottom) for share in shares)), bottom)


def gaussian_delta(sigma: float, epsilon: float) -> float:
    """The exact δ(ε) of *continuous* Gaussian noise of deviation σ on sensitivity 1 (Balle & Wang, Theorem 8)."""
    _check_losses(epsilon)
    if not _real(sigma) or not 0 < sigma < math.inf:
        raise CompositionError(f"a standard deviation is a number above 0, not {sigma!r}")
    from scipy.special import log_ndtr

    first = log_ndtr(1 / (2 * sigma) - epsilon * sigma)
    second = epsilon + log_ndtr(-1 / (2 * sigma) - epsilon * sigma)
    return min(1.0, _up(float(np.exp(first) - np.exp(second)), float(np.exp(first))))


def classical_sigma(epsilon: float, delta: float) -> float:
    """Theorem 3.22: σ = √(2 ln(1.25/δ)) / ε suffices for sensitivity 1, for ε < 1 alone: it is false for large ε."""
    _check(delta)
    _check_losses(epsilon)
    if not 0 < epsilon < 1:
        raise CompositionError("Theorem 3.22 is stated for an epsilon between 0 and 1: use concentrated accounting")
    return _up(math.sqrt(2 * math.log(1.25 / delta)) / epsilon)
