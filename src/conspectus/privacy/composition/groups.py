"""What a promise about one unit says about several together."""

from __future__ import annotations

import math

from .outward import CompositionError, check, is_real, up


def group(epsilon: float, delta: float, units: int) -> tuple[float, float]:
    """k units together: (ε, δ) for one is (kε, δ·(1 + e^ε + … + e^((k−1)ε))) for k, which is at most δ·k·e^((k−1)ε).

    Tables that k units tell apart are joined by k steps of one unit. Along each, P_i(S) ≤ e^ε·P_(i+1)(S) + δ for every
    set S; put into one another, P_0(S) ≤ e^(kε)·P_k(S) + δ·Σ_(i<k) e^(iε). No smaller δ holds for all mechanisms: let S
    have the probability p_0 = 0 and p_(i+1) = e^ε·p_i + δ along the way.

    Args:
        epsilon: the ε of the promise about one unit.
        delta: its δ, from 0 to 1.
        units: how many units there are.

    Returns:
        The pair (ε, δ) of all of them together, rounded up; a δ of 1 promises nothing.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> epsilon, delta = cs.composition.group(1.0, 1e-6, 3)
        >>> round(epsilon, 4), round(1e6 * delta, 4)  # 1 + e + e²
        (3.0, 11.1073)
    """
    check(epsilon, count=units, counted="units")
    if not is_real(delta) or not 0 <= delta <= 1:
        raise CompositionError(f"a delta lies between 0 and 1, not at {delta!r}")
    if not delta or not units:
        grown = 0.0
    elif units * epsilon > 700:
        grown = 1.0
    else:
        grown = delta * (math.expm1(units * epsilon) / math.expm1(epsilon) if epsilon else units)
    return up(units * epsilon), min(1.0, up(grown))


def group_rho(rho: float, units: int) -> float:
    """k units together: ρ-zCDP for one is k²ρ-zCDP for k (Bun & Steinke, Proposition 1.9).

    Args:
        rho: the ρ of the promise about one unit.
        units: how many units there are.

    Returns:
        The ρ of all of them together, rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.group_rho(0.01, 3), 6)
        0.09
    """
    check(rho, count=units, name="a rho", counted="units")
    return up(units * units * rho)
