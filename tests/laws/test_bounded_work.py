"""What a short file may ask for is bounded: work is counted here, not timed, and bounds never understate.

A file may come from anyone. So whatever reads one has to do work that grows with its length, or that a limit stops.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import true_sensitivity

import conspectus as cs
from conspectus.data.domain import Domain
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks import linear_queries, moments, statistic
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.parity_list import Parities
from conspectus.queries.query import VALUE_STEPS, Linear, Literal, Predicate, Weighting
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.stability.aggregated import AggregateError

SCHEMA = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
DOMAIN = Domain(("a", "b", "c"), (3, 2, 2))
TRUE = Predicate(((),))


class Counted(str):
    """A text that counts how often any is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, str(other))


class Alike(int):
    """Integers that count how often any is compared."""

    compared = 0
    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        Alike.compared += 1
        return int(self) == other


def listed(values: list[Any]) -> cs.stability.aggregated.Aggregated:
    return cs.aggregated(SCHEMA, lambda codes: values[0], blocks=3, values=values, trial=False)


@pytest.mark.parametrize("kind", [Counted, Alike])
def test_values_are_told_apart_in_linear_time(kind: type[Counted | Alike]) -> None:
    """Integers of one hash too: 2⁶¹ − 1 divides them all."""
    kind.compared, many = 0, 3_000
    values = [kind(place * ((1 << 61) - 1)) for place in range(many)]
    assert listed(values).positions == many
    assert kind.compared <= 20 * many


@pytest.mark.parametrize(
    "values", [["a", "b", "a"], [1, 2, True], [0, 1, 0.0], [10**30, 1e30, 2, int(1e30)], [None, "x", None]]
)
def test_equal_values_are_refused(values: list[Any]) -> None:
    """1, 1.0 and True are one value: a result is found in the list by equality."""
    with pytest.raises(AggregateError, match="different"):
        listed(values)


def test_texts_that_look_like_numbers_are_other_values() -> None:
    assert listed(["0x1", 1, "1", "True", 0.5, "0x1.0000000000000p-1", None, "None"]).positions == 8


@pytest.mark.parametrize("value", [[1], {}, [[0.5] * 3], (1, [2])])
def test_lists_are_no_values(value: Any) -> None:
    with pytest.raises(AggregateError, match="hash"):
        listed(["a", value])


def many_classes(classes: int, columns: int = 3, size: int = 161) -> LinearQueries:
    """As many predicates as classes, each with a weighting of its own on each column, and one of all columns."""
    names = (*(f"c{place}" for place in range(columns)), "by")
    domain = Domain(names, (*(size,) * columns, classes + 1))
    rng = np.random.default_rng(0)
    queries = []
    for place in range(classes):
        predicate = Predicate(((Literal(columns, (place,)),),))
        for column in range(columns - 1):
            steps = rng.integers(0, VALUE_STEPS, size * size).astype(np.int32)
            queries.append(Linear(predicate, Weighting((column, column + 1), steps)))
    return LinearQueries.of(domain, queries)


def test_all_classes_share_one_budget_of_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    real, listed_weights = LinearQueries._compared, []

    def spied(block: LinearQueries, columns: Any, part: Any, *others: Any) -> Any:
        listed_weights.append(block.domain.project(columns).cells * len(part))
        return real(block, columns, part, *others)

    monkeypatch.setattr(LinearQueries, "_compared", spied)
    for classes in (1, 4, 16):
        many_classes(classes, size=32).sensitivity(Relation("replace"))
        assert 0 <= sum(listed_weights) <= linear_queries.MOST_COMPARED
        assert listed_weights or classes > 1
        listed_weights.clear()


def test_no_class_looks_at_the_literals_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each class takes its own predicates. Together they look at each literal a few times, not once for each class."""
    seen = []
    real = Conjunctions.build.__func__  # type: ignore[attr-defined]

    def spied(cls: Any, domain: Any, literals: Any, *others: Any) -> Any:
        class Watched(list):  # type: ignore[type-arg]
            def __iter__(self) -> Any:
                seen.append(len(self))
                return super().__iter__()

            def __getitem__(self, place: Any) -> Any:
                seen.append(1)
                return super().__getitem__(place)

        return real(cls, domain, Watched(literals), *others)

    block = many_classes(200, columns=2, size=2)
    monkeypatch.setattr(Conjunctions, "build", classmethod(spied))
    block.sensitivity(Relation("replace"))
    block.by_weighting()
    assert 200 <= sum(seen) <= 20 * 200


columns = st.sampled_from([(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)])
steps = st.integers(0, VALUE_STEPS) | st.sampled_from([0, VALUE_STEPS])
weightings = columns.flatmap(
    lambda read: st.lists(steps, min_size=(n := int(np.prod([DOMAIN.sizes[c] for c in read]))), max_size=n).map(
        lambda found: Weighting(read, np.array(found))
    )
)
predicates = st.sampled_from([TRUE, *(Predicate(((Literal(0, codes),),)) for codes in ((0,), (1,), (0, 2), (1, 2)))])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(predicates, weightings), min_size=1, max_size=6), st.sampled_from([0, 6, 20, 60, 1 << 22]))
def test_however_little_is_compared_nothing_is_understated(
    queries: list[tuple[Predicate, Weighting]], budget: int
) -> None:
    """Against all pairs of neighbours; and a larger budget never gives a larger bound."""
    with pytest.MonkeyPatch.context() as patch:
        workloads = []
        for most in (budget, 1 << 22):
            patch.setattr(linear_queries, "MOST_COMPARED", most)
            workload = Workload(DOMAIN, (LinearQueries.of(DOMAIN, [Linear(*query) for query in queries]),))
            workloads.append([workload.sensitivity(Relation(each)) for each in Neighbours])
    for each, few, many in zip(Neighbours, *workloads):
        true = true_sensitivity(workload, each, 1, True)
        for said in (few, many):
            assert all(a >= b for a, b in zip((said.l1, said.l2_squared, said.linf), true))
        assert few.l1 >= many.l1
        assert few.l2_squared >= many.l2_squared


def test_weights_of_columns_apart_are_bounded_exactly_whatever_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record takes the largest weight on each column at once: there is nothing to compare."""
    monkeypatch.setattr(linear_queries, "MOST_COMPARED", 0)
    whole = [Linear(TRUE, Weighting((c,), np.arange(DOMAIN.sizes[c]) * 1_000 + 7)) for c in range(3)]
    workload = Workload(DOMAIN, (LinearQueries.of(DOMAIN, whole),))
    for each in Neighbours:
        said = workload.sensitivity(Relation(each))
        assert (said.l1, said.l2_squared, said.linf) == true_sensitivity(workload, each, 1, True)


@pytest.mark.parametrize("repeated", [False, True])
def test_squares_of_many_weights_do_not_wrap_around(repeated: bool) -> None:
    """2¹⁵ queries of weight one on the same record: their squares sum to 2⁶³ steps, which 64 bits do not hold."""
    many, domain = 1 << 15, Domain(("a",), (2,))
    found = [Weighting((0,), np.array([0 if repeated else place, VALUE_STEPS])) for place in range(many)]
    given_by = Conjunctions(domain, (), np.zeros((many, 0), dtype=np.int32), np.arange(many + 1))
    block = LinearQueries.build(domain, given_by, found, np.arange(many))
    assert block.sensitivity(Relation("add-remove")).l2_squared >= many * VALUE_STEPS**2
    # Replaced: from a weight of `place` to one.
    least = sum((VALUE_STEPS - int(each.steps[0])) ** 2 for each in found)
    assert block.sensitivity(Relation("replace")).l2_squared >= least


@pytest.mark.parametrize("k", [0, 1, 2, 7, 8, 9])
def test_parities_are_counted_by_brute_force(k: int) -> None:
    names = tuple("abcdefghi")
    block = Parities(Domain(names, (2,) * 9), tuple(range(9)), k)
    sets = [set(columns) for columns in block.matrix.tolist()]
    assert block.max_differing() == max(sum(len(each & set(range(s))) % 2 for each in sets) for s in range(10))


def test_parities_of_nearly_all_columns_are_few_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    terms, real = [], __import__("math").comb
    monkeypatch.setattr("conspectus.queries.blocks.parity_list.comb", lambda n, k: terms.append(n) or real(n, k))
    many = 300
    domain = Domain(tuple(f"c{place}" for place in range(many)), (2,) * many)
    assert Parities(domain, tuple(range(many)), many - 1).max_differing() == many
    assert len(terms) < 10 * many


@pytest.mark.parametrize("many", [70, 20_000])
def test_parities_without_number_are_refused(many: int) -> None:
    """Half of the columns: more than a length may be, and more digits than a number may be written with."""
    stored = Workload(Domain(tuple(f"c{place}" for place in range(many)), (2,) * many), ()).to_json()
    stored["blocks"] = [{"kind": "parities", "columns": list(range(many)), "k": many // 2}]
    with pytest.raises(WorkloadError, match="more than 2⁶³ queries"):
        Workload.from_json(stored)


def test_a_short_list_of_covariances_names_no_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are declared by the file: their products, and the sum of these, have a limit."""
    columns = {name: {"type": "integer", "min": 0, "max": 2_100} for name in "ab"}
    schema = cs.Schema.from_dict({"name": "made", "columns": columns})
    with pytest.raises(WorkloadError, match="wider bins"):
        cs.covariances(schema, "a", "b")
    small = cs.Schema.from_dict(
        {"name": "made", "columns": {name: {"type": "integer", "min": 0, "max": 9} for name in "abc"}}
    )
    pairs = cs.covariances(small, "a", "b") + cs.covariances(small, "b", "c")
    monkeypatch.setattr(moments, "MOST_WEIGHED", 150)
    with pytest.raises(WorkloadError, match="all of them 150"):
        Workload.from_json(pairs.to_json())
    stored = cs.means(small, "a").to_json()
    stored["sizes"][0] = 1 << 40
    with pytest.raises(WorkloadError, match="wider bins"):
        Workload.from_json(json.loads(json.dumps(stored)))


def test_functions_that_share_a_list_of_classes_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = cs.Schema.from_dict({"name": "made", "columns": {"age": {"type": "integer", "min": 0, "max": 99}}})
    stored = cs.mode_shares(schema).to_json()
    stored["blocks"][0]["functions"] *= 50
    assert len(Workload.from_json(stored)) == 50
    monkeypatch.setattr(statistic, "MOST_LOOKED_THROUGH", 50 * 100)
    with pytest.raises(WorkloadError, match="more than 5,000 times"):
        Workload.from_json(stored)
