"""Counting a workload in one pass over chunks of rows.

Marginals and intervals become contingency tables, listed conjunctions a tree over bit-packed literals, parities the
same with XOR. Negated literals are not packed: count(a ∧ ¬b) = count(a) − count(a ∧ b), so that they share the work of
the positive ones. Chunks of sets, which wide two-valued tables come in, are counted as they are. After the pass, memory
is linear in the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import processors
from conspectus.data.chunks import SetChunk
from conspectus.data.domain import Chunk, CodedRows, Domain, code_dtype
from conspectus.queries.block import Block, Counter
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.low_sensitivity import UnsafeFunctions
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import Parities, ParityList
from conspectus.queries.blocks.sparse_projection import SparseProjection
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.blocks.statistic import Statistics
from conspectus.queries.sensitivity import CountingBlock
from conspectus.queries.workload import Workload

from .bitmaps import ConjunctionCounts, ParityCounts
from .evaluation import answers_from_marginals
from .joints import joint_tables, projections
from .kernels import ROWS, tabulate
from .own_counts import GatheredRows, ProjectionCounts, SparseCounts
from .set_counting import SetCounts
from .statistic_counts import Layout, StatisticCounts

BUFFER_ROWS = 1 << 17
"""Rows that are gathered before they are counted: small chunks would waste the passes over the queries."""

BUFFER_BYTES = 1 << 28
"""Where many columns are asked about, fewer rows are gathered, so that the buffer stays about this small."""

Task = Callable[[], None]


class Tally:
    """Counts all queries of a workload over chunks of codes, the work of one buffer spread over `threads` threads."""

    def __init__(self, workload: Workload, *, threads: int = 1, pool: Executor | None = None) -> None:
        self._workload = workload
        self._pool = pool
        self._threads = threads
        self._form: type | None = None
        self._coded = False
        self._place: dict[int, int] = {}
        self._buffer: NDArray[np.unsignedinteger[Any]] = np.zeros((0, 0), dtype=np.uint8)
        self._filled = 0
        self.rows = 0
        self._own = {
            at: own_counter(block) for at, block in enumerate(workload.blocks) if not isinstance(block, CountingBlock)
        }
        self._listed = [block for block in workload.blocks if isinstance(block, Conjunctions)]
        self._conjunctions: ConjunctionCounts | None = None
        self._sets: list[SetCounts] = []
        self._tables: _Tables | None = None
        self._parities: ParityCounts | None = None

    def add(self, chunk: CodedRows) -> None:
        """Take in some rows."""
        if self._form is None:
            self._begin(type(chunk))
        if not isinstance(chunk, self._form or object):
            raise ValueError("the chunks of a table are all of one form")
        for counter in self._own.values():
            counter.add(chunk)
        if isinstance(chunk, SetChunk):
            self._run([task for counts in self._sets for task in counts.tasks(chunk)])
        room = self._buffer.shape[1]
        start = 0
        while self._coded and start < chunk.rows:
            taken = min(chunk.rows - start, room - self._filled)
            here = slice(self._filled, self._filled + taken)
            for column, place in self._place.items():
                codes = chunk.column(column)[start : start + taken]
                if len(codes) != taken or (taken and int(codes.max()) >= self._sizes[place]):
                    raise ValueError("a chunk does not fit its domain: it must come from a table of the same schema")
                self._buffer[place, here] = codes
            self._filled += taken
            start += taken
            if self._filled == room:
                self._count_buffer()
        self.rows += chunk.rows

    def _begin(self, form: type) -> None:
        """Prepare for chunks of one form: what is counted as sets needs no place in the buffer of codes."""
        self._form = form
        domain = self._workload.domain
        blocks: tuple[Block, ...] = tuple(block for block in self._workload.blocks if isinstance(block, CountingBlock))
        if form is SetChunk:
            self._sets = [SetCounts(block, self._threads) for block in self._listed]
            blocks = tuple(block for block in blocks if not isinstance(block, Conjunctions))
        self._coded = bool(blocks)
        columns = sorted({column for block in blocks for column in block.columns})
        self._place = {column: place for place, column in enumerate(columns)}
        self._sizes = domain.shape(columns)
        dtype = code_dtype(max(self._sizes, default=1))
        room = BUFFER_BYTES // max(1, len(columns) * np.dtype(dtype).itemsize)
        self._buffer = np.zeros((len(columns), max(ROWS // 8, min(BUFFER_ROWS, room))), dtype=dtype)
        self._tables = _Tables(domain, blocks, self._place)
        if form is not SetChunk and self._listed:
            # All listed queries share one tree, however many blocks they came in.
            self._conjunctions = ConjunctionCounts(Conjunctions.join(self._listed), self._place, self._threads)
        parities = [block.matrix for block in blocks if isinstance(block, Parities | ParityList)]
        self._parities = ParityCounts(_stacked(parities), self._place, self._threads) if parities else None

    def counts(self) -> NDArray[np.int64]:
        """The values so far, in the workload's order and in steps of its grid."""
        if self._form is None:
            self._begin(Chunk)
        assert self._tables is not None
        self._count_buffer()
        listed = self._conjunctions.counts(self.rows) if self._conjunctions is not None else None
        if self._sets:
            listed = np.concatenate([counts.counts(self.rows) for counts in self._sets])
        parities = self._parities.counts(self.rows) if self._parities is not None else None
        marginals = self._tables.marginals(self.rows)
        parts: list[NDArray[np.int64]] = []
        for at, block in enumerate(self._workload.blocks):
            if at in self._own:
                part = self._own[at].counts()
            elif listed is not None and isinstance(block, Conjunctions):
                part, listed = listed[: len(block)], listed[len(block) :]
            elif parities is not None and isinstance(block, Parities | ParityList):
                part, parities = parities[: len(block)], parities[len(block) :]
            else:
                alone = Workload(self._workload.domain, (block,))
                part = answers_from_marginals(alone, marginals.__getitem__, dtype=np.int64)
            parts.append(part if block.grid == self._workload.grid else part * (self._workload.grid // block.grid))
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def _count_buffer(self) -> None:
        if not self._filled:
            return
        assert self._tables is not None
        tasks = list(self._tables.tasks(self._buffer, self._filled))
        for counts in (self._conjunctions, self._parities):
            tasks += counts.tasks(self._buffer, self._filled) if counts is not None else []
        self._run(tasks)
        self._filled = 0

    def _run(self, tasks: Sequence[Task]) -> None:
        if self._pool is None:
            for task in tasks:
                task()
        else:
            for done in [self._pool.submit(task) for task in tasks]:
                done.result()


class _Tables:
    """The contingency tables behind the marginals and intervals of a workload."""

    def __init__(self, domain: Domain, blocks: Sequence[Block], place: dict[int, int]) -> None:
        self._domain = domain
        wanted = {tuple(sorted(block.columns)) for block in blocks if isinstance(block, Marginal | Intervals)}
        self._cover = joint_tables(domain.sizes, wanted)
        self._joint = {
            columns: np.zeros(domain.project(columns).cells, dtype=np.int64) for columns in set(self._cover.values())
        }
        self._place = place

    def tasks(self, buffer: NDArray[np.unsignedinteger[Any]], rows: int) -> Iterator[Task]:
        for columns, table in sorted(self._joint.items(), key=lambda item: -len(item[1])):
            if columns:
                places = np.array([self._place[c] for c in columns], dtype=np.int64)
                sizes = np.array(self._domain.shape(columns), dtype=np.int64)
                yield _task(buffer, rows, places, sizes, table)

    def marginals(self, rows: int) -> Mapping[tuple[int, ...], NDArray[np.int64]]:
        """All marginals that the blocks need, as counted so far."""
        if () in self._joint:
            self._joint[()][0] = rows
        return projections(self._joint, self._domain.sizes, self._cover)


def _task(
    buffer: NDArray[np.unsignedinteger[Any]],
    rows: int,
    places: NDArray[np.int64],
    sizes: NDArray[np.int64],
    table: NDArray[np.int64],
) -> Task:
    return lambda: tabulate(buffer, rows, places, sizes, table)


def _stacked(matrices: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    width = max(matrix.shape[1] for matrix in matrices)
    padded = [np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=-1) for rows in matrices]
    return np.concatenate(padded)


def counter_of(block: Block) -> Counter:
    """A counter for one block, in the calling thread."""
    return Tally(Workload(block.domain, (block,))) if isinstance(block, CountingBlock) else own_counter(block)


@singledispatch
def own_counter(block: Block) -> Counter:
    """The counter of a block that is not a list of counting queries: one for each kind."""
    raise TypeError(f"there is no counter for a block of kind {type(block).__name__}")


own_counter.register(SparseQueries, SparseCounts)
own_counter.register(SparseProjection, ProjectionCounts)
own_counter.register(Statistics, lambda block: StatisticCounts(Layout(block.domain, block.functions)))
own_counter.register(UnsafeFunctions, GatheredRows)


def count(
    workload: Workload,
    chunks: Iterable[CodedRows],
    *,
    threads: int | None = None,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> tuple[NDArray[np.int64], int]:
    """The values of all queries, in the workload's order and in steps of its grid, and the number of rows.

    One pass over the chunks: a block of counting queries is counted here, any other by its own counter.
    The next chunk is read while the last one is counted. `progress` is told that counting goes on and not how far it
    is, since the number of rows may be private.
    """
    workers = threads if threads is not None else processors()
    if workers < 1:
        raise ValueError("counting needs at least one thread")
    if progress is not None:
        progress("counting", 0, None)  # once: one call per chunk would tell the number of rows
    with ThreadPoolExecutor(workers) as pool, ThreadPoolExecutor(1) as reader:
        tally = Tally(workload, threads=workers, pool=pool)
        rest = iter(chunks)
        coming = reader.submit(next, rest, None)
        while (chunk := coming.result()) is not None:
            coming = reader.submit(next, rest, None)
            tally.add(chunk)
        return tally.counts(), tally.rows
