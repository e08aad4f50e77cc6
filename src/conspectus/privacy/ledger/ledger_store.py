"""The lines of a ledger, and the role of whatever stores them: a file here, a database that many hosts share.

Nothing is weighed here: a store knows what was reserved, debited and settled, in which order, and that it is durable.
What may be written is decided in `ledger`, inside one transaction with what was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Protocol

from conspectus.privacy.events import Event, from_json, read_fraction
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.prices import Cost
from conspectus.privacy.relation import Neighbours

from .ledger_terms import LedgerError, LedgerRetired, LedgerTerms, follows

VERSION = 2
# Files of version 1 have no δ in any line, and stay as they are: nothing in them may ever have one.
_TERMS = {1: "SELECT *, '0' AS delta_cap FROM terms", 2: "SELECT * FROM terms"}
_LINES = {1: "SELECT *, '0' AS delta, '0' AS delta_total FROM entries", 2: "SELECT * FROM entries"}
READABLE = tuple(_LINES)

Kind = Literal["reserve", "debit", "settle"]
_MOST = 1 << 1000
"""No price is larger, and every price is a float."""
_RETIRED = '{"retired":'
"""How the content of the line begins that closes a ledger."""
_ODD = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What a damaged line may make its readers raise."""
_Line = tuple[Any, ...]
"""The number, the moment and the content of a line."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the ledger. `price`: what was reserved, what the act costs, or the sum of the settled acts; `delta`
    the same of those δ that are the acts' own. `terms`: the digest of what a session was opened with. `study` and `by`:
    what it is for, and who asked. `declares`: of a line that declares a study, what it says of it; `retired`: of the
    line that closes the ledger, why."""

    number: int
    kind: Kind
    reservation: int
    price: Fraction
    label: str
    event: Event | None
    made: str
    delta: Fraction = Fraction(0)
    terms: str = ""
    study: str = ""
    by: str = ""
    declares: Mapping[str, Any] | None = None
    retired: str | None = None

    @property
    def registers(self) -> bool:
        """Whether the line is about the ledger itself, and no release or session."""
        return self.declares is not None or self.retired is not None


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Of an open reservation: what it reserved, and what was debited so far."""

    reserved: Cost
    debited: Cost


class Answered(Protocol):
    """What a statement answered."""

    def fetchone(self) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...


class Statements(Protocol):
    """How one transaction speaks to its database: SQL that both databases know, with ? for values."""

    def execute(self, query: str, values: tuple[Any, ...] = ()) -> Answered: ...

    def insert(self, columns: Mapping[str, Any]) -> int:
        """Add an entry; its number, which is one above the last."""


class LedgerStore:
    """Where the lines of one ledger lie: the role, and what all its players do alike.

    A store promises: a transaction that writes is alone from its first read on; when it ends without an error its lines
    are durable, and else it leaves no trace; lines are only ever added. Each transaction opens its own connection, so
    that none is carried across a fork or between threads.

    A name can come to mean something else: a file is exchanged, a database restored from an old copy. Another ledger
    has another budget. So each transaction looks whether it found the same place again, with all that was seen there.

    Attributes:
        path: Where it is, to be shown: a file, or an address without its password.
        terms: What the ledger is bound to.
    """

    path: Path | str
    terms: LedgerTerms

    def __init__(self) -> None:
        self._version = VERSION
        self._pinned: object = None
        self._bound: tuple[Any, ...] | None = None
        self._seen: _Line | None = None

    def _transaction(self, *, write: bool) -> AbstractContextManager[Statements]:
        """A connection inside a transaction; without an error its end is a commit that is durable."""
        raise NotImplementedError

    def _place(self, connection: Statements) -> object:
        """What the place is known by, whatever lines it holds."""
        raise NotImplementedError

    @contextmanager
    def reading(self) -> Iterator[Lines]:
        """One transaction that sees one state of the ledger."""
        with self._transaction(write=False) as connection:
            yield self._looked(connection)

    @contextmanager
    def writing(self) -> Iterator[Lines]:
        """One transaction, alone from its first read on; on an error it leaves no trace."""
        with self._transaction(write=True) as connection:
            lines = self._looked(connection)
            yield lines
            last = lines.last()
        self._seen = last

    def _looked(self, connection: Statements) -> Lines:
        """The lines, of the ledger that was opened. One that was removed and made again may be known by the same
        number: it does not have the lines that were seen."""
        lines, last = Lines(self.path, connection, self._version), self._seen
        if (
            self._place(connection) != self._pinned
            or lines.bound() != self._bound
            or (last is not None and lines.line(last[0]) != last)
        ):
            raise LedgerError(f"{self.path} is not the ledger any more that was opened: open it again")
        self._seen = lines.last()
        return lines


class Lines:
    """The lines of a ledger, as one transaction sees and adds to them."""

    def __init__(self, path: Path | str, connection: Statements, version: int = VERSION) -> None:
        self._path = path
        self._connection = connection
        self._version = version
        self._select = _LINES[version]

    def bound(self) -> tuple[Any, ...] | None:
        """The terms, as they are written down."""
        terms = self.terms()
        return None if terms is None else tuple(terms)

    def terms(self) -> Any:
        """The row of the terms, or None."""
        return self._connection.execute(_TERMS[self._version]).fetchone()

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
        if not 0 < number < 1 << 63:
            return ()  # no line has such a number, and no database takes it
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
            self.check_open()
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

    def retirement(self) -> Entry | None:
        """The line that closed the ledger: there is none behind it."""
        found = self._connection.execute(f"{self._select} ORDER BY id DESC LIMIT 1").fetchone()
        return self._entry(found) if found is not None and str(found["content"]).startswith(_RETIRED) else None

    def check_open(self) -> None:
        """Refuse where the ledger was closed for good."""
        closed = self.retirement()
        if closed is not None:
            day = closed.made.partition("T")[0]
            raise LedgerRetired(f"this ledger was retired on {day}: nothing more is released under it")

    def open_reservations(self) -> tuple[int, ...]:
        """The numbers of the reservations that were not settled."""
        query = """
            SELECT opened.id FROM entries AS opened
            LEFT JOIN entries AS settled ON settled.reservation = opened.id AND settled.kind = 'settle'
            WHERE opened.kind = 'reserve' AND settled.id IS NULL ORDER BY opened.id
        """
        return tuple(int(row[0]) for row in self._connection.execute(query))

    def reservations(self) -> tuple[tuple[Entry, Cost], ...]:
        """Every line that reserves, with what counts of it as spent: its acts where it was settled."""
        self._check_owners()
        counted = {}
        with self._faithful():
            query = f"SELECT * FROM ({self._select}) AS lines WHERE kind = 'settle'"
            for row in self._connection.execute(query):
                counted[row["reservation"]] = _cost(row["total"], row["delta_total"])
        opened = self._connection.execute(f"SELECT * FROM ({self._select}) AS lines WHERE kind = 'reserve' ORDER BY id")
        entries = [self._entry(row) for row in opened]
        return tuple((each, counted.get(each.number, Cost(price=each.price, delta=each.delta))) for each in entries)

    def spent(self) -> Cost:
        """What counts as spent: the acts of settled reservations, and the whole of every open one. What is left when a
        ledger is retired stays unspent: the line that closes it holds it, for programs that know no such line."""
        counted = f"""
            SELECT coalesce(settled.total, opened.price), coalesce(settled.delta_total, opened.delta)
            FROM ({self._select}) AS opened
            LEFT JOIN ({self._select}) AS settled ON settled.reservation = opened.id AND settled.kind = 'settle'
            WHERE opened.kind = 'reserve' AND substr(opened.content, 1, {len(_RETIRED)}) <> '{_RETIRED}'
        """
        self._check_owners()
        spent = Cost()
        with self._faithful():
            for price, delta in self._connection.execute(counted):
                spent += _cost(price, delta)
        return spent

    def _check_owners(self) -> None:
        """Refuse acts whose reservation is gone or was settled before: nobody would count them; and any line behind the
        one that closed the ledger."""
        strays = f"""
            WITH settled AS (SELECT reservation, min(id) AS at FROM entries WHERE kind = 'settle' GROUP BY reservation)
            SELECT 1 FROM entries AS line LEFT JOIN settled ON settled.reservation = line.reservation
            WHERE line.id > (
                SELECT min(id) FROM entries
                WHERE kind = 'reserve' AND substr(content, 1, {len(_RETIRED)}) = '{_RETIRED}'
            ) OR line.id > settled.at OR (line.kind = 'reserve') <> (line.reservation IS NULL) OR (
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
            "made": now(),
        }
        if self._version > 1:
            columns |= {"delta": str(cost.delta), "delta_total": str(total.delta)}
        elif cost.delta or total.delta:
            raise LedgerError(f"{self._path} is a ledger of an older form, which holds no delta of an act")
        return self._connection.insert(columns)

    def _entry(self, row: Any) -> Entry:
        with self._faithful():
            content: dict[str, Any] = json.loads(row["content"])
            cost = _cost(row["price"], row["delta"])
            texts = [content.get(name, "") for name in ("label", "study", "by", "retired")]
            if not all(isinstance(text, str) for text in texts):
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
                study=content.get("study", ""),
                by=content.get("by", ""),
                declares=dict(content["declares"]) if "declares" in content else None,
                retired=content.get("retired"),
            )

    @contextmanager
    def _faithful(self) -> Iterator[None]:
        try:
            yield
        except _ODD as error:
            raise damaged(self._path) from error


def damaged(path: Path | str) -> LedgerError:
    return LedgerError(f"{path} is damaged: restore it from a copy, and spend nothing until then")


def read_terms(path: Path | str, row: Any) -> LedgerTerms:
    """The terms of a ledger from their one row."""
    try:
        terms = LedgerTerms(
            currency=row["currency"],
            cap=_cost(row["cap"], row["delta_cap"]),
            budget=Budget(**json.loads(row["budget"])),
            neighbours=Neighbours.of(row["neighbours"]),
            unit=row["unit"],
            fingerprint=row["fingerprint"],
            table=row["subject"],
            made=row["made"],
        )
        if not follows(terms):
            raise ValueError("the cap of a ledger is that of its budget")
        return terms
    except _ODD as error:
        raise damaged(path) from error


def written_terms(terms: LedgerTerms) -> tuple[str, ...]:
    """The values of that row, in the order of its columns, without its number."""
    bound = (str(terms.neighbours), terms.unit, terms.fingerprint, terms.table)
    budget = json.dumps(vars(terms.budget))
    return (terms.currency, str(terms.cap.price), str(terms.cap.delta), budget, *bound, now())


def _cost(price: object, delta: object) -> Cost:
    cost = Cost(price=read_fraction(price), delta=read_fraction(delta))
    if not (0 <= cost.price < _MOST and 0 <= cost.delta < _MOST):
        raise ValueError("what was spent is a number from 0 on")
    return cost


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
