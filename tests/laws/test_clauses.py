"""Queries as clauses: rows put to a whole workload, and best rows, against the definition and against brute force."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from tests.made import people
from tests.reference import records, truth_table

import conspectus as cs
from conspectus.mechanisms.dual_query import oracles
from conspectus.mechanisms.dual_query.clauses import AskedClauses
from conspectus.mechanisms.dual_query.oracles import OracleError, exact, search


def asked():
    """Every kind of query over four columns: cells, negations, intervals, parities, unions of boxes, constants."""
    schema, _ = people(rows=5)
    predicates = [
        "smoker OR region = 'west'",
        "NOT (ill AND age < 42)",
        "region IN ('north', 'south') AND NOT smoker OR ill",
        "ill AND NOT ill",
        "age >= 18",
    ]
    return schema, (
        cs.marginals(schema, 2)
        + cs.random_conjunctions(schema, 3, 60, 1, negations=True)
        + cs.ranges(schema, "age")
        + cs.prefixes(schema, "age")
        + cs.parities(schema, 2)
        + cs.parities(schema, 0)
        + cs.sql(schema, predicates)
        + cs.marginal(schema, ["ill", "region"])
    )


@pytest.fixture(scope="module")
def game():
    schema, workload = asked()
    universe = np.array(records(schema.domain), dtype=np.uint8)
    return AskedClauses(workload), universe, truth_table(workload)


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 150])
def test_rows_are_put_to_every_query(game, rows):
    clauses, universe, truth = game
    places = np.random.Generator(np.random.PCG64(rows)).integers(0, len(universe), rows)
    found = np.ones(truth.shape[1], dtype=np.int64)
    with ThreadPoolExecutor(2) as pool:
        clauses.tally(universe[places], found, 3, pool)
    assert (found == 1 + 3 * truth[places].sum(axis=0)).all()
    alone = np.ones_like(found)
    clauses.tally(universe[places], alone, 3)
    assert (alone == found).all()


def test_picked_clauses_are_worth_what_their_queries_are(game):
    clauses, universe, truth = game
    rng = np.random.Generator(np.random.PCG64(3))
    for _ in range(20):
        queries, values = rng.integers(0, truth.shape[1], 30), rng.integers(-4, 5, 30)
        picked, of_box, of_parity = clauses.pick(queries, values)
        assert (picked.box_values == values[of_box]).all()
        assert (picked.parity_values == values[of_parity]).all()
        place = int(rng.integers(0, len(universe)))
        assert picked.value(universe[place]) == truth[place, queries] @ values


def test_the_exact_oracle_is_the_best_of_the_whole_universe(game):
    clauses, universe, truth = game
    rng = np.random.Generator(np.random.PCG64(4))
    for _ in range(12):
        queries, values = rng.integers(0, truth.shape[1], 40), rng.integers(-4, 5, 40)
        picked, *_ = clauses.pick(queries, values)
        best = exact(picked, universe[0])
        assert best.optimal
        assert best.values[0] == (truth[:, queries] @ values).max()
        assert picked.value(best.rows[0]) == best.values[0]


def test_the_local_search_never_overstates_and_hardly_ever_misses(game):
    """With eight restarts on 40 clauses it finds the best row of the universe nearly always; its value is the row's."""
    clauses, universe, truth = game
    rng = np.random.Generator(np.random.PCG64(5))
    found = []
    for _ in range(40):
        queries, values = rng.integers(0, truth.shape[1], 40), rng.integers(-4, 5, 40)
        picked, *_ = clauses.pick(queries, values)
        starts = universe[rng.integers(0, len(universe), 8)]
        best = search(picked, starts, restarts=8, rng=rng)
        assert best.values[0] == picked.value(best.rows[0])
        assert best.values[0] >= max(picked.value(start) for start in starts)
        found.append(int(best.values[0]) == (truth[:, queries] @ values).max())
    assert sum(found) >= 36


def test_each_line_of_values_has_its_own_row(game):
    clauses, universe, truth = game
    rng = np.random.Generator(np.random.PCG64(6))
    queries = rng.integers(0, truth.shape[1], 25)
    picked, of_box, of_parity = clauses.pick(queries, np.ones(25, dtype=np.int64))
    values = rng.integers(-4, 5, (9, 25))
    lines = np.concatenate([values[:, of_box], values[:, of_parity]], axis=1)
    with ThreadPoolExecutor(2) as pool:
        best = search(
            picked,
            universe[rng.integers(0, len(universe), 36)],
            values=lines,
            restarts=4,
            rng=rng,
            pool=pool,
        )
    for row, value, line in zip(best.rows, best.values, values):
        place = int((universe == row).all(axis=1).nonzero()[0][0])
        assert value == truth[place, queries] @ line


def test_columns_that_no_clause_reads_keep_their_start():
    schema, _ = people(rows=5)
    clauses = AskedClauses(cs.sql(schema, ["ill", "NOT smoker"]))
    picked, *_ = clauses.pick(np.array([0, 1]), np.array([1, 1]))
    start = np.array([[3, 4, 1, 0]], dtype=np.uint8)
    for row in (
        search(picked, start, rng=np.random.Generator(np.random.PCG64(1))).rows[0],
        exact(picked, start[0]).rows[0],
    ):
        assert row.tolist() == [3, 4, 0, 1]


def test_a_missing_solver_is_named(game, monkeypatch):
    clauses, universe, _ = game
    picked, *_ = clauses.pick(np.array([0]), np.array([1]))
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(OracleError, match=r"conspectus\[exact\]"):
        exact(picked, universe[0])
    monkeypatch.setattr(oracles.importlib.util, "find_spec", lambda name: None)
    assert not oracles.available()


def test_all_cases_of_small_parities_are_encoded_right():
    """Σx = 2d + 1 − c: for every set of up to three columns, sign and assignment, c is 1 just where the sum is even."""
    columns = {name: {"type": "boolean"} for name in "abc"}
    schema = cs.Schema.from_dict({"name": "bits", "columns": columns})
    for k in range(4):
        workload = cs.parities(schema, k)
        clauses = AskedClauses(workload)
        for bits in product((-1, 1), repeat=len(workload)):
            picked, *_ = clauses.pick(np.arange(len(workload)), np.array(bits))
            values = [picked.value(np.array(row)) for row in product(range(2), repeat=3)]
            assert exact(picked, np.zeros(3, dtype=np.uint8)).values[0] == max(values)
