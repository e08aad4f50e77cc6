"""Random projections: an exactly independent hash, sensitivities that are reached, honest intervals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm
from tests.made import people, truth
from tests.reference import polynomial_at

import conspectus as cs
from conspectus.audit.keys_and_projections import column, opposed
from conspectus.counting.counters import counter_of
from conspectus.data.domain import RECORDS, Domain
from conspectus.data.records.field import P
from conspectus.data.records.fingerprints import fingerprints
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.settings import SettingError
from conspectus.mechanisms.sparse_project.theorem import theorem_independence, theorem_size
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Relation
from conspectus.privacy.tails import moments_of, weighted_quantile
from conspectus.queries.blocks.sparse_projection import SparseProjection
from conspectus.queries.hashing import SIGNS, polynomials, value_at
from conspectus.queries.sensitivity import WorkloadError
from conspectus.synopses.random_projection import RandomProjection
from conspectus.synopses.synopsis import BadSynopsis, CannotAnswer, Total, load_synopsis

ALPHA = 1e-6
FIVE = norm.isf(ALPHA / 2)


@pytest.mark.parametrize(("field", "r"), [(5, 2), (7, 2), (5, 3), (7, 3), (3, 3)])
def test_polynomials_are_exactly_r_wise_independent(field, r):
    """Over all p^r polynomials of degree below r, the values at any r points are each tuple exactly once."""
    family = list(itertools.product(range(field), repeat=r))
    for points in itertools.combinations(range(field), r):
        values = [tuple(polynomial_at(each, point, field) for point in points) for each in family]
        assert len(set(values)) == len(family)
    if r < field:  # one degree less is not enough, and the test sees it
        fewer = [(0, *each) for each in itertools.product(range(field), repeat=r - 1)]
        values = {tuple(polynomial_at(each, point, field) for point in range(r)) for each in fewer}
        assert len(values) < field**r


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, P - 1), st.integers(0, P - 1)), min_size=1, max_size=5, unique_by=lambda x: x[0])
)
def test_the_kernel_takes_any_values_at_any_points(pairs):
    """The one polynomial through r given values, by Lagrange in Python's integers: a bijection in the true field."""
    points = [point for point, _ in pairs]
    coefficients = [0] * len(pairs)
    for place, (point, value) in enumerate(pairs):
        basis, scale = [1], value
        for other in points[:place] + points[place + 1 :]:
            basis = [(a - other * b) % P for a, b in zip([*basis, 0], [0, *basis])]
            scale = scale * pow(point - other, -1, P) % P
        coefficients = [(c + scale * b) % P for c, b in zip(coefficients, basis)]
    found = [value_at(np.array(coefficients, dtype=np.uint64), np.uint64(point)) for point in points]
    assert found == [value for _, value in pairs]


def test_coefficients_come_from_the_seed_alone():
    first = polynomials(5, 3, 4)
    assert first.shape == (3, 4)
    assert np.array_equal(polynomials(5, 6, 4)[:3], first)
    assert not np.array_equal(polynomials(6, 3, 4), first)
    many = polynomials(1, 1000, 20).astype(float) / P
    assert abs(many.mean() - 0.5) < FIVE / math.sqrt(12 * many.size)


SHAPES = [(40, 40), (40, 1), (40, 4)]


@pytest.mark.parametrize(("size", "s"), SHAPES)
def test_columns_have_one_sign_in_each_block(size, s):
    projection = SparseProjection(RECORDS, size, s, 4, 11)
    places = fingerprints(np.arange(50))
    columns = np.stack([column(projection, int(place)) for place in places])
    blocks = columns.reshape(50, s, size // s)
    assert (np.abs(blocks).sum(axis=2) == 1).all()
    weights = np.arange(50)
    sums = np.zeros(size, dtype=np.int64)
    projection.add(places, weights, sums)
    assert np.array_equal(sums, weights @ columns)
    vector = np.random.default_rng(1).normal(size=size)
    assert np.allclose(projection.dot(places, vector), columns @ vector / s)
    if not projection.dense:
        for block in range(s):
            mine = slice(block * size // s, (block + 1) * size // s)
            assert np.allclose(projection.dot_section(block, places, vector), columns[:, mine] @ vector[mine])
    else:
        with pytest.raises(WorkloadError):
            projection.dot_section(0, places, vector)
        values = np.array([value_at(projection._coefficients[1], place) for place in places], dtype=np.uint64)
        assert np.array_equal(columns[:, SIGNS], 1 - 2 * (values & np.uint64(1)).astype(np.int64))


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize(("size", "s"), [(6, 6), (6, 1), (6, 2)])
def test_sensitivities_bound_all_records_and_are_reached(size, s, neighbours):
    projection = opposed(size, s)
    far = projection.sensitivity(Relation(neighbours, 1, True))
    columns = [column(projection, place) for place in (0, 1)]
    apart = columns[0] - columns[1] if neighbours == "replace" else columns[0]
    assert (np.abs(apart).sum(), (apart**2).sum(), np.abs(apart).max()) == (far.l1, far.l2_squared, far.linf)
    wide = SparseProjection(RECORDS, size, s, 4, 3)
    many = np.stack([column(wide, int(place)) for place in fingerprints(np.arange(60))])
    moves = (many[:, None] - many[None]).reshape(-1, size) if neighbours == "replace" else many
    assert np.abs(moves).sum(1).max() <= far.l1
    assert (moves**2).sum(1).max() <= far.l2_squared
    three = projection.sensitivity(Relation(neighbours, 3, False))
    assert (three.l1, three.l2_squared, three.linf) == (3 * far.l1, 9 * far.l2_squared, 3 * far.linf)


@pytest.mark.parametrize(
    "bad", [(0, 1, 4), (10, 3, 4), (10, 11, 4), (10, 5, 0), (10, 5, 10**9), (1 << 30, 1, 4), (4.0, 1, 4)]
)
def test_impossible_projections_are_refused(bad):
    with pytest.raises(WorkloadError):
        SparseProjection(RECORDS, *bad, 0)


def exact_synopsis(rows, size, s, seed):
    table = cs.open_records(rows)
    projection = SparseProjection(RECORDS, size, s, 4, seed)
    counter = counter_of(projection)
    for chunk in table.chunks():
        counter.add(chunk)
    total = Total(value=float(len(rows)), exact=True)
    return RandomProjection(RECORDS, projection, counter.counts(), Noise("laplace", 1e-9), total)


@pytest.mark.parametrize(("size", "s"), [(64, 64), (64, 1), (64, 4)])
def test_answers_are_unbiased_with_the_stated_variance(size, s):
    """Over 600 hashes: the mean within five deviations, the variance within a third of (‖w‖²F + (w·c)² − 2Σw²c²)/T."""
    rows = [1] * 30 + [2] * 20 + list(range(3, 43))
    mapping = {1: 0.5, 3: 1, 4: 1, "absent": 1}
    workload = cs.sparse([mapping])
    found = np.array([exact_synopsis(rows, size, s, seed).answer(workload)[0] * len(rows) for seed in range(600)])
    counts = np.array([30, 20] + [1] * 40 + [0])
    weights = np.array([0.5, 0, 1, 1] + [0] * 38 + [1])
    inner, square = float(weights @ counts), float(weights @ weights)
    variance = (square * float(counts @ counts) + inner**2 - 2 * float((weights * counts) @ (weights * counts))) / size
    assert abs(found.mean() - inner) < FIVE * math.sqrt(variance / len(found))
    assert abs(found.var() / variance - 1) < 1 / 3


@pytest.mark.parametrize(
    "settings_",
    [
        {"size": 4096, "nonzeros": 1},
        {"size": 256, "form": "dense"},
        {"size": 4096, "nonzeros": 4},
        {"size": 4096, "nonzeros": 5},
        {"size": 60, "nonzeros": 3},
    ],
)
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_intervals_cover_on_either_side(settings_, neighbours):
    """Each end holds with probability 0.9 at least (binomial quantile, ALPHA); without the distortion's part they would
    not: on a table with one heavy record, noise alone explains too little."""
    rows = ["heavy"] * 3000 + list(range(800))
    absent = [f"absent {i}" for i in range(10)]
    questions = cs.sparse([list(range(40)), ["heavy"], absent, {1: 0.3, 2: 1, "heavy": 0.5}])
    counts, n = truth(cs.open_records(rows), questions)
    exact = counts / questions.grid / n
    budget = {"epsilon": 2.0, "delta": 1e-6, "mechanism": "sparse-project", "neighbours": neighbours}
    low = high = bare = trials = 0
    for _ in range(25):
        release = cs.release(cs.open_records(rows), questions, **budget, **settings_)
        for place in range(len(questions)):
            answer = release.ask(questions[place], confidence=0.9)
            low += answer.low <= exact[place]
            high += answer.high >= exact[place]
            trials += 1
            if place == 0:
                error = abs(answer.count - exact[place] * release.total.divisor)
                bare += error <= FIVE * release.parameters["scale"] * math.sqrt(40 / release.parameters["nonzeros"])
    assert min(low, high) >= binom.ppf(ALPHA, trials, 0.9)
    if "form" in settings_:
        assert bare < binom.ppf(ALPHA, 25, 0.9)


def test_intervals_are_not_vacuous():
    rows = list(range(20_000))
    release = cs.release(cs.open_records(rows), cs.sparse([list(range(100))]), epsilon=1.0, mechanism="sparse-project")
    answer = release.ask(cs.sparse([list(range(100))]))
    assert (answer.high - answer.low) * 20_000 < 2 * 75  # noise alone: ±1.96·2.83·√100 = 55
    assert answer.basis == "guessed"
    careless = cs.release(
        cs.open_records(rows), cs.sparse([[1]]), epsilon=1.0, mechanism="sparse-project", independence=2, size=1024
    )
    assert careless.ask(cs.sparse([[1]])).basis == "unguaranteed"


@pytest.mark.parametrize("m", [30, 300])
@pytest.mark.parametrize(("s", "widest"), [(1, 1.8), (5, 2.0)])
def test_intervals_of_rare_records_are_hardly_wider_than_the_noise(m, s, widest):
    """40 hashes and noises: 95 % are covered (binomial quantile, ALPHA), and the width is at most this many times that
    of the noise alone, 1.96 deviations of a mean."""
    rows, law, rng = 4000, Noise("laplace", 2.0 * s), np.random.default_rng(m)
    size = s * 1024 * math.ceil(math.sqrt(m) * rows / 2.83 / 1024)
    records, stop = fingerprints(np.arange(rows)), -math.expm1(-1 / law.scale)
    covered, widths = 0, []
    for seed in range(40):
        projection = SparseProjection(RECORDS, size, s, 4, seed)
        sums = rng.geometric(stop, size) - rng.geometric(stop, size)
        projection.add(records, np.ones(rows, dtype=np.int64), sums)
        total = Total(value=float(rows), exact=True)
        synopsis = RandomProjection(RECORDS, projection, sums, law, total, "median" if s > 1 else "mean")
        count, half = synopsis.interval(cs.sparse([list(range(m))]), 0.95)
        covered += abs(count - m) <= half
        widths.append(half)
    assert covered >= binom.ppf(ALPHA, 40, 0.95)
    assert np.median(widths) <= widest * 1.96 * math.sqrt(moments_of(law)[0] * m / s)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_the_noise_is_the_stated_one(form, neighbours, noise):
    """The mean square of 4,096 coordinates of an empty projection within 5.5 deviations of the law's variance. Squares
    of Laplace noise are skewed (0.1 in their mean): it is beyond that once in three million runs."""
    size = 4096
    rows = cs.open_records(["a", "b"])
    asked = cs.sparse([["a"]])
    budget = {"epsilon": 1.0, "delta": 1e-6, "neighbours": neighbours}
    release = cs.release(rows, asked, mechanism="sparse-project", form=form, size=size, noise=noise, **budget)
    law = release.synopsis.noise
    second, fourth = moments_of(law)
    found = float(np.square(release.synopsis.values.astype(float)).mean())
    assert abs(found - second) < 5.5 * math.sqrt((fourth - second**2) / size) + 4
    far = 2 if neighbours == "replace" else 1
    if noise == "gaussian":
        rho = release.guarantee.rho
        assert rho is not None
        s = size if form == "dense" else 1
        least = far * math.sqrt(s / (2 * rho))
        assert least * 0.97 <= law.scale <= least * 1.05
    assert law.kind == noise
    assert release.guarantee.epsilon <= 1 + 1e-9


def test_gaussian_noise_on_an_answer_does_not_grow_with_the_coordinates():
    rows, asked = cs.open_records(list(range(100))), cs.sparse([[1]])
    deviations = []
    for size in (64, 1024):
        release = cs.release(rows, asked, rho=0.1, mechanism="sparse-project", form="dense", size=size)
        deviations.append(release.parameters["scale"] / math.sqrt(size))
    assert deviations[0] == pytest.approx(deviations[1])


def test_the_default_keeps_the_worst_distortion_below_the_noise():
    schema = cs.open_records([0]).schema
    for m in (1, 100):
        plan = cs.plan(schema, cs.sparse([list(range(m))]), rows=100_000, epsilon=1.0, delta=1e-6)
        claim = next(claim for claim in plan.claims if claim.mechanism == "sparse-project")
        size = int(claim.notes[0].split(" ")[0].replace(",", ""))
        sigma = float(claim.notes[0].split("deviation ")[1].split("·")[0])
        assert m * 100_000 / size <= sigma * math.sqrt(m) * 1.001
        assert "sparse, 1 non-zeros" in claim.notes[0]


def test_the_papers_values():
    """INVENTORY A.2: T from ς for (n, m, k, β) = (100, 10, 1000, 0.05) and (1000, 1000, 1000, 0.05)."""
    assert theorem_size(100, 10, 1000) == pytest.approx(4.634e11, rel=1e-3)
    assert theorem_size(1000, 1000, 1000) == pytest.approx(4.634e13, rel=1e-3)
    assert theorem_independence(4096, 1000) >= 2 * math.log2(4096 * 1000 / 0.1)
    table, asked = cs.open_records(list(range(100))), cs.sparse([list(range(10))] * 1)
    with pytest.raises(NoMechanism, match=r"coordinates .limit"):
        cs.release(table, asked, epsilon=1, delta=1e-6, mechanism="sparse-project", paper=True)
    single = cs.release(cs.open_records([1]), cs.sparse([[1]]), rho=1.0, mechanism="sparse-project", paper=True)
    assert single.parameters["size"] == single.parameters["nonzeros"] == theorem_size(1, 1, 1)


@pytest.mark.parametrize(("neighbours", "moved"), [("replace", 2), ("add-remove", 1)])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
def test_the_papers_noise_is_that_of_algorithm_2(neighbours, moved, delta):
    """√(8T ln(1/δ))/ε on sums of signs, T/ε where δ is 0, twice where rows are replaced; Gaussian noise is smaller."""
    table, asked = cs.open_records([1]), cs.sparse([[1]])
    told = {"epsilon": 1.0, "delta": delta, "neighbours": neighbours, "rows": 1, "mechanism": "sparse-project"}
    release = cs.release(table, asked, paper=True, **told)
    size, law = theorem_size(1, 1, 1), release.synopsis.noise
    share = 1.0 if neighbours == "replace" else 0.98  # the row total takes a share where it is private
    assert law.kind == "laplace"
    wanted = moved * math.sqrt(8 * size * math.log(1 / delta)) if delta else moved * size / share
    assert law.scale == pytest.approx(wanted, rel=0.02)
    assert any("√(8T ln(1/δ))/ε" in note for note in release.claim.notes) == (delta > 0)
    assert release.guarantee.epsilon <= 1
    if delta:
        assert cs.release(table, asked, form="dense", size=size, **told).synopsis.noise.kind == "gaussian"


def test_the_papers_noise_for_a_budget_without_epsilon_is_laplace_too():
    release = cs.release(cs.open_records([1]), cs.sparse([[1]]), rho=1.0, mechanism="sparse-project", paper=True)
    assert release.synopsis.noise.kind == "laplace"
    assert any("as much as the budget's ρ allows" in note for note in release.claim.notes)


def test_the_papers_noise_never_costs_more_than_the_budget():
    """Beyond ε = 8 ln(1/δ) the paper's composition theorem does not hold, and its noise would be too small."""
    told = {"epsilon": 40.0, "delta": 0.1, "mechanism": "sparse-project", "paper": True}
    release = cs.release(cs.open_records([1]), cs.sparse([[1]]), **told)
    size = theorem_size(1, 1, 1)
    assert release.synopsis.noise.scale > 2 * math.sqrt(8 * size * math.log(10)) / 40
    assert release.guarantee.epsilon <= 40


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"paper": True, "size": 64}, "leave them"),
        ({"paper": True, "nonzeros": 5}, "leave them"),
        ({"paper": True, "noise": "gaussian"}, "leave them"),
        ({"size": 3, "nonzeros": 7}, "choose a larger size, or fewer"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, said):
    with pytest.raises(SettingError, match=said):
        cs.release(cs.open_records([1]), cs.sparse([[1]]), epsilon=1.0, mechanism="sparse-project", **settings)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("failure", [0.05, 1e-6])
def test_the_default_number_of_blocks_fits_the_size(size, failure):
    """Where answers must seldom be wrong a median of three or five would be the default."""
    told = {"epsilon": 1.0, "mechanism": "sparse-project", "size": size, "failure": failure}
    release = cs.release(cs.open_records([1]), cs.sparse([[1]]), **told)
    assert release.parameters["size"] <= size


def test_what_the_paper_asks_for_is_refused_with_advice_that_works():
    table, asked = cs.open_records(list(range(100))), cs.sparse([list(range(10))])
    with pytest.raises(NoMechanism, match="leave paper out, and set size="):
        cs.release(table, asked, epsilon=1, mechanism="sparse-project", paper=True)
    assert cs.release(table, asked, epsilon=1, mechanism="sparse-project", size=64).parameters["size"] == 64


def test_a_file_answers_where_the_data_never_was(tmp_path):
    table = cs.open_records([f"{i:064b}" for i in range(3000)])
    asked = cs.sparse([{f"{i:064b}": 1 for i in range(20)}])
    release = cs.release(table, asked, epsilon=1, delta=1e-6, mechanism="sparse-project", size=1 << 14)
    path = tmp_path / "strings.conspectus"
    release.save(path)
    assert path.stat().st_size <= 16 * (1 << 14)
    again = cs.load(path)
    other = cs.sparse([[f"{i:064b}" for i in range(k, k + 30)] for k in range(50)])
    assert np.array_equal(again.synopsis.answer(other), release.synopsis.answer(other))
    assert again.ask(asked) == release.ask(asked)
    with pytest.raises(CannotAnswer):
        again.synthetic(10)


def test_broken_parts_are_refused():
    synopsis = exact_synopsis([1, 2, 3], 8, 2, 1)
    meta, tables = synopsis.parts()
    again = load_synopsis(RECORDS, "random-projection", meta, tables)
    assert np.array_equal(again.values, synopsis.values)
    for broken in (
        {**meta, "projection": {**meta["projection"], "size": 9}},
        {**meta, "projection": {"size": 8}},
        {**meta, "noise": ["laplace"]},
        {**meta, "noise": ["cauchy", 1.0]},
        {**meta, "total": None},
    ):
        with pytest.raises(BadSynopsis):
            load_synopsis(RECORDS, "random-projection", broken, tables)


def test_conjunctions_on_all_but_a_few_columns_are_sparse():
    names = [f"c{i}" for i in range(10)]
    schema = cs.Schema.from_dict({"name": "bits", "columns": {name: {"type": "boolean"} for name in names}})
    rng = np.random.default_rng(5)
    table = cs.open_table(pa.table({name: rng.random(500) < 0.3 for name in names}), schema)
    asked = cs.random_conjunctions(schema, 8, 30, public_seed=2)
    counts, rows = truth(table, asked)
    release = cs.release(table, cs.sparse(asked), epsilon=1e6, mechanism="sparse-project", size=1 << 14, public_seed=3)
    assert np.abs(release.answers - counts / rows).max() < 0.02
    assert np.array_equal(release.synopsis.answer(asked), release.answers)


@pytest.mark.parametrize(
    "wrong",
    [
        {"form": "round"},
        {"noise": "none"},
        {"size": 0},
        {"size": 1 << 40},
        {"nonzeros": 0},
        {"sparsity": 0},
        {"independence": 0},
        {"public_seed": -1},
        {"failure": 0.0},
        {"paper": True, "size": 10},
        {"form": "dense", "nonzeros": 2},
        {"estimator": "mode"},
        {"estimator": "median", "nonzeros": 1},
        {"estimator": "median", "nonzeros": 4},
        {"estimator": "median", "nonzeros": 65},
        {"estimator": "median", "form": "dense"},
        {"estimator": "median", "size": 9},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(SettingError):
        cs.release(cs.open_records([1]), cs.sparse([[1]]), epsilon=1, mechanism="sparse-project", **wrong)


def test_every_mechanism_says_what_it_makes_of_records():
    schema = cs.open_records([0]).schema
    plan = cs.plan(schema, cs.sparse([list(range(k, k + 100)) for k in range(50)]), rows=10_000, epsilon=1.0)
    assert plan.best.mechanism == "sparse-project"
    assert {"mwem", "iterative", "projection"} <= {refusal.mechanism for refusal in plan.refusals}
    assert all(len(refusal.reason) > 20 for refusal in plan.refusals)
    apart = cs.plan(schema, cs.sparse([[k] for k in range(50)]), rows=10_000, epsilon=1.0)
    assert apart.best.mechanism in ("laplace", "sparse-project")
    ordinary, _ = people()
    refused = cs.plan(ordinary, cs.parities(ordinary, 2), rows=1000, epsilon=1.0).refusals
    assert "cs.sparse" in next(refusal.reason for refusal in refused if refusal.mechanism == "sparse-project")


def test_a_ledger_pays_for_a_projection(tmp_path):
    from conspectus.privacy.guarantee import Budget
    from conspectus.privacy.ledger.ledger import Ledger

    table = cs.open_records(list(range(100)))
    ledger = Ledger.create(
        tmp_path / "ledger",
        budget=Budget(epsilon=2.0, delta=1e-6),
        neighbours="replace",
        unit="row",
        schema_fingerprint=table.schema.fingerprint,
        table="records",
    )
    release = cs.release(
        table, cs.sparse([[1]]), epsilon=1.0, delta=1e-6, mechanism="sparse-project", size=1024, ledger=ledger
    )
    assert release.guarantee.rho is not None
    assert 0 < ledger.spent <= ledger.cap / 2


@pytest.mark.parametrize("law", [Noise("laplace", 3.0), Noise("gaussian", 4.0), Noise("laplace", 0.4)])
def test_weighted_quantiles_hold(law):
    """2·10^5 sums: beyond the quantile at most the stated share, plus five deviations; half of it would not do."""
    rng = np.random.default_rng(8)
    weights = np.array([1.0, -0.5, 0.25, 0.25, 1.0])
    if law.kind == "laplace":
        stop = -math.expm1(-1 / law.scale)
        draws = rng.geometric(stop, (200_000, 5)) - rng.geometric(stop, (200_000, 5))
    else:
        draws = np.rint(rng.normal(0, law.scale, (200_000, 5)))
    sums = np.abs(draws @ weights)
    for confidence in (0.9, 0.99):
        level = weighted_quantile(law, weights, confidence)
        assert (sums > level).mean() <= 1 - confidence + FIVE * math.sqrt(0.1 / 200_000)
        assert (sums > level / 3).mean() > 1 - confidence
    second, fourth = moments_of(law)
    assert abs((draws**2).mean() / second - 1) < 0.05
    assert abs((draws.astype(float) ** 4).mean() / fourth - 1) < 0.2
    assert weighted_quantile(law, np.zeros(3), 0.9) == 0


def test_the_domain_of_a_projection_is_any(tmp_path):
    coin = Domain(("c0",), (2,))
    assert len(SparseProjection(coin, 6, 2, 2, 1)) == 6
    with pytest.raises(WorkloadError):
        SparseProjection(coin, 6, 2, 2, 1).query(0)


def test_a_projection_of_too_many_coefficients_is_refused_before_they_are_made():
    with pytest.raises(WorkloadError, match="coefficients"):
        SparseProjection(cs.sparse([["a"]]).domain, 1 << 20, 1 << 19, 4096, 0)
