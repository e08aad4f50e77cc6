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
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from conspectus.privacy.accounting import cap_of, guarantee_of
from conspectus.privacy.events import Event
from conspectus.privacy.guarantee import USUAL_DELTA, Budget, Guarantee, large_epsilon
from conspectus.privacy.prices import Cost, Currency, cost_of, scale_down
from conspectus.privacy.relation import Neighbours
from conspectus.server_address import is_server
from conspectus.suggestions import suggest_keywords

from .ledger_file import LedgerFile
from .ledger_lines import Listed
from .ledger_postgres import LedgerDatabase
from .ledger_store import Entry as Entry
from .ledger_store import LedgerStore, Lines, damaged
from .ledger_terms import LedgerError as LedgerError
from .ledger_terms import LedgerRetired as LedgerRetired
from .ledger_terms import terms_for
from .reservation import Reservation
from .studies import Registry
from .what_is_left import affordable, check_left


class LedgerMismatch(LedgerError):
    """A request about another table, unit, relation or currency than the ledger is bound to."""


@suggest_keywords
class Ledger(Registry, Listed):
    """A cap on everything that is ever released about one table, kept in a file that many processes may share, or in a
    PostgreSQL database that many hosts share.

    `Ledger.create` makes one, `Ledger.open` opens it again. `cs.release` and `cs.open_session` take it as `ledger=`.

    Attributes:
        path: The file, under the one name that was found when it was opened: no `chdir` leads to another one. Of a
            database its address, without the password.
        budget: What the owner allowed for everything together.
        currency: What is counted: "pure" (ε) or "zcdp" (ρ).
        neighbours: The relation in which acts are priced.
        unit: Who is protected, in words.
        schema_fingerprint: The fingerprint of the one schema that it is about.
        table: The name of the table.
        study: The study that reservations made by this object are for; "" for none. See `for_study`.
        by: Who asks; "" where nobody is named.

    Example:
        >>> import tempfile
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> from conspectus.privacy.guarantee import Budget
        >>> schema = cs.Schema.from_dict({"name": "people", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True, False]}), schema)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = cs.Ledger.create(f"{folder}/people.ledger", budget=Budget(epsilon=1.0), neighbours="replace",
        ...                               unit="row", schema_fingerprint=schema.fingerprint, table="people")
        ...     release = cs.release(table, cs.marginals(schema, 1), epsilon=0.25, ledger=ledger)
        ...     round(float(ledger.spent), 6), round(float(ledger.remaining), 6)
        (0.25, 0.75)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        database = isinstance(path, str) and is_server(path)
        self._file: LedgerStore = LedgerDatabase(str(path)) if database else LedgerFile(Path(path))
        self.path = self._file.path
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
        """Open an existing ledger.

        Args:
            path: The file that `Ledger.create` or `conspectus ledger init` made; or the address of a database, as in
                "postgresql://user@host/database?ledger=visits".

        Returns:
            The ledger, which reads its file anew for every question.

        Raises:
            LedgerError: There is no ledger there, it is damaged, its file has a second name, or its server may lose
                what it committed.
        """
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
        role: str | None = None,
    ) -> Ledger:
        """Make a ledger, bound for good to one table, unit, relation and currency.

        Args:
            path: A new file, or the address of a database with a new name as its option `ledger`; an existing one is
                never written over.
            budget: What everything under the ledger may cost together. It fixes the currency: ε alone is counted in
                ε, anything else in ρ.
            neighbours: The relation, "replace" or "add-remove".
            unit: The unit of privacy in words, `str(schema.unit)`.
            schema_fingerprint: `schema.fingerprint` of the table.
            table: What the table is called.
            aside: The share of the budget's δ that is set aside for acts with a δ of their own, such as published keys.
            role: The role of the server that may use a ledger in a database, besides its owner: it is granted to read
                lines and to add some, and nothing else.

        Returns:
            The new ledger.

        Raises:
            LedgerError: The file exists, or cannot be made, or the arguments are none.
        """
        terms = terms_for(
            budget, neighbours=neighbours, unit=unit, fingerprint=schema_fingerprint, table=table, aside=aside
        )
        if isinstance(path, str) and is_server(path):
            LedgerDatabase.create(path, terms, role=role)
            return cls(path)
        if role is not None:
            raise LedgerError("a role is granted in a database: give an address such as postgresql://host/database")
        return cls(LedgerFile.create(Path(path), terms).path)

    @property
    def delta_cap(self) -> Fraction:
        """What is set aside of δ, for acts with a δ of their own."""
        return self._cap.delta

    @property
    def shown_delta(self) -> float:
        """The δ at which ρ is shown as an ε: the budget's, but for what is set aside, or else a usual one."""
        return scale_down(Fraction(self.budget.delta) - self.delta_cap) if self.budget.delta else USUAL_DELTA

    @property
    def epsilon_remaining(self) -> float:
        """The largest ε, of a few digits, that a release at `shown_delta` may still ask for."""
        left = self.remaining
        return scale_down(left) if self.currency == "pure" else affordable(left, self.shown_delta)

    def spending(self) -> Cost:
        """What counts as spent: settled acts, and the whole of every open reservation.

        Returns:
            The price in the ledger's currency and the δ of acts with one of their own, both at one moment.
        """
        with self._file.reading() as lines:
            return lines.spent()

    @property
    def delta_spent(self) -> Fraction:
        """What counts as spent of the δ that is set aside."""
        return self.spending().delta

    @property
    def delta_remaining(self) -> Fraction:
        """What is left of the δ that is set aside; nothing once the ledger was retired."""
        return Fraction(0) if self.retired is not None else self.delta_cap - self.delta_spent

    def guarantee(self) -> Guarantee:
        """What everything under this ledger keeps together, past and future: the cap.

        What was spent so far depends on what was seen, and is no promise by itself; `spent` says it.

        Returns:
            The guarantee, with the relation and the unit that the ledger is bound to.

        Guarantee: with δ_a set aside, all acts ever debited are δ_a-approximately ρ-zCDP, and so (ε, δ)-differentially
        private with the ε of ρ at δ − δ_a.
        """
        promised = guarantee_of(self.currency, self._cap, self.budget, neighbours=self.neighbours, unit=self.unit)
        return replace(promised, warnings=large_epsilon(self.budget))

    def price_of(self, budget: Budget) -> Fraction:
        """The price of all of a budget in the ledger's currency; pure ε costs ε²/2 in ρ.

        Args:
            budget: What a release or session may spend.

        Returns:
            The price, exactly.

        Raises:
            LedgerMismatch: The ledger counts ε, and the budget has a δ or is in ρ.
        """
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
        deferred: bool = False,
        terms: str = "",
    ) -> Reservation:
        """Set a price aside before anything is drawn, or raise and leave the file as it was.

        Args:
            budget: All that the release or session may spend.
            label: What the ledger calls it.
            fingerprint: The fingerprint of the table's schema. It must be the ledger's own, as must the next two.
            neighbours: The relation of the release.
            unit: The unit of privacy, in words.
            events: A list of acts that was declared in advance. It is reserved at its own price in the ledger's
                currency: a theorem that is better for the list alone does not cross releases. Acts with a δ of their
                own have to be declared.
            deferred: Whether the price is reserved with the first act only, and now just checked. Until then a file
                that turns out to be damaged, or a table that will not open, has cost nothing.
            terms: A digest of all that was agreed on, which whoever comes back later is compared with.

        Returns:
            The right to debit acts up to that price.

        Raises:
            LedgerMismatch: The ledger is bound to another table, unit, relation or currency.
            BudgetExceeded: The ledger, or the study, has less left.
            LedgerRetired: The ledger was closed for good.
            LedgerError: The ledger has studies, and none of them is named.

        Guarantee: however many processes reserve and whenever they die, all acts that were ever debited keep the cap.
        """
        if deferred:
            self.check(budget, fingerprint=fingerprint, neighbours=neighbours, unit=unit, events=events)
            bound = partial(self.reserve, fingerprint=fingerprint, neighbours=neighbours, unit=unit, events=events)
            return Reservation(self, opening=lambda: bound(budget, label, terms=terms).number)
        self._check_bound(fingerprint, neighbours, unit)
        cost = self._asked(budget, events)
        with self._file.writing() as lines:
            asked = self._check_left(lines, cost)
            content = {"label": label} | ({"terms": terms} if terms else {}) | asked
            number = lines.append("reserve", None, cost=cost, total=Cost(), content=content)
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
        """Raise what `reserve` would raise now, and write nothing.

        An early word before long work: whoever reserves in between takes what was left.

        Args:
            budget: What would be reserved.
            fingerprint: The fingerprint of the table's schema.
            neighbours: The relation of the release.
            unit: Who is protected, in words.
            events: The acts, where just these would be reserved instead of the whole budget.
        """
        self._check_bound(fingerprint, neighbours, unit)
        cost = self._asked(budget, events)
        with self._file.reading() as lines:
            self._check_left(lines, cost)

    def _asked(self, budget: Budget, events: Sequence[Event] | None) -> Cost:
        if events is None:
            return Cost(price=self.price_of(budget))
        return sum((self.cost_of(event) for event in events), Cost())

    def cost_of(self, event: Event) -> Cost:
        """What an act costs under this ledger.

        Args:
            event: The act.

        Returns:
            Its price in the ledger's currency, and its own δ if it has one.

        Raises:
            LedgerMismatch: The act has a δ of its own, and the ledger set none aside.
        """
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

    def _check_left(self, lines: Lines, cost: Cost) -> dict[str, str]:
        """What the line says of study and asker, where the study and the ledger have so much left."""
        asked = self._registered(lines, cost, self.shown_delta)
        check_left(lines.spent(), cost, self._cap, self.currency, self.shown_delta)
        return asked

    def resume(self, number: int) -> Reservation:
        """An open reservation of an earlier process, by its number.

        Args:
            number: The number of the reservation.

        Returns:
            The reservation, to debit further acts in.

        Raises:
            LedgerError: The ledger has no such reservation, or it was settled.
        """
        with self._file.reading() as lines:
            lines.standing(number)
        return Reservation(self, number)
