"""A table of a PostgreSQL database, streamed from one snapshot of it in ranges of pages.

The server is asked for columns of one plain table and for nothing else: an expression could stop at a value, and a view
or a policy could show the rows of one person depending on those of others. An owner's own SELECT runs here, in DuckDB,
under the rules of `rowwise`. Types are those of a closed list: what a value means does not depend on its neighbours.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from conspectus.compiled import processors
from conspectus.data.columns.arrays import tidied, tidy
from conspectus.data.schema import Schema
from conspectus.data.sources.batches import cut
from conspectus.data.sources.origin import Connection, Origin, SourceError, kept, quoted, text
from conspectus.data.sources.sql import Base, is_query, open_over
from conspectus.server_address import AddressError, without

from .copying import KINDS
from .snapshot import Database

RANGES = 16
"""Ranges of pages that a pass consists of: a fixed number, since that of the pages tells how much the rows hold."""
_WAITING = 4  # batches that wait for whoever counts
_LOOK = 0.2  # seconds between two looks at whether a pass was given up
# Types whose values arrive as what they are; those of _WRITTEN arrive as the texts that the server prints, and a number
# of any length is one of them, since Arrow has no type for it.
_SAME = frozenset([*KINDS, "varchar", "bpchar", "name"])
_WRITTEN = frozenset(["numeric", "uuid", "json", "jsonb", "time", "timetz", "interval", "inet", "cidr", "macaddr"])
_READ = _SAME | _WRITTEN | {"enum"}

_TABLE = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text,
    c.relrowsecurity OR c.relforcerowsecurity, c.relhasrules, c.relpersistence = 't',
    pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::bigint
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
"""
_COLUMNS = """
WITH RECURSIVE known AS (
    SELECT a.attnum::bigint AS place, a.attname::text AS name, a.attgenerated::text AS made, t.oid, t.typtype,
        t.typbasetype, t.typname::text AS kind, t.typnamespace
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT k.place, k.name, k.made, t.oid, t.typtype, t.typbasetype, t.typname::text, t.typnamespace
    FROM known k JOIN pg_catalog.pg_type t ON t.oid = k.typbasetype WHERE k.typtype = 'd'
)
SELECT name, CASE WHEN made = 'v' THEN 'computed' WHEN typtype = 'e' THEN 'enum'
    WHEN n.nspname = 'pg_catalog' THEN kind ELSE '' END
FROM known JOIN pg_catalog.pg_namespace n ON n.oid = typnamespace WHERE typtype <> 'd' ORDER BY place
"""
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "c": "a type"}


def open_postgres(address: str, table: str | None, schema: Schema | None, *, memory_limit: str | None = None) -> Origin:
    """A table of a database, by its name, or a SELECT over one that maps each row by itself.

    Without a schema, for the owner's own look at it, the columns are all that can be read.
    """
    try:
        address, said = without(address, "table", "")
    except AddressError as error:
        raise SourceError(str(error)) from None
    table = table or said
    if not table:
        raise SourceError('a database has many tables: name one, as in table="visits", or ?table=visits in its address')
    if schema is None or not is_query(table):
        pages = Pages(Database(address, _spellings(*table.split("."))), readable=schema is None)
        with kept(pages.database):
            return _plain(pages, schema, memory_limit)
    read: list[Pages] = []

    def found(space: str, name: str) -> Base:
        read.append(Pages(Database(address, _spellings(space, name)), readable=True))
        return Base(read[0].names, read[0].reader, {})

    try:
        origin = open_over(table, schema, found, memory_limit=memory_limit)
    except BaseException:
        for pages in read:
            pages.database.close()
        raise
    return replace(origin, held=read[0].database, far=read[0])


def _plain(pages: Pages, schema: Schema | None, memory_limit: str | None) -> Origin:
    if schema is not None:
        wanted = {column.name for column in schema.columns} | {schema.unit.column}
        pages.check([place for place, name in enumerate(pages.names) if name in wanted])
    connection = Connection(memory_limit=memory_limit)
    names = {name: f"c{place}" for place, name in enumerate(pages.names)}

    def relation(columns: Collection[str]) -> Any:
        return connection.cursor().from_arrow(
            pages.reader([place for place in range(len(names)) if f"c{place}" in columns])
        )

    def batches(columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        positions = [int(column.removeprefix("c")) for column in columns]
        with closing(pages.batches(sorted(set(positions)))) as found:
            for batch in found:
                held = [batch.column(f"c{position}") for position in positions] or [batch.column(0)]
                yield from cut(pa.RecordBatch.from_arrays(held, names=list(columns) or ["c"]), rows)

    return Origin(connection, relation, names, batches=batches, held=pages.database, far=pages)


def _spellings(*parts: str) -> list[str]:
    """A name as it is written, and as the server reads a name without quotation marks: in small letters."""
    plain = [part.strip().strip('"') for part in parts if part.strip()]
    return list(dict.fromkeys(".".join(quoted(part) for part in each) for each in (plain, [p.lower() for p in plain])))


@dataclass(frozen=True)
class _Leaf:
    """A table that holds rows: a whole one, or one of the parts of a partitioned one."""

    name: str
    pages: int


class Pages:
    """One table of a database as ranges of pages.

    Guarantee: every pass reads each row of one snapshot of the table once, and each value depends on its own row alone.
    """

    def __init__(self, database: Database, *, readable: bool = False) -> None:
        """The table that a database was opened for; `readable` leaves out columns that are not read here."""
        self.database = database
        self.parts = (0, 0)
        self._running: list[threading.Event] = []
        with kept(database):
            self._find(readable)

    def _find(self, readable: bool) -> None:
        database = self.database
        place = database.ask(f"SELECT pg_catalog.to_regclass({text(database.table)})::oid::bigint")[0][0]
        if place is None:
            raise SourceError(f"{database.what} has no table {database.table}: check its name")
        found = database.ask(f"{_TABLE} WHERE c.oid = {int(place)}")[0]
        self.what = f"the table {found[2]} of {database.what}"
        columns = [(str(name), str(kind)) for name, kind in database.ask(_COLUMNS.format(oid=int(place)))]
        columns = [column for column in columns if not readable or column[1] in _READ]
        self.names = tuple(name for name, _ in columns)
        self._kinds = [kind for _, kind in columns]
        self._leaves = self._parts(int(place)) if found[3] == "p" else [self._leaf(found)]

    def check(self, positions: Sequence[int]) -> None:
        """Refuse columns of types that are not read here."""
        for place in positions:
            if self._kinds[place] not in _READ:
                raise SourceError(
                    f'column "{self.names[place]}" of {self.what} has a type that is not read here: numbers, texts, '
                    "dates and times, booleans and bytes are; store it as one of these"
                )

    def reader(self, positions: Sequence[int]) -> pa.RecordBatchReader:
        """One pass over the columns at some positions, in the types that are read here, named c0, c1, …"""
        places = list(positions) or [0]
        self.check(places)
        kind = pa.schema([(f"c{place}", tidied(KINDS[self._sent(place)])) for place in places])
        return pa.RecordBatchReader.from_batches(kind, self.batches(places))

    def batches(self, positions: Sequence[int]) -> Generator[pa.RecordBatch, None, None]:
        """One pass, whose ranges of pages are read side by side; their order means nothing."""
        self.check(positions)
        tasks: queue.SimpleQueue[str] = queue.SimpleQueue()
        queries = self._queries(positions)
        for query in queries:
            tasks.put(query)
        ready: queue.Queue[pa.RecordBatch | Exception | str | None] = queue.Queue(_WAITING)
        given_up = threading.Event()
        self.parts = (0, len(queries))
        self._running.append(given_up)
        workers = max(1, min(processors(), RANGES)) if self.database.shared else 1
        threads = [
            threading.Thread(target=self._work, args=(tasks, ready, given_up, positions), daemon=True)
            for _ in range(workers)
        ]
        for thread in threads:
            thread.start()
        try:
            done = 0
            while done < workers:
                found = _waited(ready, given_up)
                if isinstance(found, Exception):
                    raise found
                if found is None:
                    done += 1
                elif isinstance(found, str):
                    self.parts = (self.parts[0] + 1, len(queries))
                else:
                    yield found
        finally:
            self._running.remove(given_up)
            given_up.set()
            for thread in threads:
                thread.join()

    def stop(self) -> None:
        """End every pass that runs now, and what the server does for it; each of them raises."""
        for given_up in list(self._running):
            given_up.set()
        self.database.cancel()

    def _work(
        self,
        tasks: queue.SimpleQueue[str],
        ready: queue.Queue[Any],
        given_up: threading.Event,
        positions: Sequence[int],
    ) -> None:
        def hand_on(found: Any) -> None:
            while not given_up.is_set():
                with suppress(queue.Full):
                    ready.put(found, timeout=_LOOK)
                    return

        names = [f"c{place}" for place in positions]
        kinds = [self._sent(place) for place in positions] or ["bool"]
        try:
            with self.database.reading() as connection:
                while not given_up.is_set() and (query := _next(tasks)) is not None:
                    for batch in self.database.stream(connection, query, kinds, given_up):
                        if not positions:
                            hand_on(pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows)], names=["c"]))
                            continue
                        hand_on(pa.RecordBatch.from_arrays([tidy(column) for column in batch.columns], names=names))
                    hand_on(query)
            hand_on(None)
        except Exception as problem:
            hand_on(problem if isinstance(problem, SourceError) else SourceError(f"{self.what} cannot be read"))

    def _queries(self, positions: Sequence[int]) -> list[str]:
        """The SELECTs that together read every row once: ranges of pages, of which the last one has no end."""
        select = ", ".join(self._column(place) for place in positions) or "NULL::pg_catalog.bool"
        each = max(1, RANGES // max(1, len(self._leaves)))
        found = []
        for leaf in self._leaves:
            count = each if self.database.shared else 1
            edges = [leaf.pages * part // count for part in range(count)]
            for part, low in enumerate(edges):
                bounds = [f"ctid >= '({low},0)'::pg_catalog.tid"] if part else []
                if part + 1 < count:
                    bounds.append(f"ctid < '({edges[part + 1]},0)'::pg_catalog.tid")
                where = f" WHERE {' AND '.join(bounds)}" if bounds else ""
                found.append(f"SELECT {select} FROM ONLY {leaf.name}{where}")
        return found

    def _column(self, place: int) -> str:
        name = quoted(self.names[place])
        return name if self._kinds[place] in _SAME else f"{name}::pg_catalog.text"

    def _sent(self, place: int) -> str:
        """The type that a column is sent in."""
        kind = self._kinds[place]
        return kind if kind in KINDS else "text"

    def _leaf(self, found: tuple[Any, ...]) -> _Leaf:
        _, space, name, kind, secured, ruled, temporary, pages = found
        if kind != "r" or temporary:
            said = "a temporary table" if temporary else _KINDS.get(str(kind), "no table")
            raise SourceError(f"{self.what} is {said}: name the table that holds the rows")
        if secured:
            raise SourceError(f"{self.what} has row security, which shows rows by a rule: read it without")
        if ruled:
            raise SourceError(f"{self.what} has rules, which may show other rows than it holds: drop them")
        return _Leaf(f"{quoted(str(space))}.{quoted(str(name))}", int(pages))

    def _parts(self, place: int) -> list[_Leaf]:
        secured, ruled = self.database.ask(f"{_TABLE} WHERE c.oid = {place}")[0][4:6]
        if secured or ruled:
            raise SourceError(f"{self.what} has row security or rules: read it without")
        tree = f"SELECT relid FROM pg_catalog.pg_partition_tree({place}) WHERE isleaf"
        found = self.database.ask(f"{_TABLE} WHERE c.oid IN ({tree}) AND c.oid <> {place} ORDER BY c.oid")
        if not found:
            raise SourceError(f"{self.what} has no partitions: there is nothing to read")
        return [self._leaf(leaf) for leaf in found]


def _waited(ready: queue.Queue[Any], given_up: threading.Event) -> Any:
    """What comes next; a pass that was stopped has no end, and raises."""
    while not given_up.is_set():
        with suppress(queue.Empty):
            return ready.get(timeout=_LOOK)
    raise SourceError("the pass over the table was stopped")


def _next(tasks: queue.SimpleQueue[str]) -> str | None:
    try:
        return tasks.get_nowait()
    except queue.Empty:
        return None
