"""Intervals of an ensemble of medians: what was not released is a sum of released cells, each within one bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.synopses.evidence import Evidence
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.median_ensemble import MedianEnsemble
from conspectus.synopses.synopsis import Total

SIZES, ROWS, BOUND = (2, 3, 4), 5_000, 40.0
SCHEMA = cs.Schema.from_dict(
    {"name": "t", "columns": {f"c{i}": {"type": "integer", "min": 0, "max": k - 1} for i, k in enumerate(SIZES)}}
)
PAIRS = cs.marginals(SCHEMA, 2)


@dataclass(frozen=True)
class Within:
    """A bound that is known to hold."""

    counts: float

    def counts_at(self, confidence: float) -> float:
        return self.counts


def made(seed: int, *, exact: bool) -> tuple[np.ndarray, MedianEnsemble, Evidence]:
    """A table, an ensemble of three guesses of it, and released answers that are off by the bound at most."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(np.prod(SIZES)))
    truth = rng.multinomial(ROWS, weights).reshape(SIZES)
    bought = {"value": ROWS + 9.0, "exact": False, "kind": "gaussian", "scale": 9.0, "terms": 1}
    total = Total(value=float(ROWS), exact=True) if exact else Total(**bought)
    members = tuple(Histogram(SCHEMA.domain, rng.dirichlet(1 + 500 * weights), total, (0, 1, 2)) for _ in range(3))
    ensemble = MedianEnsemble(SCHEMA.domain, members, (1, 2, 2), PAIRS, total)
    exactly = Histogram(SCHEMA.domain, truth.ravel() / ROWS, total, (0, 1, 2)).answer(PAIRS) * ROWS
    answers = (exactly + rng.uniform(-BOUND, BOUND, len(PAIRS))) / total.divisor
    return truth, ensemble, Evidence(workload=PAIRS, answers=answers, bound=Within(BOUND))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_what_was_not_released_has_the_interval_of_sums_that_were(seed, exact):
    truth, ensemble, beside = made(seed, exact=exact)
    for column, size in enumerate(SIZES):
        true = truth.sum(axis=tuple(axis for axis in range(3) if axis != column))
        low, high = ensemble.intervals(cs.marginal(SCHEMA, [f"c{column}"]), 0.95, beside)
        fewest = min(other for axis, other in enumerate(SIZES) if axis != column)
        assert (low <= true).all()
        assert (true <= high).all()
        assert (high - low <= 2 * BOUND * fewest + 1e-9).all()
        for code in range(size):
            found = ensemble.estimate(cs.sql(SCHEMA, f"c{column} = {code}"), 0.95, beside)
            assert (found.low, found.high) == pytest.approx((low[code], high[code]))
            assert found.low <= found.count <= found.high
            rest = ensemble.estimate(cs.sql(SCHEMA, f"NOT c{column} = {code}"), 0.95, beside)
            assert rest.low <= ROWS - true[code] <= rest.high
            # Of a public total the rest is known as well as the part; of another it is not.
            assert not exact or rest.width == pytest.approx(found.width)
    either = ensemble.estimate(cs.sql(SCHEMA, "c0 = 1 OR c2 < 2"), 0.95, beside)
    assert either.low <= truth[1].sum() + truth[0, :, :2].sum() <= either.high


def test_what_no_released_marginal_covers_has_no_interval():
    _, ensemble, beside = made(1, exact=True)
    assert ensemble.estimate(cs.sql(SCHEMA, "c0 = 1 AND c1 = 1 AND c2 = 1"), 0.95, beside).low is None
    assert np.isnan(ensemble.intervals(cs.marginal(SCHEMA, ["c0", "c1", "c2"]), 0.95, beside)[0]).all()
    assert ensemble.estimate(cs.sql(SCHEMA, "c0 = 1"), 0.95).low is None


def test_a_select_says_where_a_count_has_no_interval():
    rows = {f"c{i}": np.arange(2_000) % size for i, size in enumerate(SIZES)}
    release = cs.release(
        cs.open_table(pa.table(rows), SCHEMA), PAIRS, epsilon=5.0, delta=1e-6, mechanism="boosting", public_seed=1
    )
    known = release.query("SELECT c1, COUNT(*) AS n FROM t GROUP BY c1")
    assert None not in known.to_dict()["n_low"]
    assert not any("no interval" in note for note in known.notes)
    assert not all(release.table("c1")["too_noisy"].to_pylist())
    unknown = release.query("SELECT COUNT(*) AS n FROM t WHERE c0 = 1 AND c1 = 1 AND c2 = 1")
    assert unknown.to_dict()["n_low"] == [None]
    assert any("no interval" in note for note in unknown.notes)
