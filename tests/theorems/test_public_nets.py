"""The net mechanism over an owner's guesses: the law of Algorithm 7, its bound at level, its members, its refusals.

Randomised tests raise a false alarm with probability ALPHA = 1e-6, and each has a wrong twin that fails.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, chi2
from tests.made import claimed, people, truth
from tests.reference import exponential_law

import conspectus as cs
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.settings import SettingError
from conspectus.mechanisms.small_db.net_draws import NetError
from conspectus.mechanisms.small_db.net_mechanism import VOUCHED, NetMechanism
from conspectus.mechanisms.small_db.theorem import FAILURE
from conspectus.privacy.guarantee import Budget
from conspectus.releases.planning import problem_of

ALPHA = 1e-6
SCHEMA = cs.Schema.from_dict({"name": "two", "columns": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}})
CELLS = [(a, b) for a in (False, True) for b in (False, True)]
TABLE_ROWS = list(zip([True] * 5 + [False] * 4, [True, False, True] * 3))
TABLE = cs.open_table(pa.table({"a": [a for a, _ in TABLE_ROWS], "b": [b for _, b in TABLE_ROWS]}), SCHEMA)
QUESTIONS = cs.sql(SCHEMA, ["a", "b", "a AND b"])


def guesses() -> list[np.ndarray]:
    """Distributions over the four cells, near and far from the table's own."""
    return [np.array(w, dtype=float) for w in ([4, 0, 0, 5], [1, 1, 1, 1], [0, 9, 0, 0], [3, 1, 2, 3], [1, 2, 3, 4])]


def exact_law(members: list[np.ndarray], epsilon: float, table=TABLE, rows: int = 9) -> np.ndarray:
    """Algorithm 7 by hand: probabilities ∝ exp(−ε·level/(2·reach)), levels in sixteenths of a count."""
    counts, _ = truth(table, QUESTIONS)
    scores = []
    for cells in members:
        _, b01, b10, b11 = cells / cells.sum()
        guessed = np.rint(16 * rows * np.array([b10 + b11, b01 + b11, b11]))
        scores.append(-epsilon * np.abs(16 * counts - guessed).max() / (2 * 16))
    return exponential_law(scores)


def test_the_law_is_the_exponential_mechanisms_over_the_members():
    """Chi-square over 1,200 whole releases; at a quarter of ε the law is refuted."""
    members, draws, epsilon = guesses(), 1200, 1.0
    net = cs.net(SCHEMA, members)
    drawn = Counter(
        cs.release(TABLE, QUESTIONS, epsilon=epsilon, mechanism="net", net=net, certificate=0).parameters["drawn"]
        for _ in range(draws)
    )
    seen = np.array([drawn[number] for number in range(len(members))])
    for asked, stands in ((epsilon, True), (epsilon / 4, False)):
        expected = draws * exact_law(members, asked)
        statistic = float(((seen - expected) ** 2 / expected).sum())
        assert (statistic <= chi2.ppf(1 - ALPHA, len(members) - 1)) == stands


def test_neighbours_are_told_apart_by_at_most_epsilon():
    """Every table of nine rows that differs from TABLE in one row, and every one with a row more or less (where the
    declared number of rows stays): all probabilities are within e^ε. The law at 4ε breaks it."""
    raw = TABLE_ROWS
    replaced = [[*raw[:i], new, *raw[i + 1 :]] for i in range(len(raw)) for new in CELLS]
    moved = [raw[:i] + raw[i + 1 :] for i in range(len(raw))] + [[*raw, new] for new in CELLS]
    epsilon = 1.0
    here, twin = exact_law(guesses(), epsilon), exact_law(guesses(), 4 * epsilon)
    worst = worst_twin = 0.0
    for rows in replaced + moved:
        table = cs.open_table(pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows]}), SCHEMA)
        worst = max(worst, np.abs(np.log(here / exact_law(guesses(), epsilon, table))).max())
        worst_twin = max(worst_twin, np.abs(np.log(twin / exact_law(guesses(), 4 * epsilon, table))).max())
    assert worst <= epsilon
    assert worst_twin > epsilon


def test_the_bound_holds_at_level():
    """A grid of shares is a net with α = 1/20 for one question. The claim fails with probability 0.05 at most: more
    than the 1 − ALPHA quantile of 80 has chance ALPHA. α alone fails."""
    rng = np.random.Generator(np.random.PCG64(5))
    yes = cs.Schema.from_dict({"name": "one", "columns": {"a": {"type": "boolean"}}})
    net = cs.net(yes, [np.array([1 - share, share]) for share in np.arange(0.05, 1, 0.1)])
    broken = tight = 0
    for _ in range(80):
        ones = int(rng.integers(0, 301))
        table = cs.open_table(pa.table({"a": [True] * ones + [False] * (300 - ones)}), yes)
        release = cs.release(table, cs.sql(yes, ["a"]), epsilon=0.05, mechanism="net", net=net, alpha=0.05)
        bound = release.claim.bound
        error = abs(release.answers[0] - ones / 300)
        broken += error > bound.value
        tight += error > 0.05
    assert bound.probability == 1 - FAILURE
    assert not bound.vacuous
    assert broken <= binom.ppf(1 - ALPHA, 80, FAILURE) < tight


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_members_of_every_kind_are_read_and_the_best_one_is_found(neighbours, tmp_path):
    schema, table = people(rows=600, neighbours=neighbours)
    workload = cs.marginals(schema, 1)
    raw = pa.table({"region": ["north", "west"], "age": [20, 70], "smoker": [True, False], "ill": [False, False]})
    raw.to_pandas().to_csv(tmp_path / "guess.csv", index=False)
    weights = np.ones(schema.domain.sizes)
    earlier = cs.release(table, workload, epsilon=1, mechanism="projection")
    codes = np.array([[0, 0, 0, 0], [1, 2, 0, 1]])
    members = [raw, raw.to_pandas(), str(tmp_path / "guess.csv"), codes, weights, weights.ravel(), earlier]
    net = cs.net(schema, members)
    assert len(net) == 7
    first, second, third = (member.answer(workload) for member in net.members[:3])
    assert np.array_equal(first, second)
    assert np.array_equal(first, third)
    release = cs.release(table, workload, epsilon=1e4, mechanism="net", net=net)
    assert release.parameters["drawn"] == 6
    assert release.synopsis.kind == "histogram"
    assert release.total.exact == (neighbours == "replace")
    assert np.array_equal(release.answers, release.synopsis.answer(workload))
    counts, rows = truth(table, workload)
    assert np.abs(release.answers - counts / rows).max() <= release.certificate.bound
    assert VOUCHED in release.guarantee.warnings
    release.save(tmp_path / "net.conspectus")
    assert np.array_equal(cs.load(tmp_path / "net.conspectus").answers, release.answers)


def test_functions_are_answered_by_members_that_hold_rows():
    schema, table = people(rows=400)
    workload = cs.mode_shares(schema)
    far, near = np.array([[0, 0, 0, 0]]), np.array([[0, 1, 0, 0], [1, 2, 0, 0], [0, 3, 1, 1], [2, 4, 0, 0]])
    release = cs.release(table, workload, epsilon=1e4, mechanism="net", net=cs.net(schema, [far, near]))
    assert release.parameters["drawn"] == 1
    with pytest.raises(NoMechanism, match="cannot answer these questions"):
        cs.release(table, workload, epsilon=1, mechanism="net", net=cs.net(schema, [np.ones(schema.domain.cells)]))


def test_the_claim_is_proposition_5_2():
    net = cs.net(SCHEMA, guesses())
    problem = problem_of(SCHEMA, QUESTIONS, budget=Budget(epsilon=2.0), neighbours=None, rows=1000)
    plain = claimed(NetMechanism(net=net, certificate=0), problem)
    assert plain.bound is None
    said = claimed(NetMechanism(net=net, certificate=0, alpha=0.1), problem)
    exact = 0.1 + 2 * (math.log(5) + math.log(1 / FAILURE)) / (2.0 * 1000)
    assert exact <= said.bound.value <= exact + 2 / (16 * 1000) + 1e-6
    private = problem_of(SCHEMA, QUESTIONS, budget=Budget(epsilon=2.0), neighbours="add-remove", rows=1000)
    assert claimed(NetMechanism(net=net, alpha=0.1), private).bound is None


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([], "without a member"),
        ("abc", "a list of guesses"),
        (pa.table({"a": [True], "b": [True]}), "a list of guesses"),
        (np.ones(4), "a list of guesses"),
        ([np.ones(5)], "member 1 of the net: .* one weight"),
        ([np.ones(4), np.array([[0, 2]])], "member 2 of the net: .* code"),
        ([np.array([[0, 0, 0]])], "2 columns"),
        ([np.zeros((0, 2), np.int64)], "without a single row"),
        ([-np.ones(4)], "zero or more"),
        ([TABLE], "is what is protected"),
        ([3], "not a int"),
        ([None], "not a NoneType"),
        ([pa.table({"a": [True]})], "b"),
    ],
)
def test_what_is_no_net_is_refused_in_words(members, words):
    with pytest.raises(ValueError, match=words):
        cs.net(SCHEMA, members)


def test_a_net_belongs_to_its_schema_and_is_made_by_net():
    schema, table = people(rows=50)
    with pytest.raises(NetError, match="first argument"):
        cs.net([np.ones(4)], SCHEMA)
    with pytest.raises(NetError, match="another schema"):
        cs.net(schema, cs.net(SCHEMA, guesses()).members)
    with pytest.raises(SettingError, match=r"cs.net\(schema"):
        cs.release(table, cs.marginals(schema, 1), epsilon=1, mechanism="net", net=[np.ones(96)])
    with pytest.raises(NoMechanism, match=r"give net=cs.net\(schema"):
        cs.release(table, cs.marginals(schema, 1), epsilon=1, mechanism="net")
    with pytest.raises(NoMechanism, match="another schema"):
        cs.release(table, cs.marginals(schema, 1), epsilon=1, mechanism="net", net=cs.net(SCHEMA, guesses()))
    with pytest.raises(SettingError, match="alpha"):
        NetMechanism(alpha=1.0)
