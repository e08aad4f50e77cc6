"""Averages that their rows can have: of cells that are not all rows, and of cells that noise moved.

Where counts are of some of the rows alone, those that are missing have no value of their own, such as the middle of the
range: an average lies among the values that are there. It was the middle of the declared range, whatever was published.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.releases.cells.cell_estimates import CellCounts, Values, mean, total

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
