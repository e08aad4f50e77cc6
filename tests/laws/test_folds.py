"""Folds add up: for every kind of question, the parts of any split of the rows sum to the whole, number by number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import counts_of

import conspectus as cs
from conspectus.counting.counters import Counting, count
from conspectus.curator.exact_counts import ExactCounts
from conspectus.data.chunks import SetChunk
from conspectus.data.domain import Chunk, Domain
from conspectus.data.fold import Beside, CodesInMemory, FoldError, RowCount, fold_chunks, summed
from conspectus.data.spool import Spool
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import Parities, ParityList
from conspectus.queries.blocks.sparse_projection import SparseProjection
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.blocks.statistic import Statistics
from conspectus.queries.blocks.unsafe_functions import UnsafeFunctions
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload

SCHEMA = cs.Schema.from_dict(
    {
        "name": "folded",
        "columns": {
            "a": {"type": "integer", "min": 0, "max": 4},
            "b": {"type": "boolean"},
            "c": {"type": "categorical", "values": ["x", "y", "z"]},
            "d": {"type": "boolean"},
        },
    }
)
DOMAIN: Domain = SCHEMA.domain


def one(column: int, *codes: int) -> Literal:
    return Literal(column, codes)


def share(codes: np.ndarray) -> float:
    return float((codes[:, 0] > 2).mean()) if len(codes) else 0.0


UNIONS = Conjunctions.of(
    DOMAIN,
    [
        Predicate(((one(0, 1), one(1, 0)), (one(0, 2), one(2, 0, 1)))),
        Predicate(((),)),
        Predicate(()),
        Predicate(((one(3, 1),),)),
    ],
)
NEGATED = Conjunctions.of(
    DOMAIN, [Predicate(((one(0, 0, 1, 3, 4), one(2, 1, 2)),)), Predicate(((one(0, 2), one(1, 1), one(3, 0)),))]
)
LISTED = SparseQueries.build(
    DOMAIN, np.array([0, 3, 4]), np.array([1, 9, 30, 55], dtype=np.uint64), np.array([4, 1, 3, 2]), 4
)
STATISTICS = (
    cs.mode_shares(SCHEMA, given=[{}, {"b": True}])
    + cs.quantile_shares(SCHEMA, "a", given=[{}, {"d": True}])
    + cs.independence_distances(SCHEMA)
    + cs.truncated_means(SCHEMA, "a")
)
BLOCKS = {
    "marginal": (Marginal(DOMAIN, (2, 0)), Marginal(DOMAIN, (1,)), Marginal(DOMAIN, ())),
    "intervals": (Intervals(DOMAIN, 0, 5, False),),
    "prefixes": (Intervals(DOMAIN, 0, 4, True),),
    "unions": (UNIONS,),
    "negated": (NEGATED,),
    "parities": (Parities(DOMAIN, (1, 3), 2), Parities(DOMAIN, (1, 3), 0)),
    "parity list": (ParityList(DOMAIN, ((1,), (), (1, 3))),),
    "sparse": (LISTED,),
    "projection": (SparseProjection(DOMAIN, 16, 4, 4, 7),),
    "dense projection": (SparseProjection(DOMAIN, 8, 8, 4, 7),),
    "statistics": STATISTICS.blocks,
}
MIXED = Workload(DOMAIN, (*BLOCKS["marginal"], UNIONS, LISTED, *BLOCKS["parities"], NEGATED, *BLOCKS["prefixes"]))
WORKLOADS = {**{name: Workload(DOMAIN, blocks) for name, blocks in BLOCKS.items()}, "mixed": MIXED}
ROWS = st.lists(st.tuples(*(st.integers(0, size - 1) for size in DOMAIN.sizes)), max_size=40)


def chunk_of(rows: Sequence[Sequence[int]]) -> Chunk:
    codes = np.array(rows, dtype=np.uint8).reshape(len(rows), len(DOMAIN))
    return Chunk(tuple(np.ascontiguousarray(codes.T)), len(rows))


def cuts(data: st.DataObject, rows: int) -> list[slice]:
    """A split of some rows into shares, some of them empty."""
    ends = sorted(data.draw(st.lists(st.integers(0, rows), max_size=5)))
    return [slice(start, end) for start, end in zip([0, *ends], [*ends, rows])]


@pytest.mark.parametrize("kind", WORKLOADS)
@settings(deadline=None, max_examples=40)
@given(rows=ROWS, data=st.data())
def test_the_parts_of_any_split_add_up_to_the_whole(
    kind: str, rows: list[tuple[int, ...]], data: st.DataObject
) -> None:
    fold = Counting(WORKLOADS[kind])
    assert not fold.gathers
    whole, number = fold_chunks(fold, [chunk_of(rows)])
    parts = []
    for share_of_rows in cuts(data, len(rows)):
        part = fold.start()
        for piece in cuts(data, share_of_rows.stop - share_of_rows.start):
            part.add(chunk_of(rows[share_of_rows][piece]))
        parts.append(part.vectors())
    parts.append(fold.start().vectors())  # a share that never had a chunk
    together = summed(fold, parts)
    assert all(vector.dtype == np.int64 for vector in together)
    values, again = fold.finish(together, len(rows))
    assert (number, again) == (len(rows), len(rows))
    assert values.dtype == np.int64
    np.testing.assert_array_equal(values, whole)


@settings(deadline=None, max_examples=40)
@given(rows=st.lists(st.tuples(*[st.integers(0, 1)] * 4), max_size=40), data=st.data())
def test_parts_of_sets_add_up_with_one_another(rows: list[tuple[int, ...]], data: st.DataObject) -> None:
    """Also with parts that saw no rows, which cannot know in which form rows come."""
    domain = Domain(("p", "q", "r", "s"), (2, 2, 2, 2))
    listed = Conjunctions.of(
        domain, [Predicate(((one(0, 1), one(2, 0)),)), Predicate(((),)), Predicate(((one(3, 1),),))]
    )
    fold = Counting(Workload(domain, (listed, Marginal(domain, (1, 2)), Parities(domain, (0, 1, 3), 2), listed)))
    parts = [fold.start().vectors()]
    for here in cuts(data, len(rows)):
        part = fold.start()
        codes = np.array(rows[here], dtype=np.uint8).reshape(-1, 4)
        part.add(SetChunk.of_codes(range(4), np.ascontiguousarray(codes.T), rows=len(codes)))
        parts.append(part.vectors())
    codes = np.array(rows, dtype=np.uint8).reshape(-1, 4)
    whole, _ = fold_chunks(fold, [Chunk(tuple(np.ascontiguousarray(codes.T)), len(rows))])
    np.testing.assert_array_equal(fold.finish(summed(fold, parts), len(rows))[0], whole)


def test_adding_values_of_statistics_would_be_wrong() -> None:
    """The test above has power: the largest code of two halves is not the sum of theirs."""
    workload = WORKLOADS["statistics"]
    rows = [(0, 0, 0, 0)] * 3 + [(4, 1, 2, 1)] * 4
    halves = [count(workload, [chunk_of(part)])[0] for part in (rows[:3], rows[3:])]
    assert (sum(halves) != count(workload, [chunk_of(rows)])[0]).any()


def test_without_any_part_there_are_no_rows() -> None:
    for workload in WORKLOADS.values():
        fold = Counting(workload)
        np.testing.assert_array_equal(fold.finish(summed(fold, []), 0)[0], count(workload, [])[0])


def test_functions_of_ones_own_gather_and_say_so() -> None:
    workload = cs.unsafe_functions(SCHEMA, {"share": (share, 0.5)})
    assert isinstance(workload.blocks[0], UnsafeFunctions)
    fold = Counting(workload)
    assert fold.gathers
    assert Counting(workload + workload).gathers
    rows = [(number % 5, number % 2, number % 3, 0) for number in range(20)]
    part = fold.start()
    for number in range(0, 20, 6):
        part.add(chunk_of(rows[number : number + 6]))
    values, _ = fold.finish(part.vectors(), 20)
    np.testing.assert_array_equal(values, workload.blocks[0].values(np.array(rows, dtype=np.int64)))
    with pytest.raises(FoldError, match="frame"):
        summed(fold, [part.vectors(), part.vectors()])


# --- folds that hold rows, and several folds at once


@pytest.mark.parametrize("memory", [0, 100, 1 << 20])
@settings(deadline=None, max_examples=30)
@given(rows=ROWS, data=st.data())
def test_what_is_put_aside_is_what_was_read(memory: int, rows: list[tuple[int, ...]], data: st.DataObject) -> None:
    from conspectus.data import spool as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "IN_MEMORY", memory)
        spool = Spool(DOMAIN, range(4))
        chunks = [chunk_of(rows[piece]) for piece in cuts(data, len(rows))]
        found, (held, number) = fold_chunks(Beside(Counting(MIXED), spool, RowCount()), chunks)
    assert held is spool
    assert spool.complete
    assert number == spool.rows == len(rows)
    np.testing.assert_array_equal(spool.fold(Counting(MIXED))[0], found[0])
    codes = spool.fold(CodesInMemory(DOMAIN, range(4)))
    assert list(zip(*(column.tolist() for column in codes))) == rows
    assert spool.covers(Counting(MIXED))
    spool.close()
    assert not spool.covers(RowCount())


def test_records_are_put_aside_byte_by_byte() -> None:
    domain = cs.open_records(["a"]).domain
    forms = np.empty(5, dtype=object)
    forms[:] = [b"", b"\x00\x00", b"one", b"\x00", b"a" * 70_000]
    spool = Spool(domain, (), records=True)
    fold_chunks(spool, [Chunk((None,), 3, forms[:3]), Chunk((None,), 2, forms[3:])])
    assert [form for chunk in spool.chunks((), records=True) for form in chunk.records] == forms.tolist()


def test_a_code_outside_its_column_is_never_put_aside() -> None:
    bad = Chunk((np.array([2], dtype=np.uint8),) * 4, 1)
    with pytest.raises(ValueError, match="does not fit"):
        fold_chunks(Spool(DOMAIN, range(4)), [bad])


# --- counts by question


@settings(deadline=None, max_examples=60)
@given(rows=ROWS, data=st.data())
def test_counts_are_found_by_question(rows: list[tuple[int, ...]], data: st.DataObject) -> None:
    """Whatever part of whatever was counted is asked for, in whatever order: found, and right."""
    chunk = chunk_of(rows)
    every = Workload(DOMAIN, (*MIXED.blocks, *BLOCKS["intervals"], *BLOCKS["parity list"]))
    exact, number = count(every, [chunk])
    known = ExactCounts()
    assert known.find(every.blocks[0]) is None
    known.rows = number
    for block, start in zip(every.blocks, every.offsets):
        known.add(block, exact[start : start + len(block)] // (every.grid // block.grid))
    asked = every.take(data.draw(st.lists(st.integers(0, len(every) - 1), min_size=1, max_size=12)))
    for block in asked.blocks:
        found = known.find(block)
        assert found is not None
        np.testing.assert_array_equal(found, count(Workload(DOMAIN, (block,)), [chunk])[0])
    turned = Marginal(DOMAIN, (0, 2))
    np.testing.assert_array_equal(known.find(turned), count(Workload(DOMAIN, (turned,)), [chunk])[0])


def test_statistics_are_found_by_question() -> None:
    workload = WORKLOADS["statistics"]
    exact, rows = count(workload, [chunk_of([(0, 1, 2, 0), (3, 0, 1, 1), (3, 0, 2, 1)])])
    known = ExactCounts()
    known.rows = rows
    for block, start in zip(workload.blocks, workload.offsets):
        known.add(block, exact[start : start + len(block)])
    for place in (0, len(workload) - 1, len(workload) // 2):
        (block,) = workload.take([place]).blocks
        assert isinstance(block, Statistics)
        assert known.find(block).tolist() == [exact[place]]


@settings(deadline=None, max_examples=60)
@given(rows=ROWS, data=st.data())
def test_what_was_not_counted_is_not_made_up(rows: list[tuple[int, ...]], data: st.DataObject) -> None:
    """Any conjunction: it is found with its right count, or it is missed."""
    chunk = chunk_of(rows)
    base = Workload(DOMAIN, (NEGATED, UNIONS, Marginal(DOMAIN, (0, 1)), Intervals(DOMAIN, 0, 4, True)))
    exact, number = count(base, [chunk])
    known = ExactCounts()
    known.rows = number
    for block, start in zip(base.blocks, base.offsets):
        known.add(block, exact[start : start + len(block)])
    box = []
    for column, size in enumerate(DOMAIN.sizes):
        if codes := data.draw(st.sets(st.integers(0, size - 1))):
            box.append(one(column, *sorted(codes)))
    block = Conjunctions.of(DOMAIN, [Predicate((tuple(box),))])
    found = known.find(block)
    right = counts_of(Workload(DOMAIN, (block,)), chunk)
    assert found is None or found.tolist() == right
    if {literal.column for literal in block.literals} == {0, 1} and all(len(x.codes) == 1 for x in block.literals):
        assert found is not None
