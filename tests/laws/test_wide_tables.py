"""Tables of many columns: synthetic rows as one matrix, and workloads and numbers of cells of any width."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.made import BareSchema

import conspectus as cs
from conspectus.data.columns.kinds import Boolean, Integer
from conspectus.data.domain import Domain, in_words
from conspectus.data.schema import Schema
from conspectus.privacy.relation import Relation
from conspectus.synopses.rows import WIDE, Rows
from conspectus.synopses.synopsis import BadSynopsis, Total, load_synopsis

TOTAL = Total(value=50.0, exact=True)


def wide(size: int, records: int, copies: bool) -> tuple[Domain, Rows]:
    width = WIDE + 13
    domain = Domain(tuple(f"c{c}" for c in range(width)), (2, size) + (2,) * (width - 2))
    rng = np.random.Generator(np.random.PCG64(size))
    codes = (rng.random((width, records)) * np.array(domain.sizes)[:, None]).astype(np.int64)
    times = rng.integers(0, 4, records) + (np.arange(records) == 0) if copies else None
    return domain, Rows(domain, codes, TOTAL, times)


@pytest.mark.parametrize("size", [2, 3, 300, 70_000])
@pytest.mark.parametrize("copies", [False, True])
def test_wide_rows_answer_and_survive_their_parts(size: int, copies: bool) -> None:
    domain, rows = wide(size, 37, copies)
    workload = cs.random_conjunctions(BareSchema(domain=domain), 3, 300, 1, negations=True)
    times = np.ones(37) if rows.multiplicities is None else rows.multiplicities
    expected = []
    for query in workload.queries():
        (box,) = query.boxes  # type: ignore[union-attr]
        held = np.logical_and.reduce([np.isin(rows.codes[literal.column], literal.codes) for literal in box])
        expected.append(times[held].sum() / times.sum())
    assert np.allclose(rows.answer(workload), expected, rtol=0, atol=1e-12)
    meta, tables = rows.parts()
    again = load_synopsis(domain, "rows", meta, tables)
    assert isinstance(again, Rows)
    assert np.array_equal(again.codes, rows.codes)
    assert np.array_equal(again.answer(workload), rows.answer(workload))
    sample = rows.sample(20, public_seed=1)
    assert sample.rows == 20
    assert all(int(sample.column(c).max()) < size for c, size in enumerate(domain.sizes))


def test_narrow_columns_and_a_matrix_are_the_same_rows() -> None:
    domain, rows = wide(3, 9, False)
    same = Rows(domain, tuple(np.asarray(column) for column in rows.codes), TOTAL)
    assert np.array_equal(same.codes, rows.codes)


def test_wide_rows_that_do_not_fit_are_refused() -> None:
    domain, rows = wide(2, 5, False)
    meta, tables = rows.parts()
    codes = np.asarray(rows.codes).astype(np.int64)
    for wrong in (codes + 1, codes - 1, codes[:-1], codes.astype(float), codes[:, :0]):
        with pytest.raises(BadSynopsis):
            Rows(domain, wrong, TOTAL)
    with pytest.raises(BadSynopsis):
        Rows(domain, [column[: 5 - (at == 3)] for at, column in enumerate(codes)], TOTAL)
    (held,) = tables["records"].columns
    short = pa.array([record.as_py()[:-1] for record in held.chunk(0)], pa.binary(held.type.byte_width - 1))
    padded = pa.array([record.as_py()[:-1] + b"\xff" for record in held.chunk(0)], held.type)
    hole = pa.array([None, *held.to_pylist()[1:]], held.type)
    for other in (short, padded, hole):
        with pytest.raises(BadSynopsis):
            load_synopsis(domain, "rows", meta, {"records": pa.table({"codes": other})})
    three, big = wide(3, 5, False)
    meta, tables = big.parts()
    beyond = [b"\x09" * record.type.byte_width for record in tables["records"]["codes"].chunk(0)]
    with pytest.raises(BadSynopsis):
        load_synopsis(three, "rows", meta, {"records": pa.table({"codes": pa.array(beyond, pa.binary(len(three)))})})


def test_numbers_of_cells_of_any_width() -> None:
    domain = Domain(tuple(f"c{c}" for c in range(20_001)), (3, *[2] * 20_000))
    assert domain.cells == 3 * 2**20_000
    assert in_words(domain.cells) == "about 10^6021"
    assert in_words(10**11) == "100,000,000,000"
    assert all(in_words(10**k) == f"about 10^{k}" for k in (12, 15, 18, 30))
    assert in_words(10**30 - 1) in ("about 10^29", "about 10^30")


def test_a_wide_schema_and_workload_keep_their_words(tmp_path: Path) -> None:
    schema = Schema("wide", (*(Boolean(f"item {k}") for k in range(5000)), Integer("age", 0, 9)))
    assert Schema.from_dict(schema.to_dict()) == schema
    workload = cs.random_conjunctions(schema, 3, 4000, 7, negations=True)
    workload += cs.sql(schema, ['"item 7" = true AND age > 3'])
    assert cs.Workload.from_json(workload.to_json()) == workload
    assert schema.column("item 4999").name == "item 4999"
    with pytest.raises(LookupError, match="item 4999"):
        schema.column("itm 4999")


def test_single_literals_move_together() -> None:
    """One record satisfies as many of the single literals as it has second values: all of them, at worst."""
    schema = Schema("wide", tuple(Boolean(f"i{k}") for k in range(3000)))
    ones = cs.conjunctions(schema, [{f"i{k}": True} for k in range(3000)])
    assert (
        ones.sensitivity(Relation("replace")).l2_squared == ones.sensitivity(Relation("add-remove")).l2_squared == 3000
    )
    both = ones + cs.conjunctions(schema, [{f"i{k}": False} for k in range(3000)])
    assert both.sensitivity(Relation("add-remove")).l2_squared == 6000  # blocks add up
    joined = cs.conjunctions(schema, [{f"i{k // 2}": bool(k % 2)} for k in range(6000)])
    assert joined.sensitivity(Relation("add-remove")).l2_squared == 3000
    assert joined.sensitivity(Relation("replace")).l2_squared == 6000
