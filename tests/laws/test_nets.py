"""Nets: three ways to count the same databases agree exactly, every rank has its member, and neighbours stay close.

Weights are integers and fractions, so nothing here errs by chance.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests.reference import groups_of_databases, records, unit_changes

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.curator.acts import selection_range, selection_rate
from conspectus.curator.curator import Curator
from conspectus.curator.laminar import LaminarDatabases, laminar_tree
from conspectus.curator.nets import ListedNet, SmallDatabases, databases
from conspectus.data.domain import Chunk
from conspectus.mechanisms.small_db.answer_vectors import AnswerVectors
from conspectus.mechanisms.small_db.net_draws import listed
from conspectus.mechanisms.small_db.signatures import signatures
from conspectus.mechanisms.small_db.small_databases import multiset
from conspectus.privacy.accounting import Filter
from conspectus.privacy.events import ByRelation, Noise
from conspectus.privacy.levels import cutoff, level_weights
from conspectus.privacy.relation import Relation

SCHEMA = cs.Schema.from_dict(
    {
        "name": "tiny",
        "columns": {
            "a": {"type": "categorical", "values": ["x", "y", "z"]},
            "b": {"type": "boolean"},
            "d": {"type": "integer", "min": 0, "max": 3},
        },
    }
)
LAMINAR = {
    "prefixes": cs.prefixes(SCHEMA, "d"),
    "marginal": cs.marginal(SCHEMA, ["a", "b"]),
    "hierarchy": cs.sql(
        SCHEMA,
        ["a = 'x'", "a = 'x' AND b", "d < 2 AND a = 'x' AND b", "a = 'y' AND d > 2", "b AND NOT b", "b OR NOT b"],
    ),
}
OVERLAPPING = {"sql": cs.sql(SCHEMA, ["a = 'x' AND b", "b OR d < 2", "a IN ('x', 'y')"])}


def checked(ranked, expected, mass):
    """Levels and masses as expected, and ranks that go to groups as often as these have members."""
    best = min(level for _, _, level in expected)
    wanted = Counter()
    for _, weight, level in expected:
        wanted[level - best] += weight
    found = {d: m for d, m in zip(ranked.distances, ranked.masses) if m}
    assert found == wanted
    assert sum(found.values()) == mass
    for place, (distance, here) in enumerate(zip(ranked.distances, ranked.masses)):
        if 0 < here <= 400:
            drawn = Counter(tuple(ranked.member(place, rank).tolist()) for rank in range(here))
            assert drawn == {rows: weight for rows, weight, level in expected if level - best == distance}


@pytest.mark.parametrize("merge", [True, False], ids=["merged", "all"])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("name", [*LAMINAR, *OVERLAPPING])
def test_enumeration_and_the_tree_find_what_brute_force_does(name, size, merge):
    workload = {**LAMINAR, **OVERLAPPING}[name]
    known = signatures(workload)
    sizes = (1,) * len(known) if merge else known.sizes
    counts = np.random.Generator(np.random.PCG64(size)).integers(0, 20, len(workload))
    expected = list(groups_of_databases(known.truth, sizes, size, counts, 20.0, 3))
    given = (workload, known.truth, sizes, size, 20.0, 3)
    net = SmallDatabases(*given)
    checked(net.ranked(counts, 10**9), expected, net.mass)
    if name in LAMINAR:
        checked(LaminarDatabases(*given).ranked(counts, 10**9), expected, net.mass)
    else:
        assert laminar_tree(known.truth) is None
        with pytest.raises(ValueError, match="nested or disjoint"):
            LaminarDatabases(*given)


@pytest.mark.parametrize("name", LAMINAR)
def test_levels_beyond_the_farthest_are_one_and_their_members_are_right(name):
    workload = LAMINAR[name]
    known = signatures(workload)
    counts = np.random.Generator(np.random.PCG64(3)).integers(0, 20, len(workload))
    net = LaminarDatabases(workload, known.truth, known.sizes, 2, 20.0, 3)
    expected = list(groups_of_databases(known.truth, known.sizes, 2, counts, 20.0, 3))
    best = min(level for _, _, level in expected)
    short = net.ranked(counts, 2)
    assert short.distances == [0, 1, 2, 3]
    assert sum(short.masses) == net.mass
    last = Counter(tuple(short.member(3, rank).tolist()) for rank in range(short.masses[3]))
    assert last == {rows: mass for rows, mass, level in expected if level - best > 2}


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("merge", [True, False], ids=["merged", "all"])
def test_answer_vectors_weigh_what_their_databases_do(size, merge):
    """The probabilities of all answer vectors, as fractions, by enumeration and by counting vectors."""
    workload = OVERLAPPING["sql"]
    known = signatures(workload)
    sizes = (1,) * len(known) if merge else known.sizes
    vectors = AnswerVectors(known.truth, sizes, size)
    expected: dict[tuple[int, ...], int] = {}
    groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for group in itertools.combinations_with_replacement(range(len(sizes)), size):
        rows = np.bincount(group, minlength=len(sizes))
        answers = tuple((rows @ known.truth).tolist())
        mass = math.prod(databases(w, int(j)) for w, j in zip(sizes, rows))
        expected[answers] = expected.get(answers, 0) + mass
        groups.setdefault(answers, []).extend([tuple(rows.tolist())] * mass)
    assert dict(zip(map(tuple, vectors.answers.tolist()), vectors.masses)) == expected
    for number, answers in enumerate(map(tuple, vectors.answers.tolist())):
        found = Counter(tuple(vectors.database(number, rank).tolist()) for rank in range(vectors.masses[number]))
        assert found == Counter(groups[answers])
    counts, rate = np.array([3, 11, 9]), Fraction(1, 7)
    by_vector = ListedNet(workload, vectors.answers * 20.0 / size, vectors.masses).ranked(counts, 10**9)
    by_database = SmallDatabases(workload, known.truth, sizes, size, 20.0).ranked(counts, 10**9)
    assert (by_vector.distances, by_vector.masses) == (by_database.distances, by_database.masses)
    assert _law(by_vector, rate) == _law(by_database, rate)


def _law(ranked, rate):
    weights = level_weights(ranked.distances, total=sum(ranked.masses), rate=rate)
    whole = sum(m * w for m, w in zip(ranked.masses, weights))
    return [Fraction(m * w, whole) for m, w in zip(ranked.masses, weights)]


COINS = cs.Schema.from_dict({"name": "coins", "columns": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}})
RECORDS = records(COINS.domain)


def neighbours_of(relation, max_rows, rows):
    """All pairs of tables over four records that one unit of at most so many rows tells apart."""
    for rest in itertools.combinations_with_replacement(RECORDS, rows - max_rows):
        for one, other in unit_changes(RECORDS, relation, max_rows):
            yield rest + one, rest + other


def laws(workload, kind, tables, epsilon, max_rows, coarse, *, factor=1):
    """For each table the probability of every group of databases, as the curator would draw it."""
    known = signatures(workload)
    net = kind(workload, known.truth, known.sizes, 2, 4.0, coarse)
    reach = net.sensitivity(Relation("replace", max_rows, False)).replace
    rate = selection_rate(reach, epsilon) * factor
    found = {}
    for table in tables:
        columns = [np.array([row[c] for row in table], np.uint8) for c in range(2)]
        counts = _count(workload, columns, len(table))
        ranked = net.ranked(counts, cutoff(net.mass, rate))
        weights = level_weights(ranked.distances, total=net.mass, rate=rate)
        whole = sum(m * w for m, w in zip(ranked.masses, weights))
        groups = {}
        for level, (mass, weight) in enumerate(zip(ranked.masses, weights)):
            for rank in range(mass):
                group = tuple(ranked.member(level, rank).tolist())
                groups[group] = groups.get(group, 0) + Fraction(weight, whole)
        found[table] = groups
    return found


def _count(workload, columns, rows):
    return count(workload, [Chunk(tuple(columns), rows)])[0]


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("max_rows", [1, 2])
@pytest.mark.parametrize("coarse", [1, 5, 32])
@pytest.mark.parametrize("shape", ["enumerated", "laminar"])
def test_neighbouring_tables_draw_nearly_alike(relation, max_rows, coarse, shape):
    """Every pair of small neighbouring tables, every database: no probability moves by more than e^ε, exactly. At four
    times the rate (the factor 2 forgotten, and a sensitivity of half the true one) some does."""
    epsilon = Fraction(2)
    overlapping = cs.sql(COINS, ["a", "b", "a AND b"])
    workload, kind = (
        (overlapping, SmallDatabases) if shape == "enumerated" else (cs.marginal(COINS, ["a", "b"]), LaminarDatabases)
    )
    pairs = list(neighbours_of(relation, max_rows, 3))
    tables = {tuple(sorted(table)) for pair in pairs for table in pair}
    for factor, stands in ((1, True), (4, False)):
        found = laws(workload, kind, tables, epsilon, max_rows, coarse, factor=factor)
        worst = max(
            found[tuple(sorted(one))][group] / found[tuple(sorted(other))][group]
            for one, other in pairs
            for group in found[tuple(sorted(one))]
        )
        assert (math.log(worst) <= float(epsilon)) == stands, math.log(worst)


def test_ranges_and_rates_are_inverse():
    for reach in (Fraction(1), Fraction(16), Fraction(7, 3)):
        assert selection_range(reach, selection_rate(reach, Fraction(3, 4))) == Fraction(3, 4)
    with pytest.raises(ValueError, match="above its rounding"):
        selection_rate(Fraction(1), Fraction(1, 2**60))


def test_nets_that_are_none():
    workload = OVERLAPPING["sql"]
    known = signatures(workload)
    with pytest.raises(ValueError, match="one line of guesses"):
        ListedNet(workload, np.zeros((2, 5)), (1, 1))
    with pytest.raises(ValueError, match="whole number of times"):
        ListedNet(workload, np.zeros((2, 3)), (1, 0))
    with pytest.raises(ValueError, match="at least one row"):
        SmallDatabases(workload, known.truth, known.sizes, 0, 20.0)
    with pytest.raises(ValueError, match="would not fit a word"):
        SmallDatabases(workload, known.truth, tuple(10**9 for _ in known.sizes), 20, 20.0)
    with pytest.raises(ValueError, match="whole number of grid steps"):
        SmallDatabases(workload, known.truth, known.sizes, 2, 20.0, 0)


def test_any_list_of_guesses_is_a_net():
    """The best guess is at distance 0, and equal members share a level."""
    workload = OVERLAPPING["sql"]
    guesses = np.array([[0.1, 0.5, 0.5], [0.15, 0.55, 0.45], [0.9, 0.1, 0.0], [0.9, 0.1, 0.0]])
    net = listed(workload, guesses, 20.0)
    ranked = net.ranked(np.array([3, 11, 9]), 10**9)
    assert ranked.member(0, 0).tolist() == [1]
    assert ranked.masses == [1, 1, 2]
    assert sorted(ranked.member(2, rank).tolist()[0] for rank in (0, 1)) == [2, 3]


def test_multisets_are_sorted_and_each_is_met():
    rng = np.random.Generator(np.random.PCG64(2))
    met = Counter(tuple(multiset(3, 2, rng)) for _ in range(3000))
    assert set(met) == set(itertools.combinations_with_replacement(range(3), 2))
    # Six of them, each 500 times on average with a deviation of 20.4: six deviations, 1.2e-8 in all.
    assert max(abs(number - 500) for number in met.values()) < 6 * 20.5


class Stranger(ListedNet):
    """A net that understates how far one unit moves it."""

    def sensitivity(self, relation):
        return ByRelation(replace=Fraction(0), add_remove=Fraction(0))


def test_a_net_of_ones_own_is_refused_and_no_net_is_measured():
    workload = cs.sql(COINS, ["a", "b"])
    table = cs.open_table(pa.table({"a": [True, False], "b": [True, True]}), COINS)
    purse = Filter("pure", Fraction(10), "replace")
    curator = Curator(table, purse, neighbours="replace")
    with pytest.raises(TypeError, match="not on the list"):
        curator.select(Stranger(workload, np.zeros((2, 2)), (1, 1)), Fraction(1))
    with pytest.raises(TypeError, match="not on the list"):
        curator.measure(ListedNet(workload, np.zeros((2, 2)), (1, 1)), Noise("laplace", 1.0))
    assert purse.events == ()
    drawn = curator.select(ListedNet(workload, np.zeros((2, 2)), (1, 1)), Fraction(1), draws=5)
    assert drawn.shape == (5, 1)
    assert len(purse.events) == 1
