"""Gaussian noise alone, composed exactly: what discrete noise costs beyond continuous noise is bounded, and small.

Continuous Gaussian noise whose shifts have the squared length μ², in units of the noise and all together, has the exact
δ(ε) of one Gaussian at distance μ (Dong, Roth & Su 2022). Discrete noise of parameter σ is, but for a factor next to 1,
continuous noise of variance (1 − t)·σ² that was rounded at random. So it costs as much as μ²/(1 − t), and the factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from .concentrated import gaussian_delta, zcdp
from .outward import CompositionError, check, is_real, largest, up

Act = tuple[float, float]
"""Of one act: the sum of the squares of what one unit moves, each over the σ² of its noise; and the smallest σ²."""

_STEEP = 2 * math.pi**2
_EXPONENTS = tuple(1.15**k for k in range(9, 33))
"""Values of 2π²·t·σ² that are tried, from 3.5 to 87: the best is taken."""


def gaussian_epsilon(acts: Iterable[Act], delta: float) -> float:
    """The ε at δ of acts of discrete Gaussian noise, all with parameters fixed before the first draw.

    Guarantee: acts of discrete Gaussian noise on integers, each of which one unit moves by no more than its first
    number says, under noise of parameters no smaller than its second, are together (ε, δ)-differentially private,
    however the questions are chosen.

    Args:
        acts: for each act the sum of the squares of what one unit moves, each divided by the σ² of its noise, and the
            smallest σ² of the act, in steps of the integers.
        delta: the slack δ, above 0 and below 1.

    Returns:
        The ε at δ, rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> noise = [(1 / 20**2, 20.0**2)] * 4  # four counts with noise of parameter 20
        >>> round(cs.composition.gaussian_epsilon(noise, 1e-6), 4)
        0.3973
        >>> round(cs.composition.zcdp(4 / (2 * 20**2), 1e-6), 4)
        0.4299
    """
    check(delta=delta)
    listed = tuple(sorted((float(shift), float(square)) for shift, square in acts if shift))
    for shift, square in listed:
        if not (is_real(shift) and 0 < shift < math.inf and is_real(square) and 0 < square < math.inf):
            raise CompositionError("an act of Gaussian noise has a squared shift from 0 on, and a variance above 0")
    return _epsilon(listed, float(delta)) if listed else 0.0


@lru_cache(maxsize=4096)
def _epsilon(acts: tuple[Act, ...], delta: float) -> float:
    shift = up(math.fsum(each for each, _ in acts))
    least = min(square for _, square in acts)
    return min(_with_rounding(acts, shift, exponent / (_STEEP * least), delta) for exponent in _EXPONENTS)


def _with_rounding(acts: tuple[Act, ...], shift: float, t: float, delta: float) -> float:
    """The ε where rounding takes the share t of every variance: see the proof note."""
    if t >= 1:
        return math.inf
    # Σ a over all coordinates that move: a ≤ 2.3·q, and at most shift·σ² of them have this σ.
    factor = up(math.fsum(2.3 * moved * square * math.exp(-_STEEP * t * square) for moved, square in acts))
    aimed = delta * math.exp(-factor) * (1 - 2.0**-40)
    if not 0 < aimed < 1:
        return math.inf
    return up(continuous_epsilon(up(shift / (1 - t)), aimed) + 2.2 * factor)


def continuous_epsilon(mu_squared: float, delta: float) -> float:
    """The ε at δ of *continuous* Gaussian noise, whose shifts have this squared length in units of the noise.

    Args:
        mu_squared: the squared length of what one unit moves, each coordinate in units of its noise.
        delta: the slack δ, above 0 and below 1.

    Returns:
        The ε at δ, rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.continuous_epsilon(1 / 4, 1e-6), 4)
        2.2541
    """
    check(mu_squared, delta=delta, name="a squared shift")
    if not mu_squared:
        return 0.0
    sigma = 1 / math.sqrt(mu_squared) * (1 - 2.0**-45)
    # What concentrated composition says is never less: there the search may begin, and end if rounding spoils it.
    low, high = 0.0, zcdp(up(mu_squared / 2), delta)
    if not math.isfinite(high) or gaussian_delta(sigma, high) > delta:
        return high
    while high - low > 2.0**-40 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(sigma, middle) <= delta else (middle, high)
    return high


@lru_cache(maxsize=4096)
def gaussian_share(epsilon: float, delta: float) -> float:
    """The largest ρ = μ²/2 at which *continuous* Gaussian noise keeps ε at δ: above it no discrete noise does.

    Args:
        epsilon: the ε of the budget.
        delta: the δ of the budget, above 0 and below 1.

    Returns:
        The ρ, rounded down.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.gaussian_share(1.0, 1e-6) / cs.composition.zcdp_share(1.0, 1e-6), 2)
        1.15
    """
    check(epsilon, delta=delta)
    most = max(2 * epsilon, 1.0)
    return largest(lambda rho: rho == 0 or continuous_epsilon(2 * rho, delta) <= epsilon, 0.0, most)
