"""A reservation: the part of a ledger that one release or session may spend, act by act, each before its draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.events import Event, to_json
from conspectus.privacy.prices import Cost

from .ledger_terms import LedgerError

if TYPE_CHECKING:
    from .ledger import Ledger


class StaleCopy(LedgerError):
    """An act by someone whose copy does not know the latest acts of the same reservation."""


class Reservation:
    """The right of one release or session to debit acts up to what it reserved, in both parts.

    A player of the role `Debit`. Made by `Ledger.reserve` and `Ledger.resume`.
    """

    def __init__(self, ledger: Ledger, number: int | None = None, *, opening: Callable[[], int] | None = None) -> None:
        """The reservation of this number; or one that `opening` makes, and gives its number, with the first act."""
        self.ledger = ledger
        self._number = number
        self._opening = opening

    @property
    def number(self) -> int:
        """The line of the ledger that reserved it.

        Raises:
            LedgerError: It was deferred, and nothing is reserved yet.
        """
        if self._number is None:
            raise LedgerError("nothing is reserved yet: the first act reserves")
        return self._number

    def check(self, event: Event) -> None:
        """Refuse an act that has no price in the ledger, before it is counted anywhere."""
        self.ledger.cost_of(event)

    def debit(self, event: Event, *, after: int | None = None, label: str = "") -> None:
        """Write an act down, durably, before its noise is drawn.

        Args:
            event: The act.
            after: How many acts the reservation should have until now. Whoever has another number does not know the
                latest ones, and is refused.
            label: The debtor's own mark of the act.

        Raises:
            BudgetExceeded: The act costs more than what is left of the reservation.
            StaleCopy: The reservation has another number of acts than `after`.
            LedgerRetired: The ledger was closed for good.
            LedgerError: The reservation was settled.

        Guarantee: when this returns, the act is on disk and counted, whatever happens next.
        """
        cost = self.ledger.cost_of(event)
        if self._number is None and self._opening is not None:
            self._number = self._opening()
        with self.ledger._file.writing() as lines:
            standing = lines.standing(self.number)
            if after is not None and after != lines.acts(self.number):
                raise StaleCopy("the ledger knows acts that this copy does not: use the newest copy")
            total = standing.debited + cost
            if not total.within(standing.reserved):
                raise BudgetExceeded("this act costs more than what its release reserved: reserve more at the start")
            content = {"event": to_json(event)} | ({"label": label} if label else {})
            content |= {"by": self.ledger.by} if self.ledger.by else {}
            lines.append("debit", self.number, cost=cost, total=total, content=content)

    def mark(self, label: str, *, after: int) -> None:
        """Write down, durably, that its owner got as far as this: a line that costs nothing and is no act.

        Args:
            label: The owner's own words.
            after: How many acts and marks the reservation should have until now.

        Raises:
            StaleCopy: The reservation has another number of them: somebody else went on.
            LedgerRetired: The ledger was closed for good.
            LedgerError: The reservation was settled.

        Guarantee: when this returns, the mark is on disk; of two who believe to be next at most one passes.
        """
        with self.ledger._file.writing() as lines:
            standing = lines.standing(self.number)
            if after != lines.acts(self.number):
                raise StaleCopy("the ledger knows of steps that this copy does not: use the newest copy")
            content = {"label": label} | ({"by": self.ledger.by} if self.ledger.by else {})
            lines.append("debit", self.number, cost=Cost(), total=standing.debited, content=content)

    def settle(self) -> None:
        """Close the reservation: from now on only its acts count, and no more can be added.

        A deferred one without any act has reserved nothing, and there is nothing to close; nor is there under a ledger
        that was retired meanwhile, which closed all.
        """
        if self._number is None:
            return
        with self.ledger._file.writing() as lines:
            if lines.retirement() is not None:
                return
            debited = lines.standing(self.number).debited
            lines.append("settle", self.number, cost=debited, total=debited, content={})
