"""Everything exact that a curator knows of its table, and the one place where rows are read for counting.

The source is read in ONE pass, whatever a mechanism draws: the first need folds over it and puts the codes of all
columns that may be asked about aside (`data/spool.py`); every later need folds over those. Counts that were made are
found by question (`exact_counts.py`) and never made twice. So how often a source is read is a public fact, and how long
a release takes does not depend on which questions it happened to draw.

Nothing here is private yet: what is found stays in this room, and leaves through the doors of `Curator` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from conspectus.counting.counters import Counting
from conspectus.data.fold import Beside, Fold, Result, RowCount, fold_chunks
from conspectus.data.records.field import Elements
from conspectus.data.sources import Table
from conspectus.data.spool import Spool
from conspectus.queries.block import Block
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.blocks.subsample_results import SubsampleSums, SubsampleVotes, Subsampling
from conspectus.queries.query import Sparse
from conspectus.queries.workload import Workload

from .exact_counts import ExactCounts
from .held_table import HeldTable, hold
from .keys import Records, keys_of
from .subsamples import results_of

Counts = NDArray[np.int64]
Progress = Callable[[str, int, int | None], None]
"""Told what is being done, how far it is and how long it will be; never told anything about the table."""


class Truth:
    """The exact numbers behind one release or session, read from its table in one pass.

    Args:
        table: The table.
        columns: The positions of the columns that may be asked about: the first pass puts them all aside.
        keys: Whether the keys of whole rows may be asked for, so that the first pass puts these aside too.
        once: Whether the first count will be the last, so that it need not put anything aside.
        progress: Told that counting goes on, and how far it is where rows lie elsewhere; nothing about the rows.
    """

    def __init__(
        self,
        table: Table,
        *,
        columns: Iterable[int] = (),
        keys: bool = False,
        once: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self.table = table
        self.progress = progress
        self.public_rows: int | None = None  # what may be told of the number of rows
        self._once = once
        self._records = keys and table.reads_records
        self._columns = {*columns, *(range(len(table.domain)) if keys and not self._records else ())}
        self._known = ExactCounts()
        self._latest: tuple[Workload, Counts] | None = None
        self._keys: tuple[Elements | Records, Counts] | None = None
        self._results: dict[Subsampling, Counts] = {}
        self._spool: Spool | None = None
        self._held: HeldTable | None = None

    @classmethod
    def of(cls, table: Table | Truth, progress: Progress | None = None) -> Truth:
        """What is known of a table of which anything may be asked; a truth is itself."""
        if isinstance(table, Truth):
            return table
        return cls(table, columns=range(len(table.domain)), progress=progress)

    def rows(self) -> int:
        """The number of rows: as the source says, or from the first pass."""
        if self._known.rows is None:
            self._known.rows = self.read() if self.table.known_rows is None else self.table.known_rows
        return self._known.rows

    def read(self) -> int:
        """Read the source now, if it was not read yet: one that is damaged is refused before anything is spent."""
        if self._spool is None and self._held is None:
            self._tell()
        return self._fold(RowCount())

    def counts(self, workload: Workload) -> Counts:
        """The exact values of a workload, in steps of its grid: as they are known, or in one fold over the rows."""
        if self._latest is not None and self._latest[0] is workload:
            return self._latest[1]
        if self._held is not None and len(workload) == 1 and (workload.linear or lists_records(workload)):
            query = workload.query(0)
            finer = workload.grid // query.grid if isinstance(query, Sparse) else 1  # linear ones have one grid
            return np.array([self._held.count(query) * finer], dtype=np.int64)
        if len(workload.blocks) == 1 and isinstance(block := workload.blocks[0], SubsampleVotes | SubsampleSums):
            return block.counts(self._of_parts(block.subsampling))
        found = {block: self._known.find(block) for block in dict.fromkeys(workload.blocks)}
        if missing := tuple(block for block, counts in found.items() if counts is None):
            found |= self._counted(Workload(workload.domain, missing))
        parts = [np.asarray(found[block]) * (workload.grid // block.grid) for block in workload.blocks]
        truth = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        self._latest = (workload, truth)
        return truth

    def keys(self) -> tuple[Elements | Records, Counts]:
        """The distinct keys of the rows, and how many rows have each."""
        if self._keys is None:
            self._keys = self._fold(keys_of(self.table))
        return self._keys

    def _of_parts(self, subsampling: Subsampling) -> Counts:
        """What a function finds on each subsample; it is run once."""
        if subsampling not in self._results:
            self._tell()
            self._results[subsampling] = results_of(self.table, subsampling)
        return self._results[subsampling]

    def hold_in_memory(self) -> None:
        """Hold the whole table ready for single questions; what was put aside is let go."""
        if self._held is None:
            self._columns |= set(range(len(self.table.domain)))
            self._held = hold(self.table.domain, self._fold)
            self._known.rows = self._held.rows
            if self._spool is not None:
                self._spool.close()
                self._spool = None

    def _counted(self, wanted: Workload) -> dict[Block, Counts]:
        self._tell()
        counting = Counting(wanted)
        plain = self._once and self._spool is None and self._held is None
        values, self._known.rows = self.table.fold(counting, self._tell_parts) if plain else self._fold(counting)
        found = {}
        for block, start in zip(wanted.blocks, wanted.offsets):
            # Kept in the block's own steps: the next workload that holds it may have another grid.
            found[block] = values[start : start + len(block)] // (wanted.grid // block.grid)
            self._known.add(block, found[block])
        return found

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress("counting", 0, None)  # once: one call per chunk would tell the number of rows

    def _tell_parts(self, done: int, total: int) -> None:
        """Parts of a table that lies elsewhere, and its public number of rows in proportion to them.

        How many rows a part really has is never told: parts may be those of a value, and then it is an exact count.
        """
        if self.progress is not None:
            self.progress("counting parts", done, total)
            if self.public_rows is not None:
                self.progress("counting rows", self.public_rows * done // total, self.public_rows)

    def _fold(self, fold: Fold[Result]) -> Result:
        """Run a fold over the rows, which are read from their source if they were not put aside before."""
        if self._held is not None and not fold.records:
            return fold_chunks(fold, self._held.chunks(fold.columns))
        if self._spool is not None and self._spool.covers(fold):
            return self._spool.fold(fold)
        if self.table.in_memory or self.table.elsewhere:
            return self.table.fold(fold, self._tell_parts)
        # What may be asked about later is put aside now; columns that nobody spoke of cost another pass.
        self._columns |= set(fold.columns)
        self._records |= fold.records
        spool = Spool(self.table.domain, self._columns, records=self._records)
        result, _ = self.table.fold(Beside(fold, spool), self._tell_parts)
        if spool.complete:
            self._spool = spool
        return result


def lists_records(query: Workload) -> bool:
    """Whether all questions of a workload are weights on listed records."""
    return all(isinstance(block, SparseQueries) for block in query.blocks)
