"""One question, one answer: `ask` and `query` have the same count and, where the rows are public, the same interval.

Both are cut to what is possible. Two rules for that would show: a fitted count beside noise far below 0 had the whole
margin by one of them and a point by the other.
"""

from __future__ import annotations

import math

import pytest
from tests.made import people

import conspectus as cs
from conspectus.synopses.estimate import Estimate

MECHANISMS = ["gaussian", "histogram", "tree", "projection", "mwem", "iterative", "boosting", "dual-query"]


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_ask_and_query_say_the_same(mechanism, neighbours):
    """With noise of about the size of the counts, so that answers leave what is possible at both ends."""
    schema, table = people(300, neighbours=neighbours)
    for _ in range(3):
        release = cs.release(table, cs.marginals(schema, 2), epsilon=0.3, delta=1e-6, mechanism=mechanism)
        lines = release.query("SELECT region, ill, COUNT(*) AS n FROM people GROUP BY region, ill").to_arrow().to_pylist()
        for line in lines:
            asked = release.ask(f"region = '{line['region']}' AND {'' if line['ill'] else 'NOT '}ill")
            rows = release.total.divisor
            most = rows if release.total.exact else math.inf
            assert line["n"] == pytest.approx(min(max(asked.count, 0), most), abs=0.5 + 1e-6)
            if release.total.exact:
                ends = [min(max(end * rows, 0), rows) for end in (asked.low, asked.high)]
                assert [line["n_low"], line["n_high"]] == pytest.approx(ends, abs=1 + 1e-6)


def test_noise_far_below_nothing_leaves_the_interval_of_a_fitted_count():
    """A fit says 5 rows, the noise says -80 ± 46: possible counts go up to 46, and 5 is one of them."""
    estimate = Estimate.within(-80.0, 46.0, basis="measured", share=0.05)
    assert estimate.possible_ends(100.0) == (0.0, 46.0)
    assert Estimate.within(170.0, 46.0, basis="measured").possible_ends(100.0) == (54.0, 146.0)
    assert Estimate.unguaranteed(0.1, 100.0).possible_ends(100.0) is None
