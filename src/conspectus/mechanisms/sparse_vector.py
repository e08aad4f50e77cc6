"""The sparse vector over the curator's watches: the book's AboveThreshold, Sparse and NumericSparse (§3.6).

The book's Algorithm 3, NumericSparse(D, {f_i}, T, c, ε, δ), for queries that one unit moves by 1:

    let T̂ = T + Lap(σ₁), count = 0
    for each query f_i:
        if f_i(D) + Lap(2σ₁) ≥ T̂:                       `Watch.exceeds`
            output f_i(D) + Lap(σ₂), count ← count + 1     `Curator.measure`, with the noise `law`
            let T̂ = T + Lap(σ₁)                           `Curator.above_threshold`, a new watch
        else output ⊥                                      None
        if count ≥ c: halt                                 `NumericSparse.over`

    book   here                                    book   here
    T      `SparsePlan.threshold`                  σ₁     scale of `SparsePlan.threshold_noise`
    c      `SparsePlan.hits`                       2σ₁    scale of `SparsePlan.error_noise`
    count  `NumericSparse.hits`                    σ₂     scale of `SparsePlan.law`

Here f_i is how far a guess is from the truth, in counts. One unit moves it by `max_rows`, where the book calls the
algorithm with averages, which one unit moves by 1/n. A `SparsePlan` holds the scales that really run; the book's own
constants stand in `online/theorem.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from conspectus.curator.acts import further_act, watch_act
from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS
from conspectus.curator.watch import Watch
from conspectus.privacy.accounting import BudgetExceeded, scale_up
from conspectus.privacy.events import Event, Noise, check_scale
from conspectus.queries.query import WEIGHT_STEPS
from conspectus.queries.workload import Workload

from .bounds import FAILURE, Margin
from .false_alarms import chance_of_alarms, least_margin
from .mechanism import root_down
from .online_mechanism import SessionProblem
from .settings import SHARE, SettingError, is_share

ALARMED = 0.02
"""The probability with which noise alone may use up half of the hits of a session, by its default threshold."""


@dataclass(frozen=True, kw_only=True)
class SparsePlan:
    """A NumericSparse: how many hits, from which threshold, and with which noises.

    Attributes:
        hits: How many hits are paid for.
        threshold: An error from here on is a hit, in counts.
        epsilon: What a watch costs; with `one_threshold`, what the first hit of the only watch costs.
        share: The part of a watch's ε that hides the threshold.
        law: The noise of a measured answer, in counts.
        max_rows: How far one unit moves a count.
        one_threshold: Whether one noisy threshold serves all hits. Otherwise each hit has a watch of its own.
        watches: How many watches the budget can pay for. A session that goes on in another process opens one more.
    """

    hits: int
    threshold: float
    epsilon: Fraction
    share: Fraction
    law: Noise
    max_rows: int
    one_threshold: bool = False
    watches: int = 0

    def __post_init__(self) -> None:
        # Before anything is paid for: the watch draws its noises in steps of an error.
        for noise in (self.threshold_noise, self.error_noise):
            check_scale(noise.scale * ERROR_STEPS)
        check_scale(self.law.scale)

    @property
    def threshold_noise(self) -> Noise:
        """The noise of a threshold, in counts."""
        return Noise("laplace", scale_up(Fraction(self.max_rows) / (self.share * self.epsilon)))

    @property
    def error_noise(self) -> Noise:
        """The noise of a comparison, in counts."""
        return Noise("laplace", scale_up(Fraction(2 * self.max_rows) / ((1 - self.share) * self.epsilon)))

    def passed(self, questions: int = 1) -> Margin:
        """How wrong an answer that made no hit may be: this one, or all of `questions` at once.

        The noise of a comparison is drawn afresh, so one answer needs the tail of one draw, whatever was asked before.
        A threshold that lasts is a high one, so that of each watch there may ever be counts. The noises lie on the grid
        of errors, to which a guess and the threshold are rounded.
        """
        thresholds = max(self.watches, 1 if self.one_threshold else self.hits)
        noises = ((self.threshold_noise, thresholds), (self.error_noise, questions))
        return Margin(offset=max(self.threshold, 0.0) + 1 / ERROR_STEPS, noises=noises, grid=ERROR_STEPS)

    def measured(self, grid: int = 1, answers: int = 1) -> Margin:
        """How wrong a measured answer to a question on this grid may be, or as many answers at once."""
        return Margin(noises=((self.law, answers),), grid=grid)

    def measured_half_width(self, confidence: float) -> float:
        """How wrong all measured answers may be, in counts, on whatever grid their questions are."""
        grids = (1 << power for power in range(WEIGHT_STEPS.bit_length()))
        return max(self.measured(grid, self.hits).counts_at(confidence) for grid in grids)

    def comparison_half_width(self, questions: int, failure: float = FAILURE) -> float:
        """How far a comparison may err, in counts, for all of `questions` at once, except with this probability."""
        margin = self.passed(questions)
        return margin.counts_at(1 - failure) - margin.offset + 1 / ERROR_STEPS

    def alarmed(self, questions: int, guess_error: float, alarms: int) -> float:
        """At most how likely noise alone makes so many hits in `questions`, where no guess is off by more counts."""
        # The threshold is rounded down to a step, and an error may be rounded up by one.
        margin = math.floor(self.threshold * ERROR_STEPS) - math.ceil(guess_error * ERROR_STEPS) - 1
        return chance_of_alarms(
            self.threshold_noise.scale * ERROR_STEPS,
            self.error_noise.scale * ERROR_STEPS,
            margin,
            questions=questions,
            alarms=alarms,
            one_threshold=self.one_threshold,
        )

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
            "one_threshold": self.one_threshold,
        }


def plan_sparse(
    problem: SessionProblem,
    price: Fraction,
    *,
    hits: int,
    threshold: float | None = None,
    measuring: float | None = None,
    one_threshold: bool | None = None,
    guess_error: float = 0.0,
) -> SparsePlan:
    """All hits together for `price`, for the questions of this session.

    Args:
        problem: The public facts of the session.
        price: What all hits may cost together, in the session's currency.
        hits: How many hits are paid for.
        threshold: From where an error is a hit, in counts. Unless it is given, noise alone uses up half of the hits
            with probability `ALARMED` at most, over all declared questions, where no guess is off by more than
            `guess_error`.
        measuring: The part of the price that buys the measured answers.
        one_threshold: Whether one noisy threshold serves all hits, which is the tighter form. It has a price in pure ε
            only, and none in a ledger that counts ρ; unless given, it is used where it has one.
        guess_error: The largest error that is to be expected of the guesses, in counts.
    """
    pure, questions = problem.currency == "pure", problem.questions
    part = Fraction(measuring) if measuring is not None else Fraction(1, 9) if pure else Fraction(1, 5)
    if one_threshold is None:
        one_threshold = pure and not problem.concentrated
    if hits < 1 or not is_share(part):
        raise SettingError(f"hits is at least 1, and measuring {SHARE}")
    if one_threshold and not pure:
        raise SettingError("one threshold for all hits has a pure price alone: give a budget without delta")
    watching = price * (1 - part)
    # The shares minimise the width of a guess: what keeps false alarms away, and what one answer's margin adds to it.
    thresholds = math.log(1 / ALARMED) + math.log(2 * (1 if one_threshold else hits) / FAILURE)
    comparisons = math.log(questions + 1) + math.log(2 / FAILURE)
    if one_threshold:
        first, rest = math.sqrt(thresholds), math.sqrt(2 * hits * comparisons)
        hiding = watching * _part(first / (first + rest))
        each = (watching - hiding) / hits
        epsilon, share = hiding + each, hiding / (hiding + each)
    else:
        first, rest = math.sqrt(thresholds), math.sqrt(2 * comparisons)
        epsilon = watching / hits if pure else root_down(2 * watching / hits)
        share = _part(first / (first + rest))
    moved = problem.max_rows
    law = problem.law_of_one(moved, price * part / hits)
    plan = SparsePlan(
        hits=hits,
        threshold=threshold or 0.0,
        epsilon=epsilon,
        share=share,
        law=law,
        max_rows=moved,
        one_threshold=one_threshold,
        watches=math.floor(price / (epsilon if pure else epsilon**2 / 2)),
    )
    if threshold is not None:
        return plan
    margin = least_margin(
        plan.threshold_noise.scale * ERROR_STEPS,
        plan.error_noise.scale * ERROR_STEPS,
        questions=questions,
        alarms=(hits + 1) // 2,
        one_threshold=one_threshold,
        failure=ALARMED,
    )
    return replace(plan, threshold=guess_error + (margin + 2) / ERROR_STEPS)


def _part(share: float) -> Fraction:
    """The share as so many parts of 1,024, and neither none nor all of them."""
    return Fraction(min(max(round(share * 1024), 1), 1023), 1024)


class NumericSparse:
    """The book's Algorithm 3 on errors of guesses: says nothing while a guess is near, and measures where it is not.

    The measured answer has fresh noise and its own price. After the last hit, or when the budget is at its end, it is
    `over` and asks the table nothing more.
    """

    def __init__(self, curator: Curator, plan: SparsePlan) -> None:
        self._curator = curator
        self.plan = plan
        self.hits = 0
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

    def acts_at_most(self, *, later: bool) -> tuple[Event, ...]:
        """What comparing one guess may cost, before what a surprise costs; `later` where others may surprise before."""
        plan = self.plan
        fresh = self._watch is None or self._watch.over
        if fresh or (later and not plan.one_threshold):
            return (watch_act(plan.epsilon),)
        unpaid = later or (self._watch is not None and self._watch.unpaid)
        return (further_act((1 - plan.share) * plan.epsilon),) if unpaid else ()

    def _surprised(self, query: Workload, guess: float) -> bool:
        plan = self.plan
        if self._watch is None or self._watch.over:
            left = plan.hits - self.hits if plan.one_threshold else 1
            self._watch = self._curator.above_threshold(
                Fraction(plan.threshold), plan.epsilon, share=plan.share, hits=left
            )
        return self._watch.exceeds(query, guess)
