"""Generators of one's own: foreign code that makes a synopsis from noisy answers, and from nothing else.

We draw the questions, measure them and pay; what a caller's function is handed is a value that could be published. So
it can be wrong, slow or broken, and costs accuracy only: where it fails, a public synopsis stands in for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.data.domain import Domain
from conspectus.mechanisms.mechanism import MAX_CELLS, Problem
from conspectus.queries.workload import Workload
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import Total

from .generators import Vector, measured
from .row_search import as_rows, deviation

MOST_ROWS = 1 << 20
"""The most synthetic rows that one round may bring."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisySample:
    """What a generator of one's own is shown in one round.

    `answers` are the noisy shares of `questions`, each with noise of the standard deviation `deviation`. `columns` are
    the positions of the columns that the whole workload asks about: weights are over their cells, in row-major order.
    Rounds are numbered from 0.

    Guarantee: it is a function of public facts and of what the curator has released, so whatever is made of it is
    post-processing.
    """

    domain: Domain
    columns: tuple[int, ...]
    questions: Workload
    answers: NDArray[np.float64]
    deviation: float
    round: int
    rounds: int


class OwnGenerator(Protocol):
    """From a noisy sample, synthetic rows or weights; or None, where it finds none.

    Rows are an integer array of codes, rows × columns in schema order, any number of rows from 1 on. Weights, for
    counts alone, are one number from 0 on for each cell of `sample.columns`.
    """

    def __call__(self, sample: NoisySample, /) -> NDArray[Any] | None: ...


class OwnRounds:
    """A generator of one's own in the rounds of boosting; `failures` says what went wrong in which of them."""

    def __init__(self, problem: Problem, total: Total, own: OwnGenerator, *, rounds: int) -> None:
        self.problem = problem
        self.total = total
        self.own = own
        self.rounds = rounds
        self.turn = 0
        self.failures: list[str] = []

    def generate(self, curator: Curator, sample: Workload, *, price: Fraction, last: bool) -> Vector | Rows | None:
        noisy, law = measured(curator, self.problem, sample, price)
        scale = sample.grid * self.total.divisor
        answers = noisy / scale
        answers.flags.writeable = False
        shown = NoisySample(
            domain=sample.domain,
            columns=self.problem.held,
            questions=sample,
            answers=answers,
            deviation=deviation(law) / scale,
            round=self.turn,
            rounds=self.rounds,
        )
        self.turn += 1
        try:
            given = self.own(shown)
            made = None if given is None else self._checked(np.array(given))
            failed = "it returned None" if given is None else "it returned neither rows nor weights"
        except KeyboardInterrupt:
            raise
        except BaseException as problem:  # what foreign code raises ends its round, not a release that was paid for
            made, failed = None, f"it raised {_named(problem)}"
        if made is None:
            self.failures.append(f"round {self.turn}: {failed}")
        return made

    def _checked(self, given: NDArray[Any]) -> Vector | Rows | None:
        """Rows or weights that are what they should be, as arrays that are ours; None for anything else."""
        domain, problem = self.problem.workload.domain, self.problem
        if given.ndim == 2 and given.dtype.kind in "iu":
            fits = given.shape[1] == len(domain) and 1 <= len(given) <= MOST_ROWS
            if not fits or given.min() < 0 or (given.max(axis=0) >= np.array(domain.sizes)).any():
                return None
            return as_rows(domain, given.astype(np.int64), self.total)
        held = problem.counting and problem.cells <= MAX_CELLS and given.shape == (problem.cells,)
        if not held or given.dtype.kind not in "iuf":
            return None
        weights = given.astype(np.float64)
        if not np.isfinite(weights).all() or weights.min() < 0 or not weights.max() > 0:
            return None
        weights /= weights.max()  # a sum of large ones would not be finite
        return np.asarray(weights / weights.sum())


def _named(problem: BaseException) -> str:
    """The name of its class, past a metaclass that would have another word."""
    return str(type.__dict__["__name__"].__get__(type(problem)))
