"""The number of rows that fractions are of: public and free, or part of what is measured."""

from __future__ import annotations

from fractions import Fraction

from conspectus.curator.acts import measurement
from conspectus.curator.curator import Curator
from conspectus.privacy.events import Event, Noise, RowTotal
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.builders.conjunctions import always
from conspectus.queries.workload import Workload
from conspectus.synopses.synopsis import Total

from .mechanism import Problem

SHARE = Fraction(1, 50)
"""The share of the budget that buys the total where it is private and no measured marginal holds it."""


def take_total(curator: Curator, problem: Problem, law: Noise | None) -> Total:
    """The number of rows: as it is where no noise is planned for it, since it is public then; else with that noise."""
    if law is None:
        return Total(value=float(curator.rows()), exact=True)
    noisy = float(curator.measure(always(problem.workload.domain), law)[0])
    return Total(value=noisy, exact=False, kind=law.kind, scale=law.scale, terms=1)


def total_act(problem: Problem, law: Noise | None) -> Event:
    """The act of `take_total`, for mechanisms that declare their acts."""
    if law is None:
        return RowTotal()
    return measurement(always(problem.workload.domain), law, relation=problem.relation)


def with_total(problem: Problem) -> Workload:
    """The distinct questions of a workload, and the question "how many rows?" where nothing else would answer it."""
    asked = problem.workload.distinct()
    if problem.total_is_public or asked.denominator or any(isinstance(block, Marginal) for block in asked.blocks):
        return asked
    return asked + always(asked.domain)


def left_after_total(problem: Problem, *shares: float) -> Fraction:
    """What the total and these shares leave of the budget; a total that is public costs nothing, a bought one `SHARE`.

    Functions of the whole table are shares already: what one amounts to in counts is public.
    """
    free = problem.workload.denominator or problem.total_is_public
    return problem.cap * (1 - (0 if free else SHARE) - sum(map(Fraction, shares)))


def find_total(curator: Curator, problem: Problem) -> Total:
    """What a share of one amounts to: known, public, or bought for `SHARE` of the budget."""
    if problem.workload.denominator:
        return Total(value=float(problem.workload.denominator), exact=True)
    if problem.total_is_public:
        return take_total(curator, problem, None)
    law = problem.law(problem.sensitivity(always(problem.workload.domain)), problem.cap * SHARE)
    return take_total(curator, problem, law)
