"""Watches and what is kept for them: the sparse vector by exact sums on neighbouring errors, and exact counts."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import noise_law, sparse_vector_chance

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.counting.single_query import SingleQueryCounts
from conspectus.curator import held_table as kept
from conspectus.curator.curator import Curator
from conspectus.curator.scores import error_of, query_errors
from conspectus.curator.watch import WatchOver
from conspectus.data.domain import Chunk, Domain
from conspectus.data.fold import fold_chunks
from conspectus.privacy.accounting import BudgetExceeded, Filter, Unpriced, price_pure, price_rho
from conspectus.privacy.events import ByRelation, FurtherHit, ThresholdWatch, from_json, to_json
from conspectus.privacy.noise import UnsafeSeededSampler
from conspectus.privacy.prices import pure_acts
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.parity_list import ParityList
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload

# --- the proof, summed exactly


def loss(reach: int, first: float, each: float, hits: int, scale: float | None = None) -> float:
    """The largest log-ratio over all patterns with this many hits and all errors that one unit moves by `reach`."""
    scales = reach / first, 2 * reach / each if scale is None else scale
    hiding, comparing = (noise_law("laplace", each, 3000) for each in scales)
    most = 0.0
    for pattern in product((False, True), repeat=4):
        if sum(pattern) != hits:
            continue
        for moves in product((-reach, reach), repeat=4):
            here = sparse_vector_chance((3, 3, 3, 3), pattern, hiding, comparing, 4)
            there = sparse_vector_chance([3 + move for move in moves], pattern, hiding, comparing, 4)
            most = max(most, abs(math.log(here / there)))
    return most


@pytest.mark.parametrize("hits", [0, 1, 2, 3])
@pytest.mark.parametrize(("first", "each"), [(0.5, 0.5), (0.2, 0.9)])
def test_a_threshold_costs_its_share_once_and_each_hit_its_own(first, each, hits):
    assert loss(2, first, each, hits) <= first + hits * each + 1e-9


def test_noise_for_one_hit_is_too_little_for_three():
    assert loss(2, 0.5, 0.5, 3, scale=2 / (3 * 0.5)) > 0.5 + 3 * 0.5


# --- the door

SCHEMA = cs.Schema.from_dict({"name": "t", "columns": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}})
QUESTION = cs.sql(SCHEMA, ["a = true"])


def curator(cap: Fraction, currency="pure") -> Curator:
    rows = pa.table({"a": [True] * 60 + [False] * 40, "b": [True] * 100})
    purse = Filter(currency, cap, "replace")
    return Curator(cs.open_table(rows, SCHEMA), purse, neighbours="replace", sampler=UnsafeSeededSampler(1))


def test_a_watch_stops_hard_after_its_hits_and_pays_for_each_before_it_goes_on():
    held = curator(Fraction(10))
    watch = held.above_threshold(Fraction(5), Fraction(3), share=Fraction(1, 3), hits=3)
    for _ in range(3):
        assert watch.exceeds(QUESTION, -1000.0)
    assert watch.over
    with pytest.raises(WatchOver):
        watch.exceeds(QUESTION, 60.0)
    kinds = [type(event) for event in held._allowance.events]
    assert kinds == [ThresholdWatch, FurtherHit, FurtherHit]
    assert held._allowance.spent == 3 + 2 + 2


def test_a_hit_that_cannot_be_paid_for_is_not_looked_for():
    held = curator(Fraction(4))
    watch = held.above_threshold(Fraction(5), Fraction(3), share=Fraction(1, 3), hits=3)
    assert watch.exceeds(QUESTION, -1000.0)
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            watch.exceeds(QUESTION, -1000.0)
    assert held._allowance.spent == 3


def test_a_kept_threshold_has_a_pure_price_alone():
    further = FurtherHit(epsilon=ByRelation(replace=Fraction(1, 3), add_remove=Fraction(1, 3)))
    watch = ThresholdWatch(epsilon=ByRelation(replace=Fraction(1), add_remove=Fraction(1)))
    assert from_json(to_json(further)) == further
    assert price_pure(further, "replace") == Fraction(1, 3)
    with pytest.raises(Unpriced):
        price_rho(further, "add-remove")
    # As one act with its watch, never as acts of their own.
    assert pure_acts([watch, further, further], "replace") == {Fraction(5, 3): 1}
    assert pure_acts([watch, watch], "replace") == {Fraction(1): 2}


@given(st.integers(0, 10**6), st.floats(-1e9, 1e9) | st.just(math.nan), st.sampled_from([1, 2, 16, 256]))
def test_the_error_of_one_query_is_its_score(value, guess, grid):
    domain = Domain(("a",), (5,))
    weights = np.array([grid if grid == 1 else grid - 1], dtype=np.uint32)
    block = SparseQueries.build(domain, np.array([0, 1]), np.array([2], dtype=np.uint64), weights, grid)
    workload = Workload(domain, (block,))
    assert workload.grid == grid
    score = query_errors(workload, np.array([guess])).of(np.array([value]))
    assert error_of(value, grid, guess) == int(score[0])


# --- what is kept

DOMAIN = Domain(("a", "b", "c"), (2, 3, 2))
BOXES = [
    (),
    (Literal(1, (0, 2)),),
    (Literal(0, (1,)), Literal(2, (0,))),
    (Literal(0, (0,)), Literal(1, (1, 2)), Literal(2, (1,))),
]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 1)), max_size=30))
def test_what_is_kept_counts_as_a_pass_does(records):
    codes = np.array(records, dtype=np.uint8).reshape(len(records), 3)
    chunk = Chunk(tuple(codes.T), len(records))
    listed = SparseQueries.build(DOMAIN, np.array([0, 3]), np.array([1, 5, 7], dtype=np.uint64), np.array([4, 1, 3]), 4)
    blocks = [Conjunctions.of(DOMAIN, [Predicate((box,))]) for box in BOXES]
    blocks.append(Conjunctions.of(DOMAIN, [Predicate(((Literal(0, (0,)),), (Literal(0, (1,)), Literal(1, (1,)))))]))
    workloads = [
        *(Workload(DOMAIN, (block,)) for block in blocks),
        Workload(DOMAIN, (ParityList(DOMAIN, ((0, 2),)),)),
        Workload(DOMAIN, (listed,)),
    ]
    for form, most in ((kept.HistogramInMemory, DOMAIN.cells), (kept.RowsInMemory, 0)):
        with mock.patch.object(kept, "MOST_CELLS", most):
            held = kept.hold(DOMAIN, lambda fold: fold_chunks(fold, [chunk]))
        assert type(held) is form
        assert held.rows == len(records)
        for workload in workloads:
            assert held.count(workload.query(0)) == count(workload, [chunk])[0][0]


def test_single_answers_are_those_of_marginals_however_wide():
    rng = np.random.Generator(np.random.PCG64(7))
    domain = Domain(tuple("abcdefgh"), (3, 4, 2, 5, 3, 2, 4, 3))
    weights = rng.dirichlet(np.ones(domain.cells))
    table = SingleQueryCounts(domain, weights)
    for width in (1, 3, 5, 7, 8, 3, 1):
        columns = np.sort(rng.choice(8, width, replace=False)).tolist()
        chosen = [(c, rng.choice(domain.sizes[c], rng.integers(1, domain.sizes[c]), False)) for c in columns]
        box = tuple(Literal(c, tuple(np.sort(codes).tolist())) for c, codes in chosen)
        workload = Workload(domain, (Conjunctions.of(domain, [Predicate((box,))]),))
        truth = cs_answer(domain, weights, workload)
        assert table.of(workload.query(0)) == pytest.approx(truth, abs=1e-12)


def cs_answer(domain, weights, workload) -> float:
    from conspectus.counting.evaluation import indicator

    columns, inside = indicator(workload.query(0), domain)
    others = tuple(axis for axis in range(len(domain)) if axis not in columns)
    return float((weights.reshape(domain.sizes).sum(axis=others) * inside).sum())
