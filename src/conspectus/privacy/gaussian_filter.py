"""A filter for Gaussian noise alone: composed as one Gaussian, although what is asked follows from what was seen.

What a list of Gaussian acts costs depends on two numbers: the ρ that they sum to, and the narrowest noise among them.
Where both are fixed before the first draw, single acts need not be (`gaussian_filter.proof.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from . import composition
from .accounting import GAUSSIAN, BudgetExceeded, epsilon_of
from .events import Event, RowTotal
from .guarantee import Budget, Guarantee, printed
from .prices import gaussian_acts, price_rho, scale_down, scale_up
from .relation import Neighbours


@dataclass(frozen=True, kw_only=True)
class GaussianTerms:
    """What acts of Gaussian noise keep to, fixed before the first of them.

    Attributes:
        rho: The ρ that they sum to at most.
        least_square: The smallest σ² of their noise, in steps of the integers that it is added to.
    """

    rho: Fraction
    least_square: Fraction

    def epsilon(self, delta: float) -> float:
        """The ε at δ of all acts together that keep to these terms."""
        return composition.gaussian_epsilon([(scale_up(2 * self.rho), scale_down(self.least_square))], delta)


class GaussianFilter:
    """Admits acts of Gaussian noise one by one, with parameters that may depend on all that was seen.

    Guarantee: whatever it admits is together (ε, δ)-differentially private, with the ε at the budget's δ that the terms
    have by the composition of Gaussian noise; and ρ-zero-concentrated with the ρ of the terms.
    """

    def __init__(self, terms: GaussianTerms, budget: Budget, neighbours: Neighbours) -> None:
        self.neighbours: Neighbours = neighbours
        self._terms = terms
        self._budget = budget
        self._spent = Fraction(0)
        self._events: list[Event] = []
        if budget.epsilon is None or not budget.delta or terms.epsilon(budget.delta) > budget.epsilon:
            raise BudgetExceeded("the terms of this filter cost more than the budget: allow more, or add more noise")

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self._events)

    @property
    def spent(self) -> Fraction:
        """The ρ of what was admitted."""
        return self._spent

    def admit(self, event: Event) -> None:
        """Add the act's price, or raise `BudgetExceeded` and stay as before."""
        if not self.admits(event):
            raise BudgetExceeded(
                "this act costs more than what is left of the budget, or is no Gaussian noise as wide as was said: "
                f"rho {float(self._terms.rho - self._spent):.6g} of {float(self._terms.rho):.6g} is left"
            )
        self._spent += _rho(event, self.neighbours)
        self._events.append(event)

    def admits(self, event: Event) -> bool:
        """Whether `admit` would admit it now; nothing is counted."""
        acts = gaussian_acts([event], self.neighbours)
        if acts is None:
            return False
        wide = all(Fraction(square) >= Fraction(scale_down(self._terms.least_square)) for _, square in acts)
        return wide and self._spent + _rho(event, self.neighbours) <= self._terms.rho

    def guarantee(self, unit: str, warnings: tuple[str, ...] = (), *, private: bool = True) -> Guarantee:
        """What the terms promise, whatever was spent of them."""
        delta = self._budget.delta
        concentrated = printed(epsilon_of(self._terms.rho, delta), 4)
        return Guarantee(
            epsilon=self._terms.epsilon(delta),
            delta=delta,
            rho=scale_up(self._terms.rho),
            neighbours=self.neighbours,
            unit=unit,
            theorem=f"{GAUSSIAN}, filtered (concentrated composition: ε = {concentrated})",
            warnings=warnings,
            private=private,
        )


def _rho(event: Event, neighbours: Neighbours) -> Fraction:
    return Fraction(0) if isinstance(event, RowTotal) else price_rho(event, neighbours)
