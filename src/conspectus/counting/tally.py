"""The counts of a workload over one share of the rows: vectors that add up, and the values that follow from their sums.

Marginals and intervals become contingency tables, listed conjunctions a tree over bit-packed literals, parities the
same with XOR. Negated literals are not packed: count(a ∧ ¬b) = count(a) − count(a ∧ b), so that they share the work of
the positive ones. Chunks of sets, which wide two-valued tables come in, are counted as they are. After the pass, memory
is linear in the queries.

What a part holds must not depend on how its rows arrived. A tree of conjunctions is built from the first rows it sees,
so trees of two parts differ: the vector is the count of each query, never the totals of the tree. Tables of codes, sums
of a projection and weights of records add as they are. The value of a statistic does not add at all: its vector is the
tables it is computed from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from conspectus.data.chunks import SetChunk
from conspectus.data.domain import Chunk, CodedRows, Codes, Domain, code_dtype, fitting
from conspectus.data.fold import Vectors
from conspectus.queries.block import Block
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.dyadic_tree import DyadicTree
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import Parities, ParityList
from conspectus.queries.sensitivity import CountingBlock
from conspectus.queries.workload import Workload

from .bitmaps import ConjunctionCounts, ParityCounts, Task
from .block_counter import BlockCounter
from .block_counters import block_counter
from .evaluation import answers_from_marginals
from .joints import joint_tables, projections
from .kernels import ROWS, tabulate
from .set_counting import SetCounts

BUFFER_ROWS = 1 << 17
"""Rows that are gathered before they are counted: small chunks would waste the passes over the queries."""

BUFFER_BYTES = 1 << 28
"""Where many columns are asked about, fewer rows are gathered, so that the buffer stays about this small."""


class CountingPlan:
    """What the parts of one workload have in common: which vectors they hold, and what these mean."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.domain: Domain = workload.domain
        self.counting = tuple(block for block in workload.blocks if isinstance(block, CountingBlock))
        self.listed = [block for block in workload.blocks if isinstance(block, Conjunctions)]
        self.parities = [block for block in workload.blocks if isinstance(block, Parities | ParityList)]
        self.others = [block for block in workload.blocks if not isinstance(block, CountingBlock)]

    @cached_property
    def cover(self) -> dict[tuple[int, ...], tuple[int, ...]]:
        """For each marginal that is needed, the joint table that is counted for it."""
        wanted = {
            tuple(sorted(block.columns))
            for block in self.counting
            if isinstance(block, Marginal | Intervals | DyadicTree)
        }
        return joint_tables(self.domain.sizes, wanted)

    @cached_property
    def joints(self) -> list[tuple[int, ...]]:
        """The columns of the joint tables, in the order of their vectors."""
        return sorted(set(self.cover.values()))

    @cached_property
    def others_counters(self) -> list[BlockCounter]:
        """Counters without rows, which know what the vectors of theirs mean."""
        return [block_counter(block) for block in self.others]

    @property
    def gathers(self) -> bool:
        """Whether some question holds rows."""
        return any(counter.gathers for counter in self.others_counters)

    def values(self, vectors: Vectors, rows: int) -> NDArray[np.int64]:
        """The values of all queries from summed vectors, in the workload's order and in steps of its grid."""
        tables, rest = dict(zip(self.joints, vectors)), iter(vectors[len(self.joints) :])
        marginals = projections(tables, self.domain.sizes, self.cover)
        listed = next(rest) if self.listed else None
        parities = next(rest) if self.parities else None
        counters = iter(self.others_counters)
        grid = self.workload.grid
        found: list[NDArray[np.int64]] = []
        for block in self.workload.blocks:
            if not isinstance(block, CountingBlock):
                part = next(counters).of_parts((next(rest),), rows)
            elif listed is not None and isinstance(block, Conjunctions):
                part, listed = listed[: len(block)], listed[len(block) :]
            elif parities is not None and isinstance(block, Parities | ParityList):
                part, parities = parities[: len(block)], parities[len(block) :]
            else:
                alone = Workload(self.domain, (block,))
                part = answers_from_marginals(alone, marginals.__getitem__, dtype=np.int64)
            found.append(part if block.grid == grid else part * (grid // block.grid))
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


class Tally:
    """Counts all queries of a workload over chunks of codes, the work of one buffer spread over `threads` threads."""

    def __init__(
        self,
        workload: Workload,
        *,
        threads: int = 1,
        pool: Executor | None = None,
        plan: CountingPlan | None = None,
    ) -> None:
        self._plan = plan or CountingPlan(workload)
        self._pool = pool
        self._threads = threads
        self._form: type | None = None
        self._coded = False
        self._place: dict[int, int] = {}
        self._sizes: tuple[int, ...] = ()
        self._buffer: Codes = np.zeros((0, 0), dtype=np.uint8)
        self._filled = 0
        self.rows = 0
        self._others = [block_counter(block) for block in self._plan.others]
        self._conjunctions: ConjunctionCounts | None = None
        self._sets: list[SetCounts] = []
        self._tables: dict[tuple[int, ...], NDArray[np.int64]] = {}
        self._parities: ParityCounts | None = None

    def add(self, chunk: CodedRows) -> None:
        """Take in some rows."""
        if self._form is None:
            self._begin(type(chunk))
        if not isinstance(chunk, self._form or object):
            raise ValueError("the chunks of a table are all of one form")
        for counter in self._others:
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
                self._buffer[place, here] = fitting(codes, self._sizes[place], taken)
            self._filled += taken
            start += taken
            if self._filled == room:
                self._count_buffer()
        self.rows += chunk.rows

    def _begin(self, form: type) -> None:
        """Prepare for chunks of one form: what is counted as sets needs no place in the buffer of codes."""
        self._form = form
        plan = self._plan
        blocks: tuple[Block, ...] = plan.counting
        if form is SetChunk:
            self._sets = [SetCounts(block, self._threads) for block in plan.listed]
            blocks = tuple(block for block in blocks if not isinstance(block, Conjunctions))
        self._coded = bool(blocks)
        columns = sorted({column for block in blocks for column in block.columns})
        self._place = {column: place for place, column in enumerate(columns)}
        self._sizes = plan.domain.shape(columns)
        dtype = code_dtype(max(self._sizes, default=1))
        room = BUFFER_BYTES // max(1, len(columns) * np.dtype(dtype).itemsize)
        self._buffer = np.zeros((len(columns), max(ROWS // 8, min(BUFFER_ROWS, room))), dtype=dtype)
        self._tables = {joint: np.zeros(plan.domain.project(joint).cells, dtype=np.int64) for joint in plan.joints}
        if form is not SetChunk and plan.listed:
            # All listed queries share one tree, however many blocks they came in.
            self._conjunctions = ConjunctionCounts(Conjunctions.join(plan.listed), self._place, self._threads)
        if plan.parities:
            matrix = _stacked([block.matrix for block in plan.parities])
            self._parities = ParityCounts(matrix, self._place, self._threads)

    def vectors(self) -> Vectors:
        """What this part holds so far; see `CountingPlan.values`."""
        if self._form is None:
            self._begin(Chunk)
        self._count_buffer()
        if () in self._tables:
            self._tables[()][0] = self.rows
        found = [self._tables[joint] for joint in self._plan.joints]
        if self._conjunctions is not None:
            found.append(self._conjunctions.counts(self.rows))
        if self._sets:
            found.append(np.concatenate([counts.counts(self.rows) for counts in self._sets]))
        if self._parities is not None:
            found.append(self._parities.counts(self.rows))
        for counter in self._others:
            found += counter.parts()
        return tuple(found)

    def counts(self) -> NDArray[np.int64]:
        """The values so far, in the workload's order and in steps of its grid."""
        return self._plan.values(self.vectors(), self.rows)

    def _count_buffer(self) -> None:
        if not self._filled:
            return
        tasks = list(self._tabulating())
        for counts in (self._conjunctions, self._parities):
            tasks += counts.tasks(self._buffer, self._filled) if counts is not None else []
        self._run(tasks)
        self._filled = 0

    def _tabulating(self) -> Iterator[Task]:
        for columns, table in sorted(self._tables.items(), key=lambda item: -len(item[1])):
            if columns:
                places = np.array([self._place[c] for c in columns], dtype=np.int64)
                sizes = np.array(self._plan.domain.shape(columns), dtype=np.int64)
                yield partial(tabulate, self._buffer, self._filled, places, sizes, table)

    def _run(self, tasks: Sequence[Task]) -> None:
        if self._pool is None:
            for task in tasks:
                task()
        else:
            for done in [self._pool.submit(task) for task in tasks]:
                done.result()


def _stacked(matrices: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    width = max(matrix.shape[1] for matrix in matrices)
    padded = [np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=-1) for rows in matrices]
    return np.concatenate(padded)
