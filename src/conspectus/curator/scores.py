"""The closed list of scores of the truth.

A score is a deterministic integer function of the exact counts and of public numbers, on a grid of `GRID` steps to a
count. The public part (the guess) is rounded to the grid *before* it meets the counts, so a score moves by whole grid
steps and its sensitivity needs no rounding allowance. Why each is Lipschitz is written in `scores.proof.md`; nothing
that is not on this list may be selected by or measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from conspectus.privacy.events import Reach
from conspectus.queries.query import Workload

GRID = 16
"""Grid steps to one count: a power of two, fine against any noise that is worth adding."""

_FARTHEST = 2.0**50


def to_grid(counts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Public numbers in counts, rounded to whole grid steps; what is not a number becomes 0."""
    steps = np.nan_to_num(counts, nan=0.0, posinf=_FARTHEST, neginf=-_FARTHEST) * GRID
    return np.rint(np.clip(steps, -_FARTHEST, _FARTHEST)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class WorstErrors:
    """For each group of consecutive queries, max |count − guess| over the group.

    Guarantee: one unit of at most m rows moves every score by at most m counts, under both relations.
    """

    workload: Workload
    guess: NDArray[np.float64]
    starts: NDArray[np.int64]
    _guess: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.guess.shape != (len(self.workload),):
            raise ValueError("a guess needs one number for each query of its workload")
        starts = self.starts
        if not len(starts) or starts[0] != 0 or np.any(np.diff(starts) <= 0) or starts[-1] >= len(self.workload):
            raise ValueError("groups of queries start at 0 and follow one another")
        object.__setattr__(self, "_guess", to_grid(self.guess))

    @property
    def candidates(self) -> int:
        return len(self.starts)

    def of(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.maximum.reduceat(np.abs(counts * GRID - self._guess), self.starts)

    def reach(self, max_rows: int) -> Reach:
        step = Fraction(GRID * max_rows)
        return Reach(replace=step, add_remove=step)


Score = WorstErrors
SCORES: tuple[type[Score], ...] = (WorstErrors,)
"""The list is closed: the curator refuses any other type, subclasses included."""


def worst_error(workload: Workload, guess: NDArray[np.float64]) -> WorstErrors:
    """The maximum error of a whole workload, as a score with a single candidate."""
    return WorstErrors(workload, guess, np.zeros(1, dtype=np.int64))


def query_errors(workload: Workload, guess: NDArray[np.float64]) -> WorstErrors:
    """The error of every single query, each a candidate of its own."""
    return WorstErrors(workload, guess, np.arange(len(workload), dtype=np.int64))
