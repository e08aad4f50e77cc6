"""What boosting claims before anything is spent: what is typical of a practical plan, what Theorem 6.1 proves of its
own."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from conspectus.curator.scores import ERROR_STEPS
from conspectus.mechanisms.certificate import certified_width
from conspectus.mechanisms.iterative import left_out
from conspectus.mechanisms.mechanism import Claim, ErrorBound, Problem, expected_maximum, expected_size
from conspectus.mechanisms.total import of_fractions
from conspectus.mechanisms.typical.expectations import (
    BOOSTING_GAP,
    BOOSTING_LARGEST,
    BOOSTING_MEAN,
    BOOSTING_UNMEASURED,
    BOOSTING_UNMEASURED_MEAN,
)
from conspectus.mechanisms.typical.interactions import Interactions
from conspectus.mechanisms.typical.question_facts import dimensions, kept_noise, left_by_fit
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import deviation_of

from .parameters import OWN, BoostingPlan
from .reweighting import needed_edge
from .row_search import ROWS
from .theorem import CITES, EDGE, TheoremParameters


def practical_claim(name: str, problem: Problem, plan: BoostingPlan, *, ridge: float) -> Claim:
    """Typical errors: the edge of the generator is not promised, and the certificates say what became of it."""
    candidates, sampling = plan.candidates, plan.sampling
    law = problem.law(problem.sensitivity(candidates[0]), sum(plan.prices, Fraction(0)) / plan.sampled)
    mean, largest = _expected(problem, plan, law, ridge)
    edge = needed_edge(len(candidates), sampling.rates)
    claim = Claim(
        mechanism=name,
        expected_max=min(largest, float(problem.planned_denominator)),
        expected_mean=mean,
        bound=None,
        memory=_memory(problem, plan),
        citations=("Dwork, Rothblum & Vadhan 2010, Figure 1", "Dwork & Roth 2014, Lemmas 6.2 and 6.4"),
        notes=(
            f"{plan.rounds} rounds, {plan.first} questions in the first and {sum(sampling.draws)} drawn in "
            f"later ones; all answers are within {sampling.inaccurate:.4g} counts if every synopsis is right on "
            f"{0.5 + edge:.3f} of the weight, which is certified after the fact",
        ),
        expected_width=certified_width(problem, largest, plan.certificate),
    )
    return of_fractions(problem, claim)


def theorem_claim(name: str, problem: Problem, plan: BoostingPlan, found: TheoremParameters) -> Claim:
    """λ + μ on every question, by Theorem 6.1."""
    assert problem.denominator
    bound = ErrorBound(value=found.counts / problem.denominator, theorem=CITES[0])
    claim = Claim(
        mechanism=name,
        expected_max=found.counts,
        expected_mean=found.sampling.lam / ERROR_STEPS,
        bound=bound,
        memory=_memory(problem, plan),
        citations=CITES,
        notes=(
            f"{found.rounds} rounds of {found.draws:,} draws, edge {EDGE:.3f}, generator "
            f"{found.generator} over tables of {found.rows} rows",
        ),
        expected_width=certified_width(problem, found.counts, plan.certificate),
    )
    return of_fractions(problem, claim)


def _expected(problem: Problem, plan: BoostingPlan, law: Noise, ridge: float) -> tuple[float, float]:
    """Typical errors, mean and largest, in counts, where each sampled question is measured with this noise."""
    candidates, rows = plan.candidates, problem.planned_rows
    grid = candidates[0].grid
    interactions = Interactions.of(candidates.workload)
    if interactions is not None and plan.generator == "entropy" and plan.history:
        # The weighted median is about the synopsis in the middle of the weight, which has not seen the last draws.
        rates = np.cumsum(plan.sampling.rates)
        middle = int(np.searchsorted(rates, rates[-1] / 2))
        share = (plan.first + sum(plan.sampling.draws[:middle])) / len(candidates)
        errors = interactions.fitted(deviation_of(law) / rows, kind=law.kind, ridge=ridge, share=share)
        return errors.mean * rows, max(errors.largest * rows, left_by_fit(problem.cells))
    hidden = BOOSTING_UNMEASURED * left_out(problem, candidates, plan.first, gap=BOOSTING_GAP)
    if problem.workload.denominator:
        hidden *= problem.workload.denominator / rows
    # Questions that are more than the dimensions they span say the same several times.
    asked = len(candidates.workload)
    again = math.sqrt(min(1.0, dimensions(candidates.workload) / asked)) if problem.linear else 1.0
    noise = again * expected_maximum(law, plan.sampled * len(candidates[0])) / grid
    mean = kept_noise(BOOSTING_MEAN, asked) * again * expected_size(law) / grid
    return max(mean, BOOSTING_UNMEASURED_MEAN * hidden), max(kept_noise(BOOSTING_LARGEST, asked) * noise, hidden)


def _memory(problem: Problem, plan: BoostingPlan) -> int:
    answers = 64 * len(problem.workload) * plan.rounds
    if plan.generator in ("rows", OWN):
        return 8 * ROWS * len(problem.workload.domain) * plan.rounds + answers
    return 8 * (10 + plan.rounds) * problem.cells + answers
