"""The perceptron as an update algorithm: a signed vector over the cells, corrected by steps.

The book's Algorithm 10, Perceptron(xᵗ, f_t, v_t), the U of OnlineIC (`loop.py`):

    at first: x¹ = 0                                     `SignedGuess`
    if f_t(xᵗ) > v_t: xᵗ⁺¹ = xᵗ − (α/|f_t|)·f_t          `SignedGuess.learn`
    else:             xᵗ⁺¹ = xᵗ + (α/|f_t|)·f_t

    book    here
    xᵗ      `SignedGuess._weights`
    α       `SignedGuess._step`; with free parameters the step that meets the measured answer
    |f_t|   ‖f_t‖², the number of cells on which f_t is 1, so that a step corrects the answer by exactly α
    v_t     the measured count, as a fraction

Privacy: composes the row total and the loop; the rest post-processes.
Accuracy: at most T(α) = |X|/α² updates of level α (`theorem.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from conspectus.counting.evaluation import cell_values
from conspectus.counting.single_query import SingleQueryCounts
from conspectus.mechanisms.online_mechanism import SessionProblem
from conspectus.mechanisms.update_rules.update_counts import perceptron_updates
from conspectus.privacy.events import Noise
from conspectus.queries.workload import Workload
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.synopsis import Total

from . import claim, theorem
from .loop import on_cells
from .mechanism import OnlineIC
from .priming import Priming


class SignedGuess:
    """A number for each cell, of any sign; `step` is α, or None for steps that meet the measured answer."""

    def __init__(self, problem: SessionProblem, total: Total, step: float | None) -> None:
        self._domain = problem.workload.domain
        self._total = total
        self._step = step
        self._weights = np.zeros(self._domain.sizes)
        self._cells = SingleQueryCounts(self._domain, self._weights)

    def of(self, query: Workload) -> float:
        # The book answers f(x) itself. What lies outside [0, 1] is no closer to the truth than the nearest of them.
        return min(max(self._value(query), 0.0), 1.0)

    def _value(self, query: Workload) -> float:
        return float(self._cells.of(on_cells(query)))

    def learn(self, query: Workload, noisy: float, law: Noise) -> None:
        answer = noisy / self._total.divisor
        off = answer - self._value(query)
        columns, inside = cell_values(query.query(0), self._domain)
        # A step of this size along the query moves its own value by what was asked for.
        cells = float(np.square(inside).sum()) * (self._weights.size // max(inside.size, 1))
        if not cells:
            return
        moved = off if self._step is None else math.copysign(self._step, answer - self.of(query))
        shape = tuple(size if c in columns else 1 for c, size in enumerate(self._domain.sizes))
        self._weights = self._weights + moved / cells * inside.reshape(shape)
        self._cells = SingleQueryCounts(self._domain, self._weights)

    def synopsis(self) -> Histogram:
        """The part above 0 as a distribution: what a table could look like."""
        weights = np.maximum(self._weights, 0.0).ravel()
        if not weights.any():
            weights = np.ones_like(weights)
        return Histogram(self._domain, weights, self._total)


@dataclass(frozen=True, kw_only=True)
class Perceptron(OnlineIC):
    """The perceptron, for sessions on tables of up to 2²⁴ cells. For comparison: `Pmw` is rarely worse.

    It keeps a number of any sign for every cell. What it has learned is published as the part above 0.

    Args:
        hits: How many surprises are paid for.
        threshold: A guess that is wrong by more than this fraction of the rows is a surprise.
        measuring: The share of a hit's price that buys its measured answer, between 0 and 1. The rest finds the hit.
        theorem: Take all three from the book's Theorems 5.11 and 5.13 to 5.15. Needs a public number of rows.

    Example:
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True] * 900 + [False] * 100}), schema)
        >>> with cs.open_session(
        ...     table, epsilon=20.0, questions=50, mechanism=cs.mechanisms.Perceptron(hits=3, threshold=0.1)
        ... ) as session:
        ...     answer = session.ask("ill")
        >>> answer.basis, abs(answer.fraction - 0.9) < 0.1
        ('measured', True)
    """

    name: ClassVar[str] = "perceptron"
    citations: ClassVar[tuple[str, ...]] = (*theorem.CITES, "Dwork & Roth 2014, Algorithm 10 and Theorem 5.11")

    def memory(self, problem: SessionProblem) -> int:
        return 8 * 4 * problem.cells

    def updates(self, problem: SessionProblem, alpha: float) -> float:
        return perceptron_updates(alpha, problem.cells)

    def typical(self, problem: SessionProblem, rows: float, priming: Priming | None) -> claim.Typical:
        return claim.perceptron(problem, rows, self.hits)

    def start(self, problem: SessionProblem, total: Total, alpha: float | None) -> SignedGuess:
        return SignedGuess(problem, total, alpha)
