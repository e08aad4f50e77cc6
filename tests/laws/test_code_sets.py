"""Sets of codes as runs are the sets they stand for: the same codes, the same order, the same answers."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.data.code_sets import Runs, all_but, code_set, common, complement, of_runs, runs_of, together
from conspectus.queries.query import Literal
from conspectus.queries.sensitivity import WorkloadError

SIZE = 300
WIDE = cs.Schema.from_dict(
    {
        "name": "wide",
        "columns": {
            "code": {"type": "integer", "min": 0, "max": 39_999},
            "word": {"type": "categorical", "values": [f"w{i}" for i in range(500)], "other": True, "missing": True},
            "flag": {"type": "boolean"},
        },
    }
)


@st.composite
def sets(draw) -> tuple[int, ...]:
    """Sets with long runs and sets without, some of them alike for long."""
    cuts = draw(st.sets(st.integers(0, SIZE), max_size=8))
    edges = [0, *sorted(cuts), SIZE]
    kept = draw(st.lists(st.booleans(), min_size=len(edges), max_size=len(edges)))
    held = [code for keep, low, high in zip(kept, edges, edges[1:]) if keep for code in range(low, high)]
    scattered = draw(st.booleans())
    return tuple(held[::2] if scattered else held)


@given(sets(), sets())
@settings(max_examples=300, deadline=None)
def test_runs_are_the_set(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    one, other = code_set(a), code_set(b)
    assert (tuple(one), len(one), list(np.asarray(one))) == (a, len(a), list(a))
    assert one == code_set(list(a)) == code_set(np.array(a, dtype=np.int64)) == of_runs(runs_of(one))
    assert [code in one for code in range(-1, SIZE + 1)] == [code in a for code in range(-1, SIZE + 1)]
    if a:
        assert (one[0], one[-1], one[len(a) // 2]) == (a[0], a[-1], a[len(a) // 2])
    assert (one == other) == (a == b)
    assert a != b or hash(one) == hash(other)
    assert (one < other, one <= other, one > other, one >= other) == (a < b, a <= b, a > b, a >= b)
    assert tuple(common(one, other)) == tuple(sorted(set(a) & set(b)))
    assert common(one, other) == code_set(sorted(set(a) & set(b)))
    assert together([one, other]) == code_set(sorted(set(a) | set(b)))
    assert complement(one, SIZE) == code_set(sorted(set(range(SIZE)) - set(a)))


@pytest.mark.parametrize("code", [0, 1, 150, SIZE - 1])
def test_all_codes_but_one(code: int) -> None:
    assert all_but(code, SIZE) == code_set([c for c in range(SIZE) if c != code])
    assert isinstance(all_but(code, SIZE), Runs)
    assert all_but(0, 2) == (1,)
    assert all_but(3, 9) == (0, 1, 2, 4, 5, 6, 7, 8)


def test_what_is_no_set_of_codes_is_refused() -> None:
    for firsts, lasts in (([], []), ([3], [2]), ([0, 5], [4, 9]), ([5, 0], [9, 2]), ([-1], [99]), ([0], [1, 2])):
        with pytest.raises(ValueError, match="run"):
            Runs(firsts, lasts)
    for wrong in ((3, 2), (1, 1), (*range(100), 99), tuple(range(-1, 100))):
        with pytest.raises(WorkloadError):
            Literal(0, wrong)
    with pytest.raises(IndexError):
        Runs([0], [99])[100]


def test_a_negated_literal_is_two_runs_however_it_is_asked_for() -> None:
    drawn = cs.random_conjunctions(WIDE, 2, 60, 5, negations=True)
    long = [literal for literal in drawn.blocks[0].literals if len(literal.codes) > 1]
    assert len(long) > 20
    assert all(isinstance(literal.codes, Runs) and len(literal.codes.firsts) <= 2 for literal in long)
    asked = cs.sql(WIDE, ["code <> 7 AND flag", "NOT (code = 7) AND flag", "code IN (8) OR code < 7 OR code > 8"])
    assert asked.query(0) == asked.query(1)
    assert asked.query(0).boxes[0][0] == Literal(0, tuple(c for c in range(40_000) if c != 7))
    assert asked.query(2).boxes == ((Literal(0, all_but(7, 40_000)),),)
    assert cs.conjunctions(WIDE, [{"code": cs.between(0, 6)}, {"code": cs.between(8, 39_999)}]).blocks[0].literals == (
        Literal(0, tuple(range(7))),
        Literal(0, tuple(range(8, 40_000))),
    )
    assert cs.sql(WIDE, ["word <> 'w3'"]).query(0).boxes[0][0].codes == all_but(3, 501)


def test_answers_keys_and_files_are_those_of_the_listed_codes() -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    rows = 4_000
    code = np.where(rng.random(rows) < 0.5, rng.integers(0, 20, rows), rng.integers(0, 40_000, rows))
    word = rng.integers(0, 500, rows)
    flag = rng.random(rows) < 0.3
    table = cs.open_table(pa.table({"code": code, "word": [f"w{i}" for i in word], "flag": flag}), WIDE)
    texts = [f"code <> {i} AND word <> 'w{i}' AND flag" for i in range(12)]
    texts += [f"code >= {i} AND NOT flag" for i in (3, 11, 9_000)] + ["code <> 3 OR flag", "code NOT IN (3, 5, 7)"]
    workload = cs.sql(WIDE, texts)
    truth = [((code != i) & (word != i) & flag).sum() for i in range(12)]
    truth += [((code >= i) & ~flag).sum() for i in (3, 11, 9_000)]
    truth += [((code != 3) | flag).sum(), (~np.isin(code, [3, 5, 7])).sum()]
    assert count(workload, table.chunks())[0].tolist() == truth
    stored = json.loads(json.dumps(workload.to_json()))
    # A stored literal is its column and its runs, as it always was.
    assert [0, 0, 2, 4, 39_999] in stored["blocks"][0]["literals"]
    again = cs.Workload.from_json(stored)
    assert (again, hash(again)) == (workload, hash(workload))
    order = [(literal.column, tuple(literal.codes)) for literal in workload.blocks[0].literals]
    assert order == sorted(order)
