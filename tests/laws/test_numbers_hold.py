"""Numbers made of many counts, whichever mechanism measured them: quantiles, sums, means and the like.

The made table has a long tail of values that hardly anybody has. There a table that was fitted to noisy counts is off
by far more than the noise, so that values and intervals taken from two different tables would fall apart.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom
from tests.made import needed

import conspectus as cs
from conspectus.data.domain import Domain
from conspectus.mechanisms.registry import OFFLINE
from conspectus.queries.blocks.residual import Residual
from conspectus.queries.query import Literal, Predicate
from conspectus.releases.cells.cell_estimates import CellCounts, Values, ratio
from conspectus.releases.cells.cell_moments import variance
from conspectus.releases.cells.known_cells import measured_cells
from conspectus.releases.cells.ranks import quantile
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.synopsis import CannotAnswer, Total

ALPHA = 1e-6
"""The chance that a right program fails one of these tests."""

SHARES = (0.05, 0.5, 0.9, 0.95)
WHERE = (None, "sex = 'f'")
SHARP = ("gaussian", "laplace", "projection", "tree", "histogram")
ROWS, LAST = 4000, 49


@cache
def tailed(neighbours: str):
    """A table with a column of a long tail, and its schema."""
    rng = np.random.Generator(np.random.PCG64(5))
    age = np.minimum(rng.gamma(3.0, 3.0, ROWS).astype(int), LAST)
    sex = np.where(rng.random(ROWS) < 0.4, "f", "m")
    school = np.clip(age // 8 + rng.integers(0, 3, ROWS), 0, 5)
    columns = {
        "age": {"type": "integer", "min": 0, "max": LAST},
        "sex": {"type": "categorical", "values": ["f", "m"]},
        "school": {"type": "integer", "min": 0, "max": 5},
    }
    schema = cs.Schema.from_dict({"name": "tailed", "neighbours": neighbours, "columns": columns})
    data = {"age": age, "sex": sex, "school": school}
    return schema, cs.open_table(pa.table(data), schema), data


def released(name: str, neighbours: str, epsilon: float = 1.0, **settings):
    schema, table, _ = tailed(neighbours)
    workload = cs.marginal(schema, ["age", "sex"])
    workload = workload if name in ("tree", "histogram") else cs.marginals(schema, 2)
    more = {**needed(name, schema), **settings}
    return cs.release(table, workload, epsilon=epsilon, delta=1e-6, mechanism=name, **more)


def quantiles_hold(name: str, neighbours: str, runs: int) -> None:
    """Each quantile by itself, over releases that are independent, is not missed more often than chance explains."""
    _, _, data = tailed(neighbours)
    missed = dict.fromkeys([(q, where) for q in SHARES for where in WHERE], 0)
    widths: list[float] = []
    for _ in range(runs):
        try:
            release = released(name, neighbours)
        except ValueError:  # a mechanism that does not serve this, before anything is spent
            return
        for q, where in missed:
            try:
                found = release.quantile("age", q, where=where)
            except CannotAnswer:
                continue
            if found.low is None or found.high is None:
                continue
            mine = data["age"] if where is None else data["age"][data["sex"] == "f"]
            true = float(np.quantile(mine, q, method="inverted_cdf"))
            missed[q, where] += not found.low <= true <= found.high
            widths += [found.high - found.low] if q == 0.5 else []
            assert found.low <= found.value <= found.high
            assert found.basis == ("simulated" if name == "adaptive" else found.basis)
    allowed = binom.ppf(1 - ALPHA / len(missed), runs, 0.05)
    assert max(missed.values()) <= allowed, missed
    if name in SHARP:
        assert len(widths) == runs * len(WHERE)
        assert np.median(widths) <= 4, widths


FEW = {
    ("projection", "replace"): 10,
    ("projection", "add-remove"): 10,
    ("gaussian", "replace"): 10,
    ("laplace", "add-remove"): 10,
    ("histogram", "replace"): 10,
    ("tree", "replace"): 5,
    ("dual-query", "replace"): 2,
}


@pytest.mark.parametrize(("name", "neighbours"), FEW)
def test_quantiles_hold_as_often_as_they_say(name: str, neighbours: str) -> None:
    quantiles_hold(name, neighbours, FEW[name, neighbours])


@pytest.mark.audit
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("name", OFFLINE)
def test_quantiles_hold_as_often_as_they_say_many_times(name: str, neighbours: str) -> None:
    quantiles_hold(name, neighbours, 200 if name in SHARP else 20)


SELECT = """SELECT sex, SUM(age) AS total, AVG(age) AS mean, STDDEV_POP(age) AS spread, MEDIAN(age) AS middle,
    AVG(school = 3) AS rate FROM tailed GROUP BY sex"""


def true_numbers(neighbours: str) -> dict[str, list[float]]:
    _, _, data = tailed(neighbours)
    groups = [(data["age"][data["sex"] == sex], data["school"][data["sex"] == sex]) for sex in ("f", "m")]
    return {
        "total": [float(age.sum()) for age, _ in groups],
        "mean": [float(age.mean()) for age, _ in groups],
        "spread": [float(age.std()) for age, _ in groups],
        "middle": [float(np.median(age)) for age, _ in groups],
        "rate": [float((school == 3).mean()) for _, school in groups],
    }


def selects_hold(name: str, neighbours: str, runs: int) -> None:
    true = true_numbers(neighbours)
    missed = {(number, line): 0 for number in true for line in (0, 1)}
    on_the_end, off, shares = 0, [], []
    for _ in range(runs):
        found = released(name, neighbours).query(SELECT).to_dict()
        for number, line in missed:
            value, low, high = (found[number + end][line] for end in ("", "_low", "_high"))
            missed[number, line] += not low <= true[number][line] <= high
            assert low <= value <= high
        for line in (0, 1):
            low, value, high = (found[name][line] for name in ("mean_low", "mean", "mean_high"))
            on_the_end += value in (low, high)
            off.append(value - true["mean"][line])
            shares.append((high - low) / (4 * 1.96))
    assert max(missed.values()) <= binom.ppf(1 - ALPHA / len(missed), runs, 0.05), missed
    assert on_the_end == 0
    # Without bias: the mean of the errors is within 6 of its own deviations, and an interval is about 4 of one.
    assert abs(np.mean(off)) <= 6 * 2 * float(np.mean(shares)) / math.sqrt(len(off)) * math.sqrt(2)
    assert max(shares) < 1.5


@pytest.mark.parametrize(("name", "neighbours"), [("projection", "replace"), ("gaussian", "add-remove")])
def test_sums_means_and_rates_hold_and_stand_inside_their_intervals(name: str, neighbours: str) -> None:
    selects_hold(name, neighbours, 4)


@pytest.mark.audit
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("name", ["projection", "gaussian", "laplace"])
def test_sums_means_and_rates_hold_many_times(name: str, neighbours: str) -> None:
    selects_hold(name, neighbours, 200)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("name", ["projection", "gaussian", "laplace"])
def test_a_release_says_the_same_at_every_door(name: str, neighbours: str) -> None:
    schema, _, _ = tailed(neighbours)
    # At ε = 1 noise makes about one variance in a hundred negative, which both doors cut, at different ends.
    release = released(name, neighbours, epsilon=8.0)
    numbers = {"n": "COUNT(*)", "s": "SUM(age)", "m": "AVG(age)", "v": "VAR_POP(age)", "q": "QUANTILE(age, 0.9)"}
    found = {}
    for name_of, asked in numbers.items():  # one by one: beside each other they would be made to agree
        told = release.query(f"SELECT {asked} AS {name_of} FROM tailed").to_dict()
        found |= {key: line[0] for key, line in told.items()}
    mean, total = release.ask(cs.means(schema, "age")), release.ask(cs.sums(schema, "age"))
    spread, last = release.ask(cs.variances(schema, "age")), release.quantile("age", 0.9)
    assert found["m"] == pytest.approx(mean.value, rel=1e-4)
    assert found["s"] == pytest.approx(total.value, rel=1e-4)
    # Where noise makes it impossible it is 0, or what whole numbers have at least around their mean: up to ¼.
    assert found["v"] == pytest.approx(spread.value, rel=1e-3, abs=0.25)
    assert (found["m_low"], found["m_high"]) == pytest.approx((mean.low, mean.high), rel=0.02)
    assert (found["s_low"], found["s_high"]) == pytest.approx((total.low, total.high), rel=0.02)
    assert found["q"] == last.value
    assert found["q_low"] <= last.low <= last.high <= found["q_high"]
    if neighbours == "replace":  # where the number of rows is public
        assert found["n"] == ROWS
        assert found["s"] == pytest.approx(found["m"] * found["n"], rel=1e-9)


# Residuals: the noise of a sum is what the residuals say, to the digit.


def residual_table(exact: bool) -> tuple[ResidualAnswers, np.ndarray]:
    """Measured residuals of a small table, and the covariance of its cells by brute force."""
    domain = Domain(("a", "b", "c"), (4, 3, 1))
    sets, scales = ((0,), (1,), (0, 1)), (9.0, 14.0, 30.0)
    total = Total(value=80.0, exact=True)
    if not exact:
        total = Total(value=80.0, exact=False, kind="gaussian", scale=5.0, terms=2, averaged=3)
    residuals = [Residual(domain, columns) for columns in sets]
    rng = np.random.Generator(np.random.PCG64(1))
    parts = [
        each.projected(np.zeros(each.cells, dtype=np.int64), rng.integers(-9, 9, each.cells)) for each in residuals
    ]
    answers = ResidualAnswers(domain, sets, scales, np.concatenate(parts), total)
    nothing = replace(answers, values=np.zeros(len(answers.values)))
    none = nothing.table((0, 1, 2))
    spread = np.zeros((12, 12))
    for number, (each, scale) in enumerate(zip(residuals, scales)):
        for place in range(each.cells):
            noise = [np.zeros(one.cells, dtype=np.int64) for one in residuals]
            noise[number][place] = 1
            drawn = [one.projected(np.zeros(one.cells, dtype=np.int64), z) for one, z in zip(residuals, noise)]
            moved = replace(answers, values=np.concatenate(drawn)).table((0, 1, 2)) - none
            spread += np.outer(moved, moved) * scale**2
    return answers, spread + (0.0 if exact else 25.0 * 2 / 9 / 144)


@pytest.mark.parametrize("exact", [True, False])
def test_sums_over_residuals_have_the_noise_that_brute_force_finds(exact: bool) -> None:
    answers, spread = residual_table(exact)
    cells = measured_cells(answers, (0, 1, 2))
    rng = np.random.Generator(np.random.PCG64(2))
    some = rng.random(12) < 0.8
    taken, inside = cells.taken(some), spread[np.ix_(some, some)]
    first, second = rng.normal(size=(2, int(some.sum())))
    assert taken.deviation(first) == pytest.approx(math.sqrt(first @ inside @ first), rel=1e-6)
    line = first - 0.7 * second
    assert taken.along(first, second)(0.7) == pytest.approx(math.sqrt(line @ inside @ line), rel=1e-6)
    assert taken.margin(line, 0.05) == pytest.approx(1.96 * math.sqrt(line @ inside @ line), rel=0.06)
    for column, axis in ((0, 0), (1, 1)):
        codes = np.unravel_index(np.flatnonzero(some), (4, 3, 1))[axis]
        found = taken.rank_deviations(codes, (4, 3)[axis], 0.3, column)
        for code, deviation in enumerate(found):
            rank = (codes <= code) - 0.3
            assert deviation == pytest.approx(math.sqrt(rank @ inside @ rank), rel=1e-6)


@pytest.mark.parametrize("exact", [True, False])
def test_queries_of_residuals_share_their_noise(exact: bool) -> None:
    answers, spread = residual_table(exact)
    asked = [Predicate(((Literal(0, (1, 2)),),)), Predicate(((Literal(0, (0,)), Literal(1, (2,))),)), Predicate(((),))]
    vector = answers.vector(asked)
    inside = np.zeros((3, 4, 3))
    inside[0, 1:3], inside[1, 0, 2], inside[2] = 1, 1, 1
    lines = inside.reshape(3, 12)
    np.testing.assert_allclose(vector.counts, lines @ answers.table((0, 1, 2)), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(vector.covariance, lines @ spread @ lines.T, rtol=1e-6, atol=1e-9)


# What is public is exact, and what is not known is not said.


@pytest.mark.parametrize("name", ["adaptive", "mwem", "laplace"])
def test_what_the_schema_decides_is_exact_in_a_select(name: str) -> None:
    settings = {"intervals": False} if name == "adaptive" else {}
    release = released(name, "replace", **settings)
    found = release.query("SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE age > 3 AND age < 2) AS none FROM tailed")
    assert found.to_dict() == {
        "n": [ROWS],
        "n_low": [ROWS],
        "n_high": [ROWS],
        "none": [0],
        "none_low": [0],
        "none_high": [0],
    }
    found = release.query(
        "SELECT sex, COUNT(*) AS n, SUM(age) AS s, AVG(age) AS m, MEDIAN(age) AS q, SHARE(*) AS p FROM tailed "
        "WHERE sex = 'f' GROUP BY sex ORDER BY m DESC"
    ).to_dict()
    assert found["sex"] == ["f"]  # the others have no row, and no line
    none = release.query("SELECT COUNT(*) AS n, SUM(age) AS s, AVG(age) AS m FROM tailed WHERE age > 3 AND age < 2")
    assert list(none.to_dict().values()) == [[0]] * 6 + [[None]] * 3
    same = release.query("SELECT AVG(age) AS m, STDDEV_POP(age) AS d FROM tailed WHERE age = 5").to_dict()
    assert same == {"m": [5], "m_low": [5], "m_high": [5], "d": [0], "d_low": [0], "d_high": [0]}


def test_a_mean_of_a_group_that_may_be_empty_is_null_where_nothing_bounds_it() -> None:
    x = np.arange(4.0)
    empty, some = (CellCounts(counts=each, measured=each, law=None) for each in (x * 0 + 0.1, x + 1))
    assert ratio(empty, Values.of(x), np.ones(4), 0.05).value is None
    assert variance(empty, Values.of(x), 0.05).value is None
    assert quantile(empty, np.arange(4), 4, 0.5, 0.05) is None
    assert ratio(some, Values.of(x), np.ones(4), 0.05).value == 2
    assert quantile(some, np.arange(4), 4, 0.5, 0.05).code == 2


def test_bins_are_not_spoken_of_where_nothing_has_an_interval() -> None:
    schema = cs.Schema.from_dict(
        {"name": "made", "columns": {"x": {"type": "integer", "min": 0, "max": 39, "width": 10}}}
    )
    table = cs.open_table(pa.table({"x": np.arange(2000) % 40}), schema)
    asked = cs.marginals(schema, 1)
    for name, spoken in (("adaptive", False), ("laplace", True)):
        settings = {"intervals": False} if name == "adaptive" else {}
        release = cs.release(table, asked, epsilon=1.0, delta=1e-6, mechanism=name, **settings)
        notes = release.query("SELECT AVG(x), MEDIAN(x) FROM made").notes
        assert any("anywhere in their bins" in note for note in notes) == spoken
