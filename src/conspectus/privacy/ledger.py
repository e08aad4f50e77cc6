"""The ledger of a table: one SQLite file, append-only, durable, that is debited before anything is drawn.

A release first *reserves* its whole price in one transaction, then writes every act down before its coins are drawn,
and at last *settles*, from when on only the acts count. A release that dies in between has spent all it reserved:
a crash loses budget, never privacy. Nothing in the file comes from the rows of the table.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from conspectus.spelling import spelled_methods

from .accounting import BudgetExceeded, cap_of, epsilon_of
from .events import Event, from_json, read_fraction, to_json
from .guarantee import RELATIONS, Budget, Guarantee, Neighbours
from .prices import Currency, add_up, price, scale_up

_APPLICATION = 0x436F6E73  # "Cons": SQLite's mark of whose file it is
_VERSION = 1
_PATIENCE = 120.0  # seconds to wait for other processes
_ULP = Fraction(1, 1 << 52)

_TABLES = """
CREATE TABLE terms (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    currency TEXT NOT NULL, cap TEXT NOT NULL, budget TEXT NOT NULL, neighbours TEXT NOT NULL,
    unit TEXT NOT NULL, fingerprint TEXT NOT NULL, subject TEXT NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('reserve', 'debit', 'settle')),
    reservation INTEGER, price TEXT NOT NULL, total TEXT NOT NULL, content TEXT NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE INDEX by_reservation ON entries (reservation, id);
CREATE TRIGGER terms_stay BEFORE UPDATE ON terms BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER terms_remain BEFORE DELETE ON terms BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER entries_remain BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER terms_alone BEFORE INSERT ON terms WHEN EXISTS (SELECT 1 FROM terms)
    BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER entries_follow BEFORE INSERT ON entries WHEN EXISTS (SELECT 1 FROM entries WHERE id = NEW.id)
    BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
"""


class LedgerError(ValueError):
    """A file that is not a ledger, is damaged, or already exists; or an entry that has no place in it."""


class LedgerMismatch(LedgerError):
    """A request about another table, unit, relation or currency than the ledger is bound to."""


class StaleCopy(LedgerError):
    """An act by someone whose copy does not know the latest acts of the same reservation."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the ledger. `price`: what was reserved, what the act costs, or the sum of the settled acts."""

    number: int
    kind: Literal["reserve", "debit", "settle"]
    reservation: int
    price: Fraction
    label: str
    event: Event | None
    made: str


@spelled_methods
class Ledger:
    """A cap on everything that is ever released about one table, kept in a file that many processes may share."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open an existing ledger; `Ledger.create` makes one."""
        self.path = Path(path)
        with self._connection() as connection:
            if [row[0] for row in connection.execute("PRAGMA quick_check")] != ["ok"]:
                raise self._damaged()
            marks = [connection.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("application_id", "user_version")]
            if marks != [_APPLICATION, _VERSION]:
                raise LedgerError(f"{self.path} is not a ledger that this version can read")
            terms = connection.execute("SELECT * FROM terms").fetchone()
        try:
            self.budget = Budget(**json.loads(terms["budget"]))
            self.cap = read_fraction(terms["cap"])
        except (TypeError, ValueError, ZeroDivisionError) as error:
            raise self._damaged() from error
        self.currency: Currency = "pure" if terms["currency"] == "pure" else "zcdp"
        self.neighbours: Neighbours = "replace" if terms["neighbours"] == "replace" else "add-remove"
        self.unit: str = terms["unit"]
        self.schema_fingerprint: str = terms["fingerprint"]
        self.table: str = terms["subject"]

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
    ) -> Ledger:
        """Make a ledger, bound for good to one table, unit, relation and currency; never over an existing file."""
        if neighbours not in RELATIONS:
            raise LedgerError(f"neighbours must be one of {', '.join(RELATIONS)}, not {neighbours!r}")
        currency, cap = cap_of(budget)
        # Ten times the float 0.1 is a little more than 1: the cap is one unit in the last place above the number given,
        # so that shares that add up in decimals fit. The guarantee says so too.
        cap *= 1 + _ULP
        terms = (currency, str(cap), json.dumps(vars(budget)), neighbours, unit, schema_fingerprint, table, _now())
        try:
            with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as connection:
                _make_durable(connection)
                connection.execute("BEGIN EXCLUSIVE")
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise LedgerError(f"{path} already exists: open it, or choose another name for a new ledger")
                for statement in _TABLES.strip().split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
                connection.execute("INSERT INTO terms VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)", terms)
                connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise LedgerError(f"no ledger can be made at {path}: {_reason(error)}") from error
        return cls(path)

    @property
    def spent(self) -> Fraction:
        """What counts as spent, in the ledger's currency: settled acts, and the whole of every open reservation."""
        with self._reading() as connection:
            return self._spent(connection)

    @property
    def remaining(self) -> Fraction:
        return self.cap - self.spent

    def entries(self) -> tuple[Entry, ...]:
        """Every line, oldest first."""
        with self._reading() as connection:
            return tuple(self._entry(row) for row in connection.execute("SELECT * FROM entries ORDER BY id"))

    def guarantee(self) -> Guarantee:
        """What everything under this ledger keeps together, past and future: the cap.

        What was spent so far depends on what was seen, and is no promise by itself; `spent` says it.
        """
        pure, delta = self.currency == "pure", self.budget.delta
        concentrated = epsilon_of(self.cap, delta) if delta else None
        return Guarantee(
            epsilon=scale_up(self.cap) if pure else concentrated,
            delta=delta,
            rho=None if pure else scale_up(self.cap),
            neighbours=self.neighbours,
            unit=self.unit,
            theorem="basic composition" if pure else "zero-concentrated composition with the tight conversion",
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
        that is better for the list alone does not cross releases.

        Guarantee: however many processes reserve and whenever they die, all acts that were ever debited keep the cap.
        """
        self._check_bound(fingerprint, neighbours, unit)
        if events is None:
            cost = self.price_of(budget)
        else:
            cost = sum((price(event, self.currency, self.neighbours) for event in events), Fraction(0))
        with self._writing() as connection:
            self._check_left(connection, cost)
            number = _append(connection, "reserve", None, price=cost, total=Fraction(0), content={"label": label})
        return Reservation(self, number)

    def check(self, budget: Budget, *, fingerprint: str, neighbours: Neighbours, unit: str) -> None:
        """Raise what `reserve` would raise now, and write nothing: an early word before long work; it binds nobody."""
        self._check_bound(fingerprint, neighbours, unit)
        with self._reading() as connection:
            self._check_left(connection, self.price_of(budget))

    def _check_bound(self, fingerprint: str, neighbours: Neighbours, unit: str) -> None:
        asked = (("schema", fingerprint), ("neighbours", neighbours), ("unit", unit))
        bound = (self.schema_fingerprint, self.neighbours, self.unit)
        for (name, value), expected in zip(asked, bound):
            if value != expected:
                shown = "" if name == "schema" else f" ({expected}, not {value})"
                raise LedgerMismatch(f"this ledger is bound to another {name}{shown}: use the ledger of this table")

    def _check_left(self, connection: sqlite3.Connection, cost: Fraction) -> None:
        spent = self._spent(connection)
        if spent + cost > self.cap:
            sign = "epsilon" if self.currency == "pure" else "rho"
            left = self.cap - spent
            shown = f"{float(left):.6g}" if left > self.cap / 10**9 else "nothing"
            raise BudgetExceeded(
                f"this release asks for {sign} {float(cost):.6g}, and the ledger has {shown} of {float(self.cap):.6g} "
                "left: ask for less"
            )

    def resume(self, number: int) -> Reservation:
        """An open reservation of an earlier process, by its number."""
        with self._reading() as connection:
            self._standing(connection, number)
        return Reservation(self, number)

    def entries_of(self, number: int) -> tuple[Entry, ...]:
        """The lines of one reservation, oldest first: its reserve, its debits, and its settle if there is one."""
        query = "SELECT * FROM entries WHERE id = ? OR reservation = ? ORDER BY id"
        with self._reading() as connection:
            return tuple(self._entry(row) for row in connection.execute(query, (number, number)))

    def _standing(self, connection: sqlite3.Connection, number: int) -> tuple[Fraction, Fraction]:
        """(what was reserved, what was debited so far) of an open reservation."""
        first = connection.execute("SELECT * FROM entries WHERE id = ? AND kind = 'reserve'", (number,)).fetchone()
        if first is None:
            raise LedgerError(f"this ledger has no reservation {number}")
        query = "SELECT * FROM entries WHERE reservation = ? ORDER BY id DESC LIMIT 1"
        last = connection.execute(query, (number,)).fetchone()
        if last is not None and last["kind"] == "settle":
            raise LedgerError(f"reservation {number} was settled: reserve again for further acts")
        return read_fraction(first["price"]), Fraction(0) if last is None else read_fraction(last["total"])

    def _spent(self, connection: sqlite3.Connection) -> Fraction:
        counted = """
            SELECT coalesce(settled.total, opened.price) FROM entries AS opened
            LEFT JOIN entries AS settled ON settled.reservation = opened.id AND settled.kind = 'settle'
            WHERE opened.kind = 'reserve'
        """
        spent = Fraction(0)
        try:
            for (amount,) in connection.execute(counted):
                spent = add_up(spent, read_fraction(amount))
        except (ValueError, ZeroDivisionError) as error:
            raise self._damaged() from error
        return spent

    def _entry(self, row: sqlite3.Row) -> Entry:
        try:
            content: dict[str, Any] = json.loads(row["content"])
            return Entry(
                number=row["id"],
                kind=row["kind"],
                reservation=row["reservation"] or row["id"],
                price=read_fraction(row["price"]),
                label=content.get("label", ""),
                event=from_json(content["event"]) if "event" in content else None,
                made=row["made"],
            )
        except (ValueError, AttributeError, ZeroDivisionError) as error:
            raise self._damaged() from error

    def _damaged(self) -> LedgerError:
        return LedgerError(f"{self.path} is damaged: restore it from a copy, and spend nothing until then")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own for every transaction: none is ever carried across a fork or between threads."""
        if not self.path.is_file():
            raise LedgerError(f"there is no ledger at {self.path}: make one first")
        try:
            address = f"{self.path.resolve().as_uri()}?mode=rw"
            with closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)) as connection:
                connection.row_factory = sqlite3.Row
                _make_durable(connection)
                yield connection
        except sqlite3.DatabaseError as error:
            raise LedgerError(f"{self.path} cannot be used as a ledger: {_reason(error)}") from error

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as connection:
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, alone in the file from its first read on; on an error it leaves no trace."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")


class Reservation:
    """The right of one release to debit acts up to the price that it reserved."""

    def __init__(self, ledger: Ledger, number: int) -> None:
        self.ledger = ledger
        self.number = number

    def debit(self, event: Event, *, after: int | None = None, label: str = "") -> None:
        """Write an act down, durably, before its coins are drawn; refuse it beyond the reservation.

        `after` is how many acts the reservation should have until now: whoever has another number does not know the
        latest ones, and is refused. `label` is the debtor's own mark of the act.

        Guarantee: when this returns, the act is on disk and counted, whatever happens next.
        """
        ledger = self.ledger
        cost = price(event, ledger.currency, ledger.neighbours)
        with ledger._writing() as connection:
            reserved, debited = ledger._standing(connection, self.number)
            if after is not None and after != _acts(connection, self.number):
                raise StaleCopy("the ledger knows acts that this copy does not: use the newest copy")
            total = add_up(debited, cost)
            if total > reserved:
                raise BudgetExceeded("this act costs more than what its release reserved: reserve more at the start")
            content = {"event": to_json(event)} | ({"label": label} if label else {})
            _append(connection, "debit", self.number, price=cost, total=total, content=content)

    def settle(self) -> None:
        """Close the reservation: from now on only its acts count, and no more can be added."""
        with self.ledger._writing() as connection:
            _, debited = self.ledger._standing(connection, self.number)
            _append(connection, "settle", self.number, price=debited, total=debited, content={})


def _make_durable(connection: sqlite3.Connection) -> None:
    """A commit returns only when file and journal are on disk; the journal is emptied (and synced) instead of removed,
    so that no rollback can come back after a loss of power."""
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("PRAGMA synchronous = FULL")


def _append(
    connection: sqlite3.Connection,
    kind: str,
    reservation: int | None,
    *,
    price: Fraction,
    total: Fraction,
    content: dict[str, Any],
) -> int:
    insert = "INSERT INTO entries (kind, reservation, price, total, content, made) VALUES (?, ?, ?, ?, ?, ?)"
    values = (kind, reservation, str(price), str(total), json.dumps(content), _now())
    number = connection.execute(insert, values).lastrowid
    assert number is not None
    return number


def _acts(connection: sqlite3.Connection, number: int) -> int:
    query = "SELECT count(*) FROM entries WHERE reservation = ? AND kind = 'debit'"
    return int(connection.execute(query, (number,)).fetchone()[0])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _reason(error: sqlite3.DatabaseError) -> str:
    return str(error) or type(error).__name__
