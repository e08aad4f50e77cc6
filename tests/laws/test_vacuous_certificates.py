"""A certificate is a bound on an error of shares: at most 1, and where it says nothing it says so, everywhere."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from tests.made import people

import conspectus as cs
from conspectus.cli.printing import certificate_json, certificate_text
from conspectus.mechanisms.bounds import Certificate
from conspectus.mechanisms.certificate import certify
from conspectus.privacy.events import Noise
from conspectus.report.contents import accuracy
from conspectus.synopses.synopsis import Total

CERTIFIED = {
    "projection": {},
    "mwem": {"rounds": 2, "evaluations": 20},
    "boosting": {"rounds": 2},
    "dual-query": {"rounds": 2, "draws": 2},
    "small-db": {"size": 2},
    "net": {},
}


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("name", CERTIFIED)
def test_one_row_is_certified_to_nothing(name, neighbours):
    schema, _ = people(rows=1)
    row = {"region": ["north"], "age": [20], "smoker": [True], "ill": [False]}
    table = cs.open_table(pa.table(row), schema)
    settings = dict(CERTIFIED[name])
    if name == "net":
        settings["net"] = cs.net(schema, [np.ones(schema.domain.cells)])
    budget = {"epsilon": 1e-2, "neighbours": neighbours, "certificate": 0.03}
    release = cs.release(table, cs.marginals(schema, 1), mechanism=name, **budget, **settings)
    held = release.certificate
    # The noise has a scale of thousands of counts: it nearly always says nothing, and hardly ever (when negative) more.
    assert held.bound <= 1
    assert held.vacuous == (held.bound == 1) == (not held.holds)
    assert certificate_json(release)["holds"] == held.holds
    assert ("none that says anything" in certificate_text(release)) == held.vacuous
    assert ("its noise is larger than any error can be" in accuracy(release)) == held.vacuous


def test_the_bound_is_cut_at_one_and_counts_are_not():
    held = Certificate(noisy_maximum=1000, law=Noise("laplace", 1e5), total=1.0)
    assert held.bound == 1.0
    assert held.vacuous
    assert held.counts_at(0.95) > 1000
    useful = dataclasses.replace(held, total=1e7)
    assert useful.bound == useful.counts_at(0.975) / 1e7 < 1
    assert not useful.vacuous


def test_answers_that_are_no_shares_are_not_certified():
    """Before anything is drawn: no curator is asked."""
    total = Total(value=5.0, exact=True)
    for wrong in ([0.5, 1.2], [-0.1, 0.5]):
        with pytest.raises(ValueError, match="between 0 and 1"):
            certify(None, None, answers=np.array(wrong), total=total, price=1)
