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
from dataclasses import replace
from typing import Protocol, runtime_checkable

import pyarrow as pa

from conspectus.curator.acts import measurement
from conspectus.curator.curator import Curator
from conspectus.mechanisms.bounds import margin_around
from conspectus.mechanisms.online_mechanism import HandOver, RefitsAside, Reply, SessionProblem, State
from conspectus.mechanisms.sparse_vector import NumericSparse, SparsePlan
from conspectus.privacy.events import Event, Noise
from conspectus.queries.query import Linear, Parity, Predicate, Query
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.synopses.measured_sums import NoisySum
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.pooled_marginals import PooledSum, put_together
from conspectus.synopses.synopsis import Synopsis, Total

from .learned import Learned, read_state


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


@runtime_checkable
class LearnsTogether(Protocol):
    """A guess that learns from many measured counts sooner than from one after the other."""

    def learn_together(self, answers: Sequence[tuple[Workload, float]], law: Noise) -> None:
        """Take in measured counts, in the order in which they were measured."""
        ...


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
        self._known = [] if primed is None else [frozenset(block.columns) for block in primed.workload.blocks]
        self._covered: dict[tuple[int, ...], bool] = {}
        self._sparse = NumericSparse(curator, plan)
        self._curator = curator
        self._asked = 0
        self._learned = Learned(problem, total, plan.law)

    @property
    def exhausted(self) -> bool:
        return self._sparse.over or self._asked >= self._problem.questions

    @property
    def plan(self) -> SparsePlan:
        return self._sparse.plan

    @property
    def updates(self) -> int:
        """How often it has learned."""
        return len(self._learned)

    def guess(self, query: Workload) -> float:
        return self._guess.of(query) * self.total.divisor

    def known(self, query: Workload) -> Reply | None:
        """The guess, where the marginals bought in advance decide the question: no watch is needed.

        The interval is that of their best estimate, as the release of the session has it (`NoisyAnswers.narrowest`):
        the truth plus a linear combination of their noises, with weights that the question and public facts fix, and
        the quantile of just that law. It lies around the estimate. The guess was fitted to the same measurements: it
        is the answer while it lies inside, and else the nearer end is.

        The noises were drawn before the first question, once for all. So, as with a release, the confidence is that of
        a question which was fixed in advance. Earlier answers tell something of these noises: of questions that were
        chosen for what answers said, more may lie outside.
        """
        held = self._bought(query)
        return None if held is None else Reply(count=self.guess(query), basis="measured", margin=margin_around(held))

    def ask(self, query: Workload) -> Reply:
        guessed = self.guess(query)
        held = self._bought(query)
        if held is not None:
            return Reply(count=guessed, basis="measured", margin=margin_around(held))
        if self.exhausted:
            return Reply(count=guessed, basis="unguaranteed", margin=None)
        self._asked += 1
        hits = self._sparse.hits
        noisy = self._sparse.ask(query, guessed)
        if noisy is not None:
            self._learn(query, noisy)
            return self._measured(query, noisy)
        if self._sparse.over or self._sparse.hits > hits:  # the budget ended before this question was answered
            return Reply(count=guessed, basis="unguaranteed", margin=None)
        return Reply(count=guessed, basis="guessed", margin=self.plan.passed())

    def measure(self, query: Workload) -> Reply:
        self._guess.of(query)  # refused before it is paid for, where the guess could not learn from it
        if (known := self._narrow_enough(query)) is not None:
            return known
        noisy = float(self._curator.measure(query, self._learned.law_of(query))[0]) / query.grid
        held = self._bought(query)
        self._learn(query, noisy)
        if held is None:
            return self._measured(query, noisy)
        together = put_together(self._fresh(query, noisy), held)
        return Reply(count=self._possible(together.count), basis="measured", margin=margin_around(together))

    def acts_at_most(self, query: Workload, *, outright: bool = False, later: bool = False) -> tuple[Event, ...]:
        self._guess.of(query)  # refused as it would be when it is asked
        if outright and self._narrow_enough(query) is not None:
            return ()
        measured = measurement(query, self._learned.law_of(query), relation=self._problem.relation)
        if outright:
            return (measured,)
        if self._adds_up(query) or self.exhausted:
            return ()
        return (*self._sparse.acts_at_most(later=later), measured)

    def _measured(self, query: Workload, noisy: float) -> Reply:
        """A count as it was measured; the interval lies around what noise made of it."""
        margin = replace(self.plan.measured(query.grid), centre=noisy)
        return Reply(count=self._possible(noisy), basis="measured", margin=margin)

    def _fresh(self, query: Workload, noisy: float) -> NoisySum:
        """A count that is measured for itself, with its noise."""
        law = self._learned.law_of(query)
        return NoisySum(count=noisy, kind=law.kind, scale=law.scale, terms=1, averaged=query.grid)

    def _narrow_enough(self, query: Workload) -> Reply | None:
        """What is known of a question that a measurement of its own would not make narrower; None for any other.

        The laws of the noises decide, and they are public.
        """
        held = self._bought(query)
        return None if held is None or put_together(self._fresh(query, 0.0), held) is not held else self.known(query)

    def _bought(self, query: Workload) -> NoisySum | PooledSum | None:
        """The best estimate by the marginals bought in advance; None where they do not decide the question."""
        if self._primed is None or not self._adds_up(query):
            return None
        held = self._primed.narrowest(query.query(0))
        assert isinstance(held, NoisySum | PooledSum), "sums of values are asked for themselves"
        return held

    def _adds_up(self, query: Workload) -> bool:
        """Whether the marginals bought in advance decide a question; sums of values are asked for themselves.

        One over columns that no marginal holds together is decided only where it is a union of others.
        """
        asked = query.query(0)
        if self._primed is None or isinstance(asked, Linear):
            return False
        if self._covers(query.columns):
            return True
        return isinstance(asked, Predicate) and len(asked.boxes) > 1 and self._primed.narrowest(asked) is not None

    def _covers(self, columns: tuple[int, ...]) -> bool:
        """Whether a marginal that was bought in advance has these columns."""
        if columns not in self._covered:
            self._covered[columns] = any(known.issuperset(columns) for known in self._known)
        return self._covered[columns]

    def _possible(self, count: float) -> float:
        return min(max(count, 0.0), self.total.divisor) if self.total.exact else max(count, 0.0)

    def _learn(self, query: Workload, noisy: float) -> None:
        self._learned.add(query, noisy)
        self._guess.learn(query, noisy, self.plan.law)

    def refit_aside(self, hand_over: HandOver) -> None:
        if isinstance(self._guess, RefitsAside):
            self._guess.refit_aside(hand_over)

    def synopsis(self) -> Synopsis:
        return self._guess.synopsis()

    def measured(self) -> NoisyAnswers | None:
        return self._learned.answers(self._primed) if self._learned or self._primed is not None else None

    def state(self) -> State:
        meta, tables = self._learned.state(asked=self._asked, hits=self._sparse.hits)
        if self._primed is not None:
            tables["primed"] = pa.table({"count": self._primed.counts})
        return meta, tables

    def adopt(self, state: State) -> None:
        """Learn what a state has learned beyond this run, in the same order."""
        stored = read_state(state, self._problem)
        answers = self._learned.beyond(stored)
        for query, count in answers:
            self._learned.add(query, count)
        if isinstance(self._guess, LearnsTogether):
            self._guess.learn_together(answers, self.plan.law)
        else:
            for query, count in answers:
                self._guess.learn(query, count, self.plan.law)
        self._asked = max(self._asked, stored.asked)
        self._sparse.hits = max(self._sparse.hits, stored.hits)


def on_cells(query: Workload) -> Query:
    """The one query of a workload, refused unless it has a value on every cell: what a dense guess learns from."""
    asked = query.query(0)
    if not isinstance(asked, Predicate | Parity | Linear):
        raise WorkloadError(
            "this mechanism learns from predicates and sums of values: ask one, ask about records with sparse-mw, or "
            "functions of the whole table with laplace or gaussian"
        )
    return asked
