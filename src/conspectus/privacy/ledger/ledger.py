"""The ledger of a table: a cap on everything ever released about it, durable, and debited before anything is drawn.

A release first *reserves* its whole price in one transaction, then writes every act down before its coins are drawn,
and at last *settles*, from when on only the acts count. A release that dies in between has spent all it reserved:
a crash loses budget, never privacy. Nothing in the file comes from the rows of the table.

A ledger counts one currency, pure ε or ρ. Acts that hold but for a δ of their own are paid from a part of the ledger's
δ that was set aside for them when it was made; the rest of δ converts ρ into the promised ε.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from conspectus.privacy.accounting import BudgetExceeded, cap_of, epsilon_of, set_aside
from conspectus.privacy.events import Event, to_json
from conspectus.privacy.guarantee import Budget, Guarantee
from conspectus.privacy.prices import Cost, Currency, cost_of, scale_down, scale_up
from conspectus.privacy.relation import Neighbours, RelationError
from conspectus.suggestions import suggest_keywords

from .ledger_file import Entry as Entry
from .ledger_file import LedgerError as LedgerError
from .ledger_file import LedgerFile, Lines, Terms, damaged

_ULP = Fraction(1, 1 << 52)


class LedgerMismatch(LedgerError):
    """A request about another table, unit, relation or currency than the ledger is bound to."""


class StaleCopy(LedgerError):
    """An act by someone whose copy does not know the latest acts of the same reservation."""


@suggest_keywords
class Ledger:
    """A cap on everything that is ever released about one table, kept in a file that many processes may share."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open an existing ledger; `Ledger.create` makes one."""
        self.path = Path(path)
        self._file = LedgerFile(self.path)
        terms = self._file.terms
        self._cap = terms.cap
        if self._cap.delta and not 0 < self._cap.delta < Fraction(terms.budget.delta):
            raise damaged(self.path)
        self.budget = terms.budget
        self.currency: Currency = terms.currency
        self.neighbours: Neighbours = terms.neighbours
        self.unit = terms.unit
        self.schema_fingerprint = terms.fingerprint
        self.table = terms.table

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Open an existing ledger."""
        return cls(path)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        budget: Budget,
        neighbours: Neighbours,
        unit: str,
        schema_fingerprint: str,
        table: str,
        aside: float = 0.0,
    ) -> Ledger:
        """Make a ledger, bound for good to one table, unit, relation and currency; never over an existing file.

        `aside` is the share of the budget's δ that is set aside for acts with a δ of their own, such as published keys.
        """
        try:
            neighbours = Neighbours.of(neighbours)
        except RelationError as wrong:
            raise LedgerError(str(wrong)) from None
        delta = _share_of(budget, aside)
        currency, cap = cap_of(budget)
        if delta:
            _, cap = set_aside(budget, delta)
        # Ten times the float 0.1 is a little more than 1: the cap is one unit in the last place above the number given,
        # so that shares that add up in decimals fit. The guarantee says so too.
        terms = Terms(
            currency=currency,
            cap=Cost(price=cap * (1 + _ULP), delta=Fraction(delta)),
            budget=budget,
            neighbours=neighbours,
            unit=unit,
            fingerprint=schema_fingerprint,
            table=table,
        )
        LedgerFile.create(Path(path), terms)
        return cls(path)

    @property
    def cap(self) -> Fraction:
        """The most that may ever be spent, in the ledger's currency."""
        return self._cap.price

    @property
    def delta_cap(self) -> Fraction:
        """What is set aside of δ, for acts with a δ of their own."""
        return self._cap.delta

    def spending(self) -> Cost:
        """What counts as spent, in both parts at one moment: settled acts, and the whole of every open reservation."""
        with self._file.reading() as lines:
            return lines.spent()

    @property
    def spent(self) -> Fraction:
        """What counts as spent, in the ledger's currency."""
        return self.spending().price

    @property
    def remaining(self) -> Fraction:
        return self.cap - self.spent

    @property
    def delta_spent(self) -> Fraction:
        """What counts as spent of the δ that is set aside."""
        return self.spending().delta

    @property
    def delta_remaining(self) -> Fraction:
        return self.delta_cap - self.delta_spent

    def entries(self) -> tuple[Entry, ...]:
        """Every line, oldest first."""
        with self._file.reading() as lines:
            return lines.all()

    def entries_of(self, number: int) -> tuple[Entry, ...]:
        """The lines of one reservation, oldest first: its reserve, its debits, and its settle if there is one."""
        with self._file.reading() as lines:
            return lines.of(number)

    def guarantee(self) -> Guarantee:
        """What everything under this ledger keeps together, past and future: the cap.

        What was spent so far depends on what was seen, and is no promise by itself; `spent` says it.

        Guarantee: with δ_a set aside, all acts ever debited are δ_a-approximately ρ-zCDP, and so (ε, δ)-differentially
        private with the ε of ρ at δ − δ_a.
        """
        pure, delta = self.currency == "pure", self.budget.delta
        missing = scale_up(self.delta_cap)
        concentrated = epsilon_of(self.cap, scale_down(Fraction(delta) - Fraction(missing))) if delta else None
        concentration = f"{'approximate ' if missing else ''}zero-concentrated composition with the tight conversion"
        return Guarantee(
            epsilon=scale_up(self.cap) if pure else concentrated,
            delta=delta,
            rho=None if pure else scale_up(self.cap),
            neighbours=self.neighbours,
            unit=self.unit,
            theorem="basic composition" if pure else concentration,
            missing=missing,
        )

    def price_of(self, budget: Budget) -> Fraction:
        """The price of a whole budget in the ledger's currency; pure ε costs ε²/2 in ρ."""
        currency, cap = cap_of(budget)
        if currency == self.currency:
            return cap
        if self.currency == "pure":
            raise LedgerMismatch("this ledger counts pure epsilon: give a budget without delta or rho")
        return cap * cap / 2

    def reserve(
        self,
        budget: Budget,
        label: str,
        *,
        fingerprint: str,
        neighbours: Neighbours,
        unit: str,
        events: Sequence[Event] | None = None,
    ) -> Reservation:
        """Debit a whole budget before anything is drawn, or raise and leave the file as it was.

        A list of acts that was declared in advance is reserved at its own price in the ledger's currency: a theorem
        that is better for the list alone does not cross releases. Acts with a δ of their own have to be declared.

        Guarantee: however many processes reserve and whenever they die, all acts that were ever debited keep the cap.
        """
        self._check_bound(fingerprint, neighbours, unit)
        cost = self._asked(budget, events)
        with self._file.writing() as lines:
            self._check_left(lines, cost)
            number = lines.append("reserve", None, cost=cost, total=Cost(), content={"label": label})
        return Reservation(self, number)

    def check(
        self,
        budget: Budget,
        *,
        fingerprint: str,
        neighbours: Neighbours,
        unit: str,
        events: Sequence[Event] | None = None,
    ) -> None:
        """Raise what `reserve` would raise now, and write nothing: an early word before long work; it binds nobody."""
        self._check_bound(fingerprint, neighbours, unit)
        cost = self._asked(budget, events)
        with self._file.reading() as lines:
            self._check_left(lines, cost)

    def _asked(self, budget: Budget, events: Sequence[Event] | None) -> Cost:
        if events is None:
            return Cost(price=self.price_of(budget))
        return sum((self.cost_of(event) for event in events), Cost())

    def cost_of(self, event: Event) -> Cost:
        """What an act costs under this ledger; refused where no δ was set aside for an act that has its own."""
        cost = cost_of(event, self.currency, self.neighbours)
        if cost.delta and not self.delta_cap:
            raise LedgerMismatch(
                "this act has a delta of its own, and this ledger set none aside for such acts: make a ledger with "
                "aside=0.5 (conspectus ledger init --aside 0.5), or release without one"
            )
        return cost

    def _check_bound(self, fingerprint: str, neighbours: Neighbours, unit: str) -> None:
        asked = (("schema", fingerprint), ("neighbours", neighbours), ("unit", unit))
        bound = (self.schema_fingerprint, self.neighbours, self.unit)
        for (name, value), expected in zip(asked, bound):
            if value != expected:
                shown = "" if name == "schema" else f" ({expected}, not {value})"
                raise LedgerMismatch(f"this ledger is bound to another {name}{shown}: use the ledger of this table")

    def _check_left(self, lines: Lines, cost: Cost) -> None:
        spent = lines.spent()
        total = spent + cost
        if total.within(self._cap):
            return
        if total.price > self.cap:
            sign = "epsilon" if self.currency == "pure" else "rho"
            left, of = _shown(self.cap - spent.price, self.cap), f"{float(self.cap):.6g}"
            raise BudgetExceeded(
                f"this release asks for {sign} {float(cost.price):.6g}, and the ledger has {left} of {of} left: "
                "ask for less"
            )
        left, of = _shown(self.delta_cap - spent.delta, self.delta_cap), f"{float(self.delta_cap):.6g}"
        raise BudgetExceeded(
            f"this release publishes keys with a delta of {float(cost.delta):.6g}, and the ledger has {left} left of "
            f"the {of} that it set aside for such acts: ask for a smaller delta"
        )

    def resume(self, number: int) -> Reservation:
        """An open reservation of an earlier process, by its number."""
        with self._file.reading() as lines:
            lines.standing(number)
        return Reservation(self, number)


class Reservation:
    """The right of one release to debit acts up to what it reserved, in both parts."""

    def __init__(self, ledger: Ledger, number: int) -> None:
        self.ledger = ledger
        self.number = number

    def debit(self, event: Event, *, after: int | None = None, label: str = "") -> None:
        """Write an act down, durably, before its coins are drawn; refuse it beyond the reservation.

        `after` is how many acts the reservation should have until now: whoever has another number does not know the
        latest ones, and is refused. `label` is the debtor's own mark of the act.

        Guarantee: when this returns, the act is on disk and counted, whatever happens next.
        """
        cost = self.ledger.cost_of(event)
        with self.ledger._file.writing() as lines:
            standing = lines.standing(self.number)
            if after is not None and after != lines.acts(self.number):
                raise StaleCopy("the ledger knows acts that this copy does not: use the newest copy")
            total = standing.debited + cost
            if not total.within(standing.reserved):
                raise BudgetExceeded("this act costs more than what its release reserved: reserve more at the start")
            content = {"event": to_json(event)} | ({"label": label} if label else {})
            lines.append("debit", self.number, cost=cost, total=total, content=content)

    def settle(self) -> None:
        """Close the reservation: from now on only its acts count, and no more can be added."""
        with self.ledger._file.writing() as lines:
            debited = lines.standing(self.number).debited
            lines.append("settle", self.number, cost=debited, total=debited, content={})


def _shown(left: Fraction, cap: Fraction) -> str:
    return f"{float(left):.6g}" if left > cap / 10**9 else "nothing"


def _share_of(budget: Budget, aside: float) -> float:
    """So much of a budget's δ is set aside."""
    if isinstance(aside, bool) or not isinstance(aside, int | float) or not 0 <= aside < 1:
        raise LedgerError(f"what is set aside of delta is a share from 0 to below 1, as in aside=0.5, not {aside!r}")
    if aside and (budget.epsilon is None or not budget.delta):
        raise LedgerError("a share is set aside of a delta: give the ledger an epsilon and a delta above 0")
    delta = budget.delta * aside
    if aside and not 0 < delta < budget.delta:
        raise LedgerError(f"nothing is left of delta {budget.delta:g} on one side of this share: try aside=0.5")
    return delta
