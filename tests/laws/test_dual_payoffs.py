"""DualQuery's payoffs: their definition, and by brute force how far one unit moves them under both relations."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.made import people
from tests.reference import truth_table, unit_changes

import conspectus as cs
from conspectus.curator.curator import Curator
from conspectus.curator.scores import FASTEST, LOG_WEIGHT_STEPS, MOST_ROWS, DualPayoffs
from conspectus.data.domain import Domain
from conspectus.privacy.accounting import Filter
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import Parities
from conspectus.queries.workload import Workload

DOMAIN = Domain(("a", "b"), (2, 2))
WORKLOAD = Workload(DOMAIN, (Marginal(DOMAIN, (0,)), Marginal(DOMAIN, (0, 1)), Parities(DOMAIN, (0, 1), 2)))
TRUTH = truth_table(WORKLOAD).T
PLACES = range(DOMAIN.cells)


def counts(table):
    """The counts of a table given as places in the universe."""
    return TRUTH @ np.bincount(np.array(table, dtype=np.int64), minlength=len(PLACES))


def tables(rows):
    return list(combinations_with_replacement(PLACES, rows))


def score(total=3, rate=5, seed=0):
    rng = np.random.Generator(np.random.PCG64(seed))
    return DualPayoffs(WORKLOAD, total, rate, rng.integers(0, rate + 1, len(WORKLOAD)))


@pytest.mark.parametrize("max_rows", [1, 2])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_one_unit_moves_every_payoff_by_its_reach_at_most_and_some_by_all_of_it(relation, max_rows):
    payoffs = score()
    reach = payoffs.sensitivity(Relation(relation, max_rows, max_rows == 1)).under(relation)
    widest = 0
    for rest in tables(2):
        crowd = counts(rest)
        for before, after in unit_changes(PLACES, relation, max_rows):
            moved = payoffs.of(crowd + counts(before)) - payoffs.of(crowd + counts(after))
            assert np.abs(moved).max() <= reach
            widest = max(widest, int(moved.max() - moved.min()))
    # The range that is charged is twice the reach, and no less would do, under either relation.
    assert widest == 2 * reach


@given(st.integers(1, 50), st.integers(0, 9 * LOG_WEIGHT_STEPS), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_payoffs_are_those_of_the_definition(total, rate, seed):
    """Σ η(q(D) − q(x)) for queries, and for negations with 1 − q, in steps of 1/(total·LOG_WEIGHT_STEPS)."""
    payoffs = score(total, rate, seed)
    table = np.random.Generator(np.random.PCG64(seed)).integers(0, len(PLACES), total)
    found = payoffs.of(counts(table))
    for place, (number, played) in enumerate(zip(counts(table).tolist(), payoffs.played.tolist())):
        share, done = Fraction(number, total), Fraction(played)
        assert found[place] == total * (rate * share - done)
        assert found[place + len(WORKLOAD)] == total * (rate * (1 - share) - (rate - done))


def test_rows_that_satisfy_a_query_too_rarely_make_it_likelier():
    """The sign: a query that nobody played and everybody has gains; one that everybody played and nobody has loses."""
    played = np.zeros(len(WORKLOAD), dtype=np.int64)
    everybody = np.full(len(WORKLOAD), 4)
    queries, negations = np.split(DualPayoffs(WORKLOAD, 4, 2, played).of(everybody), 2)
    assert (queries > 0).all()
    assert (negations < 0).all()
    queries, negations = np.split(DualPayoffs(WORKLOAD, 4, 2, played + 2).of(0 * everybody), 2)
    assert (queries < 0).all()
    assert (negations > 0).all()


def test_the_largest_numbers_stay_exact():
    played = np.array([0, FASTEST] * 3 + [0], dtype=np.int64)[: len(WORKLOAD)]
    payoffs = DualPayoffs(WORKLOAD, MOST_ROWS, FASTEST, played)
    for number in (0, MOST_ROWS, 2**40):
        found = payoffs.of(np.full(len(WORKLOAD), number))
        exact = [FASTEST * min(number, MOST_ROWS) - MOST_ROWS * done for done in played.tolist()]
        assert found.tolist() == exact + [-value for value in exact]


@pytest.mark.parametrize(
    ("total", "rate", "played"),
    [(0, 5, 0), (MOST_ROWS + 1, 5, 0), (3, -1, 0), (3, FASTEST + 1, 0), (3, 5, 6), (3, 5, -1)],
)
def test_numbers_out_of_place_are_refused(total, rate, played):
    with pytest.raises(ValueError, match="lies between"):
        DualPayoffs(WORKLOAD, total, rate, np.full(len(WORKLOAD), played))


def test_fractions_of_a_step_are_refused():
    with pytest.raises(TypeError, match="no proof"):
        DualPayoffs(WORKLOAD, 3.5, 5, np.zeros(len(WORKLOAD), dtype=np.int64))
    with pytest.raises(ValueError, match="64-bit"):
        DualPayoffs(WORKLOAD, 3, 5, np.zeros(len(WORKLOAD)))


def test_the_curator_draws_by_them_and_by_no_subclass():
    schema, table = people(rows=50)
    workload = cs.marginals(schema, 1)
    curator = Curator(table, Filter("pure", Fraction(10), "replace"), neighbours="replace")
    payoffs = DualPayoffs(workload, 50, LOG_WEIGHT_STEPS, np.zeros(len(workload), dtype=np.int64))
    drawn = curator.select(payoffs, Fraction(1, 2), draws=20)
    assert drawn.shape == (20,)
    assert drawn.max() < 2 * len(workload)

    class Cheaper(DualPayoffs):
        def sensitivity(self, relation):
            return super().sensitivity(Relation("replace"))

    with pytest.raises(TypeError, match="list of proved"):
        curator.select(Cheaper(workload, 50, LOG_WEIGHT_STEPS, payoffs.played), Fraction(1, 2))
