"""The intervals of all cells of a measured marginal at once are those of its cells, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from tests.made import people

import conspectus as cs
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.noisy_vectors import ends_of_block
from conspectus.synopses.synopsis import ends_of


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("extra", ["nothing", "a cell by itself", "two columns"])
def test_at_once_as_one_by_one(mechanism: str, extra: str) -> None:
    schema, table = people(500)
    workload = cs.marginal(schema, ["region", "age"])
    if extra == "a cell by itself":
        workload = workload + cs.sql(schema, ["region = 'north' AND age BETWEEN 18 AND 29"])
    elif extra == "two columns":
        workload = workload + cs.marginal(schema, ["age", "region", "ill"])
    release = cs.release(table, workload, epsilon=1.0, delta=1e-6, mechanism=mechanism)
    held = release.synopsis
    assert isinstance(held, NoisyAnswers)
    cells = cs.marginal(schema, ["region", "age"])
    alone = [held.find(query) for query in cells.queries()]
    each = ends_of(alone, 0.9)
    at_once = ends_of_block(held, cells, alone[0], 0.9)
    if extra == "nothing":
        assert at_once is not None
    if at_once is not None and extra != "a cell by itself":
        np.testing.assert_array_equal(at_once, each)
    if not held.pooled:
        np.testing.assert_array_equal(held.intervals(cells, 0.9), each)
    assert ends_of_block(held, cs.marginal(schema, ["smoker"]), None, 0.9) is None
