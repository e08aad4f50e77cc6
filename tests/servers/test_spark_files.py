"""Files below a Spark frame may differ for one person's sake, and columns be renamed: rows are read as they are."""

from __future__ import annotations

import datetime
import decimal
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import conspectus as cs
from conspectus.counting.counters import Counting
from conspectus.data.columns.arrays import tidy
from conspectus.data.fold import RowCount
from conspectus.data.sources import SourceError
from conspectus.data.sources.spark.typed_values import arrow_type, typed

COLUMN = {"type": "integer", "min": 0, "max": 9, "missing": True}
SCHEMA = cs.Schema.from_dict({"name": "t", "columns": {"a": COLUMN, "b": COLUMN}})
IDS = cs.Schema.from_dict({**SCHEMA.to_dict(), "unit": {"kind": "id", "column": "who", "max_rows": 1}})
MANY = pa.table({"a": [1] * 5 + [2] * 3, "b": [2] * 8, "who": [str(each) for each in range(8)]})
DECLARED = "a bigint, b bigint, who string"
ONE = {
    "whole": pa.table({"a": [3, 4], "b": [4, 5], "who": ["y", "z"]}),
    "lacks": pa.table({"b": [4, 5], "who": ["y", "z"]}),
    "floats": pa.table({"a": [3.0, None], "b": [4, 5], "who": ["y", "z"]}),
    "texts": pa.table({"a": ["3", "four"], "b": [4, 5], "who": ["y", "z"]}),
    "small": pa.table({"b": pa.array([4, 5], pa.int8()), "a": pa.array([3, 4], pa.uint16()), "who": ["y", "z"]}),
    "numbered ids": pa.table({"a": [3, 4], "b": [4, 5], "who": [100.0, 101.0]}),
    "nothing": pa.table({"a": pa.nulls(2), "b": pa.nulls(2), "who": ["y", "z"]}),
    "lists": pa.table({"a": [[3], None], "b": [4, 5], "who": ["y", "z"]}),
    "none of them": pa.table({"x": [1, 2]}),
    "no columns": pa.table({}),
    "twice": pa.Table.from_arrays([pa.array([3, 4]), pa.array(["x", "y"]), pa.array([4, 5])], names=["a", "a", "b"]),
}


def counts(source: Any, schema: cs.Schema) -> list[int]:
    found = cs.open_table(source, schema).fold(Counting(cs.marginals(schema, 2)))[0]
    return [int(each) for each in found]


def folder(place: Path, *files: pa.Table) -> str:
    place.mkdir()
    for number, file in enumerate(files):
        pq.write_table(file, place / f"{number}.parquet")
    return str(place)


def test_what_a_file_is_like_stops_nothing_and_moves_no_other_row(session: Any, tmp_path: Path) -> None:
    """All files of one person each at once: as in a folder, for rows and ids, with and without what Spark computes."""
    place = folder(tmp_path / "a b%20ü", MANY, *(file for name, file in ONE.items() if name != "twice"))
    frame = session.read.schema(DECLARED).parquet(place)
    for schema in (SCHEMA, IDS):
        expected = counts(place, schema)
        assert counts(frame, schema) == expected
        assert counts(frame.repartition(3).filter("1 = 1"), schema) == expected
    told = cs.open_table(frame.filter("b >= 4"), SCHEMA)
    found, rows = told.fold(Counting(cs.marginals(SCHEMA, 1)))
    assert rows == 14  # two of each of the seven files in which b is written
    code = int(SCHEMA.encode(0, pa.array([3]))[0])
    assert int(found[code]) == 5  # where a is 3: whole, floats, texts, small, and numbered ids


@pytest.mark.audit
@pytest.mark.parametrize("name", ONE)
def test_one_file_of_each_kind_reads_as_in_a_folder(session: Any, tmp_path: Path, name: str) -> None:
    place = folder(tmp_path / "rows", MANY, ONE[name])
    frame = session.read.schema(DECLARED).parquet(place)
    for schema in (SCHEMA, IDS):
        if name != "twice":  # which a folder refuses by the names
            assert counts(frame, schema) == counts(place, schema)
        assert sum(counts(frame.filter("who IS NOT NULL OR 1 = 1"), schema)) > 0


def test_counts_are_those_of_spark_for_any_names(session: Any, tmp_path: Path) -> None:
    """Random renames, permutations, drops and filters: the column that is released is the one of that name."""
    from pyspark.sql import functions as F

    draw = np.random.Generator(np.random.PCG64(1))
    names = ["a", "b", "c"]
    place = folder(tmp_path / "rows", *(pa.table({name: draw.integers(0, 10, 40) for name in names}) for _ in range(2)))
    plain = session.read.parquet(place)
    for trial in range(6):
        order = [names[at] for at in draw.permutation(3)]
        frame = plain.select(*(F.col(old).alias(new) for old, new in zip(order, names)))
        if trial % 3 == 1:
            frame = frame.withColumnRenamed("a", "x").withColumnRenamed("b", "a").withColumnRenamed("x", "b").drop("c")
        if trial % 3 == 2:
            frame.createOrReplaceTempView("rows")
            frame = session.sql("SELECT b AS a, coalesce(a, 0) AS b FROM rows WHERE a > 2 ORDER BY c")
        expected = np.zeros((10, 10), dtype=int)
        for row in frame.groupBy("a", "b").count().collect():
            expected[row["a"], row["b"]] = row["count"]
        pairs = cs.marginal(SCHEMA, ["a", "b"])
        found = np.array(cs.open_table(frame, SCHEMA).fold(Counting(pairs))[0]).reshape(11, 11)
        values = SCHEMA.encode(0, pa.array(range(10)))
        assert found[np.ix_(values, values)].tolist() == expected.tolist(), trial


def test_capitals_and_folders_are_read_as_spark_does(session: Any, tmp_path: Path) -> None:
    for value, name in (("3", "A"), ("4", "a"), ("__HIVE_DEFAULT_PARTITION__", "a")):
        folder(tmp_path / f"b={value}", pa.table({name: [1, 2]}))
    guess = "spark.sql.sources.partitionColumnTypeInference.enabled"
    usual = session.conf.get(guess)
    session.conf.set(guess, "false")
    try:
        frame = session.read.schema("a bigint, b string").parquet(str(tmp_path))
        found = np.array(counts(frame, SCHEMA)).reshape(11, 11)
        kept = np.array(counts(frame.filter("b <> '4'"), SCHEMA)).reshape(11, 11)
    finally:
        session.conf.set(guess, usual)
    one, two, three, four, none = SCHEMA.encode(0, pa.array([1, 2, 3, 4, None])).tolist()
    every = {(a, b) for a in (one, two) for b in (three, four, none)}
    assert {(a, b) for a, b in np.argwhere(found == 1).tolist()} == every
    assert found.sum() == len(every)
    assert {(a, b) for a, b in np.argwhere(kept).tolist()} == {(one, three), (two, three)}


def test_a_file_belongs_to_a_frame_by_its_own_name(session: Any, tmp_path: Path) -> None:
    """The first folder like k=1 hides the files beside it from Spark, and with them everybody else's rows."""
    place = tmp_path / "rows"
    folder(place, MANY)
    frame = session.read.schema(DECLARED).parquet(str(place))
    before = counts(frame, SCHEMA)
    for name in ("k=1", "k=2/l=1", "_temporary", ".staging", "other"):
        (place / name).mkdir(parents=True)
        pq.write_table(ONE["whole"], place / name / "odd.parquet")
        if name == "k=1":
            mixed = session.read.schema(DECLARED).parquet(str(place))
            assert mixed.count() == 2  # of ten
            assert sum(counts(mixed, SCHEMA)) == sum(before) + 2
    (place / "_metadata").write_bytes(b"no table")
    (place / "empty.parquet").touch()
    (place / "part-00000").write_bytes((place / "0.parquet").read_bytes())
    expected = (np.array(before) * 2 + 2 * np.array(counts(ONE["whole"], SCHEMA))).tolist()
    assert counts(frame, SCHEMA) == expected
    assert counts(frame.filter("1 = 1"), SCHEMA) == expected
    shutil.rmtree(place / "_temporary")
    shutil.rmtree(place / ".staging")
    every = session.read.schema(DECLARED).option("recursiveFileLookup", "true").parquet(str(place))
    assert sum(counts(every, SCHEMA)) == sum(expected) + 2
    alone = session.read.schema(DECLARED).option("basePath", str(place)).parquet(str(place / "k=1"))
    assert counts(alone, SCHEMA) == counts(ONE["whole"], SCHEMA)


def test_folders_name_values_below_the_base_alone(session: Any, tmp_path: Path) -> None:
    """A folder above the frame that happens to be called a=9, keys that are escaped, and keys in other capitals."""
    base = tmp_path / "a=9" / "rows"
    for name in ("a=1/x.parquet", "A=2/x.parquet", "a=%33/x.parquet", "x.parquet"):
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"b": [0]}), base / name)
    frame = session.read.option("basePath", str(base)).parquet(*map(str, (base / "a=1", base / "a=%33")))
    found = np.array(counts(frame, SCHEMA)).reshape(11, 11).sum(axis=1)
    one, two, three = SCHEMA.encode(0, pa.array([1, 2, 3])).tolist()
    assert np.flatnonzero(found).tolist() == sorted([one, three])
    whole = session.read.parquet(str(base)).selectExpr("a AS a", "b")  # in Spark its name is that of some folder
    found = np.array(counts(whole, SCHEMA)).reshape(11, 11).sum(axis=1)
    for name in ("a=1/x.parquet", "A=2/x.parquet"):  # the word of a folder stands, in whatever capitals
        pq.write_table(pa.table({"b": [0], "a": [5]}), base / name)
    assert np.array_equal(np.array(counts(whole, SCHEMA)).reshape(11, 11).sum(axis=1), found)
    alone = session.read.option("basePath", f"file:{base}").parquet(str(base)).selectExpr("a AS a", "b")
    assert np.array_equal(np.array(counts(alone, SCHEMA)).reshape(11, 11).sum(axis=1), found)
    none = int(SCHEMA.encode(0, pa.array([None], pa.int64()))[0])
    assert np.flatnonzero(found).tolist() == sorted([one, two, three, none])


def test_patterns_pass_over_what_folders_do(session: Any, tmp_path: Path) -> None:
    """What a pattern matches is named one by one, hidden and empty files among it, and names of any bytes below."""
    place = Path(folder(tmp_path / "rows", MANY))
    expected = counts(str(place), SCHEMA)
    for name in ("_SUCCESS", "empty.parquet", "_h.parquet", "part.parquet._COPYING_"):
        (place / name).write_bytes(b"" if name == "empty.parquet" else b"no table")
    assert counts(session.read.schema(DECLARED).parquet(f"{place}/*"), SCHEMA) == expected
    frame = session.read.schema(DECLARED).parquet(str(place))
    pq.write_table(ONE["whole"], place / "odd.parquet")
    (place / "odd.parquet").rename(os.fsdecode(os.fsencode(place) + b"/odd\xff.parquet"))
    assert sum(counts(frame, SCHEMA)) == sum(expected) + 2


@pytest.mark.parametrize("value", ["4", "x"])
def test_columns_of_one_name_stop_nothing(session: Any, tmp_path: Path, value: str) -> None:
    """Neither where they are wanted nor where rows alone are counted, whatever stands in them."""
    twins = pa.Table.from_arrays([pa.array([1]), pa.array([value]), pa.array([2])], names=["a", "a", "b"])
    others = twins.rename_columns(["x", "x", "b"])
    place = folder(tmp_path / "rows", MANY, twins, others)
    frame = session.read.schema(DECLARED).parquet(place)
    for source in (frame, frame.filter("1 = 1")):
        assert cs.open_table(source, SCHEMA).fold(RowCount()) == 10
        found = cs.open_table(source, SCHEMA).fold(Counting(cs.marginal(SCHEMA, ["a"])))[0]
        assert int(found[SCHEMA.encode(0, pa.array([None], pa.int64()))[0]]) == 2
    pq.write_table(others, tmp_path / "one.parquet")
    alone = cs.Schema.from_dict({"name": "t", "columns": {"b": COLUMN}})
    for source in (str(tmp_path / "one.parquet"), folder(tmp_path / "two", others)):
        table = cs.open_table(source, alone)
        assert table.fold(RowCount()) == 1
        assert table.fold(Counting(cs.marginal(alone, ["b"])))[0].sum() == 1


def test_names_of_keys_are_written_with_escapes(session: Any, tmp_path: Path) -> None:
    made = session.createDataFrame(pa.table({"a%:": [1, 2, 2], "b": [1, 1, 1]}))
    made.write.partitionBy("a%:").parquet(str(tmp_path / "rows"))
    found = np.array(
        counts(session.read.parquet(str(tmp_path / "rows")).selectExpr("`a%:` AS a", "b"), SCHEMA)
    ).reshape(11, 11)
    assert found.sum(axis=1)[SCHEMA.encode(0, pa.array([1, 2]))].tolist() == [1, 2]


def test_frames_without_files_have_no_rows(session: Any, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    frame = session.read.schema(DECLARED).parquet(str(tmp_path / "rows"))
    for schema in (SCHEMA, IDS):
        assert sum(counts(frame, schema)) == 0
        assert sum(counts(frame.filter("a > 1"), schema)) == 0


def test_partitions_of_a_catalogue_are_those_that_it_lists(session: Any, tmp_path: Path) -> None:
    """Their columns have declared types, so that filters may read them; folders may lie anywhere, or be gone."""
    place = tmp_path / "listed"
    session.sql(f"CREATE TABLE listed (b BIGINT, a INT) USING parquet PARTITIONED BY (a) LOCATION '{place}'")
    try:
        session.sql("INSERT INTO listed VALUES (1, 1), (2, 1), (3, 2), (4, NULL)")
        folder(tmp_path / "elsewhere", pa.table({"b": [5, 5]}))
        session.sql(f"ALTER TABLE listed ADD PARTITION (a = 3) LOCATION '{tmp_path / 'elsewhere'}'")
        session.sql(f"ALTER TABLE listed ADD PARTITION (a = 4) LOCATION '{tmp_path / 'gone'}'")
        folder(place / "a=5", pa.table({"b": [5]}))  # which the catalogue does not know
        frame = session.table("listed")
        codes = SCHEMA.encode(0, pa.array([1, 2, 3, None])).tolist()
        found = np.array(counts(frame, SCHEMA)).reshape(11, 11).sum(axis=1)
        assert found[codes].tolist() == [2, 1, 2, 1]
        assert found.sum() == 6
        kept = np.array(counts(frame.filter("a >= 2"), SCHEMA)).reshape(11, 11).sum(axis=1)
        assert kept[codes].tolist() == [0, 1, 2, 0]
    finally:
        session.sql("DROP TABLE listed")
    with pytest.raises(SourceError, match="catalogue"):
        counts(frame, SCHEMA)


def test_moments_in_the_names_of_folders_are_not_computed_with(session: Any, tmp_path: Path) -> None:
    """A text without a place is another moment in every zone."""
    session.sql(f"CREATE TABLE moments (b INT, a TIMESTAMP) USING parquet PARTITIONED BY (a) LOCATION '{tmp_path}/m'")
    try:
        session.sql("INSERT INTO moments VALUES (1, TIMESTAMP'2020-01-01 12:30:00')")
        with pytest.raises(SourceError, match="names of folders do not say"):
            counts(session.table("moments").filter("a > TIMESTAMP'2020-01-01 12:00:00'"), SCHEMA)
        assert sum(counts(session.table("moments"), SCHEMA)) == 1
    finally:
        session.sql("DROP TABLE moments")


def test_filters_on_lists_are_refused(session: Any, tmp_path: Path) -> None:
    place = folder(tmp_path / "rows", pa.table({"a": [1], "b": [2], "l": [[1]]}))
    with pytest.raises(SourceError, match="no filter reads"):
        cs.open_table(session.read.parquet(place).filter("l IS NOT NULL"), SCHEMA)


MOMENT = datetime.datetime(2020, 2, 29, 23, 30, tzinfo=datetime.UTC)
VALUES: list[pa.Array] = [
    pa.array([1, 2**63 - 1, -(2**63), None]),
    pa.array([2**64 - 1, 200], pa.uint64()),
    pa.array([1.0, 0.5, 1e300, -0.0, float("nan"), float("inf"), None]),
    pa.array([decimal.Decimal("1.50"), decimal.Decimal("1.00"), None]),
    pa.array(["1", "x", "2020-02-29", "true", "1e400", "9" * 500, "x" * 40_000, "ü" * 40_000, "", None]),
    pa.array([b"1", b"\xff", b"x" * 40_000, None]),
    pa.array([True, False, None]),
    pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
    pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
    pa.array([MOMENT.replace(tzinfo=None), None], pa.timestamp("ns")),
    pa.nulls(2),
]
KINDS = ["boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date", "timestamp"]


@pytest.mark.parametrize("kind", [*KINDS, "timestamp_ntz", "decimal(5,1)", "decimal(38,10)"])
def test_a_value_in_a_type_of_spark_depends_on_it_alone(kind: str) -> None:
    for values in VALUES:
        encoded = [values] if pa.types.is_null(values.type) else [values, values.dictionary_encode()]
        for column in encoded:
            found = typed(tidy(column), kind)
            assert found.type == arrow_type(kind)
            alone = [typed(tidy(column.slice(place, 1)), kind)[0] for place in range(len(column))]
            assert str(found.to_pylist()) == str([each.as_py() for each in alone])


def test_values_keep_their_meaning_in_the_types_of_spark() -> None:
    for column, kind, expected in (
        (pa.array([3.0, 3.5, None]), "long", [3, None, None]),
        (pa.array([3, 300]), "byte", [3, None]),
        (pa.array(["3", "three"]), "integer", [3, None]),
        (pa.array([3.0, 3.5]), "string", ["3", "3.5"]),
        (pa.array([" x "]).dictionary_encode(), "string", [" x "]),
        (pa.array([3]), "double", [3.0]),
        (pa.array([1.25, 1.5, 10000.0]), "decimal(5,1)", [None, decimal.Decimal("1.5"), None]),
        (pa.array(["2020-02-29"]), "date", [datetime.date(2020, 2, 29)]),
        (pa.array([MOMENT], pa.timestamp("ns", "UTC")), "timestamp", [MOMENT]),
    ):
        assert typed(tidy(column), kind).to_pylist() == expected, kind


def test_long_numbers_keep_their_digits_and_odd_ones_stop_nothing() -> None:
    texts = [
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "1e400",
        "0e999999999",
        "1e-99999999999999999999",
    ]
    whole = typed(tidy(pa.array(texts)), "long").to_pylist()
    assert whole == [9007199254740993, 9223372036854775807, None, None, 0, None]
    exact = typed(tidy(pa.array(["1.5", *texts])), "decimal(5,1)").to_pylist()
    assert exact == [decimal.Decimal("1.5"), None, None, None, None, decimal.Decimal("0.0"), None]
