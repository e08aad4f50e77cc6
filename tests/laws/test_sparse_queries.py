"""Sparse queries: values, exact counts, joint sensitivities by brute force, and records of any kind."""

from __future__ import annotations

import base64
import datetime
import itertools
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.made import people
from tests.reference import norms

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.data.records.field import P, times
from conspectus.data.records.fingerprints import KEY, fingerprint, fingerprints
from conspectus.data.sources import SourceError
from conspectus.privacy.relation import Relation
from conspectus.queries.addresses import addresses, codes_at
from conspectus.queries.blocks import sparse_queries as blocks
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.dates(),
    st.datetimes(),
)
RECORDS = st.recursive(VALUES, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


@settings(deadline=None)
@given(st.integers(0, P - 1), st.integers(0, P - 1))
def test_the_field_multiplies(a, b):
    assert int(times(np.uint64(a), np.uint64(b))) == a * b % P


@pytest.mark.parametrize(
    "values",
    [
        ["a", "", None, "seven b", "eight by", "é" * 9],
        [0, 1, -1, 2**62, -(2**63), 2**63 - 1, None],
        [1.0, 2.5, -0.0, 1e300, float("inf"), None, -3.0],
        [b"", b"abc", b"0123456789", None],
        [True, False, None],
        [datetime.date(2020, 1, 1), datetime.date(1, 1, 1), None],
        [datetime.datetime(2020, 1, 1, 3, 4, 5, 6), None],
        [{"a": 1, "b": "x"}, {"a": 2, "b": None}, None],
        [[1, 2], [], None],
    ],
    ids=["texts", "integers", "numbers", "bytes", "truths", "dates", "moments", "structs", "lists"],
)
def test_arrays_and_single_records_have_the_same_fingerprints(values):
    expected = [fingerprint(value) for value in values]
    assert fingerprints(pa.array(values)).tolist() == expected
    assert fingerprints(values).tolist() == expected
    if isinstance(values[0], str):
        assert fingerprints(pa.array(values).dictionary_encode()).tolist() == expected
    assert fingerprints(pa.chunked_array([pa.array(values), pa.array(values[:1])])).tolist() == [*expected, expected[0]]


@settings(deadline=None)
@given(st.lists(RECORDS, min_size=2, max_size=12, unique_by=lambda record: (type(record).__name__, repr(record))))
def test_different_records_have_different_fingerprints(records):
    """Whole numbers are the same as 1 and as 1.0: everything else that differs collides with probability 2**-55."""
    names = {}
    for record in records:
        names.setdefault(fingerprint(record), []).append(record)
    for same in names.values():
        assert all(a == b for a, b in itertools.pairwise(same))


def test_the_fingerprint_is_the_polynomial_that_the_page_states():
    assert fingerprint("a") == ((7 << 48 | 1) * KEY**2 + ord("a") * KEY) % P
    assert fingerprint(None) == (1 << 48) * KEY % P
    assert fingerprint(1) == fingerprint(1.0) == fingerprint(np.int8(1)) != fingerprint("1")
    assert fingerprint((1, "x")) == fingerprint([1, "x"]) != fingerprint("x")


def everything(table):
    return np.concatenate([chunk.column(0) for chunk in table.chunks(rows=2)]).tolist()


def test_records_arrive_from_every_source_alike(tmp_path):
    frame = pa.table({"user": [1, 2, 3], "item": ["x", "y", None]})
    pq.write_table(frame, tmp_path / "pairs.parquet")
    pairs = [fingerprint(pair) for pair in ((1, "x"), (2, "y"), (3, None))]
    for source in (frame, frame.to_pandas(), tmp_path / "pairs.parquet", [(1, "x"), (2, "y"), (3, None)]):
        assert everything(cs.open_records(source)) == pairs
    assert everything(cs.open_table(frame, None)) == pairs
    assert everything(cs.open_records(frame, "item")) == [fingerprint(v) for v in ("x", "y", None)]
    assert everything(cs.open_records(pd.Series([1, None, 3]))) == [fingerprint(v) for v in (1, None, 3)]
    assert everything(cs.open_records(np.array([[1, 2], [3, 4]]))) == [fingerprint(v) for v in ((1, 2), (3, 4))]
    (tmp_path / "texts.csv").write_text("user,item\n1,x\n2,y\n", encoding="utf-8")
    texts = [fingerprint(pair) for pair in (("1", "x"), ("2", "y"))]
    assert sorted(everything(cs.open_records(tmp_path / "texts.csv"))) == sorted(texts)
    assert [chunk.rows for chunk in cs.open_records(["a"] * 5).chunks((), rows=2)] == [2, 2, 1]


@pytest.mark.parametrize("source", ["nowhere.csv", b"abc", {"a": 1}, 7, pa.table({})])
def test_what_is_no_source_of_records_is_refused(source):
    with pytest.raises(SourceError):
        cs.open_records(source)


def test_a_schema_may_declare_a_column_of_records():
    schema = cs.Schema.from_dict({"name": "mail", "columns": {"address": {"type": "record"}}})
    assert cs.Schema.from_dict(schema.to_dict()) == schema
    table = cs.open_table(pa.table({"address": ["a@b", "c@d", "a@b"]}), schema)
    assert count(cs.sparse([{"a@b": 1}], schema), table.chunks())[0].tolist() == [2]
    with pytest.raises(ValueError, match="leave out missing"):
        cs.Schema.from_dict({"name": "mail", "columns": {"address": {"type": "record", "missing": True}}})


MAPPINGS = st.lists(
    st.dictionaries(st.integers(0, 7), st.sampled_from([0, 0.25, 0.5, 1, 0.3, 1 / 3]), max_size=5),
    min_size=1,
    max_size=5,
)


def in_steps(weight):
    """A weight in steps of the finest grid, to the nearest."""
    return round(weight * 2**16)


@settings(deadline=None)
@given(MAPPINGS, st.lists(st.integers(0, 9), max_size=30))
def test_values_are_the_weights_of_the_rows_rounded_to_the_grid(mappings, rows):
    workload = cs.sparse(mappings)
    found, n = count(workload, cs.open_records(rows).chunks(rows=7))
    assert n == len(rows)
    for value, mapping in zip(found.tolist(), mappings):
        rounded = {record: in_steps(weight) for record, weight in mapping.items()}
        assert value * (2**16 // workload.grid) == sum(rounded.get(row, 0) for row in rows)
    assert workload.grid & (workload.grid - 1) == 0


@settings(deadline=None)
@given(MAPPINGS, st.data())
def test_blocks_are_values(mappings, data):
    workload = cs.sparse(mappings)
    again = Workload.from_json(json.loads(json.dumps(workload.to_json())))
    assert again == workload
    assert hash(again) == hash(workload)
    assert cs.sparse([dict(reversed(mapping.items())) for mapping in mappings]) == workload
    chosen = data.draw(st.lists(st.integers(0, len(mappings) - 1), max_size=6))
    assert list(workload.take(chosen).queries()) == list(cs.sparse([mappings[i] for i in chosen]).queries())
    assert [workload.query(i) for i in range(len(workload))] == [q.query(0) for q in workload]
    doubled = workload + workload.take(chosen)
    assert len(doubled.distinct()) == len(set(workload.queries()))
    assert list(doubled.distinct().take(doubled.positions_in(doubled.distinct())).queries()) == list(doubled.queries())


def brute(mappings, universe, neighbours):
    """The norms of what one row moves, over all pairs of neighbours."""
    weight = np.array([[in_steps(mapping.get(x, 0)) for mapping in mappings] for x in universe], dtype=np.int64)
    return norms(weight if neighbours == "add-remove" else (weight[:, None] - weight[None]).reshape(-1, len(mappings)))


@pytest.mark.parametrize("compared", [True, False])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@settings(deadline=None)
@given(MAPPINGS)
def test_sensitivities_by_brute_force(neighbours, compared, mappings):
    """Never below the truth; exact where pairs are compared, and always under add-remove. Record 99 is in no query."""
    limit = blocks.MOST_COMPARED
    blocks.MOST_COMPARED = limit if compared else -1
    try:
        workload = cs.sparse(mappings)
        claimed = workload.sensitivity(Relation(neighbours))
    finally:
        blocks.MOST_COMPARED = limit
    step = 2**16 // workload.grid
    scaled = (claimed.l1 * step, claimed.l2_squared * step * step, claimed.linf * step)
    true = brute(mappings, [*range(8), 99], neighbours)
    if compared or neighbours == "add-remove":
        assert scaled == true
    assert all(a >= b for a, b in zip(scaled, true))


@settings(deadline=None, max_examples=20)
@given(MAPPINGS, st.lists(st.integers(0, 9), max_size=4), st.lists(st.integers(0, 9), max_size=4))
def test_persons_of_several_rows_stay_within_the_sensitivity(mappings, mine, yours):
    """Units of at most 4 rows, any number of them on either side."""
    workload = cs.sparse(mappings)
    here, there = (count(workload, cs.open_records([*rows, 3, 5]).chunks())[0] for rows in (mine, yours))
    apart = np.abs(here - there)
    replace = workload.sensitivity(Relation("replace", 4, False))
    assert apart.sum() <= replace.l1
    assert (apart**2).sum() <= replace.l2_squared
    assert apart.max(initial=0) <= replace.linf


def test_a_full_universe_needs_no_unlisted_record():
    schema = cs.Schema.from_dict({"name": "coin", "columns": {"side": {"type": "boolean"}}})
    workload = cs.sparse([{(True,): 1, (False,): 1}], schema)
    assert workload.sensitivity(Relation("replace")).l1 == 0
    assert workload.sensitivity(Relation("add-remove")).l1 == 1


def test_a_schemas_records_are_tuples_or_mappings_of_values():
    schema, table = people()
    rows = [tuple(row.values()) for row in _values(schema, table)]
    first, second = rows[0], rows[1]
    named = frozenset(zip(schema.domain.names, second))
    workload = cs.sparse([{first: 1, second: 0.5}, {named: 1}, [first]], schema)
    found, _ = count(workload, table.chunks())
    counts = {record: rows.count(record) for record in (first, second)}
    if first != second:
        assert found.tolist() == [2 * counts[first] + counts[second], 2 * counts[second], 2 * counts[first]]
    with pytest.raises(WorkloadError, match="is no value of the column"):
        cs.sparse([{(*first[:-1], "nonsense"): 1}], schema)


def _values(schema, table):
    """The rows of a table in values that stand for their codes."""
    for chunk in table.chunks():
        for row in range(chunk.rows):
            yield {c.name: _value(c, int(chunk.column(at)[row])) for at, c in enumerate(schema.columns)}


def _value(column, code):
    if code in column.null_codes():
        return None
    return column.decode(np.array([code], dtype=np.uint8), np.random.Generator(np.random.PCG64(1)))[0].as_py()


def test_conjunctions_are_written_out():
    """All but k two-valued columns: 2^k records each, with the same counts as the conjunctions themselves."""
    names = [f"c{i}" for i in range(8)]
    schema = cs.Schema.from_dict({"name": "bits", "columns": {name: {"type": "boolean"} for name in names}})
    rng = np.random.default_rng(5)
    table = cs.open_table(pa.table({name: rng.random(300) < 0.4 for name in names}), schema)
    asked = cs.random_conjunctions(schema, 6, 40, public_seed=2, negations=True)
    listed = cs.sparse(asked)
    assert np.diff(listed.blocks[0].offsets).tolist() == [4] * 40
    assert count(listed, table.chunks())[0].tolist() == count(asked, table.chunks())[0].tolist()
    with pytest.raises(WorkloadError, match="written out"):
        cs.sparse(cs.parities(schema, 2))
    several = cs.sql(schema, ["c0 OR c1"])
    assert count(cs.sparse(several), table.chunks())[0].tolist() == count(several, table.chunks())[0].tolist()


def test_overlap_and_arrays():
    table = cs.open_records(["a", "b", "a", "c"])
    assert count(cs.overlap(["a", "z"]), table.chunks())[0].tolist() == [2]
    records = np.array([1, 2, 3, 4])
    workload = cs.sparse_arrays(records, [0, 1, 4], weights=[1, 0.5, 0.5, 0])
    assert workload == cs.sparse([{1: 1}, {2: 0.5, 3: 0.5}])
    for bad in ([1, 4], [0, 5], [0, 3, 2, 4]):
        with pytest.raises(WorkloadError):
            cs.sparse_arrays(records, bad)
    schema, _ = people()
    codes = np.zeros((2, len(schema.domain)), dtype=np.int64)
    assert len(cs.sparse_arrays(codes, [0, 1, 2], schema=schema)) == 2
    with pytest.raises(WorkloadError):
        cs.sparse_arrays(codes + 1000, [0, 1, 2], schema=schema)


@pytest.mark.parametrize("bad", [{"a": 1}, "text", [("a", "b")], [{"a": 1.5}], [{"a": -0.1}], [{"a": float("nan")}]])
def test_bad_mappings_are_refused(bad):
    with pytest.raises(WorkloadError):
        cs.sparse(bad)


def test_stored_blocks_are_checked():
    stored = cs.sparse([{"a": 1, "b": 0.5}]).to_json()
    wrong = (("grid", 3), ("grid", 2**20), ("offsets", "????"), ("addresses", "AAAA"), ("steps", "AAAAAA=="))
    for field, value in wrong:
        broken = json.loads(json.dumps(stored))
        broken["blocks"][0][field] = value
        with pytest.raises(WorkloadError):
            Workload.from_json(broken)


def test_addresses_are_exact_below_the_field_and_hashed_beyond():
    schema, table = people()
    chunk = next(iter(table.chunks()))
    columns = [chunk.column(i) for i in range(len(schema.domain))]
    places = addresses(schema.domain, columns, chunk.rows)
    assert all(np.array_equal(a, b) for a, b in zip(codes_at(schema.domain, places), columns))
    names = [f"c{i}" for i in range(70)]
    wide = cs.Schema.from_dict({"name": "wide", "columns": {name: {"type": "boolean"} for name in names}})
    row = tuple(i % 3 == 0 for i in range(70))
    held = cs.open_table(pa.table({name: [row[i], not row[i], row[i]] for i, name in enumerate(names)}), wide)
    assert count(cs.sparse([{row: 1}], wide), held.chunks())[0].tolist() == [2]


def _array(values, kind):
    return base64.b64encode(np.array(values, dtype=kind).tobytes()).decode()


@pytest.mark.parametrize(
    "hostile",
    [
        {"offsets": _array([0, 2**63 - 1, -2, 4], "<i8")},
        {"offsets": _array([0, 2**63 - 1, -(2**63), -1, 4], "<i8")},
        {"offsets": _array([-(2**63), 4], "<i8")},
        {"offsets": _array([0, 5, 4], "<i8")},
        {"offsets": ""},
        {"offsets": 5},
        {"steps": 5},
        {"grid": -1},
        {"grid": 2**70},
        {"grid": True},
        {"grid": "x"},
        {"grid": [1]},
    ],
    ids=range(12),
)
def test_hostile_arrays_of_sparse_queries_are_refused(hostile):
    """Offsets whose differences wrap around, and grids beyond 32 bits."""
    stored = json.loads(json.dumps(cs.sparse([["a", "b", "c"], ["d"]]).to_json()))
    stored["blocks"][0].update(hostile)
    with pytest.raises(WorkloadError):
        Workload.from_json(stored)


def test_hostile_offsets_of_arrays_are_refused():
    with pytest.raises(WorkloadError, match="offsets run"):
        cs.sparse_arrays(["a", "b", "c", "d"], np.array([0, 2**63 - 1, -2, 4]))


def test_a_record_outside_the_schema_is_refused_as_in_sql():
    """A table would clamp it; a question about it is a mistake, and the same one everywhere."""
    columns = {"x": {"type": "boolean"}, "age": {"type": "integer", "min": 0, "max": 9, "width": 5}}
    columns["when"] = {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "width": "month"}
    schema = cs.Schema.from_dict({"name": "small", "columns": columns})
    inside = (True, 7, "2020-03-04")
    assert len(cs.sparse([{inside: 1.0}], schema)) == 1
    for outside in ((True, 99, "2020-03-04"), (True, -1, "2020-03-04"), (True, 7, "2021-01-01")):
        for ask in (lambda record: cs.sparse([{record: 1.0}], schema), lambda record: cs.overlap([record], schema)):
            with pytest.raises(ValueError, match=r"goes from .* to .*: compare it with a value in between"):
                ask(outside)
    with pytest.raises(ValueError, match="goes from 0 to 9"):
        cs.sql(schema, ["age = 99"])
