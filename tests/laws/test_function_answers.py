"""What a function of the table answers: a value, and a number of rows only where that means something."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from tests.made import people

import conspectus as cs
from conspectus.report import write_report
from conspectus.synopses.synopsis import CannotAnswer

SCHEMA, TABLE = people(500)
HUGE = {"epsilon": 1e6, "delta": 1e-6}
OWN = {"mode of region": (lambda codes: np.bincount(codes[:, 0]).max() / max(len(codes), 1), 1 / 300)}


def own(mechanism: str) -> cs.Release:
    # A sensitivity above 1/500, which is true, so that 512, the public number of steps, is not the number of rows.
    more = {"rounds": 2, "first": 1} if mechanism == "boosting" else {}
    return cs.release(TABLE, cs.unsafe_functions(SCHEMA, OWN), mechanism=mechanism, **HUGE, **more)


@pytest.mark.parametrize("mechanism", ["laplace", "boosting"])
def test_functions_of_ones_own_are_values(mechanism: str, tmp_path) -> None:
    made = own(mechanism)
    made.save(tmp_path / "f.conspectus")
    for release in (made, cs.load(tmp_path / "f.conspectus")):
        answer = release.ask(release.workload[0])
        assert answer.count is None
        assert re.match(r"0\.\d{4,}, \d\d% interval", str(answer))
        assert not release.counts_rows


def test_a_release_of_functions_counts_no_rows(tmp_path) -> None:
    release = own("boosting")
    smokers = release.ask("smoker")
    assert (smokers.count, smokers.basis) == (None, "unguaranteed")
    assert 0 <= smokers.fraction <= 1
    assert "rows" not in str(smokers)
    assert release.synthetic(40).num_rows == 40
    with pytest.raises(CannotAnswer, match="synthetic"):
        release.table(["smoker"])
    write_report(release, tmp_path / "f.html")
    page = (tmp_path / "f.html").read_text()
    assert "rows, a public number" not in page
    assert "fractions of the rows" not in page


def test_the_total_of_functions_is_no_number_of_rows() -> None:
    everybody = own("laplace").ask(cs.sql(SCHEMA, ["smoker OR NOT smoker"]))
    assert (everybody.fraction, everybody.count) == (1.0, None)


SHARES = [cs.mode_shares(SCHEMA, ["region"]), cs.interval_balances(SCHEMA, "age")[:1]]
VALUES = [
    cs.truncated_means(SCHEMA, "age"),
    cs.quantile_shares(SCHEMA, "age", [0.5]),
    cs.kolmogorov_distances(SCHEMA, "age"),
    cs.independence_distances(SCHEMA, [("smoker", "ill")]),
    cs.satisfied_shares(SCHEMA, [[{"smoker": True}, {"ill": True}]]),
]


@pytest.mark.parametrize("place", range(len(SHARES + VALUES)))
def test_ready_functions_count_rows_where_they_are_shares_of_rows(place: int) -> None:
    asked = [*SHARES, *VALUES][place]
    release = cs.release(TABLE, asked + cs.marginal(SCHEMA, ["smoker"]), mechanism="laplace", **HUGE)
    answer = release.ask(asked)
    if place < len(SHARES):
        assert answer.count == pytest.approx(answer.fraction * 500)
        assert "of the rows (about" in str(answer)
    else:
        assert answer.count is None
        assert "rows" not in str(answer)
    assert answer.low <= answer.fraction <= answer.high
    # The counts beside them are counts.
    assert release.ask("smoker").count == pytest.approx(release.ask("smoker").fraction * 500)
    assert dataclasses.asdict(answer)["count"] == answer.count
