"""All rows without an id form one unit, in whichever type and spelling nothing is written.

A declared null value −1 meets ids as the integer −1, the float −1.0, the text "-1" or the decimal −1.00, beside NULL
and NaN. If each of them were a unit of its own, one person's rows could change several units for the price of one.
"""

from __future__ import annotations

import datetime
import decimal
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conspectus.data.columns.kinds import Integer
from conspectus.data.columns.values import Nulls
from conspectus.data.schema import Schema, Unit
from conspectus.data.sources import open_table, units

SPELLINGS = ("-1", "-1.0", " -1 ", "-1.00e0", "-01", "-1.")
NUMBERS: list[pa.DataType] = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal32(5, 2), pa.decimal64(9, 1), pa.decimal128(20, 4), pa.decimal256(50, 2)),
]
TEXTS: list[pa.DataType] = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()]
CODED = (pa.int32(), pa.float64(), pa.decimal128(20, 4), pa.string(), pa.binary())


def kept(source: Any, nulls: tuple[str, ...], most: int = 1) -> int:
    """How many rows are kept of a source whose rows have numbers of their own."""
    schema = Schema("t", (Integer("place", 0, 10**6),), Unit("id", "who", most), null_values=nulls)
    with open_table(source, schema) as table:
        return sum(chunk.rows for chunk in table.chunks())


def number(value: int | None, kind: pa.DataType) -> Any:
    if value is None or pa.types.is_integer(kind):
        return value
    return decimal.Decimal(value) if pa.types.is_decimal(kind) else np.float16(value)


def columns_of_ids(kind: pa.DataType, spelling: str) -> dict[str, pa.Array]:
    """Six rows of two people, and six of nobody."""
    if kind in TEXTS:
        words = ["5", "5", " 5", "7", "7 ", "7", None, "", "  ", spelling, f" {spelling}\t", None]
        held = [None if word is None else word.encode() for word in words] if "binary" in str(kind) else words
        return {"texts": pa.array(held, kind)}
    numbers = [number(value, kind) for value in (5, 5, 5, 7, 7, 7, None, -1, -1, None, -1, None)]
    found = {"numbers": pa.array(numbers, kind)}
    if pa.types.is_floating(kind):
        odd = [number(value, kind) for value in (5, 5, 5, 7, 7, 7, None)]
        nan = pa.array(np.array([math.nan] * 3, dtype=kind.to_pandas_dtype()))
        found["NaN"] = pa.concat_arrays([pa.array(odd, kind), nan, pa.array([number(-1, kind)] * 2, kind)])
    return found


@pytest.mark.parametrize("kind", [*NUMBERS, *TEXTS], ids=str)
def test_nobody_is_one_unit_in_every_type_and_spelling(kind: pa.DataType, tmp_path: Path) -> None:
    for spelling in SPELLINGS:
        for name, ids in columns_of_ids(kind, spelling).items():
            table = pa.table({"who": ids, "place": range(len(ids))})
            assert kept(table, ("?", spelling)) == 3, (name, spelling)
            assert kept(table, ("?", spelling), 2) == 6, (name, spelling)
            if kind in CODED:
                coded = table.set_column(0, "who", ids.dictionary_encode())
                assert kept(coded, (spelling,)) == 3, (name, spelling)
    pq.write_table(table, tmp_path / "t.parquet")
    assert kept(tmp_path / "t.parquet", (spelling,)) == 3
    assert kept(f"SELECT who, place FROM '{tmp_path / 't.parquet'}'", (spelling,)) == 3


def test_nobody_is_one_unit_in_frames_and_files(tmp_path: Path) -> None:
    place = list(range(8))
    floats = pd.DataFrame({"who": [5.0, 5.0, 7.0, 7.0, math.nan, -1.0, math.nan, -1.0], "place": place})
    mixed = pd.DataFrame({"who": [5, "5", 7.0, " 7", None, -1.0, pd.NA, "-1.0"], "place": place}, dtype=object)
    assert kept(floats, ("-1",)) == kept(mixed, ("-1",)) == 3
    assert kept(floats.astype({"who": "Float64"}), ("-1.00",)) == 3
    assert kept(pl.from_pandas(floats, nan_to_null=False), ("-1",)) == 3
    assert kept(pl.from_pandas(floats), ("-1",)) == 3
    floats.to_csv(tmp_path / "t.csv", index=False)
    for source in (tmp_path / "t.csv", f"SELECT * FROM '{tmp_path / 't.csv'}'"):
        assert kept(source, ("-1",)) == 3


def test_a_day_that_means_nothing_means_it_in_every_type() -> None:
    days = [datetime.date(2020, 1, 1)] * 2 + [None] + [datetime.date(9999, 12, 31)] * 2
    moments = [None if day is None else datetime.datetime.combine(day, datetime.time()) for day in days]
    for ids in (
        pa.array(days),
        pa.array(days, pa.date64()),
        pa.array(moments, pa.timestamp("us")),
        pa.array(moments, pa.timestamp("s", "UTC")),
        pa.array([None if day is None else str(day) for day in days]),
    ):
        for spelling in ("9999-12-31", "9999-12-31 00:00:00", " 9999-12-31T00:00"):
            assert kept(pa.table({"who": ids, "place": range(5)}), (spelling,)) == 2, (ids.type, spelling)
    assert kept(pd.DataFrame({"who": pd.Series(moments, dtype=object), "place": range(5)}), ("9999-12-31",)) == 2


def test_one_person_does_not_become_nobody() -> None:
    """Numbers of many digits are equal as floats; ids are not."""
    long = 9007199254740993
    table = pa.table({"who": [long, long - 1, long + 1, None], "place": range(4)})
    assert kept(table, (str(long),)) == 3
    texts = pa.table({"who": [str(long), f"{long}.0", str(long - 1), "0x1", "1_0", "nan", None], "place": range(7)})
    assert kept(texts, (str(long), "10")) == 5
    infinite = pa.table({"who": [math.inf, -math.inf, math.nan, None, 1e300], "place": range(5)})
    assert kept(infinite, ("-1",)) == 4


def test_taking_a_row_without_an_id_away_changes_one_unit() -> None:
    """The break itself: a person without an id who is written in several ways was several units."""
    schema = Schema("t", (Integer("place", 0, 99),), Unit("id", "who", 1), null_values=("-1",))
    rows = {"who": [1.0, 2.0, 3.0, -1.0, math.nan, None], "place": range(6)}
    table = pa.table({"who": pa.array(rows["who"], pa.float64()), "place": rows["place"]})

    def codes(source: pa.Table) -> set[int]:
        with open_table(source, schema) as opened:
            return {int(code) for chunk in opened.chunks() for code in chunk.column(0)}

    assert len(codes(table) - codes(table.slice(0, 3))) == 1
    assert codes(table.slice(0, 3)) <= codes(table)


def check(seed: int, rounds: int) -> int:
    """Random ids, markers and types: those that mean a marker, or nothing, are nobody, and no other is."""
    rng = random.Random(f"{seed}")
    for _ in range(rounds):
        marker = rng.choice([-1, 0, 99, 2**53 - 2, -(2**40), 10**15])
        ids = [rng.choice([marker, marker + 1, marker - 1, 1, 2, None]) for _ in range(10)]
        spelling = rng.choice([f"{marker}", f" {marker}.0", f"{marker}.", f"{decimal.Decimal(marker):e}"])
        people = Nulls(("?", spelling))
        absent = [value is None or value == marker for value in ids]
        held: list[pa.Array] = [
            pa.array(ids, pa.int64()),
            pa.array(ids, pa.float64()),
            pa.array([math.nan if value is None else value for value in ids], pa.float64()),
            pa.array([None if value is None else decimal.Decimal(value) for value in ids], pa.decimal128(30, 5)),
            pa.array([None if value is None else rng.choice([f"{value}", f" {value}.00"]) for value in ids]),
            pa.array(
                [rng.choice(["", "?", None]) if value is None else f"{value}".encode() for value in ids], pa.binary()
            ),
        ]
        for values in held:
            for each in (values, values.dictionary_encode(), values.slice(3)):
                found = units.people(each, people)
                assert [text is None for text in found.to_pylist()] == absent[-len(each) :], (each.type, spelling)
    return rounds * len(held) * 3


def test_nobody_is_nobody_for_random_ids_and_markers() -> None:
    assert check(0, 30) == 540


@pytest.mark.audit
@pytest.mark.parametrize("seed", range(1, 11))
def test_nobody_is_nobody_for_many_random_ids_and_markers(seed: int) -> None:
    check(seed, 1000)
