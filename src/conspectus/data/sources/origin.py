"""Where rows come from, as one DuckDB relation for each pass."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from conspectus.suggestions import did_you_mean

from .lines import Tally


class SourceError(ValueError):
    """A source that cannot be read as the table of its schema. The message holds nothing of its rows."""


_SAME = frozenset(
    ["BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"]
    + ["FLOAT", "DOUBLE", "DATE", "VARCHAR", "BLOB"]
)
_UNWRITTEN = ("TIMESTAMP", "VARIANT", "GEOMETRY")
_HARMLESS = frozenset({"unused_columns", "column_lifetime"})
# What fails while batches are made reaches the reader as an OSError, with the message of DuckDB in it.
_REPORTS = (duckdb.Error, pa.ArrowException, ValueError, ArithmeticError, TypeError, LookupError, MemoryError, OSError)


class Closable(Protocol):
    """Something that is let go of."""

    def close(self) -> None: ...


class Far(Protocol):
    """A source whose passes run elsewhere, in parts."""

    @property
    def parts(self) -> tuple[int, int]:
        """How many parts of the latest pass are done, and how many it has."""

    def stop(self) -> None:
        """End every pass that runs now; each of them raises."""


@dataclass(frozen=True)
class Origin:
    """A way to start a pass over the raw rows.

    `relation` makes a fresh DuckDB relation with at least the columns that it is asked for; `names` maps the names of
    the source to those of the relation; `filtered` says that some rows of the source were left out, so that their
    number is private; `computed` that values may be the work of an expression, and null where the raw ones are not;
    `tally` counts odd lines for the owner where rows are lines; `fingerprinted` are the columns of the relation that
    hold the fingerprints of records, and not the records; `rows` is how many rows there are, where the source says so
    without a pass: a frame knows, and so does the footer of a Parquet file. `batches`, where nothing of SQL is to be
    done, is a pass over some columns of the relation in their order, at most so many rows at a time, in types that
    `arrays.tidy` gives: then a dictionary stays one, and DuckDB does not write its texts out for every row. `held` is
    closed with the origin: what lies behind it, such as a snapshot of a database. `far` is there where passes run
    elsewhere: they are watched and stopped through it.
    """

    connection: Connection
    relation: Callable[[Collection[str]], Any]
    names: Mapping[str, str]
    filtered: bool = False
    computed: bool = False
    tally: Callable[[], Tally] | None = None
    fingerprinted: frozenset[str] = frozenset()
    rows: int | None = None
    batches: Callable[[Sequence[str], int], Iterator[pa.RecordBatch]] | None = None
    held: Closable | None = None
    far: Far | None = None

    def column(self, name: str, what: str, wanted: Collection[str] = ()) -> str:
        """The relation's name of a column that the schema asks for."""
        if name in self.names:
            return self.names[name]
        if wanted and not set(wanted) & set(self.names):
            raise SourceError(f"{what} has none of the columns of the schema: is it the schema of another table?")
        cure = did_you_mean(name, self.names) or ": add it, or correct the name in the schema"
        raise SourceError(f'{what} has no column "{name}"{cure}')

    def close(self) -> None:
        """Let go of everything."""
        self.connection.close()
        if self.held is not None:
            self.held.close()


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A value as an SQL string."""
    return "'" + value.replace("'", "''") + "'"


def fresh(name: str, *taken: str) -> str:
    """A name that none of some texts mentions: nothing written there can mean it."""
    mentioned = " ".join(taken).casefold()
    number = 0
    while f"{name}_{number}".casefold() in mentioned:
        number += 1
    return f"{name}_{number}"


def exported(name: str, kind: str) -> str:
    """A column of DuckDB as a type that means the same in Arrow; all others become text, as far as they can.

    A moment beyond the calendar cannot be written as a text, and ends the pass. So what may hold moments is missing.
    """
    if kind in _SAME or (kind.startswith(("TIMESTAMP", "DECIMAL", "ENUM")) and not kind.endswith("]")):
        return quoted(name)
    if any(word in kind.upper() for word in _UNWRITTEN):
        return "CAST(NULL AS VARCHAR)"
    return f"TRY(CAST({quoted(name)} AS VARCHAR))"


class Connection:
    """A database in memory that spills into a folder of its own; both go when it is closed, or no longer held.

    It is made when it is first asked for: a frame that is read without SQL needs none, and making one takes longer than
    reading ten thousand rows.
    """

    def __init__(self, *, memory_limit: str | None = None) -> None:
        self._limit = {"memory_limit": memory_limit} if memory_limit else {}
        self._lock = threading.Lock()
        self._database: Any = None
        self._finalizer: Callable[[], object] | None = None
        if memory_limit:
            self.cursor()  # a limit that is none is refused at once

    def cursor(self) -> Any:
        """A way to run a query beside others."""
        with self._lock:
            if self._database is None:
                self._open()
            return self._database.cursor()

    def _open(self) -> None:
        if self._finalizer is not None:
            raise duckdb.ConnectionException("the connection is closed")
        spill = tempfile.mkdtemp(prefix="conspectus-")
        database = duckdb.connect(
            config={
                "temp_directory": spill,
                "preserve_insertion_order": False,  # the order of rows means nothing here, and keeping it costs memory
                "autoinstall_known_extensions": False,
                "python_enable_replacements": False,
                "TimeZone": "UTC",
                "arrow_large_buffer_size": True,  # one batch may hold more than 2 GiB of texts
                **self._limit,
            }
        )
        self._database, self._finalizer = database, weakref.finalize(self, _discard, database, spill)
        # A plan as it is written: an optimizer may move an expression out of the TRY that catches its failure, or
        # bound ids by an aggregate, which cannot spill to disk.
        database.execute(f"SET disabled_optimizers = {text(_optimizers())}")

    def run(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query about public things."""
        return list(self.cursor().sql(query).fetchall())

    def close(self) -> None:
        """Remove the database and its folder."""
        with self._lock:
            self._finalizer = self._finalizer or (lambda: None)
            self._finalizer()


@cache
def _optimizers() -> str:
    """All optimizers but the harmless ones."""
    with closing(duckdb.connect()) as database:
        names = [str(name) for (name,) in database.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
    return ",".join(name for name in names if name not in _HARMLESS)


def _discard(database: Any, spill: str) -> None:
    database.close()
    shutil.rmtree(spill, ignore_errors=True)


@contextmanager
def kept(held: Closable) -> Iterator[None]:
    """Let go of what no table could be made from."""
    with ExitStack() as undone:
        undone.callback(held.close)
        yield
        undone.pop_all()


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """Turn what is reported while rows are read into one sentence.

    The messages themselves quote the rows, or a length; which kind of failure it was may depend on a row too.
    """
    try:
        yield
    except SourceError:
        raise
    except _REPORTS:
        raise SourceError(f"{what} cannot be read as a table: check that it is complete and well-formed") from None
