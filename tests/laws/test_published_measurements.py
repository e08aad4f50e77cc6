"""What mechanisms that choose publish beside their synopsis: measurements whose intervals hold whatever was chosen."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.mechanisms.iterative import Step
from conspectus.mechanisms.mwem import first_measured
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload
from conspectus.releases.cells import cell_estimates as cells
from conspectus.releases.cells.cell_estimates import CellCounts, Values
from conspectus.releases.selects.select_notes import VAGUE
from conspectus.synopses.synopsis import Total

ROWS, SIZE = 3_000, 20


def made_table() -> tuple[cs.Schema, object, np.ndarray]:
    rng = np.random.Generator(np.random.PCG64(3))
    x = np.minimum(rng.gamma(2.0, 3, ROWS), SIZE - 1).astype(int)
    columns = {"x": {"type": "integer", "min": 0, "max": SIZE - 1}, "flag": {"type": "boolean"}}
    schema = cs.Schema.from_dict({"name": "made", "columns": columns})
    return schema, cs.open_table(pa.table({"x": x, "flag": rng.random(ROWS) < 0.3}), schema), x


def test_of_what_was_measured_again_the_first_is_kept():
    domain = cs.Schema.from_dict({"name": "made", "columns": {c: {"type": "boolean"} for c in "abcd"}}).domain
    told, law = [], Noise("laplace", 3.0)
    for number, columns in enumerate([(0, 1), (1, 2), (2,), (0, 1), (3,)]):
        asked = Workload(domain, (Marginal(domain, columns),))
        told.append(Step(asked, np.full(len(asked), float(number)), np.zeros(len(asked)), law))
    kept = first_measured(told, Total(value=10.0, exact=True))
    assert kept is not None
    assert [block.columns for block in kept.workload.blocks] == [(0, 1), (2,), (3,)]
    assert kept.counts.tolist() == [0.0] * 4 + [2.0] * 2 + [4.0] * 2
    assert not kept.pooled
    assert first_measured([], Total(value=10.0, exact=True)) is None


@pytest.mark.parametrize(("mechanism", "kind"), [("mwem", "histogram"), ("dual-query", "rows")])
def test_numbers_from_histograms_and_rows_have_the_intervals_of_what_was_measured(mechanism, kind, tmp_path):
    schema, table, x = made_table()
    release = cs.release(table, cs.marginals(schema, 1), epsilon=1e3, mechanism=mechanism)
    assert release.synopsis.kind == kind
    release.save(tmp_path / "one.synopsis")
    for each in (release, cs.load(tmp_path / "one.synopsis")):
        found = each.query("SELECT AVG(x) AS m, SUM(x) AS s, MEDIAN(x) AS q FROM made").to_pylist()[0]
        for name, true in (("m", x.mean()), ("s", x.sum()), ("q", np.median(x))):
            assert found[f"{name}_low"] <= true <= found[f"{name}_high"], name
        assert found["m_high"] - found["m_low"] < 0.5
        assert found["s_high"] - found["s_low"] < 0.5 * ROWS


def test_a_bound_that_leaves_everything_possible_is_no_interval():
    """A certificate is noisy: at this budget it says nothing in 25 of 40 releases. That none of 20 says nothing has a
    chance below 1e-8."""
    schema, table, _ = made_table()
    asked = cs.marginal(schema, ["x", "flag"])
    made = (cs.release(table, asked, epsilon=0.05, mechanism="dual-query", initial="uniform") for _ in range(20))
    release = next(each for each in made if each.certificate.bound >= 1)
    result = release.query("SELECT AVG(x) AS m, SUM(x) AS s, MEDIAN(x) AS q FROM made WHERE flag")
    found = result.to_pylist()[0]
    assert [found[f"{name}_low"] for name in "msq"] == [None] * 3
    assert found["m"] is not None
    assert VAGUE in result.notes
    assert release.quantile("x", 0.5, "flag").low is None


def test_sums_are_cut_to_what_is_possible():
    values = Values.of(np.array([-2.0, 1.0]))
    noisy = CellCounts(counts=np.array([3.0, 4.0]), measured=np.array([3.0, 4.0]), law=Noise("laplace", 100.0))
    found = cells.total(noisy, values, 0.05, most=10.0)
    assert (found.low, found.high) == (-20.0, 10.0)
    bounded = CellCounts(counts=np.array([3.0, 4.0]), measured=np.array([3.0, 4.0]), law=None, reach=lambda _: 50.0)
    assert cells.total(bounded, values, 0.05, most=10.0).low is None
    assert cells.total(bounded, values, 0.05).low == pytest.approx(-2 - 150)
    near = CellCounts(counts=np.array([3.0, 4.0]), measured=np.array([3.0, 4.0]), law=None, reach=lambda _: 1.0)
    told = cells.total(near, values, 0.05, most=10.0)
    assert told.low == pytest.approx(-5)
    assert told.high == pytest.approx(1)
    assert math.isclose(told.value, -2)


def test_a_projection_refuses_beforehand_what_it_could_not_answer():
    """2,000 conjunctions of 4 of 16 columns list 8,192,000 records: too many to write out when they are answered."""
    schema = cs.Schema.from_dict({"name": "bits", "columns": {f"b{i}": {"type": "boolean"} for i in range(16)}})
    asked = cs.random_conjunctions(schema, 4, 2_000, 1)
    plan = cs.plan(schema, asked, rows=20_000, epsilon=1.0)
    assert "sparse-project" in {refusal.mechanism for refusal in plan.refusals}
