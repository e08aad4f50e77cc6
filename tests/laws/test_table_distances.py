"""Distances of tables to guesses: their definition, and by brute force how far one unit moves them."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.made import people
from tests.reference import unit_changes

import conspectus as cs
from conspectus.curator.acts import measurement
from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS, FARTHEST_GUESS, TableDistances
from conspectus.data.domain import Domain
from conspectus.privacy.accounting import Filter
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.grouped_marginal import GroupedMarginal
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import Parities
from conspectus.queries.workload import Workload

DOMAIN = Domain(("a", "b"), (3, 2))
TABLES = (Marginal(DOMAIN, (0,)), Marginal(DOMAIN, (0, 1)), GroupedMarginal(DOMAIN, (1, 0), (None, (0, 1, 0))))
WORKLOAD = Workload(DOMAIN, TABLES)
PLACES = range(DOMAIN.cells)


def counts(table):
    """The counts of a table given as places in the universe, cell by cell."""
    codes = np.array([np.unravel_index(place, DOMAIN.sizes) for place in table], dtype=np.int64).reshape(-1, 2)
    fine = np.zeros((3, 2), dtype=np.int64)
    np.add.at(fine, tuple(codes.T), 1)
    coarse = np.stack([fine[0] + fine[2], fine[1]])
    return np.concatenate([fine.sum(axis=1), fine.ravel(), coarse.T.ravel()])


@pytest.mark.parametrize("max_rows", [1, 2])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_one_unit_moves_every_distance_by_its_reach_at_most_and_some_by_all_of_it(neighbours, max_rows):
    rng = np.random.Generator(np.random.PCG64(1))
    relation = Relation(neighbours, max_rows, max_rows == 1)
    reached = 0
    for guess in (np.zeros(len(WORKLOAD)), rng.uniform(-1, 3, len(WORKLOAD)), np.array([9.0, 0] * 6 + [9.0])):
        score = TableDistances(WORKLOAD, guess)
        reach = score.sensitivity(relation).under(neighbours)
        for rest in combinations_with_replacement(PLACES, 1):
            crowd = counts(rest)
            for before, after in unit_changes(PLACES, neighbours, max_rows):
                moved = np.abs(score.of(crowd + counts(before)) - score.of(crowd + counts(after))).max()
                assert moved <= reach
                reached = max(reached, int(moved))
    # No less would do: a row that leaves a cell guessed too large for one guessed too small counts twice.
    assert reached == reach == ERROR_STEPS * max_rows * (2 if neighbours == "replace" else 1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(PLACES), max_size=12), st.integers(0, 10**6))
def test_distances_are_those_of_the_definition(table, seed):
    guess = np.random.Generator(np.random.PCG64(seed)).uniform(-2, 5, len(WORKLOAD))
    found = TableDistances(WORKLOAD, guess).of(counts(table))
    apart = np.abs(counts(table) * ERROR_STEPS - np.rint(guess * ERROR_STEPS).astype(np.int64))
    ends = np.cumsum([0, *map(len, TABLES)])
    assert found.tolist() == [int(apart[a:b].sum()) for a, b in pairwise(ends)]


def test_guesses_that_are_no_numbers_stay_within_64_bits():
    guess = np.array([np.nan, np.inf, -np.inf, 1e300] + [2.0**60] * (len(WORKLOAD) - 4))
    found = TableDistances(WORKLOAD, guess).of(np.full(len(WORKLOAD), 2**40))
    assert (found >= 0).all()
    assert int(found.max()) <= len(WORKLOAD) * (FARTHEST_GUESS + ERROR_STEPS * 2**40)


def test_all_distances_are_charged_together():
    """Squared L2: as many as there are tables, each moved by its reach; the wrong twin charges one."""
    score = TableDistances(WORKLOAD, np.zeros(len(WORKLOAD)))
    act = measurement(score, Noise("gaussian", 100.0), relation=Relation("add-remove"))
    assert act.l2_squared.add_remove == 3 * ERROR_STEPS**2
    assert act.l2_squared.replace == 3 * (2 * ERROR_STEPS) ** 2


def test_what_is_no_table_is_refused():
    with pytest.raises(ValueError, match="marginals"):
        TableDistances(Workload(DOMAIN, ()), np.zeros(0))
    listed = cs.sql(people()[0], ["ill"])
    with pytest.raises(ValueError, match="marginals"):
        TableDistances(listed, np.zeros(1))
    coins = Domain(("a", "b"), (2, 2))
    with pytest.raises(ValueError, match="marginals"):
        TableDistances(Workload(coins, (Parities(coins, (0, 1), 1),)), np.zeros(2))
    with pytest.raises(ValueError, match="one number"):
        TableDistances(WORKLOAD, np.zeros(3))


def test_the_curator_measures_them_and_no_subclass():
    schema, table = people(rows=50)
    workload = cs.marginals(schema, 1)
    curator = Curator(table, Filter("zcdp", Fraction(10**4), "replace"), neighbours="replace")
    noisy = curator.measure(TableDistances(workload, np.zeros(len(workload))), Noise("gaussian", 4.0))
    assert np.abs(noisy - 50 * ERROR_STEPS).max() < 60  # fifteen deviations

    class Cheaper(TableDistances):
        pass

    with pytest.raises(TypeError, match="not on the list"):
        curator.measure(Cheaper(workload, np.zeros(len(workload))), Noise("gaussian", 4.0))
