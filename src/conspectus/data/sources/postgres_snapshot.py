"""One snapshot of a PostgreSQL database, and the connections that read from it.

Rows come and go while a table is read, and counts of one moment with the number of rows of another belong to no table.
So everything is read from one snapshot, which is held as long as the table is open: every pass sees the same rows,
whoever writes meanwhile. Whatever the server says about a failure may quote a row or the password, and is not shown.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from conspectus.server_address import AddressError, shown

from .origin import SourceError, text

_BATCH = 4 << 20  # bytes that a connection gathers before it hands them on
# The encodings of databases, and that in which their texts are asked for, whatever a client has set. Each character of
# LATIN1 has its counterpart in UTF8; of any other encoding one without a counterpart would stop a pass. Bytes of no
# encoding come as they are, and are missing values where they are no text: to ask for UTF8 would stop at them.
_ENCODINGS = {"UTF8": "UTF8", "LATIN1": "UTF8", "SQL_ASCII": "SQL_ASCII"}
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SETTINGS = (
    ("DateStyle", "ISO, YMD"),
    ("IntervalStyle", "iso_8601"),
    ("TimeZone", "UTC"),
    ("extra_float_digits", "1"),
    # A pass may be long, and how long it is must not decide whether it ends.
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
)


class Database:
    """A snapshot of a database for one table, and connections that read from it.

    The table is locked before the snapshot is taken, so that nobody can change what it is while it is read: dropping a
    column, truncating the table or giving it a policy has to wait. Reading and writing rows does not.

    Args:
        address: The address, which may hold a password; no message does.
        names: The table as its name may be written; the first one that there is counts.
    """

    def __init__(self, address: str, names: Sequence[str]) -> None:
        self._address = address
        try:
            self.what = shown(address)
        except AddressError as error:
            raise SourceError(str(error)) from None
        self._snapshot = self._encoding = ""
        self._holder = self._connect()
        try:
            self.table = self._locked(names)
            encoding, recovering = self.ask(
                "SELECT pg_catalog.current_setting('server_encoding'), pg_catalog.pg_is_in_recovery()::text"
            )[0]
            if encoding not in _ENCODINGS:
                raise SourceError(f"the database is written in {encoding}, and texts of UTF8 or LATIN1 are read here")
            self._encoding = _ENCODINGS[encoding]
            self._set(self._holder)
            if recovering == "false":  # a standby cannot hand its snapshot to other connections
                self._snapshot = str(self.ask("SELECT pg_catalog.pg_export_snapshot()")[0][0])
        except BaseException:
            self.close()
            raise

    def _locked(self, names: Sequence[str]) -> str:
        for name in names:
            self._run(self._holder, _BEGIN)
            try:
                self._run(self._holder, f"LOCK TABLE {name} IN ACCESS SHARE MODE")
            except SourceError:
                self._run(self._holder, "ROLLBACK")
            else:
                return name
        raise SourceError(
            f"{self.what} has no table {names[0]} that your role may read: check its name; materialized views and "
            "foreign tables are not read"
        )

    @property
    def shared(self) -> bool:
        """Whether other connections can read from the same snapshot."""
        return bool(self._snapshot)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of the catalogue, which is public."""
        with self._guarded(), self._holder.cursor() as cursor:
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]

    def types(self, query: str) -> list[pa.DataType]:
        """The types of Arrow that the columns of a SELECT arrive in."""
        with self._guarded(), self._holder.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetch_record_batch().schema.types)

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """A connection that reads from the snapshot: one of its own, where there can be one."""
        if not self.shared:
            yield self._holder
            return
        connection = self._connect()
        try:
            self._run(connection, _BEGIN)
            self._run(connection, f"SET TRANSACTION SNAPSHOT {text(self._snapshot)}")
            self._set(connection)
            yield connection
        finally:
            with suppress(Exception):
                connection.close()

    def stream(self, connection: Any, query: str, given_up: threading.Event) -> Iterator[pa.RecordBatch]:
        """The batches of one SELECT on a connection that reads, until the pass is given up."""
        with self._guarded(), connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(_BATCH)})
            cursor.execute(query)
            for batch in cursor.fetch_record_batch():
                yield batch
                if given_up.is_set():
                    return

    def close(self) -> None:
        """Let the snapshot go."""
        with suppress(Exception):
            self._holder.close()

    def _connect(self) -> Any:
        with self._guarded():
            return _library().connect(self._address, autocommit=True)

    def _set(self, connection: Any) -> None:
        wanted = (*_SETTINGS, ("client_encoding", self._encoding))
        settings = ", ".join(f"pg_catalog.set_config({text(name)}, {text(value)}, true)" for name, value in wanted)
        self._run(connection, f"SELECT {settings}")

    def _run(self, connection: Any, statement: str) -> None:
        with self._guarded(), connection.cursor() as cursor:
            cursor.execute(statement)

    def _guarded(self) -> Any:
        return _Guard(self.what)


class _Guard:
    """Turns what the server or the library says into one sentence: their words may quote a row or the address."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> None:
        if isinstance(problem, Exception) and not isinstance(problem, SourceError):
            raise SourceError(
                f"{self._what} cannot be read: check the address, the name of the table, that the server runs, and "
                "that your role may read the table"
            ) from None


def _library() -> Any:
    try:
        import adbc_driver_postgresql.dbapi as library
    except ImportError:
        raise SourceError(
            'a table of PostgreSQL needs more packages: install them with pip install "conspectus[postgres]"'
        ) from None
    return library
