"""Chunks of sets count what chunks of codes count: lists and bitmaps, literals and their negations, any workload."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.made import BareSchema

from conspectus.counting.counters import count
from conspectus.data.chunks import MOST_ROWS, SetChunk, packed
from conspectus.data.domain import Chunk
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.builders.conjunctions import always
from conspectus.queries.builders.marginals import marginals
from conspectus.queries.builders.parities import parities
from conspectus.queries.builders.random_conjunctions import random_conjunctions
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload

WIDE = BareSchema(*[2] * 9)
EITHER = Predicate(((Literal(0, (1,)),), (Literal(0, (0,)), Literal(4, (1,)), Literal(7, (0,)))))
MIXED = (
    random_conjunctions(WIDE, 3, 400, 1, negations=True)
    + marginals(WIDE, 2)
    + random_conjunctions(WIDE, 1, 18, 2, negations=True)
    + random_conjunctions(WIDE, 6, 300, 3, negations=True)
    + parities(WIDE, 3)
    + always(WIDE.domain)
    + Workload(WIDE.domain, (Conjunctions.of(WIDE.domain, [Predicate(()), EITHER]),))
)


def matrix_of(columns: int, rows: int, seed: int) -> NDArray[np.uint8]:
    """Columns from empty to full: some become lists, others bitmaps."""
    rng = np.random.Generator(np.random.PCG64(seed))
    shares = rng.permutation(np.concatenate([[0.0, 1.0, 0.5], 2.0 ** -rng.integers(1, 9, max(0, columns - 3))]))
    return (rng.random((columns, rows)) < shares[:columns, None]).astype(np.uint8)


def sets_of(matrix: NDArray[np.uint8], seed: int) -> SetChunk:
    """The chunk of a matrix from its ones, shuffled and some of them twice."""
    which, places = np.nonzero(matrix)
    rng = np.random.Generator(np.random.PCG64(seed))
    order = rng.permutation(np.concatenate([np.arange(len(which)), np.arange(len(which) // 2)]))
    return SetChunk.of_pairs(np.arange(len(matrix)), which[order], places[order], rows=matrix.shape[1])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=0, max_size=4), st.integers(0, 1000), st.integers(1, 3), st.booleans())
def test_sets_count_what_codes_count(rows: list[int], seed: int, threads: int, as_bits: bool) -> None:
    parts = [matrix_of(9, count_of, seed + at) for at, count_of in enumerate(rows)]
    dense = [Chunk(tuple(part), part.shape[1]) for part in parts]
    sets = [SetChunk.of_codes(range(9), p, rows=p.shape[1]) if as_bits else sets_of(p, seed) for p in parts]
    expected, total = count(MIXED, dense, threads=1)
    found, held = count(MIXED, sets, threads=threads)
    assert held == total == sum(rows)
    assert found.tolist() == expected.tolist()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 6))
def test_lists_that_differ_much_in_length(seed: int, k: int) -> None:
    """A long list is searched, a short one walked through, a bitmap looked up: all three must agree with the codes."""
    rng = np.random.Generator(np.random.PCG64(seed))
    rows = 5000
    shares = np.array([0.3, 0.1, 0.06, 0.05, 0.02, 0.004, 0.001, 0.0, 1.0])
    matrix = (rng.random((9, rows)) < shares[:, None]).astype(np.uint8)
    workload = random_conjunctions(WIDE, k, 140, seed, negations=True)
    chunk = sets_of(matrix, seed)
    assert {-1, 0} <= set(chunk.bitmap.tolist())
    expected, _ = count(workload, [Chunk(tuple(matrix), rows)])
    assert count(workload, [chunk])[0].tolist() == expected.tolist()


def test_a_set_takes_the_smaller_form() -> None:
    matrix = np.zeros((3, 1600), dtype=np.uint8)
    matrix[0, :100] = matrix[1, :101] = 1
    chunk = sets_of(matrix, 0)
    assert chunk.bitmap.tolist() == [-1, 0, -1]
    assert chunk.ones.tolist() == [100, 101, 0]
    assert len(chunk.places) == 100
    assert all((chunk.column(c) == matrix[c]).all() for c in range(3))


def test_a_full_chunk_and_its_last_place() -> None:
    chunk = SetChunk.of_pairs(np.array([4]), np.zeros(2, np.int64), np.array([0, MOST_ROWS - 1]), rows=MOST_ROWS)
    assert chunk.column(4).nonzero()[0].tolist() == [0, MOST_ROWS - 1]
    with pytest.raises(ValueError, match="at most"):
        SetChunk.of_bits(np.array([0]), np.zeros((1, 1025), np.uint64), rows=MOST_ROWS + 1)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        SetChunk.of_pairs(np.arange(2), np.array([2]), np.array([0]), rows=4)
    with pytest.raises(ValueError, match="outside"):
        SetChunk.of_pairs(np.arange(2), np.array([1]), np.array([4]), rows=4)
    with pytest.raises(ValueError, match="one bit"):
        SetChunk.of_bits(np.arange(2), np.zeros((1, 1), np.uint64), rows=4)
    with pytest.raises(LookupError, match="not read"):
        SetChunk.of_bits(np.arange(2), np.zeros((2, 1), np.uint64), rows=4).slots(np.array([5]))
    three = BareSchema(2, 3)
    chunk = SetChunk.of_bits(np.arange(2), np.zeros((2, 1), np.uint64), rows=4)
    with pytest.raises(ValueError, match="fit"):
        count(random_conjunctions(three, 2, 3, 0), [chunk])
    with pytest.raises(ValueError, match="one form"):
        count(MIXED, [SetChunk.of_codes(range(9), matrix_of(9, 3, 0), rows=3), Chunk(tuple(matrix_of(9, 3, 0)), 3)])


def test_packing_pads_with_zeros() -> None:
    words = packed(np.ones((2, 70), dtype=np.uint8))
    assert words.shape == (2, 2)
    assert words[0].tolist() == [2**64 - 1, 2**6 - 1]
