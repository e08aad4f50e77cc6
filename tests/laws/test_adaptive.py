"""The parts of `adaptive` against slow, obvious versions; what it spends; and that it finds what columns share."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests.made import people, truth

import conspectus as cs
from conspectus.mechanisms.adaptive import mechanism as adaptive
from conspectus.mechanisms.adaptive import pair_fits
from conspectus.mechanisms.adaptive.bridges import through, with_margins
from conspectus.mechanisms.adaptive.budgeting import Option, choose, gains, sigma_grid
from conspectus.mechanisms.adaptive.coding import LEVELS, code_column
from conspectus.mechanisms.adaptive.pair_fits import Measurement, Model, Pair, without_margins
from conspectus.mechanisms.adaptive.pair_scores import increments, nearest_scored, posterior_mean
from conspectus.mechanisms.adaptive.parameters import column_sets, most_groups, plan_of, residual_cost
from conspectus.mechanisms.adaptive.smoothing import _walk, denoised, evened, followed, smoothed, to_simplex
from conspectus.mechanisms.adaptive.tilting import MARGIN_RIDGE, Part, tilted
from conspectus.mechanisms.adaptive.triple_fits import Triple, crossed, proportional, tilted_triple
from conspectus.mechanisms.mechanism import CannotServe, NoMechanism
from conspectus.mechanisms.settings import SettingError
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.noise import UnsafeSeededSampler
from conspectus.privacy.prices import price_rho
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks.residual import Residual
from conspectus.releases.planning import problem_of
from conspectus.releases.run import run

LAW = settings(max_examples=30, deadline=None)


def rng(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


# Columns.


@pytest.mark.parametrize("way", [smoothed, followed])
def test_smoothing_keeps_what_stands_out_and_evens_the_rest(way):
    counts = np.full(64, 100.0)
    counts[20] = 5000.0
    noisy = counts + rng(1).normal(0, 10, 64)
    even = way(noisy, 10.0, 0.8)
    assert abs(even[20] - noisy[20]) < 40
    others = np.delete(np.arange(64), [19, 20, 21])
    assert np.abs(even - counts)[others].mean() < 0.6 * np.abs(noisy - counts)[others].mean()
    np.testing.assert_allclose(way(np.full(16, 7.0), 1.0, 0.8), 7.0)


def test_a_walk_behind_noise_is_that_of_the_normal_equations():
    """With a flat law of its start; likelihoods are compared between two walks, which is all that they are for."""
    counts, noise = rng(4).normal(50, 20, 12), rng(5).uniform(0.5, 30, 12)
    likely, slow = [], []
    for steps in (rng(6).uniform(0.1, 9, 12), np.full(12, 2.0)):
        mean, variance = np.empty(12), np.empty(12)
        likely.append(_walk(counts, noise, steps, mean, variance))
        apart = np.diff(np.eye(12), axis=0)
        precision = apart.T @ np.diag(1 / steps[:-1]) @ apart + np.diag(1 / noise)
        np.testing.assert_allclose(mean, np.linalg.solve(precision, counts / noise))
        np.testing.assert_allclose(variance, np.diag(np.linalg.inv(precision)))
        explained = (counts / noise) @ np.linalg.solve(precision, counts / noise)
        slow.append(0.5 * (explained - np.log(steps[:-1]).sum() - np.linalg.slogdet(precision)[1]))
    assert likely[0] - likely[1] == pytest.approx(slow[0] - slow[1])


def test_rare_values_go_to_their_mean_as_far_as_noise_explains_them():
    noisy = np.array([900.0, 12.0, 8.0, 10.0, 11.0, 9.0])
    np.testing.assert_allclose(evened(noisy, 20.0), [900, 10, 10, 10, 10, 10])  # all of their spread is noise
    np.testing.assert_allclose(evened(noisy, 5.0)[0], 900)  # what stands out stays
    # Their squares about 0.4 add up to 10, of which variances of three fewer than they are explain 2.
    rare = 0.4 + np.array([2.0, -2.0, 0.0, 1.0, -1.0])
    np.testing.assert_allclose(evened(np.array([900.0, *rare]), 1.0), [900, *(0.4 + 0.8 * (rare - 0.4))])
    np.testing.assert_allclose(evened(noisy[:4], 5.0), noisy[:4])  # three values say nothing of a spread


def test_denoised_columns_are_nearer_and_stay_tables():
    """A curve, a spike on it, and values without an order behind: fixed coins."""
    counts = np.concatenate([400 * np.exp(-np.arange(60) / 15), np.full(30, 20.0)])
    counts[33] += 900
    worse = better = 0.0
    for seed in range(5):
        noisy = counts + rng(seed).normal(0, 60, len(counts))
        found = denoised(noisy, 60.0, float(counts.sum()), 60)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(counts.sum())
        better += np.abs(found - counts).sum()
        worse += np.abs(to_simplex(noisy, float(counts.sum())) - counts).sum()
    assert better < 0.6 * worse


@LAW
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.floats(0.5, 200))
def test_the_nearest_counts_of_a_total_are_nearest(noisy, total):
    """Any other counts of that total are at least as far: the first-order condition of a convex problem."""
    noisy = np.array(noisy)
    found = to_simplex(noisy, total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total)
    for corner in np.eye(len(noisy)) * total:
        assert (found - noisy) @ (corner - found) >= -1e-6 * (1 + total) * (1 + np.abs(noisy).max())


@LAW
@given(st.integers(1, 60), st.booleans(), st.integers(0, 2), st.floats(0.1, 300), st.integers(0, 10**6))
def test_codings_cover_their_column_and_their_levels_are_nested(size, ordered, loose, deviation, seed):
    size += loose
    noisy = np.sort(rng(seed).exponential(200, size))[::-1] + rng(seed).normal(0, deviation, size)
    coding = code_column(noisy, deviation, float(max(noisy.sum(), 1)), size - loose if ordered else 0)
    assert set(coding.groups.tolist()) == set(range(coding.size))
    assert coding.law.sum() == pytest.approx(1)
    np.testing.assert_allclose(np.bincount(coding.groups, coding.shares), 1)
    assert coding.expanded(coding.law[None, :]).sum() == pytest.approx(1)
    if ordered:
        inside = coding.groups[: size - loose]
        assert (np.diff(inside) >= 0).all()  # neighbours stay neighbours
    for finer, coarser, most in zip(coding.starts, coding.starts[1:], LEVELS[1:]):
        assert set(coarser.tolist()) <= set(finer.tolist())
        assert len(coarser) <= 2 * most
    stands_out = noisy > 3 * deviation
    alone = np.bincount(coding.groups)[coding.groups] == 1
    assert alone[stands_out].all()


def test_columns_of_very_many_values_have_few_groups():
    for in_order in (0, 5000):
        coding = code_column(1e6 + 1e3 * rng(1).permutation(5000), 1.0, 5e9, in_order, 100)
        assert 2 <= coding.size <= 101
    assert most_groups([3, 4]) >= 4
    assert sum(min(size, most_groups([10**6] * 50)) for size in [10**6] * 50) <= 5000


# Fits.


def objective(base, parts):
    """The function of `tilting`, the slow way: θ of residuals as they are, projected inside."""
    ends = np.cumsum([0, *(part.target.size for part in parts)])

    def split(x):
        thetas = []
        for part, a, b in zip(parts, ends, ends[1:]):
            theta = x[a:b].reshape(part.target.shape)
            thetas.append(without_margins(theta) if part.residual else theta)
        return thetas

    def table(x):
        logs = np.log(base).ravel()
        for part, theta in zip(parts, split(x)):
            logs = logs + theta.ravel()[part.cells]
        shares = np.exp(logs - logs.max())
        return shares / shares.sum(), logs.max() + math.log(np.exp(logs - logs.max()).sum())

    def value(x):
        found = table(x)[1]
        for part, theta in zip(parts, split(x)):
            found += float((theta * (0.5 * part.ridge * theta - part.target)).sum())
        return found

    return value, table, int(ends[-1])


def test_a_tilt_is_the_minimum_of_its_function():
    base = rng(2).dirichlet(np.ones(12)).reshape(3, 4) + 0.01
    base /= base.sum()
    rows, columns = (axis.ravel().astype(np.int32) for axis in np.indices(base.shape))
    noisy = without_margins(base + rng(3).normal(0, 0.03, base.shape))
    coarse = without_margins(np.add.reduceat(noisy, [0, 2], axis=1))
    parts = [
        Part(rows, base.sum(axis=1), MARGIN_RIDGE, residual=False),
        Part(columns, base.sum(axis=0), MARGIN_RIDGE, residual=False),
        Part((rows * 4 + columns).astype(np.int32), noisy, 0.05, residual=True),
        Part((rows * 2 + columns // 2).astype(np.int32), coarse, 0.02, residual=True),
    ]
    value, table, size = objective(base, parts)
    best = minimize(value, np.zeros(size), method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    np.testing.assert_allclose(tilted(base, parts, 500).ravel(), table(best.x)[0], atol=1e-5)
    early = tilted(base, parts, 3)
    assert early.sum() == pytest.approx(1)
    assert early.min() > 0


def made_model(sizes, total=10_000.0, seed=4):
    codings = []
    for place, size in enumerate(sizes):
        law = rng(seed + place).dirichlet(np.full(size, 5.0))
        codings.append(code_column(law * total, 1e-3, total, 0))
    return Model(codings, total, 200)


def test_a_precise_measurement_is_met_and_a_noisy_one_is_not_believed():
    model = made_model((4, 5))
    alone = model.independent((0, 1))
    twist = without_margins(rng(5).normal(size=alone.shape))
    real = np.maximum(alone * (1 + 0.4 * twist / np.abs(twist).max()), 1e-6)
    real = with_margins(real, alone.sum(axis=1), alone.sum(axis=0), 200)
    residual = without_margins(model.total * real)
    levels = model.levels((0, 1), range(5), 1 << 18)
    strengths = dict.fromkeys(levels, 2000.0)
    for sigma, least, most in ((0.01, 0.0, 0.02), (1e7, 0.95, 1.05)):
        pair = Pair((0, 1), levels, strengths, Measurement(0, residual, sigma))
        fit = model.fitted(pair, alone, strengths)
        assert fit.sum() == pytest.approx(1)
        np.testing.assert_allclose(fit.sum(axis=0), alone.sum(axis=0), atol=1e-4)
        apart = np.abs(fit - real).sum() / np.abs(alone - real).sum()
        assert least <= apart <= most


def test_the_misfit_of_a_table_is_the_square_of_what_its_residual_misses():
    law = np.array([0.2, 0.3, 0.5])
    coding = code_column(1e6 * law, 1.0, 1e6, 0)
    model = Model([coding, coding], 1000.0, 40)
    table, residual = rng(7).dirichlet(np.ones(9)).reshape(3, 3), without_margins(rng(8).normal(0, 30, (3, 3)))
    left = residual - without_margins(1000 * table)
    found = model.misfit_at_level(Measurement(0, residual, 5.0), table)
    assert found == pytest.approx((left**2).sum() / 25)


def test_columns_that_share_a_third_are_seen_through_it():
    model = made_model((2, 3, 4))
    first = rng(6).dirichlet(np.ones(2), 3).T * model.codings[1].law
    last = (rng(7).dirichlet(np.ones(4), 3).T * model.codings[1].law).T
    model.tables = {(0, 1): first, (1, 2): last}
    brute = sum(np.outer(first[:, c], last[c]) / model.codings[1].law[c] for c in range(3))
    np.testing.assert_allclose(through(model, 0, 2, 1), brute)


def test_triples_have_their_pairs_and_tilts_keep_them():
    real = rng(8).dirichlet(np.ones(24)).reshape(2, 3, 4)
    pairs = [real.sum(axis=axis) for axis in (2, 1, 0)]
    table = np.full(real.shape, 1 / 24)
    proportional(table, *pairs, 300)
    for axis, pair in zip((2, 1, 0), pairs):
        np.testing.assert_allclose(table.sum(axis=axis), pair, atol=1e-6)
    codings = [code_column(real.sum(axis=others) * 1e4, 1e-4, 1e4, 0) for others in ((1, 2), (0, 2), (0, 1))]
    assert [coding.size for coding in codings] == [2, 3, 4]
    # Values are numbered by falling mass.
    order = np.ix_(*(np.argsort(coding.groups) for coding in codings))
    real = real[order]
    model = Model(codings, 1e4, 100)
    model.tables = {(0, 1): real.sum(axis=2), (0, 2): real.sum(axis=1), (1, 2): real.sum(axis=0)}
    base = crossed(model, (0, 1, 2), 2)
    measured = Measurement(2, without_margins(1e4 * real), 1e-3)
    triple = Triple((0, 1, 2), (2,), {2: 3000.0}, measured)
    for many in (False, True):
        fit = tilted_triple(model, triple, base, 500, many=many)
        assert np.abs(fit - real).sum() < 0.1 * np.abs(base - real).sum()


# Scores and the plan.


@LAW
@given(st.floats(-50, 200), st.floats(1, 40), st.floats(1, 100))
def test_the_posterior_mean_is_that_of_the_integral(noisy, deviation, mean):
    mode = max(noisy - deviation**2 / mean, 0.0)
    x = np.linspace(max(mode - 12 * deviation, 0.0), mode + 12 * deviation, 20_001)
    logs = -x / mean - (noisy - x) ** 2 / (2 * deviation**2)
    weights = np.exp(logs - logs.max())
    weights[[0, -1]] /= 2
    brute = float((x * weights).sum() / weights.sum())
    assert posterior_mean(np.array([noisy]), deviation, mean)[0] == pytest.approx(brute, rel=1e-3, abs=1e-3)


def test_strengths_add_up_in_squares_and_fall_with_coarseness():
    found = increments([0, 2, 3], {0: 50.0, 3: 30.0})
    assert list(found) == [0, 2, 3]
    assert math.sqrt(sum(each**2 for each in found.values())) == pytest.approx(50, rel=0.02)
    pooled = increments([0, 3], {0: 10.0, 3: 30.0})  # noise: a coarser table cannot be farther
    assert math.sqrt(sum(each**2 for each in pooled.values())) == pytest.approx(20, rel=0.02)
    assert nearest_scored((0, 1, 4), (0, 2, 3)) == [0, 1]
    assert nearest_scored((3, 4), (2,)) == [3]


@LAW
@given(st.integers(1, 6), st.floats(1e-4, 10), st.integers(0, 10**6))
def test_a_plan_spends_its_price_exactly_and_gains_fall_with_noise(many, price, seed):
    sigmas = sigma_grid(price, 1.0)
    options = []
    for _ in range(many):
        guess = rng(seed).dirichlet(np.ones(20)) * 5000
        found = gains({0: guess, 2: guess.reshape(10, 2).sum(axis=1)}, {0: 300.0, 2: 500.0}, 5000.0, sigmas)
        assert all((np.diff(gain) <= 1e-9).all() for gain in found.values())
        options.append([Option(level, 0.8, gain) for level, gain in found.items()])
    chosen = choose(options, price, sigmas)
    if chosen:
        assert sum(0.8 / (2 * choice.sigma**2) for choice in chosen.values()) == pytest.approx(price)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("shape", [(2, 2), (3, 5), (2, 7, 4)])
def test_what_a_plan_takes_for_the_cost_of_a_residual_is_its_cost(neighbours, shape):
    schema = cs.Schema.from_dict(
        {"name": "t", "columns": {f"c{i}": {"type": "integer", "min": 0, "max": n - 1} for i, n in enumerate(shape)}}
    )
    exact = Residual(schema.domain, tuple(range(len(shape)))).shift_squared(Relation(neighbours))
    assert residual_cost(shape, Relation(neighbours)) == pytest.approx(float(exact), rel=1e-6)


def test_questions_of_every_kind_name_their_columns():
    schema, _ = people()
    asked = cs.sql(schema, ["smoker AND ill", "age < 42 AND smoker AND region = 'north'", "ill"])
    workload = asked + cs.prefixes(schema, "age") + cs.marginal(schema, ["region", "ill"]) + cs.parities(schema, 2)
    sets = {tuple(sorted(columns)) for columns, _ in column_sets(workload)}
    assert sets >= {(2, 3), (0, 1, 2), (3,), (1,), (0, 3)}
    budget = Budget(epsilon=1.0, delta=1e-6)
    plan = plan_of(problem_of(schema, workload, budget=budget, neighbours=None, rows=100))
    assert plan.columns == (0, 1, 2, 3)
    assert {(0, 1), (0, 2), (1, 2), (2, 3), (0, 3)} == set(plan.pairs)
    assert set(plan.triples) == {(0, 1, 2)}
    assert plan.in_order == (0, 6, 0, 0)
    fewer = plan_of(problem_of(schema, cs.marginal(schema, ["age", "ill"]), budget=budget, neighbours=None, rows=100))
    assert (fewer.columns, set(fewer.pairs)) == ((1, 3), {(0, 1)})


# The whole.


def dependent(rows=20_000, neighbours="add-remove"):
    """Six columns in a chain, each of which keeps the value of the one before with probability 0.7."""
    made = rng(9)
    columns = [made.integers(0, 6, rows)]
    for _ in range(5):
        columns.append(np.where(made.random(rows) < 0.7, columns[-1], made.integers(0, 6, rows)))
    declared = {f"c{i}": {"type": "integer", "min": 0, "max": 5} for i in range(6)}
    schema = cs.Schema.from_dict({"name": "chain", "neighbours": neighbours, "columns": declared})
    return schema, cs.open_table(pa.table({f"c{i}": column for i, column in enumerate(columns)}), schema)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_it_finds_what_columns_share(neighbours):
    """Far from chance: independence is off by more than 0.4 a triple, and noise at this budget moves a fit by 0.05."""
    schema, table = dependent(neighbours=neighbours)
    workload = cs.marginals(schema, 3)
    counts, rows = truth(table, workload)
    release = cs.release(table, workload, epsilon=4, delta=1e-6, mechanism="adaptive", components=200, intervals=False)
    single = [truth(table, cs.marginal(schema, [f"c{i}"]))[0] / rows for i in range(6)]
    far = near = 0.0
    for block, start in zip(workload.blocks, workload.offsets):
        real = counts[start : start + len(block)] / rows
        a, b, c = (single[column] for column in block.columns)
        far += np.abs(np.einsum("i,j,k->ijk", a, b, c).ravel() - real).sum() / 20
        near += np.abs(release.answers[start : start + len(block)] - real).sum() / 20
    assert far > 0.4
    assert near < 0.15
    tables = {columns: release.synopsis.marginal(columns) for columns in combinations(range(3), 2)}
    np.testing.assert_allclose(tables[0, 1].sum(axis=0), tables[1, 2].sum(axis=1), atol=1e-9)


UNIT = {"kind": "id", "column": "person", "max_rows": 2}


@pytest.mark.parametrize("unit", [None, UNIT])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("order", [1, 3])
def test_it_spends_all_of_its_budget_and_no_more(neighbours, unit, order):
    schema, table = people(neighbours=neighbours, unit=unit)
    rho = 5.0  # large enough that triples are measured
    settings = {"mechanism": "adaptive", "components": 20, "intervals": False}
    release = cs.release(table, cs.marginals(schema, order), rho=rho, **settings)
    spent = sum((price_rho(event, Neighbours.of(neighbours)) for event in release.events), Fraction(0))
    assert spent <= Fraction(rho)
    assert float(spent) > 0.9999 * rho


def test_single_questions_are_answered_and_other_columns_are_not():
    schema, table = people(rows=5000)
    asked = cs.sql(schema, ["smoker AND ill", "NOT smoker AND ill", "smoker"]) + cs.prefixes(schema, "age")
    release = cs.release(table, asked, rho=50.0, mechanism="adaptive", components=50)
    counts, rows = truth(table, asked)
    assert np.abs(release.answers - counts / rows).max() < 0.02
    with pytest.raises(ValueError, match="nothing was released about region"):
        release.ask("region = 'north'")


def test_a_public_seed_makes_the_fit_repeatable():
    """The same measurements give the same mixture: with a huge budget they are the same up to far decimals."""
    schema, table = people()
    fixed = {"mechanism": "adaptive", "components": 20, "intervals": False}
    asked = {"workload": cs.marginals(schema, 2), "rho": 1e9, **fixed}
    one, two = (cs.release(table, **asked, public_seed=3).answers for _ in range(2))
    np.testing.assert_allclose(one, two, atol=1e-3)


@pytest.mark.parametrize(("components", "fits"), [(7, 1), (20, 2), (90, 4)])
def test_several_fits_are_one_mixture_that_is_the_same_to_the_bit(monkeypatch, tmp_path, components, fits):
    """Each fit has a start of its own; together they have the products that were asked for, on any processors."""
    schema, table = people()
    monkeypatch.setattr(adaptive, "FEWEST_COMPONENTS", 10)
    monkeypatch.setattr(adaptive, "FITS", fits)
    problem = problem_of(
        schema, cs.marginals(schema, 2), budget=Budget(epsilon=1.0, delta=1e-6), neighbours=None, rows=None
    )
    settings = {"components": components, "intervals": False}
    found, turns = [], []
    fit_pairs = adaptive.fit_pairs

    def counted(*args, **more):
        turns.append(args[1])
        return fit_pairs(*args, **more)

    monkeypatch.setattr(adaptive, "fit_pairs", counted)
    for processors in (1, 3):
        monkeypatch.setattr(pair_fits, "processors", lambda processors=processors: processors)
        found.append(run(table, problem, mechanism="adaptive", settings=settings, sampler=UnsafeSeededSampler(5)))
    one, three = (release.synopsis for release in found)
    assert len(turns) == 2 * fits
    assert sum(turns) == 2 * components
    assert one.components == components
    assert one.tables.tobytes() == three.tables.tobytes()
    assert one.weights.tobytes() == three.weights.tobytes()
    found[0].save(tmp_path / "several.zip")
    assert cs.load(tmp_path / "several.zip").synopsis.tables.tobytes() == one.tables.tobytes()


def test_what_it_cannot_serve_is_refused_with_a_cure():
    schema, table = people()
    with pytest.raises(NoMechanism, match="allow a delta above 0"):
        cs.release(table, cs.marginals(schema, 2), epsilon=1, mechanism="adaptive")
    wide = {f"c{i}": {"type": "boolean"} for i in range(500)}
    broad = cs.Schema.from_dict({"name": "wide", "columns": wide})
    problem = problem_of(
        broad, cs.marginals(broad, 1), budget=Budget(epsilon=1.0, delta=1e-6), neighbours=None, rows=100
    )
    with pytest.raises(CannotServe, match="ask about fewer columns"):
        plan_of(problem)
    for wrong in ({"components": 0}, {"triples": 1}, {"public_seed": -1}):
        with pytest.raises(SettingError):
            cs.mechanisms.Adaptive(**wrong)
