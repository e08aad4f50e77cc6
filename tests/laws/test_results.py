"""Results that people can use: frames with the declared types, short representations, HTML and pictures."""

from __future__ import annotations

import datetime
import html
import importlib

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.made import people

import conspectus as cs
from conspectus import tabular
from conspectus.privacy.guarantee import Budget

mpl.use("agg")

COLUMNS = {
    "ward": {"type": "categorical", "values": [1, 2, 3]},
    "day": {"type": "date", "min": "2020-01-01", "max": "2020-01-03", "missing": True},
    "visits": {"type": "integer", "min": 0, "max": 3},
    "age": {"type": "integer", "min": 0, "max": 99, "width": 50},
    "smoker": {"type": "boolean", "missing": True},
    "<b>": {"type": "categorical", "values": ["x", "y"], "other": True},
}


@pytest.fixture(scope="module")
def release() -> cs.Release:
    schema = cs.Schema.from_dict({"name": "clinic", "columns": COLUMNS})
    rng = np.random.Generator(np.random.PCG64(3))
    rows = 500
    data = pa.table(
        {
            "ward": rng.integers(1, 4, rows),
            "day": [None if i % 7 == 0 else datetime.date(2020, 1, 1 + i % 3) for i in range(rows)],
            "visits": rng.integers(0, 4, rows),
            "age": rng.integers(0, 100, rows),
            "smoker": [None if i % 5 == 0 else i % 2 == 0 for i in range(rows)],
            "<b>": rng.choice(["x", "y", "z"], rows),
        }
    )
    return cs.release(cs.open_table(data, schema), cs.marginals(schema, 1), epsilon=1e6, mechanism="laplace")


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        ("ward", pa.int64(), [1, 2, 3]),
        ("day", pa.date32(), [*(datetime.date(2020, 1, day) for day in (1, 2, 3)), None]),
        ("visits", pa.int64(), [0, 1, 2, 3]),
        ("age", pa.string(), ["0–49", "50–99"]),
        ("smoker", pa.bool_(), [False, True, None]),
        ("<b>", pa.string(), ["x", "y", "other"]),
    ],
)
def test_typed_columns_come_back_as_they_were_declared(release, column, kind, values) -> None:
    made = release.table([column])
    assert made.schema.field(column).type == kind
    assert made[column].to_pylist() == values
    assert sum(made["count"].to_pylist()) == 500


def test_a_table_leaves_in_every_form(release) -> None:
    made = release.table(["visits", "smoker"])
    pandas, polars = made.to_pandas(), made.to_polars()
    assert isinstance(pandas, pd.DataFrame)
    assert isinstance(polars, pl.DataFrame)
    assert made.to_arrow().equals(pa.table(made))
    assert pandas["count"].tolist() == polars["count"].to_list() == made.to_dict()["count"] == made["count"].to_pylist()
    assert polars.schema["visits"] == pl.Int64
    assert polars.schema["smoker"] == pl.Boolean
    assert len(made) == made.num_rows == 12
    assert made.equals(release.table(["visits", "smoker"]))
    assert not made.equals(release.table(["visits"]))
    with pytest.raises(AttributeError):
        made.no_such_thing  # noqa: B018


def test_long_things_are_short_where_they_are_shown(release) -> None:
    schema, table = people()
    ledgerless = cs.release(table, cs.marginals(schema, 3), epsilon=1.0)
    for shown in (release, ledgerless, release.schema, release.workload, schema):
        assert len(repr(shown)) < 400
    assert '"clinic"' in repr(release)
    assert "laplace" in repr(release)
    long = tabular.ResultTable(pa.table({"a": list(range(1000)), "n": [1.0] * 1000}), ("a",), (("n", "n", "n"),))
    assert len(str(long).splitlines()) == tabular.MOST_LINES + 2
    assert "980 more lines" in str(long)
    assert "980 more lines" in long._repr_html_()


def test_html_escapes_what_it_shows(release) -> None:
    shown = release.table(["<b>"])._repr_html_()
    assert "<b>" not in shown
    assert html.escape("<b>") in shown
    assert "other" in shown
    assert "clinic" in release._repr_html_()


def test_answers_plans_and_ledgers_are_tables_too(release, tmp_path) -> None:
    schema, table = people()
    answer = release.ask("smoker")
    assert answer.to_dict()["fraction"] == answer.fraction
    assert answer.to_pandas()["low"].tolist() == [answer.low]
    assert answer.to_polars()["basis"].to_list() == ["measured"]
    assert f"{answer.fraction:.4f}" in answer._repr_html_()
    with cs.open_session(table, epsilon=1.0, questions=3) as session:
        live = session.ask("smoker")
        assert live.to_dict()["cost"] == live.cost > 0

    plan = cs.plan(schema, cs.marginals(schema, 2), rows=2000, epsilon=1.0)
    lines = plan.to_pandas()
    assert lines["mechanism"].tolist() == [c.mechanism for c in plan.claims] + [r.mechanism for r in plan.refusals]
    assert lines["expected_max"].iloc[0] == plan.best.expected_max
    assert lines["refusal"].notna().sum() == len(plan.refusals) > 0
    assert len(repr(plan)) < 200
    assert plan.best.mechanism in plan._repr_html_()

    ledger = cs.Ledger.create(
        tmp_path / "l",
        budget=Budget(epsilon=1.0),
        neighbours="replace",
        unit="row",
        schema_fingerprint=schema.fingerprint,
        table="people",
    )
    assert ledger.to_arrow().num_rows == 0
    cs.release(table, cs.marginals(schema, 1), epsilon=0.25, ledger=ledger, mechanism="laplace")
    assert ledger.to_polars()["price"].to_list() == pytest.approx([0.25])
    assert ledger.to_dict()["settled"] == [True]
    assert "0.25 of 1" in repr(ledger)
    assert "0.25 of 1" in ledger._repr_html_()


def test_pictures_have_a_bar_for_each_line_and_its_interval(release, tmp_path) -> None:
    schema, _ = people()
    made = release.table(["visits"])
    axes = made.plot()
    assert [bar.get_width() for bar in axes.patches] == made["count"].to_pylist()
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0", "1", "2", "3"]
    ends = [sorted(point[0] for point in drawn.get_segments()[0]) for drawn in axes.collections]
    assert ends == [[low, high] for low, high in zip(made["low"].to_pylist(), made["high"].to_pylist())]
    assert release.ask("smoker").plot().patches
    plan = cs.plan(schema, cs.marginals(schema, 1), rows=2000, epsilon=1.0)
    assert len(plan.plot().patches) == len(plan.claims)
    with pytest.raises(tabular.CannotPlot, match="no number"):
        tabular.ResultTable(pa.table({"a": [1]}), ("a",), ()).plot()
    mpl.pyplot.close("all")


def test_what_is_not_installed_is_named_with_how_to_get_it(release, monkeypatch) -> None:
    def absent(name: str):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    for call, advice in (("plot", r"conspectus\[plot\]"), ("to_polars", "polars"), ("to_pandas", "pandas")):
        with pytest.raises(tabular.NotInstalled, match=advice):
            getattr(release.table(["visits"]), call)()
