"""What a short file may ask for is bounded: work is counted here, not timed, and bounds never understate.

A file may come from anyone. So whatever reads one has to do work that grows with its length, or that a limit stops.
"""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import true_sensitivity

import conspectus as cs
from conspectus.data.code_sets import of_runs, runs_of
from conspectus.data.columns import kinds
from conspectus.data.domain import Domain
from conspectus.privacy import accounting, composition
from conspectus.privacy.events import ByRelation, ExponentialDraws, LaplaceNoise
from conspectus.privacy.prices import add_up, total_of
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries import formulas
from conspectus.queries.blocks import conjunction_sensitivity, linear_queries, moments, statistic
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.parity_list import Parities
from conspectus.queries.disjoint_boxes import disjoint_boxes
from conspectus.queries.language import from_sql
from conspectus.queries.language.to_sql import to_sql
from conspectus.queries.literals import LiteralRuns
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


def _looked_at(monkeypatch: pytest.MonkeyPatch, block: Conjunctions) -> tuple[int, tuple[int, int]]:
    """How many cells, entries and pairs of cells are looked at to bound a list; and the bounds."""
    looked: list[int] = []
    real = conjunction_sensitivity._products, conjunction_sensitivity._farthest

    def products(*given: Any) -> Any:
        looked.append((made := real[0](*given)).size)
        return made

    def farthest(patterns: Any) -> int:
        looked.append(patterns.size * len(patterns))
        return real[1](patterns)

    with monkeypatch.context() as patch:
        patch.setattr(conjunction_sensitivity, "_products", products)
        patch.setattr(conjunction_sensitivity, "_farthest", farthest)
        return sum(looked), block.bounds()


@pytest.mark.parametrize("size", [100, 1 << 27, 1 << 31, 1 << 62])
def test_ranges_over_long_columns_are_as_quick_as_over_short_ones(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Two ranges that overlap, over as many codes as one likes, have five stretches at most."""
    part = size // 10
    boxes = [((Literal(0, of_runs([(part, 5 * part)])),),), ((Literal(0, of_runs([(3 * part, 8 * part)])),),)]
    block = Conjunctions.of(Domain(("a",), (size,)), map(Predicate, boxes))
    looked, bounds = _looked_at(monkeypatch, block)
    assert bounds == (2, 2)
    assert looked <= 100


@pytest.mark.parametrize("queries", [2, 12, 100, 600])
@pytest.mark.parametrize("columns", [1, 2, 3, 7])
def test_what_is_looked_at_is_in_proportion_to_what_is_stored(
    monkeypatch: pytest.MonkeyPatch, queries: int, columns: int
) -> None:
    rng = np.random.default_rng(queries * 10 + columns)
    domain = Domain(tuple("abcdefg"[:columns]), (10_000,) * columns)
    ends = np.sort(rng.integers(1, 9_999, (queries, columns, 2)), axis=2).tolist()
    boxes = [tuple(Literal(c, of_runs([(a, b)])) for c, (a, b) in enumerate(box)) for box in ends]
    block = Conjunctions.of(domain, [Predicate((box,)) for box in boxes])
    looked, bounds = _looked_at(monkeypatch, block)
    assert looked <= conjunction_sensitivity.work_for(block.numbers)
    assert all(1 <= bound <= queries for bound in bounds)


runs_of_codes = st.lists(st.integers(0, 11), min_size=1, max_size=5, unique=True).map(
    lambda codes: tuple(sorted(codes))
)
LONG = Domain(("a", "b"), (12, 12))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.dictionaries(st.integers(0, 1), runs_of_codes, max_size=2), min_size=1, max_size=10),
    st.sampled_from([0, 1 << 17, 1 << 18, 1 << 20, None]),
)
def test_bounds_over_stretches_are_those_over_all_codes(boxes: list[dict[int, Any]], most: int | None) -> None:
    """Exact with work enough where all read the same columns, and never below the truth with less."""
    block = Conjunctions.of(LONG, [Predicate((tuple(Literal(c, box[c]) for c in sorted(box)),)) for box in boxes])
    table = np.array(
        [[all(code[c] in codes for c, codes in box.items()) for box in boxes] for code in np.ndindex(12, 12)], dtype=int
    )
    table = np.unique(table, axis=0)
    true = int(table.sum(axis=1).max()), int(np.abs(table[:, None, :] - table[None, :, :]).sum(axis=2).max())
    said = block.bounds(most)
    assert said[0] >= true[0]
    assert said[1] >= true[1]
    if most is None and len({tuple(sorted(box)) for box in boxes}) == 1:
        assert said == true


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 1), runs_of_codes, max_size=2), min_size=2, max_size=12))
def test_boxes_are_disjoint_exactly_where_no_record_lies_in_two(boxes: list[dict[int, Any]]) -> None:
    listed = [Literal(column, codes) for box in boxes for column, codes in sorted(box.items())]
    number = iter(range(len(listed)))
    terms = np.array([([next(number) for _ in box] + [-1, -1])[:2] for box in boxes], dtype=np.int32)
    held = [sum(all(code[c] in codes for c, codes in box.items()) for box in boxes) for code in np.ndindex(12, 12)]
    assert disjoint_boxes(LiteralRuns(listed), terms) == (max(held) < 2)


def test_the_bounds_of_lists_side_by_side_are_the_sum_of_theirs() -> None:
    """Acts that paid for lists one by one have paid for them together, however many there are."""
    rng = np.random.default_rng(7)
    domain = Domain(("a", "b"), (500, 500))
    blocks = []
    for _ in range(40):
        ends = np.sort(rng.integers(1, 499, (30, 2, 2)), axis=2).tolist()
        boxes = [tuple(Literal(c, of_runs([(x, y)])) for c, (x, y) in enumerate(box)) for box in ends]
        blocks.append(Conjunctions.of(domain, [Predicate((box,)) for box in boxes]))
    for each in Neighbours:
        alone = [Workload(domain, (block,)).sensitivity(Relation(each)).l1 for block in blocks]
        assert Workload(domain, tuple(blocks)).sensitivity(Relation(each)).l1 == sum(alone)


def _on_both(bound: int | str) -> ByRelation:
    return ByRelation(replace=Fraction(bound), add_remove=Fraction(bound))


@pytest.mark.parametrize("draws", [1 << 28, 10**12, 10**300])
def test_an_act_that_says_very_many_draws_is_priced_without_listing_them(
    monkeypatch: pytest.MonkeyPatch, draws: int
) -> None:
    """Neither alone nor beside others: one loss for each draw would fill the memory."""
    monkeypatch.setattr(composition, "optimal_epsilon", None)
    act = ExponentialDraws(range=_on_both(f"1/{draws}"), draws=draws)
    epsilon, _, _ = accounting.best([act], 1e-6, Neighbours.REPLACE)
    assert epsilon is not None
    assert epsilon <= 1
    noise = LaplaceNoise(l1=_on_both(1), l2_squared=_on_both(1), linf=_on_both(1), scale=Fraction(2))
    both, _, _ = accounting.best([act, noise], 1e-6, Neighbours.REPLACE)
    assert both is not None
    assert Fraction(1, 2) <= both <= Fraction(3, 2) + Fraction(1, 1_000)


def test_different_acts_beyond_a_limit_are_not_convolved(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def spied(acts: Any, delta: float) -> float:
        seen.append(len(acts))
        return 1.0

    monkeypatch.setattr(composition, "loss_distribution_epsilon", spied)
    for many in (2, accounting.MOST_DIFFERENT, accounting.MOST_DIFFERENT + 1, 2_000):
        listed = [
            LaplaceNoise(l1=_on_both(1), l2_squared=_on_both(1), linf=_on_both(1), scale=Fraction(10**5 + place))
            for place in range(many)
        ]
        accounting.best(listed, 1e-6, Neighbours.REPLACE)
    assert seen == [2, accounting.MOST_DIFFERENT]


def test_sums_of_prices_stay_short_and_are_rounded_up() -> None:
    prices = [Fraction(1, (1 << 61) - 2 * place - 1) for place in range(300)]
    total = total_of(prices)
    assert total.denominator.bit_length() <= 4_097
    assert 0 <= total - sum(prices) <= Fraction(300, 1 << 4_096)
    assert total_of(prices[:3]) == sum(prices[:3]) == add_up(prices[0] + prices[1], prices[2])


def test_columns_longer_than_their_numbers_are_not_weighed() -> None:
    """A size is declared in ten digits; its weights would take megabytes."""
    schema = cs.Schema.from_dict({"name": "made", "columns": {"a": {"type": "integer", "min": 0, "max": 9}}})
    stored = cs.means(schema, "a").to_json()
    stored["sizes"][0] = 1 << 21
    with pytest.raises(WorkloadError, match="too few numbers"):
        Workload.from_json(json.loads(json.dumps(stored)))


def test_a_schema_lists_no_bins_of_long_columns() -> None:
    declared = (
        {"type": "integer", "min": 0, "max": (1 << 24) - 10, "default": 5},
        {"type": "date", "min": "0001-01-01", "max": "9999-12-31", "width": "month"},
    )
    schema = cs.Schema.from_dict({"name": "made", "columns": {f"c{n}": declared[n % 2] for n in range(100)}})
    assert schema.fingerprint
    assert schema.domain.sizes[:2] == ((1 << 24) - 9, 12 * 9_999)
    assert not any({"lows", "highs", "_code_of_day"} & vars(column).keys() for column in schema.columns)


def test_bins_that_are_declared_by_widths_have_a_limit_for_the_whole_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "MOST_BINS", 100)
    columns = {name: {"type": "number", "min": 0, "max": 60, "width": 1} for name in "ab"}
    assert len(cs.Schema.from_dict({"columns": {"a": columns["a"]}}).domain) == 1
    with pytest.raises(kinds.SchemaError, match="together"):
        cs.Schema.from_dict({"columns": columns})
    listed = {name: {"type": "number", "edges": list(range(61))} for name in "ab"}
    assert len(cs.Schema.from_dict({"columns": listed}).domain) == 2


def test_a_formula_over_a_long_column_is_expanded_by_stretches() -> None:
    domain = Domain(("a", "b"), (1 << 40, 10))
    first = formulas.all_of(
        domain,
        [formulas.literal(domain, 0, of_runs([(5, (1 << 40) - 1)])), formulas.literal(domain, 1, [1])],
    )
    second = formulas.all_of(
        domain, [formulas.literal(domain, 0, of_runs([(0, 1 << 39)])), formulas.literal(domain, 1, [2])]
    )
    found = formulas.predicate(domain, formulas.any_of(domain, [first, second]))
    assert [len(box[0].codes) for box in found.boxes] == [5, (1 << 39) - 4, (1 << 39) - 1]


LONG_COLUMNS: dict[str, dict[str, Any]] = {
    "whole": {"type": "integer", "min": 0, "max": (1 << 24) - 10, "missing": True, "default": 5},
    "wide": {"type": "integer", "min": -(1 << 40), "max": 1 << 40, "width": 1 << 18},
    "real": {"type": "number", "min": 0, "max": 1_000, "width": 0.001},
    "day": {"type": "date", "min": "0001-01-01", "max": "9999-12-31", "missing": True},
    "month": {"type": "date", "min": "0001-01-15", "max": "9999-12-31", "width": "month"},
}
COMPARED = {
    "whole": "> 5 AND whole <= 9000000 OR whole IN (1, 12345678) OR NOT whole BETWEEN 3 AND 16000000 OR whole IS NULL",
    "wide": "< 262144 AND wide > 7",
    "real": "BETWEEN 2.5 AND 700 AND real <> 3.0002 AND NOT real < 1",
    "day": ">= DATE '1969-12-31' AND day <> '2020-02-29' AND day < '2500-01-01' AND day IS NOT NULL",
    "month": "< '0002-01-10' OR NOT month <= '9000-12-31'",
}


@pytest.mark.parametrize("name", LONG_COLUMNS)
def test_a_comparison_looks_at_few_of_a_columns_bins(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading it, its notes, what it was widened to, and that as SQL: by bisection, however many bins there are."""
    schema = cs.Schema.from_dict({"name": "made", "columns": {name: LONG_COLUMNS[name]}})
    (column,) = schema.columns
    looked = Counter[str]()

    def spied(end: str) -> Any:
        plain = getattr(type(column), end)

        def seen(self: Any, code: int) -> Any:
            looked[end] += 1
            return plain(self, code)

        return seen

    for end in ("_low", "_high"):
        monkeypatch.setattr(type(column), end, spied(end))
    found = from_sql.read(schema, f"{name} {COMPARED[name]}", snap=True)
    assert from_sql.parse(schema, to_sql(schema, found.query)) == found.query
    with pytest.raises(from_sql.NotAPredicate, match="boolean"):
        from_sql.read(schema, name)
    assert 0 < looked.total() < 40 * 4 * column.regular.bit_length()
    assert not {"lows", "highs", "labels", "own_values", "_code_of_day"} & vars(column).keys()
    for box in found.query.boxes:
        assert all(len(runs_of(literal.codes)) < 9 for literal in box)
