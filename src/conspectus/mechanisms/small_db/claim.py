"""What to expect of SmallDB and of the net mechanism: a typical part of what is proved."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from conspectus.data.domain import in_words
from conspectus.mechanisms.bounds import FAILURE
from conspectus.mechanisms.certificate import certified_width
from conspectus.mechanisms.mechanism import Claim, Problem
from conspectus.mechanisms.total import of_fractions
from conspectus.mechanisms.typical.expectations import (
    SMALL_DB_BEST,
    SMALL_DB_BEST_ROUNDED,
    SMALL_DB_DRAWN,
    SMALL_DB_MEAN_OF_MAX,
)
from conspectus.mechanisms.typical.question_facts import most_on_average, narrowness

from .plan import NetPlan, SmallDbPlan
from .small_databases import Method
from .theorem import NET_BOOK, SMALL_DB_BOOK, sampling_error

WAYS: dict[Method, str] = {
    "laminar": "counting along nested and disjoint questions",
    "enumeration": "enumeration",
    "vectors": "counting their answers",
}


def expected_error(queries: int, size: int, *, worse: float, rows: float) -> float:
    """The typical maximum error of SmallDB in counts: what the best database leaves, and a part of `worse`.

    The best of all databases is better than the sample of Lemma 4.3, and answers in multiples of 1/size.
    """
    rounded = SMALL_DB_BEST_ROUNDED * math.sqrt(math.log(2 * queries)) / size
    return min(SMALL_DB_BEST * sampling_error(queries, size), rounded) * rows + SMALL_DB_DRAWN * worse


def _on_average(problem: Problem, largest: float) -> float:
    """The mean error that goes with a largest one: databases of few rows are as wrong as samples are."""
    workload = problem.workload
    return min(most_on_average(workload) * problem.planned_rows, SMALL_DB_MEAN_OF_MAX * narrowness(workload) * largest)


def small_db_claim(name: str, problem: Problem, plan: SmallDbPlan, certificate: Fraction) -> Claim:
    net = plan.net
    claim = Claim(
        mechanism=name,
        expected_max=plan.expected,
        expected_mean=_on_average(problem, plan.expected),
        bound=plan.bound,
        memory=net.signatures.truth.size * 8 + (1 << 26),
        citations=(SMALL_DB_BOOK, "Blum, Ligett & Roth 2008"),
        notes=(
            f"{net.size} rows, one of {in_words(net.mass)} databases over {in_words(sum(net.sizes))} records, "
            f"by {WAYS[plan.method]}",
        ),
        expected_width=certified_width(problem, plan.expected, certificate),
    )
    return of_fractions(problem, claim)


def net_claim(
    name: str, problem: Problem, plan: NetPlan, certificate: Fraction, *, alpha: float | None, rows: int
) -> Claim:
    """`alpha` is the owner's word on how near a member is to any table.

    Without it half the width of the members' answers is taken, which is typical where the truth is among them.
    """
    near = float(np.ptp(plan.guesses, axis=0).max()) / 2 if alpha is None else alpha
    expected = near * rows + SMALL_DB_DRAWN * plan.worse
    claim = Claim(
        mechanism=name,
        expected_max=expected,
        expected_mean=_on_average(problem, expected),
        bound=plan.bound,
        memory=3 * 8 * plan.guesses.size,
        citations=(NET_BOOK,),
        notes=(
            f"one of {len(plan.net):,} public guesses, at most {plan.worse:,.1f} counts worse than the best of them "
            f"with probability {1 - FAILURE:g}",
        ),
        expected_width=certified_width(problem, expected, certificate),
    )
    return of_fractions(problem, claim)
