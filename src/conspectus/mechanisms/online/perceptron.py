"""The perceptron as an update rule (the book's Algorithm 10): a signed vector over the cells, corrected by steps.

The vector x starts at 0; a query f that was found wrong moves it by ±(α/‖f‖²)·f. The book's |f| is read as ‖f‖², the
number of cells on which f is 1, so that a step corrects the answer by exactly α.

Privacy: composes the row total and the loop; the rest post-processes.
Accuracy: ‖x* − x‖² falls by at least α²/‖f‖² ≥ α²/|X| in every update of level α, from ‖x*‖² at first, where x* is the
table as fractions. The book's T(α) = ‖x*‖²·|X|/α² takes the private ‖x*‖; here stands its public bound, ‖x*‖₁ = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from conspectus.counting.evaluation import indicator
from conspectus.counting.single_query import SingleQueryCounts
from conspectus.mechanisms.mechanism import no_histogram
from conspectus.mechanisms.online_mechanism import SessionProblem
from conspectus.privacy.events import Noise
from conspectus.queries.workload import Workload
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.synopsis import Total

from .loop import CITES, on_cells
from .parameters import OnlineSettings


def updates(alpha: float, cells: int) -> float:
    """T(α) = |X|/α² updates at level α (Theorem 5.11 with a public bound on the table's norm)."""
    return cells / alpha**2


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
        columns, inside = indicator(query.query(0), self._domain)
        cells = int(inside.sum()) * (self._weights.size // max(inside.size, 1))
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
class Perceptron(OnlineSettings):
    """The settings say how surprises are found; see `OnlineSettings`."""

    name: ClassVar[str] = "perceptron"
    citations: ClassVar[tuple[str, ...]] = (*CITES, "Dwork & Roth 2014, Algorithm 10 and Theorem 5.11")

    def refuses(self, problem: SessionProblem) -> str | None:
        return no_histogram(problem)

    def memory(self, problem: SessionProblem) -> int:
        return 8 * 4 * problem.cells

    def updates(self, problem: SessionProblem, alpha: float) -> float:
        return updates(alpha, problem.cells)

    def usual(self, problem: SessionProblem, left: Fraction, rows: float) -> tuple[int, float]:
        """Typical, measured on NLTCS: it learns about as fast as multiplicative weights and stays a little worse."""
        many = max(10, round(7 * math.log(problem.cells)))
        return many, rows * 0.15 * math.sqrt(math.log(problem.cells) / (self.hits or many))

    def start(self, problem: SessionProblem, total: Total, alpha: float | None) -> SignedGuess:
        return SignedGuess(problem, total, alpha)
