"""A stream's file against old copies of itself: no step is ever drawn for twice, whatever is restored or killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.curator.stream_counter import CounterState, StreamCounter
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.streams.step_marks import StepMarks
from conspectus.streams.stream_file import StreamError, StreamFile

FORK = multiprocessing.get_context("fork")
SCHEMA = cs.Schema.from_dict({"name": "visits", "columns": {"ill": {"type": "boolean"}}})
ASKED = cs.sql(SCHEMA, ["ill"])
ROWS = pa.table({"ill": [True, True, False]})


def ledger_in(folder: Path) -> Ledger:
    return Ledger.create(
        folder / "v.ledger",
        budget=Budget(epsilon=2e6),
        neighbours="replace",
        unit="row",
        schema_fingerprint=SCHEMA.fingerprint,
        table="visits",
    )


def opened(folder: Path, *, epsilon: float = 1.0, horizon: int = 64) -> Path:
    path = folder / "v.stream"
    cs.open_stream(SCHEMA, ASKED, horizon=horizon, epsilon=epsilon, ledger=ledger_in(folder), path=path).close()
    return path


def labels(folder: Path) -> list[str]:
    return [entry.label for entry in Ledger.open(folder / "v.ledger").entries() if entry.kind == "debit"][1:]


def appended(path: Path, times: int = 1) -> None:
    with cs.resume_stream(path) as stream:
        for _ in range(times):
            stream.append(ROWS)


def test_each_step_leaves_three_marks_that_cost_nothing(tmp_path: Path) -> None:
    path = opened(tmp_path)
    ledger = Ledger.open(tmp_path / "v.ledger")
    spent = ledger.spent
    appended(path, 2)
    assert labels(tmp_path)[0].split()[0] == "opened"
    assert [label.split()[:2] for label in labels(tmp_path)[1:]] == [
        ["begun", "0"],
        ["drawn", "0"],
        ["done", "0"],
        ["begun", "1"],
        ["drawn", "1"],
        ["done", "1"],
    ]
    assert ledger.spent == spent
    assert [line["acts"] for line in ledger.to_arrow().to_pylist()] == [1]


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_restored_backup_is_refused(tmp_path: Path, steps: int) -> None:
    path = opened(tmp_path)
    appended(path, steps)
    shutil.copy(path, tmp_path / "backup")
    appended(path, 1)
    shutil.copy(tmp_path / "backup", path)  # restored in place
    with pytest.raises(StreamError, match="old copy"):
        cs.resume_stream(path)
    assert not path.with_name("x").exists()


def test_of_two_copies_that_are_open_one_goes_on(tmp_path: Path) -> None:
    path = opened(tmp_path)
    appended(path, 2)
    shutil.copy(path, tmp_path / "copy")
    with cs.resume_stream(path) as one, cs.resume_stream(tmp_path / "copy") as other:
        other.append(ROWS)
        drawn = len(labels(tmp_path))
        with pytest.raises(StreamError, match="old copy"):
            one.append(ROWS)
        assert len(labels(tmp_path)) == drawn  # refused before anything was drawn
        other.append(ROWS)


class Died(Exception):
    """Stands for a process that dies."""


@pytest.mark.parametrize("deaths", [1, 2])
@pytest.mark.parametrize("moment", ["intend", "begin", "draw", "drawn", "keep", "done"])
def test_a_death_at_any_moment_loses_no_step_that_was_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, deaths: int
) -> None:
    path = opened(tmp_path, epsilon=1e6)
    appended(path, 2)
    homes = {
        "intend": (StreamFile, "intend"),
        "begin": (StepMarks, "begin"),
        "draw": (StreamCounter, "step"),
        "drawn": (StepMarks, "drawn"),
        "keep": (StreamFile, "keep"),
        "done": (StepMarks, "done"),
    }
    kind, name = homes[moment]
    whole = getattr(kind, name)

    def dies(*args: object) -> object:
        if moment in ("intend", "keep", "begin", "drawn"):
            whole(*args)  # just after it
        raise Died

    for _ in range(deaths):
        monkeypatch.setattr(kind, name, dies)
        with pytest.raises(Died):
            appended(path)
        monkeypatch.undo()
    shutil.copy(path, tmp_path / "copy")
    with cs.resume_stream(path) as stream:
        in_file = 2 + (deaths if moment == "keep" else 1 if moment == "done" else 0)
        assert stream.steps == in_file
        stream.append(ROWS)
        assert stream.value(0).count == pytest.approx(2 * (in_file + 1))
    with pytest.raises(StreamError, match="old copy"):
        cs.resume_stream(tmp_path / "copy")


def test_a_copy_from_inside_a_step_that_was_shown_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy has the very mark of the step, and not its output."""
    path = opened(tmp_path)
    step = StreamCounter.step

    def copied(*args: object) -> object:
        shutil.copy(path, tmp_path / "copy")
        return step(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(StreamCounter, "step", copied)
    appended(path)
    monkeypatch.undo()
    with pytest.raises(StreamError, match="old copy"):
        cs.resume_stream(tmp_path / "copy")


def test_of_the_dead_and_its_copy_one_lineage_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner died with the step in its file and untold; a copy from inside the step went on first."""
    path = opened(tmp_path)
    step = StreamCounter.step

    def copied(*args: object) -> object:
        shutil.copy(path, tmp_path / "copy")
        return step(*args)  # type: ignore[arg-type]

    def dies(*args: object) -> None:
        raise Died

    monkeypatch.setattr(StreamCounter, "step", copied)
    monkeypatch.setattr(StepMarks, "done", dies)
    with pytest.raises(Died):
        appended(path)
    monkeypatch.undo()
    appended(tmp_path / "copy")
    with pytest.raises(StreamError, match="old copy"):
        cs.resume_stream(path)


def change(path: Path, *statements: str, values: tuple[object, ...] = ()) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement, values)
    connection.commit()
    connection.close()


def terms_of(path: Path) -> dict[str, Any]:
    connection = sqlite3.connect(path)
    found: dict[str, Any] = json.loads(connection.execute("SELECT content FROM terms").fetchone()[0])
    connection.close()
    return found


CHANGES = {
    # No noise of these budgets is 2**32: each of these is another number than was there.
    "another counter": ("UPDATE state SET content = X'0000000001000000' WHERE level = -1",),
    "another noise of an interval": ("UPDATE state SET content = X'0000000001000000' WHERE level >= 0",),
    "half a number": ("UPDATE state SET content = zeroblob(7)",),
    "no counter": ("DELETE FROM state WHERE level = -1",),
    "another output": ("UPDATE outputs SET content = X'0000000001000000' WHERE step = 1",),
    "more rows": ("UPDATE outputs SET rows = rows + 1 WHERE step = 0",),
    "another salt": ("UPDATE salt SET content = zeroblob(32)",),
    "a salt of nothing": ("UPDATE salt SET content = zeroblob(0)",),
    "a salt that is text": ("UPDATE salt SET content = 'x'",),
    "no salt": ("DELETE FROM salt",),
    "two salts": ("INSERT INTO salt SELECT * FROM salt",),
    "no place for a salt": ("DROP TABLE salt",),
    "a step that was not done": ("INSERT INTO outputs SELECT 3, rows, content FROM outputs WHERE step = 2",),
    "one output less": ("DELETE FROM outputs WHERE step = 2",),
    "no first output": ("DELETE FROM outputs WHERE step = 0",),
    "no outputs": ("DELETE FROM outputs",),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("died", [False, True])
def test_a_changed_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, died: bool) -> None:
    """Also where its owner died within a step, so that the ledger expects one step or another."""
    path = opened(tmp_path)
    appended(path, 3)  # one interval goes on
    if died:

        def dies(*args: object) -> None:
            raise Died

        monkeypatch.setattr(StreamCounter, "step", dies)
        with pytest.raises(Died):
            appended(path)
        monkeypatch.undo()
    known = labels(tmp_path)
    change(path, *CHANGES[what])
    with pytest.raises(StreamError, match=r"was changed|old copy|damaged"):
        cs.resume_stream(path)
    assert labels(tmp_path) == known


IN_STATE = [what for what in CHANGES if what not in ("another output", "more rows")]
"""What the next step rests on. What was published is public, and is compared when a file is opened."""


@pytest.mark.parametrize("what", IN_STATE)
@pytest.mark.parametrize("ledger", [False, True])
@pytest.mark.parametrize("resumed", [False, True])
def test_a_file_that_is_changed_while_it_is_open_is_refused(
    tmp_path: Path, what: str, ledger: bool, resumed: bool
) -> None:
    """Also without a ledger: a process knows what it wrote itself."""
    path = tmp_path / "v.stream"
    kept = {"ledger": ledger_in(tmp_path)} if ledger else {}
    stream = cs.open_stream(SCHEMA, ASKED, horizon=64, epsilon=1.0, path=path, **kept)
    for step in range(3):
        if resumed and step == 1:
            stream.close()
            stream = cs.resume_stream(path)
        stream.append(ROWS)
    said = labels(tmp_path) if ledger else []
    change(path, *CHANGES[what])
    with pytest.raises(StreamError, match="damaged"):
        stream.append(ROWS)
    assert stream.steps == 3
    assert not ledger or labels(tmp_path) == said  # refused before anything was drawn
    stream.close()


@pytest.mark.parametrize("what", IN_STATE)
@pytest.mark.parametrize("ledger", [False, True])
def test_a_file_that_is_changed_before_its_first_step_is_refused(tmp_path: Path, what: str, ledger: bool) -> None:
    """A file is held to what was found when it was opened, and not to what it holds at its first step."""
    path = tmp_path / "v.stream"
    kept = {"ledger": ledger_in(tmp_path)} if ledger else {}
    cs.open_stream(SCHEMA, ASKED, horizon=64, epsilon=1.0, path=path, **kept).close()
    appended(path, 3)
    with cs.resume_stream(path) as stream:
        change(path, *CHANGES[what])
        with pytest.raises(StreamError, match="damaged"):
            stream.append(ROWS)


def test_the_ledger_begins_no_step_that_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the file says of its steps, the marks know."""
    path = opened(tmp_path)
    with cs.resume_stream(path) as stream:
        for _ in range(2):
            stream.append(ROWS)
        known = labels(tmp_path)
        for steps in (0, 1, 3):
            monkeypatch.setattr(StreamFile, "steps", lambda _, told=steps: told)
            with pytest.raises(StreamError, match="was changed"):
                stream.append(ROWS)
        assert labels(tmp_path) == known
        monkeypatch.undo()
        stream.append(ROWS)
        assert stream.steps == 3


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("budget", {"epsilon": 50.0, "delta": 0.0, "rho": None}),
        ("horizon", 63),
        ("horizon", 1 << 15),
        ("neighbours", "add-remove"),
        ("events", 2),
        ("more", "words"),
    ],
)
@pytest.mark.parametrize("steps", [0, 2])
def test_changed_terms_are_refused(tmp_path: Path, term: str, value: object, steps: int) -> None:
    path = opened(tmp_path)
    appended(path, steps)
    change(path, "UPDATE terms SET content = ?", values=(json.dumps(terms_of(path) | {term: value}),))
    with pytest.raises(StreamError, match=r"was changed|damaged"):
        cs.resume_stream(path)


def test_the_file_of_another_stream_of_the_same_ledger_is_refused(tmp_path: Path) -> None:
    """Both have the same terms, state for state: what they are is told apart by their seals and marks."""
    path, ledger = opened(tmp_path), Ledger.open(tmp_path / "v.ledger")
    cs.open_stream(SCHEMA, ASKED, horizon=64, epsilon=1.0, ledger=ledger, path=tmp_path / "other").close()
    own = terms_of(path)["reservation"]
    other = json.dumps(terms_of(tmp_path / "other") | {"reservation": own})
    change(tmp_path / "other", "UPDATE terms SET content = ?", values=(other,))
    with pytest.raises(StreamError, match="was changed"):
        cs.resume_stream(tmp_path / "other")
    appended(path)


def test_who_names_the_ledger_is_not_told_that_there_is_none(tmp_path: Path) -> None:
    """The one change that the file alone cannot show: that it was opened under a ledger at all."""
    path = opened(tmp_path)
    alone = {name: value for name, value in terms_of(path).items() if name not in ("ledger", "reservation")}
    change(path, "UPDATE terms SET content = ?", values=(json.dumps(alone),))
    with pytest.raises(StreamError, match="no such stream"):
        cs.resume_stream(path, ledger=tmp_path / "v.ledger")
    cs.resume_stream(path).close()  # nothing that it could be compared with


def test_a_seal_tells_nothing_without_its_salt(tmp_path: Path) -> None:
    """The same terms and the same state have another seal each time, and a salt is not in the file a step later."""
    file = StreamFile(None, new=True)
    state = CounterState(counter=np.zeros(1, dtype=np.int64))
    assert len({file.first({}, state).seal for _ in range(20)}) == 20
    path = opened(tmp_path)
    salts: list[bytes] = []
    for _ in range(3):
        appended(path)
        connection = sqlite3.connect(path)
        salts.append(connection.execute("SELECT content FROM salt").fetchone()[0])
        connection.close()
    raw = path.read_bytes()
    assert [salt in raw for salt in salts] == [False, False, True]
    assert not any(salt.hex() in label for salt in salts for label in labels(tmp_path))


def test_a_stream_of_an_earlier_version_holds_seals_from_the_next_step_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(marks: StepMarks, label: str) -> None:
        mark(marks, "once" if label.split()[0] in ("opened", "drawn") else label)

    mark = StepMarks._mark
    monkeypatch.setattr(StepMarks, "_mark", nothing)
    path = opened(tmp_path)
    appended(path, 2)
    monkeypatch.undo()
    change(path, "DROP TABLE salt")
    appended(path, 2)
    change(path, *CHANGES["another counter"])
    with pytest.raises(StreamError, match="was changed"):
        cs.resume_stream(path)


def test_a_stream_of_an_earlier_version_goes_on_without_marks(tmp_path: Path) -> None:
    path = tmp_path / "v.stream"
    cs.open_stream(SCHEMA, ASKED, horizon=8, epsilon=1.0, path=path).close()
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE marks")
    connection.execute("DROP TABLE salt")
    connection.commit()
    connection.close()
    appended(path, 2)
    with cs.resume_stream(path) as stream:
        assert stream.steps == 2


def test_a_retired_or_moved_ledger(tmp_path: Path) -> None:
    path = opened(tmp_path)
    appended(path)
    shutil.move(tmp_path / "v.ledger", tmp_path / "moved.ledger")
    with cs.resume_stream(path, ledger=tmp_path / "moved.ledger") as stream:
        stream.append(ROWS)
        Ledger.open(tmp_path / "moved.ledger").retire("done")
        with pytest.raises(BudgetExceeded, match="retired"):
            stream.append(ROWS)
        assert stream.steps == 2
        assert stream.value(0).low is not None


def _until_killed(path: Path, ready: object, batch: int) -> None:
    rows = pa.table({"ill": np.ones(batch, dtype=bool)})
    with cs.resume_stream(path) as stream:
        ready.set()  # type: ignore[attr-defined]
        while True:
            stream.append(rows)


@pytest.mark.parametrize(
    ("kills", "batch", "wanted"), [(4, 1_000, 1_000), pytest.param(200, 20_000, 10_000_000, marks=pytest.mark.audit)]
)
def test_kills_under_load_lose_no_count_and_draw_nothing_twice(
    tmp_path: Path, kills: int, batch: int, wanted: int
) -> None:
    """kill -9 at random moments while events pour in. At a huge ε every count is exact: what is in the file is what
    arrived, every output stays what it was, and the ledger began no step again once it was done."""
    path, rng = opened(tmp_path, epsilon=1e6, horizon=1 << 20), np.random.Generator(np.random.PCG64(11))
    known: list[bytes] = []
    started = time.monotonic()
    for _ in range(kills):
        ready = FORK.Event()
        child = FORK.Process(target=_until_killed, args=(path, ready, batch))
        child.start()
        assert ready.wait(60)
        time.sleep(float(rng.uniform(0.0, 0.15)))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    with cs.resume_stream(path) as stream:
        while stream.steps * batch < wanted:
            stream.append(pa.table({"ill": np.ones(batch, dtype=bool)}))
        known = [stream._file.output(step)[1].tobytes() for step in range(stream.steps)]
        steps = stream.steps
        assert stream.value(0).count == pytest.approx(steps * batch)
        print(f"{steps * batch:,} events, {kills} kills, {time.monotonic() - started:.0f} s")
    with cs.resume_stream(path) as stream:
        assert [stream._file.output(step)[1].tobytes() for step in range(stream.steps)] == known
    said = [label.split() for label in labels(tmp_path)]
    assert Counter(label[1] for label in said if label[0] == "done") == Counter(str(step) for step in range(steps))
    last_begun = {int(label[1]): place for place, label in enumerate(said) if label[0] == "begun"}
    finished = {int(label[1]): place for place, label in enumerate(said) if label[0] == "done"}
    assert all(last_begun[step] < finished[step] for step in range(steps))  # never begun again once it was done
