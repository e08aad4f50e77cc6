"""The laws of a column: codes mean what one value at a time means, whatever type the values arrive in."""

from __future__ import annotations

import datetime
import math
import operator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conspectus.data.columns.kinds import (
    Boolean,
    Categorical,
    Column,
    CutsBin,
    Date,
    Integer,
    NotOrdered,
    Number,
    SchemaError,
    UnknownValue,
    column_from_dict,
)
from conspectus.data.columns.values import Nulls
from conspectus.data.domain import code_dtype

DAY = datetime.date
COLUMNS: list[Column] = [
    Integer("age", 17, 90, width=10, missing=True),
    Integer("small", -3, 3, default=2),
    Integer("wide", -(10**9), 10**9, width=10**7),
    Number("income", (0, 10, 25.5, 100), missing=True),
    Number("signed", (-1.5, 0, 1.5)),
    Categorical("colour", ("red", "green", "blue"), other=True, missing=True),
    Categorical("mixed", ("1", "02", True, 3.5), default="02"),
    Categorical("year", (2019, 2020), missing=True),
    Boolean("smoker", missing=True),
    Boolean("default", default=True),
    Date("seen", DAY(2020, 1, 15), DAY(2021, 3, 2), width="month", missing=True),
    Date("day", DAY(2020, 1, 1), DAY(2020, 1, 9)),
]
IDS = [column.name for column in COLUMNS]
NULLS = Nulls(("?", "NA", "-9", "2020-02-02"))
OPERATIONS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

WORDS = """red green blue Red 1 01 02 2 3.5 true True FALSE yes no y n t f 0 ? NA -9 -9.0 2020-02-02 2020-01-31 17
2020-13-01 nan inf -inf 1e3 1e999 +5 .5 5. 0x10 1_000 other missing 2020-05-05T10:00 2020-1-1 26 26.9 27 100 25.5"""
words = st.sampled_from(WORDS.split()) | st.text(max_size=6)
texts = st.lists(st.none() | words | words.map(lambda word: f"  {word}\t"), max_size=30)


@pytest.mark.parametrize("column", COLUMNS, ids=IDS)
@given(texts)
@settings(max_examples=60, deadline=None)
def test_texts_encode_as_one_value_at_a_time(column: Column, values: list[str | None]) -> None:
    codes = column.encode(pa.array(values, pa.string()), nulls=NULLS)
    assert codes.dtype == code_dtype(column.size)
    assert codes.tolist() == [column.code_of(value, NULLS) for value in values]
    assert all(code < column.size for code in codes.tolist())


@pytest.mark.parametrize("column", COLUMNS, ids=IDS)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 120), max_size=30))
@settings(max_examples=40, deadline=None)
def test_a_code_does_not_depend_on_the_type_that_others_gave_the_column(
    column: Column, values: list[int | None]
) -> None:
    """One person's missing value turns integers into floats, one person's word turns them into texts."""
    expected = [column.code_of(value, NULLS) for value in values]
    assert column.encode(pa.array(values, pa.int64()), nulls=NULLS).tolist() == expected
    exact = [value if value is None or abs(value) <= 2**53 else math.copysign(2.0**60, value) for value in values]
    known = [column.code_of(value, NULLS) for value in exact]
    for array in (
        pa.array(exact, pa.float64()),
        pa.array([None if value is None else str(int(value)) for value in exact], pa.string()),
        pa.array([None if value is None else f" {int(value)}.0 " for value in exact], pa.large_string()),
        pa.array([None if value is None else f"{int(value)}".encode() for value in exact], pa.binary()),
        pa.chunked_array([pa.array(exact, pa.float64()), pa.array([], pa.float64())]),
        pa.array(exact, pa.float64()).dictionary_encode(),
    ):
        assert column.encode(array, nulls=NULLS).tolist() == known, array.type


@pytest.mark.parametrize("column", COLUMNS, ids=IDS)
def test_no_value_of_any_type_stops_an_encoding(column: Column) -> None:
    days = [DAY(1, 1, 1), DAY(2020, 2, 29), None, DAY(9999, 12, 31)]
    moments = [datetime.datetime(2020, 3, 1, 23, 59), None, datetime.datetime(1969, 12, 31, 12)]
    arrays = [
        pa.array([math.nan, math.inf, -math.inf, None, 1e300]),
        pa.array([b"\xff\xfe", b"red", None], pa.binary()),
        pa.array(days),
        pa.array(moments, pa.timestamp("us")),
        pa.array(moments, pa.timestamp("ns", tz="UTC")),
        pa.array(moments, pa.timestamp("s")),
        pa.array([[1], None]),
        pa.array([{"a": 1}]),
        pa.array([True, None, False]),
        pa.nulls(3),
        pa.array([2**64 - 1, 0], pa.uint64()),
        pa.array([datetime.time(3, 4)]),
        pa.array([datetime.timedelta(days=1)]),
        pa.array([], pa.string()),
        pa.chunked_array([], pa.int32()),
        pa.array(["a\ufffdb", "red"]),
    ]
    for array in arrays:
        codes = column.encode(array, nulls=NULLS)
        assert len(codes) == len(array)
        assert codes.dtype == code_dtype(column.size)
        assert (codes < column.size).all()


def test_missing_unlisted_and_outside_values_take_their_declared_codes() -> None:
    age = Integer("age", 17, 90, width=10, missing=True)
    assert age.labels == ("17–26", "27–36", "37–46", "47–56", "57–66", "67–76", "77–86", "87–90", "missing")
    assert age.encode(pa.array([16, 17, 26, 27, 90, 1000, None])).tolist() == [0, 0, 0, 1, 7, 7, 8]
    colour = Categorical("colour", ("red", "green"), other=True, missing=True)
    assert colour.labels == ("red", "green", "other", "missing")
    assert colour.encode(pa.array([" red", "blue", None, "", "green"])).tolist() == [0, 2, 3, 3, 1]
    plain = Categorical("colour", ("red", "green"))
    assert plain.encode(pa.array(["blue", None, "green"])).tolist() == [0, 0, 1]
    chosen = Categorical("colour", ("red", "green"), default="green")
    assert chosen.encode(pa.array(["blue", None, "red"])).tolist() == [1, 1, 0]
    income = Number("income", (0, 10, 20))
    assert income.encode(pa.array([-1.0, 0, 9.99, 10, 20, 30])).tolist() == [0, 0, 0, 1, 1, 1]
    seen = Date("seen", DAY(2020, 1, 15), DAY(2020, 12, 31), width="quarter")
    assert seen.labels == ("2020-Q1", "2020-Q2", "2020-Q3", "2020-Q4")
    assert seen.encode(pa.array(["2019-05-05", "2020-03-31", "2020-04-01", "2031-01-01"])).tolist() == [0, 0, 1, 3]
    weeks = Date("seen", DAY(2020, 1, 1), DAY(2020, 1, 10), width="week")
    assert weeks.labels == ("week of 2020-01-01", "week of 2020-01-08")
    assert Date("y", DAY(2020, 5, 1), DAY(2022, 1, 1), width="year").labels == ("2020", "2021", "2022")


def samples(column: Column) -> list[object]:
    """Values that reach every bin: its ends and its middle."""
    if isinstance(column, Integer):
        return [v for lo, hi in zip(column.lows, column.highs) for v in {int(lo), int(lo + hi) // 2, int(hi)}]
    if isinstance(column, Number):
        inner = [v for lo, hi in zip(column.lows, column.highs) for v in (float(lo), float(lo + hi) / 2)]
        # A bin is full of numbers: one next to its upper edge stands for the rest of them.
        return [*inner, column.edges[-1], *(float(np.nextafter(hi, -np.inf)) for hi in column.highs)]
    assert isinstance(column, Date)
    return [column.min + datetime.timedelta(days=d) for d in range((column.max - column.min).days + 1)]


ORDERED = [c for c in COLUMNS if c.ordered and c.name != "wide"]


@pytest.mark.parametrize("column", ORDERED, ids=[column.name for column in ORDERED])
def test_comparisons_mean_what_they_say_or_name_the_edges(column: Column) -> None:
    values = samples(column)
    codes = {value: column.code_of(value) for value in values}
    refused = 0
    for op, holds in OPERATIONS.items():
        for literal in values[: 2 * column.regular + 1] if isinstance(column, Number) else values:
            true = {code for value, code in codes.items() if holds(value, literal)}
            outer = {"<": 0, "<=": 0, ">": column.regular - 1, ">=": column.regular - 1}.get(op)
            if outer is not None and outer not in true:  # true beyond the bins alone, where values are clamped
                with pytest.raises(CutsBin, match=r"in which all values (above|below) it are counted"):
                    column.codes_where(op, literal)
                assert set(column.codes_where(op, literal, snap=True)) == {outer}
                continue
            false = {code for value, code in codes.items() if not holds(value, literal)}
            assert set(column.codes_where(op, literal, snap=True)) == true
            if true & false:
                refused += 1
                with pytest.raises(CutsBin) as cut:
                    column.codes_where(op, literal)
                assert cut.value.edges
                for edge in cut.value.edges:  # the edges it names cut nothing
                    column.codes_where(">=", edge)
                    if op in ("<", "<=") or edge != column.bounds(0)[0]:
                        column.codes_where("<", edge)
            elif isinstance(column, Number) and op in ("=", "<>"):
                with pytest.raises(CutsBin):
                    column.codes_where(op, literal)
            else:
                assert set(column.codes_where(op, literal)) == true
            null = column.missing_code
            assert null is None or null not in column.codes_where(op, literal, snap=True)
    assert refused or column.name in ("small", "day")


def test_comparisons_of_listed_values() -> None:
    colour = Categorical("colour", ("red", "green", 1), other=True, missing=True)
    assert colour.codes_where("=", "green") == (1,)
    assert colour.codes_where("=", 1.0) == colour.codes_where("=", "1") == (2,)
    assert colour.codes_where("<>", "green") == (0, 2, 3)
    assert colour.codes_where("=", "other") == (3,)
    assert colour.codes_where("<>", "other") == (0, 1, 2)
    assert colour.codes_where("=", None) == colour.codes_where("<>", None) == ()
    assert colour.null_codes() == (4,)
    with pytest.raises(UnknownValue, match='did you mean "green"'):
        colour.codes_where("=", "gren")
    with pytest.raises(UnknownValue):
        colour.codes_where("<>", "violet")
    with pytest.raises(NotOrdered):
        colour.codes_where("<", "red")
    smoker = Boolean("smoker", missing=True)
    assert smoker.codes_where("=", True) == smoker.codes_where("<>", "no") == (1,)
    with pytest.raises(UnknownValue):
        smoker.codes_where("=", "perhaps")
    age = Integer("age", 17, 90)
    with pytest.raises(UnknownValue, match="from 17 to 90"):
        age.codes_where("=", 91)
    with pytest.raises(UnknownValue, match="number"):
        age.codes_where("<", "old")
    with pytest.raises(CutsBin, match="write >= 90"):
        age.codes_where(">", 200)
    assert age.codes_where(">", 200, snap=True) == (73,)
    assert len(age.codes_where("<", 200)) == age.size
    with pytest.raises(UnknownValue, match="date"):
        Date("d", DAY(2020, 1, 1), DAY(2020, 1, 9)).codes_where("<", "soon")


def rng(public_seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(public_seed))


@pytest.mark.parametrize("column", COLUMNS, ids=IDS)
def test_decoded_values_encode_to_their_codes(column: Column) -> None:
    codes = np.tile(np.arange(column.size), 20).astype(code_dtype(column.size))
    values = column.decode(codes, rng(7))
    assert values.type == column.arrow_type
    assert column.encode(values).tolist() == codes.tolist()
    assert values.equals(column.decode(codes, rng(7)))
    if column.missing:
        assert values.null_count == 20
    with pytest.raises(LookupError):
        column.decode(np.array([column.size]), rng(0))


def test_decoded_values_fill_their_bin_uniformly() -> None:
    """Binomial counts of 40,000 draws; 6 standard deviations is an error rate below 1e-8 per side and value."""
    draws = 40_000
    values = Integer("a", 0, 11, width=4).decode(np.ones(draws, dtype=np.uint8), rng(1)).to_numpy()
    counts = np.bincount(values, minlength=12)
    assert counts[:4].sum() == counts[8:].sum() == 0
    slack = 6 * math.sqrt(draws * 0.25 * 0.75)
    assert np.abs(counts[4:8] - draws / 4).max() < slack
    assert np.abs(np.bincount(values // 2 * 2, minlength=12)[4:8] - draws / 4).max() > slack  # a lumpy twin fails
    reals = Number("a", (0, 10, 30)).decode(np.ones(draws, dtype=np.uint8), rng(1)).to_numpy()
    assert ((reals >= 10) & (reals < 30)).all()
    assert abs((reals < 15).sum() - draws / 4) < slack


def test_the_native_type_of_listed_values_survives() -> None:
    assert Categorical("y", (2019, 2020)).decode(np.array([1, 0]), rng(0)).to_pylist() == [2020, 2019]
    assert Categorical("y", (1, 2.5)).decode(np.array([1, 0]), rng(0)).to_pylist() == [2.5, 1.0]
    assert Categorical("y", (True, False), missing=True).decode(np.array([0, 2]), rng(0)).to_pylist() == [True, None]
    assert Categorical("y", (1, "a")).decode(np.array([0, 1]), rng(0)).to_pylist() == ["1", "a"]
    assert Categorical("y", (1, 2), other=True).decode(np.array([0, 2]), rng(0)).to_pylist() == ["1", "other"]


@pytest.mark.parametrize("column", COLUMNS, ids=IDS)
def test_columns_survive_json(column: Column) -> None:
    assert column_from_dict(column.name, column.to_dict()) == column


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Integer("a", 5, 4), "min = 5 is above max = 4"),
        (lambda: Integer("a", 0, 9, width=0), "width = 0 is not positive"),
        (lambda: Integer("a", 0, True), "max is an integer"),
        (lambda: Integer("a", 0, 1 << 24), "at most"),
        (lambda: Integer("a", 0, 1 << 54), "2\\^53"),
        (lambda: Integer("a", 0, 9, default=10), "default"),
        (lambda: Integer("a", 0, 9, other=True), "categorical"),
        (lambda: Integer("a", 0, 9, missing=1), "missing is true or false"),  # type: ignore[arg-type]
        (lambda: Number("a", (1,)), "at least two"),
        (lambda: Number("a", (1, 1)), "do not increase"),
        (lambda: Number("a", (0, math.inf)), "finite"),
        (lambda: Number("a", (0, 1), default=2), "default"),
        (lambda: Categorical("a", ()), "at least one"),
        (lambda: Categorical("a", "abc"), "is a list"),  # type: ignore[arg-type]
        (lambda: Categorical("a", ("x", " x")), "twice"),
        (lambda: Categorical("a", ("x", "")), "empty"),
        (lambda: Categorical("a", ("x", None)), "texts, numbers"),  # type: ignore[arg-type]
        (lambda: Categorical("a", ("x", "other"), other=True), "other"),
        (lambda: Categorical("a", ("x", "missing"), missing=True), "null_values"),
        (lambda: Categorical("a", ("x",), default="y"), "default"),
        (lambda: Date("a", DAY(2020, 1, 2), DAY(2020, 1, 1)), "after"),
        (lambda: Date("a", DAY(2020, 1, 1), DAY(2020, 1, 2), width="hour"), "width is one of"),
        (lambda: Date("a", "2020", DAY(2020, 1, 2)), "min is a date"),  # type: ignore[arg-type]
        (lambda: Boolean(" "), "name"),
        (lambda: Boolean("a", default="perhaps"), "default"),
    ],
)
def test_impossible_columns_are_refused(make, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SchemaError, match=message):
        make()
