"""Best linear estimates of cells against plain linear algebra, their tails, and the table of whole rows near them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.made import people

import conspectus as cs
from conspectus.data.domain import Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import mixture_quantile, sum_quantile, variance_of
from conspectus.releases.cells.pooled_halves import pooled_halves
from conspectus.synopses.fitting.nearest_table import Goal, TooManyGoals, nearest_table
from conspectus.synopses.pooled_marginals import MeasuredMarginal, PooledMarginals
from conspectus.synopses.synopsis import Total

SIZES = (2, 3, 2)
DOMAIN = Domain(("a", "b", "c"), SIZES)


def projection(columns):
    """The matrix from the cells of the universe to those of a marginal."""
    universe = np.indices(SIZES).reshape(len(SIZES), -1)
    shape = DOMAIN.shape(columns)
    places = np.ravel_multi_index([universe[c] for c in columns], shape) if columns else np.zeros(12, dtype=int)
    matrix = np.zeros((math.prod(shape), universe.shape[1]))
    matrix[places, np.arange(universe.shape[1])] = 1
    return matrix


sets = st.lists(
    st.sampled_from([s for k in (1, 2, 3) for s in itertools.combinations(range(3), k)]), min_size=1, unique=True
)


@settings(max_examples=40, deadline=None)
@given(sets, st.integers(0, 99), st.booleans())
def test_cells_are_those_of_generalised_least_squares(chosen, seed, exact):
    rng = np.random.Generator(np.random.PCG64(seed))
    truth = rng.integers(0, 50, 12).astype(float)
    scales = rng.uniform(4, 30, len(chosen))
    rows = float(truth.sum())
    measured, stacked, noisy, weights = [], [], [], []
    for columns, scale in zip(chosen, scales):
        counts = projection(columns) @ truth + rng.normal(0, scale, math.prod(DOMAIN.shape(columns)))
        measured.append(MeasuredMarginal.of(DOMAIN, columns, counts, Noise("gaussian", scale), 1))
        stacked.append(projection(columns))
        noisy.append(counts)
        weights.append(np.full(counts.size, 1 / scale**2))
    if exact:  # the total is one more measurement, with next to no noise
        stacked.append(np.ones((1, 12)))
        noisy.append(np.array([rows]))
        weights.append(np.array([1e4]))
    total = (
        Total(value=rows, exact=True) if exact else Total(value=rows, exact=False, kind="gaussian", scale=1.0, terms=1)
    )
    pool = PooledMarginals(DOMAIN, measured, total)
    matrix, seen, weight = np.concatenate(stacked), np.concatenate(noisy), np.concatenate(weights)
    inverse = np.linalg.pinv(matrix.T @ (weight[:, None] * matrix), rcond=1e-11, hermitian=True)
    solved = inverse @ (matrix.T @ (weight * seen))
    for columns in chosen:
        for asked in itertools.permutations(columns):
            cells = pool.cells(asked)
            assert cells.counts == pytest.approx(projection(asked) @ solved, abs=1e-3 * rows)
        combined = projection(columns) @ inverse @ (matrix.T * weight)
        part = combined[:, : matrix.shape[0] - exact]
        assert cells.variance == pytest.approx(float((part[0] ** 2 / weight[: part.shape[1]]).sum()), rel=1e-3)
        assert cells.largest >= np.abs(part).max() - 1e-4
    missing = [s for s in itertools.combinations(range(3), 2) if not any(set(s) <= set(c) for c in chosen)]
    assert all(pool.cells(columns) is None for columns in missing)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("scale", [0.6, 3.0, 40.0])
@pytest.mark.parametrize("failure", [0.05, 1e-4])
def test_tails_of_mixtures_are_never_too_short(kind, scale, failure):
    law = Noise(kind, scale)
    for many in (1, 4, 100):
        exact = sum_quantile(kind, scale, many, 1 - failure)
        assert mixture_quantile(law, float(many), 1.0, failure) >= exact - 1
    if kind == "gaussian" and scale == 40.0:  # nearly the normal quantile
        assert mixture_quantile(law, 1.0, 1.0, 0.05) < 1.05 * 1.96 * scale
    assert mixture_quantile(law, 0.0, 0.0, failure) == 0
    normal = math.sqrt(2 * math.log(2 / failure) * variance_of(law) * 1e6)
    assert mixture_quantile(law, 1e6, 1.0, failure) <= 1.6 * normal


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 999), st.integers(1, 3))
def test_a_table_of_known_marginals_is_found(sizes, seed, width):
    """Wanted counts that a table has: one is found that has them, or in a hard case misses by a row or two."""
    rng = np.random.Generator(np.random.PCG64(seed))
    rows = int(rng.integers(1, 400))
    codes = np.stack([rng.integers(0, size, rows) // rng.integers(1, 3, rows) for size in sizes], axis=1)
    goals = []
    for columns in itertools.combinations(range(len(sizes)), min(width, len(sizes))):
        shape = [sizes[c] for c in columns]
        places = np.ravel_multi_index(codes[:, columns].T, shape)
        counts = np.bincount(places, minlength=math.prod(shape)).astype(float)
        goals.append(Goal(columns, counts, np.ones(counts.size), counts - 0.5, counts + 0.5))
    found = nearest_table(sizes, goals, rows)
    assert found.copies.sum() == rows
    assert (found.copies > 0).all()
    assert (found.codes >= 0).all()
    assert (found.codes < np.array(sizes)).all()
    for goal in goals:
        places = np.ravel_multi_index(found.codes[:, goal.columns].T, [sizes[c] for c in goal.columns])
        counts = np.bincount(places, weights=found.copies, minlength=goal.counts.size)
        assert np.abs(counts - goal.counts).max() <= (0 if width == 1 else 2)


def test_what_would_take_an_hour_is_refused():
    goals = [Goal((0, c), np.ones(10**6), *[np.ones(10**6)] * 3) for c in range(1, 3)]
    with pytest.raises(TooManyGoals):
        nearest_table((1000, 1000, 1000), goals * 1000, 10)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_halves_have_the_noise_that_their_sums_have(mechanism):
    """The deviation of a weighted sum of the rows inside and outside is that of its noises, one by one."""
    schema, table = people(300, neighbours="add-remove")
    release = cs.release(table, cs.marginals(schema, 2), epsilon=1.0, delta=1e-6, mechanism=mechanism)
    for text in ("ill", "region = 'west'", "smoker AND ill", "region = 'north' AND age < 42"):
        halves = pooled_halves(release.synopsis, cs.sql(schema, [text]).query(0))
        pool, inside = halves.inside.pool, halves.inside
        assert halves.counts[0] == inside.count
        for weights in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.7, -0.3), (0.9, -0.1)):
            often, rest = weights[0] - weights[1], weights[1]
            parts = {chosen: often * part for chosen, part in inside.parts.items()}
            parts[()] = parts[()] + rest
            noises = sum(variance_of(law) * weight**2 * times for law, weight, times in pool.noises(parts))
            assert halves.deviation(np.array(weights)) == pytest.approx(math.sqrt(noises), rel=1e-6)
        assert halves.deviation(np.array([1.0, 0.0])) == pytest.approx(math.sqrt(inside.variance))


def test_a_small_share_of_private_rows_is_as_narrow_as_its_count():
    """The noise of the total hardly moves a small share: its interval, in rows, is little wider than the count's."""
    schema, table = people(2000, neighbours="add-remove")
    release = cs.release(table, cs.marginals(schema, 2), epsilon=0.5, delta=1e-6, mechanism="gaussian")
    for text in ("region = 'west'", "smoker AND ill", "age < 30"):
        share = release.ask(text)
        count = release.query(f"SELECT COUNT(*) AS n FROM people WHERE {text}").to_arrow().to_pylist()[0]
        assert (share.high - share.low) * release.total.divisor < 1.1 * (count["n_high"] - count["n_low"])
