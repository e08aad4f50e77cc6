"""What mechanisms expect of themselves: brute force on tiny universes, the laws of a claim, and the planner's order."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.made import claimed
from tests.reference import truth_table

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.mechanisms.choosing import make
from conspectus.mechanisms.mechanism import Claim, expected_size
from conspectus.mechanisms.typical.expectations import TAIL
from conspectus.mechanisms.typical.interactions import Errors, Interactions
from conspectus.privacy.guarantee import Budget
from conspectus.queries.workload import Workload
from conspectus.releases.planning import problem_of

LAW = settings(max_examples=25, deadline=None)
PLAYERS = ("laplace", "gaussian", "mwem", "projection", "boosting")


def schema_of(*sizes, neighbours="replace"):
    columns = {f"c{i}": {"type": "integer", "min": 0, "max": size - 1} for i, size in enumerate(sizes)}
    return cs.Schema.from_dict({"name": "made", "neighbours": neighbours, "columns": columns})


def marginals_of(schema, sets):
    blocks = [cs.marginal(schema, [f"c{i}" for i in columns]).blocks[0] for columns in sets]
    return Workload(schema.domain, tuple(blocks))


overlapping = st.lists(st.integers(1, 3), min_size=2, max_size=4).flatmap(
    lambda sizes: st.tuples(
        st.just(sizes),
        st.sets(st.sampled_from([c for k in (1, 2, 3) for c in combinations(range(len(sizes)), k)]), min_size=1),
    )
)


@LAW
@given(overlapping)
def test_what_least_squares_leaves_is_exact(made):
    """The variance of each answer is the diagonal of the projection onto the space of possible answers."""
    sizes, sets = made
    workload = marginals_of(schema_of(*sizes), sorted(sets))
    a = truth_table(workload).T.astype(float)
    moving = a - a.mean(axis=1, keepdims=True)  # the total is known
    brute = np.diag(moving @ np.linalg.pinv(moving))
    errors = Interactions.of(workload).least_squares(2.0)
    found = np.repeat(errors.deviations, errors.volumes.astype(int)) ** 2
    np.testing.assert_allclose(found, 4 * brute, atol=1e-9)


def test_the_average_over_all_marginals_would_be_wrong_for_some():
    """A marginal that overlaps with none keeps its noise: the number of dimensions alone does not say so."""
    workload = marginals_of(schema_of(2, 2, 2, 2, 2), [(0, 1), (0, 2), (1, 2), (3, 4)])
    alone, crowded = (Interactions.of(workload).least_squares(1.0).deviations[i] for i in (3, 0))
    assert alone == pytest.approx(math.sqrt(3 / 4))
    assert crowded == pytest.approx(math.sqrt((1 + 1 / 2 + 1 / 2) / 4))


@LAW
@given(overlapping, st.floats(1e-4, 0.1), st.floats(1.1, 10))
def test_a_fit_never_expects_more_than_least_squares_nor_less_for_more_noise(made, noise, factor):
    sizes, sets = made
    interactions = Interactions.of(marginals_of(schema_of(*sizes), sorted(sets)))
    fitted = interactions.fitted(noise).deviations
    assert (fitted <= interactions.least_squares(noise).deviations * (1 + 1e-9)).all()
    assert (fitted <= interactions.fitted(factor * noise).deviations * (1 + 1e-9)).all()
    # What is not measured is no better known for it, and a choice leaves the smaller half.
    half = [interactions.fitted(noise, share=0.5, chosen=chosen).deviations for chosen in (True, False)]
    assert (half[0] <= half[1] * (1 + 1e-9)).all()


def test_the_largest_of_many_errors():
    """The mean of 4,000 maxima has a deviation of about 0.01 of 4.36; Gumbel's law is within a twentieth."""
    volumes, deviations = np.array([200.0, 20.0]), np.array([1.0, 2.0])
    rng = np.random.Generator(np.random.PCG64(1))
    each = np.repeat(deviations, [200, 20])
    errors = Errors(deviations=deviations, volumes=volumes, unshrunk=deviations)
    gaussian = np.abs(rng.normal(size=(4000, 220)) * each).max(axis=1).mean()
    assert gaussian == pytest.approx(errors.largest / TAIL, rel=0.05)
    laplace = np.abs(rng.laplace(scale=math.sqrt(1 / 2), size=(4000, 220)) * each).max(axis=1).mean()
    assert laplace == pytest.approx(replace(errors, own=1.0, kind="laplace").largest, rel=0.05)
    assert replace(errors, deviations=np.ones(2)).mean == pytest.approx(math.sqrt(2 / math.pi))


@pytest.mark.parametrize("rows", [1_000, 10**6, 10**12])
def test_noise_whose_square_is_no_float_is_planned_for(rows):
    """Discrete noise far narrower than a count has a deviation near 0, whose square is 0."""
    schema = schema_of(2, 2)
    for rho in np.linspace(1_300, 1_900, 25):
        plan = cs.plan(schema, cs.marginals(schema, 2), rows=rows, rho=float(rho))
        assert "projection" in {claim.mechanism for claim in plan.claims}


def test_a_ridge_takes_errors_from_small_cells_and_leaves_large_ones():
    """Of a whole table the largest error is that of its noise, however small the others are."""
    one = Interactions.of(marginals_of(schema_of(4, 4, 4, 4), [(0, 1, 2, 3)]))
    plain, fitted = one.least_squares(0.05), one.fitted(0.05)
    assert fitted.mean < 0.3 * plain.mean
    assert 0.8 * plain.largest < fitted.largest <= plain.largest
    assert one.fitted(0.05, kind="laplace").largest > 1.3 * fitted.largest
    # Where many marginals say the same of a cell, little of its error is its own noise.
    many = Interactions.of(marginals_of(schema_of(*(2,) * 12), list(combinations(range(12), 3))))
    assert many.least_squares(0.05).own < 0.3


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_projections_claim_against_many_releases(neighbours):
    """60 releases of 30 answers with 14 dimensions: the mean error has a relative deviation of about 0.026, so that it
    leaves 0.8 to 1.2 of the claim, were that exact, with a probability below 1e-6. Noise that does not know of the
    overlaps, the wrong twin, is expected to be √(30/14) as large. The mean of the largest is about 0.84 of its claim,
    which is for less even tables, with a deviation of 0.025: five and more from either end."""
    schema = schema_of(2, 2, 3, 2, neighbours=neighbours)
    rng = np.random.Generator(np.random.PCG64(3))
    rows = 40_000
    data = {f"c{i}": rng.integers(0, size, rows) for i, size in enumerate(schema.domain.sizes)}
    table = cs.open_table(pa.table(data), schema)
    workload = cs.marginals(schema, 2)
    counts, _ = count(workload, table.chunks())
    errors = []
    for _ in range(60):
        release = cs.release(table, workload, epsilon=1, delta=1e-6, mechanism="projection", rows=rows)
        errors.append(np.abs(release.answers - counts / rows) * rows)
    claim = release.claim
    assert 0.8 < np.mean(errors) / claim.expected_mean < 1.2
    assert 0.7 < np.mean(np.max(errors, axis=1)) / claim.expected_max < 1.2
    budget = Budget(epsilon=1.0, delta=1e-6)
    problem = problem_of(schema, workload, budget=budget, neighbours=None, rows=rows)
    twin = expected_size(problem.law(problem.sensitivity(workload), problem.cap))
    assert np.mean(errors) / twin < 0.8


def claims(schema, workload, rows, *, neighbours="replace", **budget):
    problem = problem_of(schema, workload, budget=Budget(**budget), neighbours=neighbours, rows=rows)
    said = {name: claimed(make(name, {}), problem) for name in PLAYERS}
    return {name: claim.expected_max / rows for name, claim in said.items() if isinstance(claim, Claim)}


WORKLOADS = {
    "marginals": lambda schema: cs.marginals(schema, 3),
    "pairs": lambda schema: cs.marginals(schema, 2),
    "conjunctions": lambda schema: cs.random_conjunctions(schema, 3, 60, 1),
}


@LAW
@given(
    st.sampled_from(sorted(WORKLOADS)),
    st.sampled_from(["replace", "add-remove"]),
    st.sampled_from([0.0, 1e-6]),
    st.integers(100, 200_000),
    st.floats(0.1, 4),
    st.floats(1.2, 10),
)
def test_more_rows_and_a_larger_budget_are_never_expected_to_hurt(kind, neighbours, delta, rows, epsilon, factor):
    schema = schema_of(2, 2, 3, 2, 2, 4)
    workload = WORKLOADS[kind](schema)
    given_facts = {"neighbours": neighbours, "delta": delta}
    first = claims(schema, workload, rows, epsilon=epsilon, **given_facts)
    larger = claims(schema, workload, int(rows * factor), epsilon=epsilon, **given_facts)
    dearer = claims(schema, workload, rows, epsilon=epsilon * factor, **given_facts)
    for name, error in first.items():
        assert larger[name] <= error * (1 + 1e-9), name
        assert dearer[name] <= error * (1 + 1e-9), name


def bits(columns=16):
    return cs.Schema.from_dict({"name": "bits", "columns": {f"b{i}": {"type": "boolean"} for i in range(columns)}})


def some_marginals(schema, width, number):
    every = cs.marginals(schema, width)
    chosen = np.random.Generator(np.random.PCG64(1)).permutation(len(every.blocks))[:number]
    return Workload(every.domain, tuple(every.blocks[i] for i in sorted(chosen)))


@pytest.mark.parametrize("number", [32, 312, 3125])
def test_overlapping_marginals_go_to_a_fit_of_all_or_many(number):
    """Those that measure a few of them leave the others to guesswork, and noise on everything grows with their root."""
    schema = bits()
    found = claims(schema, some_marginals(schema, 5, number), 20_000, epsilon=1.0, delta=1e-6)
    fits = min(found["projection"], found["boosting"])
    assert fits < min(found["mwem"], found["gaussian"], found["laplace"])
    assert found["projection"] < 1.05 * fits


def test_where_every_part_of_a_pure_budget_counts_few_marginals_are_chosen():
    schema = bits()
    found = claims(schema, cs.marginals(schema, 3), 20_000, epsilon=1.0)
    assert min(found, key=found.get) == "mwem"


def test_few_questions_go_to_noise_and_more_never_expect_less():
    schema = bits()
    one = claims(schema, cs.marginal(schema, ["b0"]), 20_000, epsilon=1.0, delta=1e-6)
    assert min(one["laplace"], one["gaussian"]) <= 1.1 * min(one.values())
    sizes = [claims(schema, some_marginals(schema, 5, k), 20_000, epsilon=1.0, delta=1e-6) for k in (3, 32, 312)]
    for name in ("gaussian", "projection", "mwem"):
        assert sorted(found[name] for found in sizes) == [found[name] for found in sizes]
