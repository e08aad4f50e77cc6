"""The file of a session: its terms, its acts, every answer that was given, and what was learned. All of it is public.

One SQLite file in write-ahead mode beside a lock file. Whoever asks holds the lock from the look for an earlier answer
to the commit of the new one, so all questions of all processes are in one order. The noisy threshold of a watch is
never here: it lives and dies in the memory of the process that paid for it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from conspectus.mechanisms.online_mechanism import State
from conspectus.privacy.events import Event, from_json, to_json
from conspectus.privacy.ledger.ledger_file import plain
from conspectus.real_path import real_path
from conspectus.synopses.arrow_messages import read_stream

from .given_answer import UNCOUNTED, Given, read_given
from .session_terms import Terms

_APPLICATION, _VERSION = 0x436F6E53, 1  # "ConS": SQLite's mark of whose file it is
_PATIENCE, _FAR = 120.0, 1 << 53  # seconds to wait for a reader of the same file; more than anybody counts
_TABLES = """
CREATE TABLE terms (id INTEGER PRIMARY KEY CHECK (id = 1), content TEXT NOT NULL) STRICT;
CREATE TABLE acts (
    position INTEGER PRIMARY KEY, mark TEXT NOT NULL, content TEXT NOT NULL, sure INTEGER NOT NULL
) STRICT;
CREATE INDEX unsure ON acts (position) WHERE sure = 0;
CREATE TABLE answers (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, question TEXT NOT NULL,
    count REAL NOT NULL, basis TEXT NOT NULL, margin TEXT, price TEXT NOT NULL
) STRICT;
CREATE TABLE learned (name TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT;
CREATE TABLE standing (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, ended INTEGER NOT NULL) STRICT;
"""
_STATEMENTS = tuple(_TABLES.strip().removesuffix(";").split(";\n"))
_LOOK = """
SELECT version, ended, (SELECT coalesce(max(number), 0) FROM answers), EXISTS (SELECT 1 FROM acts WHERE sure = 0)
FROM standing
"""
_FREE = "SELECT count(*) FROM answers WHERE number > ? AND number <= ? AND instr(margin, ?)"
_META = "meta"
_ODD = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError)
"""What a damaged file may make its readers raise."""


class SessionError(ValueError):
    """A session that cannot be used so: closed, in another process, another table, an old copy, a damaged file."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a session stands.

    Attributes:
        version: How often it learned something, or settled acts that a crash had left open.
        ended: Whether it was ended for good.
        asked: How many different questions were answered.
        counted: How many of them count towards the declared number; see `Given.counts`.
        unsure: Whether the last question left acts of which only the ledger knows if they happened.
    """

    version: int
    ended: bool
    asked: int
    counted: int
    unsure: bool


class Store:
    """A session file, or the same in memory when there is no path. Not for use by two threads at once."""

    def __init__(self, path: Path | None, connection: sqlite3.Connection, lock: int | None) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        self._file = None if path is None else _file_at(path)
        self._held = 0
        self._sure: bool | None = None
        self._seen = self._free = 0  # how many answers were looked at, and how many of them do not count

    @classmethod
    def create(cls, path: Path | None) -> Store:
        """A new file, never over an existing one; or a store in memory."""
        if path is not None:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except FileExistsError:
                raise SessionError(f"{path} already exists: resume it, or choose another name") from None
            except OSError as problem:
                raise SessionError(f"no session can be kept at {path}: {problem.strerror}") from None
        store = cls(path, _connected(path), None if path is None else _lock_of(path))
        with store.alone(), store._writing(sure=True) as connection:
            for statement in _STATEMENTS:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute("INSERT INTO standing VALUES (1, 0, 0)")
        return store

    @classmethod
    def open(cls, path: Path) -> Store:
        """An existing session file, after a look at whether it is one."""
        if not path.is_file():
            raise SessionError(f"there is no session at {path}: open one with open_session(…, path=…)")
        _file_at(path)  # before SQLite begins a second log under a second name
        connection = None
        try:
            connection = _connected(path)
            marks = [connection.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("application_id", "user_version")]
            sound = [row[0] for row in connection.execute("PRAGMA quick_check")] == ["ok"]
            sound = sound and plain(connection, _STATEMENTS)
        except (sqlite3.DatabaseError, UnicodeDecodeError):  # SQLite quotes a damaged file in its messages
            marks, sound = [], False
        if connection is None or marks != [_APPLICATION, _VERSION] or not sound:
            if connection is not None:
                connection.close()
            raise SessionError(f"{path} is not a session that this version can read")
        return cls(path, connection, _lock_of(path))

    def discard(self) -> None:
        """Remove the file of a session that could not be opened."""
        self.close()
        if self.path is not None:
            for ending in ("", "-wal", "-shm", ".lock"):
                self.path.with_name(self.path.name + ending).unlink(missing_ok=True)

    def close(self) -> None:
        self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the session against every other process; the system lets go when a process dies."""
        if self._lock is not None and not self._held:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._held += 1
        try:
            if self.path is not None and self._held == 1 and _file_at(self.path) != self._file:
                raise SessionError(f"{self.path} is not the file any more that this session was in: resume the session")
            yield
        finally:
            self._held -= 1
            if self._lock is not None and not self._held:
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def free(self) -> bool:
        """Whether no other process holds the session at this moment."""
        if self._lock is not None and not self._held:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        return True

    @contextmanager
    def _writing(self, *, sure: bool) -> Iterator[sqlite3.Connection]:
        """One transaction.

        With `sure` it returns when the disk has it. Otherwise it returns when the operating system has it: that
        outlives this process, but not a loss of power.
        """
        connection = self._connection
        if sure != self._sure:
            connection.execute(f"PRAGMA synchronous = {'FULL' if sure else 'NORMAL'}")
            self._sure = sure
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as problem:
            raise SessionError(f"{self.path} cannot be written ({problem}): make room, or mend its rights") from problem
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def write_terms(self, terms: Terms) -> None:
        with self._writing(sure=True) as connection:
            connection.execute("INSERT INTO terms VALUES (1, ?)", (json.dumps(terms.to_json()),))

    def terms(self) -> Terms:
        with self._faithful():
            row = self._connection.execute("SELECT content FROM terms").fetchone()
            if row is None:
                raise SessionError(f"{self.path} holds no session: it died before it was opened, open another one")
            return Terms.from_json(json.loads(row[0]))

    def acts(self, start: int = 0) -> tuple[tuple[str, Event], ...]:
        """The acts from a position on, in order, each with its mark."""
        query = "SELECT position, mark, content FROM acts WHERE position >= ? ORDER BY position"
        with self._faithful():
            rows = self._connection.execute(query, (start,)).fetchall()
            if [row[0] for row in rows] != list(range(start, start + len(rows))):
                raise ValueError("acts are numbered without a gap")
            return tuple((row[1], from_json(json.loads(row[2]))) for row in rows)

    def intend(self, position: int, event: Event) -> str:
        """Say, durably, which act comes next, under a mark of its own. Only then is it debited, and only then drawn."""
        mark = os.urandom(8).hex()
        with self._writing(sure=True) as connection:
            connection.execute("INSERT INTO acts VALUES (?, ?, ?, 0)", (position, mark, json.dumps(to_json(event))))
        return mark

    def settle_acts(self, happened: int) -> None:
        """Keep the acts that happened, and strike those that were intended and never debited.

        Whoever else has the session open learns of those that are kept by the version: nobody knew them as sure. Of
        those that are struck nobody else ever knew.
        """
        with self._writing(sure=True) as connection:
            connection.execute("DELETE FROM acts WHERE position >= ?", (happened,))
            if connection.execute("UPDATE acts SET sure = 1 WHERE sure = 0").rowcount:
                connection.execute("UPDATE standing SET version = version + 1")

    def look(self) -> Standing:
        """Where the session stands, in one statement."""
        with self._faithful():
            version, ended, asked, unsure = self._connection.execute(_LOOK).fetchone()
            if not (0 <= version < _FAR and 0 <= asked < _FAR):  # the next number would not fit, after it was paid for
                raise ValueError("a session counts its questions from 0 on")
            if asked != self._seen:
                if asked < self._seen:
                    self._seen = self._free = 0
                self._free += self._connection.execute(_FREE, (self._seen, asked, UNCOUNTED)).fetchone()[0]
                self._seen = asked
        counted = asked - self._free
        return Standing(version=version, ended=bool(ended), asked=asked, counted=counted, unsure=bool(unsure))

    def find(self, key: str) -> Given | None:
        """The answer that was given to a question."""
        query = "SELECT count, basis, margin, price FROM answers WHERE key = ?"
        with self._faithful():
            row = self._connection.execute(query, (key,)).fetchone()
            return None if row is None else read_given(*row)

    def keep(self, key: str, question: str, given: Given, *, state: State | None, replacing: bool = False) -> None:
        """Write an answer down, and what was learned with it: all of it or nothing, before anybody sees it.

        An answer that was bought outright takes the place, and the number, of the guess before it.
        """
        margin = None if given.margin is None else json.dumps(given.margin.to_json())
        values = (key, question, given.count, given.basis, margin, str(given.price))
        with self._writing(sure=state is not None) as connection:
            if replacing:
                columns = "count = ?, basis = ?, margin = ?, price = ?"
                connection.execute(f"UPDATE answers SET {columns} WHERE key = ?", (*values[2:], key))
                self._seen = self._free = 0
            else:
                columns = "key, question, count, basis, margin, price"
                connection.execute(f"INSERT INTO answers ({columns}) VALUES (?, ?, ?, ?, ?, ?)", values)
            if state is not None:
                _learn(connection, state)

    def learn(self, state: State) -> None:
        """Write down what was learned before the first question."""
        with self._writing(sure=True) as connection:
            _learn(connection, state)

    def end(self) -> None:
        with self._writing(sure=True) as connection:
            connection.execute("UPDATE standing SET ended = 1")

    def state(self) -> State | None:
        """What was learned so far; None when the session died while it was being opened."""
        with self._faithful():
            rows = dict(self._connection.execute("SELECT name, content FROM learned").fetchall())
            if not rows:
                return None
            meta = json.loads(rows.pop(_META))
            return meta, {name: read_stream(content) for name, content in rows.items()}

    def history(self, last: int | None = None) -> Iterator[tuple[Any, Given]]:
        """Every question with its answer, in the order in which they were asked; or the last so many of them."""
        newest = "SELECT * FROM answers ORDER BY number DESC LIMIT ?"
        query = f"SELECT question, count, basis, margin, price FROM ({newest}) ORDER BY number"
        with self._faithful():
            for question, *rest in self._connection.execute(query, (-1 if last is None else last,)):
                yield json.loads(question), read_given(*rest)

    @contextmanager
    def _faithful(self) -> Iterator[None]:
        try:
            yield
        except SessionError:
            raise
        except (*_ODD, sqlite3.DatabaseError, pa.ArrowException) as problem:
            raise SessionError(f"{self.path} is damaged: restore it from a copy") from problem


def _connected(path: Path | None) -> sqlite3.Connection:
    address = ":memory:" if path is None else str(path)
    connection = sqlite3.connect(address, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


def _lock_of(path: Path) -> int:
    # A file of its own: closing any handle of the database would drop the locks that SQLite holds on it. Symbolic links
    # to one file share its lock, and there are no others.
    path = real_path(path, SessionError)
    return os.open(path.with_name(path.name + ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)


def _file_at(path: Path) -> tuple[int, int]:
    """Which file a name leads to; refused where it has a second name.

    A lock on the file itself would hold off whoever comes by another hard link, and would not do: SQLite's log of the
    latest writes lies beside the file under one name, and is not seen under another.
    """
    try:
        found = os.stat(path)
    except OSError:
        raise SessionError(f"there is no session at {path} any more: move it back") from None
    if found.st_nlink > 1:
        raise SessionError(f"{path} has {found.st_nlink} names (hard links), and a session has one: remove the others")
    return found.st_dev, found.st_ino


def _learn(connection: sqlite3.Connection, state: State) -> None:
    meta, tables = state
    rows: list[tuple[str, bytes]] = [(_META, json.dumps(meta).encode())]
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        rows.append((name, sink.getvalue().to_pybytes()))
    connection.execute("DELETE FROM learned")
    connection.executemany("INSERT INTO learned VALUES (?, ?)", rows)
    connection.execute("UPDATE acts SET sure = 1 WHERE sure = 0")
    connection.execute("UPDATE standing SET version = version + 1")
