"""What a budget buys where all of a release is Gaussian noise: more than its ρ.

Such acts are composed as one Gaussian (`privacy/composition/gaussian_noise.py`), and cost less ε than the ρ that they
sum to says. How much less depends on how fine the steps of the noise are, and so on the plan itself: a few budgets are
tried, from the exact one of continuous noise downward, until the plan keeps the promise. Either all acts are fixed
beforehand, or what they sum to and the narrowest noise among them are (`privacy/gaussian_filter.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from conspectus.privacy.accounting import declared_fit
from conspectus.privacy.composition import gaussian_share
from conspectus.privacy.events import Event
from conspectus.privacy.gaussian_filter import GaussianTerms

from .mechanism import Problem

LOSSES = tuple(Fraction(number) for number in ("1e-6", "1e-5", "1e-4", "3e-4", "1e-3", "3e-3", "1e-2", "3e-2", "6e-2"))
"""How much below the ρ of continuous Gaussian noise the budgets lie that are tried."""


def sharpened(problem: Problem, declare: Callable[[Problem], Sequence[Event] | None]) -> Problem:
    """The same problem with the largest of some budgets whose acts keep the promise of the budget as it is.

    A ledger adds up in ρ, and a budget of ρ is one: there nothing is gained, and the problem comes back as it was.

    Args:
        problem: The public facts.
        declare: The complete list of acts of a plan for a problem, None where it is not fixed beforehand.
    """
    for rho in _tried(problem):
        wider = dataclasses.replace(problem, rho=rho)
        acts = declare(wider)
        if acts is not None and declared_fit(acts, problem.budget, problem.neighbours):
            return wider
    return problem


def sharpened_terms(problem: Problem, least_square: Callable[[Fraction], Fraction]) -> GaussianTerms | None:
    """The terms with the largest of some ρ at which Gaussian acts that are chosen as one goes keep the budget.

    None where that is no more than the ρ of the budget, or where a ledger pays, which adds up in ρ.

    Args:
        problem: The public facts.
        least_square: The smallest σ² of the noise, in steps of the integers, of a release that may spend this ρ.
    """
    for rho in _tried(problem):
        terms = GaussianTerms(rho=rho, least_square=least_square(rho))
        if terms.epsilon(problem.budget.delta) <= (problem.budget.epsilon or 0.0):
            return terms
    return None


def _tried(problem: Problem) -> Iterator[Fraction]:
    """The budgets that are tried, the largest first: each is more than what the problem has."""
    budget = problem.budget
    if budget.epsilon is not None and budget.delta and not problem.ledgered:
        most = Fraction(gaussian_share(budget.epsilon, budget.delta))
        yield from (rho for rho in (most * (1 - loss) for loss in LOSSES) if rho > problem.cap)
