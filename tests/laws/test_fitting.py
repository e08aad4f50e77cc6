"""Fits: what they minimise, checked by optimality conditions, certificates and slow solvers rather than by outputs."""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls
from tests.reference import marginal_of

from conspectus.data.domain import Domain
from conspectus.mechanisms.iterative import fitted_deviation
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import deviation_of
from conspectus.synopses.fitting.lbfgs import minimise
from conspectus.synopses.fitting.least_squares import fit_least_squares, project_simplex
from conspectus.synopses.fitting.max_entropy import CannotFit, Measurement, fit_histogram
from conspectus.synopses.fitting.residuals import Residuals, Target
from conspectus.synopses.fitting.standing_out import StandingOut

LAW = settings(max_examples=25, deadline=None)


def coins(seed):
    return np.random.Generator(np.random.PCG64(seed))


def domain_of(*sizes):
    return Domain(tuple(f"c{i}" for i in range(len(sizes))), sizes)


def marginal(table, columns):
    return marginal_of(table, columns).ravel()


def measured(domain, seed, *, order=2, sigma=5.0, rows=1000):
    """A made table of `rows` rows and all its marginals of one order, with noise."""
    table = coins(seed).dirichlet(np.full(domain.cells, 0.5)).reshape(domain.sizes) * rows
    sets = list(combinations(range(len(domain)), order))
    noise = coins(seed + 1000)
    return table, [Measurement(c, (y := marginal(table, c)) + sigma * noise.normal(size=y.size), sigma) for c in sets]


domains = st.lists(st.integers(1, 4), min_size=2, max_size=4).map(lambda sizes: domain_of(*sizes))


@LAW
@given(domains, st.integers(0, 99), st.integers(1, 2))
def test_squared_distances_to_marginals_are_those_to_pooled_interactions(domain, seed, order):
    """The identity the fits rest on: they differ by a constant, so differences between two tables agree."""
    _, data = measured(domain, seed, order=order)
    weights = coins(seed + 5).random(len(data)) + 0.1
    targets = [Target(m.columns, m.counts, float(w)) for m, w in zip(data, weights)]
    residuals = Residuals(domain.sizes, targets)
    _, wanted, strength = residuals.pool(targets)

    def direct(table):
        return sum(t.weight * float(((marginal(table, t.columns) - t.fractions) ** 2).sum()) for t in targets)

    def pooled(table):
        return float((strength * (residuals.of(table) - wanted) ** 2).sum())

    a, b = (rng := coins(seed + 9)).random(domain.sizes), rng.random(domain.sizes)
    b *= a.sum() / b.sum()  # the interactions leave the total out
    assert math.isclose(direct(a) - direct(b), pooled(a) - pooled(b), rel_tol=1e-8, abs_tol=1e-6)


@LAW
@given(domains, st.integers(0, 99))
def test_features_and_their_adjoint(domain, seed):
    parts = np.arange(domain.sizes[0] * domain.sizes[1]) % 2
    targets = [
        Target((0, 1), np.zeros(domain.sizes[0] * domain.sizes[1]), 1.0),
        Target((0, 1), np.zeros(2), 1.0, parts),
    ]
    residuals = Residuals(domain.sizes, targets)
    table, values = coins(seed).normal(size=domain.cells), coins(seed + 1).normal(size=residuals.length)
    values = residuals.centred(values)
    assert math.isclose(float(values @ residuals.of(table)), float(residuals.spread(values) @ table), abs_tol=1e-9)


SHAPES = [(2,) * 6, (3, 2, 2, 1, 2, 4), (2,) * 7]
"""Tables of as many columns as are turned as one."""


@pytest.mark.parametrize("sizes", SHAPES)
def test_a_marginal_that_is_turned_as_one_keeps_distances_and_has_an_adjoint(sizes):
    domain = domain_of(*sizes)
    target = Target(tuple(range(len(sizes))), coins(1).random(domain.cells), 2.0)
    residuals = Residuals(sizes, [target])
    assert residuals.length == domain.cells
    _, wanted, strength = residuals.pool([target])
    table, values = coins(2).random(domain.cells), coins(3).normal(size=residuals.length)
    missed = float((strength * (residuals.of(table) - wanted) ** 2).sum())
    assert math.isclose(missed, 2 * float(((table - target.fractions) ** 2).sum()))
    assert math.isclose(float(values @ residuals.of(table)), float(residuals.spread(values) @ table), abs_tol=1e-9)
    moments = residuals.variances(table, np.zeros(residuals.length))
    rows = np.array([residuals.of(row) for row in np.eye(domain.cells)])
    assert np.allclose(moments, table @ rows**2)


@pytest.mark.parametrize("sizes", SHAPES)
def test_a_marginal_that_is_turned_as_one_is_fitted_as_its_interactions_are(sizes, monkeypatch):
    domain = domain_of(*sizes)
    _, (one,) = measured(domain, 3, order=len(sizes), sigma=3.0)
    turned = fit_histogram(domain, [one], 1000.0, tolerance=1e-7, steps=3000, refits=3)
    monkeypatch.setattr("conspectus.synopses.fitting.residuals._NARROW", 99)
    apart = fit_histogram(domain, [one], 1000.0, tolerance=1e-7, steps=3000, refits=3)
    assert turned.converged
    assert apart.converged
    assert np.abs(turned.weights - apart.weights).max() < 1e-5


@pytest.mark.parametrize("orders", [(6,), (5, 6), (2, 6, 7)])
def test_marginals_that_overlap_and_are_turned_are_fitted_as_their_interactions_are(orders, monkeypatch):
    """Whatever their noises: an interaction that several of them measure is one feature, or one in each of them."""
    domain = domain_of(2, 3, 2, 2, 1, 2, 2)
    data = [one for order in orders for one in measured(domain, 3, order=order, sigma=2.0 + order)[1]]
    monkeypatch.setattr("conspectus.synopses.fitting.residuals._MOST_APART", 0)
    turned = fit_histogram(domain, data, 1000.0, tolerance=1e-7, steps=5000)
    monkeypatch.setattr("conspectus.synopses.fitting.residuals._NARROW", 99)
    apart = fit_histogram(domain, data, 1000.0, tolerance=1e-7, steps=5000)
    assert turned.converged
    assert apart.converged
    assert np.abs(turned.weights - apart.weights).max() < 1e-5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sigma", [1.0, 10.0])
def test_one_marginal_of_many_columns_is_fitted_no_worse_than_it_was_measured(seed, sigma):
    """Few of its cells hold nearly all rows, as in most tables. With noise by a fixed seed."""
    domain = domain_of(*(2,) * 8)
    table = coins(seed).dirichlet(np.full(domain.cells, 0.05)).reshape(domain.sizes) * 5000
    noisy = table.ravel() + sigma * coins(seed + 50).normal(size=domain.cells)
    fit = fit_histogram(domain, [Measurement(tuple(range(8)), noisy, sigma)], 5000.0, refits=3, adapt=True)
    made = (fit.weights * 5000).reshape(domain.sizes)
    assert np.abs(made.ravel() - table.ravel()).mean() < np.abs(noisy - table.ravel()).mean()
    singles = [np.abs(marginal(made, (c,)) - marginal(table, (c,))).max() for c in range(8)]
    assert max(singles) < 4 * sigma * math.sqrt(128)


@pytest.mark.parametrize("sizes", [(30, 20), (4,) * 6])
def test_a_cell_that_stands_out_of_its_noise_is_not_taken_for_noise(sizes):
    """A tenth of the rows lies in one cell of many, all others everywhere. The noise has a fixed seed."""
    domain, rows, sigma = domain_of(*sizes), 5000.0, 50.0
    table = np.full(domain.cells, 0.9 * rows / domain.cells)
    table[domain.cells // 3] += 0.1 * rows
    noisy = table + sigma * coins(8).normal(size=domain.cells)
    one = Measurement(tuple(range(len(sizes))), noisy, sigma)
    missed = [
        np.abs(fit_histogram(domain, [one], rows, refits=refits, adapt=True).weights * rows - noisy)[domain.cells // 3]
        for refits in (0, 3)
    ]
    assert missed[0] > 4 * sigma
    assert missed[1] < 2 * sigma


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_of_noise_alone_no_cell_stands_out(kind):
    """600 cells of noise, 200 times, by a fixed seed: in at most 5 % of them, and as Gaussian noise Laplace noise does
    nearly always, which is the wrong twin."""
    rng, shape, rows = coins(4), (30, 20), 5000.0
    draw = rng.normal if kind == "gaussian" else partial(rng.laplace, scale=math.sqrt(1 / 2))
    uniform = np.full(600, 1 / 600)
    often = {"laplace": 0, "gaussian": 0}
    for _ in range(200):
        one = Target((0, 1), uniform + draw(size=600) / rows, rows**2)
        for assumed in often:
            often[assumed] += StandingOut(shape, [one], chance=0.05, heavy_tails=assumed == "laplace").more(uniform)
    assert often[kind] <= 20  # 10 are expected at most: above 20 with a probability below 0.002
    assert often["gaussian"] > 150 or kind == "gaussian"


@LAW
@given(domains, st.integers(0, 99), st.floats(0.5, 50))
def test_fits_are_distributions_whatever_the_noise(domain, seed, sigma):
    _, data = measured(domain, seed, sigma=sigma, rows=20)
    for fit in (fit_histogram(domain, data, 20.0), fit_least_squares(domain, data, 20.0, steps=50)):
        assert fit.weights.shape == (domain.cells,)
        assert fit.weights.min() >= 0
        assert math.isclose(fit.weights.sum(), 1, abs_tol=1e-9)


def test_the_maximum_entropy_fit_minimises_what_it_says():
    """Against a general solver on the primal of a tiny problem, written out from the definition."""
    domain = domain_of(2, 2, 2)
    _, data = measured(domain, 4, order=1, sigma=30.0)
    fit = fit_histogram(domain, data, 1000.0, tolerance=1e-10, steps=2000)
    assert fit.converged
    shares = [m.counts / 1000 + (1 - m.counts.sum() / 1000) / 2 for m in data]
    ridge = 0.5 * 0.03  # κ = ½ for single columns, σ/N

    def primal(logits):
        p = np.exp(logits - logits.max())
        p /= p.sum()
        table = p.reshape(domain.sizes)
        misses = sum(float(((marginal(table, m.columns) - y) ** 2).sum()) for m, y in zip(data, shares))
        return float((p * np.log(p * 8)).sum()) + misses / (2 * ridge)

    best = minimize(primal, np.zeros(8), method="BFGS", options={"gtol": 1e-9})
    assert math.isclose(primal(np.log(fit.weights)), best.fun, rel_tol=1e-7)
    assert primal(np.log(fit.weights)) <= primal(np.log(fit.weights) + 0.01 * coins(0).normal(size=8)) - 1e-7


def test_exact_marginals_are_reproduced():
    domain = domain_of(3, 2, 4, 2)
    _, data = measured(domain, 8, sigma=0.0)
    for fit in (fit_histogram(domain, data, 1000.0, steps=2000), fit_least_squares(domain, data, 1000.0, steps=20_000)):
        for m in data:
            np.testing.assert_allclose(
                marginal(fit.weights.reshape(domain.sizes), m.columns) * 1000, m.counts, atol=0.5
            )
    # The twin: the marginals of another table are not.
    other = measured(domain, 9, sigma=0.0)[0]
    assert np.abs(marginal(other, (0, 1)) - data[0].counts).max() > 5


def test_fits_help():
    """Over 20 tables the fit is nearer to the truth than the noisy marginals are, in every one."""
    domain = domain_of(3, 3, 3, 3)
    for seed in range(20):
        table, data = measured(domain, seed, sigma=12.0)
        fit = fit_histogram(domain, data, 1000.0).weights.reshape(domain.sizes) * 1000
        fitted = sum(float(((marginal(fit, m.columns) - marginal(table, m.columns)) ** 2).sum()) for m in data)
        noisy = sum(float(((m.counts - marginal(table, m.columns)) ** 2).sum()) for m in data)
        assert fitted < noisy


def test_a_warm_start_needs_fewer_evaluations_and_ends_in_the_same_place():
    domain = domain_of(3, 2, 4, 2)
    _, data = measured(domain, 2, sigma=10.0)
    first = fit_histogram(domain, data[:5], 1000.0)
    cold = fit_histogram(domain, data, 1000.0, tolerance=1e-8, steps=1000)
    warm = fit_histogram(domain, data, 1000.0, tolerance=1e-8, steps=1000, start=first.potentials)
    again = fit_histogram(domain, data, 1000.0, tolerance=1e-7, start=cold.potentials)
    np.testing.assert_allclose(warm.weights, cold.weights, atol=1e-5)
    assert again.evaluations == 1 < cold.evaluations


def test_too_few_steps_are_owned_up_to():
    domain = domain_of(4, 4, 4)
    _, data = measured(domain, 2, sigma=0.5)
    short = fit_histogram(domain, data, 1000.0, steps=3)
    assert not short.converged
    assert short.evaluations == 3
    assert short.gradient > fit_histogram(domain, data, 1000.0, steps=500).gradient
    rough = fit_least_squares(domain, data, 1000.0, steps=3)
    assert not rough.converged
    assert rough.gap > fit_least_squares(domain, data, 1000.0, steps=300).gap


def test_the_order_of_columns_and_repeated_measurements_do_not_matter():
    domain = domain_of(2, 3, 2)
    _, data = measured(domain, 3, sigma=4.0)
    turned = [Measurement(m.columns[::-1], m.counts.reshape(domain.shape(m.columns)).T.ravel(), m.sigma) for m in data]
    straight = fit_histogram(domain, data, 1000.0, tolerance=1e-9, steps=1000).weights
    np.testing.assert_allclose(fit_histogram(domain, turned, 1000.0, tolerance=1e-9, steps=1000).weights, straight)
    # Twice the same counts with √2 times the noise are once the counts.
    doubled = [Measurement(m.columns, m.counts, m.sigma * math.sqrt(2)) for m in data for _ in range(2)]
    np.testing.assert_allclose(
        fit_histogram(domain, doubled, 1000.0, tolerance=1e-9, steps=1000).weights, straight, atol=1e-7
    )


def test_parts_of_a_marginal_are_fitted():
    domain = domain_of(3, 4)
    parts = np.array([0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0])
    part = Measurement((0, 1), np.array([700.0, 300.0]), 0.5, parts=parts)
    for fit in (fit_histogram(domain, [part], 1000.0), fit_least_squares(domain, [part], 1000.0)):
        assert math.isclose(fit.weights[parts == 1].sum(), 0.3, abs_tol=2e-3)
        # Nothing was said about the cells within a part, so they stay alike.
        assert np.ptp(fit.weights[parts == 1]) < 1e-9


def test_wide_marginals_are_kept_whole_and_fitted():
    domain = domain_of(2, 2, 2, 2, 2, 2, 2)
    table = coins(0).dirichlet(np.full(128, 1.0)).reshape(domain.sizes) * 1000
    wide = Measurement(tuple(range(6)), marginal(table, tuple(range(6))), 0.01)
    fit = fit_histogram(domain, [wide, Measurement((6,), marginal(table, (6,)), 0.01)], 1000.0, steps=500)
    found = marginal(fit.weights.reshape(domain.sizes), tuple(range(6))) * 1000
    np.testing.assert_allclose(found, wide.counts, atol=0.2)


def test_nothing_measured_is_uniform():
    domain = domain_of(2, 3)
    for fit in (fit_histogram(domain, (), 5.0), fit_least_squares(domain, (), 5.0)):
        assert np.array_equal(fit.weights, np.full(6, 1 / 6))
        assert fit.converged


# The projection


@LAW
@given(st.integers(0, 999), st.floats(0.1, 3))
def test_the_gap_bounds_the_distance_to_the_exact_projection(seed, sigma):
    """The certificate against non-negative least squares with the sum as a heavy extra row."""
    domain = domain_of(3, 2, 2)
    _, data = measured(domain, seed, sigma=100 * sigma)
    near = fit_least_squares(domain, data, 1000.0, steps=40, tolerance=0.0)
    columns = np.eye(domain.cells).reshape(domain.cells, *domain.sizes)
    matrix = np.concatenate([np.stack([marginal(x, m.columns) for x in columns], axis=1) for m in data])
    shares = np.concatenate([m.counts / 1000 + (1 - m.counts.sum() / 1000) / m.counts.size for m in data])
    heavy = 1e4
    exact, _ = nnls(np.vstack([matrix, heavy * np.ones(domain.cells)]), np.append(shares, heavy))
    exact /= exact.sum()

    def loss(p):
        return 0.5 * float(((matrix @ p - shares) ** 2).sum())

    assert loss(near.weights) - loss(exact) <= near.gap + 1e-6
    assert np.linalg.norm(matrix @ (near.weights - exact)) <= near.distance + 1e-3
    assert loss(near.weights) >= loss(exact) - 1e-6


def test_the_projection_converges():
    domain = domain_of(3, 2, 4, 2)
    _, data = measured(domain, 2, sigma=20.0)
    gaps = [fit_least_squares(domain, data, 1000.0, steps=steps, tolerance=0.0).gap for steps in (20, 80, 320)]
    assert gaps[1] < gaps[0] / 4
    assert gaps[2] < gaps[1] / 4
    assert fit_least_squares(domain, data, 1000.0).converged


@LAW
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12), st.floats(0, 1e3))
def test_projection_onto_the_simplex(values, total):
    values = np.array(values)
    nearest = project_simplex(values, total)
    assert nearest.min() >= 0
    assert math.isclose(nearest.sum(), total, rel_tol=1e-9, abs_tol=1e-9)
    # Optimality: no vertex lies in the direction of steepest descent.
    slope = nearest - values
    assert float(slope @ nearest) - total * float(slope.min()) <= 1e-6 * max(1.0, total) * 1e3


def test_least_squares_on_one_marginal_is_the_projection_onto_the_simplex():
    domain, noise = domain_of(2, 3), coins(7)
    for _ in range(5):
        noisy = 100 * noise.normal(size=6) + 20
        fit = fit_least_squares(domain, [Measurement((0, 1), noisy, 1.0)], 100.0, steps=5000, tolerance=1e-10)
        np.testing.assert_allclose(fit.weights, project_simplex(noisy / 100), atol=fit.distance + 1e-9)
        assert fit.distance < 1e-3


def test_the_optimiser_on_a_narrow_valley():
    target = np.arange(1.0, 31.0)
    stretch = 10.0 ** np.linspace(0, 2, 30)
    latest = {}

    def valley(x):
        latest["x"] = x
        return 0.5 * float((stretch * (x - target) ** 2).sum()), stretch * (x - target)

    point, made = minimise(
        valley, np.zeros(30), evaluations=500, solved=lambda: float(np.abs(latest["x"] - target).max()) < 1e-8
    )
    assert made < 100  # steepest descent takes several times as many
    np.testing.assert_allclose(point, target, atol=1e-8)
    _, made = minimise(valley, np.zeros(30), evaluations=7, solved=lambda: False)
    assert made == 7


def test_measurements_that_cannot_be_fitted_are_refused():
    domain = domain_of(2, 3)
    for bad in (((0, 0), 4), ((0, 5), 4), ((0,), 3), ((0, 1), 5)):
        with pytest.raises(CannotFit):
            fit_histogram(domain, [Measurement(bad[0], np.ones(bad[1]), 1.0)], 10.0)
    for counts, sigma in ((np.array([np.nan, 1]), 1.0), (np.ones(2), -1.0), (np.ones(2), math.inf)):
        with pytest.raises(CannotFit):
            Measurement((0,), counts, sigma)
    with pytest.raises(CannotFit):
        Measurement((0,), np.ones(2), 1.0, parts=np.array([0, 2]))
    for total in (0.0, -3.0, math.nan):
        with pytest.raises(CannotFit):
            fit_histogram(domain, [Measurement((0,), np.ones(2), 1.0)], total)
    with pytest.raises(CannotFit):
        project_simplex(np.array([]), 1.0)


def _parities(strength, seed, *, sigma=20.0, rows=20_000):
    """Fair coins of which the first three are a parity, up to so much; all 3-way marginals of them with noise."""
    domain = domain_of(2, 2, 2, 2, 2)
    signs = np.array([1.0, -1.0])
    parity = signs[:, None, None] * signs[None, :, None] * signs[None, None, :]
    table = rows * np.broadcast_to((1 + strength * parity)[..., None, None], domain.sizes) / domain.cells
    noise = coins(seed)
    sets = list(combinations(range(5), 3))
    data = [Measurement(c, (y := marginal(table, c)) + sigma * noise.normal(size=y.size), sigma) for c in sets]
    return domain, table, data


@pytest.mark.parametrize("seed", range(4))
def test_a_refit_shrinks_nothing_that_stands_out(seed):
    """The ridge hides a part of a strong interaction that is many deviations of its noise; a refit brings it back."""
    domain, table, data = _parities(0.9, seed)

    def worst(refits):
        fit = fit_histogram(domain, data, 20_000.0, refits=refits, steps=500)
        off = fit.weights.reshape(domain.sizes) * 20_000 - table
        return np.abs(marginal(off, (0, 1, 2))).max()

    assert worst(3) < worst(0) / 2


def test_a_refit_leaves_noise_alone():
    """That noise stands out anywhere has a probability below 0.05 a table: of these 40, fixed, no more than 10 may."""
    changed = 0
    for seed in range(40):
        domain, _, data = _parities(0.0, seed)
        fits = [fit_histogram(domain, data, 20_000.0, refits=refits).weights for refits in (0, 1)]
        changed += not np.array_equal(*fits)
    assert changed <= 10


def test_no_answer_is_so_exact_that_it_outweighs_all_others():
    """Wide noise weighs by its deviation; noise that is hardly ever drawn by its scale, in proportion to the others."""
    for kind in ("laplace", "gaussian"):
        assert fitted_deviation(Noise(kind, 20.0)) == deviation_of(Noise(kind, 20.0))
        narrow, narrower = (fitted_deviation(Noise(kind, scale)) for scale in (1e-3, 1e-4))
        assert narrow / narrower == pytest.approx(10)
