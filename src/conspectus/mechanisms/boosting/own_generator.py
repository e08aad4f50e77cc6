"""Generators of one's own: foreign code that makes a synopsis from noisy answers, and from nothing else.

We draw the questions, measure them and pay; what a caller's function is handed is a value that could be published. So
it can be wrong, slow or broken, and costs accuracy only: where it fails, a public synopsis stands in for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.data.domain import Domain
from conspectus.mechanisms.mechanism import MAX_CELLS, Problem
from conspectus.privacy.tails import deviation_of
from conspectus.queries.sensitivity import fixed
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.lbfgs import Vector
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import Total

from .generators import as_rows, measured

MOST_ROWS = 1 << 20
"""The most synthetic rows that one round may bring."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisySample:
    """What a generator of your own is shown in one round of boosting. You are handed these; you do not make them.

    Guarantee: it is a function of public facts and of what the curator has released, so whatever is made of it is
    post-processing.

    Attributes:
        domain: The columns of the table and the number of codes of each.
        columns: The positions of the columns that the whole workload asks about. Weights are over their cells, in
            row-major order.
        questions: The questions that were drawn, as a workload.
        answers: Their noisy answers, as shares; read-only.
        deviation: The standard deviation of the noise on each answer, as a share. It is exact, and 0 where the noise
            is so small that it is never drawn: do not divide by it.
        round: The number of this round, from 0.
        rounds: How many rounds there will be.

    Example:
        A generator that only looks, and finds nothing:

        >>> import conspectus as cs, pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "coins", "columns": {"heads": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"heads": [True, False] * 500}), schema)
        >>> def look(sample):
        ...     print(len(sample.questions), sample.columns, sample.round, sample.rounds)
        >>> release = cs.release(table, cs.marginals(schema, 1), epsilon=1, mechanism="boosting", generator=look)
        2 (0,) 0 1
        >>> release.parameters["failures"]
        ['round 1: it returned None']
    """

    domain: Domain
    columns: tuple[int, ...]
    questions: Workload
    answers: NDArray[np.float64]
    deviation: float
    round: int
    rounds: int


class OwnGenerator(Protocol):
    """The type of a generator of your own: a function that makes a synopsis of one round's `NoisySample`.

    Write one to try an idea of yours inside boosting. It is handed noisy answers alone, so it cannot harm privacy. It
    can be wrong, slow or broken, and costs accuracy only: where it fails or raises, a public synopsis stands in for it,
    and `release.parameters["failures"]` says so.

    Args:
        sample: What was drawn and measured in this round.

    Returns:
        Synthetic rows: an integer array of codes, rows × columns in schema order, with 1 to 2²⁰ rows. Or weights, for
        counts alone: one number from 0 on for each cell of `sample.columns`. Or None, where it finds neither.

    Example:
        One marginal is drawn here, so that its noisy cells are weights already:

        >>> import conspectus as cs, numpy as np, pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "coins", "columns": {"heads": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"heads": [True, False, False, False, False] * 200}), schema)
        >>> def own(sample):
        ...     return np.maximum(sample.answers, 0.0)
        >>> release = cs.release(table, cs.marginals(schema, 1), epsilon=20, mechanism="boosting", generator=own)
        >>> round(release.ask("heads").fraction, 1), release.parameters["failures"]
        (0.2, [])
    """

    def __call__(self, sample: NoisySample, /) -> NDArray[Any] | None: ...


@dataclass(eq=False)
class OwnRounds:
    """A generator of one's own in the rounds of boosting; `failures` says what went wrong in which of them."""

    problem: Problem
    total: Total
    own: OwnGenerator
    rounds: int
    turn: int = 0
    failures: list[str] = field(default_factory=list)

    def generate(self, curator: Curator, sample: Workload, *, price: Fraction, last: bool) -> Vector | Rows | None:
        noisy, law = measured(curator, self.problem, sample, price)
        scale = sample.grid * self.total.divisor
        shown = NoisySample(
            domain=sample.domain,
            columns=self.problem.held,
            questions=sample,
            answers=fixed(noisy / scale),
            deviation=deviation_of(law) / scale,
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
