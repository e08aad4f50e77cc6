"""Buying a certificate: a private bound on the errors of a finished synopsis, for a declared share of the budget."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.acts import measurement
from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS, LOG_WEIGHT_STEPS, ROUNDED, LogPotential, Reweighting, worst_error
from conspectus.privacy.events import Event, Noise
from conspectus.privacy.tails import lower_quantile
from conspectus.synopses.synopsis import Total

from .bounds import FAILURE, Certificate, Potential
from .mechanism import Problem

_ROUNDING = 1e-9


def certify(
    curator: Curator, problem: Problem, *, answers: NDArray[np.float64], total: Total, price: Fraction
) -> Certificate:
    """Measure the maximum error of the answers: one number, which one unit moves as far as it moves any query.

    Args:
        curator: Who measures.
        problem: The public facts.
        answers: Those to the workload, as shares, between 0 and 1: of a histogram, of rows, or medians of these.
        total: What a share is of.
        price: What the measurement may cost, in the currency of the problem.

    Raises:
        ValueError: An answer lies outside 0 to 1.
    """
    if answers.size and not (answers.min() >= -_ROUNDING and answers.max() <= 1 + _ROUNDING):
        raise ValueError("a certificate is for answers between 0 and 1")
    law = problem.law_of_one(problem.error_sensitivity, price)
    noisy = curator.measure(worst_error(problem.workload, answers * total.divisor), law)
    slip = total.margin(1 - FAILURE / 2)
    found = Certificate(noisy_maximum=int(noisy[0]), law=law, total=total.divisor, slip=slip)
    return replace(found, holds=not found.vacuous)


def certify_workload(
    curator: Curator, problem: Problem, *, answers: NDArray[np.float64], total: Total, share: float
) -> Certificate | None:
    """The certificate of the answers to the whole workload, for this share of the budget; None where that is 0."""
    if not share:
        return None
    return certify(curator, problem, answers=answers, total=total, price=problem.cap * Fraction(share))


def certificate_acts(problem: Problem, share: float) -> tuple[Event, ...]:
    """The act of `certify_workload`, for mechanisms that declare their acts: its price does not depend on answers."""
    if not share:
        return ()
    law = problem.law_of_one(problem.error_sensitivity, problem.cap * Fraction(share))
    nothing = np.zeros(len(problem.workload))
    return (measurement(worst_error(problem.workload, nothing), law, relation=problem.relation),)


def potential_law(problem: Problem, reweighting: Reweighting, price: Fraction) -> Noise | None:
    """The noise on ln Z at this price; None where even perfect synopses would hardly prove anything through it.

    At best ln Z is ln|Q| − Σα, which is below 0. What the bound adds for the noise may be twice as large, not more.
    """
    moved = LogPotential(reweighting).sensitivity(problem.relation).under(problem.neighbours)
    assert moved is not None
    law = problem.law_of_one(int(moved), price)
    best = math.log(reweighting.candidates) - sum(reweighting.rates) / LOG_WEIGHT_STEPS
    return law if lower_quantile(law, FAILURE) <= -2 * best * LOG_WEIGHT_STEPS else None


def measure_potential(curator: Curator, reweighting: Reweighting, law: Noise) -> Potential:
    """Measure ln Z of a finished run of boosting."""
    noisy = int(curator.measure(LogPotential(reweighting), law)[0])
    inaccurate = (reweighting.lam + reweighting.mu + ROUNDED) / ERROR_STEPS
    return Potential(noisy=noisy, law=law, inaccurate=inaccurate)


def certified_width(problem: Problem, expected_max: float, price: Fraction) -> float | None:
    """About how far the ends of a 95 % interval lie from an answer that a certificate of this price bounds, in counts.

    A certificate is one bound for all answers: the largest error, and what the noise on it may be. None without one.
    """
    if not price:
        return None
    law = problem.law_of_one(problem.error_sensitivity, price)
    return expected_max + (lower_quantile(law, FAILURE) + ROUNDED) / ERROR_STEPS
