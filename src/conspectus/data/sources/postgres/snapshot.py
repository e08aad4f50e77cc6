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

from conspectus.data.sources.origin import SourceError, kept, text
from conspectus.server_address import AddressError, shown

from .copying import CopyError, Decoder, blocks

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
        self._busy: list[Any] = []
        self._lock = threading.Lock()
        self._holder = self._connect()
        with kept(self):
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
        with self._guarded():
            return [tuple(map(_said, row)) for row in self._holder.execute(query.encode()).fetchall()]

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

    def stream(
        self, connection: Any, query: str, kinds: Sequence[str], given_up: threading.Event
    ) -> Iterator[pa.RecordBatch]:
        """The batches of one SELECT on a connection that reads, until the pass is given up.

        Args:
            connection: What `reading` gave.
            query: The SELECT.
            kinds: The types of its columns, by the names of `copying.KINDS`.
            given_up: Set when nobody wants the rest.

        Yields:
            The rows, whose columns are called c0, c1, …
        """
        with self._guarded(), self._cancellable(connection):
            wire = connection.pgconn
            wire.exec_(f"COPY ({query}) TO STDOUT (FORMAT binary)".encode())
            decoder = Decoder(kinds)
            for block in blocks(wire):
                batch = None if given_up.is_set() else decoder.batch(block)
                if batch is not None:
                    yield batch
                elif connection is not self._holder:  # that one reads to the end, and keeps its snapshot
                    return
            if wire.get_result().status != _library().pq.ExecStatus.COMMAND_OK:
                raise CopyError
            wire.get_result()

    def cancel(self) -> None:
        """Have the server end whatever is being read from it."""
        with self._lock, suppress(Exception):
            for connection in self._busy:
                connection.cancel()

    @contextmanager
    def _cancellable(self, connection: Any) -> Iterator[None]:
        """Note what is being read; not on the connection that holds the snapshot, which would be lost with it."""
        noted = [connection] if connection is not self._holder else []
        with self._lock:
            self._busy += noted
        try:
            yield
        finally:
            with self._lock:
                self._busy = [each for each in self._busy if each not in noted]

    def close(self) -> None:
        """Let the snapshot go."""
        with suppress(Exception):
            self._holder.close()

    def _connect(self) -> Any:
        with self._guarded():
            return _library().connect(self._address, autocommit=True, prepare_threshold=None, client_encoding="UTF8")

    def _set(self, connection: Any) -> None:
        wanted = (*_SETTINGS, ("client_encoding", self._encoding))
        settings = ", ".join(f"pg_catalog.set_config({text(name)}, {text(value)}, true)" for name, value in wanted)
        self._run(connection, f"SELECT {settings}")

    def _run(self, connection: Any, statement: str) -> None:
        with self._guarded():
            connection.execute(statement.encode())

    def _guarded(self) -> Any:
        return _Guard(self.what)


def _said(value: Any) -> Any:
    """A value of the catalogue: of a database without an encoding its texts come as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


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
        import psycopg
    except ImportError:
        raise SourceError(
            'a table of PostgreSQL needs more packages: install them with pip install "conspectus[postgres]"'
        ) from None
    return psycopg
