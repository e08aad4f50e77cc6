"""MWEM: multiplicative weights with the exponential mechanism, on whole marginals and with a memory.

Hardt, Ligett and McSherry 2012, as the book's Algorithm 8 without its stopping rule:

    A_0 = uniform over X
    for t = 1 … T:
      1. q_t = the question that A_{t−1} gets most wrong, by the exponential mechanism
      2. m_t = q_t(x) + noise
      3. A_t = A_{t−1}, multiplied by exp(q_t·(m_t − q_t(A_{t−1}))/2n) and normalised
    output A_T, or the mean of all A_t

A question is a marginal, selected by its worst cell and measured as one vector, or a single count. Step 3 is a refit
to everything measured so far, whose weights have the same shape, exp(Σ θ). Steps 1 and 2 are `iterative.steps`, with
`LoopPlan` for T and the prices; step 3 is `iterative.Refit`.

Privacy: composes one selection and one measurement a round, the row total, and the certificate.
Accuracy: no theorem covers the refit, so the maximum error is measured privately and certified (`certificate`).
Some of the measurements are published as they are, and give intervals by the law of their noise (`first_measured`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from conspectus.curator.curator import Curator
from conspectus.privacy.tails import deviation_of
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import Total
from conspectus.whole_numbers import MOST_TURNS

from .certificate import certified_width
from .histograms import outcome
from .iterative import Candidates, LoopPlan, Refit, Step, check_rounds, left_out, steps
from .mechanism import (
    Claim,
    Mechanism,
    Outcome,
    Problem,
    expected_maximum,
    expected_size,
    in_counts,
    no_histogram,
    refuse_for,
)
from .settings import check_settings
from .total import find_total, left_after_total, of_fractions
from .typical.expectations import MWEM_GAP, MWEM_LARGEST, MWEM_MEAN, MWEM_UNMEASURED_MEAN
from .typical.interactions import Interactions
from .typical.question_facts import kept_noise, left_by_fit

RIDGE = 0.1
"""Few marginals are measured, each well: a lighter ridge than for noise on everything (measured on NLTCS)."""

REFITS = 3
"""How often the last fit may be solved again where the ridge hid what was measured, as `projection` does it."""


@dataclass(frozen=True, kw_only=True)
class Mwem(Mechanism[LoopPlan]):
    """Multiplicative weights with the exponential mechanism: measure only what the guess so far gets most wrong.

    Choose it where the table has structure in few places and the questions are many: it looks for what is wrong, and
    leaves out what is right already. It keeps one weight for each cell of the columns asked about. For all marginals
    of a few columns `projection`, which measures everything, is usually as good or better.

    Args:
        rounds: How many questions are found and measured; by default four for each column, and 10 at least.
        selection: The share of a round that finding costs; measuring costs the rest.
        certificate: The share of the budget that buys a bound on the largest error; 0 for none.
        evaluations: How long each refit may take, in evaluations of its objective.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> columns = {"smoker": {"type": "boolean"}, "ill": {"type": "boolean"}}
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": columns})
        >>> data = pa.table({"smoker": [True, False] * 500, "ill": [True, False, False, False, False] * 200})
        >>> table = cs.open_table(data, schema)
        >>> workload = cs.marginals(schema, 1) + cs.marginals(schema, 2)
        >>> release = cs.release(table, workload, epsilon=50, delta=1e-6, mechanism="mwem", rounds=3)
        >>> release.parameters["rounds"], round(release.ask("smoker AND NOT ill").fraction, 1)
        (3, 0.4)
    """

    rounds: int | None = None
    selection: float = 0.15
    certificate: float = 0.03
    evaluations: int = 15

    name: ClassVar[str] = "mwem"

    def __post_init__(self) -> None:
        check_rounds(self.rounds, selection=self.selection, certificate=self.certificate)
        check_settings(
            (
                1 <= self.evaluations <= MOST_TURNS,
                f"evaluations, how long each refit may take, lie between 1 and {MOST_TURNS:,}",
            )
        )

    def plan(self, problem: Problem) -> LoopPlan:
        refuse_for(no_histogram(problem))
        candidates = Candidates.of(problem.workload.distinct())
        # Four a column by default: more hardly help and fewer leave columns out, at any budget (measured).
        rounds = self.rounds or min(len(candidates), max(4 * len(candidates.workload.columns), 10))
        price = left_after_total(problem, self.certificate)
        return LoopPlan.of(candidates, rounds, price=price, selection=Fraction(self.selection))

    def claim(self, problem: Problem, plan: LoopPlan) -> Claim:
        mean, largest = _expected(problem, plan)
        claim = Claim(
            mechanism=self.name,
            expected_max=largest,
            expected_mean=mean,
            bound=None,
            memory=8 * 6 * problem.cells + 64 * len(problem.workload),
            citations=("Hardt, Ligett & McSherry 2012", "Dwork & Roth 2014, Algorithm 8"),
            notes=(f"{plan.rounds} rounds; the error depends on the table and is certified after the fact",),
            expected_width=certified_width(problem, largest, problem.cap * Fraction(self.certificate)),
        )
        return of_fractions(problem, claim)

    def release(self, curator: Curator, problem: Problem, plan: LoopPlan) -> Outcome:
        asked = plan.candidates.workload
        curator.count_ahead(asked)
        total = find_total(curator, problem)
        rule = Refit(asked.domain, problem.held, evaluations=self.evaluations, ridge=RIDGE)
        told: list[Step] = []
        for step in steps(curator, problem, plan, rule, total.divisor):
            rule.update(step, total.divisor)
            told.append(step)
        heavy_tails = any(step.law.kind == "laplace" for step in told)
        rule.solve(total.divisor, 30 * self.evaluations, refits=REFITS, heavy_tails=heavy_tails)
        parameters = {
            "rounds": plan.rounds,
            "selection": self.selection,
            "certificate": self.certificate,
            "evaluations": self.evaluations,
        }
        return outcome(
            curator,
            problem,
            weights=rule.weights,
            total=total,
            certificate=self.certificate,
            parameters=parameters,
            measured=first_measured(told, total),
        )


def first_measured(told: Sequence[Step], total: Total) -> NoisyAnswers | None:
    """Marginals as they were measured, of every column the first one, where intervals come from; None without any.

    Later choices depend on earlier noise. So a marginal is kept only if it has no column in common with those that were
    kept before: then what answers a question is settled before its noise is drawn, and the interval holds with its
    confidence whatever was chosen besides.
    """
    seen: set[int] = set()
    kept = []
    for step in told:
        block = step.question.blocks[0]
        if isinstance(block, Marginal) and step.question.grid == 1 and not seen.intersection(block.columns):
            seen.update(block.columns)
            kept.append(step)
    if not kept:
        return None
    domain = kept[0].question.domain
    asked = Workload(domain, tuple(step.question.blocks[0] for step in kept))
    counts = np.concatenate([step.noisy for step in kept])
    return NoisyAnswers(domain, asked, counts, tuple(step.law for step in kept), total, pooled=False)


def _expected(problem: Problem, plan: LoopPlan) -> tuple[float, float]:
    """Typical errors, mean and largest, in counts."""
    candidates, rounds, rows = plan.candidates, plan.rounds, problem.planned_rows
    law = in_counts(problem.law(problem.sensitivity(candidates[0]), plan.measure), candidates[0].grid)
    interactions = Interactions.of(candidates.workload)
    if interactions is not None:
        noise, share = deviation_of(law) / rows, rounds / len(candidates)
        found = interactions.fitted(noise, kind=law.kind, ridge=RIDGE, share=share, chosen=True)
        blind = interactions.fitted(noise, kind=law.kind, ridge=RIDGE, share=share)
        # Among errors below the selection's own, about ln|candidates|/ε of Theorem 3.11, it chooses blindly.
        seen = math.log(len(candidates)) * problem.max_rows / float(problem.selection(plan.select)) / rows
        largest = max(found.largest, min(blind.largest, seen)) * rows
        return found.mean * rows, max(largest, left_by_fit(problem.cells))
    # Of marginals, what is not measured is about as wrong as what is; of single questions, which tell little of one
    # another, it has the theorems' shape.
    hidden = left_out(problem, candidates, rounds, gap=MWEM_GAP)
    asked = len(candidates.workload)
    largest = max(kept_noise(MWEM_LARGEST, asked) * expected_maximum(law, asked), hidden)
    return max(kept_noise(MWEM_MEAN, asked) * expected_size(law), MWEM_UNMEASURED_MEAN * hidden), largest
