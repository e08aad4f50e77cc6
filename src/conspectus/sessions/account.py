"""The account of a session: what its acts cost, in every process that asks, and in what order they are written down."""

from __future__ import annotations

from conspectus.privacy.accounting import BudgetExceeded, Filter
from conspectus.privacy.events import Event
from conspectus.privacy.ledger.ledger import Ledger, LedgerError, LedgerMismatch
from conspectus.privacy.ledger.reservation import Reservation, StaleCopy

from .session_terms import Terms
from .store import SessionError, Store


class Account:
    """What a session may spend, and where it writes its acts down: in its file, and then in its ledger.

    `filter` admits the acts. The account is a player of the role `Debit`: an act is intended in the session's file,
    debited in its ledger, and only then drawn. Used by its session alone, while it holds the session against every
    other process.
    """

    def __init__(self, terms: Terms, store: Store, reservation: Reservation | None) -> None:
        self.filter = Filter.of(terms.budget, terms.neighbours)
        self._store = store
        self._reservation = reservation

    def check(self, event: Event) -> None:
        """Refuse an act that has no price in the session's ledger, before it is counted anywhere."""
        if self._reservation is not None:
            self._reservation.check(event)

    def debit(self, event: Event) -> None:
        """Write down the act that the filter admitted last, before its noise is drawn.

        Raises:
            SessionError: The file is an old copy of a session that went on without it.
            BudgetExceeded: The ledger refused the act; it is then counted nowhere.

        Guarantee: when this returns, the act is in the session's file and in its ledger, behind all acts that any
        process did before in this session; whoever works on an old copy of the file is refused.
        """
        position = len(self.filter.events) - 1
        mark = self._store.intend(position, event)
        if self._reservation is not None:
            try:
                self._reservation.debit(event, after=position, label=mark)
            except StaleCopy:
                raise SessionError(OLD_COPY) from None
            except BudgetExceeded:
                self.reconcile()  # not debited, so not drawn: the intention is struck
                raise

    def catch_up(self) -> None:
        """Count what other processes did since, and find out what became of acts that a crash left open."""
        if self._store.look().unsure:
            self.reconcile()
        else:
            for _, event in self._store.acts(len(self.filter.events)):
                self.filter.admit(event)

    def reconcile(self) -> None:
        """Agree with the ledger, which decides: an intended act that it does not have never happened.

        Raises:
            SessionError: The file knows fewer acts than the ledger, or others, or acts beyond its budget.

        Guarantee: the file's acts are afterwards the ledger's, priced afresh; a file that knows fewer is refused.
        """
        intended = self._store.acts()
        happened = intended if self._reservation is None else debits(self._reservation)
        if len(happened) > len(intended):
            raise SessionError(OLD_COPY)
        if intended[: len(happened)] != happened:
            raise SessionError("the acts of this session are not those of its ledger: use the file that belongs to it")
        try:
            self.filter.recount(event for _, event in happened)
        except BudgetExceeded:
            raise SessionError("the acts of this session cost more than its budget: the file was changed") from None
        self._store.settle_acts(len(happened))

    def settle(self) -> None:
        """Give back to the ledger what was not spent; no further act is possible."""
        if self._reservation is not None:
            self._reservation.settle()


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
    same = bound == (terms.fingerprint, terms.unit, terms.neighbours, label_of(terms))
    try:
        same = same and lines[0].price == ledger.price_of(terms.budget)
    except LedgerMismatch:
        same = False
    # A line of version 0.1 has no digest of its terms, and is compared by its price alone.
    if not same or lines[0].terms not in ("", terms.digest):
        raise SessionError(OTHER_TERMS)
    return Reservation(ledger.going_on(lines[0]), terms.reservation), lines[-1].kind == "settle"


def label_of(terms: Terms) -> str:
    """What the ledger calls a session."""
    return f"{terms.mechanism} session of {terms.questions:,} questions, {terms.session}"
