"""The number of rows that fractions are of: public and free, or part of what is measured."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

from conspectus.curator.acts import measurement
from conspectus.privacy.events import Event, Kind, Noise, RowTotal
from conspectus.privacy.prices import root_up, scale_up
from conspectus.queries.blocks.dyadic_tree import DyadicTree
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.builders.conjunctions import always
from conspectus.queries.workload import Workload
from conspectus.synopses.synopsis import Total

from .mechanism import Claim, Problem, expected_size
from .simulation.measured_through import Doors
from .sums_of_noise import half_width

SHARE = Fraction(1, 50)
"""The share of the budget that buys the total where it is private and no measured marginal holds it."""


def take_total(curator: Doors, problem: Problem, law: Noise | None) -> Total:
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
    held = any(isinstance(block, Marginal | DyadicTree) for block in asked.blocks)
    return asked if problem.total_is_public or asked.denominator or held else asked + always(asked.domain)


def left_after_total(problem: Problem, *shares: float) -> Fraction:
    """What the total and these shares leave of the budget; a total that is public costs nothing, a bought one `SHARE`.

    Functions of the whole table are shares already: what one amounts to in counts is public.
    """
    free = problem.workload.denominator or problem.total_is_public
    return problem.cap * (1 - (0 if free else SHARE) - sum(map(Fraction, shares)))


def find_total(curator: Doors, problem: Problem) -> Total:
    """What a share of one amounts to: known, public, or bought for `SHARE` of the budget."""
    if problem.workload.denominator:
        return Total(value=float(problem.workload.denominator), exact=True)
    return take_total(curator, problem, bought_total_law(problem))


def bought_total_law(problem: Problem) -> Noise | None:
    """The noise of the total that `find_total` buys; None where the total is known."""
    if problem.workload.denominator or problem.total_is_public:
        return None
    return problem.law(problem.sensitivity(always(problem.workload.domain)), problem.cap * SHARE)


def bought_from(problem: Problem, kind: Kind, whole: Fraction) -> tuple[Noise | None, Fraction]:
    """The noise of a total bought for `SHARE` of an ε or ρ, and what is left of that: all of it for a public total."""
    if problem.total_is_public:
        return None, whole
    m, price = problem.max_rows, whole * SHARE
    law = Noise(kind, scale_up(m / price) if kind == "laplace" else root_up(m * m / (2 * price)))
    return law, whole - price


def in_units(problem: Problem) -> bool:
    """Whether the total is private, and no answer a share of it: sums and means are in the units of their columns.

    Then the total is only told beside the answers, and a small part of the budget is enough for it.
    """
    linear = all(isinstance(block, LinearQueries) for block in problem.workload.blocks)
    return linear and not problem.total_is_public


def of_fractions(problem: Problem, claim: Claim) -> Claim:
    """A claim about counts, as one about fractions of a total that `find_total` buys.

    A fraction f of n rows is off by f times what the total is off. The largest fraction is taken to be a half, as wide
    questions have small ones and narrow ones come with their complement; the others are taken to be a quarter. The K
    cells of a marginal are made to add up to one, and are off by f − 1/K times as much: that is taken to be a quarter
    at most, and 1/2K on average. Sums and means are no fractions of the total.
    """
    law = bought_total_law(problem)
    if law is None:
        return claim
    size = 0.0 if in_units(problem) else expected_size(law)
    largest, usual = 1 / 2, (1 + 1 / max(len(problem.workload), 1)) / 4
    if all(isinstance(block, Marginal) for block in problem.workload.blocks):
        cells = [len(block) for block in problem.workload.blocks]
        largest, usual = (1 - 1 / min(cells)) / 4, len(cells) / sum(cells) / 2
    width = claim.expected_width
    wider = None if width is None else width + half_width(law) / 2
    return dataclasses.replace(
        claim,
        expected_max=math.hypot(claim.expected_max, largest * size),
        expected_mean=math.hypot(claim.expected_mean, usual * size),
        expected_width=wider,
    )
