"""The life of an online mechanism: planned once, claimed, opened, gone on with. OnlineIC without its update algorithm.

A mechanism of this family is OnlineIC (`loop.py`) with an update algorithm U of its own. Its module says how the guess
starts, answers and learns; T(α) stands in `theorem.py`, settings and plans in `parameters.py`, what to expect in
`claim.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from conspectus.curator.curator import Curator
from conspectus.mechanisms.mechanism import Claim, Refusal, no_histogram
from conspectus.mechanisms.online_mechanism import SessionProblem, State
from conspectus.mechanisms.settings import SettingError
from conspectus.mechanisms.sparse_vector import plan_sparse
from conspectus.mechanisms.total import find_total, left_after_total
from conspectus.synopses.synopsis import Total

from .claim import Typical, claim_of, expected_errors
from .learned import read_state
from .loop import Guess, OnlineConstruction
from .parameters import OnlinePlan, OnlineSettings
from .priming import Priming
from .theorem import CITES, theorem_plan
from .widths import CONFIDENCE


@dataclass(frozen=True, kw_only=True)
class OnlineIC(OnlineSettings, ABC):
    """OnlineIC, for an update algorithm U of a subclass: its first guess, its T(α), and what is typical of it."""

    name: ClassVar[str]
    citations: ClassVar[tuple[str, ...]] = CITES

    def refuses(self, problem: SessionProblem) -> str | None:
        """Why there can be no guess for this table, if there can be none: here, no histogram of all its columns."""
        return no_histogram(problem)

    @abstractmethod
    def memory(self, problem: SessionProblem) -> int:
        """About how many bytes the guess takes."""

    @abstractmethod
    def updates(self, problem: SessionProblem, alpha: float) -> float:
        """T(α): how often the guess can be off by α."""

    def printed_updates(self, problem: SessionProblem, alpha: float) -> float:
        """T(α) as the book prints it, where that is another number; for comparison."""
        return self.updates(problem, alpha)

    @abstractmethod
    def typical(self, problem: SessionProblem, rows: float, priming: Priming | None) -> Typical:
        """The hits that it needs in practice, and how wrong its guess is then."""

    def expected(self, problem: SessionProblem, plan: OnlinePlan) -> tuple[float, float]:
        """The largest and the mean error of the answers, in counts: typical, not promised."""
        return expected_errors(problem, plan)

    @abstractmethod
    def start(self, problem: SessionProblem, total: Total, alpha: float | None) -> Guess:
        """The first guess; with the theorem's level where there is one."""

    def primings(self, problem: SessionProblem, left: Fraction, rows: float) -> Iterator[Priming | None]:
        """What could be bought before the first question, of what is left of the budget: nothing, unless a subclass
        does."""
        yield None

    def settled(self, problem: SessionProblem, plan: OnlinePlan) -> Self:
        return self

    def plan(self, problem: SessionProblem) -> OnlinePlan | Refusal:
        reason = self.refuses(problem)
        if reason is None and self.theorem and not (problem.total_is_public and problem.rows):
            reason = "its theorem needs a public number of rows: leave theorem out"
        if reason is not None:
            return Refusal(mechanism=self.name, reason=reason)
        try:
            return self._plan_for(problem, float(problem.planned_rows))
        except SettingError as unfit:
            return Refusal(mechanism=self.name, reason=str(unfit))

    def _plan_for(self, problem: SessionProblem, rows: float) -> OnlinePlan:
        left = left_after_total(problem)
        if self.theorem:
            found = theorem_plan(problem, left, rows=rows, updates=lambda alpha: self.updates(problem, alpha))
            if found is None:
                raise SettingError(
                    f"the theorem of {self.name} promises nothing for about {rows:,.0f} rows at this budget: leave "
                    "theorem out"
                )
            width = found[0].passed().counts_at(CONFIDENCE)
            return OnlinePlan(rows=rows, sparse=found[0], guess_error=found[0].threshold, width=width, level=found[1])
        plans = [self._plan_with(problem, left, rows, priming) for priming in self.primings(problem, left, rows)]
        return min(plans, key=lambda plan: plan.width)

    def _plan_with(self, problem: SessionProblem, left: Fraction, rows: float, priming: Priming | None) -> OnlinePlan:
        typical = self.typical(problem, rows, priming)
        sparse = plan_sparse(
            problem,
            left if priming is None else left - priming.price,
            hits=min(self.hits or typical.hits, problem.questions),
            threshold=None if self.threshold is None else self.threshold * rows,
            measuring=self.measuring,
            guess_error=typical.guess_error,
        )
        guessed = sparse.passed().counts_at(CONFIDENCE)
        return OnlinePlan(
            rows=rows,
            sparse=sparse,
            guess_error=typical.guess_error,
            width=guessed if priming is None else priming.expected(rows).expected_width(guessed),
            priming=priming,
        )

    def claim(self, problem: SessionProblem, plan: OnlinePlan) -> Claim:
        return claim_of(
            problem,
            plan,
            name=self.name,
            citations=self.citations,
            memory=self.memory(problem),
            expected=self.expected(problem, plan),
            printed=lambda alpha: self.printed_updates(problem, alpha),
        )

    def open(self, curator: Curator, problem: SessionProblem, plan: OnlinePlan) -> OnlineConstruction:
        curator.hold_in_memory()
        total = find_total(curator, problem)
        return self.begin(curator, problem, self._plan_of(total, problem, plan), total, None)

    def restore(self, curator: Curator, problem: SessionProblem, plan: OnlinePlan, state: State) -> OnlineConstruction:
        total = read_state(state, problem).total
        run = self.begin(curator, problem, self._plan_of(total, problem, plan), total, state)
        run.adopt(state)
        return run

    def _plan_of(self, total: Total, problem: SessionProblem, plan: OnlinePlan) -> OnlinePlan:
        """The plan itself where the number of rows was known; for a number that had to be bought, one for that."""
        return plan if total.divisor == plan.rows else self._plan_for(problem, total.divisor)

    def begin(
        self, curator: Curator, problem: SessionProblem, plan: OnlinePlan, total: Total, state: State | None
    ) -> OnlineConstruction:
        """The run before its first question: with a state, nothing is bought again."""
        guess = self.start(problem, total, plan.level)
        return OnlineConstruction(curator, problem, plan=plan.sparse, guess=guess, total=total)

    def parameters(self, problem: SessionProblem, plan: OnlinePlan) -> dict[str, Any]:
        """What was asked for, and what follows from it where the number of rows is known."""
        return {"theorem": self.theorem} | (plan.to_json() if problem.rows else {})
