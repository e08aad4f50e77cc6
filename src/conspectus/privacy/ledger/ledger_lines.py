"""A ledger as a table: one line for every release and session under it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from fractions import Fraction
from typing import Any

import pyarrow as pa

from conspectus.privacy.guarantee import printed
from conspectus.privacy.prices import Currency
from conspectus.suggestions import suggest_keywords
from conspectus.tabular import Bars, Tabular

from .burn_rate import BurnRate, burn_rate_of
from .ledger_store import Entry, LedgerStore, damaged

_LINES = pa.schema(
    [
        ("number", pa.int64()),
        ("made", pa.string()),
        ("label", pa.string()),
        ("price", pa.float64()),
        ("delta", pa.float64()),
        ("acts", pa.int64()),
        ("settled", pa.bool_()),
        ("study", pa.string()),
        ("by", pa.string()),
    ]
)


@suggest_keywords
class Listed(Tabular):
    """What a ledger shows of its lines."""

    table: str
    currency: Currency
    _file: LedgerStore

    @property
    def cap(self) -> Fraction:
        """The most that may ever be spent, in the ledger's currency."""
        return self._file.terms.cap.price

    @property
    def spent(self) -> Fraction:
        """What counts as spent, in the ledger's currency."""
        with self._file.reading() as lines:
            return lines.spent().price

    @property
    def remaining(self) -> Fraction:
        """What is left of the cap, in the ledger's currency; nothing once the ledger was retired."""
        with self._file.reading() as lines:
            return Fraction(0) if lines.retirement() is not None else self.cap - lines.spent().price

    def entries(self) -> tuple[Entry, ...]:
        """Every line of the file.

        Returns:
            Reservations, debits and settlements, oldest first; among them those that declare studies or retire the
            ledger, which cost nothing (`entry.registers`).
        """
        with self._file.reading() as lines:
            return lines.all()

    def entries_of(self, number: int) -> tuple[Entry, ...]:
        """The lines of one reservation.

        Args:
            number: The number of the reservation.

        Returns:
            Its reserve, its debits, and its settle if there is one, oldest first.
        """
        with self._file.reading() as lines:
            return lines.of(number)

    def to_arrow(self) -> pa.Table:
        """One line for every release and session: when, what it is called, what it counts for, its acts, for whom.

        Returns:
            A table, oldest first. An open reservation counts with all that it reserved.
        """
        return lines_of(self.entries())

    def burn_rate(self, *, now: datetime | None = None) -> BurnRate:
        """How fast the ledger is spent: after each release, a month, and when nothing would be left.

        Args:
            now: The moment until which to count, with its time zone; the present one by default.

        Returns:
            The rate, in shares of the cap.

        Raises:
            LedgerError: A line of the ledger has no moment.
        """
        with self._file.reading() as lines:
            entries, closed = lines.all(), lines.retirement()
        try:
            return burn_rate_of(
                lines_of(entries),
                float(self.cap),
                made=self._file.terms.made,
                now=now,
                retired=None if closed is None else closed.made,
            )
        except ValueError:
            raise damaged(self._file.path) from None

    def __repr__(self) -> str:
        sign = "epsilon" if self.currency == "pure" else "rho"
        return f'<Ledger of "{self.table}": {sign} {printed(float(self.spent), 6)} of {float(self.cap):.6g} spent>'

    def _heading(self) -> str:
        return repr(self).strip("<>")

    def _bars(self) -> Bars:
        return pictured(self.to_arrow(), float(self.remaining), "ε" if self.currency == "pure" else "ρ")


def lines_of(entries: Iterable[Entry]) -> pa.Table:
    """One line for every reservation: what it costs, its acts, and whether it was settled."""
    lines: dict[int, dict[str, Any]] = {}
    for entry in entries:
        price = {"price": float(entry.price), "delta": float(entry.delta)}
        if entry.registers:
            continue
        if entry.kind == "reserve":
            made = entry.made.replace("T", " ").removesuffix("+00:00")
            named = {"number": entry.number, "made": made, "label": entry.label}
            asked = {"study": entry.study, "by": entry.by}
            lines[entry.number] = {**named, **price, "acts": 0, "settled": False, **asked}
        elif entry.reservation not in lines:  # it settles a line that declared a study
            continue
        elif entry.kind == "debit":
            lines[entry.reservation]["acts"] += entry.event is not None
        else:
            lines[entry.reservation] |= {**price, "settled": True}
    return pa.Table.from_pylist(list(lines.values()), schema=_LINES)


def pictured(lines: pa.Table, remaining: float, sign: str) -> Bars:
    """What each release took, and what is left."""
    labels, prices = [*lines["label"].to_pylist(), "left"], [*lines["price"].to_pylist(), remaining]
    nothing = [None] * len(labels)
    return Bars(labels=labels, sizes=prices, lows=nothing, highs=nothing, axis=sign)
