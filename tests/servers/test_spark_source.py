"""A Spark frame folds as the same rows in memory do; what could mix rows is refused, and what was lost on the way."""

from __future__ import annotations

import datetime
import decimal
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.laws.test_folds import BLOCKS, SCHEMA

import conspectus as cs
from conspectus.counting.counters import Counting
from conspectus.curator.keys import keys_of
from conspectus.data.fold import Fold, FoldError, RowCount
from conspectus.data.sources import SourceError
from conspectus.data.sources.spark import partitions, spark_table
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload

SECRET = "floccinaucinihilipilification"
IDS = cs.Schema.from_dict({**SCHEMA.to_dict(), "unit": {"kind": "id", "column": "who", "max_rows": 2}})


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    draw = np.random.Generator(np.random.PCG64(1))
    size = 2000
    return pa.table(
        {
            "a": draw.integers(0, 6, size),
            "b": draw.integers(0, 2, size).astype(bool),
            "c": draw.choice(["x", "y", "z", "w", SECRET], size),
            "d": draw.integers(0, 2, size).astype(bool),
            "who": draw.integers(0, 300, size),
        }
    )


@pytest.fixture(scope="module")
def frame(session: Any, rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("spark")
    for part in range(3):
        pq.write_table(rows.slice(part * 700, 700), folder / f"{part}.parquet")
    return session.read.parquet(str(folder))


def counting() -> Counting:
    """Every kind of block that adds over parts, in one fold."""
    return Counting(Workload(SCHEMA.domain, tuple(block for kind in BLOCKS.values() for block in kind)))


def test_folds_add_up_over_files_and_partitions(frame: Any, rows: pa.Table) -> None:
    expected, count = cs.open_table(rows, SCHEMA).fold(counting())
    for source in (frame, frame.repartition(5)):
        found, seen = cs.open_table(source, SCHEMA).fold(counting())
        assert seen == count
        assert (found == expected).all()
    near, far = cs.open_table(rows, SCHEMA), cs.open_table(frame, SCHEMA)
    for one, other in zip(near.fold(keys_of(near)), far.fold(keys_of(far))):
        assert (np.asarray(one) == np.asarray(other)).all()


EDGES = cs.Schema.from_dict(
    {
        "name": "edges",
        "null_values": ["?"],
        "columns": {
            "b": {"type": "boolean", "missing": True},
            "i1": {"type": "integer", "min": -5, "max": 5, "missing": True},
            "i8": {"type": "integer", "min": -5, "max": 5, "missing": True},
            "f4": {"type": "number", "edges": [0, 0.5, 1], "missing": True},
            "f8": {"type": "number", "edges": [0, 0.5, 1], "missing": True},
            "n": {"type": "number", "edges": [0, 12, 13, 99], "missing": True},
            "t": {"type": "categorical", "values": ["a", "ü", "7"], "other": True, "missing": True},
            "by": {"type": "categorical", "values": ["yes"], "other": True, "missing": True},
            "d": {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "width": "month", "missing": True},
            "ts": {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "width": "day", "missing": True},
            "ls": {"type": "categorical", "values": ["[1, 2]"], "other": True, "missing": True},
        },
    }
)


def edge_rows() -> pa.Table:
    day, moment, zone = datetime.date, datetime.datetime, datetime.UTC
    last = moment(2020, 12, 31, 23, 59, 59, 999999, tzinfo=zone)
    moments = [moment(2020, 2, 29, 23, 30, tzinfo=zone), moment(2020, 1, 1, tzinfo=zone), None, last, last]
    return pa.table(
        {
            "b": pa.array([True, False, None, True, None, False]),
            "i1": pa.array([-128, 127, None, 3, 0, -5], pa.int8()),
            "i8": pa.array([2**63 - 1, -(2**63), None, 5, -5, 0], pa.int64()),
            "f4": pa.array([float("nan"), float("inf"), None, 0.5, -0.0, 1.0], pa.float32()),
            "f8": pa.array([float("nan"), -float("inf"), None, 0.5, 1e308, 5e-324], pa.float64()),
            "n": pa.array([decimal.Decimal("12.50"), decimal.Decimal("-1.00"), None, *map(decimal.Decimal, "129")]),
            "t": pa.array(["a", " ü ", None, "\ufffd", "?", ""]),
            "by": pa.array([b"yes", b"\xff\xfe", None, b"", b"\x00", b"yes"]),
            "d": pa.array(
                [day(2020, 2, 29), day(1, 1, 1), None, day(9999, 12, 31), day(2020, 12, 31), day(2021, 1, 1)]
            ),
            "ts": pa.array([*moments, moment(1900, 1, 1, tzinfo=zone)], pa.timestamp("us", "UTC")),
            "ls": pa.array([[1, 2], [], None, [None], [3], [1, 2]], pa.list_(pa.int32())),
        }
    )


def test_every_type_reads_as_from_a_file(session: Any, tmp_path: Path) -> None:
    pq.write_table(edge_rows(), tmp_path / "edges.parquet")
    asked = Workload(EDGES.domain, tuple(Marginal(EDGES.domain, (c,)) for c in range(len(EDGES.columns))))
    expected, count = cs.open_table(tmp_path / "edges.parquet", EDGES).fold(Counting(asked))
    frame = session.read.parquet(str(tmp_path / "edges.parquet"))
    zone = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        for source in (frame, frame.repartition(3)):  # our own reader, and batches of Arrow from Spark's
            found, seen = cs.open_table(source, EDGES).fold(Counting(asked))
            assert seen == count == 6
            assert found.tolist() == expected.tolist()
    finally:
        session.conf.set("spark.sql.session.timeZone", zone)


def test_partitions_without_rows_count_as_nothing(frame: Any) -> None:
    for source in (frame.filter("a > 100"), frame.filter("a > 100").repartition(4, "c"), frame.filter("1 = 0")):
        table = cs.open_table(source, SCHEMA)
        assert table.filtered
        assert table.fold(RowCount()) == 0


@pytest.mark.parametrize(
    "count", [1, 4, *(pytest.param(each, marks=pytest.mark.audit) for each in (2, 3, 5, 6, 7, 8, 9))]
)
def test_ids_keep_the_same_rows_however_they_are_split(frame: Any, rows: pa.Table, count: int) -> None:
    expected, kept = cs.open_table(rows, IDS).fold(counting())
    found, seen = cs.open_table(frame.repartition(count), IDS).fold(counting())
    assert seen == kept < rows.num_rows
    assert (found == expected).all()


def test_releases_and_sessions_do_not_know_where_rows_lie(frame: Any, rows: pa.Table) -> None:
    asked = cs.marginals(SCHEMA, 2)
    table = cs.open_table(frame, SCHEMA)
    made = cs.release(table, asked, epsilon=1e4, mechanism="laplace")
    near = cs.release(cs.open_table(rows, SCHEMA), asked, epsilon=1e4, mechanism="laplace")
    assert np.abs(made.answers - near.answers).max() < 0.01
    with cs.open_session(cs.open_table(frame, SCHEMA), epsilon=1.0, questions=5) as live:
        assert live.ask("b AND d").fraction is not None
    own = cs.unsafe_functions(SCHEMA, {"share": (lambda codes: 0.5, 0.1)})
    with pytest.raises(FoldError, match="Parquet"):
        cs.release(cs.open_table(frame, SCHEMA), own, epsilon=1.0, delta=1e-6, mechanism="gaussian")


def test_what_could_mix_rows_or_stop_is_refused(frame: Any, session: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    other = frame.select("a").withColumnRenamed("a", "k")
    (tmp_path / "rows.csv").write_text("a,b,c,d\n1,true,x,true\n")
    orc, parquet = str(tmp_path / "orc"), str(tmp_path / "parquet")
    frame.write.orc(orc)
    frame.write.parquet(parquet)
    refused = {
        "limit": frame.limit(3),
        "distinct": frame.distinct(),
        "join": frame.crossJoin(other),
        "window": frame.withColumn("a", F.expr("row_number() OVER (ORDER BY c)")),
        "aggregate": frame.groupBy("a", "b", "c", "d").count(),
        "sample": frame.sample(0.5),
        "rand": frame.withColumn("b", F.rand() > 0.5),
        "subquery": frame.filter("a > (SELECT 1)"),
        "udf": frame.withColumn("a", F.udf(lambda value: value)("a")),
        "union": frame.union(frame),
        "explode": frame.withColumn("a", F.explode(F.array("a"))),
        "clock": frame.withColumn("c", F.current_date()),
        "number": frame.withColumn("a", F.monotonically_increasing_id()),
        "place": frame.withColumn("c", F.input_file_name()),
        "cast": frame.withColumn("a", F.col("c").cast("int")),
        "overflow": frame.withColumn("a", F.col("a") + 1),
        "python": session.createDataFrame([(1, True, "x", True)], ["a", "b", "c", "d"]),
        "few rows": session.createDataFrame(pa.table({"a": [1], "b": [True], "c": ["x"], "d": [True]})),
        "values": session.sql("SELECT 1 AS a, true AS b, 'x' AS c, true AS d"),
        "orc": session.read.orc(orc),
        "files of a moment": session.read.option("modifiedAfter", "2020-01-01T00:00:00").parquet(parquet),
        "names of files": session.read.option("pathGlobFilter", "*.parquet").parquet(parquet),
        "facts about files": frame.select("*", "_metadata"),
        "csv": session.read.csv(str(tmp_path / "rows.csv"), header=True, inferSchema=True),
    }
    accepted = []
    for name, source in refused.items():
        try:
            cs.open_table(source, SCHEMA)
        except SourceError:
            continue
        accepted.append(name)
    assert accepted == []
    allowed = (
        frame.filter((F.col("a") > 2) & F.col("c").isNotNull()),
        frame.withColumn("c", F.upper("c")).sort("a"),
        frame.withColumn("c", F.when(F.col("c") == "x", "y").otherwise(F.col("c"))),
        frame.cache(),
    )
    for source in allowed:
        cs.open_table(source, SCHEMA)
    frame.unpersist()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.parquet.fieldId.read.enabled", "true"),
        ("spark.sql.legacy.parquet.nanosAsLong", "true"),
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"),
        ("spark.sql.parquet.int96RebaseModeInRead", "LEGACY"),
        ("spark.sql.parquet.int96TimestampConversion", "true"),
    ],
)
def test_settings_by_which_files_mean_something_else_are_refused(
    frame: Any, session: Any, name: str, value: str
) -> None:
    usual = session.conf.get(name)
    session.conf.set(name, value)
    try:
        with pytest.raises(SourceError, match=f"unset {name}"):
            cs.open_table(frame, SCHEMA)
    finally:
        session.conf.set(name, usual)


def test_small_numbers_are_compared_with_constants(session: Any, tmp_path: Path) -> None:
    """Spark casts the column to the constant's type, which holds every number of it; a narrower type might not."""
    kinds = {"a": pa.int8(), "b": pa.int16(), "c": pa.int32(), "f": pa.float32()}
    made = pa.table({name: pa.array([0, 1, 2, 3, None], kind) for name, kind in kinds.items()})
    pq.write_table(made, tmp_path / "small.parquet")
    column = {"type": "integer", "min": 0, "max": 9, "missing": True}
    schema = cs.Schema.from_dict({"name": "small", "columns": {"a": column}})
    frame = session.read.parquet(str(tmp_path / "small.parquet"))
    for words in (
        "a >= 2",
        "a IN (2, 3)",
        "c IN (2, 3)",
        "b >= 2",
        "c >= CAST(2 AS BIGINT)",
        "f >= CAST(2 AS DOUBLE)",
        "b = 2 OR c > 2",
    ):
        assert cs.open_table(frame.filter(words), schema).fold(RowCount()) == 2, words
    for words in (
        "CAST(c AS TINYINT) >= 2",
        "CAST(f AS INT) >= 2",
        "CAST(a AS STRING) = '2'",
        "CAST(b AS DATE) > '2020-01-01'",
    ):
        try:
            asked = frame.filter(words)
        except Exception:  # Spark itself refuses some
            continue
        with pytest.raises(SourceError, match="casts a column"):
            cs.open_table(asked, schema)


def test_constants_that_some_row_would_stop_at_are_refused(session: Any, tmp_path: Path) -> None:
    """Spark leaves a constant that it cannot cast for the first row that needs it, and stops there."""
    made = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "d": [datetime.date(2020, 1, n) for n in (1, 2, 3)]})
    pq.write_table(made, tmp_path / "made.parquet")
    column = {"type": "integer", "min": 0, "max": 9, "missing": True}
    schema = cs.Schema.from_dict({"name": "made", "columns": {"a": column}})
    frame = session.read.parquet(str(tmp_path / "made.parquet"))
    odd = (
        "coalesce(a, 'unknown')",
        "CASE WHEN a IS NULL THEN 'n/a' ELSE a END",
        "IF(a IS NULL, CAST('x' AS BIGINT), a)",
    )
    for words in odd:
        with pytest.raises(SourceError, match="casts a constant"):
            cs.open_table(frame.selectExpr(f"{words} AS a"), schema)
    for words in (
        "d < CAST('now' AS DATE)",
        "d < CAST('2020-02-30' AS DATE)",
        "a > CAST('99999999999999999999' AS BIGINT)",
    ):
        with pytest.raises(SourceError, match="casts a constant"):
            cs.open_table(frame.filter(words), schema)
    for words, rows in (("d >= '2020-01-02'", 2), ("a >= CAST('2' AS BIGINT)", 2), ("a < 3", 2)):
        assert cs.open_table(frame.filter(words), schema).fold(RowCount()) == rows, words


def test_a_path_that_is_named_twice_counts_once(session: Any, rows: pa.Table, tmp_path: Path) -> None:
    """Every row would count twice, for the price of one; Spark spells one place in several ways."""
    names = ["r.parquet", "a,b@c+(d)&;!$'e f%20ü.parquet"]
    for name in names:
        pq.write_table(rows, tmp_path / name)
    files = [str(tmp_path / name) for name in names]
    here = str(tmp_path)
    for several in ([here, here], [here, *files], [here, f"{here}/*.parquet"], [f"file:{here}", f"file://{here}/*"]):
        frame = session.read.parquet(*several)
        assert cs.open_table(frame, SCHEMA).fold(RowCount()) == 2 * rows.num_rows < frame.count()


def test_no_step_computes_with_guessed_types_of_folders(session: Any, rows: pa.Table, tmp_path: Path) -> None:
    """Whether they are guessed to be numbers or, for one odd folder, texts: that folder must not decide."""
    given = "a bigint, b boolean, c string, d boolean, who bigint"
    (tmp_path / "rows").mkdir()
    pq.write_table(rows, tmp_path / "rows" / "r.parquet")
    inside = int(np.count_nonzero(np.asarray(rows["a"]) == 1))
    declared = session.read.schema(given).parquet(str(tmp_path / "rows"))
    assert cs.open_table(declared.filter("a = 1"), SCHEMA).fold(RowCount()) == inside
    for place, value in enumerate(("1", "2", "x")):
        (tmp_path / "rows" / f"a={value}").mkdir()
        pq.write_table(rows.drop_columns(["a"]), tmp_path / "rows" / f"a={value}" / "r.parquet")
        frame = session.read.parquet(str(tmp_path / "rows"))
        with pytest.raises(SourceError, match="guesses from the names of folders"):
            cs.open_table(frame.filter("a = '1'"), SCHEMA)
        found = cs.open_table(frame, SCHEMA).fold(Counting(cs.marginal(SCHEMA, ["a"])))[0]
        assert int(found[SCHEMA.encode(0, pa.array([1]))[0]]) == rows.num_rows + inside  # read by no type
        assert found.sum() == rows.num_rows * (place + 2)
        if value != "x":  # at which Spark itself stops, where numbers are declared
            declared = session.read.schema(given).parquet(str(tmp_path / "rows"))
            assert cs.open_table(declared.filter("a = 1"), SCHEMA).fold(RowCount()) == rows.num_rows + inside


@pytest.mark.parametrize("unit", [{"kind": "row"}, {"kind": "id", "column": "who", "max_rows": 2}])
def test_no_date_stops_a_pass(session: Any, tmp_path: Path, unit: dict[str, Any]) -> None:
    """A session may let Spark stop at a date before 1582: then one row would decide whether there is a release."""
    column = {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "width": "month", "missing": True}
    schema = cs.Schema.from_dict({"name": "days", "unit": unit, "columns": {"day": column, "moment": column}})
    days = [datetime.date(2020, 3, 1)] * 3 + [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]
    made = pa.table(
        {"day": days, "moment": [datetime.datetime(*d.timetuple()[:3]) for d in days], "who": list("abcde")}
    )
    pq.write_table(made, tmp_path / "days.parquet", use_deprecated_int96_timestamps=True)
    names = ("spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.parquet.int96RebaseModeInRead")
    usual = {name: session.conf.get(name) for name in names}
    try:
        for name in names:
            session.conf.set(name, "EXCEPTION")
        frame = session.read.parquet(str(tmp_path)).filter("who <> 'z'")
        found, rows = cs.open_table(frame, schema).fold(Counting(cs.marginals(schema, 1)))
        assert [session.conf.get(name) for name in names] == ["EXCEPTION"] * 2
    finally:
        for name, value in usual.items():
            session.conf.set(name, value)
    expected, count = cs.open_table(made, schema).fold(Counting(cs.marginals(schema, 1)))
    assert (rows, found.tolist()) == (count, expected.tolist())


class _DiesOnce(RowCount):
    """Counts rows; the first time that a partition is read, its worker is killed in the middle."""

    columns = (0,)

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def add(self, chunk: object) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        mark = Path(self._folder) / str(context.partitionId() if context else 0)
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_are_killed_count_once(frame: Any, rows: pa.Table, tmp_path: Path) -> None:
    assert cs.open_table(frame.repartition(2), SCHEMA).fold(_DiesOnce(str(tmp_path))) == rows.num_rows
    assert len(list(tmp_path.iterdir())) == 2


class _Fails(RowCount):
    columns = (2,)

    def add(self, chunk: object) -> None:
        raise ValueError(f"found {SECRET}")


def test_a_failure_says_nothing_anywhere(frame: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SourceError, match="cannot be read") as caught:
        cs.open_table(frame.repartition(2), SCHEMA).fold(_Fails())
    shown = capfd.readouterr()
    assert SECRET not in str(caught.value) + shown.out + shown.err
    assert caught.value.__cause__ is None


def line(part: int, rows: int, place: int, numbers: bytes) -> Any:
    return SimpleNamespace(part=part, rows=rows, place=place, numbers=numbers)


def whole(part: int, rows: int, *vectors: list[int]) -> list[Any]:
    lines = [line(part, rows, place, np.array(vector, "<i8").tobytes()) for place, vector in enumerate(vectors)]
    signed = partitions.receipt(part, rows, [each.numbers for each in lines])
    return [*lines, line(part, rows, partitions.RECEIPT, signed)]


def unread(*, moves: bool = False) -> spark_table.SparkTable:
    table = spark_table.SparkTable.__new__(spark_table.SparkTable)
    table._receipts = None
    table._plan = SimpleNamespace(moves=moves)  # type: ignore[assignment]
    return table


class _Adds(RowCount):
    def vectors(self) -> tuple[Any, ...]:
        return (np.zeros(2, dtype=np.int64),)


def test_receipts_are_checked() -> None:
    fold: Fold[int] = _Adds()
    good = [*whole(0, 3, [1, 2]), *whole(1, 4, [3, 4])]
    found, rows = unread()._checked(fold, good, 2)
    assert (found[0].tolist(), rows) == ([4, 6], 7)
    assert unread()._checked(fold, [], 0)[0][0].tolist() == [0, 0]
    for lines, expected, why in (
        (good, 3, "all of its partitions"),  # the last one was lost
        (good[2:], 2, "all of its partitions"),  # the first one was
        ([*good, *whole(1, 4, [3, 4])], 2, "twice"),
        (good[:-1], 2, "all of its partitions"),  # without its receipt
        ([good[1], *good[2:]], 2, "all of its partitions"),  # a vector was lost
        ([line(0, 5, 0, good[0].numbers), *good[1:]], 2, "all of its partitions"),  # lines of two attempts
        ([line(0, 3, 0, np.array([1, 3], "<i8").tobytes()), *good[1:]], 2, "all of its partitions"),  # changed
        ([line(0, 3, 0, good[0].numbers[:8]), *good[1:]], 2, "all of its partitions"),  # cut off
        ([line(0, 4, 0, good[0].numbers), line(0, 4, -1, good[1].numbers), *good[2:]], 2, "all of its partitions"),
        ([*whole(1, 3, [1, 2]), *good[2:]], 2, "twice"),  # under the number of another partition
        ([*good, *whole(2, 0, [0, 0])], 2, "all of its partitions"),  # one more than there are
        ([*good, line(2, 0, partitions.FAILED, b"")], 3, "cannot be read"),
    ):
        with pytest.raises(SourceError, match=why):
            unread()._checked(fold, lines, expected)


def test_a_frame_that_changes_between_passes_is_refused() -> None:
    fold: Fold[int] = _Adds()
    table = unread()
    table._checked(fold, [*whole(0, 3, [1, 2]), *whole(1, 4, [3, 4])], 2)
    for _ in range(2):  # and the changed frame does not become the one that counts
        with pytest.raises(SourceError, match="pass before"):
            table._checked(fold, [*whole(0, 2, [1, 2]), *whole(1, 5, [3, 4])], 2)
    moved = unread(moves=True)  # rows may lie elsewhere, but there are as many
    moved._checked(fold, [*whole(0, 3, [1, 2]), *whole(1, 4, [3, 4])], 2)
    moved._checked(fold, [*whole(0, 2, [1, 2]), *whole(1, 5, [3, 4])], 2)
    with pytest.raises(SourceError, match="pass before"):
        moved._checked(fold, [*whole(0, 2, [1, 2]), *whole(1, 4, [3, 4])], 2)


def test_a_frame_of_connect_is_refused() -> None:
    source = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe", "columns": []})()
    with pytest.raises(SourceError, match="Spark Connect"):
        cs.open_table(source, SCHEMA)
