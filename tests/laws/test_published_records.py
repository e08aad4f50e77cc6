"""Published records: canonical forms that tell records apart and read back, and releases that show the records."""

from __future__ import annotations

import datetime
import decimal
import itertools
import struct
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conspectus as cs
from conspectus.audit.keys_and_projections import collision
from conspectus.curator.keys import keys_of, shown_keys
from conspectus.data.domain import RECORDS, Domain
from conspectus.data.records.canonical_form import (
    CANONICAL,
    LONGEST,
    LongRecord,
    NotCanonical,
    address,
    canonical,
    read,
    shortened,
)
from conspectus.data.records.fingerprints import fingerprint
from conspectus.data.records.forms import form_of
from conspectus.privacy.events import Noise
from conspectus.report import write_report
from conspectus.synopses.published_records import PublishedRecords, record_array
from conspectus.synopses.sparse_table import SparseTable
from conspectus.synopses.synopsis import BadSynopsis, CannotAnswer, Total, load_synopsis

UTC = datetime.UTC
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**80), 2**80),
    st.integers(-(2**63) - 2, -(2**63) + 2),
    st.floats(),
    st.decimals(),
    st.text(st.characters(exclude_categories=()), max_size=9),
    st.sampled_from(["\ufffd", "\ufffdef", "1", "", "a\ud800", "\udcff"]),
    st.binary(max_size=9),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.times(),
    st.uuids(),
)
HASHABLE = st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=3), st.dates(), st.binary(max_size=3))
ANY = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=2).map(tuple),
        st.frozensets(HASHABLE, max_size=3),
        st.dictionaries(st.text(max_size=2) | st.integers(0, 3), inner, max_size=3),
    ),
    max_leaves=5,
)


@settings(deadline=None, max_examples=300)
@given(ANY)
def test_what_is_read_back_is_the_same_record(record):
    raw = canonical(record)
    assert canonical(read(raw)) == raw
    assert form_of(read(raw)) == form_of(record)
    assert address(raw) == fingerprint(record)


@settings(deadline=None)
@given(st.lists(ANY, max_size=25))
def test_canonical_forms_are_equal_where_records_are_and_nowhere_else(records):
    raw = [canonical(record) for record in records]
    for one, other in itertools.combinations(range(len(records)), 2):
        assert (raw[one] == raw[other]) == (form_of(records[one]) == form_of(records[other]))
    assert CANONICAL.of(records).tolist() == raw
    assert CANONICAL.of(records * 9).tolist() == raw * 9
    frame = pd.DataFrame({"r": pd.Series(records, dtype=object)})
    assert [form for part in cs.open_records(frame).records() for form in part] == raw


COLUMNS = {
    "truths": [True, False],
    "integers": [1, -2, 2**53, -(2**63)],
    "numbers": [1.5, -0.0, 3.0, 1e300],
    "texts": ["a", "", "\ufffdé"],
    "bytes": [b"a", b"\xff"],
    "moments": [datetime.datetime(2020, 1, 1, 10), datetime.datetime(1920, 1, 1)],
    "dates": [datetime.date(2020, 1, 1), datetime.date(1, 1, 1)],
    "times": [datetime.time(9, 30, 0, 500_000), datetime.time(9)],
    "decimals": [decimal.Decimal("1.50"), decimal.Decimal(3)],
    "tuples": [(1, "a"), (2, None)],
}
ODD = [None, True, 3, 2.5, "x", b"x", 2**70, float("nan"), pd.NA, pd.NaT, (1, 2), {1, 2}, object(), "x\ud800"]


@pytest.mark.parametrize("name", COLUMNS)
def test_no_row_changes_how_another_is_read(name):
    """Every odd value in turn turns the column into objects, floats, or what the library likes."""
    values = COLUMNS[name]
    expected = [canonical(value) for value in values]
    assert len(set(expected)) == len(values)
    for odd in ODD:
        more = [*values, odd]
        try:
            series = pd.Series(more)
        except UnicodeEncodeError:  # pandas has no such text of its own type
            series = pd.Series(more, dtype=object)
        for source in (more, series, pd.DataFrame({"r": series})):
            assert [form for part in cs.open_records(source).records() for form in part][:-1] == expected
    if name != "tuples":  # which Arrow has as structs of named parts alone
        held = pa.array(values)
        for source in (pa.table({"r": held}), pl.DataFrame({"r": values}), held.dictionary_encode()):
            assert [form for part in cs.open_records(source).records() for form in part] == expected


@settings(deadline=None, max_examples=60)
@given(st.lists(ANY, max_size=12), ANY, st.data())
def test_one_row_moves_the_counts_of_records_by_one(rows, other, data):
    def counts(records):
        table = cs.open_records(records)
        keys, found = table.fold(keys_of(table))
        return Counter(dict(zip(keys, found.tolist())))

    here, more = counts(rows), counts([*rows, other])
    assert more - here == Counter({canonical(other): 1})
    assert not here - more
    if rows:
        place = data.draw(st.integers(0, len(rows) - 1))
        replaced = counts([*rows[:place], other, *rows[place + 1 :]])
        assert (here - replaced).total() <= 1
        assert (replaced - here).total() <= 1
    assert counts(list(reversed(rows))) == here
    assert list(counts(list(reversed(rows)))) == list(here) == sorted(here)


def released(rows, asked=None, **settings_):
    """A release with so small a delta that one of a thousand single rows is shown once in ten million runs."""
    asked = cs.sparse([["a"]]) if asked is None else asked
    table = rows if hasattr(rows, "chunks") else cs.open_records(rows)
    return cs.release(table, asked, epsilon=1.0, delta=1e-10, mechanism="stable-histogram", **settings_)


VALUES = [
    *("a", "1", "\ufffd", 1, 2.5, -7, 2**70, True, b"\xff\x00", None),
    *(("u", 3), (1, ("x", None)), frozenset({1, "a"})),
    *(datetime.date(2020, 2, 29), datetime.datetime(2020, 1, 1, tzinfo=UTC), decimal.Decimal("0.1")),
]


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_records_of_all_kinds_are_published_and_read_back(neighbours, tmp_path):
    """A count of 100 stays below the threshold of 46 with probability e^-27; one of 1 reaches it with 1e-10."""
    rows = [value for value in VALUES for _ in range(100)] + [f"rare {i}" for i in range(300)]
    rng = np.random.default_rng(1)
    asked = cs.sparse([[value] for value in VALUES] + [["rare 3"], {"a": 0.5, ("u", 3): 1}])
    found = [released([rows[i] for i in rng.permutation(len(rows))], asked, neighbours=neighbours) for _ in range(2)]
    for release in found:
        records = [record for record, _ in release.records]
        assert [canonical(record) for record in records] == sorted(map(canonical, VALUES))
        assert {(type(record), record) for record in records} == {(type(value), value) for value in VALUES}
        assert all(abs(count - 100) < 60 for _, count in release.records)
        counts = release.answers * release.total.divisor
        assert np.abs(counts - [*[100] * len(VALUES), 0, 150]).max() < 90
    release.save(tmp_path / "records")
    again = cs.load(tmp_path / "records")
    assert again.records == release.records
    assert np.array_equal(again.synopsis.answer(asked), release.answers)
    answer = again.ask(asked[0])
    assert answer == release.ask(asked[0])
    assert answer.low <= answer.fraction <= answer.high < 0.2
    shown = again.table(["record"])
    assert shown.column_names == ["record", "count", "low", "high", "too_noisy"]
    assert shown.num_rows == len(VALUES)
    assert "('u', 3)" in shown["record"].to_pylist()
    made = again.synthetic(500, public_seed=3)
    assert set(made["record"].to_pylist()) <= set(shown["record"].to_pylist())
    assert made.equals(release.synthetic(500, public_seed=3))
    pyarrow.csv.write_csv(shown.to_arrow(), tmp_path / "records.csv")
    write_report(again, tmp_path / "page.html")
    assert "rare" not in (tmp_path / "page.html").read_text(encoding="utf-8").replace("rare 3", "")


def test_a_table_of_one_kind_keeps_its_type(tmp_path):
    for values, kind in (
        (["x", "y"], pa.string()),
        ([3, -4], pa.int64()),
        ([3, 2.5], pa.float64()),
        ([b"\xff", b""], pa.binary()),
        ([True, False], pa.bool_()),
        ([datetime.date(2020, 1, 1), None], pa.date32()),
        ([datetime.datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    ):
        assert record_array(values).type == kind
        assert record_array(values).to_pylist() == values
    for mixed in ([1, "1"], [2**70], [2**60, 2.5], ["\ud800"], [("a", 1)], [True, 1]):
        assert record_array(mixed).to_pylist() == list(map(repr, mixed))
    assert record_array([]).type == record_array([None]).type == pa.string()


def test_records_made_to_collide_are_told_apart():
    """A question cannot tell them apart, and says so by having no interval."""
    common, rare = collision()
    assert fingerprint(common) == fingerprint(rare)
    release = released([common] * 300 + [rare] + ["a"] * 100)
    assert [record for record, _ in release.records] == ["a", common]
    assert release.ask(cs.sparse([[common]])).low is not None
    both = released([common] * 300 + [rare] * 200 + ["a"] * 100)
    assert [record for record, _ in both.records] == ["a", rare, common]
    assert abs(both.synopsis.answer(cs.sparse([[rare]]))[0] * 600 - 500) < 90
    assert both.ask(cs.sparse([[rare]])).low is None
    assert both.ask(cs.sparse([["a"]])).low is not None


def test_what_stays_below_the_threshold_is_not_shown():
    keys, counts = (b"Ta", b"Tb", b"Tc"), np.array([27, 28, 29])
    shown, noisy = shown_keys(keys, counts, 28)
    assert (shown, noisy.tolist()) == ((b"Tb", b"Tc"), [28, 29])


def test_long_records_are_shortened_each_by_itself(tmp_path):
    long, same, other = "z" * 100_000, "z" * 100_000, "z" * 99_999 + "y"
    release = released([long] * 100 + [same] * 100 + [other] * 100 + ["z" * (LONGEST - 1)] * 100 + [("a", long)])
    whole, first, second = (record for record, _ in release.records)
    assert whole == "z" * (LONGEST - 1)
    assert {first.fingerprint, second.fingerprint} == {fingerprint(long), fingerprint(other)}
    assert first.length == second.length == 100_001
    assert abs(release.synopsis.answer(cs.sparse([[long]]))[0] * 401 - 200) < 60
    release.save(tmp_path / "long")
    assert cs.load(tmp_path / "long").records == release.records
    assert len(shortened(canonical(long))) == 49
    assert isinstance(first, LongRecord)


def test_every_source_of_records_publishes_them(tmp_path):
    rows = ["a"] * 100 + ["b"] * 90 + [f"r{i}" for i in range(50)]
    schema = cs.Schema.from_dict({"name": "t", "columns": {"r": {"type": "record"}}})
    arrow = pa.table({"r": rows, "n": list(range(len(rows)))})
    pq.write_table(arrow, tmp_path / "r.parquet")
    pyarrow.csv.write_csv(arrow, tmp_path / "r.csv")
    frames = [arrow, arrow.to_pandas(), pl.from_arrow(arrow), tmp_path / "r.parquet", tmp_path / "r.csv"]
    tables = [cs.open_records(frame, "r") for frame in frames] + [cs.open_table(frame, schema) for frame in frames]
    for table in tables:
        with table:
            release = released(table, cs.sparse([["a"]], None if table.domain == RECORDS else schema))
        assert [record for record, _ in release.records] == ["a", "b"]
        assert release.table(table.domain.names)[0].to_pylist() == ["a", "b"]
    pairs = released(cs.open_records(pa.table({"u": [1] * 100, "i": ["x"] * 100})), cs.sparse([[(1, "x")]]))
    assert [record for record, _ in pairs.records] == [(1, "x")]


def test_keys_of_other_tables_stay_addresses():
    schema = cs.Schema.from_dict({"name": "t", "columns": {"r": {"type": "record"}, "b": {"type": "boolean"}}})
    table = cs.open_table(pa.table({"r": ["a"] * 100, "b": [True] * 100}), schema)
    release = released(table, cs.sparse([[("a", True)]], schema))
    assert isinstance(release.synopsis, SparseTable)
    with pytest.raises(CannotAnswer, match="published no records"):
        _ = release.records


def test_nothing_published_is_a_release_too():
    release = released(["a", "b", None])
    assert release.records == ()
    assert release.table(["record"]).num_rows == 0
    assert release.answers.tolist() == [0.0]
    with pytest.raises(CannotAnswer, match="no record reached"):
        release.synthetic(3)


TOTAL = Total(value=100.0, exact=True)
DEEP = b"N"
for _ in range(70):
    DEEP = b"(" + struct.pack(">QQ", 1, len(DEEP)) + DEEP


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"?",
        b"N ",
        b"B\2",
        b"B",
        b"+\0",
        b"+" + b"\xff" * 8,
        b"-" + b"\0" * 8,
        b"R" + struct.pack(">d", 2.0),
        b"R" + struct.pack(">d", float("nan")),
        b"L\1",
        b"T\xff",
        b"E1.0E1",
        b"ESecret",
        b"S9" + b"9" * 5000,
        b"M" + b"\xff" * 8,
        b"(" + b"\0" * 7 + b"\2" + b"\0" * 8,
        b"(" + struct.pack(">QQ", 1, 1) + b"N" + b"N",
        b"{" + struct.pack(">QQ", 2, 2) + b"Tb" + struct.pack(">Q", 2) + b"Ta",
        b"~",
        b"~" + b"\0" * 48,
        b"~" + b"\xff" * 48,
        DEEP,
        b"T" * (LONGEST + 1),
    ],
)
def test_bytes_that_are_no_record_are_refused(wrong):
    with pytest.raises(NotCanonical, match="no canonical form"):
        read(wrong)
    with pytest.raises(BadSynopsis):
        PublishedRecords(RECORDS, (wrong,), np.array([40]), 30, Noise("laplace", 2.0), TOTAL)


def test_broken_parts_are_refused():
    held = PublishedRecords(RECORDS, (b"Ta", b"Tb"), np.array([40, 50]), 30, Noise("laplace", 2.0), TOTAL)
    meta, tables = held.parts()
    assert load_synopsis(RECORDS, "published-records", meta, tables).forms == held.forms
    for broken in ({**meta, "threshold": 45}, {**meta, "threshold": None}, {**meta, "noise": []}, {**meta, "total": 1}):
        with pytest.raises(BadSynopsis):
            load_synopsis(RECORDS, "published-records", broken, tables)
    narrow = tables["records"].set_column(0, "record", pa.array(["Ta", "Tb"]))
    for other in ({}, {"keys": tables["records"]}, {"records": narrow}):
        with pytest.raises(BadSynopsis):
            load_synopsis(RECORDS, "published-records", meta, other)
    for forms in ((b"Tb", b"Ta"), (b"Ta", b"Ta"), (b"Ta",)):
        with pytest.raises(BadSynopsis):
            PublishedRecords(RECORDS, forms, held.counts, 30, held.noise, TOTAL)
    with pytest.raises(BadSynopsis, match="one column of records"):
        PublishedRecords(Domain(("a",), (5,)), held.forms, held.counts, 30, held.noise, TOTAL)
