"""SmallDB: the frequencies of Algorithm 4, its accuracy theorem at level, its sizes and its refusals.

Randomised tests raise a false alarm with probability ALPHA = 1e-6, and each has a wrong twin that fails.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, chi2
from tests.made import claimed, people, truth
from tests.reference import small_db_law

import conspectus as cs
from conspectus.curator.curator import Curator
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.settings import SettingError
from conspectus.mechanisms.small_db.mechanism import SmallDb
from conspectus.mechanisms.small_db.signatures import signatures
from conspectus.mechanisms.small_db.small_databases import SmallNet
from conspectus.mechanisms.small_db.theorem import FAILURE, sampling_error, theorem_alpha, theorem_size
from conspectus.privacy.accounting import Filter
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.noise import UnsafeSeededSampler
from conspectus.releases.planning import problem_of

ALPHA = 1e-6
SCHEMA = cs.Schema.from_dict(
    {"name": "tiny", "columns": {"a": {"type": "boolean"}, "b": {"type": "categorical", "values": ["x", "y", "z"]}}}
)
TABLE = cs.open_table(pa.table({"a": [True] * 5 + [False] * 4, "b": list("xxyzxyyzz")}), SCHEMA)
QUESTIONS = {
    "enumeration": ["a AND b = 'x'", "b IN ('x', 'y')", "a"],
    "laminar": ["a", "a AND b = 'x'"],
    "vectors": ["b = 'x' OR a"],
}


def statistic(found, law, draws):
    return sum((found[answers] - draws * p) ** 2 / (draws * p) for answers, p in law.items())


def net_of(workload, *, size, merge):
    return SmallNet(workload, signatures(workload), size, merge)


@pytest.mark.parametrize("merge", [True, False], ids=["merged", "all"])
@pytest.mark.parametrize("method", QUESTIONS)
def test_frequencies_are_those_of_the_exponential_mechanism(method, merge, monkeypatch):
    """4,000 draws, chi-square at ALPHA (cells with fewer than 5 expected are pooled). The mechanism at half the ε fails
    the same test. The grid of scores rounds to 1/16 of a count, which moves no probability by more than 5 %, and the
    statistic by less than a tenth of its critical value; the coins are fixed, as that would raise ALPHA to 1e-4."""
    monkeypatch.setattr(SmallNet, "coarse", lambda self, *given: 1)
    workload = cs.sql(SCHEMA, QUESTIONS[method])
    draws, epsilon, size = 4000, 1.5, 3
    net = net_of(workload, size=size, merge=merge)
    problem = problem_of(SCHEMA, workload, budget=Budget(epsilon=epsilon), neighbours=None, rows=9)
    purse = Filter("pure", Fraction(10**6), "replace")
    curator = Curator(TABLE, purse, neighbours="replace", sampler=UnsafeSeededSampler(7))
    draw, rng = net.drawn(method, problem, 9.0), np.random.Generator(np.random.PCG64(7))
    found: Counter = Counter()
    for member in curator.select(draw.net, Fraction(epsilon), draws=draws):
        found[tuple((draw.counts(member, rng) @ net.signatures.truth / size).tolist())] += 1
    counts, rows = truth(TABLE, workload)
    right, wrong = (
        small_db_law(workload, counts, rows, epsilon=eps, size=size, merge=merge) for eps in (epsilon, epsilon / 2)
    )
    assert set(found) <= set(right)
    for law, stands in ((right, True), (wrong, False)):
        pooled, seen = pool(law, found, draws)
        assert (statistic(seen, pooled, draws) <= chi2.ppf(1 - ALPHA, len(pooled) - 1)) == stands


def pool(law, found, draws):
    rare = {answers for answers, p in law.items() if p * draws < 5}
    pooled = {answers: p for answers, p in law.items() if answers not in rare}
    seen = Counter({answers: number for answers, number in found.items() if answers not in rare})
    if rare:
        pooled["rare"], seen["rare"] = sum(law[a] for a in rare), sum(found[a] for a in rare)
    return pooled, seen


@pytest.mark.parametrize(("merge", "chance"), [(True, 1 / 2), (False, 2 / 3)])
def test_which_records_are_shown(merge, chance):
    """Two rows of two records that no question tells apart: two of the three multisets are pairs of equal ones, where
    the book's range is drawn from; where records are merged each row is either. Binomial quantiles, ALPHA."""
    workload = cs.sql(SCHEMA, ["a AND b IN ('x', 'y')", "a"])
    net = net_of(workload, size=2, merge=merge)
    counts = np.where(net.signatures.truth[:, 0], 2, 0)
    assert net.signatures.sizes[int(counts.argmax())] == 2
    rng = np.random.Generator(np.random.PCG64())
    equal, draws = 0, 2000
    for _ in range(draws):
        first, second = net.records(counts, rng)
        equal += first == second
    assert binom.ppf(ALPHA / 2, draws, chance) <= equal <= binom.ppf(1 - ALPHA / 2, draws, chance)


@pytest.mark.parametrize("kind", ["prefixes", "overlapping"])
def test_the_accuracy_theorem_holds_at_level(kind):
    """The proved bound fails with probability 0.05 at most: more than the 1 − ALPHA quantile of 60 has chance ALPHA. A
    twentieth of what the bound adds to the best database fails."""
    schema, table = people(rows=400)
    overlapping = cs.sql(schema, ["smoker", "ill", "ill OR age < 42"])
    workload = cs.prefixes(schema, "age") if kind == "prefixes" else overlapping
    counts, rows = truth(table, workload)
    broken = tight = 0
    for _ in range(60):
        release = cs.release(table, workload, epsilon=0.2, mechanism="small-db", size=8)
        bound = release.claim.bound
        error = np.abs(release.answers - counts / rows).max()
        broken += error > bound.value
        tight += error > (bound.value - sampling_error(len(workload), 8)) / 20
    assert bound.probability == 1 - FAILURE
    assert not bound.vacuous
    assert broken <= binom.ppf(1 - ALPHA, 60, FAILURE) < tight


def test_some_small_database_is_as_close_as_lemma_4_3_says():
    """Without noise (a huge budget) the drawn database is a best one: within the lemma's α for every size."""
    schema, table = people(rows=500)
    workload = cs.sql(schema, ["smoker", "ill", "smoker AND ill", "age < 42 OR ill"])
    counts, rows = truth(table, workload)
    for size in (2, 5, 9):
        release = cs.release(table, workload, epsilon=1e5, mechanism="small-db", size=size)
        assert np.abs(release.answers - counts / rows).max() <= sampling_error(len(workload), size)


@pytest.mark.parametrize("epsilon", [1e6, 1e15])
def test_a_budget_of_any_size_draws_a_best_database(epsilon):
    """The best of five rows answers in fifths: no prefix is further off than a tenth, and a row."""
    schema, table = people(rows=500)
    workload = cs.prefixes(schema, "age")
    counts, rows = truth(table, workload)
    release = cs.release(table, workload, epsilon=epsilon, mechanism="small-db", size=5)
    assert np.abs(release.answers - counts / rows).max() <= 0.1 + 2 / rows


def test_sizes_and_bounds_are_the_books():
    assert theorem_size(1000, 0.1) == math.ceil(math.log(1000) / 0.01) == 691
    # Worked numbers: |X| = 1024, |Q| = 1000, ε = 1, β = 0.05.
    for rows, alpha in ((10**3, 0.920), (10**4, 0.427), (10**5, 0.198), (10**6, 0.0920), (10**7, 0.0427)):
        assert theorem_alpha(1024, 1000, epsilon=1.0, rows=rows) == pytest.approx(alpha, rel=2e-3)
    schema, table = people(rows=2000)
    workload = cs.prefixes(schema, "age")
    release = cs.release(table, workload, epsilon=1, mechanism="small-db", theorem=True, certificate=0)
    classes = len(workload)
    alpha = theorem_alpha(classes, len(workload), epsilon=1.0, rows=2000)
    assert release.parameters["size"] == theorem_size(len(workload), alpha / 2)
    # Theorem 4.5 solves Proposition 4.4 for α: the exact bound is not above it.
    assert release.claim.bound.value <= alpha
    aimed = cs.release(table, workload, epsilon=1, mechanism="small-db", alpha=0.3)
    assert aimed.parameters["size"] == theorem_size(len(workload), 0.3)


def test_refusals_state_the_number_of_databases():
    schema, _ = people()
    workload = cs.marginals(schema, 2)
    problem = problem_of(schema, workload, budget=Budget(epsilon=1.0), neighbours=None, rows=1000)
    said = claimed(SmallDb(size=8), problem)
    assert f"{math.comb(96 + 7, 8):,} databases of 8 rows over 96 records" in said.reason
    wide = cs.Schema.from_dict({"name": "wide", "columns": {f"c{i}": {"type": "boolean"} for i in range(30)}})
    problem = problem_of(wide, cs.marginals(wide, 2), budget=Budget(epsilon=1.0), neighbours=None, rows=1000)
    assert "about 10^" in claimed(SmallDb(), problem).reason
    overlapping = cs.marginals(SCHEMA, 1)
    with pytest.raises(NoMechanism, match="databases of 4096 rows"):
        cs.release(TABLE, overlapping, epsilon=1, mechanism="small-db", size=4096)
    ages = cs.prefixes(schema, "age")
    private = problem_of(schema, ages, budget=Budget(epsilon=1.0), neighbours="add-remove", rows=1000)
    assert "public number of rows" in claimed(SmallDb(theorem=True), private).reason
    assert claimed(SmallDb(), private).bound is None


@pytest.mark.parametrize(
    "bad",
    [{"size": 0}, {"size": 5000}, {"alpha": 1.0}, {"certificate": 1}, {"public_seed": -1}, {"size": 3, "alpha": 0.1}],
)
def test_settings_that_are_none(bad):
    with pytest.raises(SettingError):
        SmallDb(**bad)


def test_rows_answer_and_are_read_back(tmp_path):
    schema, table = people(rows=300)
    workload = cs.prefixes(schema, "age")
    release = cs.release(table, workload, epsilon=1, mechanism="small-db", size=6, public_seed=4)
    assert release.synopsis.size == 6
    release.save(tmp_path / "small.conspectus")
    again = cs.load(tmp_path / "small.conspectus")
    assert np.array_equal(again.answers, release.answers)
    assert release.synthetic(10).num_rows == 10
    answer = release.ask("age < 42")
    assert answer.low <= answer.fraction <= answer.high


def test_a_private_total_is_bought_and_answers_are_scaled_by_it():
    schema, table = people(rows=300, neighbours="add-remove")
    workload = cs.prefixes(schema, "age")
    release = cs.release(table, workload, epsilon=5, mechanism="small-db", size=10)
    assert not release.total.exact
    assert [type(event).__name__ for event in release.events] == ["LaplaceNoise", "ExponentialDraws", "LaplaceNoise"]


def test_a_universe_of_a_trillion_records():
    """Twelve columns of ten values; three questions tell eight kinds of records apart."""
    rng = np.random.Generator(np.random.PCG64(8))
    names = [f"c{i}" for i in range(12)]
    columns = {name: {"type": "integer", "min": 0, "max": 9} for name in names}
    schema = cs.Schema.from_dict({"name": "wide", "columns": columns})
    table = cs.open_table(pa.table({name: rng.integers(0, 10, 2000) for name in names}), schema)
    workload = cs.sql(schema, ["c0 < 4 AND c1 > 2", "c2 = 4 OR c3 < 6", "c4 < 5 OR c0 > 7"])
    counts, rows = truth(table, workload)
    for merge in (True, False):
        release = cs.release(table, workload, epsilon=2, mechanism="small-db", size=12, merge=merge)
        assert np.abs(release.answers - counts / rows).max() < release.claim.bound.value
        assert release.parameters["records"] == ("8" if merge else "100,000")
