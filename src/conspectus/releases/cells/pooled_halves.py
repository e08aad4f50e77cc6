"""The rows that satisfy a condition and those that do not, as all measured marginals tell of them together.

Their best linear estimates are put together from interactions (`synopses/pooled_marginals.py`), whose noises are
uncorrelated. Both halves share the interaction of no columns, which is the number of rows: a weighted sum of them takes
the interactions of the condition as often as its weights differ, and the number of rows by what is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from conspectus.privacy.mixed_noise import mixed_margin
from conspectus.queries.query import Predicate
from conspectus.synopses.evidence import Measured
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.pooled_marginals import PooledSum

from .cell_estimates import CellCounts, Vector


@dataclass(frozen=True, eq=False, kw_only=True)
class PooledHalves(CellCounts):
    """Two cells: the rows inside, and the others.

    Attributes:
        inside: What all marginals say of the rows inside.
        spread: The variance of the number of all rows, as they tell it together.
    """

    inside: PooledSum
    spread: float

    @property
    def lawful(self) -> bool:
        """Whether noise of a known law tells how far the cells may be off: it does."""
        return True

    def margin(self, weights: Vector, failure: float) -> float:
        """How far a weighted sum of the halves is off at most, but for this probability."""
        often, rest = float(weights[0] - weights[1]), float(weights[1])
        parts = {chosen: often * part for chosen, part in self.inside.parts.items()}
        parts[()] = np.asarray(parts.get((), 0.0) + rest)
        return mixed_margin(self.inside.pool.noises(parts), 1 - failure)

    def deviation(self, weights: Vector) -> float:
        """The standard deviation of a weighted sum."""
        often, rest = float(weights[0] - weights[1]), float(weights[1])
        share = float(self.inside.parts.get((), np.zeros(())))
        apart = max(self.inside.variance - self.spread * share**2, 0.0)
        return math.sqrt(often**2 * apart + (often * share + rest) ** 2 * self.spread)


def pooled_halves(measured: Measured | None, query: Predicate) -> PooledHalves | None:
    """The halves of a condition; None where marginals do not tell of it, or the number of rows is public."""
    found = measured.pooled_sum(query) if isinstance(measured, NoisyAnswers) else None
    rows = None if found is None else found.pool.rows
    if found is None or rows is None:
        return None
    count, spread = rows
    halves = np.array([found.count, count - found.count])
    return PooledHalves(counts=halves, measured=halves, law=None, inside=found, spread=spread)
