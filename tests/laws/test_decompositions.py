"""An answer that was not measured itself takes the decomposition of least variance, and its interval holds."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from tests.made import people, truth

import conspectus as cs
from conspectus.counting.evaluation import indicator
from conspectus.data.domain import Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.mixed_noise import mixed_margin
from conspectus.privacy.tails import gaussian_tail, laplace_tail, variance_of
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.formulas import all_of, any_of, literal, predicate
from conspectus.queries.query import Predicate
from conspectus.queries.workload import Workload
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.pooled_marginals import PooledSum
from conspectus.synopses.synopsis import CannotAnswer, Total

ALPHA = 1e-6


def law_of(law: Noise, reach: int) -> np.ndarray:
    """The probabilities of −reach to reach."""
    tail = laplace_tail if law.kind == "laplace" else gaussian_tail
    beyond = np.array([tail(law.scale, t) for t in range(-1, reach + 1)])
    side = np.diff(-beyond)  # P(|Z| = t)
    return np.concatenate([side[:0:-1] / 2, side[:1], side[1:] / 2])


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(
    "terms",
    [
        [("laplace", 2.0, 1.0, 1), ("laplace", 2.0, 0.25, 3)],
        [("gaussian", 3.0, 1.0, 2), ("gaussian", 3.0, 0.5, 2)],
        [("laplace", 1.5, 1.0, 1), ("gaussian", 4.0, 0.5, 2)],
        [("gaussian", 0.4, 1.0, 1), ("gaussian", 0.4, 0.5, 3)],
        [("laplace", 0.2, 1.0, 1), ("laplace", 0.2, 0.25, 1)],
        [("laplace", 3.0, 1.0, 1), ("laplace", 3.0, 0.01, 40)],
    ],
)
def test_margins_of_weighted_sums_hold_and_are_hardly_too_wide(terms, confidence) -> None:
    """By convolution on the lattice of the weights."""
    unit = min(weight for _, _, weight, _ in terms)
    whole = np.ones(1)
    for kind, scale, weight, times in terms:
        step, single = round(weight / unit), law_of(Noise(kind, scale), math.ceil(45 * scale) + 3)
        spaced = np.zeros((len(single) - 1) * step + 1)
        spaced[::step] = single
        for _ in range(times):
            whole = np.convolve(whole, spaced)
    sizes = np.abs(np.arange(len(whole)) - len(whole) // 2) * unit
    given = tuple((Noise(kind, scale), weight, times) for kind, scale, weight, times in terms)
    margin = mixed_margin(given, confidence)
    assert whole[sizes > margin + 1e-12].sum() <= 1 - confidence
    deviation = math.sqrt(sum(variance_of(law) * weight**2 * times for law, weight, times in given))
    least = next(t for t in np.unique(sizes) if whole[sizes > t + 1e-12].sum() <= 1 - confidence)
    assert margin <= max(least + 0.1 * deviation + unit, 1.0)


def test_many_different_weights_are_put_into_classes() -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    weights = np.round(rng.pareto(1.5, 900) * 1e-3 + 1e-6, 9)
    terms = tuple((Noise("laplace", 40.0), float(weight), 1) for weight in np.unique(weights))
    draws = rng.laplace(scale=40.0, size=(20_000, len(terms))) @ np.array([weight for _, weight, _ in terms])
    for confidence in (0.8, 0.95):
        margin = mixed_margin(terms, confidence)
        assert binom.ppf(ALPHA, len(draws), confidence) <= (np.abs(draws) <= margin).sum()
        assert margin <= 1.08 * np.quantile(np.abs(draws), confidence)


def test_noise_far_narrower_than_a_step_leaves_one_step() -> None:
    """At large ε most noises are 0. The grid of the sum then goes by the step, not by a deviation of nearly 0."""
    for scale, most in ((0.02, 1.0), (0.2, 2.0)):
        terms = tuple((Noise("laplace", scale), weight / 100, 1) for weight in range(1, 101))
        rng = np.random.Generator(np.random.PCG64(5))
        noise = rng.geometric(-math.expm1(-1 / scale), (2, 40_000, 100))
        draws = np.abs((noise[0] - noise[1]) @ (np.arange(1, 101) / 100))
        margin = mixed_margin(terms, 0.95)
        assert 1.0 <= margin <= most
        assert binom.ppf(ALPHA, len(draws), 0.95) <= (draws <= margin).sum()


SIZES = (2, 3, 2)
DOMAIN = Domain(("y", "a", "b"), SIZES)
SETS = [columns for k in (1, 2, 3) for columns in itertools.combinations(range(3), k)]
CELLS = list(itertools.product(*map(range, SIZES)))
LITERALS = st.integers(0, 2).flatmap(
    lambda c: st.sets(st.integers(0, SIZES[c] - 1), min_size=1).map(lambda codes: literal(DOMAIN, c, codes))
)
FORMULAS = st.recursive(
    LITERALS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: all_of(DOMAIN, parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: any_of(DOMAIN, parts)),
    ),
    max_leaves=5,
)
QUERIES = FORMULAS.map(lambda formula: predicate(DOMAIN, formula))
MEASURED = st.lists(st.tuples(st.sampled_from(SETS), st.sampled_from([1.0, 2.0, 9.0])), min_size=1, max_size=5)


def on_cells(query: Predicate) -> np.ndarray:
    columns, inside = indicator(query, DOMAIN)
    return np.array([inside[tuple(cell[c] for c in columns)] for cell in CELLS], dtype=float)


def noisy(measured, *, exact: bool, counts=None) -> NoisyAnswers:
    sets = dict(measured) if exact else {(): 1.0, **dict(measured)}  # a private total is measured, too
    workload = Workload(DOMAIN, tuple(Marginal(DOMAIN, columns) for columns in sets))
    values = np.zeros(len(workload)) if counts is None else counts
    total = (
        Total(value=60.0, exact=True) if exact else Total(value=60.0, exact=False, kind="laplace", scale=1.0, terms=1)
    )
    return NoisyAnswers(DOMAIN, workload, values, tuple(Noise("laplace", scale) for scale in sets.values()), total)


def least_variance(held: NoisyAnswers, query: Predicate) -> float:
    """Over all linear combinations of measured cells, and of the total where it is public: by linear algebra."""
    lines = np.array([on_cells(cell) for cell in held.workload.queries()])
    noise = [law for law, block in zip(held.noise, held.workload.blocks) for _ in range(len(block))]
    deviations = np.sqrt([variance_of(law) for law in noise])
    target = on_cells(query)
    if held.total.exact:  # free: only what is left of its direction has to be paid for
        lines, target = lines - lines.mean(axis=1, keepdims=True), target - target.mean()
    scaled = (lines / deviations[:, None]).T
    found = np.linalg.pinv(scaled, rcond=1e-10) @ target
    if np.abs(scaled @ found - target).max() > 1e-8:
        return math.inf
    return float(found @ found)


@settings(max_examples=120, deadline=None)
@given(MEASURED, QUERIES, QUERIES, st.booleans())
def test_no_combination_of_measured_cells_has_a_smaller_variance(measured, query, other, exact) -> None:
    held = noisy(measured, exact=exact)
    best = least_variance(held, query)
    try:
        found = held.best_for(query)
    except CannotAnswer:
        assert best == math.inf or not query.columns
        return
    own, sums = held._ways(query)
    if own:  # what was measured is answered as it was measured
        assert found in own
        return
    assert found.variance <= best * (1 + 1e-6) + 1e-9
    assert all(found.variance <= way.variance * (1 + 1e-9) for way in sums)
    # Inclusion and exclusion, and complements, by plain sums: p = (p and r) + (p and not r) = all − (not p), and so on.
    boxes = [any_of(DOMAIN, [all_of(DOMAIN, box) for box in each.boxes]) for each in (query, other)]
    both, either = predicate(DOMAIN, all_of(DOMAIN, boxes)), predicate(DOMAIN, any_of(DOMAIN, boxes))
    try:
        parts = [held.sum_for(each) for each in (both, either, other)]
    except CannotAnswer:
        return
    assert found.variance <= sum(part.variance for part in parts) * (1 + 1e-9) + 1e-9


@settings(max_examples=100, deadline=None)
@given(MEASURED, QUERIES, st.booleans(), st.integers(0, 10**6))
def test_pooled_estimates_are_right_without_noise_and_know_their_noise(measured, query, exact, seed) -> None:
    rng = np.random.Generator(np.random.PCG64(seed))
    table = rng.multinomial(60, rng.dirichlet(np.ones(len(CELLS))))
    held = noisy(measured, exact=exact)
    lines = np.array([on_cells(cell) for cell in held.workload.queries()])
    held = dataclasses.replace(held, counts=lines @ table)
    found = held._pool.find(query)
    if found is None:
        return
    assert found.count == pytest.approx(float(on_cells(query) @ table), abs=1e-8)
    terms = found.pool.terms(query, found.parts)
    spread = sum(variance_of(law) * weight**2 * times for law, weight, times in terms)
    assert spread == pytest.approx(found.variance, rel=1e-6, abs=1e-9)
    for columns in SETS:
        cells = held._pool.table(columns)
        if cells is not None:
            block = Workload(DOMAIN, (Marginal(DOMAIN, columns),))
            each = [held._pool.find(cell).count for cell in block.queries()]
            np.testing.assert_allclose(cells.ravel(), each, atol=1e-8)


def test_all_but_a_few_is_not_a_sum_of_hundreds() -> None:
    """The shape of a real table: y AND NOT (a AND b) from all three-way marginals, where a and b have many values."""
    sizes = {"y": 2, "a": 15, "b": 24, "c": 3, "d": 5}
    columns = {name: {"type": "integer", "min": 0, "max": size - 1} for name, size in sizes.items()}
    schema = cs.Schema.from_dict({"name": "wide", "neighbours": "replace", "columns": columns})
    rng = np.random.Generator(np.random.PCG64(5))
    rows = {name: (rng.beta(1, 4, 30_000) * size).astype(np.int64) for name, size in sizes.items()}
    table = cs.open_table(pa.table(rows), schema)
    question = "y = 1 AND NOT (a = 2 AND b = 3)"
    asked = cs.sql(schema, [question])
    (exact,), n = truth(table, asked)
    release = cs.release(table, cs.marginals(schema, 3), epsilon=1.0, delta=1e-6, mechanism="gaussian")
    held = release.synopsis
    assert isinstance(held.best_for(asked.query(0)), PooledSum)
    cell = variance_of(held.noise[0])
    assert held.sum_for(asked.query(0)).variance > 300 * cell
    assert held.best_for(asked.query(0)).variance < 5 * cell
    answer = release.ask(question)
    assert abs(answer.count - exact) < 6 * math.sqrt(5 * cell)
    assert (answer.high - answer.low) * n < 2 * 2.2 * math.sqrt(5 * cell)


@pytest.mark.parametrize(("mechanism", "neighbours"), [("laplace", "replace"), ("gaussian", "add-remove")])
def test_pooled_intervals_hold_as_often_as_they_say(mechanism: str, neighbours: str) -> None:
    schema, table = people(500, neighbours=neighbours)
    questions = ["smoker AND NOT (ill AND region = 'north')", "age < 42 OR ill", "NOT (smoker AND age >= 66)"]
    asked = cs.sql(schema, questions)
    exact, rows = truth(table, asked)
    times, held = 40, 0
    for _ in range(times):
        release = cs.release(table, cs.marginals(schema, 3), epsilon=1.0, delta=1e-6, mechanism=mechanism)
        for question, count in zip(questions, exact):
            answer = release.ask(question, confidence=0.8)
            held += answer.low <= count / rows <= answer.high
    # Answers of one release share noise: as if only every third were independent.
    assert held / (3 * times) >= binom.ppf(ALPHA, times, 0.8) / times
