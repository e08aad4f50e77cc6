"""The file of a stream: its terms, the state between two steps, and everything that was published.

One transaction a step: the next state takes the place of the last one together with the output of the step, before
anybody sees it. A process that dies in between leaves the state before the step, and the step has not happened. What
was overwritten is overwritten with zeros in the file, so that the noises of past intervals are erased.

A ledger is told what the file holds after each step, as a seal: a digest, so that a file that was changed is noticed.
Danger: noises are small numbers, and whoever reads the ledger could try them all against a plain digest; of several
steps that would tell true counts. So each seal is keyed with a salt of its own, which is erased together with the state
that it stands for.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.stream_counter import CounterState

_APPLICATION, _VERSION = 0x434E5354, 1
_STATEMENTS = (
    "CREATE TABLE terms (content TEXT NOT NULL)",
    "CREATE TABLE state (level INTEGER PRIMARY KEY, content BLOB NOT NULL)",
    "CREATE TABLE outputs (step INTEGER PRIMARY KEY, rows INTEGER NOT NULL, content BLOB NOT NULL)",
    "CREATE TABLE marks (content TEXT NOT NULL)",
    "CREATE TABLE salt (content BLOB NOT NULL)",
)
_FIRST = 3
"""How many of these tables the first streams had."""
_SALT = 32
"""Bytes of a salt."""
DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What a damaged file makes SQLite's reader raise: its messages quote the file."""
_COUNTER = -1
"""The line of the state that holds the counter itself."""


class StreamError(ValueError):
    """A stream that cannot be opened, gone on with or asked like this."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """What a file is to hold after a step, or, without an output, before the first one."""

    state: CounterState
    output: tuple[int, int, bytes] | None
    digest: bytes
    salt: bytes
    seal: str


class StreamFile:
    """The file at a path, or the same in memory where there is none; held by one process at a time."""

    def __init__(self, path: Path | None, *, new: bool) -> None:
        self.path = path
        self._lock: int | None = None
        # What this process wrote, or found when it first looked: others may write to the file meanwhile.
        self._digest: bytes | None = None
        self._steps: int | None = None
        self._known: str | None = None
        if path is not None:
            self._hold(path, new=new)
        try:
            self._connection = sqlite3.connect(":memory:" if path is None else path, isolation_level=None)
            self._connection.execute("PRAGMA secure_delete = ON")
            self._connection.execute("PRAGMA journal_mode = TRUNCATE")
            self._connection.execute("PRAGMA synchronous = FULL")
            if new:
                with self._writing():
                    for statement in _STATEMENTS:
                        self._connection.execute(statement)
                    self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    self._connection.execute(f"PRAGMA user_version = {_VERSION}")
            marks = [self._connection.execute(f"PRAGMA {m}").fetchone()[0] for m in ("application_id", "user_version")]
        except DAMAGE:
            marks = []
        if marks != [_APPLICATION, _VERSION]:
            self.close()
            raise StreamError(f"{path} is not a stream that this version can read")

    def _hold(self, path: Path, *, new: bool) -> None:
        try:
            if new:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            elif not path.is_file():
                raise StreamError(f"there is no stream at {path}: open one with cs.open_stream(…, path=…)")
            self._lock = os.open(path.with_name(path.name + ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileExistsError:
            raise StreamError(f"{path} already exists: go on with cs.resume_stream, or choose another name") from None
        except BlockingIOError:
            raise StreamError(f"{path} is in use by another process: a stream is appended to by one") from None
        except OSError as problem:
            raise StreamError(f"no stream can be kept at {path}: {problem.strerror}") from None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except DAMAGE as problem:
            why = problem if isinstance(problem, sqlite3.DatabaseError) else "it is damaged"
            raise StreamError(f"{self.path} cannot be written to ({why}): check the file and its disk") from None
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def first(self, terms: dict[str, Any], state: CounterState) -> Step:
        """What a new stream is to hold: its terms, and the first state."""
        return self._sealed(hashlib.sha256(json.dumps(terms).encode()).digest(), state, None)

    def begin(self, terms: dict[str, Any], first: Step) -> None:
        """Write the terms and the first state."""
        with self._writing():
            self._connection.execute("INSERT INTO terms VALUES (?)", (json.dumps(terms),))
            self._put(first)
        self._digest, self._steps, self._known = first.digest, 0, first.seal

    def terms(self) -> dict[str, Any]:
        try:
            row = self._connection.execute("SELECT content FROM terms").fetchone()
        except DAMAGE:
            raise self.damaged() from None
        if row is None:
            raise StreamError(f"{self.path} holds no stream: it died before it was opened, open another one")
        try:
            found = json.loads(row[0])
        except (ValueError, TypeError, RecursionError):
            raise self.damaged() from None
        if not isinstance(found, dict):
            raise self.damaged()
        return found

    def check(self, length: int, levels: Callable[[int], set[int]]) -> None:
        """Refuse a file that lacks a step, or a noise: without that the next step would show more than was paid for.

        What it finds is what the file is held to from then on.

        Args:
            length: How many numbers each line holds.
            levels: For a number of steps, the levels of the noises that go on after them.
        """
        try:
            # A trigger of somebody else could write other noises than were drawn. Earlier streams had fewer tables.
            found = self._tables()
            if not set(_STATEMENTS[:_FIRST]) <= found <= set(_STATEMENTS):
                raise self.damaged()
            outputs = self._connection.execute("SELECT step, rows, typeof(content), length(content) FROM outputs")
            for step, (number, rows, kind, size) in enumerate(outputs.fetchall()):
                if (number, kind, size) != (step, "blob", 8 * length) or type(rows) is not int or rows < 0:
                    raise self.damaged()
            state = self._connection.execute("SELECT level, typeof(content), length(content) FROM state").fetchall()
        except DAMAGE:
            raise self.damaged() from None
        wanted = {_COUNTER, *levels(self.steps())}
        if {level for level, _, _ in state} != wanted or {line[1:] for line in state} != {("blob", 8 * length)}:
            raise self.damaged()
        self.state()

    def _tables(self) -> set[str]:
        return {sql for (sql,) in self._connection.execute("SELECT sql FROM sqlite_master")}

    def damaged(self) -> StreamError:
        """What is said of a file that is not as it was written."""
        return StreamError(f"{self.path} is damaged, and a stream does not go on without its noises: open another one")

    def intend(self, begun: str) -> str:
        """Say, durably, under which mark the next step is begun, beside the mark that was begun last; the new one."""
        mark = os.urandom(8).hex()
        with self._writing():
            self._connection.execute("DELETE FROM marks")
            self._connection.executemany("INSERT INTO marks VALUES (?)", [(mark,), (begun,)])
        return mark

    def marks(self) -> tuple[str, ...]:
        """The mark that was intended last, and the one that was begun before it."""
        try:
            return tuple(str(row[0]) for row in self._connection.execute("SELECT content FROM marks"))
        except DAMAGE:
            raise self.damaged() from None

    def after(self, step: int, rows: int, shown: NDArray[np.int64], state: CounterState) -> Step:
        """What the file is to hold after a step: what it published, and the next state."""
        output = (step, rows, shown.tobytes())
        return self._sealed(_chained(self._held(), output), state, output)

    def keep(self, step: Step) -> None:
        """Write what a step published, and the state after it: both or neither."""
        assert step.output is not None, "the first state is written by begin"
        with self._writing():
            self._connection.execute("INSERT INTO outputs VALUES (?, ?, ?)", step.output)
            self._put(step)
        self._digest, self._steps, self._known = step.digest, step.output[0] + 1, step.seal

    def _put(self, step: Step) -> None:
        self._connection.execute("DELETE FROM state")
        self._connection.executemany("INSERT INTO state VALUES (?, ?)", _lines(step.state))
        if _STATEMENTS[-1] not in self._tables():
            self._connection.execute(_STATEMENTS[-1])
        self._connection.execute("DELETE FROM salt")
        self._connection.execute("INSERT INTO salt VALUES (?)", (step.salt,))

    def _held(self) -> bytes:
        """A digest of the terms and of all outputs, which are public."""
        if self._digest is None or self._steps is None:
            terms = self._connection.execute("SELECT content FROM terms").fetchone()[0]
            digest = hashlib.sha256(terms.encode()).digest()
            outputs = self._connection.execute("SELECT step, rows, content FROM outputs ORDER BY step").fetchall()
            if [step for step, _, _ in outputs] != list(range(len(outputs))):
                raise ValueError("a step is missing")
            for output in outputs:
                digest = _chained(digest, output)
            self._digest, self._steps = digest, len(outputs)
        return self._digest

    @staticmethod
    def _sealed(digest: bytes, state: CounterState, output: tuple[int, int, bytes] | None) -> Step:
        salt = os.urandom(_SALT)
        return Step(state=state, output=output, digest=digest, salt=salt, seal=_seal(salt, digest, state))

    def seal(self) -> str | None:
        """The seal of all that the file holds now; None where it has no salt, or is not as it was found."""
        try:
            self.state()
        except StreamError:
            return None
        return self._known

    def _seal_of(self, state: CounterState) -> str | None:
        if _STATEMENTS[-1] not in self._tables():
            return None
        salts = self._connection.execute("SELECT content FROM salt").fetchall()
        if [type(content) for (content,) in salts] != [bytes] or len(salts[0][0]) != _SALT:
            return None
        return _seal(salts[0][0], self._held(), state)

    def state(self) -> CounterState:
        """The state after the last step, as this process wrote or first found it: others may write to a file, too."""
        try:
            self._held()
            state, steps = self._state(), self._counted()
            seal = self._seal_of(state)
        except (*DAMAGE, LookupError, ValueError, TypeError, AttributeError):
            raise self.damaged() from None
        if self._known is None:
            self._known = seal
        # With one output less the last step would be done again, with fresh noise on the same rows.
        if seal != self._known or steps != self._steps:
            raise self.damaged()
        return state

    def _state(self) -> CounterState:
        rows = {level: _read(content) for level, content in self._connection.execute("SELECT * FROM state")}
        return CounterState(counter=rows.pop(_COUNTER), noises=rows)

    def steps(self) -> int:
        """How many steps there were, as this process wrote or first found them."""
        return self._counted() if self._steps is None else self._steps

    def _counted(self) -> int:
        return int(self._connection.execute("SELECT COUNT(*) FROM outputs").fetchone()[0])

    def output(self, step: int) -> tuple[int, NDArray[np.int64]]:
        """How many rows there were up to a step, where that is public, and what was published."""
        found = self._connection.execute("SELECT rows, content FROM outputs WHERE step = ?", (step,)).fetchone()
        if found is None:
            raise self.damaged()
        return int(found[0]), _read(found[1])

    def close(self) -> None:
        if hasattr(self, "_connection"):
            self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _read(content: bytes) -> NDArray[np.int64]:
    return np.frombuffer(content, dtype=np.int64).copy()


def _lines(state: CounterState) -> list[tuple[int, bytes]]:
    """The state as the lines of its table: the counter first, then the noises by their levels."""
    return [(_COUNTER, state.counter.tobytes()), *((level, n.tobytes()) for level, n in sorted(state.noises.items()))]


def _chained(digest: bytes, output: tuple[int, int, bytes]) -> bytes:
    """The digest of all outputs up to one, from that of those before it."""
    step, rows, content = output
    return hashlib.sha256(digest + f"{step} {rows} ".encode() + content).digest()


def _seal(salt: bytes, digest: bytes, state: CounterState) -> str:
    # Each part but the last has a length that no content changes: different states are different bytes.
    written = b"".join(f"{level} {len(content)} ".encode() + content for level, content in _lines(state))
    return hmac.new(salt, digest + written, hashlib.sha256).hexdigest()
