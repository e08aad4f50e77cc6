"""What a release promises, to whom, and under which neighbouring relation."""

from __future__ import annotations

import decimal
import math
import numbers
from dataclasses import dataclass

from .composition import zcdp
from .relation import Neighbours

LEAST, MOST = 1e-9, 1e15
"""Budgets outside are mistakes: noise beyond 64-bit counts, or none at all."""

LEAST_DELTA = 1e-300
"""A δ below has too few digits left to compute with, and buys nothing that 0 does not."""

LARGE_EPSILON = 10.0
"""Above this ε the worst case is no comfort, and whoever states it says so."""

USUAL_DELTA = 1e-6
"""Where a concentrated guarantee names no δ, its ε is shown at this one."""


class BudgetError(ValueError):
    """A privacy budget that is not one."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What the owner allows: ε alone (pure), ε with δ (approximate), or ρ (concentrated).

    Attributes:
        epsilon: The privacy loss ε; None where ρ is given.
        delta: The slack δ, 0 for a pure budget. With ρ it says at which δ the implied ε is shown.
        rho: The concentrated privacy loss ρ; None where ε is given.

    Raises:
        BudgetError: Not exactly one of ε and ρ is given, or a number is no budget.

    Example:
        >>> Budget(epsilon=1.0).pure
        True
        >>> Budget(epsilon=1.0, delta=1e-6).pure
        False
    """

    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise BudgetError("give a budget as epsilon (with delta for an approximate one) or as rho, and not both")
        # Exact prices are made of these: a number of 32 or 64 bits in a fraction would wrap around.
        for field in ("epsilon", "delta", "rho"):
            if getattr(self, field) is not None:
                object.__setattr__(self, field, _number(field, getattr(self, field)))
        name, value = ("epsilon", self.epsilon) if self.rho is None else ("rho", self.rho)
        if value is None or not math.isfinite(value) or value <= 0:
            raise BudgetError(f"{name} must be a positive number, not {value}")
        if not LEAST <= value <= MOST:
            raise BudgetError(f"{name} = {value:g} is outside {LEAST:g} to {MOST:g}: no noise serves it")
        if self.delta is None or not math.isfinite(self.delta) or not 0 <= self.delta < 1:
            raise BudgetError(f"delta must be at least 0 and below 1, not {self.delta}")
        if 0 < self.delta < LEAST_DELTA:
            raise BudgetError(f"delta = {self.delta:g} is below {LEAST_DELTA:g}: leave it out, for a pure budget")

    @property
    def pure(self) -> bool:
        """Whether it allows ε alone, without any slack."""
        return self.rho is None and self.delta == 0


def large_epsilon(budget: Budget) -> tuple[str, ...]:
    """What is to be said of a budget whose ε hides little; nothing of any other."""
    delta = budget.delta or USUAL_DELTA
    epsilon = zcdp(budget.rho, delta) if budget.rho is not None else budget.epsilon or 0.0
    if epsilon <= LARGE_EPSILON:
        return ()
    implied = "" if budget.rho is None else f", which rho = {budget.rho:g} implies at delta = {delta:g},"
    odds = "the odds of a statement about one person may change by a factor of more than 22,000"
    return (f"epsilon = {printed(epsilon, 4)}{implied} is above {LARGE_EPSILON:g}: {odds}",)


def _number(name: str, value: object) -> float:
    """A number of any type as Python's own float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | decimal.Decimal):
        raise BudgetError(f"{name} must be a number, not {value!r:.40}")
    try:
        return float(value)
    except (OverflowError, ValueError):
        raise BudgetError(f"{name} is outside {LEAST:g} to {MOST:g}: no noise serves it") from None


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The promise: on neighbouring tables the outputs are (ε, δ)-indistinguishable; and ρ-zCDP where ρ is given.

    Attributes:
        epsilon: ε; None only for a concentrated guarantee for which no δ was named.
        delta: δ, up to which ε holds.
        rho: ρ; None for a guarantee in ε alone.
        neighbours: Which tables are neighbours.
        unit: Who is protected, in words.
        theorem: How the acts were composed.
        warnings: What a reader must know besides.
        private: False only when the noise came from a seed, which happens in tests alone.
        missing: The part of δ up to which ρ holds (approximate zCDP), where acts had a δ of their own.

    Example:
        >>> print(Guarantee(epsilon=1.0, delta=0.0, rho=None, neighbours="replace", unit="row", theorem="one act"))
        (1, 0)-differential privacy for one row replaced by another, by one act
    """

    epsilon: float | None
    delta: float
    rho: float | None
    neighbours: Neighbours
    unit: str
    theorem: str
    warnings: tuple[str, ...] = ()
    private: bool = True
    missing: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighbours", Neighbours.of(self.neighbours))
        prices = [value for value in (self.epsilon, self.rho) if value is not None]
        numbers = [*prices, self.delta, self.missing]
        if not prices or any(type(value) not in (int, float) or not 0 <= value < math.inf for value in numbers):
            raise ValueError("a guarantee has an epsilon or a rho, and a delta, all of them numbers from 0 on")
        if self.missing > self.delta or (self.missing and self.rho is None):
            raise ValueError("what a rho is missing is a part of delta")
        words = (self.unit, self.theorem, *self.warnings)
        if self.delta >= 1 or type(self.private) is not bool:
            raise ValueError("a guarantee has a delta below 1, and is private or not")
        if not all(isinstance(word, str) for word in words):
            raise ValueError("a guarantee names its unit, its theorem and its warnings in words")

    def __str__(self) -> str:
        if not self.private:
            return "NOT PRIVATE: the coins came from a seed"
        parts = []
        if self.epsilon is not None:
            parts.append(f"({printed(self.epsilon, 6)}, {printed(self.delta, 3)})-differential privacy")
        if self.rho is not None:
            but = f"{printed(self.missing, 3)}-approximate " if self.missing else ""
            parts.append(f"{but}{printed(self.rho, 6)}-zero-concentrated differential privacy")
        change = "one {} replaced by another" if self.neighbours is Neighbours.REPLACE else "one {} added or removed"
        text = f"{' and '.join(parts)} for {change.format(self.unit)}, by {self.theorem}"
        return text + "".join(f". Warning: {warning}" for warning in self.warnings)


def printed(value: float, digits: int) -> str:
    """A price for people, rounded up: what is printed is never below what holds (but for a last bit of the float)."""
    text = f"{value:.{digits}g}"
    if float(text) < value * (1 - 1e-12):
        step = decimal.Decimal(10) ** (math.floor(math.log10(value)) - digits + 1)
        text = f"{float(decimal.Decimal(text) + step):.{digits}g}"
    return text
