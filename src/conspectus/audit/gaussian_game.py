"""The composition experiment behind a filter of Gaussian noise: how precise the next act is follows from what was seen.

An adversary that is ahead asks more precisely, one that is behind less so, until the filter stops it; then it tries an
act that is far too precise. As in `composition_game` it ends with the likelihood ratio of its view, and the bound on ε
is taken from that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.events import ByRelation, Event, GaussianNoise
from conspectus.privacy.gaussian_filter import GaussianFilter, GaussianTerms
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.noise import SystemSampler, discrete_gaussian
from conspectus.privacy.prices import price_rho
from conspectus.privacy.relation import Neighbours

from .composition_game import Bits, Floats, neighbouring
from .plays import Experiment

DELTA = 0.05
TERMS = GaussianTerms(rho=Fraction(1, 2), least_square=Fraction(8))


@dataclass(frozen=True)
class NoisyCopies:
    """The number of those with the bit, so many times, each with its own discrete Gaussian noise."""

    copies: int
    square: int

    def act(self) -> GaussianNoise:
        moved = ByRelation(replace=Fraction(self.copies), add_remove=Fraction(self.copies))
        return GaussianNoise(l2_squared=moved, sigma_squared=Fraction(self.square))

    def loss(self, databases: tuple[Bits, Bits], side: int, times: int) -> Floats:
        """What was seen, as how much likelier it was on side 0 than on side 1, in logarithms."""
        here, there = (int(database.sum()) for database in databases)
        exact = np.full(times * self.copies, (here, there)[side], dtype=np.int64)
        said = discrete_gaussian(exact, float(np.sqrt(self.square)), SystemSampler()).reshape(times, self.copies)
        # Both laws have the same normalising sum: their noise differs by a whole number.
        return np.asarray((((said - there) ** 2 - (said - here) ** 2) / (2 * self.square)).sum(axis=1))


BEHIND, AHEAD, TOO_MUCH = NoisyCopies(1, 8), NoisyCopies(2, 8), NoisyCopies(12, 8)


def filtered_noise(gate: type[GaussianFilter], neighbours: Neighbours, side: int, plays: int) -> Floats:
    """The log-likelihood ratio of the view of every play; plays that have spent as much move together."""
    databases = neighbouring(neighbours, 3)
    losses = np.zeros(plays)
    budget = Budget(epsilon=TERMS.epsilon(DELTA), delta=DELTA)
    waiting: dict[Fraction, tuple[tuple[NoisyCopies, ...], Bits]] = {
        Fraction(0): ((), np.arange(plays, dtype=np.int64))
    }
    while waiting:
        spent = min(waiting)
        made, together = waiting.pop(spent)
        leads = losses[together] > 0
        for usual, these in ((BEHIND, together[~leads]), (AHEAD, together[leads])):
            allowance = gate(TERMS, budget, neighbours)
            for earlier in made:
                allowance.admit(earlier.act())
            tried = (TOO_MUCH, usual, BEHIND) if spent >= TERMS.rho * Fraction(3, 4) else (usual,)
            move = next((one for one in tried if allowance.admits(one.act())), None)
            if move is None or not len(these):
                continue
            losses[these] += move.loss(databases, side, len(these))
            allowance.admit(move.act())
            path, others = waiting.get(allowance.spent, ((*made, move), these[:0]))
            waiting[allowance.spent] = (path, np.concatenate([others, these]))
    return losses


class LateGaussianFilter(GaussianFilter):
    """Broken on purpose: a filter of Gaussian noise that compares with its cap what was spent before the act."""

    def admits(self, event: Event) -> bool:
        return self.spent < TERMS.rho

    def admit(self, event: Event) -> None:
        if not self.admits(event):
            raise BudgetExceeded("nothing is left")
        self._spent += price_rho(event, self.neighbours)


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """The filter, against one that is late."""
    honest, late = (partial(filtered_noise, gate, neighbours) for gate in (GaussianFilter, LateGaussianFilter))
    yield Experiment(
        name="gaussian-filter",
        neighbours=neighbours,
        views=honest,
        claim=(TERMS.epsilon(DELTA), DELTA),
        twin=LateGaussianFilter,
        twin_views=late,
    )
