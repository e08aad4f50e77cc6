"""Numbers beside each other do not contradict each other, whatever the noise is.

A share is its count over the total that a SELECT prints, a part is no more than its whole, a rate is the one count over
the other, a sum is the mean times the number of values; each value lies in its interval. Noise is about as large as the
counts, so that all of them leave what is possible, and the law holds for every draw of it.
"""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.queries.formulas import literal
from conspectus.queries.language.select_plan import Measure, Select
from conspectus.releases.cells.cell_estimates import Interval
from conspectus.releases.selects.agreement import agreed

ROWS = 300
MECHANISMS = [
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
]
UNITS = {
    "public": {"neighbours": "replace"},
    "private": {"neighbours": "add-remove"},
    "ids": {"neighbours": "replace", "unit": {"kind": "id", "column": "who", "max_rows": 2}},
}
NUMBERS = (
    "COUNT(*) AS n, SHARE(*) AS s, COUNT_IF(p) AS i, COUNT(*) FILTER (WHERE p) AS f, COUNT(x) AS c, "
    "AVG(CASE WHEN p THEN 1 ELSE 0 END) AS a, RATE(p) AS r, "
    "COUNT(x) / COUNT(*) AS told, SUM(x) AS total, AVG(x) AS mean"
)

CASES = [("", ""), ("", "g,"), ("", "g, h,"), ("WHERE h", ""), ("WHERE h", "g,"), ("WHERE x IS NOT NULL OR h", "h,")]
"""Which rows there are, and what they are grouped by: with p and x three columns at most."""


@functools.cache
def made(unit: str):
    rng = np.random.Generator(np.random.PCG64(5))
    columns = {
        "g": {"type": "categorical", "values": ["a", "b", "c"]},
        "h": {"type": "boolean"},
        "p": {"type": "boolean"},
        "x": {"type": "integer", "min": -1, "max": 4, "missing": True},
    }
    schema = cs.Schema.from_dict({"name": "made", "columns": columns, **UNITS[unit]})
    x = [None if hidden else int(value) for hidden, value in zip(rng.random(ROWS) < 0.2, rng.integers(-1, 5, ROWS))]
    rows = {"g": rng.choice(["a", "b", "c"], ROWS, p=[0.7, 0.27, 0.03]), "h": rng.random(ROWS) < 0.5}
    rows |= {"p": rng.random(ROWS) < 0.2, "x": pa.array(x, pa.int64()), "who": np.arange(ROWS) // 2}
    return schema, cs.open_table(pa.table(rows), schema)


def lines_of(release, select: str) -> list[dict]:
    return release.query(select).to_arrow().to_pylist()


@pytest.mark.parametrize("unit", list(UNITS))
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_numbers_of_one_result_agree(mechanism, unit):
    schema, table = made(unit)
    settings = {"delta": 0.0 if mechanism == "laplace" else 1e-6, "mechanism": mechanism}
    if mechanism == "adaptive" and unit != "private":
        settings["intervals"] = False  # reruns take seconds, and tell the same way of all units
    release = cs.release(table, cs.marginals(schema, 3), epsilon=0.5, **settings)
    for where, keys in CASES:
        rows = lines_of(release, f"SELECT COUNT(*) AS n FROM made {where}")[0]["n"]
        for line in lines_of(release, f"SELECT {keys} {NUMBERS} FROM made {where} {'GROUP BY ALL' if keys else ''}"):
            check_line(line, rows)
    for line in lines_of(
        release, "SELECT g, COUNT_IF(p) AS i, COUNT(x) AS c, COUNT(x) FILTER (WHERE p) AS both FROM made GROUP BY g"
    ):
        assert line["both"] <= min(line["i"], line["c"])


def check_line(line: dict, rows: int) -> None:
    n, count, part = line["n"], line["c"], line["i"]
    assert max(part, count) <= n <= rows
    assert part == line["f"]
    if rows > 0 and line["s"] is not None:
        assert line["s"] * rows == pytest.approx(n, abs=0.5 + 0.5 * line["s"] + 1e-6)  # both were rounded
    assert line["a"] == line["r"]
    for rate, above in ((line["a"], part), (line["told"], count)):
        if n > 0 and rate is not None:
            assert rate * n == pytest.approx(above, abs=0.5 + 0.5 * rate + 1e-6)
    if line["mean"] is not None:
        assert line["mean"] * count == pytest.approx(line["total"], abs=0.5 * abs(line["mean"]) + 1e-6)
    for name in (name for name in line if f"{name}_low" in line and line[f"{name}_low"] is not None):
        assert line[f"{name}_low"] <= line[name] <= line[f"{name}_high"]


@pytest.mark.parametrize("unit", ["public", "private"])
def test_a_share_by_itself_is_the_count_by_itself(unit):
    """Whatever else a SELECT asks for: the share of a group and its count are the same question."""
    schema, table = made(unit)
    release = cs.release(table, cs.marginals(schema, 2), epsilon=0.5, delta=1e-6, mechanism="gaussian")
    total = lines_of(release, "SELECT COUNT(*) AS n FROM made")[0]["n"]
    counts = lines_of(release, "SELECT g, COUNT(*) AS n FROM made GROUP BY g")
    shares = lines_of(release, "SELECT g, SHARE(*) AS s FROM made GROUP BY g")
    for count, share in zip(counts, shares):
        assert share["s"] * total == pytest.approx(count["n"], abs=0.5 + 0.5 * share["s"] + 1e-6)


@pytest.mark.parametrize("unit", ["public", "private"])
def test_counts_that_a_session_sold_agree_and_none_is_bought_for_it(unit):
    _, table = made(unit)
    numbers = "COUNT(*) AS n, SHARE(*) AS s, COUNT_IF(p) AS i, RATE(p) AS r"
    with cs.open_session(table, epsilon=0.5, delta=1e-6, questions=100, mechanism="gaussian") as session:
        quote = session.quote(f"SELECT g, {numbers} FROM made GROUP BY g")
        assert quote.questions <= 1 + 3 + 6  # the total, the groups, and the cells of both columns
        total = session.query("SELECT COUNT(*) AS n FROM made").to_arrow().to_pylist()[0]["n"]
        for line in session.query(f"SELECT g, {numbers} FROM made GROUP BY g").to_arrow().to_pylist():
            assert line["i"] <= line["n"]
            assert line["s"] * max(total, 1) == pytest.approx(line["n"], abs=0.5 + 0.5 * line["s"] + 1e-6)
            if line["n"] > 0 and line["r"] is not None:
                assert line["r"] * line["n"] == pytest.approx(line["i"], abs=1.01)


SUMS = {
    "SELECT g, {} FROM made GROUP BY g": (-1, 4),
    "SELECT CASE WHEN x < 1 THEN 'few' ELSE 'many' END AS k, {} FROM made WHERE x < 3 GROUP BY ALL": {
        "few": (-1, 0),
        "many": (1, 2),
    },
    "SELECT {} FROM made WHERE p": (-1, 4),
    "SELECT {} FROM made": (-1, 4),
}
"""SELECTs, and between what values of each of their lines lie."""


def check_sums(answers, select: str, span) -> None:
    """A sum is one that as many rows can have as stand beside it; it is the same with the mean in the line."""
    alone = answers(select.format("COUNT(x) AS c, SUM(x) AS total")).to_arrow().to_pylist()
    with_mean = answers(select.format("COUNT(x) AS c, SUM(x) AS total, AVG(x) AS mean")).to_arrow().to_pylist()
    loose = answers(select.format("COUNT(*) AS n, SUM(x) AS total")).to_arrow().to_pylist()
    for line, same, other in zip(alone, with_mean, loose):
        least, most = span[line["k"]] if isinstance(span, dict) else span
        assert least * line["c"] - 1e-6 <= line["total"] <= most * line["c"] + 1e-6
        assert line["total"] == pytest.approx(same["total"], abs=1e-6)
        assert min(least, 0) * other["n"] - 1e-6 <= other["total"] <= max(most, 0) * other["n"] + 1e-6
        for one in (line, same, other):
            assert one["total_low"] is None or one["total_low"] <= one["total"] <= one["total_high"]


@pytest.mark.parametrize("unit", ["public", "private"])
@pytest.mark.parametrize("mechanism", ["gaussian", "projection", "mwem", "dual-query", "stable-histogram"])
def test_a_sum_is_one_that_the_rows_beside_it_can_have(mechanism, unit):
    schema, table = made(unit)
    for _ in range(3):
        release = cs.release(table, cs.marginals(schema, 2), epsilon=0.5, delta=1e-6, mechanism=mechanism)
        for select, span in SUMS.items():
            check_sums(release.query, select, span)


@pytest.mark.parametrize("unit", ["public", "private"])
def test_a_sum_that_a_session_sold_is_one_that_the_rows_beside_it_can_have(unit):
    """The mean costs nothing where the sum was bought by its cells, as it is here."""
    _, table = made(unit)
    with cs.open_session(table, epsilon=0.5, delta=1e-6, questions=200, mechanism="gaussian") as session:
        for select, span in SUMS.items():
            session.query(select.format("MEDIAN(x) AS m"))
            before = session.quote(select.format("COUNT(x) AS c, SUM(x) AS total"))
            asked = session.quote(select.format("COUNT(x) AS c"))
            assert before.cost == asked.cost
            check_sums(session.query, select, span)


def told(value: float, low: float | None, high: float | None) -> Interval:
    return Interval(value=value, low=low, high=high, basis="measured")


def test_an_interval_is_only_ever_widened():
    schema, _ = made("private")
    domain, yes = schema.domain, literal(schema.domain, 2, [1])
    measures = (Measure("count"), Measure("count", where=yes), Measure("ratio", where=yes), Measure("share"))
    found = [[told(10.0, 5.0, 15.0)], [told(30.0, 20.0, 40.0)], [told(0.4, 0.2, 0.6)], [told(0.9, 0.8, 1.0)]]
    plan = Select(keys=(), where=True, measures=measures, outputs=())
    whole = told(40.0, 39.0, 41.0)
    after = agreed(plan, domain, [()], found, lambda where, group: whole if where is True and not group else None)
    assert [column[0] for column in after] == [
        told(10.0, 5.0, 15.0),
        told(10.0, 10.0, 40.0),
        told(1.0, 0.2, 1.0),
        told(0.25, 0.25, 1.0),
    ]


def test_a_sum_or_its_mean_gives_way_and_keeps_to_its_interval():
    schema, _ = made("private")
    measures = (Measure("count"), Measure("sum", (3,)), Measure("mean", (3,)))
    plan = Select(keys=(), where=True, measures=measures, outputs=())
    count, mean = told(10.0, 5.0, 15.0), told(2.0, 1.0, 3.0)
    for summed, expected in (
        (told(25.0, 15.0, 35.0), (told(20.0, 15.0, 35.0), mean)),
        (told(25.0, 24.0, 26.0), (told(25.0, 24.0, 26.0), told(2.5, 1.0, 3.0))),
        (told(80.0, 70.0, 90.0), (told(20.0, 20.0, 90.0), mean)),
    ):
        after = agreed(plan, schema.domain, [()], [[count], [summed], [mean]], lambda where, group: None)
        assert (after[1][0], after[2][0]) == expected
        fewer = Select(keys=(), where=True, measures=measures[:2], outputs=())
        alone = agreed(fewer, schema.domain, [()], [[count], [summed]], lambda where, group: None, lambda one: [mean])
        assert alone[1][0] == expected[0]
