"""The fingerprint of a record: total, the record's own alone, and the same from every kind of source."""

from __future__ import annotations

import datetime
import decimal
import itertools
import uuid
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conspectus as cs
from conspectus.data.records.fingerprints import fingerprint, fingerprints, of_tuples
from conspectus.data.records.record import Record
from conspectus.data.schema import Schema, Unit
from conspectus.data.sources import SourceError

SCHEMA = Schema("t", (Record("r"),), Unit(), None)
UTC = datetime.UTC
SPAN, HOUR = datetime.timedelta(hours=1), datetime.time(9, 30, 0, 500_000)


class NoOffset(datetime.tzinfo):
    def utcoffset(self, moment):
        return None


class Hostile:
    def __eq__(self, other):
        raise RuntimeError("a secret")

    def __str__(self):
        raise RuntimeError("a secret")

    __hash__ = None


RING: list = [1]
RING.extend([RING] * 10)

ODD = [
    None,
    True,
    3,
    2.5,
    "x",
    b"x",
    2**70,
    10**5000,
    float("nan"),
    float("inf"),
    pd.NaT,
    pd.NA,
    decimal.Decimal("sNaN"),
    decimal.Decimal("-Infinity"),
    decimal.Decimal("1E+5000"),
    decimal.Decimal("1E+999999999"),
    decimal.Decimal("1E-999999999"),
    np.array([1, 2]),
    np.array(3),
    np.datetime64("2020-01-01T10:00", "ns"),
    RING,
    "x\ud800secret",
    datetime.datetime(2020, 1, 1, tzinfo=NoOffset()),
    datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(SPAN)),
    datetime.datetime.max,
    datetime.date(2020, 1, 1),
    SPAN,
    HOUR,
    1j,
    uuid.UUID(int=5),
    {1, 2},
    {"a": [1]},
    (1, "a"),
    pd.Timestamp("2020-01-01", tz="Europe/Paris"),
    pd.Timedelta("1h"),
    pd.Period("2020-01"),
    pd.Interval(0, 1),
    object(),
    Hostile(),
]

COLUMNS = {
    "truths": [True, False],
    "integers": [1, -2, 2**53],
    "numbers": [1.5, -0.0, 3.0, 1e300],
    "texts": ["a", "", "\ufffdé"],
    "bytes": [b"a", b"\xff"],
    "moments": [pd.Timestamp("2020-01-01 10:00:00.123456789"), pd.Timestamp("1920-01-01")],
    "zones": [pd.Timestamp("1920-01-01 10:00", tz="Europe/Paris"), pd.Timestamp("2021-07-01", tz="Europe/Paris")],
    "dates": [datetime.date(2020, 1, 1), datetime.date(1, 1, 1)],
    "spans": [pd.Timedelta("1h"), pd.Timedelta("-1ns")],
    "times": [HOUR, datetime.time(9)],
    "periods": [pd.Period("2020-01"), pd.Period("2020-02")],
    "intervals": [pd.Interval(0, 1), pd.Interval(1, 2)],
    "complex": [1j, 2j],
    "decimals": [decimal.Decimal("1.50"), decimal.Decimal(3)],
    "tuples": [(1, "a"), (2, None)],
}


def codes(table):
    with table:
        return [code for chunk in table.chunks() for code in chunk.column(0).tolist()]


def polars_frame(values):
    try:
        return pl.DataFrame({"r": pl.Series(values)})
    except Exception:
        return pl.DataFrame({"r": pl.Series(values, dtype=pl.Object)})


@pytest.mark.parametrize("name", COLUMNS)
def test_no_row_changes_the_fingerprint_of_another(name):
    """Every odd value in turn turns the column into objects, floats, or what the library likes."""
    values = COLUMNS[name]
    expected = [fingerprint(value) for value in values]
    assert len(set(expected)) == len(values)
    for odd in ODD:
        more = [*values, odd]
        assert codes(cs.open_records(more))[:-1] == expected
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                frame = pd.DataFrame({"r": pd.Series(more)})
            except UnicodeEncodeError:  # pandas has no such text of its own type
                frame = pd.DataFrame({"r": pd.Series(more, dtype=object)})
        assert codes(cs.open_records(frame["r"]))[:-1] == expected, repr(type(odd))
        assert codes(cs.open_records(frame))[:-1] == expected
        if any(odd is few for few in ODD[:5]):
            assert codes(cs.open_table(frame, SCHEMA))[:-1] == expected
    narrow = pd.DataFrame({"r": pd.Series(values)})
    assert codes(cs.open_records(narrow)) == codes(cs.open_table(narrow, SCHEMA)) == expected


@pytest.mark.parametrize("name", COLUMNS)
def test_categories_read_as_their_values(name):
    values = COLUMNS[name]
    expected = [fingerprint(value) for value in (*values, None, values[0])]
    frame = pd.DataFrame({"r": pd.Categorical([*values, None, values[0]])})
    assert codes(cs.open_records(frame)) == codes(cs.open_table(frame, SCHEMA)) == expected


@pytest.mark.parametrize(
    "name", ["truths", "integers", "numbers", "texts", "bytes", "dates", "spans", "times", "decimals"]
)
def test_polars_and_arrow_read_as_the_values(name):
    values = [value.to_pytimedelta() if isinstance(value, pd.Timedelta) else value for value in COLUMNS[name]]
    expected = [fingerprint(value) for value in values]
    for more in (values, [*values, None], [None, *values]):
        wanted = [fingerprint(value) for value in more]
        for source in (polars_frame(more), pa.table({"r": pa.array(more)}), polars_frame(more)["r"]):
            assert codes(cs.open_records(source)) == wanted
        for source in (polars_frame(more), polars_frame(more).lazy(), pa.table({"r": pa.array(more)})):
            assert codes(cs.open_table(source, SCHEMA)) == wanted
    assert codes(cs.open_records(pl.DataFrame({"r": pl.Series([*values, SCHEMA], dtype=pl.Object)})))[:-1] == expected


PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**80), 2**80),
    st.floats(),
    st.decimals(),
    st.text(st.characters(exclude_categories=()), max_size=9),
    st.binary(max_size=9),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.times(),
    st.uuids(),
)
ANY = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=2).map(tuple), max_leaves=5
)


@settings(deadline=None)
@given(st.lists(ANY, max_size=30))
def test_many_records_have_the_fingerprints_of_each(values):
    alone = [fingerprint(value) for value in values]
    assert fingerprints(values).tolist() == alone
    assert codes(cs.open_records(pd.DataFrame({"r": pd.Series(values, dtype=object)}))) == alone
    assert fingerprints(values * 9).tolist() == alone * 9


def test_every_value_has_a_fingerprint_and_no_error_tells_of_one():
    missing = fingerprint(None)
    unreadable = [pd.NaT, pd.NA, decimal.Decimal("sNaN"), RING, object(), Hostile(), lambda: 0]
    assert {fingerprint(value) for value in unreadable} == {missing}
    assert fingerprint(datetime.datetime(2020, 1, 1, tzinfo=NoOffset())) == fingerprint(datetime.datetime(2020, 1, 1))
    readable = [10**5000, 10**5000 + 1, decimal.Decimal("1E+999999999"), np.array([1, 2]), "x\ud800secret", {1, 2}]
    assert len({fingerprint(value) for value in readable} | {missing}) == len(readable) + 1
    assert fingerprint((1, Hostile())) == fingerprint((1, None)) != missing
    assert fingerprint({1, "a"}) == fingerprint({"a", 1}) != fingerprint((1, "a"))
    long = decimal.Decimal("1." + "0" * 40 + "1")
    assert fingerprint(long) != fingerprint(decimal.Decimal(1)) != fingerprint(-long)
    assert codes(cs.open_records(np.array(["x\ud800secret", "b"])))[1] == fingerprint("b")
    assert codes(cs.open_records(pd.Series([1, None], dtype="Int64"))) == [fingerprint(1), missing]


def test_arrow_values_that_python_does_not_have_are_missing():
    def lists(values):
        return pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), values)

    last = fingerprint([datetime.datetime(1970, 1, 1, 0, 0, 1)])
    assert fingerprints(lists(pa.array([2**61, 1], pa.timestamp("s")))).tolist() == [fingerprint(None), last]
    wrong = lists(pa.array([b"\xff", b"b"]).view(pa.string()))
    assert fingerprints(wrong).tolist() == [fingerprint(None), fingerprint(["b"])]
    assert fingerprints(pa.array([2**62, 1], pa.timestamp("s"))).tolist()[0] == fingerprint(None)
    assert fingerprints(pa.array([2**62, 3_600_000_000], pa.duration("us")))[1] == fingerprint(SPAN)


def test_whole_numbers_are_the_same_in_every_type():
    for number in (0, 1, -(2**63), 2**63, 2**64 - 2048, 2**80):
        assert fingerprint(number) == fingerprint(float(number)) == fingerprint(decimal.Decimal(number))
        assert fingerprints(np.array([float(number)] * 9)).tolist() == [fingerprint(number)] * 9
    assert fingerprint(True) != fingerprint(1)


def test_tuples_of_close_parts_do_not_collide():
    """With one constant for tuples and their parts, ("b", 0) and ("a", 1) were one record."""
    places = [(f"{a}{b}345", age) for a in range(1, 10) for b in range(10) for age in range(20, 80)]
    words = list(itertools.product(("alice", "blice", "clice"), [f"{i}-widget" for i in "abcdefgh"]))
    ids = [(str(user), f"{item:010d}") for user in range(1, 60) for item in range(0, 2 * 10**9, 4 * 10**7)]
    nested = [((a, b), (c, d)) for a, b, c, d in itertools.product(range(6), repeat=4)]
    deeper = [(a, (b, (c, d))) for a, b, c, d in itertools.product("abcdef", range(6), "abcdef", range(6))]
    for records in (places, words, ids, nested, deeper):
        assert len({fingerprint(record) for record in records}) == len(records)
    frame = pd.DataFrame(places, columns=["zip", "age"])
    assert codes(cs.open_records(frame)) == [fingerprint(place) for place in places]
    # The codes of a schema's columns may be fingerprints of tuples: their addresses have a constant of their own.
    first, second = zip(*[(fingerprint((a, 1)), fingerprint((b, 2))) for a in range(30) for b in range(30)])
    assert len(set(of_tuples([np.array(first, np.uint64), np.array(second, np.uint64)], 900).tolist())) == 900


def test_columns_of_one_name_and_relations_are_refused(tmp_path):
    (tmp_path / "twins.csv").write_text("id,name,name\n1,x,y\n2,x,z\n", encoding="utf-8")
    with pytest.raises(SourceError, match="two columns of one name: rename"):
        cs.open_records(tmp_path / "twins.csv")
    with pytest.raises(SourceError, match='two columns "name"'):
        cs.open_records(tmp_path / "twins.csv", "name")
    assert sorted(codes(cs.open_records(tmp_path / "twins.csv", "id"))) == sorted(map(fingerprint, "12"))
    with pytest.raises(SourceError, match="open_table reads it"):
        cs.open_records(duckdb.sql("SELECT 1 AS a"))


def test_tuples_within_rows_of_several_columns_are_the_tuples_within_tuples():
    rows = [((1, 2), "a"), ((1, None), "b")]
    frame = pd.DataFrame({"pair": [row[0] for row in rows], "name": [row[1] for row in rows]})
    arrow = pa.table({"pair": [{"x": 1, "y": 2}, {"x": 1, "y": None}], "name": ["a", "b"]})
    expected = [fingerprint(row) for row in rows]
    assert codes(cs.open_records(rows)) == codes(cs.open_records(frame)) == expected
    named = [({"x": 1, "y": 2}, "a"), ({"x": 1, "y": None}, "b")]
    assert codes(cs.open_records(arrow)) == [fingerprint(row) for row in named]
