"""Sums, means, variances and covariances in a session: from their parts, with intervals, for what was quoted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.queries.sensitivity import WorkloadError

DECLARED = {
    "age": {"type": "integer", "min": 0, "max": 99, "missing": True},
    "sex": {"type": "boolean"},
    "rank": {"type": "integer", "min": 0, "max": 9},
}
SCHEMA = cs.Schema.from_dict({"name": "made", "columns": DECLARED})
RNG = np.random.default_rng(2)
AGE, SEX = RNG.integers(18, 90, 3000), RNG.random(3000) < 0.4
RANK = np.minimum(AGE // 12 + RNG.integers(0, 3, 3000), 9)
HELD = RNG.random(3000) < 0.9
TABLE = cs.open_table(pa.table({"age": pa.array(AGE, mask=~HELD), "sex": SEX, "rank": RANK}), SCHEMA)
TRUTHS = {
    "sum": (cs.sums(SCHEMA, "age"), AGE[HELD].sum()),
    "mean": (cs.means(SCHEMA, "age", where="sex"), AGE[HELD & SEX].mean()),
    "variance": (cs.variances(SCHEMA, "rank"), RANK.var()),
    "covariance": (cs.covariances(SCHEMA, "age", "rank"), np.cov(AGE[HELD], RANK[HELD], bias=True)[0, 1]),
    "rate": (cs.means(SCHEMA, "sex"), SEX.mean()),
}


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", ["laplace", "pmw"])
def test_a_moment_is_answered_from_its_parts(mechanism: str, neighbours: str) -> None:
    """At a confidence that noise does not break: every interval holds the truth, and costs no more than was quoted."""
    budget = {"epsilon": 60.0, "mechanism": mechanism, "neighbours": neighbours, "questions": 200}
    with cs.open_session(TABLE, **budget, **({} if neighbours == "replace" else {"rows": 3000})) as session:
        for name, (question, truth) in TRUTHS.items():
            before, quote = session.spent, session.quote(question)
            assert session.spent == before
            found = session.ask(question, confidence=1 - 1e-8)
            assert found.low is None or found.low <= truth <= found.high, name
            assert found.value == pytest.approx(truth, rel=0.2), name
            assert found.cost <= quote.cost * (1 + 1e-9)
            assert session.spent - before == pytest.approx(found.cost, abs=1e-9)
            again = session.ask(question, confidence=1 - 1e-8)
            assert (again.value, again.cost, again.repeated) == (found.value, 0.0, True)
        assert session.ask(TRUTHS["mean"][0]).count == pytest.approx((HELD & SEX).sum(), rel=0.2)


def test_a_select_asks_for_parts_where_cells_cost_more() -> None:
    query = "SELECT sex, AVG(age) AS mean, STDDEV_POP(age) AS spread FROM made GROUP BY sex"
    with cs.open_session(TABLE, epsilon=60.0, mechanism="laplace", questions=200) as session:
        quote = session.quote(query)
        assert quote.questions <= 2 * (2 + 3)  # 200 cells otherwise
        found = session.query(query, confidence=1 - 1e-8)
        assert found.cost <= quote.cost * (1 + 1e-9)
        for line in found.to_pylist():
            held = AGE[HELD & (line["sex"] == SEX)]
            assert line["mean_low"] <= held.mean() <= line["mean_high"]
            assert line["spread_low"] <= held.std() <= line["spread_high"]
        assert session.query(query).cost == 0


def test_what_is_not_served_is_refused_before_it_costs() -> None:
    other = cs.Schema.from_dict({"name": "other", "columns": {"x": {"type": "integer", "min": 0, "max": 3}}})
    with cs.open_session(TABLE, epsilon=1.0, mechanism="laplace", questions=20) as session:
        for refused in (cs.means(other, "x"), cs.means(SCHEMA, "age", by=["sex"])):
            with pytest.raises((WorkloadError, ValueError)):
                session.ask(refused)
        with pytest.raises(WorkloadError, match="ask"):
            session.measure(cs.means(SCHEMA, "age"))
        assert session.spent == 0
