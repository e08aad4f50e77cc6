"""The account of a session: what its acts cost, in every process that asks, and in what order they are written down."""

from __future__ import annotations

from fractions import Fraction

from conspectus.privacy.accounting import BudgetExceeded, Currency, Filter, allowance, price
from conspectus.privacy.events import Event
from conspectus.privacy.guarantee import Guarantee
from conspectus.privacy.ledger.ledger import Ledger, LedgerError, LedgerMismatch, Reservation, StaleCopy

from .store import SessionError, Store, Terms


class Account:
    """Admits the acts of a session: intended in its file, debited in its ledger, and only then drawn.

    Used by its session alone, while it holds the session against every other process.
    """

    def __init__(self, terms: Terms, store: Store, reservation: Reservation | None) -> None:
        self._terms = terms
        self._store = store
        self._reservation = reservation
        self._filter = allowance(terms.budget, terms.neighbours)

    @property
    def events(self) -> tuple[Event, ...]:
        return self._filter.events

    @property
    def currency(self) -> Currency:
        return self._filter.currency

    @property
    def spent(self) -> Fraction:
        return self._filter.spent

    @property
    def remaining(self) -> Fraction:
        return self._filter.remaining

    def admit(self, event: Event) -> None:
        """Count and write down an act before its coins are drawn, or raise and do nothing.

        Guarantee: when this returns, the act is in the session's file and in its ledger, behind all acts that any
        process did before in this session; whoever works on an old copy of the file is refused.
        """
        position = len(self._filter.events)
        if self._reservation is not None:
            ledger = self._reservation.ledger
            price(event, ledger.currency, ledger.neighbours)  # refused where it has none, before anything is written
        self._filter.admit(event)
        mark = self._store.intend(position, event)
        if self._reservation is not None:
            try:
                self._reservation.debit(event, after=position, label=mark)
            except StaleCopy:
                raise SessionError(OLD_COPY) from None
            except BudgetExceeded:
                self.reconcile()  # not debited, so not drawn: the intention is struck
                raise

    def admits(self, event: Event) -> bool:
        """Whether the session's budget has as much left as this act costs."""
        return self._filter.admits(event)

    def catch_up(self) -> None:
        """Count what other processes did since, and find out what became of acts that a crash left open."""
        if self._store.look().unsure:
            self.reconcile()
            return
        known = len(self._filter.events)
        for _, event in self._store.acts(known):
            self._filter.admit(event)

    def reconcile(self) -> None:
        """Agree with the ledger, which decides: an intended act that it does not have never happened.

        Guarantee: the file's acts are afterwards the ledger's, priced afresh; a file that knows fewer is refused.
        """
        intended = self._store.acts()
        happened = intended if self._reservation is None else debits(self._reservation)
        if len(happened) > len(intended):
            raise SessionError(OLD_COPY)
        if intended[: len(happened)] != happened:
            raise SessionError("the acts of this session are not those of its ledger: use the file that belongs to it")
        fresh = Filter(self._filter.currency, self._filter.cap, self._terms.neighbours, budget=self._terms.budget)
        try:
            for _, event in happened:
                fresh.admit(event)
        except BudgetExceeded:
            raise SessionError("the acts of this session cost more than its budget: the file was changed") from None
        self._store.settle_acts(len(happened))
        self._filter = fresh

    def settle(self) -> None:
        """Give back to the ledger what was not spent; no further act is possible."""
        if self._reservation is not None:
            self._reservation.settle()

    def guarantee(self, unit: str, warnings: tuple[str, ...] = (), *, private: bool = True) -> Guarantee:
        """The promise of the session, past and future: its whole budget."""
        return self._filter.guarantee(unit, warnings, private=private)


OLD_COPY = "this file is an old copy of its session, which went on without it: use the newest file"
OTHER_TERMS = (
    "the terms of this session are not those of its ledger: the file was changed, use the one that belongs to it"
)


def debits(reservation: Reservation) -> tuple[tuple[str, Event], ...]:
    """The acts that a ledger has of a reservation, in order, each with its mark."""
    entries = reservation.ledger.entries_of(reservation.number)
    return tuple((entry.label, entry.event) for entry in entries if entry.event is not None)


def reservation_of(ledger: Ledger, terms: Terms) -> tuple[Reservation, bool]:
    """The reservation of a session, and whether it was settled; refused when the line is another session's, or when the
    terms are not those that it was reserved under."""
    if terms.reservation is None:
        raise SessionError(OTHER_TERMS)
    lines = ledger.entries_of(terms.reservation)
    if not lines or lines[0].kind != "reserve" or not lines[0].label.endswith(terms.session):
        raise LedgerError("this ledger has no such session: give the ledger with which the session was opened")
    bound = (ledger.schema_fingerprint, ledger.unit, ledger.neighbours, lines[0].label)
    try:
        same_price = lines[0].price == ledger.price_of(terms.budget)
    except LedgerMismatch:
        same_price = False
    if bound != (terms.fingerprint, terms.unit, terms.neighbours, label_of(terms)) or not same_price:
        raise SessionError(OTHER_TERMS)
    return Reservation(ledger, terms.reservation), lines[-1].kind == "settle"


def label_of(terms: Terms) -> str:
    """What the ledger calls a session."""
    return f"{terms.mechanism} session of {terms.questions:,} questions, {terms.session}"
