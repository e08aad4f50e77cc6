"""A statistical-query oracle out of a live session: expectations of predicates, each within a tolerance.

The book's Definition 11.4: an oracle of tolerance τ answers a statistical query φ: X → [0, 1] with a number within ±τ
of E[φ]. Laplace noise simulates it, and so a learner that asks an oracle alone is private without knowing it:

    let m = ⌊τ·n⌋ rows, β_i = β/k                                   `Promise.room`, `Promise.each`
    let b be the largest scale with Pr[|noise(b)| > m] ≤ β_i        `Promise.law`
    for each φ_i, i ≤ k: output φ_i(x) + noise(b), over n           `Oracle.__call__`

Here E[φ] is the mean over the rows of the table. Each answer is drawn with fresh noise after its question was put, so
the k failures add up also where the questions depend on all answers before: with probability 1 − β every one of them is
within τ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from conspectus.curator.acts import measurement
from conspectus.curator.curator import Curator
from conspectus.data.schema import Schema
from conspectus.mechanisms.settings import SettingError
from conspectus.privacy.accounting import BudgetExceeded, Filter
from conspectus.privacy.events import Kind, Noise
from conspectus.privacy.prices import cost_of
from conspectus.privacy.tails import noise_margin
from conspectus.queries.builders.marginals import marginal
from conspectus.queries.query import TableFunction
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords
from conspectus.synopses.synopsis import Total

from .questions import canonical
from .session_parts import SessionParts

FAILURE = 0.05
QUESTIONS = 100


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What an oracle promises: all of so many answers within a tolerance, but for a probability of failure."""

    tolerance: float
    questions: int
    failure: float
    total: Total

    def __post_init__(self) -> None:
        real = all(type(number) in (int, float) for number in (self.tolerance, self.failure))
        if not real or not 0 < self.tolerance < 1 or not 0 < self.failure < 1:
            raise SettingError("an oracle has a tolerance and a failure strictly between 0 and 1")
        if type(self.questions) is not int or self.questions < 1:
            raise SettingError("questions, how many answers an oracle promises, is a number from 1 on")
        if self.room < 1:
            raise SettingError(
                f"a tolerance of {self.tolerance:g} is less than a row of about {self.total.divisor:,.0f}, or than the "
                "noise in their number: take a larger one"
            )

    @property
    def each(self) -> float:
        """How often one answer may fail. A total that was paid for may be wrong once for all, with half of it."""
        return (self.failure if self.total.exact else self.failure / 2) / self.questions

    @property
    def room(self) -> float:
        """How far a count may be off, in rows.

        With |c′ − c| ≤ m and |t′ − t| ≤ s the share c′/t′ is off from c/t by at most (m + s)/t′, since c ≤ t.
        """
        slip = 0.0 if self.total.exact else self.total.margin(1 - self.failure / 2)
        return self.tolerance * self.total.divisor - slip

    def law(self, kind: Kind, grid: int) -> Noise:
        """The most noise, in steps of a grid, that leaves a count where it may be."""
        return Noise(kind, _largest_scale(kind, math.floor(self.room * grid), self.each))


@lru_cache(maxsize=256)
def _largest_scale(kind: Kind, room: int, failure: float) -> float:
    """About the largest scale at which noise of this kind stays within so many steps but for a probability."""
    low, high = 0.0, 1.0
    while noise_margin(kind, high, 1, 1 - failure) <= room:
        low, high = high, 2 * high
    while high - low > 1e-9 * high and high > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if noise_margin(kind, middle, 1, 1 - failure) <= room else (low, middle)
    return max(low, 1e-6)


@suggest_keywords
class Oracle:
    """Answers predicates, and sums of values in [0, 1], within a tolerance: made by `session.oracle`.

    Attributes:
        tolerance: No answer is further from the mean over the rows than this, a share of one.
        questions: How many different questions that is promised for.
        failure: The probability, over the noise, with which one of all these answers is further off.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True] * 400 + [False] * 600}), schema)
        >>> with cs.open_session(table, epsilon=4.0, questions=10) as session:
        ...     oracle = session.oracle(0.05, questions=5, failure=1e-9)
        ...     abs(oracle("ill") - 0.4) <= 0.05, oracle("ill") == oracle("ill"), oracle.asked
        (True, True, 1)
    """

    def __init__(
        self,
        schema: Schema,
        promise: Promise,
        curator: Curator,
        spending: Callable[[], AbstractContextManager[Filter]],
    ) -> None:
        self.tolerance, self.questions, self.failure = promise.tolerance, promise.questions, promise.failure
        self._schema, self._promise, self._curator, self._spending = schema, promise, curator, spending
        self._given: dict[str, float] = {}

    @property
    def asked(self) -> int:
        """How many different questions it answered."""
        return len(self._given)

    @property
    def cost(self) -> float:
        """What one predicate costs, in the currency of the session."""
        with self._spending() as spending:
            return float(self._price(spending))

    @property
    def affordable(self) -> int:
        """How many predicates it can still answer: what is left of the budget, and of the questions, allows no more."""
        with self._spending() as spending:
            left, price = spending.remaining, self._price(spending)
        rest = self.questions - self.asked
        return max(0, min(math.floor(left / price), rest)) if price else rest

    def __call__(self, question: str | Workload) -> float:
        """The mean of a predicate over the rows, within the tolerance.

        A question that this oracle answered before, in these or other words, has the same answer and costs nothing.

        Args:
            question: A SQL predicate over the columns, or a workload of one query with values in [0, 1] on a row.

        Returns:
            A number from 0 to 1.

        Raises:
            BudgetExceeded: What is left of the session's budget does not pay for an answer within the tolerance, or all
                questions were asked; nothing is spent.
            NotAPredicate: The question is not a predicate over the columns, or is more than one.
            WorkloadError: It is no mean over rows; nothing is spent.
            SessionError: The session is closed, belongs to another process, or its file cannot be used.

        Guarantee: the answer is a measurement of the curator, debited before its noise is drawn.
        """
        asked = canonical(self._schema, question)
        if isinstance(asked.workload.query(0), TableFunction):
            raise WorkloadError("an oracle answers means over rows, and this is a function of the whole table")
        if asked.key in self._given:
            return self._given[asked.key]
        with self._spending() as spending:
            if asked.key in self._given:  # another thread asked it meanwhile
                return self._given[asked.key]
            if self.asked >= self.questions:
                raise BudgetExceeded(
                    f"this oracle promised {self.questions:,} answers and gave them: ask for another one, with a "
                    "failure of its own"
                )
            law = self._law(asked.workload, spending)
            act = measurement(asked.workload, law, relation=self._curator.relation)
            if not spending.admits(act):
                raise BudgetExceeded(
                    f"what is left of this session's budget pays for no answer within {self.tolerance:g}: take a "
                    "larger tolerance, or open another session"
                )
            count = float(self._curator.measure(asked.workload, law)[0]) / asked.workload.grid
            share = min(max(count / self._promise.total.divisor, 0.0), 1.0)
            self._given[asked.key] = share
            return share

    def _law(self, query: Workload, spending: Filter) -> Noise:
        return self._promise.law("laplace" if spending.currency == "pure" else "gaussian", query.grid)

    def _price(self, spending: Filter) -> Fraction:
        domain = self._schema.domain
        # Nobody moves a count of a column of one code where rows are replaced.
        _, name = min(
            ((size, name) for name, size in zip(domain.names, domain.sizes) if size > 1), default=(1, domain.names[0])
        )
        one = marginal(self._schema, [name])[0]
        act = measurement(one, self._law(one, spending), relation=self._curator.relation)
        return cost_of(act, spending.currency, spending.neighbours).price


@suggest_keywords
class Consulted(SessionParts):
    """What lets a session be asked as a statistical-query oracle."""

    def oracle(self, tolerance: float, *, questions: int = QUESTIONS, failure: float = FAILURE) -> Oracle:
        """The session as an oracle that answers every predicate within a tolerance, or refuses.

        An algorithm that reads a table through such an oracle alone, as most learners can, is private by that. The
        tolerance fixes the noise: every answer costs the same, whatever is left, and nothing is asked of the guess of
        the session. Making an oracle costs nothing.

        Args:
            tolerance: How far an answer may be from the mean over the rows, a share of one, as in 0.02.
            questions: How many different questions the promise is for.
            failure: The probability, over the noise, with which one of all these answers may be further off.

        Returns:
            The oracle, to be called with a question. Its `cost` says what one answer costs, `affordable` how many there
            can be.

        Raises:
            SettingError: A number is out of range, or no noise is so small.
            SessionError: The session is closed, belongs to another process, or its file cannot be used.

        Example:
            >>> import conspectus as cs, pyarrow as pa
            >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
            >>> table = cs.open_table(pa.table({"ill": [True] * 400 + [False] * 600}), schema)
            >>> with cs.open_session(table, epsilon=4.0, questions=10, mechanism="laplace") as session:
            ...     oracle = session.oracle(0.02, questions=20)
            ...     round(oracle.cost, 2), oracle.affordable
            (0.29, 13)
        """
        with self._lock:
            self._check_here()
            total = self._learned().total
        promise = Promise(tolerance=tolerance, questions=questions, failure=failure, total=total)
        return Oracle(self.schema, promise, self._curator, self._spending)
