"""The rounds of boosting, Figure 6.1: draw questions, make a synopsis of them, move weight to what it gets wrong."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from conspectus.curator.curator import Curator
from conspectus.curator.scores import Reweighting
from conspectus.mechanisms.iterative import Candidates
from conspectus.mechanisms.mechanism import MAX_CELLS, Problem
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.median_ensemble import MedianEnsemble, weighted_median
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import Total, public_sampler

from .first_sample import first_sample, questions
from .generators import Generator, Vector
from .reweighting import DrawPlan
from .row_search import public_rows
from .theorem import TheoremParameters


@dataclass(frozen=True, kw_only=True)
class BoostingPlan:
    """One run laid out in advance: what can be drawn, how, and what each round's measurement may cost.

    `anchor` is the price of what the generator measures once, before its first sample; with a `history` it goes on
    from all that was measured, so that no round draws what an earlier one did.
    """

    candidates: Candidates
    first: int
    sampling: DrawPlan
    prices: tuple[Fraction, ...]
    generator: str
    anchor: Fraction = Fraction(0)
    history: bool = False
    promise: TheoremParameters | None = None

    @property
    def rounds(self) -> int:
        return len(self.prices)


def boost(
    curator: Curator,
    problem: Problem,
    course: BoostingPlan,
    generator: Generator,
    total: Total,
    *,
    public_seed: int | None = None,
) -> tuple[MedianEnsemble, Reweighting, Vector]:
    """Figure 6.1: draw, generate, re-weight; the ensemble, the final weights, and its answers to all candidates."""
    candidates, sampling = course.candidates, course.sampling
    asked = candidates.workload
    reweighting = Reweighting(asked, candidates.starts, sampling.near, sampling.gap)
    members: list[Histogram | Rows] = []
    told: list[Vector] = []
    # What was measured stays in a history, and is not drawn again as long as there is anything else.
    known = nothing = np.zeros(0, dtype=np.int64)
    for turn, price in enumerate(course.prices):
        curator.report_progress("rounds", turn, course.rounds)
        if turn:
            barred = None if course.promise else known
            drawn = curator.select(
                reweighting, sampling.ranges[turn - 1], draws=sampling.draws[turn - 1], barred=barred
            )
        elif course.promise is None:
            drawn = first_sample(candidates, course.first, public_seed=public_seed)
        else:
            drawn = public_sampler(public_seed).integers(0, len(candidates), course.first)
        known = np.union1d(known, drawn) if course.history else known
        if len(candidates) - len(known) < max(sampling.draws, default=0):
            known = nothing
        sample = questions(candidates, drawn)
        made = generator.generate(curator, sample, price=price, last=turn == course.rounds - 1)
        if made is None:
            # A generator that failed costs accuracy, never privacy: something public stands in for it.
            rows = course.generator == "rows" or not problem.counting or problem.cells > MAX_CELLS
            made = public_rows(asked.domain, total, public_sampler(public_seed)) if rows else _uniform(problem)
        member = made if isinstance(made, Rows) else Histogram(asked.domain, made, total, problem.held)
        members.append(member)
        told.append(member.answer(asked))
        reweighting = reweighting.joined(told[-1] * total.divisor, sampling.rates[turn])
    ensemble = MedianEnsemble(asked.domain, tuple(members), sampling.rates, asked, total)
    return ensemble, reweighting, weighted_median(np.stack(told), sampling.rates)


def _uniform(problem: Problem) -> Vector:
    return np.full(problem.cells, 1 / problem.cells)
