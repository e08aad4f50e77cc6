"""From ρ of zero-concentrated differential privacy to (ε, δ) and back; and the exact δ of Gaussian noise."""

from __future__ import annotations

import math
from functools import lru_cache

from .outward import CompositionError, check, is_real, largest, up


def zcdp_simple(rho: float, delta: float) -> float:
    """ρ-zCDP implies (ρ + 2√(ρ ln(1/δ)), δ) for every δ > 0 (Bun & Steinke, Proposition 1.3).

    Args:
        rho: the ρ of zero-concentrated differential privacy.
        delta: the slack δ, above 0 and below 1.

    Returns:
        The ε at δ, rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.zcdp_simple(0.1, 1e-6), 4)
        2.4508
    """
    check(rho, delta=delta, name="a rho")
    return up(rho + 2 * math.sqrt(rho * math.log(1 / delta)))


@lru_cache(maxsize=4096)
def zcdp(rho: float, delta: float) -> float:
    """The tight conversion: the least ε with inf over α > 1 of e^((α−1)(αρ−ε)) / (α−1) · (1 − 1/α)^α ≤ δ.

    Solved for ε this is αρ + (ln(1/δ) − ln(α−1) + α ln(1−1/α)) / (α−1), which is a valid ε for *every* α; so an
    imperfect minimiser costs a little ε and never the guarantee (Canonne, Kamath & Steinke, Proposition 12).

    Args:
        rho: the ρ of zero-concentrated differential privacy.
        delta: the slack δ, above 0 and below 1.

    Returns:
        The ε at δ, rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.zcdp(0.1, 1e-6), 4)
        2.1419
    """
    check(rho, delta=delta, name="a rho")
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
        best = min(best, up(value, size))
    return max(best, 0.0)


@lru_cache(maxsize=4096)
def zcdp_share(epsilon: float, delta: float) -> float:
    """The largest ρ whose tight conversion at δ is at most ε.

    Args:
        epsilon: the ε of the budget.
        delta: the δ of the budget, above 0 and below 1.

    Returns:
        The ρ, rounded down.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.zcdp_share(1.0, 1e-6), 6)
        0.024356
    """
    check(epsilon, delta=delta)
    return largest(lambda rho: zcdp(rho, delta) <= epsilon, 0.0, max(2 * epsilon, 1.0))


_FAR_OUT = 37.0
"""From here on the tail of a normal law is too small for a float."""


def gaussian_delta(sigma: float, epsilon: float) -> float:
    """The exact δ(ε) of *continuous* Gaussian noise of deviation σ on sensitivity 1 (Balle & Wang, Theorem 8).

    Args:
        sigma: the standard deviation of the noise, for a sensitivity of 1.
        epsilon: the ε at which δ is wanted.

    Returns:
        The δ, rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.gaussian_delta(2.0, 1.0), 6)
        0.00683
    """
    check(epsilon)
    if not is_real(sigma) or not 0 < sigma < math.inf:
        raise CompositionError(f"a standard deviation is a number above 0, not {sigma!r}")
    x, a = 1 / (2 * sigma) - epsilon * sigma, 1 / (2 * sigma) + epsilon * sigma
    first = math.erfc(-x / math.sqrt(2)) / 2
    if a < _FAR_OUT:
        second = math.exp(epsilon + math.log(math.erfc(a / math.sqrt(2)) / 2))
    else:
        # e^ε·φ(a) = φ(x), so that nothing cancels; and Φ(−a) ≥ φ(a)·(1/a − 1/a³), so that δ is only rounded up.
        second = math.exp(-x * x / 2) / math.sqrt(2 * math.pi) * (1 - 1 / a / a) / a
    return min(1.0, max(0.0, up(first - second, first)))
