"""Rounding: integers with the right total, each near its share, the marginals near theirs."""

from __future__ import annotations

import math
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import marginal_of

from conspectus.synopses.fitting.rounding import CannotRound, integer_histogram, round_to_total, snake, systematic

LAW = settings(max_examples=150, deadline=None)
weights = st.lists(st.floats(0, 1e6) | st.just(0.0), min_size=1, max_size=40).filter(lambda w: sum(w) > 0).map(np.array)
totals = st.integers(0, 10_000)
SLACK = 1e-6  # what float sums of shares may lose


@LAW
@given(weights, totals)
def test_largest_remainder(values, total):
    counts = round_to_total(values, total)
    shares = values / values.sum() * total
    assert counts.dtype == np.int64
    assert counts.sum() == total
    assert counts.min() >= 0
    assert (np.abs(counts - shares) < 1 + SLACK).all()
    # Largest remainder: nobody who was rounded down had a larger remainder than one who was rounded up.
    up, down = counts > shares, counts < shares
    if up.any() and down.any():
        remainder = shares - np.floor(shares)
        assert remainder[up & (remainder > SLACK)].min(initial=1) >= remainder[down].max() - SLACK
    assert np.array_equal(counts, round_to_total(values, total))


@LAW
@given(st.lists(st.integers(0, 50), min_size=1, max_size=20).filter(any))
def test_integers_are_left_alone(counts):
    values = np.array(counts, dtype=float)
    assert round_to_total(values, sum(counts)).tolist() == counts
    assert systematic(values, sum(counts), 0.5).tolist() == counts


@LAW
@given(weights, totals, st.floats(0, 1, exclude_max=True))
def test_systematic_rounding(values, total, offset):
    counts = systematic(values, total, offset)
    shares = values / values.sum() * total
    assert counts.sum() == total
    assert counts.min() >= 0
    assert not counts[values == 0].any()
    # Not only each cell: every run of neighbours is within one of its share.
    errors = np.concatenate([[0], np.cumsum(counts - shares)])
    assert errors.max() - errors.min() < 1 + SLACK


def test_systematic_rounding_is_right_on_average():
    """Over a fine grid of offsets, which is the uniform law up to 1/2000."""
    values = np.array([0.2, 1.7, 0.05, 3.3, 0.75])
    offsets = (np.arange(2000) + 0.5) / 2000
    mean = np.mean([systematic(values, 6, float(offset)) for offset in offsets], axis=0)
    np.testing.assert_allclose(mean, values, atol=2e-3)
    wrong = np.mean([systematic(values, 6, float(offset) / 2) for offset in offsets], axis=0)
    assert np.abs(wrong - values).max() > 2e-2


@pytest.mark.parametrize("sizes", [(), (1,), (5,), (2, 3), (3, 2, 4), (2, 1, 3), (3, 3, 3)])
def test_the_path_visits_every_cell_one_step_at_a_time(sizes):
    path = snake(sizes)
    assert sorted(path.tolist()) == list(range(math.prod(sizes)))
    cells = [np.array(np.unravel_index(cell, sizes)) for cell in path] if sizes else []
    assert all(np.abs(a - b).sum() == 1 for a, b in pairwise(cells))


def errors_of(counts, shares, order):
    worst = 0.0
    for columns in combinations(range(shares.ndim), order):
        worst = max(worst, float(np.abs(marginal_of(counts - shares, columns)).max()))
    return worst


@pytest.mark.parametrize("public_seed", range(5))
def test_marginals_of_the_integer_table_stay_close(public_seed):
    """Cells are within one; low marginals, sums of hundreds of cells, much closer than independent rounding leaves."""
    rng = np.random.Generator(np.random.PCG64(public_seed))
    table = rng.dirichlet(np.full(1024, 0.3)).reshape((2,) * 10)
    counts = integer_histogram(table, 700)
    shares = table * 700
    assert counts.sum() == 700
    assert counts.min() >= 0
    assert (np.abs(counts - shares) < 1 + SLACK).all()
    assert errors_of(counts, shares, 1) <= 3
    assert errors_of(counts, shares, 2) <= 5
    independent = np.floor(shares) + (rng.random(shares.shape) < shares - np.floor(shares))
    assert errors_of(independent, shares, 2) > errors_of(counts, shares, 2)


@LAW
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 99), st.integers(0, 500))
def test_integer_tables_of_any_shape(sizes, seed, total):
    table = np.random.Generator(np.random.PCG64(seed)).random(sizes) ** 4 + 1e-9
    counts = integer_histogram(table, total)
    assert counts.shape == tuple(sizes)
    assert counts.sum() == total
    assert counts.min() >= 0
    assert (np.abs(counts - table / table.sum() * total) < 1 + SLACK).all()
    assert np.array_equal(counts.ravel(), integer_histogram(table.ravel(), total, sizes=sizes))
    # All published tables are marginals of this one, so they agree wherever they overlap.
    for a, b in product(range(len(sizes)), repeat=2):
        pair = marginal_of(counts, (a, b))
        one = marginal_of(counts, (a,))
        assert np.array_equal(pair if a == b else pair.sum(axis=1 if a < b else 0), one)


@pytest.mark.parametrize("values", [[-1.0, 2.0], [np.nan, 1.0], [np.inf, 1.0], [0.0, 0.0]])
def test_numbers_that_are_no_shares_are_refused(values):
    for rounding in (round_to_total, integer_histogram):
        with pytest.raises(CannotRound):
            rounding(np.array(values), 5)
    with pytest.raises(CannotRound):
        round_to_total(np.ones(2), -1)
    with pytest.raises(CannotRound):
        integer_histogram(np.ones(4), 3, sizes=(2, 3))
