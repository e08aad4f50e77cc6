"""The doors that the pipeline measures through: the curator's, or those of a table that was made from a synopsis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.scores import Score
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.residual import Residual
from conspectus.queries.workload import Workload


class Doors(Protocol):
    """What of a curator the pipeline uses; see `curator.Curator` for what each door does."""

    relation: Relation

    def rows(self) -> int: ...

    def count_ahead(self, workload: Workload) -> None: ...

    def measure(self, what: Workload | Score, law: Noise) -> NDArray[np.int64]: ...

    def measure_residuals(
        self, residuals: Sequence[Residual], scales: Sequence[float]
    ) -> list[NDArray[np.float64]]: ...

    def report_progress(self, what: str, done: int, total: int | None) -> None: ...
