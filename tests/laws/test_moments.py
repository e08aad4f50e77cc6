"""Sums, means, variances and covariances: right values, honest intervals, and who takes them."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.mechanisms.registry import OFFLINE
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.moments import Moment, Moments, Numbers
from conspectus.queries.query import VALUE_STEPS, Predicate
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.releases.numbers_from_parts import moment_estimate
from conspectus.synopses.estimate import Estimate
from conspectus.synopses.moment_estimates import RARELY, estimate_boxed, estimate_noisy, moment_value
from conspectus.synopses.noisy_vectors import NoisyVector
from conspectus.synopses.synopsis import CannotAnswer

SCHEMA = cs.Schema.from_dict(
    {
        "name": "made",
        "columns": {
            "sex": {"type": "categorical", "values": ["f", "m"]},
            "age": {"type": "integer", "min": 20, "max": 39, "missing": True},
            "change": {"type": "number", "edges": [-30, -10, 0, 10, 50]},
            "ill": {"type": "boolean"},
        },
    }
)
HUGE = 1e5
SURE = 1 - 1e-8
"""Of a test's few dozen intervals one misses the truth less than once in a million runs."""


def made(rows: int = 600) -> tuple[pa.Table, dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    age = rng.integers(20, 40, rows).astype(float)
    age[::17] = np.nan
    change = rng.normal(2, 12, rows)
    columns = {"sex": rng.choice(["f", "m"], rows), "age": age, "change": change, "ill": rng.random(rows) < 0.4}
    middles = np.array([-20.0, -5.0, 5.0, 30.0])[np.searchsorted([-10, 0, 10], change, side="right")]
    given = {**columns, "age": pa.array([None if np.isnan(x) else int(x) for x in age])}
    return pa.table(given), {**columns, "change": middles}


ROWS, TRUE = made()
TABLE = cs.open_table(ROWS, SCHEMA)
WORKLOAD = (
    cs.means(SCHEMA, "age", by=["sex"])
    + cs.sums(SCHEMA, "age", by=["sex"], where="ill")
    + cs.sums(SCHEMA, "change", where={"sex": "f"})
    + cs.variances(SCHEMA, "age")
    + cs.variances(SCHEMA, "change", by=["ill"])
    + cs.covariances(SCHEMA, "age", "ill", where=cs.sql(SCHEMA, ["sex = 'm' OR ill"]))
    + cs.means(SCHEMA, "ill")
)


def expected() -> list[float]:
    f, ill, age, change = TRUE["sex"] == "f", TRUE["ill"], TRUE["age"], TRUE["change"]
    some = (~f | ill) & ~np.isnan(age)
    return [
        np.nanmean(age[f]),
        np.nanmean(age[~f]),
        np.nansum(age[f & ill]),
        np.nansum(age[~f & ill]),
        change[f].sum(),
        np.nanvar(age),
        change[~ill].var(),
        change[ill].var(),
        np.cov(age[some], ill[some], bias=True)[0, 1],
        ill.mean(),
    ]


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_values_are_right_where_noise_is_tiny(neighbours: str, tmp_path) -> None:
    release = cs.release(TABLE, WORKLOAD, epsilon=HUGE, mechanism="laplace", neighbours=neighbours)
    assert release.answers == pytest.approx(expected(), rel=1e-3, abs=1e-3)
    asked = [release.ask(question) for question in WORKLOAD]
    assert [answer.value for answer in asked] == pytest.approx(release.answers.tolist())
    sure = [release.ask(question, confidence=SURE) for question in WORKLOAD]
    assert all(answer.low <= true <= answer.high for answer, true in zip(sure, expected()))
    assert asked[0].count == pytest.approx((~np.isnan(TRUE["age"][TRUE["sex"] == "f"])).sum(), abs=0.1)
    assert "interval" in str(asked[0])
    release.save(tmp_path / "numbers.conspectus")
    again = cs.load(tmp_path / "numbers.conspectus")
    assert [again.ask(question) for question in WORKLOAD] == asked
    assert again.workload == WORKLOAD


def test_marginals_say_the_same_about_means() -> None:
    release = cs.release(TABLE, cs.marginal(SCHEMA, ["sex", "age", "ill"]), epsilon=20.0, mechanism="laplace")
    answer = release.ask(cs.means(SCHEMA, "age", by=["sex"])[0], confidence=SURE)
    assert answer.low <= expected()[0] <= answer.high
    assert answer.high - answer.low < 4
    with pytest.raises(CannotAnswer):
        release.ask(cs.means(SCHEMA, "change"))


def test_one_row_moves_the_parts_of_a_mean_by_one_count() -> None:
    for workload in (
        cs.means(SCHEMA, "age", by=["sex"]),
        cs.variances(SCHEMA, "age"),
        cs.covariances(SCHEMA, "age", "ill"),
    ):
        moved = workload.sensitivity(Relation("add-remove"))
        assert (moved.l1, moved.linf) == (VALUE_STEPS, VALUE_STEPS)
        assert moved.l2_squared <= VALUE_STEPS**2


def test_who_takes_them_and_who_says_what_to_do() -> None:
    plan = cs.plan(SCHEMA, WORKLOAD, rows=600, epsilon=1.0, delta=1e-6)
    taken = {claim.mechanism for claim in plan.claims}
    assert {"laplace", "gaussian", "mwem", "iterative", "projection", "boosting"} <= taken
    reasons = {refusal.mechanism: refusal.reason for refusal in plan.refusals}
    assert taken | set(reasons) == set(OFFLINE)
    assert "use laplace" in reasons["dual-query"]
    assert "use laplace" in reasons["small-db"]


@pytest.mark.parametrize("mechanism", ["mwem", "iterative", "projection", "boosting"])
def test_fitted_histograms_answer_them(mechanism: str) -> None:
    """With so little noise that fits were within 0.06 of the means, and reach 1 less than once in a billion runs. At a
    tenth of the budget `iterative`, which stops at a noisy threshold, would do so once in 100,000."""
    workload = cs.means(SCHEMA, "age", by=["sex"]) + cs.marginal(SCHEMA, ["sex"])
    release = cs.release(TABLE, workload, epsilon=2000.0, delta=1e-6, mechanism=mechanism)
    assert release.answers[:2] == pytest.approx(expected()[:2], abs=1.0)
    answer = release.ask(workload[0])
    assert answer.low is None or answer.low <= answer.value <= answer.high


def test_sessions_answer_sums_of_values() -> None:
    part = cs.means(SCHEMA, "age", by=["sex"]).measured()[0]
    for mechanism in ("pmw", "perceptron", "gaussian", "laplace"):
        with cs.open_session(TABLE, epsilon=50.0, delta=1e-6, questions=20, mechanism=mechanism) as session:
            answer = session.ask(part)
            assert session.ask(part).fraction == answer.fraction
            true = np.nansum((TRUE["age"][TRUE["sex"] == "f"] - 20) / 19) / 600
            assert answer.low - 0.02 <= true <= answer.high + 0.02


def test_workloads_survive_json_and_forged_ones_are_refused() -> None:
    stored = json.loads(json.dumps(WORKLOAD.to_json()))
    assert Workload.from_json(stored) == WORKLOAD
    assert list(WORKLOAD.take([3, 0]).queries()) == [WORKLOAD.query(3), WORKLOAD.query(0)]
    assert (WORKLOAD + WORKLOAD).distinct() == WORKLOAD.distinct()
    block = cs.means(SCHEMA, "age", by=["sex"]).to_json()
    for changed in (
        {"numbers": [[1, [20.0, 19.0]]]},
        {"numbers": [[1, [float("nan")] * 20]]},
        {"numbers": [[1, [float(x) for x in range(30)]]]},
        {"numbers": [[9, [0.0, 1.0]]]},
        {"functions": [[1, 0]]},
        {"functions": [[7, 0], [1, 0]]},
        {"functions": [[3, 0], [1, 0]]},
        {"functions": [[1, 5], [1, 0]]},
    ):
        bad = copy.deepcopy(block)
        bad["blocks"][0] |= changed
        with pytest.raises(WorkloadError):
            Workload.from_json(bad)


def test_columns_without_numbers_are_refused_with_what_to_do() -> None:
    dated = cs.Schema.from_dict(
        {"name": "d", "columns": {"day": {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "width": "month"}}}
    )
    with pytest.raises(WorkloadError, match="quantiles"):
        cs.means(dated, "day")
    with pytest.raises(WorkloadError, match="no numbers"):
        cs.sums(SCHEMA, "sex")
    with pytest.raises(WorkloadError, match="variance"):
        cs.covariances(SCHEMA, "age", "age")
    with pytest.raises(WorkloadError, match="parities"):
        cs.means(SCHEMA, "age", where=cs.parities(SCHEMA, 1)[0])


AXIS = Numbers(0, np.arange(11.0))
OTHER = Numbers(1, np.array([0.0, 1.0]))
EVERY = Predicate(((),))


@pytest.mark.parametrize("kind", ["sum", "mean", "variance", "covariance"])
@pytest.mark.parametrize(("law", "rows"), [("laplace", 400), ("gaussian", 400), ("laplace", 30)])
def test_intervals_hold_as_often_as_they_say(kind: str, law: str, rows: int) -> None:
    """600 draws of the noise, from a fixed seed.

    Small groups, whose count is uncertain, are allowed to be covered more often: their intervals are cut to what is
    possible.
    """
    rng = np.random.default_rng(7)
    x, y = rng.integers(2, 11, rows).astype(float), rng.integers(0, 2, rows).astype(float)
    axes = (AXIS, OTHER) if kind == "covariance" else (AXIS,)
    moment = Moment(kind, EVERY, axes)
    w = x / 10
    parts = {
        "sum": [w],
        "mean": [w, 1 - w],
        "variance": [w * w, 2 * w * (1 - w), (1 - w) ** 2],
        "covariance": [w * y, w * (1 - y), (1 - w) * y, (1 - w) * (1 - y)],
    }[kind]
    counts = np.array([part.sum() for part in parts])
    true = {"sum": x.sum(), "mean": x.mean(), "variance": x.var(), "covariance": np.cov(x, y, bias=True)[0, 1]}[kind]
    assert moment_value(moment, counts) == pytest.approx(true)
    grid, scale, draws, held = VALUE_STEPS, 2.0, 600, 0
    laws = ((Noise(law, scale * grid), grid),) * len(parts)
    for _ in range(draws):
        drawn = rng.laplace(0, scale, len(parts)) if law == "laplace" else rng.normal(0, scale, len(parts))
        found = estimate_noisy(moment, NoisyVector(counts + drawn, np.eye(len(parts)), laws), 0.95, rows)
        assert found.low <= found.value <= found.high
        held += found.low <= true <= found.high
    assert 0.93 <= held / draws <= (0.99 if rows > 100 else 1.0)


@pytest.mark.parametrize("kind", ["variance", "covariance"])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999, 1 - 1e-9])
def test_whatever_noise_the_margins_allow_is_within_the_interval(kind: str, confidence: float) -> None:
    """The theorem itself, for noise as large as it allows: where the ratio around the true means and these means are
    off by no more than their margins, which fails with 1 − confidence together, the interval holds the truth."""
    rng = np.random.default_rng(5)
    moment = Moment(kind, EVERY, (AXIS, OTHER) if kind == "covariance" else (AXIS,))
    failure, tried = 1 - confidence, 0
    for _ in range(60):
        rows = int(rng.integers(60, 600))
        x = rng.integers(*sorted(rng.choice(12, 2, replace=False)), rows) / 10.0
        w, y = np.minimum(x, 1.0), (rng.random(rows) < np.minimum(x, 1.0)).astype(float)
        parts = [w * w, 2 * w * (1 - w), (1 - w) ** 2]
        first, second = np.array([10.0, 5.0, 0.0]), np.array([10.0, 5.0, 0.0])
        line = np.array([100.0, 0.0, 0.0])  # what a row adds to the sum of products
        if kind == "covariance":
            parts = [w * y, w * (1 - y), (1 - w) * y, (1 - w) * (1 - y)]
            first, second = np.array([10.0, 10.0, 0.0, 0.0]), np.array([1.0, 0.0, 1.0, 0.0])
            line = first * second
        counts = np.array([part.sum() for part in parts])
        means = [float(each @ counts) / rows for each in (first, second)]
        truth = float(line @ counts) / rows - means[0] * means[1]
        around = line - means[1] * first - means[0] * second + means[0] * means[1] - truth
        bounds = [(around, 1 - (1 - RARELY) * failure)]
        each = 1 if kind == "variance" else 2
        bounds += [(one - mean, 1 - RARELY * failure / each) for one, mean in zip((first, second), means)]
        noisy = NoisyVector(
            counts, np.eye(len(parts)), ((Noise("gaussian", 2.0 * VALUE_STEPS), VALUE_STEPS),) * len(parts)
        )
        drawn = rng.normal(size=len(parts))
        margins = [noisy.margin(weights, sure) / max(abs(float(weights @ drawn)), 1e-9) for weights, sure in bounds]
        drawn *= 0.999 * min(margins)
        if np.abs(drawn).sum() > rows:  # almost without weight in all of them: the number of rows would be anything
            continue
        found = estimate_noisy(moment, replace(noisy, counts=counts + drawn), confidence, rows)
        assert found.low - 1e-6 <= truth <= found.high + 1e-6
        tried += 1
    assert tried > 30


def test_a_box_holds_whatever_lies_in_it() -> None:
    rng = np.random.default_rng(9)
    for kind in ("sum", "mean", "variance", "covariance"):
        moment = Moment(kind, EVERY, (AXIS, OTHER) if kind == "covariance" else (AXIS,))
        k = {"sum": 1, "mean": 2, "variance": 3, "covariance": 4}[kind]
        for _ in range(50):
            true = rng.uniform(20, 60, k)
            off = rng.uniform(-3, 3, k)
            parts = [Estimate.within(t + o, 3.0, basis="guessed") for t, o in zip(true, off)]
            found = estimate_boxed(moment, parts)
            assert found.low <= moment_value(moment, true) <= found.high
        nothing = [Estimate.unguaranteed(0.2, 100.0)] * k
        assert estimate_boxed(moment, nothing).low is None


def test_moments_of_tiny_and_empty_groups_have_the_whole_range() -> None:
    moment = Moment("mean", EVERY, (AXIS,))
    law = ((Noise("laplace", 5.0 * VALUE_STEPS), VALUE_STEPS),) * 2
    for counts in ([0.0, 0.0], [-3.0, 1.0], [1.0, 0.5]):
        found = estimate_noisy(moment, NoisyVector(np.array(counts), np.eye(2), law), 0.95, 100)
        assert (found.low, found.high) == (0.0, 10.0)
    assert len(Moments(cs.Schema.from_dict({"name": "x", "columns": {"a": {"type": "boolean"}}}).domain, ())) == 0


@pytest.mark.parametrize(("delta", "mechanism"), [(0.0, "laplace"), (1e-6, "laplace"), (1e-6, "gaussian")])
def test_the_number_of_rows_is_bought_apart_where_no_answer_is_a_share_of_it(delta, mechanism, tmp_path):
    """Sums by disjoint groups move by one row's value in all: a total that shared their act would double the price."""
    columns = {"g": {"type": "boolean"}, "x": {"type": "integer", "min": 0, "max": 10}}
    schema = cs.Schema.from_dict({"name": "made", "neighbours": "add-remove", "columns": columns})
    table = cs.open_table(pa.table({"g": [True, False] * 500, "x": [3, 7] * 500}), schema)
    sums, counts = cs.sums(schema, "x", by=["g"]), cs.sql(schema, ["g", "x > 3"])
    budget = {"epsilon": 1.0, "delta": delta, "mechanism": mechanism}
    made = cs.release(table, sums, **budget)
    assert made.guarantee.epsilon <= 1.0
    assert len(made.events) == 2
    if mechanism == "laplace":
        assert made.parameters["scale"] == pytest.approx(1 / 0.98, rel=1e-6)
        assert made.total.scale == pytest.approx(50)
    assert cs.release(table, counts, **budget).total.scale < 50  # shares of the total share its act
    assert len(cs.release(table, sums, **budget, neighbours="replace").events) == 2  # the public total, and the sums
    made.save(tmp_path / "sums.synopsis")
    again = cs.load(tmp_path / "sums.synopsis")
    assert again.answers.tolist() == made.answers.tolist()
    assert again.query("SELECT COUNT(*) AS n FROM made").to_pylist()[0]["n_low"] is not None


BELOW = cs.Schema.from_dict({"name": "below", "columns": {"x": {"type": "integer", "min": -5, "max": 4}}})
BELOW_ROWS = np.random.default_rng(3).integers(-5, 5, 500)


def below(workload: cs.Workload, mechanism: str = "laplace", epsilon: float = 1.0) -> cs.Release:
    table = cs.open_table(pa.table({"x": BELOW_ROWS}), BELOW)
    return cs.release(table, workload, epsilon=epsilon, delta=1e-6, mechanism=mechanism)


def test_which_of_two_ways_to_a_number_is_taken_does_not_hang_on_the_noise() -> None:
    """Of a sum and a mean that were both measured the less noisy one says both, wherever the noise went: also where it
    made the interval of the other one narrower, by pushing it out of the range of the column."""
    release = below(cs.sums(BELOW, "x") + cs.means(BELOW, "x"))
    both, every = release.synopsis, Numbers(0, np.arange(-5.0, 5.0))
    total, mean = (Moment(kind, EVERY, (every,)) for kind in ("sum", "mean"))
    widths = set()
    for around in (-3000.0, 0.0, 250.0, 490.0, 505.0, 3000.0):
        for up in (0.0, 200.0, 4000.0):
            seen = replace(both, counts=np.array([up, 260.0, around]))  # Σ x⁺/5, Σ x⁻/5, and Σ (x + 5)/9
            found = moment_estimate(seen, release.evidence, total, 0.95)
            assert found.value == 5 * (up - 260)  # its deviation is √2·5 scales, and that of the mean 9
            widths.add(round(found.high - found.low, 6))
            same = moment_estimate(seen, release.evidence, mean, 0.95)
            assert same.value == pytest.approx(min(max((up - 260) / 100, -5.0), 4.0))
            assert same.low <= same.value <= same.high
            whole = min(max(end / 500, -5.0) for end in (found.high, 2000.0))
            assert same.high == pytest.approx(whole)
    assert len(widths) == 1


@pytest.mark.parametrize("mechanism", ["laplace", "projection", "boosting", "tree"])
def test_a_sum_over_a_public_number_of_rows_is_as_good_as_their_mean(mechanism: str) -> None:
    """At a confidence that does not fail by chance."""
    for released, other in ((cs.means, cs.sums), (cs.sums, cs.means)):
        release = below(released(BELOW, "x"), mechanism)
        first, second = (release.ask(build(BELOW, "x"), confidence=SURE) for build in (released, other))
        factor = 500 if other is cs.sums else 1 / 500
        assert second.low is not None
        assert (second.value, second.low, second.high) == pytest.approx(
            (first.value * factor, first.low * factor, first.high * factor), rel=1e-3, abs=1e-3
        )
        assert second.low <= (BELOW_ROWS.sum() if other is cs.sums else BELOW_ROWS.mean()) <= second.high
        found = release.query("SELECT SUM(x) AS s, AVG(x) AS m FROM below", confidence=SURE).to_dict()
        told = {cs.sums: "s", cs.means: "m"}[other]
        assert (found[f"{told}_low"][0], found[f"{told}_high"][0]) == pytest.approx((second.low, second.high), rel=0.02)
