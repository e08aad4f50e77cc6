"""Ready functions of a table: their values against plain Python, their sensitivities by brute force, their storage."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.made import people, truth
from tests.reference import statistic_value

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.counting.statistic_counts import Layout, StatisticCounts
from conspectus.data.domain import Chunk
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.statistic import STATISTIC_STEPS, Statistic, Statistics
from conspectus.queries.query import Literal
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

SCHEMA = cs.Schema.from_dict(
    {
        "name": "tiny",
        "columns": {
            "a": {"type": "integer", "min": 0, "max": 2},
            "b": {"type": "categorical", "values": ["x", "y"]},
        },
    }
)
CELLS = tuple(itertools.product(range(3), range(2)))
PARTS = [{}, {"b": "x"}, {"a": [0, 2]}]


def families() -> dict[str, Workload]:
    return {
        "mode": cs.mode_shares(SCHEMA, given=PARTS),
        "mean": cs.truncated_means(SCHEMA, "a", given=PARTS) + cs.truncated_means(SCHEMA, "a", [(1, 2)]),
        "quantile": cs.quantile_shares(SCHEMA, "a", [0, 0.3, 0.5, 1], given=PARTS),
        "balance": cs.interval_balances(SCHEMA, "a", given=PARTS) + cs.interval_balances(SCHEMA, "a", [(0, 2)]),
        "reference": cs.kolmogorov_distances(SCHEMA, "a", [[1, 1, 1], [0, 1, 3]], given=PARTS),
        "distance": cs.independence_distances(SCHEMA, given=[{}, {"a": [0, 1]}]),
        "gap": cs.independence_gaps(SCHEMA, given=[{}, {"a": [0, 1]}]),
        "satisfied": cs.satisfied_shares(SCHEMA, [[{"a": 1}, {"b": "x"}, {"a": [0, 1], "b": "y"}], [{"b": "x"}]]),
    }


EVERYTHING = Workload(SCHEMA.domain, (Statistics.join([b for w in families().values() for b in w.blocks]),))


def values(workload: Workload, rows) -> np.ndarray:
    codes = np.array(rows, dtype=np.uint8).reshape(-1, 2)
    return count(workload, [Chunk((codes[:, 0], codes[:, 1]), len(codes))], threads=1)[0]


@given(st.lists(st.sampled_from(CELLS), max_size=12))
@settings(max_examples=60, deadline=None)
def test_values_are_their_definition(rows):
    expected = [statistic_value(f, rows) for f in EVERYTHING.queries()]
    assert values(EVERYTHING, rows).tolist() == expected


@pytest.fixture(scope="module")
def tables() -> dict[tuple[int, ...], np.ndarray]:
    """The values of everything on all tables of up to four rows over six cells, as sorted numbers of cells."""
    return {
        table: values(EVERYTHING, [CELLS[i] for i in table])
        for n in range(5)
        for table in itertools.combinations_with_replacement(range(6), n)
    }


def neighbours_of(tables, relation):
    for table, here in tables.items():
        if len(table) == 4:
            continue
        larger = [tables[tuple(sorted((*table, cell)))] for cell in range(6)]
        if relation == "add-remove":
            yield from ((here, other) for other in larger)
        else:
            yield from itertools.combinations(larger, 2)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_no_pair_of_neighbours_moves_by_more_than_is_charged(tables, relation):
    moved = EVERYTHING.sensitivity(Relation(relation))
    steps = np.array([STATISTIC_STEPS * (f.replaced if relation == "replace" else 1) for f in EVERYTHING.queries()])
    largest = np.zeros(len(EVERYTHING), dtype=np.int64)
    l1 = squared = 0
    for here, there in neighbours_of(tables, relation):
        off = np.abs(here - there)
        largest = np.maximum(largest, off)
        l1, squared = max(l1, int(off.sum())), max(squared, int((off * off).sum()))
    assert (largest <= steps).all()
    assert l1 <= moved.l1
    assert squared <= moved.l2_squared
    assert largest.max() <= moved.linf
    # The bounds are tight: a wrong twin that charges nine tenths of a row would be refuted by most families.
    reached = {f.kind for f, most in zip(EVERYTHING.queries(), largest) if most > 0.9 * STATISTIC_STEPS}
    assert reached >= {"mode", "mean", "quantile", "balance", "reference", "satisfied"}


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_units_of_two_rows_move_twice_as_far_at_most(tables, relation):
    """Chains of two neighbouring tables are the units of two rows; replaced units may lose or gain a row."""
    single, double = EVERYTHING.sensitivity(Relation(relation)), EVERYTHING.sensitivity(Relation(relation, 2, False))
    assert double.linf == 2 * single.linf
    for table, here in tables.items():
        if len(table) > 2:
            continue
        for pair in itertools.combinations_with_replacement(range(6), 2):
            there = tables[tuple(sorted((*table, *pair)))]
            off = np.abs(here - there)
            assert off.max() <= double.linf
            assert off.sum() <= double.l1
            assert (off * off).sum() <= double.l2_squared


def test_disjoint_parts_are_charged_together():
    """A row is in one of the parts: adding it moves one function of each kind, not one for each part."""
    schema, _ = people()
    parts = [{"region": region} for region in ("north", "east", "south", "west")]
    workload = cs.mode_shares(schema, ["age"], given=parts)
    assert workload.sensitivity(Relation("add-remove")).l2_squared == STATISTIC_STEPS**2
    assert workload.sensitivity(Relation("replace")).l2_squared == 2 * STATISTIC_STEPS**2


@pytest.mark.parametrize("name", sorted(families()))
def test_functions_are_values_that_survive_storage_slices_and_sums(name):
    workload = families()[name]
    assert Workload.from_json(workload.to_json()) == workload
    assert hash(Workload.from_json(workload.to_json())) == hash(workload)
    assert not workload.counting
    assert workload.grid == STATISTIC_STEPS
    assert workload.denominator is None
    both = workload + cs.marginals(SCHEMA, 1) + workload
    assert [both.query(i) for i in range(len(workload))] == list(workload.queries())
    assert both[1 : len(workload)].query(0) == workload.query(1)
    assert len(both.distinct()) == len(set(workload.queries())) + 5
    rows = [CELLS[i] for i in (0, 0, 3, 5, 2)]
    np.testing.assert_array_equal(values(both, rows)[: len(workload)], values(workload, rows))
    picked = both.take([len(both) - 1, 0])
    np.testing.assert_array_equal(values(picked, rows), values(both, rows)[[len(both) - 1, 0]])


def test_chunks_and_threads_do_not_matter():
    schema, table = people()
    workload = cs.mode_shares(schema, given=[{}, {"ill": True}]) + cs.independence_distances(schema)
    whole, rows = truth(table, workload)
    parts, again = count(workload, table.chunks(rows=137), threads=1)
    assert rows == again
    np.testing.assert_array_equal(whole, parts)
    block = workload.blocks[0]
    layout = Layout(block.domain, block.functions)
    one, many = (StatisticCounts(layout, threads=threads) for threads in (1, 3))
    for chunk in table.chunks():
        one.add(chunk)
        many.add(chunk)
    np.testing.assert_array_equal(*(each.of_parts(each.parts(), 0) for each in (one, many)))


def test_familiar_numbers():
    """A table where the answers are known without a computer: 8 rows of a = 0 0 0 0 1 1 2 2."""
    rows = [(0, 0)] * 4 + [(1, 0)] * 2 + [(2, 1)] * 2
    schema = SCHEMA
    n = len(rows)

    def shares(workload):
        return (values(workload, rows) / STATISTIC_STEPS / n).tolist()

    assert shares(cs.mode_shares(schema, ["a"])) == [0.5]
    assert shares(cs.truncated_means(schema, "a")) == [(2 * 0.5 + 2) / 8]
    assert shares(cs.quantile_shares(schema, "a", [0.5, 0.75, 1])) == [0, (2 * 0.5) / 8, 3 / 8]
    assert shares(cs.interval_balances(schema, "a")) == [0.5, 0.25]
    assert shares(cs.kolmogorov_distances(schema, "a", [[2, 1, 1]])) == [0]
    # b is y exactly where a is 2: P(a ≤ 0, y) = 0 against ½·¼, and P(a ≤ 1, y) = 0 against ¾·¼.
    assert shares(cs.independence_gaps(schema)) == pytest.approx([1 / 8, 3 / 16], abs=1 / STATISTIC_STEPS / n)
    assert shares(cs.satisfied_shares(schema, [[{"a": 2}, {"b": "y"}]])) == [0.25]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: cs.quantile_shares(SCHEMA, "b"), "has no order"),
        (lambda: cs.quantile_shares(SCHEMA, "a", [1.5]), "between 0 and 1"),
        (lambda: cs.truncated_means(SCHEMA, "a", [(1, 1)]), "two bins"),
        (lambda: cs.kolmogorov_distances(SCHEMA, "a", [[1, 1]]), "3 weights"),
        (lambda: cs.interval_balances(SCHEMA, "a", [(0, 0)]), "disjoint"),
        (lambda: cs.mode_shares(SCHEMA, given=[]), "at least one condition"),
        (lambda: cs.mode_shares(SCHEMA, given=[{"a": []}]), "no row can satisfy"),
        (lambda: cs.independence_gaps(SCHEMA, [("a", "b", "a")]), "named twice"),
        (lambda: cs.mode_shares(SCHEMA, ["c"]), "no column"),
    ],
)
def test_requests_that_cannot_be_met_are_told_what_to_do(call, says):
    with pytest.raises(WorkloadError, match=says):
        call()


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "mean", "numbers": (0, 1, STATISTIC_STEPS + 1)},
        {"kind": "mean", "numbers": (-1, 0, 1)},
        {"kind": "quantile", "numbers": (3, 2, 0, 1, 2)},
        {"kind": "quantile", "numbers": (1, 2, 2, 1, 0)},
        {"kind": "reference", "numbers": (0, 5, 6)},
        {"kind": "reference", "numbers": (9, 5, STATISTIC_STEPS)},
        {"kind": "mode", "numbers": (1,)},
        {"kind": "balance"},
        {"kind": "median"},
        {"kind": "mode", "over": (0, 1)},
        {"kind": "mode", "given": ()},
        {"kind": "mode", "given": (((Literal(1, (0,))), (Literal(0, (0,)))),)},
    ],
)
def test_what_the_proofs_rest_on_is_checked(fields):
    usual = {"given": ((),), "over": (0,), "classes": ((0, 1, 2),), "numbers": ()}
    with pytest.raises(WorkloadError):
        Statistic(**{**usual, **fields})


def test_stored_functions_that_are_none_are_refused():
    stored = families()["mode"].to_json()
    for wreck in (
        lambda block: block["functions"][0].__setitem__(0, 99),
        lambda block: block["functions"][0].__setitem__(1, 99),
        lambda block: block["functions"][0].__setitem__(3, [5]),
        lambda block: block["functions"].__setitem__(0, "x"),
        lambda block: block["classes"].__setitem__(0, [0, 1.5]),
        lambda block: block["given"].__setitem__(0, [[[0]]]),
        lambda block: block.pop("given"),
    ):
        copy = Workload.from_json(stored).to_json()
        wreck(copy["blocks"][0])
        with pytest.raises(WorkloadError):
            Workload.from_json(copy)
