"""Counting against brute force: every kind of block, chunks of any size, threads, code widths."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.made import BareSchema
from tests.reference import counts_of

from conspectus.counting import tally as counting
from conspectus.counting.counters import Tally, count, counter_of
from conspectus.counting.joints import JOINT_CELLS, joint_tables
from conspectus.data.domain import Chunk, Domain, code_dtype
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import ParityList
from conspectus.queries.builders.conjunctions import always
from conspectus.queries.builders.marginals import marginals
from conspectus.queries.builders.parities import parities
from conspectus.queries.builders.random_conjunctions import random_conjunctions
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload


def table_of(domain: Domain, rows: int, seed: int) -> Chunk:
    """Skewed rows, so that some cells are crowded and others empty."""
    rng = np.random.Generator(np.random.PCG64(seed))
    codes = [(rng.random(rows) ** 3 * size).astype(code_dtype(size)) for size in domain.sizes]
    return Chunk(tuple(codes), rows)


def cut(chunk: Chunk, sizes: list[int]) -> Iterator[Chunk]:
    start = 0
    for size in [*sizes, chunk.rows]:
        end = min(chunk.rows, start + size)
        yield Chunk(tuple(c if c is None else c[start:end] for c in chunk.columns), end - start)
        start = end


SMALL = BareSchema(2, 3, 1, 5, 2, 2)
MIXED = (
    marginals(SMALL, 2)
    + marginals(SMALL, 0)
    + Workload(SMALL.domain, (Marginal(SMALL.domain, (3, 0)), Intervals(SMALL.domain, 3, 4, False)))
    + Workload(SMALL.domain, (Intervals(SMALL.domain, 3, 5, True),))
    + random_conjunctions(SMALL, 1, 10, 0, negations=True)
    + random_conjunctions(SMALL, 3, 150, 1, negations=True)
    + random_conjunctions(SMALL, 5, 150, 1, negations=True)
    + parities(SMALL, 2)
    + parities(SMALL, 3)
    + parities(SMALL, 0)
    + Workload(SMALL.domain, (ParityList(SMALL.domain, ((), (4,), (0, 4, 5))),))
    + always(SMALL.domain)
    + Workload(SMALL.domain, (Conjunctions.of(SMALL.domain, [Predicate(())]),))
)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.sampled_from([0, 1, 63, 64, 65, 500, 8191, 8193, 20_000]),
    seed=st.integers(0, 1000),
    sizes=st.lists(st.integers(0, 9000), max_size=4),
    threads=st.integers(1, 3),
)
def test_counts_are_the_truth(rows: int, seed: int, sizes: list[int], threads: int) -> None:
    chunk = table_of(SMALL.domain, rows, seed)
    counts, seen = count(MIXED, cut(chunk, sizes), threads=threads)
    assert seen == rows
    assert counts.dtype == np.int64
    assert counts.tolist() == counts_of(MIXED, chunk)


def boxes(domain: Domain) -> st.SearchStrategy[tuple[Literal, ...]]:
    literals = [
        st.sets(st.integers(0, size - 1), min_size=1, max_size=size - 1).map(lambda s, c=c: Literal(c, (*sorted(s),)))
        for c, size in enumerate(domain.sizes)
        if size > 1
    ]
    chosen = st.lists(st.integers(0, len(literals) - 1), unique=True)
    return chosen.flatmap(lambda columns: st.tuples(*(literals[c] for c in sorted(columns))))


@settings(max_examples=40, deadline=None)
@given(st.lists(boxes(SMALL.domain).map(lambda box: Predicate((box,))), max_size=12), st.integers(0, 99))
def test_any_conjunctions_are_counted(queries: list[Predicate], seed: int) -> None:
    workload = Workload(SMALL.domain, (Conjunctions.of(SMALL.domain, queries),))
    chunk = table_of(SMALL.domain, 300, seed)
    assert count(workload, [chunk])[0].tolist() == counts_of(workload, chunk)


def test_wide_codes_many_chunks_and_more_rows_than_a_buffer() -> None:
    wide = BareSchema(300, 70_000, 3, 2)
    chunk = table_of(wide.domain, counting.BUFFER_ROWS + 5000, 3)
    asked = [
        Predicate(((Literal(0, (0, 1, 2)), Literal(1, (0, 5))),)),
        Predicate(((Literal(0, tuple(range(1, 300))),),)),
    ]
    listed = Workload(wide.domain, (Conjunctions.of(wide.domain, asked),))
    tables = [(0,), (1,), (0, 2, 3)]
    workload = Workload(wide.domain, tuple(Marginal(wide.domain, columns) for columns in tables)) + listed
    counts, rows = count(workload, cut(chunk, [40_000, 1, 60_000]))
    assert rows == chunk.rows
    for columns, start, end in zip(tables, workload.offsets, workload.offsets[1:]):
        cells = np.ravel_multi_index([chunk.column(c) for c in columns], wide.domain.shape(columns))
        assert np.array_equal(counts[start:end], np.bincount(cells, minlength=end - start))
    assert counts[-2:].tolist() == counts_of(listed, chunk)


def test_a_counter_adds_up_and_can_go_on() -> None:
    chunk = table_of(SMALL.domain, 700, 8)
    for block in MIXED.blocks:
        counter = counter_of(block)
        first, second = list(cut(chunk, [300]))
        counter.add(first)
        assert counter.counts().tolist() == counts_of(Workload(SMALL.domain, (block,)), first)
        counter.add(second)
        assert counter.counts().tolist() == counts_of(Workload(SMALL.domain, (block,)), chunk)


def test_only_the_columns_of_the_workload_are_read() -> None:
    chunk = table_of(SMALL.domain, 50, 1)
    workload = Workload(SMALL.domain, (Marginal(SMALL.domain, (1, 3)),))
    partial = Chunk(tuple(c if i in (1, 3) else None for i, c in enumerate(chunk.columns)), 50)
    assert count(workload, [partial])[0].tolist() == counts_of(workload, chunk)
    with pytest.raises(LookupError):
        count(MIXED, [partial])
    counts, rows = count(Workload(SMALL.domain, ()), [Chunk((None,) * 6, 50)])
    assert len(counts) == 0
    assert rows == 50


def test_read_only_codes_and_other_integer_types_are_served() -> None:
    chunk = table_of(SMALL.domain, 90, 4)
    columns = tuple(np.asarray(c, dtype=np.uint32)[::-1] for c in chunk.columns if c is not None)
    for column in columns:
        column.flags.writeable = False
    assert count(MIXED, [Chunk(columns, 90)])[0].tolist() == counts_of(MIXED, chunk)


def test_codes_outside_the_domain_never_reach_the_kernels() -> None:
    columns = list(table_of(SMALL.domain, 20, 4).columns)
    columns[1] = np.full(20, 3, dtype=np.uint8)
    with pytest.raises(ValueError, match="does not fit its domain"):
        count(MIXED, [Chunk(tuple(columns), 20)])
    columns[1] = np.zeros(19, dtype=np.uint8)
    with pytest.raises(ValueError, match="does not fit its domain"):
        count(MIXED, [Chunk(tuple(columns), 20)])


def test_an_error_of_the_source_is_passed_on() -> None:
    def source() -> Iterator[Chunk]:
        yield table_of(SMALL.domain, 20, 4)
        raise OSError("the file ended early")

    with pytest.raises(OSError, match="ended early"):
        count(MIXED, source())
    with pytest.raises(ValueError, match="at least one thread"):
        count(MIXED, [], threads=0)


def test_reading_runs_ahead_of_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second chunk is asked for before the first one has been counted; a reader has a minute to ask for it."""
    read: list[int] = []
    seen: list[int] = []
    add = Tally.add

    def source() -> Iterator[Chunk]:
        for number in range(3):
            read.append(number)
            yield table_of(SMALL.domain, 20, number)

    def slow(self: Tally, chunk: Chunk) -> None:
        deadline = 6000
        while len(read) < min(3, len(seen) + 2) and deadline:
            deadline -= 1
            time.sleep(0.01)
        seen.append(len(read))
        add(self, chunk)

    monkeypatch.setattr(Tally, "add", slow)
    count(MIXED, source())
    assert seen == [2, 3, 3]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sets(st.integers(0, 7), max_size=4), min_size=1, max_size=20))
def test_joint_tables_hold_what_is_wanted_and_stay_small(wanted: list[set[int]]) -> None:
    sizes = (2, 3, 40, 50, 2, 60, 7, 8)
    sets = {tuple(sorted(columns)) for columns in wanted}
    cover = joint_tables(sizes, sets)
    assert set(cover) == sets
    for columns, joint in cover.items():
        assert set(columns) <= set(joint)
        cells = int(np.prod([sizes[c] for c in joint]))
        assert joint == columns or cells <= JOINT_CELLS or any(joint == other for other in sets)


def test_all_marginals_of_few_cells_are_one_table() -> None:
    sets = [block.columns for block in marginals(BareSchema(*[2] * 16), 3).blocks]
    assert set(joint_tables((2,) * 16, sets).values()) == {tuple(range(16))}
