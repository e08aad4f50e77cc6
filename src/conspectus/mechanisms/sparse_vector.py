"""The sparse vector over the curator's watches: the book's AboveThreshold, Sparse and NumericSparse (§3.6).

A `Plan` holds the scales that really run; `NumericSparse` plays it. Everything is in counts, of which one unit moves
`max_rows`: the book states its algorithms for queries of sensitivity 1 and then calls them with averages, which one
unit moves by 1/n. The book's own constants stand in `sparse_vector_theorem`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS
from conspectus.curator.watch import Watch
from conspectus.privacy.accounting import BudgetExceeded, scale_up
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.sparse_queries import WEIGHT_STEPS
from conspectus.queries.sensitivity import Sensitivity
from conspectus.queries.workload import Workload

from .mechanism import Problem, SettingError, root_down
from .online_mechanism import Margin, SessionProblem

FAILURE = 0.05
"""The probability with which the noises of a whole session may reach further than its default threshold allows for."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A NumericSparse of at most `hits` hits, found by watches of `epsilon` and measured with the noise `law`.

    `threshold` is in counts, `share` the part of a watch's ε that hides the threshold. With `kept`, one threshold
    serves all hits and `epsilon` is what the first one costs; otherwise each hit has a watch of its own. `watches` is
    how many the budget can pay for: who goes on in another process opens one more.
    """

    hits: int
    threshold: float
    epsilon: Fraction
    share: Fraction
    law: Noise
    max_rows: int
    kept: bool = False
    watches: int = 0

    @property
    def threshold_noise(self) -> Noise:
        """The noise of a threshold, in counts."""
        return Noise("laplace", scale_up(Fraction(self.max_rows) / (self.share * self.epsilon)))

    @property
    def error_noise(self) -> Noise:
        """The noise of a comparison, in counts."""
        return Noise("laplace", scale_up(Fraction(2 * self.max_rows) / ((1 - self.share) * self.epsilon)))

    def passed(self, questions: int) -> Margin:
        """How wrong an answer that made no hit may be, for all of `questions` at once.

        The noises lie on the grid of errors, to which a guess and the threshold are rounded.
        """
        thresholds = max(self.watches, 1 if self.kept else self.hits)
        noises = ((self.threshold_noise, thresholds), (self.error_noise, questions))
        return Margin(offset=max(self.threshold, 0.0) + 1 / ERROR_STEPS, noises=noises, grid=ERROR_STEPS)

    def measured(self, grid: int = 1) -> Margin:
        """How wrong a measured answer to a question on this grid may be, for all of them at once."""
        return Margin(noises=((self.law, self.hits),), grid=grid)

    def reach(self, confidence: float) -> float:
        """How wrong measured answers may be, in counts, on whatever grid their questions are."""
        grids = (1 << power for power in range(WEIGHT_STEPS.bit_length()))
        return max(self.measured(grid).counts_at(confidence) for grid in grids)

    def to_json(self) -> dict[str, Any]:
        """The plan for a report."""
        return {
            "hits": self.hits,
            "threshold_counts": self.threshold,
            "watch_epsilon": float(self.epsilon),
            "threshold_scale": self.threshold_noise.scale,
            "comparison_scale": self.error_noise.scale,
            "answer_noise": self.law.kind,
            "answer_scale": self.law.scale,
            "one_threshold": self.kept,
        }

    def slip(self, questions: int, failure: float = FAILURE) -> float:
        """How far a comparison may err, in counts, for all of `questions` at once, except with this probability."""
        margin = self.passed(questions)
        return margin.counts_at(1 - failure) - margin.offset + 1 / ERROR_STEPS


def make_plan(
    problem: Problem,
    price: Fraction,
    *,
    hits: int,
    questions: int,
    threshold: float | None = None,
    measuring: float | None = None,
    kept: bool | None = None,
    guess_error: float = 0.0,
) -> Plan:
    """All hits together for `price`, of which the part `measuring` buys the answers.

    `kept` is the tighter form where it has a price: in pure ε, unless a ledger counts ρ. The threshold, unless it is
    given, is where hardly any of the announced questions is a hit by noise alone: an eighth as many as there are hits,
    were every guess right, moved up by `guess_error`, the error that is to be expected of them.
    """
    pure = problem.currency == "pure"
    part = Fraction(measuring) if measuring is not None else Fraction(1, 9) if pure else Fraction(1, 5)
    if kept is None:
        kept = pure and not (isinstance(problem, SessionProblem) and problem.concentrated)
    if hits < 1 or not 0 < part < 1:
        raise SettingError("hits is at least 1, and measuring lies strictly between 0 and 1")
    if kept and not pure:
        raise SettingError("one threshold for all hits has a pure price alone: give a budget without delta")
    watching = price * (1 - part)
    # The shares minimise what the margins of all thresholds and of all comparisons add up to.
    far = math.log(2 * questions / FAILURE)
    if kept:
        first, rest = math.sqrt(math.log(2 / FAILURE)), math.sqrt(2 * hits * far)
        hiding = watching * _part(first / (first + rest))
        each = (watching - hiding) / hits
        epsilon, share = hiding + each, hiding / (hiding + each)
    else:
        first, rest = math.sqrt(math.log(2 * hits / FAILURE)), math.sqrt(2 * far)
        epsilon = watching / hits if pure else root_down(2 * watching / hits)
        share = _part(first / (first + rest))
    moved = problem.max_rows
    law = problem.law(Sensitivity(moved, moved * moved, moved), price * part / hits)
    comparing = 2 * moved / float((1 - share) * epsilon)
    level = comparing * math.log(max(4 * questions / hits, 2.0)) + guess_error if threshold is None else threshold
    watches = math.floor(price / (epsilon if pure else epsilon**2 / 2))
    return Plan(
        hits=hits,
        threshold=level,
        epsilon=epsilon,
        share=share,
        law=law,
        max_rows=problem.max_rows,
        kept=kept,
        watches=watches,
    )


def _part(share: float) -> Fraction:
    return Fraction(min(max(round(share * 1024), 1), 1023), 1024)


class NumericSparse:
    """The book's Algorithm 3 on errors of guesses: says nothing while a guess is near, and measures where it is not.

    The measured answer has fresh noise and its own price. After the last hit, or when the budget is at its end, it is
    `over` and asks the table nothing more.
    """

    def __init__(self, curator: Curator, plan: Plan, *, hits: int = 0) -> None:
        self._curator = curator
        self.plan = plan
        self.hits = hits
        self._refused = False
        self._watch: Watch | None = None

    @property
    def over(self) -> bool:
        if self._refused or self.hits >= self.plan.hits:
            return True
        if self._watch is None or self._watch.over:
            return not self._curator.affords_watch(self.plan.epsilon)
        return self._watch.unaffordable

    def ask(self, query: Workload, guess: float) -> float | None:
        """The measured count of a query whose guess was a surprise; None where it was not, or where it is over."""
        if self.over:
            return None
        try:
            if not self._surprised(query, guess):
                return None
            self.hits += 1
            law = Noise(self.plan.law.kind, self.plan.law.scale * query.grid)
            return float(self._curator.measure(query, law)[0]) / query.grid
        except BudgetExceeded:
            self._refused = True
            return None

    def _surprised(self, query: Workload, guess: float) -> bool:
        plan = self.plan
        if self._watch is None or self._watch.over:
            left = plan.hits - self.hits if plan.kept else 1
            self._watch = self._curator.above_threshold(
                Fraction(plan.threshold), plan.epsilon, share=plan.share, hits=left
            )
        return self._watch.exceeds(query, guess)
