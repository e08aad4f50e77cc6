"""A table that was made from a synopsis, behind doors like the curator's: what a rerun of the pipeline measures.

Nothing here knows a table of anybody: rows are drawn from a released synopsis, counted, and given noise from public
coins. A rerun therefore is post-processing of what was released, and debits nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from conspectus.counting.counters import count
from conspectus.curator.scores import Score
from conspectus.data.domain import Chunk
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.residual import Residual
from conspectus.queries.workload import Workload


class SimulatedTable:
    """Made rows behind the doors of a curator.

    Args:
        rows: The rows.
        relation: Who are neighbours: how much noise each act would need.
        rng: Public coins.
    """

    def __init__(self, rows: Chunk, relation: Relation, rng: np.random.Generator) -> None:
        self.relation = relation
        self._rows = rows
        self._rng = rng

    def rows(self) -> int:
        """How many rows were made."""
        return self._rows.rows

    def count_ahead(self, workload: Workload) -> None:
        """Nothing: made rows are in memory."""

    def report_progress(self, what: str, done: int, total: int | None) -> None:
        """Nothing: the release that asks for a simulation reports its own steps."""

    def counts(self, workload: Workload) -> NDArray[np.int64]:
        """Exact counts of the made rows."""
        return count(workload, [self._rows])[0]

    def measure(self, what: Workload | Score, law: Noise) -> NDArray[np.int64]:
        """Counts or scores of the made rows with noise of this law, rounded to whole steps."""
        exact = self.counts(what) if isinstance(what, Workload) else what.of(self.counts(what.workload))
        return exact + np.rint(self._drawn(law, len(exact))).astype(np.int64)

    def measure_residuals(self, residuals: Sequence[Residual], scales: Sequence[float]) -> list[NDArray[np.float64]]:
        """Residuals of the made rows; the scales are in steps of one over the cells of each."""
        tables = Workload(residuals[0].domain, tuple(residual.table for residual in residuals))
        found = []
        for residual, counts, scale in zip(residuals, np.split(self.counts(tables), tables.offsets[1:-1]), scales):
            noise = np.rint(self._rng.normal(0.0, scale, residual.cells)).astype(np.int64)
            found.append(residual.projected(counts, noise))
        return found

    def _drawn(self, law: Noise, many: int) -> NDArray[np.float64]:
        draw = self._rng.laplace if law.kind == "laplace" else self._rng.normal
        return np.asarray(draw(0.0, law.scale, many))
