"""Marginals that are bought before the first question, so that few questions are a surprise.

Not in the book. A share of the budget buys all marginals of a low order at once, and the session starts from the
histogram that agrees with them.

Privacy: one measurement, with the joint sensitivity of all the marginals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

import numpy as np
import pyarrow as pa

from conspectus.curator.curator import Curator
from conspectus.data.domain import Domain
from conspectus.mechanisms.online_mechanism import BadState, SessionProblem, State
from conspectus.mechanisms.settings import SettingError
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.rules import possible
from conspectus.queries.workload import Workload
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import BadSynopsis, Total, part

from .widths import Primed

HIGHEST_ORDER = 3
MOST_MARGINALS, MOST_CELLS = 5_000, 1 << 20
NOISIEST = 0.02
"""Marginals of a higher order are bought while the noise of one count stays below this part of the rows."""


@dataclass(frozen=True, kw_only=True)
class Priming:
    """The marginals to buy, the noise on them, and their price."""

    workload: Workload
    law: Noise
    price: Fraction

    @property
    def order(self) -> int:
        """The number of columns of each marginal."""
        return len(self.workload.blocks[0].columns)

    def expected(self, rows: float) -> Primed:
        """What to expect of a guess that was fitted to them, on a table of so many rows."""
        return Primed.of(self.workload.domain, order=self.order, law=self.law, rows=rows)

    def buy(self, curator: Curator, total: Total) -> NoisyAnswers:
        """Measure all of them at once."""
        return self._answers(curator.measure(self.workload, self.law).astype(np.float64), total)

    def stored(self, state: State, total: Total) -> NoisyAnswers:
        """What was measured, as a stored state has it; `BadState` if it has something else."""
        try:
            counts = part(state[1], "primed", [("count", pa.float64())])["count"].to_numpy()
        except BadSynopsis as unreadable:
            raise BadState(f"the state of the session is not readable: {unreadable}") from unreadable
        if len(counts) != len(self.workload) or not possible(counts):
            raise BadState("the first measurements of the session's state are not those of this mechanism")
        return self._answers(counts, total)

    def _answers(self, counts: np.ndarray, total: Total) -> NoisyAnswers:
        return NoisyAnswers(self.workload.domain, self.workload, counts, (self.law,), total)


def plan_priming(problem: SessionProblem, price: Fraction, *, order: int | None, rows: float) -> Priming:
    """All marginals of this order for `price`; without an order, of the highest one that is not too noisy."""
    for tried in possible_orders(problem, order):
        found = priming_of(problem, price, tried)
        if order or found.law.scale <= NOISIEST * rows:
            break
    return found


def possible_orders(problem: SessionProblem, order: int | None) -> list[int]:
    """The orders whose marginals are not too many to begin with, the highest first; of these the one asked for."""
    domain = problem.workload.domain
    orders = [min(order, len(domain))] if order else range(min(HIGHEST_ORDER, len(domain)), 0, -1)
    found = [tried for tried in orders if tried == 1 or not _too_many(problem, tried)]
    if not found:
        raise SettingError(f"marginals of {order} columns are too many to begin with: choose a lower order")
    return found


def _too_many(problem: SessionProblem, order: int) -> bool:
    domain = problem.workload.domain
    if math.comb(len(domain), order) > MOST_MARGINALS:
        return True
    return sum(math.prod(domain.shape(held)) for held in combinations(range(len(domain)), order)) > MOST_CELLS


@lru_cache(maxsize=16)
def _marginals(domain: Domain, order: int) -> Workload:
    """All marginals of so many columns."""
    return Workload(domain, tuple(Marginal(domain, held) for held in combinations(range(len(domain)), order)))


def priming_of(problem: SessionProblem, price: Fraction, order: int) -> Priming:
    """All marginals of this order, for `price`."""
    workload = _marginals(problem.workload.domain, order)
    return Priming(workload=workload, law=problem.law(problem.sensitivity(workload), price), price=price)
