"""Two further update rules for the iterative construction: the median of databases, and the perceptron.

The book's Algorithms 9 and 10 as the U of Algorithm 8 (`mechanisms/iterative_construction.py`):

    median      D⁰ = a net of databases; f(Dᵗ) is the median of f over them      `MedianRule.answers`
                an update removes all on the wrong side of the median            `MedianRule.update`
    perceptron  x⁰ = 0; f(xᵗ) is the inner product, cut to [0, 1]                `PerceptronRule.answers`
                an update adds ±(α/‖f‖²)·f                                       `PerceptronRule.update`

What such a rule holds is no histogram, and a release publishes one. `weights` is the histogram whose answers are
nearest to the rule's, in the worst question: a member of the net, or by a linear program any histogram. The table is a
histogram too. So where the rule's answers are all within α of the table's, those of the nearest histogram are within α
of the rule's, and within 2α of the table's; a member of a net that is as coarse as α/2 within 2.5α.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.least_deviation import least_deviation, question_matrix

from .update_counts import databases, finest_net, net_rows

Vector = NDArray[np.float64]
MOST_TERMS = 1 << 22
"""The most numbers of a table of questions by cells that a rule or a linear program holds."""
_TOGETHER = 64
"""So many questions are put to all databases at once."""


class Answered(Protocol):
    """What a rule learns from: one turn of the loop."""

    @property
    def question(self) -> Workload: ...

    @property
    def noisy(self) -> Vector: ...

    @property
    def guessed(self) -> Vector: ...


class _OnCells:
    """What both rules keep: the values on every cell of the questions that were asked last."""

    columns: tuple[int, ...]
    _asked: tuple[Workload, Vector] | None = None

    def _on_cells(self, workload: Workload) -> Vector:
        if self._asked is None or self._asked[0] is not workload:
            self._asked = (workload, question_matrix(workload, self.columns))
        return self._asked[1]


class MedianRule(_OnCells):
    """A set of databases that answers by its median and loses half in each update; `level` is that of the updates."""

    def __init__(self, domain: Domain, columns: tuple[int, ...], level: float | None) -> None:
        self.columns = columns
        cells = domain.project(columns).cells
        rows = finest_net(cells) if level is None else net_rows(cells, level)
        self._members = np.array(list(databases(cells, rows)), dtype=np.float64) / rows

    def answers(self, workload: Workload, total: float) -> Vector:
        """The median of what the databases say, question by question."""
        values = self._on_cells(workload)
        found = np.empty(len(values))
        for start in range(0, len(values), _TOGETHER):
            said = self._members @ values[start : start + _TOGETHER].T
            found[start : start + _TOGETHER] = np.partition(said, len(said) // 2, axis=0)[len(said) // 2]
        return found

    def update(self, step: Answered, total: float) -> None:
        said = self._members @ question_matrix(step.question, self.columns)[0]
        middle = np.partition(said, len(said) // 2)[len(said) // 2]
        left = said < middle if step.noisy[0] / total < middle else said > middle
        if left.any():
            self._members = self._members[left]

    def weights(self, workload: Workload, total: float) -> Vector:
        """The member whose answers are nearest to the medians."""
        values, middles = self._on_cells(workload), self.answers(workload, total)
        off = np.zeros(len(self._members))
        for start in range(0, len(values), _TOGETHER):
            said = self._members @ values[start : start + _TOGETHER].T
            off = np.maximum(off, np.abs(said - middles[start : start + _TOGETHER]).max(axis=1))
        return np.asarray(self._members[int(np.argmin(off))])


class PerceptronRule(_OnCells):
    """A number of any sign for each cell; `step` is the level of the updates, None for steps that meet the answer."""

    def __init__(self, domain: Domain, columns: tuple[int, ...], step: float | None) -> None:
        self.columns = columns
        self._signed = np.zeros(domain.project(columns).cells)
        self._step = step

    def answers(self, workload: Workload, total: float) -> Vector:
        """The inner products, cut to what is possible."""
        return np.clip(self._on_cells(workload) @ self._signed, 0.0, 1.0)

    def update(self, step: Answered, total: float) -> None:
        values = question_matrix(step.question, self.columns)[0]
        square = float(values @ values)
        if not square:
            return
        answer = step.noisy[0] / total
        off = answer - float(values @ self._signed)
        moved = off if self._step is None else math.copysign(self._step, answer - step.guessed[0] / total)
        self._signed = self._signed + moved / square * values

    def weights(self, workload: Workload, total: float) -> Vector:
        """The histogram whose answers are nearest to these, in the worst question: a linear program."""
        found = least_deviation(self._on_cells(workload), self.answers(workload, total), tolerance=math.inf)
        assert found is not None  # the program is feasible and bounded, and the solver has no limit
        return found
