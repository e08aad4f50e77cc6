"""Optimal composition of pure acts, in closed form for equal ones and by privacy loss distributions for others."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

import numpy as np

from .outward import MARGIN, CompositionError, check, is_real, largest, up

_FINEST = 1 << 12
"""Bits of the denominators of shares that are put on a lattice together exactly."""


_MOST_TERMS = 1 << 24
"""Terms of the sum for δ: of each there are several numbers in memory at once, about a gigabyte in all."""

_TOO_MANY = "this many acts are too many for optimal composition: use advanced composition or concentrated accounting"


@lru_cache(maxsize=4096)
def optimal_delta(epsilon: float, count: int, share: float) -> float:
    """The exact δ(ε) of `count` acts of pure ε₀ = `share` (Kairouz, Oh & Viswanath, Theorem 3.3).

    δ(ε) = Σ_i Bin(i; k, p)·(1 − e^(ε−(2i−k)ε₀))₊ with p = e^ε₀ / (1+e^ε₀): all terms are positive, so logarithms keep
    it stable. The logarithm of a term loses a few units in the last place of log k!, which the margin covers; the far
    tail is bounded by a geometric series.

    Args:
        epsilon: the ε at which δ is wanted.
        count: how many acts there are.
        share: the ε₀ of each act.

    Returns:
        The δ, rounded up.

    Raises:
        CompositionError: a parameter is no number from 0 on, or the acts are too many.

    Example:
        >>> round(cs.composition.optimal_delta(1.0, 100, 0.1), 4)
        0.1257
    """
    check(epsilon, share, count=count)
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
    if last - first > _MOST_TERMS:
        raise CompositionError(_TOO_MANY)
    terms = np.arange(first, last + 1)
    from scipy.special import gammaln

    logs = gammaln(count + 1) - gammaln(terms + 1) - gammaln(count - terms + 1) + terms * up + (count - terms) * down
    chances = np.exp(logs)
    total = float(np.sum(chances * -np.expm1(np.minimum(0.0, epsilon - (2 * terms - count) * share))))
    if last < count:
        ratio = (count - last) / (last + 1) * math.exp(share)
        if ratio >= 1:
            raise CompositionError(_TOO_MANY)
        total += float(chances[-1]) * ratio / (1 - ratio)
    # Each log term has error below 2^-50 of its largest part, and the loss (2i−k)ε₀ − ε below 2^-50 of its own size.
    size = float(gammaln(count + 1)) + count * (1 + share) + abs(epsilon) + 1
    return min(1.0, total * (1 + 2.0**-48 * size) + 2.0**-50 * count * share * float(np.sum(chances)))


def optimal_epsilon(count: int, share: float, delta: float) -> float:
    """The least ε found with `optimal_delta` ≤ δ; never above basic composition.

    Args:
        count: how many acts there are.
        share: the ε₀ of each act.
        delta: the δ that all acts may have together, above 0 and below 1.

    Returns:
        The ε, rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.optimal_epsilon(100, 0.1, 1e-6), 4)
        4.7746
    """
    check(share, delta=delta, count=count)
    basic = up(count * share)
    gap = largest(lambda slack: optimal_delta(basic - slack, count, share) <= delta, 0.0, basic)
    return basic - gap


def optimal_share(epsilon: float, count: int, delta: float) -> float:
    """The largest ε₀ that each of `count` pure acts may have, so that together they keep (ε, δ).

    Args:
        epsilon: the ε that all acts may have together.
        count: how many acts there are.
        delta: the δ that they may have together, above 0 and below 1.

    Returns:
        The share ε₀ of one act, rounded down.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.optimal_share(1.0, 100, 1e-6), 6)
        0.024011
    """
    check(epsilon, delta=delta, count=count)
    if not count:
        return epsilon
    start = epsilon / count * (1 - MARGIN)
    # A single act 40 above ε has δ(ε) above 1/2 already.
    return largest(lambda share: optimal_delta(epsilon, count, share) <= delta, start, epsilon + 40)


def loss_distribution_epsilon(acts: Mapping[Fraction, int], delta: float) -> float:
    """ε at δ of pure acts {ε_i: how often}, by their privacy loss distribution (a pessimistic estimate).

    Each act is dominated by randomised response, whose loss is ±ε_i. Losses are put on a lattice exactly where the ε_i
    have a common measure that is coarse enough, and rounded up otherwise. The library convolves by FFT in floats, so
    the question is asked at δ less a cushion of δ/1000 (at least 1e-12), far above what a convolution loses.

    Args:
        acts: from the ε of an act to how often it occurs.
        delta: the δ that all acts may have together, from 1e-10 on and below 1.

    Returns:
        The ε, rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> from fractions import Fraction
        >>> tenth = Fraction(1, 10)
        >>> round(cs.composition.loss_distribution_epsilon({tenth: 50, 2 * tenth: 10}, 1e-6), 2)
        4.35
    """
    if not is_real(delta) or not 1e-10 <= delta < 1:
        raise CompositionError("privacy loss distributions are kept to a delta of at least 1e-10")
    if not isinstance(acts, Mapping):
        raise CompositionError("give the acts as a mapping from an epsilon to how often it occurs, as in {0.1: 100}")
    for share, times in acts.items():
        check(share, count=times)
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    acts = {Fraction(share): times for share, times in acts.items()}
    total = sum((share * times for share, times in acts.items()), Fraction(0))
    if not total:
        return 0.0
    step = _common_measure(acts)
    if not step or total / step > 1 << 18:
        step = total / (1 << 18)
    if sum(math.ceil(share / step) * times for share, times in acts.items()) > 1 << 22:
        # Most acts are far smaller than a step, and would each be rounded up to one: nothing is gained by this.
        return up(_float(total))
    width = math.nextafter(float(step), math.inf)
    together = None
    for share, times in acts.items():
        if not share or not times:
            continue
        lattice, chance = math.ceil(share / step), 1 / (1 + math.exp(-float(share)))
        # A larger chance of the larger loss dominates; so does rounding −ε up.
        chance = min(1.0, up(chance))
        law = {lattice: chance, math.ceil(-share / step): 1 - chance}
        losses = PrivacyLossDistribution.create_from_rounded_probability(law, 0.0, width).self_compose(times)
        together = losses if together is None else together.compose(losses)
    assert together is not None
    epsilon = float(together.get_epsilon_for_delta(delta - max(delta / 1000, 1e-12)))
    return min(up(epsilon), up(_float(total)))


def _float(total: Fraction) -> float:
    """A sum as a float; infinity where it is larger than any."""
    return float(total) if total <= Fraction(sys.float_info.max) else math.inf


def _common_measure(acts: Iterable[Fraction]) -> Fraction:
    """The largest number of which all shares are multiples; 0 where that is far finer than any lattice."""
    bottom = 1
    for share in acts:
        bottom = math.lcm(bottom, share.denominator)
        if bottom.bit_length() > _FINEST:
            return Fraction(0)
    return Fraction(math.gcd(*(int(share * bottom) for share in acts if share)), bottom)
