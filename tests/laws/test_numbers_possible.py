"""Averages that their rows can have: of cells that are not all rows, and of cells that noise moved.

Where counts are of some of the rows alone, those that are missing have no value of their own, such as the middle of the
range: an average lies among the values that are there. It was the middle of the declared range, whatever was published.

Where noise makes a number impossible, its interval is taken around the nearest possible one, and is no point: nobody
knows a number exactly that rests on noise. Intervals that were cut at both ends were points, and missed the truth.
"""

from __future__ import annotations

import math
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import conspectus as cs
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.moments import Moment, Numbers
from conspectus.queries.query import Predicate
from conspectus.releases.cells.cell_estimates import CellCounts, Interval, Values, mean, ratio, total
from conspectus.releases.cells.cell_moments import correlation, covariance, variance
from conspectus.synopses.estimate import Estimate
from conspectus.synopses.moment_estimates import estimate_boxed, estimate_noisy
from conspectus.synopses.noisy_vectors import NoisyVector

ALPHA = 1e-6
"""The chance that a right program fails one of the tests that count misses."""

ROWS = 4000


def keyed(neighbours: str, **settings):
    """A table where a few records are shared by many rows, so that their keys are published and no other."""
    rng = np.random.Generator(np.random.PCG64(4))
    columns = {
        "x": {"type": "integer", "min": 0, "max": 90, **settings},
        "y": {"type": "boolean"},
        "z": {"type": "integer", "min": 0, "max": 999},
    }
    schema = cs.Schema.from_dict({"name": "made", "neighbours": neighbours, "columns": columns})
    shared = rng.random(ROWS) < 0.1
    rows = {
        "x": np.where(shared, rng.choice([20, 30], ROWS), rng.integers(0, 91, ROWS)),
        "y": shared | (rng.random(ROWS) < 0.5),
        "z": np.where(shared, 7, rng.integers(0, 1000, ROWS)),
    }
    return schema, cs.open_table(pa.table(rows), schema)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_averages_of_published_keys_lie_among_the_published_values(neighbours):
    """Published are two records with some 200 rows each and Laplace noise of about 1: whatever the noise, by all doors.

    Of about 3,600 other records, of a row or two, each is published with a chance of about delta: some 1e-8 in all.
    """
    schema, table = keyed(neighbours)
    release = cs.release(table, cs.marginal(schema, ["x", "y"]), epsilon=2.0, delta=1e-12, mechanism="stable-histogram")
    line = release.query("SELECT AVG(x) AS a, SUM(x) AS s, COUNT(*) AS n, MEDIAN(x) AS m FROM made")
    (told,) = line.to_arrow().to_pylist()
    assert 20 <= told["a"] <= 30
    assert 20 <= told["m"] <= 30
    assert told["s"] == pytest.approx(told["a"] * told["n"], abs=told["a"])
    assert release.ask(cs.means(schema, "x")).value == pytest.approx(told["a"])
    (alone,) = release.query("SELECT AVG(x) AS a, AVG(y) AS y FROM made").to_arrow().to_pylist()
    assert alone["a"] == told["a"]
    assert alone["y"] == 1
    by_group = release.query("SELECT y, AVG(x) AS a, SUM(x) AS s, COUNT(*) AS n FROM made GROUP BY y ORDER BY y")
    nothing, published = by_group.to_arrow().to_pylist()
    assert (nothing["a"], nothing["n"]) == (None, 0)
    assert published["a"] == pytest.approx(told["a"])
    assert any("the published rows alone" in note for note in line.notes)
    assert any("the published rows alone" in note for note in release.ask(cs.means(schema, "x")).notes)


def test_averages_of_published_bins_lie_among_them():
    schema, table = keyed("replace", width=13)
    release = cs.release(table, cs.marginal(schema, ["x", "y"]), epsilon=2.0, delta=1e-12, mechanism="stable-histogram")
    (told,) = release.query("SELECT AVG(x) AS a FROM made").to_arrow().to_pylist()
    for value in (told["a"], release.ask(cs.means(schema, "x")).value):
        assert 13 <= value <= 38


@pytest.mark.parametrize("bounded", [False, True])
def test_without_noise_of_a_known_law_a_mean_lies_among_values_that_have_rows(bounded):
    rng = np.random.Generator(np.random.PCG64(6))
    for _ in range(200):
        values = np.sort(rng.normal(size=6)) * 10
        counts = rng.integers(0, 9, 6) * (rng.random(6) < 0.5)
        counts[rng.integers(6)] += 1
        near = float(rng.integers(0, 40))
        cells = CellCounts(
            counts=counts.astype(float),
            measured=counts.astype(float),
            law=None,
            reach=(lambda failure, near=near: near / 20) if bounded else None,
            basis="guessed" if bounded else "unguaranteed",
        )
        there = values[counts > 0]
        found = mean(cells, Values.of(values), 0.05, known=40.0)
        summed = total(cells, Values.of(values), 0.05, 40.0, 40.0)
        assert there.min() - 1e-9 <= found.value <= there.max() + 1e-9
        assert summed.value == pytest.approx(40 * found.value)
        assert found.low is None or found.low <= found.value <= found.high


def test_an_interval_is_moved_outward_alone_before_it_is_cut():
    """Whatever truth is possible and was held is held; and what had a width has one, unless one number is possible."""
    rng = np.random.Generator(np.random.PCG64(2))
    for _ in range(500):
        least, most = np.sort(rng.normal(size=2))
        value, below, above = rng.normal() * 3, *rng.exponential(size=2)
        found = Interval(value=value, low=value - below, high=value + above, basis="measured").cut(least, most)
        assert least <= found.low <= found.value <= found.high <= most
        assert found.low < found.high
        for truth in rng.uniform(least, most, 20):
            assert not value - below <= truth <= value + above or found.low <= truth <= found.high


LAW = Noise("gaussian", 6.0)


def test_no_number_of_noisy_cells_has_a_point_for_an_interval():
    """Of cells as large as their noise, many of them negative: also where bins turn around."""
    rng = np.random.Generator(np.random.PCG64(3))
    for run in range(12):
        counts = rng.normal(size=5) * 8 * rng.choice([1.0, 4.0])
        low, other = np.sort(rng.normal(size=(2, 5)), axis=1)
        values = Values(low + 0.2, low, low + 0.4) if run % 2 else Values.of(low)
        cells, second, ones = CellCounts(counts=counts, measured=counts, law=LAW), Values.of(other[::-1]), np.ones(5)
        part = np.array([1.0, 0.0, 1.0, 0.0, 0.0])
        for found, span in (
            (mean(cells, values, 0.05), np.ptp(low)),
            (mean(cells, values, 0.05, known=20.0), np.ptp(low)),
            (total(cells, values, 0.05, most=20.0), np.ptp(low)),
            (total(cells, values, 0.05, 20.0, 20.0), np.ptp(low)),
            (ratio(cells, Values.of(part), ones, 0.05), 1.0),
            (variance(cells, values, 0.05), np.ptp(low) ** 2),
            (covariance(cells, values, second, 0.05), np.ptp(low) * np.ptp(other)),
            (correlation(cells, values, second, 0.05), 1.0),
        ):
            if found.value is not None:
                assert found.low <= found.value <= found.high
                assert found.high - found.low > 1e-3 * span


@pytest.mark.parametrize("kind", ["mean", "variance", "covariance"])
def test_no_number_of_noisy_parts_has_a_point_for_an_interval(kind):
    """As sessions have them, with one law of noise; and parts that each have an interval of their own."""
    rng = np.random.Generator(np.random.PCG64(4))
    axes = tuple(Numbers(column, np.array([0.0, 1.0, 3.0])) for column in range(2 if kind == "covariance" else 1))
    moment = Moment(kind, Predicate(((),)), axes)
    parts = {"mean": 2, "variance": 3, "covariance": 4}[kind]
    for _ in range(40):
        counts = rng.normal(size=parts) * 8 * rng.choice([1.0, 4.0])
        noisy = estimate_noisy(moment, NoisyVector(counts, np.eye(parts), ((LAW, 1),) * parts), 0.95, 20.0)
        each = [Estimate.within(count, 12.0, basis="guessed") for count in counts]
        for found in (noisy, estimate_boxed(moment, each), estimate_boxed(moment, each[:-1], 20.0)):
            assert found.low <= found.value <= found.high
            assert found.high - found.low > 0.01


SELECTS = (
    "SELECT g, SUM(x) AS s, AVG(x) AS a, VAR_POP(x) AS v, STDDEV_POP(x) AS d FROM made GROUP BY g ORDER BY g",
    "SELECT SUM(x) AS s, AVG(x) AS a, VAR_POP(x) AS v, COVAR_POP(x, p) AS c, CORR(x, p) AS r FROM made",
    "SELECT p, AVG(CASE WHEN x > 2 THEN 1 ELSE 0 END) AS a, AVG(x) AS m FROM made GROUP BY p ORDER BY p",
    "SELECT SUM(x) AS s, AVG(x) AS a FROM made WHERE g = 'c'",
)
SHARES = "SELECT g, SHARE(*) AS s, RATE(p) AS r FROM made GROUP BY g"
FEW = 40


@cache
def small(neighbours: str):
    """Few rows, most of them at one end of what is possible: noise leaves it half of the time."""
    rng = np.random.Generator(np.random.PCG64(5))
    columns = {
        "g": {"type": "categorical", "values": ["a", "b", "c"]},
        "p": {"type": "boolean"},
        "x": {"type": "integer", "min": 0, "max": 4},
    }
    schema = cs.Schema.from_dict({"name": "made", "neighbours": neighbours, "columns": columns})
    rows = pa.table(
        {
            "g": rng.choice(["a", "b", "c"], FEW, p=[0.7, 0.25, 0.05]),
            "p": rng.random(FEW) < 0.1,
            "x": np.where(rng.random(FEW) < 0.8, 0, rng.integers(0, 5, FEW)),
        }
    )
    with duckdb.connect() as database:
        database.register("made", rows.set_column(1, "p", rows["p"].cast(pa.int8())))
        true = [database.sql(select).to_arrow_table().to_pylist() for select in SELECTS]
    return schema, cs.open_table(rows, schema), true


def looked_at(answers, true: list[list[dict]], missed: dict[tuple, int]) -> None:
    """Every interval of the SELECTs: none is a point, and misses are counted."""
    for number, select in enumerate((*SELECTS, SHARES)):
        for place, line in enumerate(answers(select).to_arrow().to_pylist()):
            for name in (name for name in line if line.get(f"{name}_low") is not None):
                low, value, high = (line[f"{name}{end}"] for end in ("_low", "", "_high"))
                assert low <= value <= high
                assert high - low > 1e-3, (select, line)
                truth = true[number][place][name] if number < len(true) else None
                if truth is not None and not math.isnan(truth):
                    missed.setdefault((number, place, name), 0)
                    missed[number, place, name] += not low - 1e-9 <= truth <= high + 1e-9


def none_is_a_point(mechanism: str, neighbours: str, runs: int) -> None:
    schema, table, true = small(neighbours)
    missed: dict[tuple, int] = {}
    for _ in range(runs):
        budget = {"epsilon": 0.5, "delta": 0.0 if mechanism == "laplace" else 1e-6}
        if mechanism == "session":
            with cs.open_session(table, **budget, questions=60, mechanism="gaussian") as session:
                looked_at(session.query, true, missed)
        else:
            release = cs.release(table, cs.marginals(schema, 2), **budget, mechanism=mechanism)
            looked_at(release.query, true, missed)
    # Releases are independent, numbers of one are not: each is counted by itself.
    assert max(missed.values()) <= binom.ppf(1 - ALPHA / len(missed), runs, 0.05), missed


KINDS = ["gaussian", "laplace", "histogram", "projection", "session"]


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", KINDS)
def test_no_interval_of_a_small_table_is_a_point_and_all_hold(mechanism, neighbours):
    slow = mechanism in ("laplace", "histogram") and neighbours == "add-remove"  # sums of Laplace noise take time
    none_is_a_point(mechanism, neighbours, 1 if slow else 3)


@pytest.mark.audit
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", KINDS)
def test_no_interval_of_a_small_table_is_a_point_and_all_hold_many_times(mechanism, neighbours):
    none_is_a_point(mechanism, neighbours, 100)
