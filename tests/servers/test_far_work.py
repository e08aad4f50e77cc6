"""Work far away says how far it is, and nothing of the rows; whoever stops it stops it there, and spends nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.laws.test_folds import SCHEMA

import conspectus as cs
from conspectus.cli import run
from conspectus.data.fold import RowCount
from conspectus.data.sources import SourceError
from conspectus.data.sources.postgres import pages
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.service.schema_text import schema_text

from .postgres_server import Server

SIZE = 3000
ASKED = cs.marginals(SCHEMA, 2)
LAPLACE = {"epsilon": 0.5, "mechanism": "laplace"}


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    draw = np.random.Generator(np.random.PCG64(3))
    return pa.table(
        {
            "a": draw.integers(0, 6, SIZE),
            "b": draw.integers(0, 2, SIZE).astype(bool),
            "c": draw.choice(["x", "y", "z"], SIZE),
            "d": draw.integers(0, 2, SIZE).astype(bool),
        }
    )


@pytest.fixture
def stored(server: Server) -> Iterator[str]:
    """The address of a table over many pages."""
    server.run(
        "CREATE TABLE far_work (a int, b bool, c text, d bool, filler text)",
        f"INSERT INTO far_work SELECT i % 6, true, 'x', true, repeat('-', 200) FROM generate_series(1, {SIZE}) i",
    )
    yield f"{server.address}?table=far_work"
    server.run("DROP TABLE far_work")


@pytest.fixture
def frame(session: Any, rows: pa.Table, tmp_path: Path) -> Any:
    for part in range(4):
        pq.write_table(rows.slice(part * SIZE // 4, SIZE // 4), tmp_path / f"{part}.parquet")
    return session.read.parquet(str(tmp_path))


def ledger_at(path: Path) -> Ledger:
    return Ledger.create(
        path,
        budget=Budget(epsilon=1.0),
        schema_fingerprint=SCHEMA.fingerprint,
        table=SCHEMA.name,
        neighbours="replace",
        unit=str(SCHEMA.unit),
    )


Told = list[tuple[str, int, int | None]]


def recorder(told: Told, stop_at: str = "") -> Callable[[str, int, int | None], None]:
    def tell(what: str, done: int, total: int | None) -> None:
        told.append((what, done, total))
        if what == stop_at:
            raise KeyboardInterrupt

    return tell


def only(told: Told, what: str) -> list[tuple[int, int | None]]:
    return [(done, total) for name, done, total in told if name == what]


def test_ranges_of_pages_are_told_and_rows_where_they_were_declared(stored: str) -> None:
    with cs.open_table(stored, SCHEMA) as table:
        told: Told = []
        cs.release(table, ASKED, **LAPLACE, progress=recorder(told))  # type: ignore[arg-type]
        parts = only(told, "counting parts")
        assert parts[-1] == (16, 16)
        assert parts == sorted(set(parts))
        assert not only(told, "counting rows")  # the number is public, and nobody knows it before the pass ends
    with cs.open_table(stored, SCHEMA) as table:
        told = []
        declared: dict[str, Any] = {"neighbours": "add-remove", "rows": 1600}  # not the truth, which is not told
        cs.release(table, ASKED, **LAPLACE, **declared, progress=recorder(told))  # type: ignore[arg-type]
        assert only(told, "counting rows") == [(100 * done, 1600) for done, _ in only(told, "counting parts")]


def test_what_is_told_does_not_depend_on_where_the_rows_lie(server: Server) -> None:
    """Partitions are those of a value here: rows so far would be exact counts of it."""
    said = []
    for moved in (10, 900):
        server.run(
            "CREATE TABLE by_value (a int, b bool, c text, d bool) PARTITION BY LIST (a)",
            *(f"CREATE TABLE by_value_{a} PARTITION OF by_value FOR VALUES IN ({a})" for a in range(2)),
            f"INSERT INTO by_value SELECT (i <= {moved})::int, true, 'x', true FROM generate_series(1, 1000) i",
        )
        told: Told = []
        with cs.open_table(server.address, SCHEMA, table="by_value") as table:
            table.fold(RowCount(), lambda done, total: told.append(("", done, total)))  # noqa: B023
        said.append(told[-1])
        server.run("DROP TABLE by_value")
    assert said[0] == said[1]


def test_stopping_a_pass_over_a_database_spends_nothing(stored: str, server: Server, tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path / "ledger")
    with cs.open_table(stored, SCHEMA) as table:
        with pytest.raises(KeyboardInterrupt):
            cs.release(table, ASKED, **LAPLACE, ledger=ledger, progress=recorder([], "counting parts"))  # type: ignore[arg-type]
        assert ledger.entries() == ()
        assert ledger.spent == 0
        assert busy(server, "ctid") == 0
        cs.release(table, ASKED, **LAPLACE, ledger=ledger)  # type: ignore[arg-type]  # the snapshot is still there
        assert ledger.spent == 1 / 2


def busy(server: Server, word: str) -> int:
    """How many other connections run a query that has a word in it."""
    others = f"state = 'active' AND query LIKE '%{word}%' AND pid <> pg_backend_pid()"
    return int(server.run(f"SELECT count(*) FROM pg_stat_activity WHERE {others}")[0][0])


@contextmanager
def pressed_when(condition: Callable[[], bool]) -> Iterator[list[float]]:
    """Ctrl-C, pressed by somebody else when a condition holds; the list gets the moment."""
    pressed: list[float] = []
    over = threading.Event()

    def wait() -> None:
        while not over.wait(0.05):
            if condition():
                pressed.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)
                return

    somebody = threading.Thread(target=wait)
    somebody.start()
    try:
        yield pressed
    finally:
        over.set()
        somebody.join()


def test_a_query_that_takes_long_is_cancelled_at_the_server(
    stored: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = "SELECT a, b, c, d FROM ONLY far_work WHERE pg_sleep(600) IS NOT NULL"
    monkeypatch.setattr(pages.Pages, "_queries", lambda self, positions: [slow] * 2)
    ledger = ledger_at(tmp_path / "ledger")
    with cs.open_table(stored, SCHEMA) as table:
        with pressed_when(lambda: busy(server, "pg_sleep") > 0) as pressed, pytest.raises(KeyboardInterrupt):
            cs.release(table, ASKED, **LAPLACE, ledger=ledger)  # type: ignore[arg-type]
        assert time.monotonic() - pressed[0] < 120  # not the 600 seconds of the query
        assert busy(server, "pg_sleep") == 0
    assert ledger.spent == 0
    assert ledger.entries() == ()


def test_the_command_line_shows_parts_and_stops(
    stored: str, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "schema.toml").write_text(schema_text(SCHEMA))
    ledger = ledger_at(tmp_path / "ledger")
    asked = ["--schema", str(tmp_path / "schema.toml"), "--marginal", "a,b", "--epsilon", "0.25"]
    words = ["release", stored, *asked, "--ledger", str(tmp_path / "ledger"), "-o", str(tmp_path / "out")]
    assert run(words) == 0
    assert "counting parts 100 % (16 of 16)" in capsys.readouterr().err
    spent = ledger.spent
    slow = "SELECT a, b FROM ONLY far_work WHERE pg_sleep(600) IS NOT NULL"
    monkeypatch.setattr(pages.Pages, "_queries", lambda self, positions: [slow])
    with pressed_when(lambda: busy(server, "pg_sleep") > 0):
        assert run([*words[:-1], str(tmp_path / "other")]) != 0
    assert "100 %" not in capsys.readouterr().err
    assert busy(server, "pg_sleep") == 0
    assert ledger.spent == spent
    assert not (tmp_path / "other").exists()


def test_a_release_that_is_stopped_between_its_acts_pays_for_those_it_made(stored: str, tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path / "ledger")
    told: Told = []

    def tell(what: str, done: int, total: int | None) -> None:
        told.append((what, done, total))
        if what == "rounds" and done == 2:
            raise KeyboardInterrupt

    with cs.open_table(stored, SCHEMA) as table, pytest.raises(KeyboardInterrupt):
        cs.release(table, ASKED, epsilon=0.8, mechanism="mwem", rounds=10, ledger=ledger, progress=tell)
    entries = ledger.entries()
    assert [entries[0].kind, entries[-1].kind] == ["reserve", "settle"]
    assert 0 < ledger.spent == sum(entry.price for entry in entries if entry.kind == "debit") < entries[0].price


class _Waits(RowCount):
    """Counts rows, and takes its time."""

    columns = (0,)

    def __init__(self, folder: str, seconds: float) -> None:
        self._folder, self._seconds = folder, seconds

    def add(self, chunk: object) -> None:
        (Path(self._folder) / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        time.sleep(self._seconds)


def test_partitions_of_a_spark_frame_are_told(frame: Any) -> None:
    for source, partitions in ((frame, 4), (frame.repartition(3), 3)):
        told: Told = []
        cs.open_table(source, SCHEMA).fold(RowCount(), lambda done, total: told.append(("", done, total)))  # noqa: B023
        assert told
        assert told[-1][1] == told[-1][2]
        assert int(told[-1][2] or 0) >= partitions  # and tasks that hand out files, or deal rows


def idle(tracker: Any) -> None:
    """Wait until no job is active: Spark writes down a little later that one ended."""
    for _ in range(600):
        if not list(tracker.getActiveJobsIds()):
            return
        time.sleep(0.1)
    pytest.fail("a job runs on")


def test_stopping_a_spark_job_cancels_it_and_spends_nothing(frame: Any, session: Any, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    tracker = session.sparkContext.statusTracker()
    with pressed_when(lambda: any(marks.iterdir())) as pressed, pytest.raises(KeyboardInterrupt):
        cs.open_table(frame.repartition(2), SCHEMA).fold(_Waits(str(marks), 600.0))
    assert time.monotonic() - pressed[0] < 120  # not the 600 seconds of the job
    idle(tracker)
    ledger = ledger_at(marks / "ledger")  # and not beside the files of the frame
    table = cs.open_table(frame, SCHEMA)
    with pytest.raises(KeyboardInterrupt):
        cs.release(table, ASKED, **LAPLACE, ledger=ledger, progress=recorder([], "counting parts"))  # type: ignore[arg-type]
    idle(tracker)
    assert ledger.entries() == ()
    cs.release(table, ASKED, **LAPLACE, ledger=ledger)  # type: ignore[arg-type]
    assert ledger.spent == 1 / 2


def test_a_stopped_pass_is_no_table(stored: str) -> None:
    """A pass that somebody else stops ends with an error, never with the rows it had so far."""
    with cs.open_table(stored, SCHEMA) as table:
        far = table._far
        assert far is not None
        found = table.chunks(None, 10)
        next(found)
        far.stop()
        with pytest.raises(SourceError):
            list(found)
