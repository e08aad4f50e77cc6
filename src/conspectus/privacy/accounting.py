"""From private acts to their price and guarantee, and back to the noise that a budget allows.

Two currencies: pure ε, which adds up, and zero-concentrated ρ, which adds up too and is turned into (ε, δ) at the end.
Prices are exact rationals; only the last step to a float rounds, always against the promise. Acts whose parameters
depend on what was seen pass a `Filter`; acts fixed before the first draw may be `Declared`, and pay the best theorem.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

from . import composition
from .events import Approximate, ByRelation, Event, GaussianNoise, LaplaceNoise, MixedGaussianNoise
from .guarantee import Budget, Guarantee, printed
from .prices import Cost, cost_of, gaussian_acts, pure_acts, root_up, scale_down
from .prices import Currency as Currency
from .prices import Unpriced as Unpriced
from .prices import price as price
from .prices import price_approximate as price_approximate
from .prices import price_pure as price_pure
from .prices import price_rho as price_rho
from .prices import scale_up as scale_up
from .prices import total_of as total_of
from .relation import Neighbours

MOST_EQUAL = 1 << 27
"""Equal pure acts that are composed optimally: as many as the largest workload has queries."""

MOST_DIFFERENT = 256
"""Different pure acts whose losses are convolved: each is one more distribution, and a list may come from a file."""

GAUSSIAN = "composition of Gaussian noise"
"""The theorem of `composition.gaussian_epsilon`, as guarantees name it."""


class BudgetExceeded(ValueError):
    """An act, or a list of acts, that costs more than what is left of the budget."""


def epsilon_of(rho: float | Fraction, delta: float) -> float:
    """The ε that ρ-zCDP implies at δ by the tight conversion, rounded up."""
    return composition.zcdp(scale_up(Fraction(rho)), delta)


rho_of = composition.zcdp_share
"""The largest ρ whose tight conversion at δ is at most ε, rounded down."""


def cap_of(budget: Budget) -> tuple[Currency, Fraction]:
    """The currency of a budget and the whole of it: pure ε, or ρ."""
    if budget.rho is not None:
        return "zcdp", Fraction(budget.rho)
    assert budget.epsilon is not None
    if budget.pure:
        return "pure", Fraction(budget.epsilon)
    return "zcdp", Fraction(rho_of(budget.epsilon, budget.delta))


class Allowance(Protocol):
    """The role of whoever says which private acts may happen: a `Filter`, or a `Declared` list."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The acts that were admitted, in order."""

    def admit(self, event: Event) -> None:
        """Count an act before it happens, or raise `BudgetExceeded` and stay as before."""

    def admits(self, event: Event) -> bool:
        """Whether `admit` would admit it now; nothing is counted."""

    def guarantee(self, unit: str, warnings: tuple[str, ...] = (), *, private: bool = True) -> Guarantee:
        """What all acts that it ever admits keep together."""


class Debit(Protocol):
    """The role of whoever writes an admitted act down, durably, before its noise is drawn.

    Two players: the reservation of a release in its ledger, and the account of a session.
    """

    def check(self, event: Event) -> None:
        """Refuse an act that could never be written down, before it is counted anywhere."""

    def debit(self, event: Event) -> None:
        """Write the act down. When this returns it counts as spent, whatever happens next."""


class Filter:
    """Admits acts one by one, with parameters that may depend on all that was seen, until their prices reach the cap.

    Whatever is admitted, together it keeps the cap: by basic composition in pure ε, and in ρ because a sum of
    concentrated prices that never passes ρ is ρ-zCDP (Whitehouse, Ramdas, Rogers & Wu 2023). Acts that hold but for a
    δ of their own are admitted while these add up to `missing` at most (approximate zCDP, the same theorem).
    """

    def __init__(
        self,
        currency: Currency,
        cap: Fraction,
        neighbours: Neighbours,
        *,
        budget: Budget | None = None,
        missing: Fraction = Fraction(0),
    ) -> None:
        self.currency: Currency = currency
        self.cap = cap
        self.neighbours: Neighbours = neighbours
        self._budget = budget
        self._cap = Cost(price=cap, delta=missing)
        self._spent = Cost()
        self._events: list[Event] = []

    @classmethod
    def of(cls, budget: Budget, neighbours: Neighbours, missing: float | Fraction = 0.0) -> Filter:
        """A filter over all of a budget, in the budget's own currency.

        Args:
            budget: What may be spent.
            neighbours: The relation in which acts are priced.
            missing: The part of the budget's δ that is set aside for acts with a δ of their own.
        """
        if not missing:
            currency, cap = cap_of(budget)
            return cls(currency, cap, neighbours, budget=budget)
        aside = scale_up(Fraction(missing))
        return cls("zcdp", set_aside(budget, aside), neighbours, budget=budget, missing=Fraction(aside))

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self._events)

    @property
    def spent(self) -> Fraction:
        return self._spent.price

    @property
    def remaining(self) -> Fraction:
        return self.cap - self.spent

    def admit(self, event: Event) -> None:
        """Add the act's price, or raise `BudgetExceeded` and stay as before."""
        total = self._with(event)
        if total.price > self.cap:
            sign = "epsilon" if self.currency == "pure" else "rho"
            left = f"{sign} {float(self.remaining):.6g} of {float(self.cap):.6g}"
            raise BudgetExceeded(f"this act costs more than what is left of the budget: {left}")
        if not total.within(self._cap):
            raise BudgetExceeded("this act has a larger delta of its own than what is left aside for such acts")
        self._spent = total
        self._events.append(event)

    def admits(self, event: Event) -> bool:
        """Whether `admit` would admit it now; nothing is counted."""
        return self._with(event).within(self._cap)

    def recount(self, events: Iterable[Event]) -> None:
        """Count exactly these acts afresh, or raise `BudgetExceeded` and stay as before."""
        fresh = Filter(self.currency, self.cap, self.neighbours, missing=self._cap.delta)
        for event in events:
            fresh.admit(event)
        self._spent, self._events = fresh._spent, fresh._events

    def _with(self, event: Event) -> Cost:
        """What would be spent with one act more."""
        return self._spent + cost_of(event, self.currency, self.neighbours)

    def guarantee(self, unit: str, warnings: tuple[str, ...] = (), *, private: bool = True) -> Guarantee:
        """What the filter promises: its cap. What was spent may depend on the draws (a selected question that no unit
        can move is free, a loop may stop early), and is then itself an outcome that promises nothing."""
        held = guarantee_of(self.currency, self._cap, self._budget, neighbours=self.neighbours, unit=unit)
        return replace(held, warnings=warnings, private=private)


def guarantee_of(
    currency: Currency, cap: Cost, budget: Budget | None, *, neighbours: Neighbours, unit: str
) -> Guarantee:
    """What acts that never cost more than a cap keep together; the budget says at which δ an ε is shown for a ρ."""
    missing, delta = scale_up(cap.delta), 0.0 if budget is None else budget.delta
    if currency == "pure":
        terms: dict[str, Any] = {"epsilon": scale_up(cap.price), "delta": missing, "rho": None}
        return Guarantee(**terms, neighbours=neighbours, unit=unit, theorem="basic composition")
    left_over = max(scale_down(Fraction(delta) - Fraction(missing)), 0.0)
    converted = " with the tight conversion" if delta else ""
    return Guarantee(
        epsilon=_shown_epsilon(cap.price, left_over, budget),
        delta=max(delta, missing),
        rho=scale_up(cap.price),
        neighbours=neighbours,
        unit=unit,
        theorem=f"{'approximate ' if missing else ''}zero-concentrated composition{converted}",
        missing=missing,
    )


def _shown_epsilon(rho: Fraction, delta: float, budget: Budget | None) -> float | None:
    """ε at δ; never above the budget's own ε, since a total within the cap keeps what the cap keeps."""
    if delta == 0:
        return None
    epsilon = epsilon_of(rho, delta)
    if budget is not None and budget.epsilon is not None and rho <= Fraction(rho_of(budget.epsilon, delta)):
        return min(epsilon, budget.epsilon)
    return epsilon


def set_aside(budget: Budget, missing: float) -> Fraction:
    """The ρ that a budget's ε allows when `missing` of its δ is set aside for acts with a δ of their own: at what is
    left of δ it converts into that ε."""
    if budget.epsilon is None or not 0 < missing < budget.delta:
        raise BudgetExceeded("acts with a delta of their own need a budget of epsilon and a larger delta")
    return Fraction(rho_of(budget.epsilon, scale_down(Fraction(budget.delta) - Fraction(missing))))


def sum_of_deltas(events: Iterable[Event], neighbours: Neighbours) -> Fraction:
    """What those δ that are the acts' own add up to."""
    own = (event for event in events if isinstance(event, Approximate))
    return total_of(price_approximate(event, neighbours)[1] for event in own)


class Declared:
    """A list of acts fixed before the first draw; admits exactly these, in order.

    Its promise is the best of basic composition, zero-concentrated composition, optimal composition (or privacy loss
    distributions) and, of Gaussian noise alone, its exact composition, at the budget's δ: allowed because the list, and
    so the choice, does not depend on any draw.
    """

    def __init__(self, events: Iterable[Event], budget: Budget, neighbours: Neighbours) -> None:
        self.neighbours: Neighbours = neighbours
        self._declared = tuple(events)
        self._admitted = 0
        self._budget = budget
        self._epsilon, self._rho, self._theorem = best(self._declared, budget.delta, neighbours)
        if budget.rho is not None:
            fits = self._rho is not None and self._rho <= Fraction(budget.rho)
        else:
            fits = self._epsilon is not None and self._epsilon <= Fraction(budget.epsilon or 0)
        if not fits:
            raise BudgetExceeded("the declared acts cost more than the budget: allow more, or add more noise")

    @property
    def events(self) -> tuple[Event, ...]:
        return self._declared[: self._admitted]

    def admit(self, event: Event) -> None:
        """Admit the next act of the list, and no other."""
        if not self.admits(event):
            raise BudgetExceeded("this act is not the next one that was declared: declare every act before the first")
        self._admitted += 1

    def admits(self, event: Event) -> bool:
        """Whether this is the next act of the list."""
        return self._admitted < len(self._declared) and self._declared[self._admitted] == event

    def guarantee(self, unit: str, warnings: tuple[str, ...] = (), *, private: bool = True) -> Guarantee:
        """The promise of the whole list, whether or not all of it happened."""
        concentrated_only = self._epsilon is None or (self._budget.rho is not None and not self._budget.delta)
        theorem = self._theorem
        if theorem == GAUSSIAN and self._rho is not None:
            theorem += f" (concentrated composition: ε = {printed(epsilon_of(self._rho, self._budget.delta), 4)})"
        return Guarantee(
            epsilon=None if self._epsilon is None or concentrated_only else scale_up(self._epsilon),
            delta=0.0 if self._theorem == "basic composition" else self._budget.delta,
            rho=None if self._budget.pure or self._rho is None else scale_up(self._rho),
            neighbours=self.neighbours,
            unit=unit,
            theorem="zero-concentrated composition" if concentrated_only else theorem,
            warnings=warnings,
            private=private,
        )


def best(events: Sequence[Event], delta: float, neighbours: Neighbours) -> tuple[Fraction | None, Fraction | None, str]:
    """(ε, ρ, theorem) of a list fixed in advance: the least ε at δ that a theorem proves, and Σρ where there is one.

    Acts with a δ of their own take it from δ; their ε add to what the others cost at the rest of it.
    """
    approximate = [event for event in events if isinstance(event, Approximate)]
    if approximate:
        prices = [price_approximate(event, neighbours) for event in approximate]
        added, missing = (total_of(parts) for parts in zip(*prices))
        theorem = "basic composition of approximate acts"
        rest = [event for event in events if not isinstance(event, Approximate)]
        left_over = Fraction(delta) - missing
        if left_over < 0:
            return None, None, theorem
        epsilon, _, _ = best(rest, float(left_over * (1 - Fraction(1, 2**50))), neighbours)
        return (None if epsilon is None else epsilon + added), None, theorem
    rho = total_of(price_rho(event, neighbours) for event in events)
    pure = all(not isinstance(event, GaussianNoise | MixedGaussianNoise) for event in events)
    proofs: list[tuple[Fraction, str]] = []
    if pure:
        proofs.append((total_of(price_pure(event, neighbours) for event in events), "basic composition"))
    if delta > 0:
        converted = Fraction(epsilon_of(rho, delta))
        proofs.append((converted, "zero-concentrated composition with the tight conversion"))
    if pure and delta > 0:
        acts = pure_acts(events, neighbours)
        if len(acts) == 1 and acts.total() <= MOST_EQUAL:
            [(share, times)] = acts.items()
            optimal = composition.optimal_epsilon(times, scale_up(share), delta)
            proofs.append((Fraction(optimal), "optimal composition of pure acts"))
        elif 1 < len(acts) <= MOST_DIFFERENT and delta >= 1e-10 and min(epsilon for epsilon, _ in proofs) < 50:
            with suppress(composition.CompositionError):  # more acts than it adds up: the others are proofs, too
                numerical = composition.loss_distribution_epsilon(acts, delta)
                proofs.append((Fraction(numerical), "composition of privacy loss distributions"))
    noisy = gaussian_acts(events, neighbours) if delta > 0 else None
    if noisy:
        exact = composition.gaussian_epsilon(noisy, delta)
        proofs += [(Fraction(exact), GAUSSIAN)] if math.isfinite(exact) else []
    if not proofs:
        return None, rho, "zero-concentrated composition"
    epsilon, theorem = min(proofs, key=lambda proof: proof[0])
    return epsilon, rho, theorem


def calibrate_laplace(l1: Fraction, l2_squared: Fraction, linf: Fraction, budget: Budget) -> Fraction:
    """The least scale found, as an exact float, at which Laplace noise on counts with these norms fits the budget.

    Pure: L1/ε. Concentrated: L2/√(2ρ). Approximate: the best of that and of optimal composition, of one act of L1/scale
    or, where no count moves by more than one, of L1 acts of 1/scale.
    """
    if not l1:
        return Fraction(1)
    currency, cap = cap_of(budget)
    if currency == "pure":
        return Fraction(scale_up(l1 / cap))
    scales = [calibrate_gaussian(l2_squared, cap)]
    if budget.epsilon is not None:
        for acts in (1, math.floor(l1)) if linf <= 1 and l1 <= MOST_EQUAL else (1,):
            share = composition.optimal_share(budget.epsilon, acts, budget.delta)
            scales.append(Fraction(scale_up(l1 / acts / Fraction(share))))
    scale = float(min(scales))
    moved = {"l1": l1, "l2_squared": l2_squared, "linf": linf}
    moved_by = {name: ByRelation(replace=norm, add_remove=norm) for name, norm in moved.items()}
    # Rounding inside a theorem may cost the last digits: widen until the very check that the release will pass passes.
    step = 2.0**-45
    while not declared_fit([LaplaceNoise(scale=Fraction(scale), **moved_by)], budget, Neighbours.REPLACE):
        scale *= 1 + step
        step *= 2
    return Fraction(scale)


def declared_fit(events: Sequence[Event], budget: Budget, neighbours: Neighbours) -> bool:
    """Whether a list of acts that is declared in advance keeps a budget."""
    try:
        Declared(events, budget, neighbours)
    except BudgetExceeded:
        return False
    return True


def calibrate_gaussian(l2_squared: Fraction, rho: Fraction) -> Fraction:
    """The least σ, as an exact float, at which Gaussian noise of this squared L2 sensitivity costs at most ρ."""
    return Fraction(root_up(l2_squared / (2 * rho)))
