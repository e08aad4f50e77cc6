"""The one online loop: the book's Algorithm 11, with the guess and its update rule as a part.

Each question is answered from the guess, and the sparse vector says when the guess is a surprise; then the question is
measured with fresh noise and the guess learns from it. Only the surprises cost anything.

Privacy: composes the watches and the measurements of `NumericSparse`, and what was bought before the first question.
Accuracy: let every threshold and comparison err by at most A together, and every measured answer by at most B, in
counts. An answer that was no surprise is within T + A. A surprise was wrong by at least T − A, so with T − A ≥ αn and
B < αn every update is one of level α, of which a rule with T(α) updates makes no more: with c = T(α) hits the loop
never ends. With A ≤ αn and T = 2αn every answer is within the book's 3α (Theorems 5.13 to 5.15, for the noise that
really runs).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.data.domain import Domain
from conspectus.mechanisms.mechanism import Problem, SettingError
from conspectus.mechanisms.online_mechanism import BadState, Margin, Reply, SessionProblem, State
from conspectus.mechanisms.sparse_vector import FAILURE, NumericSparse, Plan, make_plan
from conspectus.privacy.events import Noise
from conspectus.queries.query import Parity, Predicate, Query
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import BadSynopsis, Synopsis, Total, part

CITES = ("Dwork & Roth 2014, Algorithms 3 and 11, Theorems 5.13 to 5.15",)


class Guess(Protocol):
    """What an update rule keeps: it answers any query, and learns from measured ones. Public, all of it."""

    def of(self, query: Workload) -> float:
        """The fraction of the rows that it expects; `WorkloadError` for a query that it could not learn from.

        It is asked before a watch is, so that no question is refused once it was paid for.
        """
        ...

    def learn(self, query: Workload, noisy: float, law: Noise) -> None:
        """Take in a measured count."""
        ...

    def synopsis(self) -> Synopsis: ...


class OnlineConstruction:
    """A guess, a sparse vector over its errors, and what was measured so far."""

    def __init__(
        self,
        curator: Curator,
        problem: SessionProblem,
        *,
        plan: Plan,
        guess: Guess,
        total: Total,
        primed: NoisyAnswers | None = None,
    ) -> None:
        curator.hold_in_memory()
        self.total = total
        self._problem = problem
        self._guess = guess
        self._primed = primed
        self._covered: dict[tuple[int, ...], bool] = {}
        self._sparse = NumericSparse(curator, plan)
        self._asked = 0
        self._questions: list[Workload] = []
        self._noisy: list[float] = []

    @property
    def exhausted(self) -> bool:
        return self._sparse.over or self._asked >= self._problem.questions

    @property
    def plan(self) -> Plan:
        return self._sparse.plan

    @property
    def updates(self) -> int:
        """How often it has learned."""
        return len(self._questions)

    def guess(self, query: Workload) -> float:
        return self._guess.of(query) * self.total.divisor

    def ask(self, query: Workload) -> Reply:
        guessed = self.guess(query)
        bought = self._bought(query, guessed)
        if bought is not None:
            return Reply(count=guessed, basis="measured", margin=bought)
        if self.exhausted:
            return Reply(count=guessed, basis="unguaranteed", margin=None)
        self._asked += 1
        hits = self._sparse.hits
        noisy = self._sparse.ask(query, guessed)
        if noisy is not None:
            self._learn(query, noisy)
            return Reply(count=self._possible(noisy), basis="measured", margin=self.plan.measured(query.grid))
        if self._sparse.over or self._sparse.hits > hits:  # the budget ended before this question was answered
            return Reply(count=guessed, basis="unguaranteed", margin=None)
        return Reply(count=guessed, basis="guessed", margin=self.plan.passed(self._problem.questions))

    def _bought(self, query: Workload, guessed: float) -> Margin | None:
        """How wrong the guess may be where the marginals bought in advance add up to the question: no watch is needed.

        The guess was fitted to all of them together, and keeps within its distance to the sum and the noise of that.
        """
        if self._primed is None or not self._covers(query.columns):
            return None
        held = self._primed.estimate(query.query(0))
        law = None if held.kind is None else (Noise(held.kind, held.scale), held.terms, held.averaged)
        return Margin(offset=abs(guessed - held.count), summed=law)

    def _covers(self, columns: tuple[int, ...]) -> bool:
        """Whether a marginal that was bought in advance has these columns."""
        if columns not in self._covered:
            assert self._primed is not None
            bought = (set(block.columns) for block in self._primed.workload.blocks)
            self._covered[columns] = any(known.issuperset(columns) for known in bought)
        return self._covered[columns]

    def _possible(self, count: float) -> float:
        return min(max(count, 0.0), self.total.divisor) if self.total.exact else max(count, 0.0)

    def _learn(self, query: Workload, noisy: float) -> None:
        self._questions.append(query)
        self._noisy.append(noisy)
        self._guess.learn(query, noisy, self.plan.law)

    def synopsis(self) -> Synopsis:
        return self._guess.synopsis()

    def measured(self) -> NoisyAnswers | None:
        """Everything measured so far. Each question was measured alone, so its noise lies on its own grid."""
        primed, law = self._primed, self.plan.law
        asked = _joined(self._problem.workload.domain, self._questions)
        grids = tuple(block.grid for block in asked.blocks)
        laws = tuple(Noise(law.kind, law.scale * grid) for grid in grids)
        if primed is not None:
            counts = np.concatenate([primed.counts, self._noisy])
            laws, grids = (*primed.noise, *laws), (*primed.grids, *grids)
            return NoisyAnswers(asked.domain, primed.workload + asked, counts, laws, self.total, grids)
        if not self._questions:
            return None
        return NoisyAnswers(asked.domain, asked, np.array(self._noisy), laws, self.total, grids)

    def state(self) -> State:
        asked = _joined(self._problem.workload.domain, self._questions)
        meta: dict[str, Any] = {
            "total": self.total.to_json(),
            "asked": self._asked,
            "hits": self._sparse.hits,
            "learned": asked.to_json(),
        }
        tables = {"learned": pa.table({"count": pa.array(self._noisy, pa.float64())})}
        if self._primed is not None:
            tables["primed"] = pa.table({"count": self._primed.counts})
        return meta, tables

    def adopt(self, state: State) -> None:
        """Take over what a state has learned beyond this loop, in the order in which it was learned."""
        total, asked, hits, questions, noisy = read_state(state, self._problem)
        mine = len(self._questions)
        if total != self.total or questions[:mine] != self._questions or noisy[:mine] != self._noisy:
            raise BadState("this state is not the one that this session goes on from: resume it from its own file")
        for query, count in zip(questions[mine:], noisy[mine:]):
            self._learn(query, count)
        self._asked = max(self._asked, asked)
        self._sparse.hits = max(self._sparse.hits, hits)


Stored = tuple[Total, int, int, list[Workload], list[float]]


def read_state(state: State, problem: Problem) -> Stored:
    """The total, the numbers of questions and hits, and the measured questions of a stored state, all checked."""
    meta, tables = state
    try:
        total = Total.from_json(meta.get("total"))
        learned = Workload.from_json(meta.get("learned"))
        noisy = part(tables, "learned", [("count", pa.float64())])["count"].to_pylist()
    except (BadSynopsis, WorkloadError, ValueError) as problem_found:
        raise BadState(f"the state of the session is not readable: {problem_found}") from problem_found
    asked, hits = meta.get("asked"), meta.get("hits")
    if type(asked) is not int or type(hits) is not int or not 0 <= hits <= asked:
        raise BadState("the state of the session does not say how many questions and surprises there were")
    if learned.domain != problem.workload.domain or len(learned) != len(noisy) or not np.isfinite(noisy).all():
        raise BadState("the measured answers of the session's state do not belong to this table")
    return total, asked, hits, list(learned), noisy


def stored_marginals(state: State, workload: Workload) -> NDArray[np.float64]:
    """The noisy counts of priming in a stored state."""
    try:
        counts: NDArray[np.float64] = part(state[1], "primed", [("count", pa.float64())])["count"].to_numpy()
    except BadSynopsis as problem_found:
        raise BadState(f"the state of the session is not readable: {problem_found}") from problem_found
    if len(counts) != len(workload) or not np.isfinite(counts).all():
        raise BadState("the first measurements of the session's state are not those of this rule")
    return counts


def on_cells(query: Workload) -> Query:
    """The one query of a workload, refused unless it is true or false on every cell: what a dense guess learns from."""
    asked = query.query(0)
    if not isinstance(asked, Predicate | Parity):
        raise WorkloadError("this rule learns from predicates: ask one, or ask about weighted records with sparse-mw")
    return asked


def _joined(domain: Domain, questions: Sequence[Workload]) -> Workload:
    """Single questions as one workload, a block for each, so that it gives them back as they were."""
    return Workload(domain, tuple(block for question in questions for block in question.blocks))


def theorem_plan(
    problem: SessionProblem, price: Fraction, *, rows: float, updates: Callable[[float], float], name: str
) -> tuple[Plan, float]:
    """The smallest level α that the theorem promises, and its plan: T(α) hits, the threshold at 2αn.

    `updates` is T(α). All noises together fail with probability `FAILURE`.
    """

    def at(alpha: float) -> Plan:
        hits = min(max(1, math.ceil(updates(alpha))), problem.questions)  # no more surprises than questions
        return make_plan(problem, price, hits=hits, questions=problem.questions, threshold=2 * alpha * rows)

    def keeps(alpha: float) -> bool:
        if math.isinf(updates(alpha)):
            return False
        plan = at(alpha)
        answered = plan.reach(1 - FAILURE / 2)
        return plan.slip(problem.questions, FAILURE / 2) <= alpha * rows and answered < alpha * rows

    low, high = 0.0, 1.0
    if not keeps(high):
        raise SettingError(
            f"the theorem of {name} promises nothing for about {rows:,.0f} rows at this budget: leave theorem out"
        )
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return at(high), high
