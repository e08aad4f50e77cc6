"""What the settings of every online rule have in common: how surprises are found, how many, and by which theorem."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from conspectus.curator.curator import Curator
from conspectus.mechanisms.mechanism import Claim, ErrorBound, Refusal, SettingError
from conspectus.mechanisms.online_mechanism import SessionProblem, State
from conspectus.mechanisms.sparse_vector import FAILURE, Plan, make_plan
from conspectus.mechanisms.sparse_vector_theorem import book_level
from conspectus.mechanisms.total import SHARE, find_total
from conspectus.synopses.synopsis import Total

from .loop import CITES, Guess, OnlineConstruction, read_state, theorem_plan


@dataclass(frozen=True, kw_only=True)
class OnlineSettings:
    """`hits` is the number of surprises that are paid for, `threshold` (a fraction of the rows) from where an error is
    one, `measuring` the share of a hit that buys its answer; what is not given follows from public facts.

    `theorem` takes them from the theorem of the rule instead, where the number of rows is public.
    """

    hits: int | None = None
    threshold: float | None = None
    measuring: float | None = None
    theorem: bool = False

    name: ClassVar[str]
    citations: ClassVar[tuple[str, ...]] = CITES

    def __post_init__(self) -> None:
        if (self.hits is not None and self.hits < 1) or (self.threshold is not None and not 0 <= self.threshold < 1):
            raise SettingError("hits is at least 1, and threshold a fraction of the rows")
        if self.measuring is not None and not 0 < self.measuring < 1:
            raise SettingError("measuring lies strictly between 0 and 1")
        if self.theorem and (self.hits or self.threshold is not None or self.measuring):
            raise SettingError("theorem chooses hits, threshold and measuring itself: leave them out")

    def refuses(self, problem: SessionProblem) -> str | None:
        """Why the rule cannot keep its guess for this table, if it cannot."""
        raise NotImplementedError

    def updates(self, problem: SessionProblem, alpha: float) -> float:
        """T(α): how often the rule can be off by α."""
        raise NotImplementedError

    def usual(self, problem: SessionProblem, left: Fraction, rows: float) -> tuple[int, float]:
        """The hits that it needs in practice, and about how wrong its guess is then, in counts."""
        raise NotImplementedError

    def start(self, problem: SessionProblem, total: Total, alpha: float | None) -> Guess:
        """The first guess; with a level where the theorem gives one."""
        raise NotImplementedError

    def share(self) -> Fraction:
        """The part of the budget that is left for surprises."""
        return Fraction(1)

    def memory(self, problem: SessionProblem) -> int:
        """About how many bytes the guess takes."""
        raise NotImplementedError

    def plan(self, problem: SessionProblem, left: Fraction, rows: float) -> tuple[Plan, float | None]:
        """The sparse vector, and the theorem's level where it was asked for."""
        if self.theorem:
            return theorem_plan(
                problem, left, rows=rows, updates=lambda alpha: self.updates(problem, alpha), name=self.name
            )
        usual, guess_error = self.usual(problem, left, rows)
        plan = make_plan(
            problem,
            left * self.share(),
            hits=min(self.hits or usual, problem.questions),
            questions=problem.questions,
            threshold=None if self.threshold is None else self.threshold * rows,
            measuring=self.measuring,
            guess_error=guess_error,
        )
        return plan, None

    def claim(self, problem: SessionProblem) -> Claim | Refusal:
        reason = self.refuses(problem)
        if reason is None and self.theorem and not (problem.total_is_public and problem.rows):
            reason = "its theorem needs a public number of rows: leave theorem out"
        if reason is not None:
            return Refusal(mechanism=self.name, reason=reason)
        rows = float(problem.rows or 1)
        try:
            plan, alpha = self.plan(problem, self.left(problem), rows)
        except SettingError as vacuous:
            return Refusal(mechanism=self.name, reason=str(vacuous))
        passed = plan.passed(problem.questions).counts_at(1 - FAILURE)
        bound = None
        book: tuple[str, ...] = ()
        if alpha is not None:
            printed = book_level(problem, problem.questions, rows, lambda level: self.updates(problem, level))
            said = "nothing" if printed is None or printed >= 1 / 3 else f"3α = {3 * printed:.3g}"
            book = (f"the book's own constants promise {said}",)
            value = max(passed, plan.reach(1 - FAILURE)) / rows
            bound = ErrorBound(value=value, statistic="max", probability=1 - FAILURE, theorem=CITES[0])
        expected = plan.threshold if alpha is not None else self.usual(problem, self.left(problem), rows)[1]
        near = f"{passed / rows:.3g} of the rows" if problem.rows else f"{passed:.0f} rows"
        return Claim(
            mechanism=self.name,
            expected_max=2 * expected,
            expected_mean=expected / 2,
            bound=bound,
            memory=self.memory(problem),
            citations=self.citations,
            notes=(
                f"at most {plan.hits:,} of {problem.questions:,} questions are paid for",
                f"an answer is within {near} of the truth while there are hits left",
                *book,
            ),
        )

    def left(self, problem: SessionProblem) -> Fraction:
        """What is left of the budget once the number of rows is known."""
        return problem.cap * (1 if problem.total_is_public else 1 - SHARE)

    def open(self, curator: Curator, problem: SessionProblem) -> OnlineConstruction:
        curator.hold_in_memory()
        total, left = find_total(curator, problem)
        return self.begin(curator, problem, total, left, None)

    def restore(self, curator: Curator, problem: SessionProblem, state: State) -> OnlineConstruction:
        loop = self.begin(curator, problem, read_state(state, problem)[0], self.left(problem), state)
        loop.adopt(state)
        return loop

    def begin(
        self, curator: Curator, problem: SessionProblem, total: Total, left: Fraction, state: State | None
    ) -> OnlineConstruction:
        """The loop before its first question: bought just now, or as a stored state has it."""
        plan, alpha = self.plan(problem, left, total.divisor)
        guess = self.start(problem, total, alpha)
        return OnlineConstruction(curator, problem, plan=plan, guess=guess, total=total)

    def parameters(self, problem: SessionProblem) -> dict[str, Any]:
        """What was asked for, and what follows from it where the number of rows is known."""
        said: dict[str, Any] = {"theorem": self.theorem}
        if problem.rows:
            plan, alpha = self.plan(problem, self.left(problem), float(problem.rows))
            said |= plan.to_json() | ({} if alpha is None else {"alpha": alpha})
        return said
