"""Linear queries: sensitivities against all neighbours, values against a plain loop, round trips, and forged files."""

from __future__ import annotations

import base64
import copy
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import counts_of, true_sensitivity

from conspectus.counting import linear_counts
from conspectus.counting.counters import count
from conspectus.counting.evaluation import answers_from_marginals, cell_values
from conspectus.curator.exact_counts import ExactCounts
from conspectus.curator.held_table import HistogramInMemory, RowsInMemory
from conspectus.data.domain import Chunk, Domain
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.canonical_query import canonical_query
from conspectus.queries.query import VALUE_STEPS, Linear, Literal, Predicate, Weighting
from conspectus.queries.sensitivity import Sensitivity, WorkloadError
from conspectus.queries.workload import Workload

DOMAIN = Domain(("a", "b", "c"), (3, 2, 4))
TRUE = Predicate(((),))


def weighting(columns: tuple[int, ...], *shares: float) -> Weighting:
    return Weighting(columns, np.rint(np.array(shares) * VALUE_STEPS).astype(np.int32))


RISING = weighting((2,), 0, 0.25, 0.5, 1)
FALLING = weighting((2,), 1, 0.75, 0.5, 0)
WITH_MISSING = weighting((2,), 0.5, 0.75, 1, 0)
BOTH = weighting((0, 2), *np.linspace(0, 1, 12))


def cell(column: int, *codes: int) -> Predicate:
    return Predicate(((Literal(column, codes),),))


def block(*queries: tuple[Predicate, Weighting]) -> Workload:
    return Workload(DOMAIN, (LinearQueries.of(DOMAIN, [Linear(*query) for query in queries]),))


EXACT = {
    "one sum": block((TRUE, RISING)),
    "missing": block((TRUE, WITH_MISSING)),
    "where": block((cell(1, 1), RISING)),
    "by": block(*((cell(0, a), RISING) for a in range(3))),
    "parts": block((TRUE, RISING), (TRUE, FALLING)),
    "parts by": block(*((cell(0, a), part) for a in range(3) for part in (RISING, FALLING))),
    "twice": block((cell(0, 1), RISING), (cell(0, 1), RISING)),
    "two columns": block((TRUE, BOTH)),
    "by its own column": block(*((cell(2, c), RISING) for c in range(4))),
}
BOUNDED = {
    "some parts": block((cell(0, 0), RISING), (cell(0, 0), FALLING), (cell(0, 1), RISING)),
    "overlapping": block((cell(0, 0, 1), RISING), (cell(0, 1, 2), FALLING), (TRUE, BOTH)),
    "never": block((Predicate(()), RISING), (cell(1, 0), FALLING)),
}
BLOCKS = EXACT | BOUNDED


def norms(found: Sensitivity) -> tuple[int, int, int]:
    return found.l1, found.l2_squared, found.linf


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_no_neighbour_moves_the_values_farther(name: str, neighbours: str) -> None:
    workload = BLOCKS[name]
    for relation, true in (
        (Relation(neighbours), true_sensitivity(workload, neighbours, 1, True)),
        (Relation(neighbours, 2, False), true_sensitivity(workload, neighbours, 2, False)),
    ):
        declared = norms(workload.sensitivity(relation))
        assert all(mine >= least for mine, least in zip(declared, true))
        if name in EXACT and relation.rows_are_units and name != "by its own column":
            assert declared == true


def test_the_brute_force_notices_a_range_that_was_forgotten() -> None:
    # The twin: a weight of the whole range, priced as if it had a quarter of it.
    half = block((TRUE, weighting((2,), 0, 0.06, 0.125, 0.25)))
    assert true_sensitivity(EXACT["one sum"], "replace", 1, True)[0] > half.sensitivity(Relation("replace")).l1


weights = st.lists(st.integers(0, VALUE_STEPS), min_size=4, max_size=4).map(lambda w: Weighting((2,), np.array(w)))
predicates = st.sets(st.integers(0, 2), min_size=1).map(lambda s: cell(0, *sorted(s)) if len(s) < 3 else TRUE)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(predicates, weights), min_size=1, max_size=5))
def test_random_lists_never_understate(queries: list[tuple[Predicate, Weighting]]) -> None:
    workload = block(*queries)
    for neighbours in ("replace", "add-remove"):
        true = true_sensitivity(workload, neighbours, 1, True)
        assert all(a >= b for a, b in zip(norms(workload.sensitivity(Relation(neighbours))), true))


def made(rows: int, seed: int = 0) -> Chunk:
    rng = np.random.default_rng(seed)
    return Chunk(tuple(rng.integers(0, size, rows).astype(np.uint8) for size in DOMAIN.sizes), rows)


@pytest.mark.parametrize("name", BLOCKS)
def test_values_are_those_of_a_plain_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload, chunk = BLOCKS[name], made(57)
    true = counts_of(workload, chunk)
    assert count(workload, [chunk])[0].tolist() == true
    monkeypatch.setattr(linear_counts, "MOST_CELLS", 0)
    assert count(workload, [chunk])[0].tolist() == true
    assert count(workload, [made(0)])[0].tolist() == [0] * len(workload)
    histogram = np.bincount(np.ravel_multi_index([c.astype(int) for c in chunk.columns], DOMAIN.sizes), minlength=24)
    held = (HistogramInMemory(DOMAIN, histogram), RowsInMemory(DOMAIN, chunk.columns))
    for table in held:
        assert [table.count(query) for query in workload.queries()] == true
    shares = histogram.reshape(DOMAIN.sizes) / 57

    def marginal(columns: tuple[int, ...]) -> np.ndarray:
        return shares.sum(axis=tuple(c for c in range(3) if c not in columns))

    expected = np.array(true) / VALUE_STEPS / 57
    assert answers_from_marginals(workload, marginal) == pytest.approx(expected, abs=1e-12)
    for query, value in zip(workload.queries(), expected):
        columns, values = cell_values(query, DOMAIN)
        assert float((marginal(columns) * values).sum()) == pytest.approx(value, abs=1e-12)


def test_parts_of_a_block_are_found_by_question() -> None:
    known, workload = ExactCounts(), EXACT["parts by"]
    values, known.rows = count(workload, [made(40)])
    known.add(workload.blocks[0], values)
    some = workload.take([4, 1])
    assert known.find(some.blocks[0]).tolist() == values[[4, 1]].tolist()
    assert known.find(EXACT["two columns"].blocks[0]) is None


@pytest.mark.parametrize("name", BLOCKS)
def test_workloads_are_values_and_survive_json(name: str) -> None:
    workload = BLOCKS[name]
    stored = json.loads(json.dumps(workload.to_json()))
    again = Workload.from_json(stored)
    assert again == workload
    assert hash(again) == hash(workload)
    assert list(again.queries()) == list(workload.queries())
    twice = workload + workload
    assert twice.distinct() == workload.distinct()
    order = list(range(len(workload)))[::-1]
    assert list(workload.take(order).queries()) == list(workload.queries())[::-1]
    assert workload.linear
    assert not workload.counting


def test_mixed_workloads_count_on_one_grid() -> None:
    plain = Workload.from_json({**BLOCKS["by"].to_json(), "blocks": [{"kind": "marginal", "columns": [1]}]})
    both = plain + BLOCKS["by"]
    values, _ = count(both, [made(31)])
    assert both.grid == VALUE_STEPS
    assert values[:2].sum() == 31 * VALUE_STEPS
    assert norms(both.sensitivity(Relation("add-remove"))) == (2 * VALUE_STEPS, 2 * VALUE_STEPS**2, VALUE_STEPS)


def test_one_meaning_has_one_form() -> None:
    halves = Predicate(((Literal(0, (0,)),), (Literal(0, (1,)),)))
    assert canonical_query(DOMAIN, Linear(halves, RISING)) == Linear(cell(0, 0, 1), RISING)


def test_forged_files_are_refused() -> None:
    good = json.loads(json.dumps(BLOCKS["parts by"].to_json()))
    Workload.from_json(good)

    def forged(**changed: object) -> dict:
        bad = copy.deepcopy(good)
        bad["blocks"][0] |= changed
        return bad

    stored = good["blocks"][0]
    first, second = stored["weightings"]
    large = Weighting((2,), np.full(4, VALUE_STEPS)).steps.copy()
    large[0] = VALUE_STEPS + 1
    packed = base64.b64encode(large.astype("<i4").tobytes()).decode()
    for bad in (
        {"weightings": [first, second, [[1], first[1]]]},
        {"weightings": [first, first]},
        {"weightings": [[[2], packed], second]},
        {"weightings": [[[0], first[1]], second]},
        {"weightings": [[[9], first[1]], second]},
        {"weightings": [[[2], "!"], second]},
        {"weightings": [first]},
        {"which": [0] * 6},
        {"which": [0, 1]},
        {"which": [0, 1, 0, 1, 0, 7]},
        {"which": [0, 1, 0, 1, 0, True]},
        {"given": {"kind": "marginal", "columns": [0]}},
        {"given": []},
    ):
        with pytest.raises(WorkloadError):
            Workload.from_json(forged(**bad))
