"""Choices of the largest counts, by each rule, and the winner's count: two mistakes of the book are the twins."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.acts import Net, Rule, spread_of
from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS, LargestCounts, Score
from conspectus.mechanisms.top import RULES
from conspectus.privacy.events import Noise
from conspectus.privacy.noise import discrete_laplace
from conspectus.privacy.relation import Neighbours
from conspectus.queries.workload import Workload

from .doors import WIDTH, ForgottenFactor, Play, Tables, case, ones
from .plays import Experiment

FEW = 8
"""Counts of which the largest is published: enough to sum up, few enough to be all below it now and then."""
NOBODY = np.zeros(0, dtype=np.int64)


class MonotoneDiscount(ForgottenFactor):
    """Broken on purpose: half the noise, as if counts that move apart were monotone (Claim 3.9 on replaced rows)."""


class FreeMaximum(Curator):
    """Broken on purpose: the winner's own noisy count is published at no further price, as Example 3.4 says."""

    def select(
        self,
        score: Score | Net,
        epsilon: Fraction,
        *,
        draws: int = 1,
        barred: NDArray[np.int64] | None = None,
        rule: Rule = "exponential",
    ) -> NDArray[np.int64]:
        spread = spread_of(score, self.relation).under(self.relation.neighbours)
        assert spread is not None
        assert isinstance(score, LargestCounts)
        # What the fresh count would have cost is spent on the choice: both together claim 2·epsilon.
        noisy = discrete_laplace(self._truth(score), float(spread / (2 * epsilon)), self._sampler)
        self._maximum = int(noisy.max())
        return np.array([noisy.argmax()])

    def measure(self, what: Workload | Score, law: Noise) -> NDArray[np.int64]:
        return np.array([self._maximum // ERROR_STEPS])


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """Every rule on equal counts that move apart as far as they can, and a winner's count where all counts move."""
    for rule in RULES:
        play = _choosing(LargestCounts(ones(WIDTH)), rule)
        yield case(f"top-{rule}", neighbours, _apart(neighbours), play, MonotoneDiscount)
    yield case("top-value", neighbours, _together(neighbours), _valued(ones(FEW)), FreeMaximum)


def _apart(neighbours: Neighbours) -> Tables:
    """All counts equal; and the first one lower by one, all others higher by one where a row is replaced."""
    first, others = np.zeros((1, WIDTH), dtype=np.int64), np.ones((1, WIDTH), dtype=np.int64)
    first[0, 0], others[0, 0] = 1, 0
    if neighbours is Neighbours.REPLACE:
        return np.concatenate([first, others, first]), np.concatenate([first, others, others])
    return np.concatenate([first, others]), np.concatenate([first, others, others])


def _together(neighbours: Neighbours) -> Tables:
    """No ones at all, and a row of ones."""
    nothing, row = np.zeros((3, FEW), dtype=np.int64), np.ones((1, FEW), dtype=np.int64)
    return nothing, np.concatenate([nothing[: 2 if neighbours is Neighbours.REPLACE else 3], row])


def _choosing(score: LargestCounts, rule: Rule) -> Play:
    return lambda curator: float(curator.select(score, Fraction(1), barred=NOBODY, rule=rule)[0] == 0)


def _valued(asked: Workload) -> Play:
    """The winner by half of the budget, and its count, measured afresh, by the other half."""

    single = list(asked)

    def play(curator: Curator) -> float:
        winner = curator.select(LargestCounts(asked), Fraction(1, 2), barred=NOBODY, rule="noisy-max")[0]
        return float(curator.measure(single[int(winner)], Noise("laplace", 2.0))[0])

    return play
