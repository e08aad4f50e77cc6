"""Numbers in other units, and far from 0: an interval says the same of a column in grams and in tons, or since 1970.

Noise does not know in which unit a column is told. So the interval of a·x + b is a times that of x, and b more. Where a
difference of squares is taken of numbers far from 0, or what is small is taken for nothing, it is not.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.data.domain import Domain
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.moments import Moment, Numbers
from conspectus.queries.blocks.residual import Residual
from conspectus.queries.query import Literal, Predicate
from conspectus.releases.cells import cell_estimates as cells
from conspectus.releases.cells import cell_moments
from conspectus.releases.cells.cell_estimates import CellCounts, Interval, Values
from conspectus.releases.cells.known_cells import AddingUp, measured_cells
from conspectus.releases.cells.samples import of_sample
from conspectus.synopses.moment_estimates import estimate_noisy
from conspectus.synopses.noisy_vectors import NoisyVector
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.synopsis import Total

UNITS = [(1e-12, 0.0), (1e-8, 0.0), (1e9, 0.0), (1.0, 1e6), (1.0, 1.7e9), (1.0, -1e12), (1e-6, 1e3)]
SIZES = (4, 3)
COUNTS = np.array([[310.0, 220, 90], [400, 130, 60], [150, 170, 340], [45, 260, 480]])


def residual_cells() -> CellCounts:
    domain = Domain(("a", "b"), SIZES)
    sets, scales = ((0,), (1,), (0, 1)), (40.0, 30.0, 120.0)
    values = [
        each.projected(COUNTS.sum(axis=axes).astype(np.int64).ravel(), np.zeros(each.cells, dtype=np.int64))
        for each, axes in zip([Residual(domain, columns) for columns in sets], (1, 0, ()))
    ]
    total = Total(value=float(COUNTS.sum()), exact=True)
    found = measured_cells(ResidualAnswers(domain, sets, scales, np.concatenate(values), total), (0, 1))
    assert found is not None
    return found


def plain_cells(kind: str, scale: float) -> CellCounts:
    flat = COUNTS.ravel()
    return CellCounts(counts=flat, measured=flat, law=Noise(kind, scale))


CELLS = {
    "gaussian": plain_cells("gaussian", 10.0),
    "laplace": plain_cells("laplace", 3.0),
    "adding up": AddingUp.of(plain_cells("gaussian", 10.0), float(COUNTS.sum())),
    "residuals": residual_cells(),
}
MEASURES = {
    "sum": lambda held, x, y: cells.total(held, x, 0.05),
    "mean": lambda held, x, y: cells.mean(held, x, 0.05),
    "variance": lambda held, x, y: cell_moments.variance(held, x, 0.05),
    "covariance": lambda held, x, y: cell_moments.covariance(held, x, y, 0.05),
    "correlation": lambda held, x, y: cell_moments.correlation(held, x, y, 0.05),
}
POWER = {"sum": 1, "mean": 1, "variance": 2, "covariance": 1, "correlation": 0}


def same(found: tuple[float, ...], wanted: tuple[float, ...], slack: float) -> None:
    """Both ends are the same to a thousandth of the width, and to what floats lose of numbers as large as these."""
    width = wanted[-1] - wanted[0]
    assert width > 0
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-3 * width + slack)


@pytest.mark.parametrize(("unit", "off"), UNITS)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("kind", CELLS)
def test_intervals_from_cells_do_not_depend_on_the_unit(kind: str, measure: str, unit: float, off: float) -> None:
    if measure == "sum" and off:
        pytest.skip("a sum of other numbers has another noise")
    some = np.arange(12) % 3 > 0
    held = CELLS[kind].taken(some)
    a, b = (axis[some] for axis in np.broadcast_arrays(np.arange(12) // 3.0, np.arange(12) % 3.0))
    before = MEASURES[measure](held, Values.of(a), Values.of(b))
    after = MEASURES[measure](held, Values.of(a * unit + off), Values.of(b))
    times, moved = unit ** POWER[measure], off if measure == "mean" else 0.0
    found = [(end - moved) / times for end in (after.low, after.value, after.high)]
    same(tuple(found), (before.low, before.value, before.high), 8 * 2.0**-52 * abs(off) / unit)


@pytest.mark.parametrize(("unit", "off"), UNITS)
@pytest.mark.parametrize("kind", ["sum", "mean", "variance", "covariance"])
def test_intervals_from_parts_do_not_depend_on_the_unit(kind: str, unit: float, off: float) -> None:
    if kind == "sum" and off:
        pytest.skip("a sum of other numbers has other parts")
    values = np.arange(4.0)
    axes = (Numbers(0, values), Numbers(1, np.arange(3.0)))
    moment = Moment(kind, Predicate(((Literal(2, (1,)),),)), axes[: 2 if kind == "covariance" else 1])
    other = replace(moment, numbers=(Numbers(0, values * unit + off), *moment.numbers[1:]))
    many = {"sum": 1, "mean": 2, "variance": 3, "covariance": 4}[kind]
    parts = NoisyVector(
        np.array([900.0, 1400.0, 700.0, 500.0])[:many], np.eye(many), ((Noise("gaussian", 2000.0), 100),) * many
    )
    before, after = (estimate_noisy(each, parts, 0.95, 1e4) for each in (moment, other))
    times, moved = unit ** (2 if kind == "variance" else 1), off if kind == "mean" else 0.0
    found = [(end - moved) / times for end in (after.low, after.value, after.high)]
    same(tuple(found), (before.low, before.value, before.high), 8 * 2.0**-52 * abs(off) / unit)


def test_a_column_of_moments_in_time_has_the_mean_of_the_same_column_since_another_day() -> None:
    hours = np.arange(4000) % 8
    spans = []
    for off in (0, 1_000_000, 1_700_000_000):
        columns = {"x": {"type": "integer", "min": off, "max": off + 7}, "g": {"type": "boolean"}}
        schema = cs.Schema.from_dict({"name": "made", "columns": columns})
        table = cs.open_table(pa.table({"x": hours + off, "g": hours % 2 == 0}), schema)
        release = cs.release(table, cs.means(schema, "x", by=["g"]), epsilon=1.0, delta=1e-6, mechanism="gaussian")
        answer = release.ask(cs.means(schema, "x", where="g"))
        spans.append(answer.high - answer.low)
    assert max(spans) < 1.2 * min(spans), spans


@pytest.mark.parametrize(("low", "high"), [(0.0, 20.25), (3.0, 4.0), (-2.0, 5.0), (-5.0, -2.0), (0.0, 0.0)])
@pytest.mark.parametrize("rows", [(-3.0, 7.0), (1.5, 2.0), (2.0, 3.0), (90.0, 110.0), (-np.inf, np.inf)])
def test_of_a_sample_every_number_of_rows_that_there_may_be_is_in_the_interval(low, high, rows) -> None:
    middle = (low + high) / 2
    found = of_sample(Interval(value=middle, low=low, high=high, basis="measured"), 5.0, rows)
    assert found.low <= found.value <= found.high
    every = [n for n in (2, 3, 5, 7, 91, 100, 110, 10**9) if rows[0] <= n <= rows[1]]
    for number, n in itertools.product((low, middle, high), every):
        assert found.low <= number * n / (n - 1) + 1e-12
        assert number * n / (n - 1) - 1e-12 <= found.high


def test_the_variance_of_a_sample_of_two_is_in_its_interval() -> None:
    """Of two values at the ends of a range the variance is twice what any number of rows has at most.

    Where noise leaves less than two rows nothing is said.
    """
    values, group = np.arange(400) % 10, np.arange(400) < 2
    values[:2] = 0, 9
    columns = {"x": {"type": "integer", "min": 0, "max": 9}, "g": {"type": "boolean"}}
    schema = cs.Schema.from_dict({"name": "made", "columns": columns})
    table = cs.open_table(pa.table({"x": values, "g": group}), schema)
    workload = cs.variances(schema, "x", by=["g"])
    for _ in range(8):
        release = cs.release(table, workload, epsilon=2.0, delta=1e-6, mechanism="gaussian")
        found = release.query("SELECT VARIANCE(x) AS v FROM made WHERE g", confidence=1 - 1e-9).to_dict()
        assert found["v"][0] is None or found["v_low"][0] <= 40.5 <= found["v_high"][0]


def test_which_of_two_intervals_a_sum_has_does_not_hang_on_the_noise() -> None:
    """Near the end of its range the narrower of both was that which noise had moved away: 7.4 % missed, for 5 %."""
    columns = {"x": {"type": "integer", "min": 1, "max": 100}}
    schema = cs.Schema.from_dict({"name": "made", "columns": columns})
    workload = cs.sums(schema, "x") + cs.marginal(schema, ["x"])
    table = cs.open_table(pa.table({"x": np.repeat([1, 100], [2970, 30])}), schema)
    release = cs.release(table, workload, epsilon=1.0, delta=1e-6, mechanism="gaussian")
    noisy, widths = release.synopsis, set()
    for off in (-9.0, -4.0, 0.0, 1.0):
        # The rows with the last value, and with them the mean over all rows, are moved far beyond the range.
        counts = noisy.counts.copy()
        counts[-1] += off * 30
        answer = replace(release, synopsis=replace(noisy, counts=counts)).ask(cs.sums(schema, "x"))
        widths.add((round(answer.high - answer.low), answer.value))
    assert len(widths) == 1, widths
