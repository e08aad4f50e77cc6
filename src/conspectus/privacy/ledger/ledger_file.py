"""The file of a ledger: its terms and its lines, in one SQLite file to which lines are only ever added."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from conspectus.real_path import real_path

from .ledger_store import READABLE, VERSION, LedgerStore, Lines, Statements, damaged, read_terms, written_terms
from .ledger_terms import LedgerError, LedgerTerms

_APPLICATION = 0x436F6E73  # "Cons": SQLite's mark of whose file it is
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


class LedgerFile(LedgerStore):
    """One file, under one name.

    A relative name would lead elsewhere after `chdir`, and a link after it was set anew: the name is resolved once.
    """

    path: Path

    def __init__(self, path: Path) -> None:
        """An existing file, after a look at whether it is a ledger."""
        super().__init__()
        self.path = path = real_path(path, LedgerError)
        self._pinned = _file_at(path)
        with self._connection() as connection:
            if [row[0] for row in connection.execute("PRAGMA quick_check")] != ["ok"]:
                raise damaged(path)
            marks = [connection.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("application_id", "user_version")]
            if marks[0] != _APPLICATION or marks[1] not in READABLE:
                raise LedgerError(f"{path} is not a ledger that this version can read")
            self._version = marks[1]
            if not plain(connection, _STATEMENTS, tables=self._version == VERSION):
                raise damaged(path)
            lines = Lines(path, _Sqlite(connection), self._version)
            self._bound = lines.bound()
            self.terms = read_terms(path, lines.terms())

    @classmethod
    def create(cls, path: Path, terms: LedgerTerms) -> LedgerFile:
        """A new file, never over an existing one."""
        path = real_path(path, LedgerError)
        try:
            with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as connection:
                _make_durable(connection)
                connection.execute("BEGIN EXCLUSIVE")
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise LedgerError(f"{path} already exists: open it, or choose another name for a new ledger")
                for statement in _STATEMENTS:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
                connection.execute("INSERT INTO terms VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)", written_terms(terms))
                connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise LedgerError(f"no ledger can be made at {path}: {_reason(error)}") from error
        return cls(path)

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[_Sqlite]:
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield _Sqlite(connection)
            connection.execute("COMMIT")

    def _place(self, connection: Statements) -> tuple[int, int]:
        return _file_at(self.path)

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


class _Sqlite:
    """One transaction of SQLite."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, query: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        return self._connection.execute(query, values)

    def insert(self, columns: Mapping[str, Any]) -> int:
        names, places = ", ".join(columns), ", ".join("?" for _ in columns)
        insert = f"INSERT INTO entries ({names}) VALUES ({places})"
        number = self._connection.execute(insert, tuple(columns.values())).lastrowid
        assert number is not None
        return number


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


def _make_durable(connection: sqlite3.Connection) -> None:
    """A commit returns only when file and journal are on disk; the journal is emptied (and synced) instead of removed,
    so that no rollback can come back after a loss of power."""
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("PRAGMA synchronous = FULL")


def _reason(error: sqlite3.DatabaseError) -> str:
    return str(error) or type(error).__name__
