"""Ridges that follow what was measured: noise around independent columns goes, and what stands out of it stays."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from tests.reference import marginal_of

import conspectus as cs
from conspectus.data.domain import Domain
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.noise import UnsafeSeededSampler
from conspectus.releases.planning import problem_of
from conspectus.releases.run import run
from conspectus.synopses.fitting.independence import adapted, beyond_independence, kept_shares, noise_beyond
from conspectus.synopses.fitting.max_entropy import Measurement, fit_histogram, fit_residuals
from conspectus.synopses.fitting.residuals import Residuals, Target

BITS, ROWS = 9, 20_000


def coins(seed):
    return np.random.Generator(np.random.PCG64(seed))


def made(kind, seed):
    """A table of two-valued columns as counts of cells."""
    draw = coins(seed)
    values = draw.integers(0, 2, (BITS, ROWS))
    if kind == "independent":
        values = (draw.random((BITS, ROWS)) < np.linspace(0.05, 0.5, BITS)[:, None]).astype(np.int64)
    elif kind == "parities":
        for c in range(2, BITS, 3):
            values[c] = values[c - 2] ^ values[c - 1] ^ (draw.random(ROWS) < 0.05)
    else:
        for c in range(1, BITS):
            values[c] = np.where(draw.random(ROWS) < 0.8, values[c - 1], values[c])
    return np.bincount(np.ravel_multi_index(tuple(values), (2,) * BITS), minlength=2**BITS).reshape((2,) * BITS)


def domain_of(sizes):
    return Domain(tuple(f"c{i}" for i in range(len(sizes))), tuple(sizes))


def centred(table):
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def residuals_of(table, sets, sigma, draw):
    """The residual of each set of columns, with noise."""
    return [(s, (centred(marginal_of(table, s) + sigma * draw.normal(size=[2] * len(s)))).ravel(), sigma) for s in sets]


def test_noise_beyond_independence_has_the_stated_mean_square():
    """The mean over 4,000 draws is within 6 of its own deviations of the formula, for columns of several sizes."""
    sizes, columns = (2, 3, 4), (0, 1, 2)
    laws = [np.array([0.1, 0.9]), np.array([0.5, 0.3, 0.2]), np.array([0.7, 0.1, 0.1, 0.1])]
    subsets = [s for k in (1, 2, 3) for s in combinations(columns, k)]
    deviations = {s: 0.01 * (1 + i) for i, s in enumerate(subsets)}
    truth = {s: centred(_product([laws[c] for c in s])) for s in subsets}
    residuals = Residuals(sizes, [Target(columns, np.full(24, 1 / 24), 1.0)])
    draw, squares = coins(3), []
    for _ in range(4_000):
        noisy = [
            (truth[s] + centred(deviations[s] * draw.normal(size=truth[s].shape))).ravel() for s, _ in residuals.keys
        ]
        marginal = residuals.put_together(np.concatenate(noisy))[-24:].reshape(sizes)
        squares.append(beyond_independence(marginal, laws))
    expected = noise_beyond(columns, sizes, {s: d**2 for s, d in deviations.items()}, dict(enumerate(laws)))
    assert abs(np.mean(squares) - expected) < 6 * np.std(squares) / math.sqrt(len(squares))


def _product(laws):
    table = laws[0]
    for law in laws[1:]:
        table = table[..., None] * law
    return table


def test_shares_tell_signals_from_noise():
    """Of 400 squares 20 are signals of ten deviations: they are kept, and nothing else. Alone, noise is not kept."""
    draw = coins(5)
    noise = draw.normal(size=400)
    few = noise.copy()
    few[:20] += 10.0
    ones = np.ones(400)
    assert kept_shares(np.square(noise), ones).max() < 0.2
    shares = kept_shares(np.square(few), ones)
    assert shares[:20].min() > 0.95
    assert np.median(shares[20:]) < 0.1
    # Where all are signals nothing is taken for noise, not even those that happen to be small.
    assert kept_shares(np.square(10 * noise), ones).min() > 0.6


@pytest.mark.parametrize(("kind", "most"), [("independent", 0.95), ("parities", 0.92), ("chain", 1.05)])
def test_marginals_of_all_kinds_of_tables(kind, most):
    """The mean error over four tables, with one noise for both fits; all draws are fixed."""
    domain = domain_of((2,) * BITS)
    subsets = [s for k in (1, 2, 3) for s in combinations(range(BITS), k)]
    off = {False: 0.0, True: 0.0}
    for seed in range(4):
        table, draw = made(kind, seed), coins(100 + seed)
        measured = residuals_of(table, subsets, 500.0, draw)
        for adapt in off:
            fit = fit_residuals(domain, measured, ROWS, refits=3, adapt=adapt)
            missed = fit.weights.reshape(domain.sizes) - table / ROWS
            off[adapt] += np.mean([np.abs(marginal_of(missed, s)).mean() for s in subsets if len(s) == 3])
    assert off[True] < most * off[False]


def questions_of(table, many, sigma, seed):
    """Conjunctions of four columns with noise, as questions that split their marginal; and their true fractions."""
    draw = coins(seed)
    data, truth = [], []
    for _ in range(many):
        columns = tuple(sorted(draw.choice(BITS, 4, replace=False).tolist()))
        parts = np.zeros(16, dtype=np.int64)
        parts[draw.integers(16)] = 1
        true = marginal_of(table, columns).ravel()[parts == 1].sum()
        noisy = true + sigma * draw.normal()
        data.append(Measurement(columns, np.array([ROWS - noisy, noisy]), sigma, parts=parts))
        truth.append(true / ROWS)
    return data, np.array(truth)


def answers(domain, data, weights):
    table = weights.reshape(domain.sizes)
    return np.array([marginal_of(table, m.columns).ravel()[m.parts == 1].sum() for m in data])


@pytest.mark.parametrize(("kind", "most"), [("independent", 0.75), ("parities", 1.05), ("chain", 1.05)])
def test_single_questions_of_all_kinds_of_tables(kind, most):
    """The largest error of 200 conjunctions, over four tables; all draws are fixed."""
    domain, off = domain_of((2,) * BITS), {False: 0.0, True: 0.0}
    for seed in range(4):
        data, truth = questions_of(made(kind, seed), 200, 100.0, 200 + seed)
        for adapt in off:
            fit = fit_histogram(domain, data, ROWS, steps=400, refits=3, adapt=adapt)
            off[adapt] += np.abs(answers(domain, data, fit.weights) - truth).max()
    assert off[True] < most * off[False]


def test_few_questions_and_wide_marginals_keep_their_ridge():
    """Too few answers say nothing of the columns, and marginals that are kept whole have no interactions to judge."""
    few = [Target((c, c + 1), np.array([0.7, 0.3]), 1e4, np.array([0, 0, 0, 1])) for c in range(3)]
    for targets in (few, [Target(tuple(range(6)), np.full(64, 1 / 64), 1e4)]):
        residuals = Residuals((2,) * 6, targets)
        _, wanted, precision = residuals.pool(targets)
        ridge = 0.5 / np.sqrt(precision)
        larger, base = adapted(residuals, wanted, precision, ridge)
        assert larger is ridge
        assert base is None


def test_no_ridge_becomes_smaller():
    """Whatever was measured, columns of one value included."""
    sizes = (2, 1, 3, 2)
    sets = [s for k in (2, 3) for s in combinations(range(4), k)]
    draw = coins(2)
    targets = [Target(s, draw.dirichlet(np.ones(math.prod(sizes[c] for c in s))), 1e4) for s in sets]
    residuals = Residuals(sizes, targets)
    _, wanted, precision = residuals.pool(targets)
    ridge = 0.5 / np.sqrt(precision)
    larger, base = adapted(residuals, wanted, precision, ridge)
    assert base is None
    assert (larger >= ridge * (1 - 1e-12)).all()
    assert np.isfinite(larger).all()


def test_a_release_by_projection_notices_that_columns_are_independent():
    """300 conjunctions, with coins that are fixed: left to chance, means of three errors each fail once in 1,000 runs.
    In 60 releases the largest errors were 0.43 of those of the noise; with a ridge that does not follow, 0.72 in 14."""
    names = [f"c{i}" for i in range(BITS)]
    schema = cs.Schema.from_dict({"name": "coins", "columns": {name: {"type": "boolean"} for name in names}})
    values = coins(9).random((BITS, ROWS)) < np.linspace(0.05, 0.5, BITS)[:, None]
    table = cs.open_table(pa.table(dict(zip(names, values))), schema)
    workload = cs.random_conjunctions(schema, 4, 300, 1)
    exact = cs.release(table, workload, epsilon=1e6, delta=1e-6, mechanism="gaussian").answers
    budget = Budget(epsilon=1.0, delta=1e-6)
    problem = problem_of(schema, workload, budget=budget, neighbours=None, rows=None)

    def worst(name, seed):
        release = run(table, problem, mechanism=name, settings={}, sampler=UnsafeSeededSampler(seed))
        return np.abs(release.answers - exact).max()

    noise = np.mean([worst("gaussian", seed) for seed in range(30)])
    assert np.mean([worst("projection", seed) for seed in range(5)]) < 0.6 * noise
