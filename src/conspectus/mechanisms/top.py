"""Which of many counts are the largest: the book's private choices (§3.3, §3.4), one after the other.

    report noisy max (Claim 3.9)            add Lap(1/ε) to every count, report the index of the largest
    one-sided noise (Theorem 3.13)          the same with exponential noise: permute-and-flip
    exponential mechanism (Definition 3.4)  index q with probability ∝ exp(ε·count/2Δ)

A winner is taken out, and the next one is chosen among those that are left, with fresh noise: k choices, of which each
has a k-th of the price. The winners' counts are then measured afresh, if they are asked for.

| book | here |
| --- | --- |
| the largest of noisy counts | `Curator.select` of `LargestCounts`, by `rule` |
| Δ, or 2Δ where counts do not all move in one direction | `LargestCounts.spread` |
| the noisy value of the winner, "at no extra privacy cost" (Example 3.4) | false: `Curator.measure`, at its price |

Three things of the book are corrected. Noise of 1/ε is enough only where all counts move in the same direction, when a
unit is added or removed; a replaced one needs 2/ε (Claim 3.9). The value of the noisy maximum is not free (Example
3.4). One-sided noise is not the exponential mechanism (Theorem 3.13), but never worse at the same price in pure ε. In
ρ the exponential mechanism costs a quarter of what the two others do, and is the better one.

With `rest`, where the number n of rows is private, the w rows outside of the one winner are counted beside its r: a
row is one or the other, so that one unit moves both together by no more than either, and both cost what the winner
costs alone. Then n is r + w, and no total is bought. A share w/n is off by ((1 − w/n)·Z − w/n·Z')/n to first order,
with the noises Z of w and Z' of r: never by more than a count is, where a total that is bought apart with a part of
the same price makes both noises wider, and adds its own.

Privacy: composes the choices, the measurement of the winners and the row total.
Accuracy: Theorem 3.11 and a union bound over the choices. With m questions, at rate λ in counts, the j-th winner's
count is at least the j-th largest one less ln(m·k/β)/λ, for all k winners at once, except with probability β.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from conspectus.curator.acts import Rule, spread_of
from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS, LargestCounts
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.builders.conjunctions import always
from conspectus.queries.formulas import TooManyBoxes, any_box, opposite, predicate
from conspectus.queries.query import Predicate
from conspectus.queries.workload import Workload
from conspectus.synopses.measured_sums import partition_total
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.whole_numbers import MOST

from .bounds import FAILURE
from .mechanism import CannotServe, Claim, Mechanism, Outcome, Problem, expected_maximum, expected_size, root_down
from .settings import SHARE, check_settings, is_share
from .sums_of_noise import half_width
from .total import bought_total_law, find_total, left_after_total, of_fractions

RULES: tuple[Rule, ...] = ("exponential", "permute-and-flip", "noisy-max")


@dataclass(frozen=True, kw_only=True)
class TopPlan:
    """The questions, how many are chosen by which rule, the ε of each choice, and the price of the fresh counts.

    `within` bounds, in counts, how much smaller the j-th winner is than the j-th largest count.
    """

    asked: Workload
    winners: int
    rule: Rule
    epsilon: Fraction
    within: float
    price: Fraction

    def law(self, problem: Problem, chosen: Workload) -> Noise:
        """The noise on the fresh counts of the winners."""
        return problem.law(problem.sensitivity(chosen), self.price)


@dataclass(frozen=True, kw_only=True)
class Top(Mechanism[TopPlan]):
    """The questions with the largest counts, and their counts measured afresh; nothing is said of the others.

    Choose it where only the largest of many counts matter: its error grows with the logarithm of the number of
    questions, where noise on all of them grows with the number, or its root. (One person moves two cells of a marginal
    at most, however many there are: for these `gaussian` on all of them is as good, or better.) Answers of questions
    that did not win are not a number (NaN). `release.winners` has the positions of those that did, in the order in
    which they were found.

    Args:
        count: How many of the largest counts to find.
        rule: How each is chosen: "exponential", "permute-and-flip" (one-sided noise) or "noisy-max". By default
            permute-and-flip for a pure budget, and the exponential mechanism where a delta is allowed.
        counts: The share of the budget that buys fresh counts of the winners; 0 for their names alone.
        rest: Whether the rows outside of the winner, of which there is one, are counted too where the number of rows is
            private. They cost nothing, and shares of rows are far more exact than by a total that is bought apart.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> column = {"type": "categorical", "values": ["flu", "cold", "asthma", "gout"]}
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": {"diagnosis": column}})
        >>> data = pa.table({"diagnosis": ["flu"] * 300 + ["cold"] * 900 + ["asthma"] * 600 + ["gout"] * 20})
        >>> table = cs.open_table(data, schema)
        >>> workload = cs.marginal(schema, ["diagnosis"])
        >>> release = cs.release(table, workload, epsilon=2, mechanism="top", count=2)
        >>> release.winners
        (1, 2)
        >>> [round(float(answer), 1) for answer in release.answers]
        [nan, 0.5, 0.3, nan]
    """

    count: int | None = None
    rule: str | None = None
    counts: float = 0.5
    rest: bool = False

    name: ClassVar[str] = "top"

    def __post_init__(self) -> None:
        check_settings(
            (
                self.count is None or 1 <= self.count <= MOST,
                f"count, how many of the largest to find, lies between 1 and {MOST:,}",
            ),
            (self.rule is None or self.rule in RULES, f"rule, how each is chosen, is one of {', '.join(RULES)}"),
            (is_share(self.counts, or_nothing=True), f"counts, the share for fresh counts, is 0 or {SHARE}"),
            (not self.rest or self.count == 1, "rest, the rows outside of the winner, needs one winner: count=1"),
        )

    def plan(self, problem: Problem) -> TopPlan:
        """The ε of each choice, and what is left for the fresh counts."""
        if self.count is None:
            raise CannotServe("it finds the largest counts and answers no other: say how many, as in count=10")
        asked = problem.workload.distinct()
        if _spread(problem, asked) == 0:
            raise CannotServe("nobody in the table moves these counts, so that there is none to find: use laplace")
        if any(isinstance(block, LinearQueries) for block in asked.blocks):
            raise CannotServe(
                "it finds the largest of counts, and sums, means, variances and covariances are none: use laplace or "
                "gaussian, which answer all of them"
            )
        winners = min(self.count, len(asked))
        # Where all are asked for there is nothing to choose but their order.
        left = problem.cap if self._with_rest(problem) else left_after_total(problem)
        price = left * Fraction(self.counts)
        each = (left - price) / winners
        rule = self._rule(problem)
        if rule == "exponential":
            epsilon = problem.selection(each)
        else:
            epsilon = each if problem.currency == "pure" else root_down(2 * each)
        return TopPlan(
            asked=asked,
            winners=winners,
            rule=rule,
            epsilon=epsilon,
            within=_within(problem, asked, winners, rule, epsilon),
            price=price,
        )

    def _with_rest(self, problem: Problem) -> bool:
        """Whether the number of rows is the winner and the rest, and is not bought apart."""
        return self.rest and self.counts > 0 and bought_total_law(problem) is not None

    def _rule(self, problem: Problem) -> Rule:
        for rule in RULES:
            if rule == self.rule:
                return rule
        return "permute-and-flip" if problem.currency == "pure" else "exponential"

    def claim(self, problem: Problem, plan: TopPlan) -> Claim:
        law = plan.law(problem, plan.asked[: plan.winners]) if plan.price else None
        grid = plan.asked.grid
        within = f"{math.ceil(10 * plan.within) / 10:,.1f}"  # a promise is rounded against who makes it
        said = f"the j-th of {plan.winners:,} winners is at most {within} counts below the j-th largest count"
        # Without counts of their own, the error of winners is how far they fall short.
        short = plan.within / math.log(len(plan.asked) * plan.winners / FAILURE)
        claim = Claim(
            mechanism=self.name,
            expected_max=expected_maximum(law, plan.winners) / grid if law else plan.within,
            expected_mean=expected_size(law) / grid if law else short,
            bound=None,
            memory=64 * len(plan.asked),
            citations=("Dwork & Roth 2014, §3.3, §3.4 and Theorem 3.11 (Claim 3.9 and Theorem 3.13 corrected)",),
            notes=(
                f"chosen by {plan.rule}; with probability {1 - FAILURE:g} {said}; the others are not answered",
                "expected errors are those of the winners' fresh counts"
                if law
                else "expected errors are such shortfalls",
            ),
            expected_width=half_width(law) / grid if law else None,
        )
        return claim if self._with_rest(problem) else of_fractions(problem, claim)

    def release(self, curator: Curator, problem: Problem, plan: TopPlan) -> Outcome:
        """Choose, and measure what was chosen."""
        curator.count_ahead(plan.asked)
        rest = self._with_rest(problem)
        bought = None if rest else find_total(curator, problem)
        nobody = np.zeros(0, dtype=np.int64)
        score = LargestCounts(plan.asked)
        won = curator.select(score, plan.epsilon, draws=plan.winners, barred=nobody, rule=plan.rule)
        order = np.sort(won) if plan.price else nobody
        chosen = plan.asked.take(order)
        measured = _beside_the_rest(chosen) if rest else chosen
        values = np.zeros(0)
        laws: tuple[Noise, ...] = ()
        if plan.price:
            law = plan.law(problem, measured)
            values, laws = curator.measure(measured, law) / measured.grid, (law,) * len(measured.blocks)
        total = bought or partition_total(measured, values, laws[0])
        answers = np.full(len(plan.asked), np.nan)
        answers[order] = values[: len(order)] / total.divisor
        where = problem.workload.positions_in(plan.asked)
        first = [int(np.flatnonzero(where == winner)[0]) for winner in won]
        return Outcome(
            synopsis=NoisyAnswers(problem.workload.domain, measured, values, laws, total),
            answers=answers[where],
            total=total,
            parameters={"winners": first, "rule": plan.rule, "counts": self.counts, "within": plan.within},
        )


def _beside_the_rest(chosen: Workload) -> Workload:
    """The one question of a workload and its negation in one list; or all rows, where the negation is too long."""
    domain, winner = chosen.domain, chosen.query(0)
    try:
        if not isinstance(winner, Predicate):
            return chosen + always(domain)
        others = predicate(domain, opposite(domain, any_box(domain, winner.boxes)))
    except TooManyBoxes:
        return chosen + always(domain)
    return Workload(domain, (Conjunctions.of(domain, [winner, others]),))


def _spread(problem: Problem, asked: Workload) -> Fraction:
    """The length of the interval in which one unit moves all counts, in steps."""
    spread = spread_of(LargestCounts(asked), problem.relation).under(problem.neighbours)
    assert spread is not None
    return spread


def _within(problem: Problem, asked: Workload, winners: int, rule: Rule, epsilon: Fraction) -> float:
    """How much smaller a winner may be than what it should be, in counts, for all winners at once.

    By the exponential mechanism and by permute-and-flip a candidate at distance d has a chance of e^(−λd) at most. By
    noisy maximum it needs a noise of d/2 on itself, or of −d/2 on the best one.
    """
    steps = float(_spread(problem, asked) / epsilon) * math.log(len(asked) * winners / FAILURE)
    return (2 * steps if rule == "noisy-max" else steps) / ERROR_STEPS
