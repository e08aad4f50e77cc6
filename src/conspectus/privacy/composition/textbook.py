"""The theorems of the book and of the paper on boosting: basic and advanced composition, and their inverses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from .outward import CompositionError, check, is_real, largest, up


def basic(guarantees: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Theorem 3.16, and III.1 for equal acts: (ε₁, δ₁), (ε₂, δ₂), … compose to (Σε, Σδ), adaptively.

    Args:
        guarantees: pairs (ε, δ), one for each act.

    Returns:
        The pair (ε, δ) that all acts keep together, rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> cs.composition.basic([(0.5, 0), (0.25, 1e-6)])  # a little above (0.75, 1e-6)
        (0.750000000000682..., 1.000000000000909...e-06)
    """
    pairs = [_pair(each) for each in guarantees] if isinstance(guarantees, Iterable) else [_pair(guarantees)]
    return up(math.fsum(e for e, _ in pairs)), min(1.0, up(math.fsum(d for _, d in pairs)))


def _pair(guarantee: object) -> tuple[float, float]:
    if not isinstance(guarantee, tuple | list) or len(guarantee) != 2:
        raise CompositionError("give each guarantee as a pair (epsilon, delta), as in [(0.5, 0), (0.5, 1e-6)]")
    epsilon, delta = guarantee
    check(epsilon)
    if not is_real(delta) or not 0 <= delta <= 1:
        raise CompositionError(f"a delta lies between 0 and 1, not at {delta!r}")
    return epsilon, delta


def expected_loss(epsilon: float) -> float:
    """Lemma III.2 (3.18 in the book): the expected loss of an act of pure ε is at most ε(e^ε − 1); 2ε² up to ε = 1.

    Half of it would do: the worst act, randomised response, loses ε·tanh(ε/2) on average.

    Args:
        epsilon: the ε of one act.

    Returns:
        The bound, rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.expected_loss(0.1), 6)
        0.010517
    """
    check(epsilon)
    return up(_rise(epsilon))


def advanced_approximate(epsilon: float, delta: float, count: int, slack: float) -> tuple[float, float]:
    """Theorem III.3: k acts of (ε, δ) each keep (ε', kδ + δ') at any slack δ' > 0, adaptively.

    With δ = 0 these are pure acts, and δ' is then the whole price of the smaller ε': without it the theorem is false.
    (The book's Theorem 3.20 is printed "for all δ' ≥ 0".)

    Args:
        epsilon: the ε of each act.
        delta: the δ of each act, from 0 on.
        count: how many acts there are.
        slack: the δ' of the theorem, above 0 and below 1.

    Returns:
        The pair (ε', kδ + δ'), rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> epsilon, delta = cs.composition.advanced_approximate(0.1, 1e-9, 100, 1e-6)
        >>> round(epsilon, 4), round(delta, 9)
        (6.3082, 1.1e-06)
    """
    if not is_real(delta) or not 0 <= delta < 1:
        raise CompositionError(f"a delta lies between 0 and 1, not at {delta!r}")
    return advanced(epsilon, count, slack), min(1.0, up(count * delta + slack))


def advanced(epsilon: float, count: int, delta: float) -> float:
    """Theorems III.3 and 3.20: ε' = √(2k ln(1/δ'))·ε + kε(e^ε − 1) for k acts of ε each, at slack δ' > 0.

    Args:
        epsilon: the ε of each act.
        count: how many acts there are.
        delta: the slack δ, above 0 and below 1.

    Returns:
        The ε' that all acts keep together at δ', rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.advanced(0.01, 10_000, 1e-6), 4)
        6.2615
    """
    check(epsilon, delta=delta, count=count)
    if not count:
        return 0.0
    return up(math.sqrt(2 * count * math.log(1 / delta)) * epsilon + count * _rise(epsilon))


def advanced_heterogeneous(epsilons: Sequence[float], delta: float) -> float:
    """Theorem 3.20 for unequal acts: √(2 ln(1/δ') Σε²) + Σε(e^ε − 1), by the same martingale.

    Args:
        epsilons: the ε of every act.
        delta: the slack δ, above 0 and below 1.

    Returns:
        The ε' that all acts keep together at δ', rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.advanced_heterogeneous([0.1] * 50 + [0.2] * 10, 1e-6), 4)
        5.9554
    """
    return _unequal(epsilons, delta, _rise)


def advanced_sharp(epsilons: Sequence[float], delta: float) -> float:
    """Theorem 3.20 with the exact worst expected loss of one act, ε·tanh(ε/2), in place of ε(e^ε − 1).

    Args:
        epsilons: the ε of every act.
        delta: the slack δ, above 0 and below 1.

    Returns:
        The ε' that all acts keep together at δ', rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.advanced_sharp([0.1] * 100, 1e-6), 4)
        5.7561
    """
    return _unequal(epsilons, delta, lambda epsilon: epsilon * math.tanh(epsilon / 2))


def _unequal(epsilons: Iterable[float], delta: float, expected: Callable[[float], float]) -> float:
    """Theorem 3.20 for unequal acts, whose expected losses are at most these."""
    if not isinstance(epsilons, Iterable) or isinstance(epsilons, str | bytes):
        raise CompositionError("give the epsilons of all acts as a list, as in [0.1, 0.1, 0.2]")
    listed = list(epsilons)
    check(*listed, delta=delta)
    squares = math.fsum(e * e for e in listed)
    return up(math.sqrt(2 * math.log(1 / delta) * squares) + math.fsum(map(expected, listed)))


def advanced_share(epsilon: float, count: int, delta: float) -> float:
    """Theorem 3.20 inverted: the largest ε₀ that each of `count` acts may have, so that together they keep (ε, δ).

    Args:
        epsilon: the ε that all acts may have together.
        count: how many acts there are.
        delta: the δ that they may have together, above 0 and below 1.

    Returns:
        The share ε₀ of one act, rounded down.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.advanced_share(1.0, 100, 1e-6), 6)
        0.018376
    """
    check(epsilon)
    return largest(lambda share: advanced(share, count, delta) <= epsilon, 0.0, min(epsilon, 1e3))


def corollary_share(epsilon: float, count: int, delta: float) -> float:
    """Corollary 3.21: ε / (2√(2k ln(1/δ'))), for 0 < ε < 1.

    The printed corollary is false for δ' near 1 (0.99 at δ' = 0.9 costs 1.72), so the share is returned only after
    Theorem 3.20 has confirmed it. It wastes about half the budget: `advanced_share` does not.

    Args:
        epsilon: the ε that all acts may have together, below 1.
        count: how many acts there are.
        delta: the slack δ, above 0 and below 1.

    Returns:
        The share of one act.

    Raises:
        CompositionError: ε is not below 1, or Theorem 3.20 does not confirm the share.

    Example:
        >>> round(cs.composition.corollary_share(0.9, 100, 1e-6), 6)
        0.008561
    """
    check(epsilon, delta=delta, count=count)
    if not 0 < epsilon < 1:
        raise CompositionError("Corollary 3.21 is stated for an epsilon between 0 and 1: use advanced_share")
    share = epsilon / (2 * math.sqrt(2 * max(count, 1) * math.log(1 / delta)))
    if advanced(share, count, delta) > epsilon:
        raise CompositionError("Corollary 3.21 does not hold for a delta this near 1: use advanced_share")
    return share


def classical_sigma(epsilon: float, delta: float) -> float:
    """Theorem 3.22: σ = √(2 ln(1.25/δ)) / ε suffices for sensitivity 1, for ε < 1 alone: it is false for large ε.

    Args:
        epsilon: the ε of the budget, below 1.
        delta: the δ of the budget, above 0 and below 1.

    Returns:
        The standard deviation, rounded up.

    Raises:
        CompositionError: a parameter lies where the theorem says nothing.

    Example:
        >>> round(cs.composition.classical_sigma(0.5, 1e-6), 4)
        10.5976
    """
    check(epsilon, delta=delta)
    if not 0 < epsilon < 1:
        raise CompositionError("Theorem 3.22 is stated for an epsilon between 0 and 1: use concentrated accounting")
    return up(math.sqrt(2 * math.log(1.25 / delta)) / epsilon)


def _rise(epsilon: float) -> float:
    """ε(e^ε − 1), without limit where no float holds it."""
    return epsilon * math.expm1(epsilon) if epsilon < 700 else math.inf
