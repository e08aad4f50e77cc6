"""One quantile, one answer: `quantile`, `box` and a SELECT have the same value and the same interval, and refuse alike.

Whatever was measured, by whichever mechanism: two ways to a rank would show, as would two ways to say a quantile that
lies between two rows, or inside a bin.
"""

from __future__ import annotations

import datetime
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.releases.quantiles import BOX
from conspectus.synopses.synopsis import CannotAnswer

MECHANISMS = (
    "gaussian",
    "laplace",
    "histogram",
    "tree",
    "projection",
    "mwem",
    "iterative",
    "boosting",
    "dual-query",
    "adaptive",
)
WHERE = (None, "g = 'a'", "x > 1")
ROWS = 300


@cache
def made(neighbours: str):
    """A table with integers of which some are missing, numbers and dates in bins, and a group."""
    columns = {
        "x": {"type": "integer", "min": 0, "max": 5, "missing": True},
        "pay": {"type": "number", "min": 0, "max": 80, "width": 20},
        "day": {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "width": "quarter"},
        "g": {"type": "categorical", "values": ["a", "b"]},
    }
    schema = cs.Schema.from_dict({"name": "made", "neighbours": neighbours, "columns": columns})
    rng = np.random.Generator(np.random.PCG64(3))
    x, gone = np.clip(rng.poisson(2, ROWS), 0, 5), rng.random(ROWS) < 0.1
    first = datetime.date(2020, 1, 1)
    rows = {
        "x": pa.array(x, mask=gone),
        "pay": rng.gamma(2, 12, ROWS).clip(0, 79),
        "day": [first + datetime.timedelta(days=int(n)) for n in rng.integers(0, 366, ROWS)],
        "g": rng.choice(["a", "b"], ROWS, p=[0.7, 0.3]),
    }
    return schema, cs.open_table(pa.table(rows), schema)


def workloads(schema):
    ranks = cs.prefixes(schema, "x") + cs.prefixes(schema, "pay") + cs.prefixes(schema, "day")
    return {
        "columns": cs.marginals(schema, 1),
        "pairs": cs.marginals(schema, 2),
        "prefixes": ranks,
        "ranges": cs.ranges(schema, "x"),
        "both": cs.marginals(schema, 2) + ranks,
    }


def number(value):
    return (value - datetime.date(1970, 1, 1)).days if isinstance(value, datetime.date) else value


def by_select(release, column: str, where: str | None, by: str | None = None):
    """The quantiles of a box plot by a SELECT, a line for each group; or what it refuses with."""
    asked = ", ".join(f"QUANTILE({column}, {q}) AS {name}" for name, q in BOX.items())
    select = f"SELECT {by + ', ' if by else ''}{asked} FROM made{f' WHERE {where}' if where else ''}"
    try:
        lines = release.query(select + (f" GROUP BY {by}" if by else "")).to_arrow().to_pylist()
    except CannotAnswer as refused:
        return str(refused)
    return [{name: number(value) for name, value in line.items()} for line in lines]


def by_box(release, column: str, where: str | None, by: str | None = None):
    try:
        return release.box(column, by=[by] if by else [], where=where).to_pylist()
    except CannotAnswer as refused:
        return str(refused)


def by_quantile(release, column: str, where: str | None):
    line = {}
    for name, q in BOX.items():
        try:
            found = release.quantile(column, q, where=where)
            line |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
        except CannotAnswer as refused:
            if "no row counts" not in str(refused):
                return str(refused)
            line |= {name: None, f"{name}_low": None, f"{name}_high": None}
    return [line]


def doors_agree(mechanism: str, neighbours: str, names: tuple[str, ...], wheres: tuple[str | None, ...]) -> int:
    """Over releases of some workloads, and the rows of some conditions; how many box plots there were to compare."""
    schema, table = made(neighbours)
    answered = 0
    for name in names:
        delta = 0.0 if mechanism == "laplace" else 1e-6
        release = cs.release(table, workloads(schema)[name], epsilon=1.0, delta=delta, mechanism=mechanism)
        for column in ("x", "pay", "day"):
            for where in wheres:
                told = by_select(release, column, where)
                assert by_box(release, column, where) == told, (name, column, where)
                if column == "x":
                    assert by_quantile(release, column, where) == told, (name, column, where)
                answered += isinstance(told, list)
    return answered


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_door_has_the_same_quantiles(mechanism: str) -> None:
    neighbours = "replace" if MECHANISMS.index(mechanism) % 2 else "add-remove"
    assert doors_agree(mechanism, neighbours, ("prefixes",), (None,)) == 3


@pytest.mark.parametrize("mechanism", ["gaussian", "mwem", "boosting"])
def test_every_door_has_the_same_quantiles_where_tables_were_measured_besides(mechanism: str) -> None:
    assert doors_agree(mechanism, "replace", ("both",), (None, "g = 'a'")) == 6


@pytest.mark.audit
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_door_has_the_same_quantiles_of_any_rows(mechanism: str, neighbours: str) -> None:
    schema, _ = made(neighbours)
    assert doors_agree(mechanism, neighbours, tuple(workloads(schema)), WHERE) >= 20


def test_box_plots_by_group_are_those_of_a_select() -> None:
    schema, table = made("replace")
    release = cs.release(table, cs.marginals(schema, 2), epsilon=1.0, delta=1e-6, mechanism="gaussian")
    for column in ("x", "day"):
        assert by_box(release, column, None, "g") == by_select(release, column, None, "g")


@pytest.mark.parametrize("mechanism", ["gaussian", "tree"])
def test_columns_that_were_not_released_are_refused_at_every_door(mechanism: str) -> None:
    """A tree ended in an error of its arrays, and a box plot took a column that nobody knows for one without rows."""
    schema, table = made("replace")
    release = cs.release(table, cs.prefixes(schema, "x"), epsilon=1.0, delta=1e-6, mechanism=mechanism)
    for column, where in (("pay", None), ("x", "g = 'a'")):
        told = by_select(release, column, where)
        assert isinstance(told, str)
        assert by_box(release, column, where) == by_quantile(release, column, where) == told
    with pytest.raises(CannotAnswer):
        release.query("SELECT AVG(x) FROM made WHERE g = 'a'")
