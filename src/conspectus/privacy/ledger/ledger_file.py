"""The file of a ledger: its terms and its lines, in one SQLite file to which lines are only ever added.

Nothing is weighed here: the file knows what was reserved, debited and settled, in which order, and that it is on disk.
What may be written is decided in `ledger`, inside one transaction with what was read.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from conspectus.privacy.events import Event, from_json, read_fraction
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.prices import Cost
from conspectus.privacy.relation import Neighbours

from .ledger_terms import LedgerError, LedgerTerms

_APPLICATION = 0x436F6E73  # "Cons": SQLite's mark of whose file it is
_VERSION = 2
_PATIENCE = 120.0  # seconds to wait for other processes

_TABLES = """
CREATE TABLE terms (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    currency TEXT NOT NULL, cap TEXT NOT NULL, delta_cap TEXT NOT NULL, budget TEXT NOT NULL, neighbours TEXT NOT NULL,
    unit TEXT NOT NULL, fingerprint TEXT NOT NULL, subject TEXT NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('reserve', 'debit', 'settle')),
    reservation INTEGER, price TEXT NOT NULL, total TEXT NOT NULL, delta TEXT NOT NULL, delta_total TEXT NOT NULL,
    content TEXT NOT NULL, made TEXT NOT NULL
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
_STATEMENTS = tuple(_TABLES.strip().removesuffix(";").split(";\n"))
# Files of version 1 have no δ in any line, and stay as they are: nothing in them may ever have one.
_TERMS = {1: "SELECT *, '0' AS delta_cap FROM terms", 2: "SELECT * FROM terms"}
_LINES = {1: "SELECT *, '0' AS delta, '0' AS delta_total FROM entries", 2: "SELECT * FROM entries"}


Kind = Literal["reserve", "debit", "settle"]
_MOST = 1 << 1000
"""No price is larger, and every price is a float."""
_ODD = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What a damaged line may make its readers raise."""
_Line = tuple[Any, ...]
"""The number, the moment and the content of a line."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the ledger. `price`: what was reserved, what the act costs, or the sum of the settled acts; `delta`
    the same of those δ that are the acts' own. `terms`: the digest of what a session was opened with."""

    number: int
    kind: Kind
    reservation: int
    price: Fraction
    label: str
    event: Event | None
    made: str
    delta: Fraction = Fraction(0)
    terms: str = ""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Of an open reservation: what it reserved, and what was debited so far."""

    reserved: Cost
    debited: Cost


class LedgerFile:
    """One file. Each transaction opens its own connection, so that none is carried across a fork or between threads.

    A relative name would lead elsewhere after `chdir`, a link after it was set anew, and any name after its file was
    exchanged: another file has another budget. So the name is resolved once, and each transaction looks whether it
    found the same file again, with all that was seen in it.
    """

    def __init__(self, path: Path) -> None:
        """An existing file, after a look at whether it is a ledger."""
        self.path = path = resolved(path)
        self._pinned = _file_at(path)
        self._seen: _Line | None = None
        with self._connection() as connection:
            if [row[0] for row in connection.execute("PRAGMA quick_check")] != ["ok"]:
                raise damaged(path)
            marks = [connection.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("application_id", "user_version")]
            if marks[0] != _APPLICATION or marks[1] not in _LINES:
                raise LedgerError(f"{path} is not a ledger that this version can read")
            self._version: int = marks[1]
            if not plain(connection, _STATEMENTS, tables=self._version == _VERSION):
                raise damaged(path)
            terms = connection.execute(_TERMS[self._version]).fetchone()
            self._bound = None if terms is None else tuple(terms)
        try:
            self.terms = LedgerTerms(
                currency="pure" if terms["currency"] == "pure" else "zcdp",
                cap=_cost(terms["cap"], terms["delta_cap"]),
                budget=Budget(**json.loads(terms["budget"])),
                neighbours=Neighbours.of(terms["neighbours"]),
                unit=terms["unit"],
                fingerprint=terms["fingerprint"],
                table=terms["subject"],
            )
        except _ODD as error:
            raise damaged(path) from error

    @classmethod
    def create(cls, path: Path, terms: LedgerTerms) -> LedgerFile:
        """A new file, never over an existing one."""
        path = resolved(path)
        price, delta = str(terms.cap.price), str(terms.cap.delta)
        bound = (terms.neighbours, terms.unit, terms.fingerprint, terms.table)
        values = (terms.currency, price, delta, json.dumps(vars(terms.budget)), *bound, _now())
        try:
            with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as connection:
                _make_durable(connection)
                connection.execute("BEGIN EXCLUSIVE")
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise LedgerError(f"{path} already exists: open it, or choose another name for a new ledger")
                for statement in _STATEMENTS:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
                connection.execute("INSERT INTO terms VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
                connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise LedgerError(f"no ledger can be made at {path}: {_reason(error)}") from error
        return cls(path)

    @contextmanager
    def reading(self) -> Iterator[Lines]:
        """One transaction that sees one state of the file."""
        with self._connection() as connection:
            connection.execute("BEGIN")
            lines = Lines(self.path, connection, self._version)
            self._look(lines)
            yield lines

    @contextmanager
    def writing(self) -> Iterator[Lines]:
        """One transaction, alone in the file from its first read on; on an error it leaves no trace."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            lines = Lines(self.path, connection, self._version)
            self._look(lines)
            yield lines
            last = lines.last()
            connection.execute("COMMIT")
            self._seen = last

    def _look(self, lines: Lines) -> None:
        """Refuse another file under the old name. One that was removed and made again may even have the old number: it
        does not have the lines that were seen."""
        last = self._seen
        if (
            _file_at(self.path) != self._pinned
            or lines.bound() != self._bound
            or (last is not None and lines.line(last[0]) != last)
        ):
            raise LedgerError(f"{self.path} is not the file any more that was opened as a ledger: open it again")
        self._seen = lines.last()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        _file_at(self.path)
        try:
            address = f"{self.path.as_uri()}?mode=rw"
            with closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)) as connection:
                connection.row_factory = sqlite3.Row
                _make_durable(connection)
                yield connection
        except UnicodeDecodeError as error:  # SQLite quotes a damaged file in its messages
            raise damaged(self.path) from error
        except sqlite3.DatabaseError as error:
            raise LedgerError(f"{self.path} cannot be used as a ledger: {_reason(error)}") from error


class Lines:
    """The lines of a ledger, as one transaction sees and adds to them."""

    def __init__(self, path: Path, connection: sqlite3.Connection, version: int) -> None:
        self._path = path
        self._connection = connection
        self._version = version
        self._select = _LINES[version]

    def bound(self) -> tuple[Any, ...] | None:
        """The terms, as they are written down."""
        terms = self._connection.execute(_TERMS[self._version]).fetchone()
        return None if terms is None else tuple(terms)

    def last(self) -> _Line | None:
        """The newest line, as it is written down."""
        return self._line("ORDER BY id DESC LIMIT 1")

    def line(self, number: int) -> _Line | None:
        """One line, as it is written down."""
        return self._line("WHERE id = ?", number)

    def _line(self, which: str, *values: int) -> _Line | None:
        found = self._connection.execute(f"SELECT id, made, content FROM entries {which}", values).fetchone()
        return None if found is None else tuple(found)

    def all(self) -> tuple[Entry, ...]:
        """Every line, oldest first."""
        self._check_owners()
        return tuple(self._entry(row) for row in self._connection.execute(f"{self._select} ORDER BY id"))

    def of(self, number: int) -> tuple[Entry, ...]:
        """The lines of one reservation, oldest first."""
        query = f"{self._select} WHERE id = ? OR reservation = ? ORDER BY id"
        return tuple(self._entry(row) for row in self._connection.execute(query, (number, number)))

    def standing(self, number: int) -> Standing:
        """Where an open reservation stands."""
        find = self._connection.execute
        first = find(f"{self._select} WHERE id = ? AND kind = 'reserve'", (number,)).fetchone()
        if first is None:
            raise LedgerError(f"this ledger has no reservation {number}")
        last = find(f"{self._select} WHERE reservation = ? ORDER BY id DESC LIMIT 1", (number,)).fetchone()
        if last is not None and last["kind"] == "settle":
            raise LedgerError(f"reservation {number} was settled: reserve again for further acts")
        with self._faithful():
            return Standing(
                reserved=_cost(first["price"], first["delta"]),
                debited=Cost() if last is None else _cost(last["total"], last["delta_total"]),
            )

    def acts(self, number: int) -> int:
        """How many acts a reservation has."""
        query = "SELECT count(*) FROM entries WHERE reservation = ? AND kind = 'debit'"
        return int(self._connection.execute(query, (number,)).fetchone()[0])

    def spent(self) -> Cost:
        """What counts as spent: the acts of settled reservations, and the whole of every open one."""
        counted = f"""
            SELECT coalesce(settled.total, opened.price), coalesce(settled.delta_total, opened.delta)
            FROM ({self._select}) AS opened
            LEFT JOIN ({self._select}) AS settled ON settled.reservation = opened.id AND settled.kind = 'settle'
            WHERE opened.kind = 'reserve'
        """
        self._check_owners()
        spent = Cost()
        with self._faithful():
            for price, delta in self._connection.execute(counted):
                spent += _cost(price, delta)
        return spent

    def _check_owners(self) -> None:
        """Refuse acts whose reservation is gone or was settled before: nobody would count them."""
        strays = """
            WITH settled AS (SELECT reservation, min(id) AS at FROM entries WHERE kind = 'settle' GROUP BY reservation)
            SELECT 1 FROM entries AS line LEFT JOIN settled ON settled.reservation = line.reservation
            WHERE line.id > settled.at OR (line.kind = 'reserve') <> (line.reservation IS NULL) OR (
                line.kind <> 'reserve'
                AND NOT EXISTS (
                    SELECT 1 FROM entries WHERE id = line.reservation AND id < line.id AND kind = 'reserve'
                )
            ) LIMIT 1
        """
        if self._connection.execute(strays).fetchone() is not None:
            raise damaged(self._path)

    def append(
        self, kind: Kind, reservation: int | None, *, cost: Cost, total: Cost, content: Mapping[str, Any]
    ) -> int:
        """Add a line; its number."""
        columns: dict[str, Any] = {
            "kind": kind,
            "reservation": reservation,
            "price": str(cost.price),
            "total": str(total.price),
            "content": json.dumps(content),
            "made": _now(),
        }
        if self._version > 1:
            columns |= {"delta": str(cost.delta), "delta_total": str(total.delta)}
        elif cost.delta or total.delta:
            raise LedgerError(f"{self._path} is a ledger of an older form, which holds no delta of an act")
        names, places = ", ".join(columns), ", ".join("?" for _ in columns)
        insert = f"INSERT INTO entries ({names}) VALUES ({places})"
        number = self._connection.execute(insert, tuple(columns.values())).lastrowid
        assert number is not None
        return number

    def _entry(self, row: sqlite3.Row) -> Entry:
        with self._faithful():
            content: dict[str, Any] = json.loads(row["content"])
            cost = _cost(row["price"], row["delta"])
            if not isinstance(content.get("label", ""), str):
                raise ValueError("a label is a text")
            return Entry(
                number=row["id"],
                kind=row["kind"],
                reservation=row["reservation"] or row["id"],
                price=cost.price,
                label=content.get("label", ""),
                event=from_json(content["event"]) if "event" in content else None,
                made=row["made"],
                delta=cost.delta,
                terms=content.get("terms", ""),
            )

    @contextmanager
    def _faithful(self) -> Iterator[None]:
        try:
            yield
        except _ODD as error:
            raise damaged(self._path) from error


def damaged(path: Path) -> LedgerError:
    return LedgerError(f"{path} is damaged: restore it from a copy, and spend nothing until then")


def resolved(path: Path) -> Path:
    """The one name of a file: absolute, and without links."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or a working directory that is gone
        raise LedgerError(f"there is no ledger at {path}: make one first") from None


def _file_at(path: Path) -> tuple[int, int]:
    """Which file a name leads to. Refused where there is none, or where it has a second name: what an interrupted
    transaction leaves behind is found under the name that it was begun with, and never under another hard link."""
    try:
        found = os.stat(path) if path.is_file() else None
    except OSError:
        found = None
    if found is None:
        raise LedgerError(f"there is no ledger at {path}: make one first")
    if found.st_nlink > 1:
        raise LedgerError(f"{path} has {found.st_nlink} names (hard links), and a ledger has one: remove the others")
    return found.st_dev, found.st_ino


def plain(connection: sqlite3.Connection, known: Sequence[str], *, tables: bool = True) -> bool:
    """Whether a database has nothing that was not made by these statements: a trigger or a view of somebody else's
    would change what is read and written. Without `tables`, its tables may have other columns."""
    query = "SELECT type, sql FROM sqlite_master WHERE sql IS NOT NULL AND name <> 'sqlite_sequence'"
    return all(sql in known or (kind == "table" and not tables) for kind, sql in connection.execute(query))


def _cost(price: object, delta: object) -> Cost:
    cost = Cost(price=read_fraction(price), delta=read_fraction(delta))
    if not (0 <= cost.price < _MOST and 0 <= cost.delta < _MOST):
        raise ValueError("what was spent is a number from 0 on")
    return cost


def _make_durable(connection: sqlite3.Connection) -> None:
    """A commit returns only when file and journal are on disk; the journal is emptied (and synced) instead of removed,
    so that no rollback can come back after a loss of power."""
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("PRAGMA synchronous = FULL")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _reason(error: sqlite3.DatabaseError) -> str:
    return str(error) or type(error).__name__
