"""No value stops a release, changes how another one is read, or shows itself in a message."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import gc
import uuid
import warnings
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conspectus.data.columns.arrays import UNREADABLE, mended, tidied, tidy
from conspectus.data.columns.kinds import Boolean, Categorical, Column, Date, Integer, Number
from conspectus.data.columns.values import number_of, text_of
from conspectus.data.schema import Schema, Unit
from conspectus.data.sources import SourceError, open_records, open_table

DAY = datetime.date
KINDS: list[Column] = [
    Categorical("v", ("1", "2020-01-01", "09:30:00"), other=True, missing=True),
    Categorical("v", ("2020-01-01", "1"), default="1"),
    Boolean("v", missing=True),
    Integer("v", 0, 9, missing=True),
    Number("v", (0, 1, 5), missing=True),
    Date("v", DAY(2000, 1, 1), DAY(2030, 1, 1), width="year", missing=True),
]
IDS = ["categorical", "default", "boolean", "integer", "number", "date"]
BAD = [b"1", b"\xff\xfe", b"2020-01-01", b"\xed\xa0\x80", b"1\xff", b"\xef\xbf\xbd", b"\xe2\x80"]
UNITS = (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))
MOMENTS = [0, 1577836800, 253402300799, 253402300800, -62135596800, -62135596801, 10**12, -(10**12)]


def wrong_texts(kind: pa.DataType) -> pa.Array:
    raw = pa.array(BAD, pa.large_binary() if kind == pa.large_string() else pa.binary())
    return pa.Array.from_buffers(kind, len(raw), raw.buffers())


def arrays() -> dict[str, pa.Array]:
    """Arrays that hold values beyond what their types mean, with 2020-01-01 or 1 among them."""
    found = {
        "string": wrong_texts(pa.string()),
        "large_string": wrong_texts(pa.large_string()),
        "dictionary": wrong_texts(pa.string()).dictionary_encode(),
        "binary": pa.array(BAD, pa.binary()),
        "date32": pa.array([18262, 2**31 - 9, -(2**31), 5_000_000, None], pa.int32()).cast(pa.date32()),
        "date64": pa.array([1577836800000, 3 * 10**14, -(2**62), 2**62], pa.int64()).cast(pa.date64()),
        "time64": pa.array([34_200_000_000, 2**60, -1, None], pa.time64("us")),
        "time32": pa.array([34_200, 2**31 - 1, -1], pa.time32("s")),
        "duration": pa.array([1, 2**62, -(2**62)], pa.duration("s")),
        "uint64": pa.array([1, 2**64 - 1], pa.uint64()),
        "decimal128": pa.array([decimal.Decimal(1), decimal.Decimal("9" * 38)], pa.decimal128(38, 0)),
        "decimal256": pa.array([decimal.Decimal(1), decimal.Decimal("9" * 70)], pa.decimal256(76, 0)),
        "half": pa.array(np.array([1, np.inf, np.nan], np.float16)),
        "list": pa.array([[1], None, []]),
        "nested texts": pa.array([["a"], None]),
        "uuid": pa.array([uuid.UUID(int=n).bytes for n in range(3)], pa.uuid()),
        "run ends": pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["1", "x"])),
    }
    for unit, parts in UNITS:
        ticks = [moment * parts for moment in MOMENTS if abs(moment * parts) < 2**63] + [2**63 - 1, -(2**63) + 1]
        found[f"timestamp {unit}"] = pa.array(ticks, pa.timestamp(unit))
        found[f"timestamp {unit} tz"] = pa.array(ticks, pa.timestamp(unit, tz="Europe/Berlin"))
    return found


ARRAYS = arrays()


def codes(source: Any, column: Column) -> list[int]:
    found: list[int] = []
    with open_table(source, Schema("t", (column,))) as table:
        for chunk in table.chunks():
            found.extend(chunk.column(0).tolist())
    return found


@pytest.mark.parametrize("column", KINDS, ids=IDS)
def test_a_value_that_no_type_should_hold_is_unreadable_by_itself(column: Column) -> None:
    for name, array in ARRAYS.items():
        together = column.encode(array).tolist()
        alone = [code for place in range(len(array)) for code in column.encode(array.slice(place, 1)).tolist()]
        assert together == alone, name
        chunks = pa.chunked_array([array.slice(0, 1), array.slice(1)])
        assert column.encode(chunks).tolist() == alone, name


def test_what_is_out_of_range_is_missing_and_what_is_not_is_read() -> None:
    column = KINDS[0]
    assert column.encode(ARRAYS["string"]).tolist() == [0, 4, 1, 4, 4, 4, 4]
    assert column.encode(ARRAYS["date32"]).tolist() == [1, 4, 4, 4, 4]
    assert column.encode(ARRAYS["date64"]).tolist() == [1, 4, 4, 4]
    assert column.encode(ARRAYS["time64"]).tolist() == [2, 3, 3, 4]  # beyond a day they go round, as in Python
    assert column.encode(ARRAYS["time32"]).tolist() == [2, 3, 3]
    assert column.encode(ARRAYS["timestamp s"]).tolist() == [3, 1, 3, 4, 3, 4, 4, 4, 4, 4]
    assert column.encode(ARRAYS["duration"]).tolist() == [4, 4, 4]
    assert column.encode(ARRAYS["decimal256"]).tolist() == [0, 3]
    assert column.encode(ARRAYS["uuid"]).tolist() == [3, 3, 3]


@pytest.mark.parametrize("column", [KINDS[0], KINDS[5]], ids=["categorical", "date"])
def test_sources_read_such_values_as_columns_do(column: Column, tmp_path: Path) -> None:
    longest = max(map(len, ARRAYS.values()))
    padded = {
        name: pa.chunked_array([array, pa.nulls(longest - len(array), array.type)])
        for name, array in ARRAYS.items()
        if name != "run ends"
    }
    refused = ("time64", "date64", "timestamp s", "timestamp s tz")  # the writer of Parquet does not take these values
    pq.write_table(pa.table({n: a for n, a in padded.items() if n not in refused}), tmp_path / "t.parquet")
    for source, held in (
        (pa.table(padded), list(padded)),
        (tmp_path / "t.parquet", [name for name in padded if name not in refused]),
        (f"SELECT * FROM '{tmp_path / 't.parquet'}'", [name for name in padded if name not in refused]),
    ):
        schema = Schema("t", tuple(dataclasses.replace(column, name=name) for name in held))
        with open_table(source, schema) as table:
            chunks = list(table.chunks())
        for place, name in enumerate(held):
            found = [code for chunk in chunks for code in chunk.column(place).tolist()]
            assert sorted(found) == sorted(column.encode(padded[name]).tolist()), name


OBJECTS: list[Any] = [
    "1",
    "\ud800",
    b"\xff",
    decimal.Decimal("sNaN"),
    decimal.Decimal("NaN"),
    decimal.Decimal("1e999999"),
    decimal.Decimal("1e-9999999"),
    10**5000,
    -(10**400),
    float("inf"),
    1j,
    [1, 2],
    {"a": 1},
    np.array([1, 2]),
    pd.NA,
    pd.NaT,
    None,
    np.datetime64("2020-01-01"),
    np.datetime64("20000-01-01"),
    datetime.datetime(2020, 1, 1),
    datetime.time(9, 30),
    pd.Timestamp("2020-01-01"),
    True,
]


@pytest.mark.parametrize("column", KINDS[::3], ids=IDS[::3])
def test_no_object_of_pandas_stops_a_release(column: Column) -> None:
    def frame(objects: list[Any]) -> pd.DataFrame:
        series = pd.Series([None] * len(objects), dtype=object)
        for place, value in enumerate(objects):
            series.iat[place] = value
        return pd.DataFrame({"v": series})

    together = sorted(codes(frame(OBJECTS), column))
    assert together == sorted(code for value in OBJECTS for code in codes(frame([value]), column))
    assert codes(frame(["\ud800"]), column) == [column.null_code]


def test_pandas_types_that_arrow_does_not_know_are_read_by_value() -> None:
    column = Categorical("v", ("2020-01", "1"), other=True, missing=True)
    periods = pd.DataFrame({"v": pd.period_range("2020-01", periods=2, freq="M")})
    assert sorted(codes(periods, column)) == [0, 2]
    mixed = pd.DataFrame({"v": pd.Categorical(["1", 1, "\ud800", (1, 2)])})
    assert sorted(codes(mixed, column)) == [1, 1, 3, 3]


def test_dates_of_duckdb_beyond_all_years_are_missing() -> None:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT unnest([DATE '2020-01-01', DATE '5881580-07-10', 'infinity'::DATE, "
        "'-infinity'::DATE, DATE '5877642-06-25 (BC)', NULL]) AS v"
    )
    for kind in ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"):
        if not kind.startswith("TIMESTAMP_"):  # those are beyond the closed list: TIMESTAMP does
            relation = connection.sql(f"SELECT TRY_CAST(v AS {kind}) AS v FROM t")
            assert sorted(codes(relation, KINDS[0])) == [1, 4, 4, 4, 4, 4], kind
        connection.execute(f"CREATE OR REPLACE TABLE u AS SELECT TRY_CAST(v AS {kind}) AS v FROM t")
        assert sorted(codes(connection.table("u"), KINDS[0])) == [1, 4, 4, 4, 4, 4], kind


def test_a_fault_of_ours_would_not_quote_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "Ziegelstein"

    def broken(*arguments: Any, **options: Any) -> Any:
        raise OverflowError(secret)

    for unit in ({}, {"kind": "id", "column": "v", "max_rows": 1}):
        declared = {"columns": {"v": {"type": "categorical", "values": ["1"]}}, "unit": unit}
        table = open_table(pa.table({"v": [secret]}), Schema.from_dict(declared))
        monkeypatch.setattr(Categorical, "encode", broken)
        with pytest.raises(SourceError) as problem:
            list(table.chunks())
        assert secret not in str(problem.value)
        assert problem.value.__suppress_context__
        monkeypatch.undo()


def test_a_lazy_frame_that_fails_quotes_no_value() -> None:
    lazy = pl.LazyFrame({"v": ["1", "Ziegelstein"]}).with_columns(pl.col("v").cast(pl.Int64))
    for opened in (lambda: open_table(lazy, Schema("t", (KINDS[0],))), lambda: open_records(lazy)):
        with pytest.raises(SourceError, match="lazy frame") as problem:
            opened()
        assert "Ziegelstein" not in str(problem.value)
        assert problem.value.__suppress_context__


def test_objects_and_long_integers_of_polars_are_read_by_value() -> None:
    """Arrow has the addresses of objects in memory, and no integers of 128 bits."""
    held = pl.DataFrame({"v": pl.Series([b"1", 1, None, (1, 2)], dtype=pl.Object)})
    assert sorted(codes(held, KINDS[0])) == [0, 0, 4, 4]
    assert sorted(codes(pl.DataFrame({"v": pl.Series([1, 2], dtype=pl.Int128)}), KINDS[0])) == [0, 3]


@given(st.binary(max_size=8), st.binary(max_size=8))
@settings(max_examples=300, deadline=None)
def test_different_bytes_are_different_texts(first: bytes, second: bytes) -> None:
    assert (mended(first) == mended(second)) is (first == second)
    mended(first).encode()
    try:
        assert (mended(first) == first.decode()) or UNREADABLE in first.decode()
    except UnicodeDecodeError:
        assert UNREADABLE in mended(first)


def test_the_type_of_a_result_depends_on_the_type_alone() -> None:
    for name, array in ARRAYS.items():
        tidied_array = tidy(array)
        tidied_array.validate(full=True)
        assert tidied_array.type == tidied(array.type) == tidy(array.slice(0, 1)).type, name
        assert len(tidied_array) == len(array)


def test_texts_and_numbers_of_values_never_fail() -> None:
    for value in OBJECTS:
        text, number = text_of(value), number_of(value)
        assert text is None or isinstance(text, str)
        assert number is None or abs(float(number)) < float("inf")
    assert text_of(decimal.Decimal("1.50")) == "1.5"
    assert text_of(10**5000) is None
    assert number_of(10**400) is None


def test_a_table_that_nobody_closes_leaves_nothing_and_warns_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        schema = Schema("t", (KINDS[0],), unit=Unit("id", "who"))  # ids are bounded by a database
        table = open_table(pa.table({"v": ["1"], "who": [1]}), schema)
        assert len(list(table.chunks())) == 1
        assert any(tmp_path.iterdir())
        del table
        gc.collect()
    assert not warned
    assert not any(tmp_path.iterdir())
