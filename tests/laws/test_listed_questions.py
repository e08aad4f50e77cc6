"""A short list of records is the predicate that it is, whatever mechanism made the release."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.made import needed

import conspectus as cs
from conspectus.mechanisms.registry import OFFLINE
from conspectus.synopses.synopsis import CannotAnswer

SCHEMA = cs.Schema.from_dict(
    {
        "name": "t",
        "columns": {
            "a": {"type": "categorical", "values": ["x", "y", "z"]},
            "b": {"type": "boolean"},
            "c": {"type": "boolean"},
        },
    }
)
LISTS = {
    "a = 'x' AND b AND NOT c": [("x", True, False)],
    "b AND NOT c": [(a, True, False) for a in "xyz"],
    "a = 'x' AND NOT (b AND NOT c)": [("x", False, False), ("x", False, True), ("x", True, True)],
}


def released(name):
    rng = np.random.default_rng(3)
    size = 2000
    frame = pd.DataFrame({"a": rng.choice(list("xyz"), size), "b": rng.random(size) < 0.3, "c": rng.random(size) < 0.6})
    budget = {"epsilon": 2.0, "delta": 1e-5}
    settings = needed(name, SCHEMA)
    return cs.release(cs.open_table(frame, SCHEMA), cs.marginals(SCHEMA, 3), mechanism=name, **budget, **settings)


@pytest.mark.parametrize("name", [name for name in OFFLINE if name not in ("sparse-project", "stable-histogram")])
def test_lists_are_answered_as_their_predicates(name):
    release = released(name)
    for text, records in LISTS.items():
        listed, asked = release.ask(cs.sparse([records], SCHEMA)), release.ask(text)
        assert listed.fraction == pytest.approx(asked.fraction, abs=1e-12)
        assert listed.basis == asked.basis
        if asked.low is not None:
            assert (listed.low, listed.high) == pytest.approx((asked.low, asked.high), abs=1e-12)


def test_what_is_no_predicate_is_refused_for_what_it_is():
    release = released("projection")
    with pytest.raises(CannotAnswer, match="with weights"):
        release.ask(cs.sparse([{("x", True, False): 0.5}], SCHEMA))
