"""Mappings are their keys with their values, in any order and from every source."""

from __future__ import annotations

import collections
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import conspectus as cs
from conspectus.data.records.canonical_form import CANONICAL, OpaqueRecord, canonical, read
from conspectus.data.records.fingerprints import fingerprint, fingerprints

ROWS = [
    {"b": 1, "a": "x"},
    {"b": 2, "a": None},
    {"b": None, "a": "\ufffd"},
    None,
    {"b": 1, "a": "y"},
]
KIND = pa.struct([("b", pa.int64()), ("a", pa.string())])


def written(table):
    forms = [form for part in table.records() for form in part]
    codes = np.concatenate([chunk.column(0) for chunk in table.chunks()]).tolist()
    return forms, codes


def each(rows):
    return [canonical(row) for row in rows], [fingerprint(row) for row in rows]


def test_keys_belong_to_a_mapping():
    different = [{"a": 1}, {"b": 1}, {"a": 2}, {"a": 1, "b": 1}, {}, (1,), (("a", 1),), frozenset([("a", 1)]), {1: "a"}]
    different += [{"a": {"b": 1}}, {"b": {"a": 1}}, ({"a": 1},), {"a": None}, None]
    for one, other in itertools.combinations(different, 2):
        assert canonical(one) != canonical(other)
        assert fingerprint(one) != fingerprint(other)
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2.0, "a": np.int8(1)})
    assert canonical(collections.OrderedDict(b=2, a=1)) == canonical(collections.Counter("abb"))
    for record in (*different, {(1, 2): {"x": b"y"}}):
        assert read(canonical(record)) == record
    assert isinstance(read(canonical({None: 1, float("nan"): 2})), OpaqueRecord)


def test_structs_are_mappings_in_every_source(tmp_path):
    held = pa.array(ROWS, KIND)
    pq.write_table(pa.table({"r": held}), tmp_path / "t.parquet")
    turned = pa.array(ROWS, pa.struct([KIND.field(1), KIND.field(0)]))
    frame = pd.DataFrame({"r": pd.Series(ROWS, dtype=object)})
    schema = cs.Schema.from_dict({"name": "t", "columns": {"r": {"type": "record"}}})
    for source in (ROWS, held, turned, pa.table({"r": held}), frame, tmp_path / "t.parquet"):
        assert written(cs.open_records(source)) == each(ROWS)
    for source in (frame, pa.table({"r": held})):
        assert written(cs.open_table(source, schema)) == each(ROWS)
    assert written(cs.open_records(held.slice(1, 2))) == each(ROWS[1:3])
    assert written(cs.open_records(pl.DataFrame({"r": [{"a": 1, "b": "x"}]}))) == each([{"b": "x", "a": 1}])
    assert CANONICAL.of(pa.array([[row] for row in ROWS])).tolist() == [canonical([row]) for row in ROWS]
    empty = pa.array([{}, None], pa.struct([]))
    assert (CANONICAL.of(empty).tolist(), fingerprints(empty).tolist()) == each([{}, None])


def test_maps_of_arrow_are_mappings():
    kind = pa.map_(pa.string(), pa.int64())
    maps = pa.array([[("x", 1), ("a", None)], None, [], [("a", 1), ("a", 2)]], kind)
    alike = [{"a": None, "x": 1}, None, {}, None]
    assert (CANONICAL.of(maps).tolist(), fingerprints(maps).tolist()) == each(alike)
    within = pa.array([{"m": [[("a", 1)], None], "n": 1}, None], pa.struct([("m", pa.list_(kind)), ("n", pa.int8())]))
    assert written(cs.open_records(within)) == each([{"n": 1, "m": [{"a": 1}, None]}, None])


def test_structs_within_rows_of_several_columns_stand_one_deeper():
    table = pa.table({"n": range(len(ROWS)), "r": pa.array(ROWS, KIND)})
    assert written(cs.open_records(table)) == each(list(enumerate(ROWS)))


def test_a_struct_with_two_fields_of_one_name_is_missing():
    twins = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
    assert (CANONICAL.of(twins).tolist(), fingerprints(twins).tolist()) == each([None, None])


def test_mappings_are_published_with_their_keys(tmp_path):
    table = cs.open_records([{"a": 1}] * 300 + [{"b": 1}] * 300)
    asked = cs.sparse([[{"a": 1}], [(1,)]])
    release = cs.release(table, asked, epsilon=1.0, delta=1e-6, mechanism="stable-histogram")
    assert [record for record, _ in release.records] == [{"a": 1}, {"b": 1}]
    assert release.table(["record"])["record"].to_pylist() == ["{'a': 1}", "{'b': 1}"]
    assert release.answers[0] > 0.4
    assert release.answers[1] == 0
    release.save(tmp_path / "r")
    assert cs.load(tmp_path / "r").records == release.records
