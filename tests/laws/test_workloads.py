"""Workloads as values: order, slices, repetition, JSON; and sensitivities against all neighbouring tiny tables."""

from __future__ import annotations

import copy
import json
import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.made import BareSchema
from tests.reference import is_true, records, true_sensitivity, truth_table

from conspectus.data.code_sets import Runs
from conspectus.data.domain import Domain
from conspectus.data.schema import Schema
from conspectus.privacy.relation import Relation, RelationError
from conspectus.queries.blocks import conjunction_sensitivity
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import Parities, ParityList
from conspectus.queries.builders.arguments import UnknownColumn
from conspectus.queries.builders.conjunctions import always, between, conjunctions
from conspectus.queries.builders.intervals import prefixes, ranges
from conspectus.queries.builders.marginals import marginal, marginals
from conspectus.queries.builders.parities import parities
from conspectus.queries.builders.random_conjunctions import random_conjunctions
from conspectus.queries.formulas import union
from conspectus.queries.query import Literal, Parity, Predicate
from conspectus.queries.sensitivity import Sensitivity, WorkloadError
from conspectus.queries.workload import Workload

ALPHA = 1e-6

SCHEMA = Schema.from_dict(
    {
        "name": "tiny",
        "columns": {
            "sex": {"type": "categorical", "values": ["Male", "Female"]},
            "age": {"type": "integer", "min": 0, "max": 2, "missing": True},
            "ill": {"type": "boolean"},
            "well": {"type": "boolean"},
        },
    }
)


def covers(declared: Sensitivity, true: tuple[int, int, int]) -> bool:
    return declared.l1 >= true[0] and declared.l2_squared >= true[1] and declared.linf >= true[2]


MIXED = (
    marginals(SCHEMA, 2)
    + ranges(SCHEMA, "age")
    + prefixes(SCHEMA, "age")
    + parities(SCHEMA, 2)
    + parities(SCHEMA, 1)
    + conjunctions(SCHEMA, [{"sex": "Male", "age": [0, 2]}, {"age": between(1, 2)}, {}, {"age": None}])
    + random_conjunctions(SCHEMA, 3, 20, 1, negations=True)
    + always(SCHEMA.domain)
)

EXACT = [
    marginals(SCHEMA, 0),
    marginals(SCHEMA, 1, ["age"]),
    marginal(SCHEMA, ["age", "sex"]),
    ranges(SCHEMA, "age"),
    prefixes(SCHEMA, "age"),
    ranges(Schema.from_dict({"columns": {"x": {"type": "integer", "min": 1, "max": 5}}, "name": "x"}), "x"),
    prefixes(Schema.from_dict({"columns": {"x": {"type": "integer", "min": 1, "max": 5}}, "name": "x"}), "x"),
    *(parities(BareSchema(2, 2, 2, 2, 2), k) for k in range(6)),
    always(SCHEMA.domain),
    conjunctions(SCHEMA, [{"sex": "Male", "age": 1}, {"sex": "Female", "age": 1}, {"sex": "Male", "age": 1}]),
    conjunctions(SCHEMA, [{"age": between(0, 1)}, {"age": [1, None]}, {"age": 2}]),
]


@pytest.mark.parametrize("workload", EXACT, ids=range(len(EXACT)))
def test_single_blocks_have_exact_sensitivities(workload: Workload) -> None:
    for neighbours in ("replace", "add-remove"):
        declared = workload.sensitivity(Relation(neighbours))
        assert (declared.l1, declared.l2_squared, declared.linf) == true_sensitivity(workload, neighbours, 1, True)


@pytest.mark.parametrize("max_rows", [1, 2, 3])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_sensitivities_are_never_below_the_truth(neighbours: str, max_rows: int) -> None:
    small = BareSchema(2, 3)
    for workload in (
        marginals(small, 1),
        marginals(small, 2) + marginals(small, 1),
        random_conjunctions(small, 2, 12, 3, negations=True),
        parities(BareSchema(2, 2, 2), 2) + parities(BareSchema(2, 2, 2), 1),
        marginals(small, 2)[1:4] + always(small.domain),
    ):
        declared = workload.sensitivity(Relation(neighbours, max_rows, False))
        true = true_sensitivity(workload, neighbours, max_rows, False)
        assert covers(declared, true)
        if max_rows == 1:
            rows = workload.sensitivity(Relation(neighbours))
            true = true_sensitivity(workload, neighbours, 1, True)
            assert covers(rows, true)


def test_the_brute_force_would_notice_a_sensitivity_that_is_too_small() -> None:
    # The same comparison with the second record forgotten (a marginal counted as moving one cell under replacement).
    workload = marginals(BareSchema(2, 3), 2)
    assert true_sensitivity(workload, "replace", 1, True)[0] > workload.sensitivity(Relation("add-remove")).l1


def test_persons_of_different_sizes_are_paid_for() -> None:
    total = always(BareSchema(2, 2).domain)
    assert total.sensitivity(Relation("replace")).l1 == 0
    assert total.sensitivity(Relation("replace", 3, False)).l1 == 3
    assert true_sensitivity(total, "replace", 3, False) == (3, 9, 3)


def test_units_that_make_no_sense_are_refused() -> None:
    for arguments in (("substitute",), ("replace", 0), ("replace", 2, True), ("add-remove", 0, False)):
        with pytest.raises(RelationError):
            MIXED.sensitivity(Relation(*arguments))


def boxes(domain: Domain) -> st.SearchStrategy[tuple[Literal, ...]]:
    literals = [
        st.sets(st.integers(0, size - 1), min_size=1, max_size=size).map(lambda s, c=c: Literal(c, tuple(sorted(s))))
        for c, size in enumerate(domain.sizes)
    ]
    return st.lists(st.integers(0, len(domain) - 1), unique=True).flatmap(
        lambda columns: st.tuples(*(literals[c] for c in sorted(columns)))
    )


def predicates(domain: Domain) -> st.SearchStrategy[Predicate]:
    return st.lists(boxes(domain), max_size=3).map(lambda found: union(domain, found))


SMALL = Domain(("a", "b", "c"), (2, 3, 2))


@settings(max_examples=60, deadline=None)
@given(st.lists(predicates(SMALL), min_size=1, max_size=8))
def test_listed_predicates_never_understate(queries: list[Predicate]) -> None:
    workload = Workload(SMALL, (Conjunctions.of(SMALL, queries),))
    assert list(workload.queries()) == queries
    for neighbours in ("replace", "add-remove"):
        declared = workload.sensitivity(Relation(neighbours))
        true = true_sensitivity(workload, neighbours, 1, True)
        assert covers(declared, true)
        if len({query.columns for query in queries}) == 1:
            assert declared.l1 == true[0]


@settings(max_examples=60, deadline=None)
@given(st.lists(boxes(SMALL), max_size=4))
def test_a_union_of_boxes_means_what_its_boxes_mean_and_is_one_value(found: list[tuple[Literal, ...]]) -> None:
    query = union(SMALL, found)
    truth = {r for r in records(SMALL) if any(all(r[a.column] in a.codes for a in box) for box in found)}
    assert {r for r in records(SMALL) if is_true(query, r)} == truth
    cells = [tuple(Literal(c, (code,)) for c, code in enumerate(record)) for record in truth]
    assert union(SMALL, cells) == query


def test_the_orders_of_the_contract() -> None:
    first, second = marginals(SCHEMA, 2, ["age", "sex", "ill"]).blocks[:2]
    assert isinstance(first, Marginal)
    assert isinstance(second, Marginal)
    assert (first.columns, second.columns) == ((0, 1), (0, 2))
    assert first.query(5) == Predicate(((Literal(0, (1,)), Literal(1, (1,))),))
    assert marginal(SCHEMA, ["age", "sex"]).query(3) == Predicate(((Literal(0, (1,)), Literal(1, (1,))),))
    spans = [query.boxes[0][0].codes for query in ranges(SCHEMA, "age").queries() if isinstance(query, Predicate)]
    assert spans == [(0,), (0, 1), (0, 1, 2), (1,), (1, 2), (2,)]
    assert [len(q.boxes[0][0].codes) for q in prefixes(SCHEMA, "age").queries() if q.columns] == [1, 2, 3]
    assert list(parities(SCHEMA, 2).queries()) == [Parity(pair) for pair in combinations((0, 2, 3), 2)]
    asked = conjunctions(SCHEMA, [{"age": between(1, 2), "sex": "Female"}, {"age": [0, None]}])
    assert asked.query(0) == Predicate(((Literal(0, (1,)), Literal(1, (1, 2))),))
    assert asked.query(1) == Predicate(((Literal(1, (0, 3)),),))
    assert conjunctions(SCHEMA, [{"age": between(2, 1)}]).query(0) == Predicate(())


def test_impossible_requests_are_refused_with_their_numbers() -> None:
    with pytest.raises(WorkloadError, match="1,000,000,000 queries"):
        marginals(BareSchema(1000, 1000, 1000), 3)
    with pytest.raises(WorkloadError, match="1,000,000,000 queries"):
        marginal(Schema.from_dict(_wide()), ["a", "b", "c"])
    with pytest.raises(UnknownColumn, match="did you mean 'sex'"):
        marginal(SCHEMA, ["sx"])
    with pytest.raises(WorkloadError, match="has no order"):
        ranges(SCHEMA, "sex")
    with pytest.raises(WorkloadError, match="3 two-valued"):
        parities(SCHEMA, 4)
    with pytest.raises(WorkloadError, match="twice"):
        marginal(SCHEMA, ["sex", "sex"])
    with pytest.raises(WorkloadError, match="do not mix"):
        marginals(SCHEMA, 1) + marginals(BareSchema(2, 2), 1)
    with pytest.raises(WorkloadError, match="disjoint"):
        Predicate(((Literal(0, (1,)),), (Literal(1, (0,)),)))


def _wide() -> dict[str, Any]:
    return {"name": "w", "columns": {c: {"type": "integer", "min": 1, "max": 1000} for c in "abc"}}


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, len(MIXED) - 1), max_size=30))
def test_take_keeps_the_queries_in_order(indices: list[int]) -> None:
    queries = list(MIXED.queries())
    taken = MIXED.take(indices)
    assert list(taken.queries()) == [queries[i] for i in indices]
    assert len(taken) == len(indices)


@settings(max_examples=80, deadline=None)
@given(st.slices(len(MIXED)))
def test_slices_keep_the_queries_in_order(key: slice) -> None:
    assert list(MIXED[key].queries()) == list(MIXED.queries())[key]


def test_whole_blocks_stay_whole() -> None:
    workload = marginals(SCHEMA, 2)
    ends = workload.offsets
    assert workload[ends[1] : ends[3]].blocks == workload.blocks[1:3]
    assert workload[:] == workload
    first, second, third = workload[ends[1] - 1 : ends[2] + 2].blocks
    assert isinstance(first, Conjunctions)
    assert isinstance(third, Conjunctions)
    assert second == workload.blocks[1]
    # Shuffled cells of one marginal are still cells of one marginal: two records differ on two of them at most.
    shuffled = workload.take(np.random.Generator(np.random.PCG64(0)).permutation(ends[1]))
    assert shuffled.sensitivity(Relation("replace")).l1 == 2
    assert isinstance(parities(SCHEMA, 2)[1:].blocks[0], ParityList)
    assert workload[-1].query(0) == workload.query(len(workload) - 1)
    with pytest.raises(IndexError):
        workload[len(workload)]


def test_equal_workloads_are_equal_values() -> None:
    again = Workload.from_json(json.loads(json.dumps(MIXED.to_json())))
    assert again == MIXED
    assert hash(again) == hash(MIXED)
    assert again is not MIXED
    assert MIXED[3:9] == MIXED[3:9]
    assert MIXED[3:9] != MIXED[3:10]
    rows = [{"sex": "Male", "age": 1}, {"age": 0}]
    assert conjunctions(SCHEMA, rows) == conjunctions(SCHEMA, [dict(reversed(row.items())) for row in rows])
    assert conjunctions(SCHEMA, rows) != conjunctions(SCHEMA, rows[::-1])
    assert len({MIXED, again, MIXED[1:]}) == 2


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(MIXED)), st.integers(0, len(MIXED))), min_size=1, max_size=5))
def test_distinct_asks_each_question_once(spans: list[tuple[int, int]]) -> None:
    workload = Workload(SCHEMA.domain, ())
    for start, end in spans:
        workload = workload + MIXED[min(start, end) : max(start, end)]
    distinct = workload.distinct()
    queries = list(distinct.queries())
    assert [queries[i] for i in workload.positions_in(distinct)] == list(workload.queries())
    assert distinct.distinct() == distinct
    assert distinct.sensitivity(Relation("replace")).l1 <= workload.sensitivity(Relation("replace")).l1


def test_repetition_is_paid_for_unless_it_is_left_out() -> None:
    once = marginal(SCHEMA, ["sex", "age"])
    turned = marginal(SCHEMA, ["age", "sex"])
    both = once + turned + once
    assert both.sensitivity(Relation("replace")).l1 == 3 * once.sensitivity(Relation("replace")).l1
    assert both.distinct() == once
    queries = list(once.queries())
    assert [queries[i] for i in both.positions_in(once)] == list(both.queries())
    with pytest.raises(WorkloadError):
        both.positions_in(turned)


def test_workloads_survive_their_file(tmp_path: Any) -> None:
    MIXED.save(tmp_path / "w.json")
    assert Workload.load(tmp_path / "w.json") == MIXED
    (tmp_path / "w.json").write_text("{" * 100_000)
    with pytest.raises(WorkloadError, match="not a workload file"):
        Workload.load(tmp_path / "w.json")
    with pytest.raises(WorkloadError, match="not a workload file"):
        Workload.load(tmp_path / "absent.json")


def _broken(change: str) -> Any:
    stored = copy.deepcopy((MIXED + Workload(SCHEMA.domain, (ParityList(SCHEMA.domain, ((0, 2),)),))).to_json())
    listed = next(block for block in stored["blocks"] if block["kind"] == "conjunctions")
    parity = next(block for block in stored["blocks"] if block["kind"] == "parities")
    match change:
        case "no object":
            return [stored]
        case "version":
            stored["version"] = 2
        case "kind":
            stored["blocks"][0]["kind"] = "__import__"
        case "column out of range":
            stored["blocks"][0]["columns"] = [0, 9]
        case "negative column":
            stored["blocks"][0]["columns"] = [-1, 0]
        case "boolean":
            stored["blocks"][0]["columns"] = [True, 0]
        case "float":
            listed["terms"][0] = 0.0
        case "huge number":
            listed["terms"][0] = 10**30
        case "unknown literal":
            listed["terms"][0] = 99
        case "size":
            stored["sizes"][0] = 0
        case "sizes missing":
            del stored["sizes"]
        case "code out of range":
            listed["literals"][0] = [0, 0, 7]
        case "no codes":
            listed["literals"][0] = [0]
        case "full literal":
            listed["literals"][0] = [0, 0, 1]
        case "unsorted literals":
            listed["literals"].reverse()
        case "width":
            listed["width"] = 3
        case "starts":
            listed["starts"] = [0, 5]
        case "overlapping boxes":
            listed.update(literals=[[0, 0, 0], [1, 0, 0]], width=1, terms=[0, 1], starts=[0, 2])
        case "parity of three values":
            parity["columns"] = [0, 1]
        case "parity size":
            parity["k"] = 7
        case "parity list":
            stored["blocks"][-1]["sets"] = [[2, 0]]
        case "too large":
            stored["sizes"] = [1 << 20, 1 << 20, 2, 2]
            stored["blocks"] = stored["blocks"][:1]
        case _:
            raise AssertionError(change)
    return stored


@pytest.mark.parametrize(
    "change",
    [
        "no object", "version", "kind", "column out of range", "negative column", "boolean", "float", "huge number",
        "unknown literal", "size", "sizes missing", "code out of range", "no codes", "full literal",
        "unsorted literals", "width", "starts", "overlapping boxes", "parity of three values", "parity size",
        "parity list", "too large",
    ],
)  # fmt: skip
def test_files_that_are_no_workloads_are_refused(change: str) -> None:
    with pytest.raises(WorkloadError):
        Workload.from_json(_broken(change))


@settings(max_examples=60, deadline=None)
@given(st.lists(predicates(SMALL), max_size=6), st.lists(st.sampled_from([(0,), (2,), (0, 2), ()]), max_size=4))
def test_every_query_survives_json(queries: list[Predicate], sets: list[tuple[int, ...]]) -> None:
    workload = Workload(SMALL, (Conjunctions.of(SMALL, queries), ParityList(SMALL, tuple(sets))))
    again = Workload.from_json(json.loads(json.dumps(workload.to_json())))
    assert again == workload
    assert list(again.queries()) == [*queries, *map(Parity, sets)]


def test_random_conjunctions_are_distinct_and_follow_their_seed() -> None:
    schema = BareSchema(5, 1, 2, 7, 3)
    workload = random_conjunctions(schema, 3, 200, 11, negations=True)
    queries = list(workload.queries())
    assert len(set(queries)) == 200
    assert all(isinstance(q, Predicate) and len(q.boxes) == 1 and len(q.boxes[0]) == 3 for q in queries)
    assert workload == random_conjunctions(schema, 3, count=200, public_seed=11, negations=True)
    assert workload != random_conjunctions(schema, 3, 200, 12, negations=True)
    everything = 5 * 2 + 5 * 7 + 5 * 3 + 2 * 7 + 2 * 3 + 7 * 3
    assert len(set(random_conjunctions(schema, 2, everything, 0).queries())) == everything
    # With negations a column of s > 2 values has 2s literals, a two-valued one still 2.
    signed = 10 * 2 + 10 * 14 + 10 * 6 + 2 * 14 + 2 * 6 + 14 * 6
    assert len(set(random_conjunctions(schema, 2, signed, 0, negations=True).queries())) == signed
    for k, count in ((2, everything + 1), (5, 1), (0, 1), (2, -1)):
        with pytest.raises(WorkloadError):
            random_conjunctions(schema, k, count, 0)


def share_negated(workload: Workload) -> tuple[float, int]:
    (block,) = workload.blocks
    assert isinstance(block, Conjunctions)
    negated = np.array([len(literal.codes) > 1 for literal in block.literals])[block.terms]
    return float(negated.mean()), negated.size


def test_half_of_the_literals_are_negated() -> None:
    """False alarms: at most ALPHA by Hoeffding; without negations the same check fails."""
    schema = BareSchema(*[10] * 30)
    share, draws = share_negated(random_conjunctions(schema, 3, 20_000, 5, negations=True))
    margin = math.sqrt(math.log(2 / ALPHA) / (2 * draws))
    assert abs(share - 1 / 2) <= margin
    assert abs(share_negated(random_conjunctions(schema, 3, 20_000, 5))[0] - 1 / 2) > margin


def test_literals_are_uniform_over_values_and_not_over_columns() -> None:
    """A column of 30 of the 90 values is in a pair with probability 1 − P(both elsewhere); Hoeffding, at most ALPHA."""
    schema = BareSchema(30, *[2] * 30)
    asked = random_conjunctions(schema, 2, 1500, 9)
    (block,) = asked.blocks
    assert isinstance(block, Conjunctions)
    # Ordered pairs without a common column: 30·60·2 with the wide column, 60·58 without it.
    expected = 3600 / (3600 + 60 * 58)
    seen = float((block.box_columns == 0).any(axis=1).mean())
    margin = math.sqrt(math.log(2 / ALPHA) / (2 * len(asked)))
    assert abs(seen - expected) <= margin
    assert abs(2 / 31 - expected) > 2 * margin  # what uniform columns would give


def test_the_exact_bound_of_parities_is_the_odd_intersection() -> None:
    for d, k in ((4, 2), (5, 3), (6, 3)):
        block = Parities(Domain(tuple(map(str, range(d))), (2,) * d), tuple(range(d)), k)
        assert block.max_satisfied() == math.comb(d, k)
        odd = [sum(len(set(t) & set(range(s))) % 2 for t in combinations(range(d), k)) for s in range(d + 1)]
        assert block.max_differing() == max(odd)


@pytest.mark.parametrize("prefixes_only", [True, False])
@pytest.mark.parametrize("special", [0, 1, 2])
def test_the_bounds_of_intervals_are_the_largest_numbers_that_counting_finds(special: int, prefixes_only: bool) -> None:
    for regular in range(1, 10):
        block = Intervals(Domain(("x",), (regular + special,)), 0, regular, prefixes_only)
        table = truth_table(Workload(block.domain, (block,)))
        assert block.max_satisfied() == table.sum(1).max()
        assert block.max_differing() == max(int((one != other).sum()) for one in table for other in table)


def test_the_bounds_of_many_prefixes_are_known_at_once() -> None:
    block = Intervals(Domain(("x",), (1 << 24,)), 0, 1 << 24, prefixes_only=True)
    assert (block.max_satisfied(), block.max_differing()) == (1 << 24, (1 << 24) - 1)


@pytest.mark.parametrize("limit", ["MOST_TABLE", "MOST_PAIRS", "WORK_OF_A_NUMBER"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(queries=st.lists(predicates(SMALL), min_size=1, max_size=8))
def test_bounds_never_understate_where_the_exact_ones_are_too_dear(
    limit: str, queries: list[Predicate], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(conjunction_sensitivity, limit, 4)
        block = Conjunctions.of(SMALL, queries)
        table = truth_table(Workload(SMALL, (block,)))
        assert block.max_satisfied() >= table.sum(1).max()
        assert block.max_differing() >= max(int((one != other).sum()) for one in table for other in table)


@pytest.mark.parametrize(("columns", "width"), [(7, 2), (40, 2), (12, 3)])
def test_many_small_groups_are_each_bounded_exactly(columns: int, width: int) -> None:
    """Two ranges apart over each set of columns: a record satisfies one of them, and two records differ on both."""
    domain = Domain(tuple(map(str, range(columns))), (4,) * columns)
    boxes = [
        tuple(Literal(column, codes) for column in chosen)
        for chosen in combinations(range(columns), width)
        for codes in ((0, 1), (2, 3))
    ]
    block = Conjunctions.of(domain, [Predicate((box,)) for box in boxes])
    assert (block.max_satisfied(), block.max_differing()) == (len(boxes) // 2, len(boxes))


def test_bounds_do_not_depend_on_the_words_that_numpy_counts_bits_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that was saved beside one numpy is loaded beside another, and held to the same bounds."""
    domain, rng = Domain(("x",), (1000,)), np.random.default_rng(1)
    firsts = rng.integers(0, 900, 2000)
    queries = [Predicate(((Literal(0, tuple(range(first, first + 90))),),)) for first in firsts.tolist()]
    found = []
    for words in (np.uint16, np.uint64):
        monkeypatch.setattr(conjunction_sensitivity, "_WORDS", np.dtype(words))
        for work in (None, 1 << 23, 1 << 26):
            found.append(Conjunctions.of(domain, queries).bounds(work))
    assert found[:3] == found[3:]


def test_a_literal_is_the_same_however_its_codes_are_handed_over() -> None:
    for codes in ((3,), (3, 4), tuple(range(70))):
        assert Literal(0, Runs((codes[0],), (codes[-1],))) == Literal(0, codes)
