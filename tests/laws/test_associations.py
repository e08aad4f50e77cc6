"""Cramér's V of released pairs, and its picture."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.made import people

import conspectus as cs
from conspectus.report.associations import cramers_v, matrix
from conspectus.report.pictures import triangle


def test_cramers_v_is_none_for_independence_one_for_a_bijection_and_what_chi_squared_says_between():
    assert cramers_v(np.outer([0.2, 0.8], [0.1, 0.3, 0.6])) == pytest.approx(0, abs=1e-12)
    assert cramers_v(np.diag([3.0, 5.0, 2.0])) == pytest.approx(1)
    table = np.array([[10.0, 20.0], [30.0, 5.0]])
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    chi = ((table - expected) ** 2 / expected).sum()
    assert cramers_v(table) == pytest.approx(np.sqrt(chi / table.sum()))
    # Values that nobody has change nothing.
    assert cramers_v(np.pad(table, ((0, 2), (0, 1)))) == pytest.approx(cramers_v(table))
    assert cramers_v(np.zeros((2, 2))) == 0
    assert cramers_v(np.ones((1, 4))) == 0


def test_fitted_releases_have_a_matrix_and_plain_noise_has_none():
    schema, table = people(rows=3000)
    workload = cs.marginals(schema, 2)
    settings = {"components": 30, "intervals": False}
    fitted = cs.release(table, workload, rho=50.0, mechanism="adaptive", **settings)
    drawn = matrix(fitted)
    assert 'role="img"' in drawn
    assert 'aria-label="Association of columns (Cram' in drawn
    shown = {tuple(sorted(pair[:2])): float(pair[2]) for pair in re.findall(r"<title>(\w+), (\w+): ([\d.]+)<", drawn)}
    assert len(shown) == 6
    assert shown["ill", "smoker"] > shown["ill", "region"] + 0.1
    assert matrix(cs.release(table, workload, epsilon=1.0, mechanism="laplace")) == ""
    assert matrix(cs.release(table, cs.marginals(schema, 1), rho=1.0, mechanism="adaptive", **settings)) == ""


def test_a_triangle_has_a_cell_for_each_pair_and_says_what_is_missing():
    names = ["a<b", "c", "d"]
    drawn = triangle(names, {(0, 1): 0.42, (0, 2): None, (1, 2): 0.9}, title="V")
    assert drawn.count("<rect") == 3
    assert "a&lt;b" in drawn
    assert "<b" not in drawn.replace("&lt;b", "")
    assert ".42" in drawn
    assert "not drawn" in drawn
