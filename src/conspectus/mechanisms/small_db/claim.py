"""What to expect of SmallDB and of the net mechanism: a typical part of what is proved."""

from __future__ import annotations

import math

import numpy as np

from conspectus.data.domain import in_words
from conspectus.mechanisms.bounds import FAILURE
from conspectus.mechanisms.expectations import (
    SMALL_DB_BEST,
    SMALL_DB_BEST_ROUNDED,
    SMALL_DB_DRAWN,
    SMALL_DB_MAX_PER_MEAN,
)
from conspectus.mechanisms.mechanism import Claim

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


def small_db_claim(name: str, plan: SmallDbPlan) -> Claim:
    net = plan.net
    return Claim(
        mechanism=name,
        expected_max=plan.expected,
        expected_mean=plan.expected / SMALL_DB_MAX_PER_MEAN,
        bound=plan.bound,
        memory=net.signatures.truth.size * 8 + (1 << 26),
        citations=(SMALL_DB_BOOK, "Blum, Ligett & Roth 2008"),
        notes=(
            f"{net.size} rows, one of {in_words(net.mass)} databases over {in_words(sum(net.sizes))} records, "
            f"by {WAYS[plan.method]}",
        ),
    )


def net_claim(name: str, plan: NetPlan, *, alpha: float | None, rows: int) -> Claim:
    """`alpha` is the owner's word on how near a member is to any table.

    Without it half the width of the members' answers is taken, which is typical where the truth is among them.
    """
    near = float(np.ptp(plan.guesses, axis=0).max()) / 2 if alpha is None else alpha
    expected = near * rows + SMALL_DB_DRAWN * plan.worse
    return Claim(
        mechanism=name,
        expected_max=expected,
        expected_mean=expected / SMALL_DB_MAX_PER_MEAN,
        bound=plan.bound,
        memory=3 * 8 * plan.guesses.size,
        citations=(NET_BOOK,),
        notes=(
            f"one of {len(plan.net):,} public guesses, at most {plan.worse:,.1f} counts worse than the best of them "
            f"with probability {1 - FAILURE:g}",
        ),
    )
