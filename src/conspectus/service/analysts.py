"""Who may ask: tokens kept as digests, and how much each analyst may ask of live sessions.

A cap on one analyst is fairness among them, and no part of any privacy guarantee: analysts may pool what they learn.
What protects the people in the table is the budget of the session and of its ledger.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import os
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conspectus.whole_numbers import MOST, whole

from .refusing import NOTHING, Refused

FILE = "analysts.db"
_APPLICATION = 0x436F6E41  # "ConA": SQLite's mark of whose file it is
_TABLES = (
    """CREATE TABLE analysts (
    name TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, questions INTEGER, share REAL, names TEXT, made TEXT NOT NULL,
    asked INTEGER NOT NULL DEFAULT 0
) STRICT""",
    """CREATE TABLE spending (
    analyst TEXT NOT NULL, session TEXT NOT NULL, spent REAL NOT NULL, PRIMARY KEY (analyst, session)
) STRICT""",
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class AnalystError(ValueError):
    """An analyst that cannot be added, or is not there."""


@dataclass(frozen=True, kw_only=True)
class Analyst:
    """Somebody with a token.

    Attributes:
        name: What the owner calls them.
        questions: How many new questions they may ask of all sessions together; None for as many as there are.
        share: The largest share of a session's budget that their questions may spend; None for all of it.
        names: The synopses and sessions they may use; None for all.
        made: The day on which the token was made.
        asked: How many new questions they have asked.
    """

    name: str
    questions: int | None
    share: float | None
    names: tuple[str, ...] | None
    made: str
    asked: int

    def may(self, name: str) -> bool:
        """Whether a synopsis or session is theirs to use."""
        return self.names is None or name in self.names


class Analysts:
    """The analysts of a folder, in one SQLite file that every process of the service reads. No token is in it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()

    def add(
        self,
        name: str,
        *,
        questions: int | None = None,
        share: float | None = None,
        names: Sequence[str] | None = None,
    ) -> str:
        """A new analyst, and the token, which is told this once and kept nowhere."""
        if not _NAME.fullmatch(name):
            raise AnalystError("the name of an analyst has letters, digits and . _ @ - only, at most 64 of them")
        if questions is not None and not whole(questions, 0):
            raise AnalystError(f"the number of questions is zero or more, and at most {MOST:,}")
        if share is not None and not 0 <= share <= 1:
            raise AnalystError("the share of a session's budget lies between 0 and 1")
        token = "cs_" + base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")
        listed = None if names is None else json.dumps(sorted(set(names)))
        row = (name, _digest(token), questions, share, listed, datetime.now(UTC).date().isoformat())
        with self._writing(create=True) as connection:
            if connection.execute("SELECT 1 FROM analysts WHERE name = ?", (name,)).fetchone():
                raise AnalystError(
                    f"there is an analyst {name} already: revoke that token first, or choose another name"
                )
            columns = "name, digest, questions, share, names, made"
            connection.execute(f"INSERT INTO analysts ({columns}) VALUES (?, ?, ?, ?, ?, ?)", row)
        return token

    def revoke(self, name: str) -> None:
        """Take the token of an analyst away. It is refused from the next request on."""
        with self._writing() as connection:
            if not connection.execute("DELETE FROM analysts WHERE name = ?", (name,)).rowcount:
                raise AnalystError(f"there is no analyst {name} here: conspectus serve token list shows them")

    def all(self) -> list[Analyst]:
        """Everybody with a token, by name."""
        return [analyst for _, analyst in self._rows()]

    def find(self, token: str) -> Analyst | None:
        """Whose token this is. Every digest is compared, each in constant time."""
        digest, found = _digest(token), None
        for kept, analyst in self._rows():
            if hmac.compare_digest(kept, digest):
                found = analyst
        return found

    def count(self, name: str, *, most: int | None, questions: int = 1) -> None:
        """Count new questions before they are asked; refused when the analyst may not ask so many more."""
        with self._writing() as connection:
            changed = connection.execute(
                "UPDATE analysts SET asked = asked + ? WHERE name = ? AND (? IS NULL OR asked + ? <= ?)",
                (questions, name, most, questions, most),
            ).rowcount
        if not changed:
            raise Refused(
                status=429,
                error="questions",
                title="Your token allows no more questions",
                text=f"It was made for {most or 0:,} new questions, and this would be more. {NOTHING} Questions that "
                "were asked before are still answered; the owner can give you another token.",
            )

    def spend(self, name: str, session: str, cost: float) -> None:
        """Write down what a question of an analyst took from a session's budget."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO spending VALUES (?, ?, ?) "
                "ON CONFLICT (analyst, session) DO UPDATE SET spent = spent + excluded.spent",
                (name, session, cost),
            )

    def spent(self, name: str, session: str) -> float:
        """What the questions of an analyst took from a session's budget so far."""
        with self._lock, self._told():
            row = (
                self._connected()
                .execute("SELECT spent FROM spending WHERE analyst = ? AND session = ?", (name, session))
                .fetchone()
            )
            if row is not None and not (isinstance(row[0], float | int) and 0 <= row[0] < math.inf):
                raise TypeError("a line of spending is damaged")
        return 0.0 if row is None else float(row[0])

    def _rows(self) -> list[tuple[str, Analyst]]:
        with self._lock, self._told():
            if self._connection is None and not self.path.is_file():
                return []
            query = "SELECT digest, name, questions, share, names, made, asked FROM analysts ORDER BY name"
            rows = self._connected().execute(query).fetchall()
            if not all(isinstance(digest, str) and _DIGEST.fullmatch(digest) for digest, *_ in rows):
                raise TypeError("a line of analysts is damaged")
            return [(digest, _analyst(line)) for digest, *line in rows]

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say in a sentence that the file is damaged, or busy for too long."""
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError, TypeError) as problem:
            why = problem if isinstance(problem, sqlite3.DatabaseError) else "it is damaged"
            raise AnalystError(
                f"{self.path} cannot be used ({why}): restore it, or remove it and make new tokens"
            ) from None

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            if not self.path.is_file():
                raise AnalystError(f"nobody has a token for {self.path.parent}: conspectus serve token add makes one")
            connection = sqlite3.connect(self.path, timeout=30.0, isolation_level=None, check_same_thread=False)
            try:
                mark = connection.execute("PRAGMA application_id").fetchone()[0]
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                mark = None
            if mark != _APPLICATION:
                connection.close()
                raise AnalystError(f"{self.path} is not the list of analysts that this version keeps")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            self._connection = connection
        return self._connection

    @contextmanager
    def _writing(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        with self._lock, self._told():
            if create and not self.path.is_file():
                self._make()
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _make(self) -> None:
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as problem:
            raise AnalystError(
                f"{self.path} cannot be made ({problem.strerror}): name a folder that is yours"
            ) from None
        connection = sqlite3.connect(self.path, isolation_level=None)
        with connection:
            for table in _TABLES:
                connection.execute(table)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.close()


def _analyst(line: Sequence[Any]) -> Analyst:
    """A line of the file, with its values of the types and in the ranges in which they were written."""
    name, questions, share, names, made, asked = line
    kinds = ((name, str), (questions, int | None), (share, float | None), (made, str), (asked, int))
    try:
        allowed = None if names is None else json.loads(names)
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, lists in lists without end
        raise TypeError("a line of analysts is damaged") from None
    texts = allowed is None or (isinstance(allowed, list) and all(isinstance(each, str) for each in allowed))
    if not texts or not all(isinstance(value, kind) for value, kind in kinds):
        raise TypeError("a line of analysts is damaged")
    if min(asked, questions or 0) < 0 or not 0 <= (share or 0.0) <= 1:
        raise TypeError("a line of analysts is damaged")
    listed = None if allowed is None else tuple(allowed)
    return Analyst(name=name, questions=questions, share=share, names=listed, made=made, asked=asked)


def _digest(token: str) -> str:
    # A token is 256 random bits: there is nothing to guess that a slow hash would protect.
    return hashlib.sha256(token.encode()).hexdigest()
