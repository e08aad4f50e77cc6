"""OnlineIC, the one online loop: answer from a guess, measure where the guess is a surprise, learn from that.

The book's Algorithm 11, OnlineIC_U(x, {f_i}, ε, δ, α, β), with an update algorithm U that makes T(α) updates:

    let c = T(α), and T from `theorem.py`                        `SparsePlan.hits`, `.threshold`
    start NumericSparse(x, {f'_i}, T, c, ε, δ)                   `NumericSparse`
    let D⁰ = U(⊥, ·, ·)                                          the rule's `start`
    for each query f_i:                                          `OnlineConstruction.ask`
        let f'_{2i−1} = f_i(·) − f_i(Dᵗ), f'_{2i} = f_i(Dᵗ) − f_i(·)
        if NumericSparse says ⊥ to both: a_i = f_i(Dᵗ)           `NumericSparse.ask` gives None: the guess
        else a_i = f_i(Dᵗ) ± what it says                        it gives a measured count
             Dᵗ⁺¹ = U(Dᵗ, f_i, a_i), t ← t + 1                   `Guess.learn`

    book      here                                     book     here
    x         the table, behind the curator            f_i(Dᵗ)  `Guess.of`
    Dᵗ        `Guess`                                  c        `SparsePlan.hits`
    k = |Q|   `SessionProblem.questions`               t        `OnlineConstruction.updates`

Three things differ. One watch sees the size of the error, where the book asks twice, once for each sign. What is
measured is f_i itself, with fresh noise, and not its distance to the guess: the same law. The initial D⁰ = 1/|X| that
is printed is that of multiplicative weights; here the rule says it.

Privacy: composes the watches and the measurements of `NumericSparse`, and what was bought before the first question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from conspectus.curator.curator import Curator
from conspectus.data.domain import Domain
from conspectus.mechanisms.mechanism import Problem
from conspectus.mechanisms.online_mechanism import BadState, Margin, Reply, SessionProblem, State
from conspectus.mechanisms.sparse_vector import NumericSparse, SparsePlan
from conspectus.privacy.events import Noise
from conspectus.queries.query import Parity, Predicate, Query
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import BadSynopsis, Synopsis, Total, part


class Guess(Protocol):
    """Dᵗ and U: it answers any query, and learns from measured ones. Public, all of it."""

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
        plan: SparsePlan,
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
    def plan(self) -> SparsePlan:
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

        The guess was fitted to all of them together. It is wrong by no more than its distance to their sum, and the
        noise of that sum.
        """
        if self._primed is None or not self._covers(query.columns):
            return None
        held = self._primed.sum_for(query.query(0))
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
        """Learn what a state has learned beyond this run, in the same order."""
        stored, mine = read_state(state, self._problem), len(self._questions)
        same = (stored.total, stored.questions[:mine], stored.noisy[:mine]) == (
            self.total,
            self._questions,
            self._noisy,
        )
        if not same:
            raise BadState("this state is not the one that this session goes on from: resume it from its own file")
        for query, count in zip(stored.questions[mine:], stored.noisy[mine:]):
            self._learn(query, count)
        self._asked = max(self._asked, stored.asked)
        self._sparse.hits = max(self._sparse.hits, stored.hits)


class Stored(NamedTuple):
    """What a state holds: the total, how many questions and hits there were, and the questions that were measured."""

    total: Total
    asked: int
    hits: int
    questions: list[Workload]
    noisy: list[float]


def read_state(state: State, problem: Problem) -> Stored:
    """A stored state, all of it checked; `BadState` if it is not one of this problem."""
    meta, tables = state
    try:
        total = Total.from_json(meta.get("total"))
        learned = Workload.from_json(meta.get("learned"))
        noisy = part(tables, "learned", [("count", pa.float64())])["count"].to_pylist()
    except (BadSynopsis, WorkloadError, ValueError) as unreadable:
        raise BadState(f"the state of the session is not readable: {unreadable}") from unreadable
    asked, hits = meta.get("asked"), meta.get("hits")
    if type(asked) is not int or type(hits) is not int or not 0 <= hits <= asked:
        raise BadState("the state of the session does not say how many questions and surprises there were")
    if learned.domain != problem.workload.domain or len(learned) != len(noisy) or not np.isfinite(noisy).all():
        raise BadState("the measured answers of the session's state do not belong to this table")
    return Stored(total, asked, hits, list(learned), noisy)


def on_cells(query: Workload) -> Query:
    """The one query of a workload, refused unless it is true or false on every cell: what a dense guess learns from."""
    asked = query.query(0)
    if not isinstance(asked, Predicate | Parity):
        raise WorkloadError(
            "this mechanism learns from predicates: ask one, or ask about weighted records with sparse-mw"
        )
    return asked


def _joined(domain: Domain, questions: Sequence[Workload]) -> Workload:
    """Single questions as one workload, a block for each, so that it gives them back as they were."""
    return Workload(domain, tuple(block for question in questions for block in question.blocks))
