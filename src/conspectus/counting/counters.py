"""Counting as a fold: the values of a workload, in one pass over the rows, wherever they lie."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import CodedRows
from conspectus.data.fold import Vectors, fold_chunks
from conspectus.queries.block import Block
from conspectus.queries.workload import Workload

from .tally import CountingPlan, Tally

Counted = tuple[NDArray[np.int64], int]
"""The values of all queries, in the workload's order and in steps of its grid, and the number of rows."""


class Counting:
    """The fold that counts a workload: a block of counting queries by its tally, any other by a counter of its own."""

    records = False
    keyed = False

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self.columns = workload.columns

    @cached_property
    def _plan(self) -> CountingPlan:
        return CountingPlan(self._workload)

    @property
    def gathers(self) -> bool:
        """Whether some question of the workload holds rows: functions of one's own do."""
        return self._plan.gathers

    def start(self, threads: int = 1, pool: Executor | None = None) -> Tally:
        return Tally(self._workload, threads=threads, pool=pool, plan=self._plan)

    def finish(self, vectors: Vectors, rows: int) -> Counted:
        return self._plan.values(vectors, rows), rows


def counter_of(block: Block) -> Tally:
    """A counter for one block, in the calling thread."""
    return Tally(Workload(block.domain, (block,)))


def count(workload: Workload, chunks: Iterable[CodedRows], *, threads: int | None = None) -> Counted:
    """The values of all queries, in the workload's order and in steps of its grid, and the number of rows.

    One pass over the chunks. The next chunk is read while the last one is counted.
    """
    return fold_chunks(Counting(workload), chunks, threads=threads)


__all__ = ["Counted", "Counting", "Tally", "count", "counter_of"]
