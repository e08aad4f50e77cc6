"""The median and the perceptron as rules of the iterative construction: T(α), what they say, and what is released."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.mechanisms.iterative_construction import HELD, RULES
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.settings import SettingError
from conspectus.mechanisms.update_rules.offline_rules import MedianRule, PerceptronRule
from conspectus.mechanisms.update_rules.update_counts import databases, median_updates, net_size, perceptron_updates
from conspectus.synopses.fitting.least_deviation import question_matrix

SCHEMA = cs.Schema.from_dict(
    {"name": "made", "columns": {"ill": {"type": "boolean"}, "old": {"type": "boolean"}, "male": {"type": "boolean"}}}
)
ASKED = cs.marginals(SCHEMA, 2)
ALL = (0, 1, 2)


def truth(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(8, 0.4))


def test_values_on_cells_are_those_of_every_table() -> None:
    values = question_matrix(ASKED, ALL)
    assert values.shape == (12, 8)
    assert set(np.unique(values)) == {0.0, 1.0}
    table = cs.open_table(pa.table({"ill": [True, False, True], "old": [True] * 3, "male": [False] * 3}), SCHEMA)
    exact = cs.release(table, ASKED, epsilon=1e9, mechanism="laplace").answers
    cells = [7 - 1, 3 - 1, 7 - 1]  # cells are numbered as bits: ill, old, male
    counts = np.bincount(cells, minlength=8) / 3
    assert values @ counts == pytest.approx(exact, abs=1e-6)


def worst(rule: MedianRule | PerceptronRule, aims: np.ndarray) -> tuple[int, float]:
    off = np.abs(rule.answers(ASKED, 1.0) - aims)
    return int(np.argmax(off)), float(off.max())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["median", "perceptron"])
def test_no_more_updates_than_t_of_alpha(name: str, seed: int) -> None:
    """The worst question every time, measured to within half of the level: as bad as the theorem allows."""
    alpha = 0.25
    most = (median_updates if name == "median" else perceptron_updates)(alpha, 8)
    assert math.isfinite(most)
    aims = question_matrix(ASKED, ALL) @ truth(seed)
    rule = (MedianRule if name == "median" else PerceptronRule)(SCHEMA.domain, ALL, alpha)
    noise = np.random.default_rng(seed)
    updates = 0
    while True:
        place, off = worst(rule, aims)
        if off < alpha:
            break
        guessed = rule.answers(ASKED, 1.0)[place]
        noisy = aims[place] + noise.uniform(-0.5, 0.5) * alpha
        step = SimpleNamespace(question=ASKED[place], noisy=np.array([noisy]), guessed=np.array([guessed]))
        rule.update(step, 1.0)
        updates += 1
        assert updates <= most
    released = rule.weights(ASKED, 1.0)
    assert released.sum() == pytest.approx(1.0)
    assert released.min() >= 0
    error = np.abs(question_matrix(ASKED, ALL) @ released - aims).max()
    assert error <= (2 * alpha if name == "perceptron" else 3 * alpha) + 1e-9  # the net is as coarse as the level here


def test_a_median_is_one() -> None:
    rule = MedianRule(SCHEMA.domain, ALL, 0.5)
    members = np.array(list(databases(8, 4))) / 4
    assert len(rule._members) == len(members) == net_size(8, 4)
    said = np.sort(members @ question_matrix(ASKED, ALL).T, axis=0)[len(members) // 2]
    assert rule.answers(ASKED, 1.0).tolist() == said.tolist()


def people(rows: int) -> cs.Workload:
    made = np.random.default_rng(3)
    cells = made.choice(8, rows, p=truth(1))
    bits = {name: (cells >> shift & 1).astype(bool) for name, shift in (("ill", 2), ("old", 1), ("male", 0))}
    return cs.open_table(pa.table(bits), SCHEMA)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_releases_a_table(rule: str) -> None:
    table = people(2_000)
    exact = cs.release(table, ASKED, epsilon=1e9, mechanism="laplace").answers
    made = cs.release(table, ASKED, epsilon=200.0, mechanism="iterative", rule=rule, rounds=30)
    assert made.parameters["rule"] == rule
    assert np.abs(made.answers - exact).max() < 0.05
    assert made.synthetic(10, public_seed=1).num_rows == 10


@pytest.mark.parametrize("rule", sorted(RULES))
def test_the_theorem_of_every_rule_holds(rule: str) -> None:
    table = people(200_000)
    exact = cs.release(table, ASKED, epsilon=1e9, mechanism="laplace").answers
    plan = cs.plan(SCHEMA, ASKED, rows=200_000, epsilon=20.0, mechanism="iterative", rule=rule, theorem=True)
    bound = plan.best.bound
    assert bound is not None
    made = cs.release(table, ASKED, epsilon=20.0, mechanism="iterative", rule=rule, theorem=True)
    assert np.abs(made.answers - exact).max() <= bound.value  # fails with probability 0.05 at most, and far less here
    assert made.parameters["rounds"] == max(1, math.ceil(RULES[rule](made.parameters["alpha"] / 2, 8)))
    assert bound.value == pytest.approx(HELD[rule] * made.parameters["alpha"])


def test_what_a_rule_cannot_serve_is_refused() -> None:
    with pytest.raises(SettingError, match="one of multiplicative, median, perceptron"):
        cs.mechanisms.IterativeConstruction(rule="newton")
    wide = cs.Schema.from_dict({"name": "w", "columns": {f"c{n}": {"type": "boolean"} for n in range(7)}})
    with pytest.raises(NoMechanism, match="at most 64 cells"):
        cs.release(
            cs.open_table(pa.table({f"c{n}": [True] for n in range(7)}), wide),
            cs.marginals(wide, 2),
            epsilon=1.0,
            mechanism="iterative",
            rule="median",
        )
