"""The k-fold composition experiment (Dwork, Rothblum and Vadhan 2010, Definition III.1), played against our theorems.

In round i an adversary names two neighbouring databases x⁰ᵢ, x¹ᵢ and a mechanism of a family, and sees what the
mechanism says about xᵇᵢ; b is the same in all rounds, and its next choice may depend on all that it saw. A theorem of
composition claims (ε, δ) for its whole view. Every adversary here ends with the likelihood ratio of its view, the best
statistic there is to tell b = 0 from b = 1 (Neyman and Pearson), and the bound on ε is taken from that. The twins are
accountants that count too little.

All plays of an experiment move in step: those that make the same choice in a round are drawn together, each with coins
of its own. Databases are columns of bits, the family is ε₀-differentially private, and all its coins are our samplers'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from conspectus.privacy import composition
from conspectus.privacy.accounting import BudgetExceeded, Filter, scale_up
from conspectus.privacy.events import ByRelation, Event, LaplaceNoise
from conspectus.privacy.exponential import draw
from conspectus.privacy.noise import SystemSampler, discrete_laplace
from conspectus.privacy.prices import cost_of
from conspectus.privacy.relation import Neighbours

from .plays import Experiment, Views

Bits = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RandomisedResponse:
    """Whether anyone in the database has the bit, told truthfully with odds e^ε to 1: the worst that ε allows."""

    epsilon: Fraction

    def say(self, database: Bits, times: int) -> Bits:
        scores = np.array([1, 0] if not database.any() else [0, 1], dtype=np.int64)
        return draw(scores, rate=self.epsilon, draws=times, sampler=SystemSampler())

    def log_chance(self, database: Bits, said: Bits) -> Floats:
        epsilon = float(self.epsilon)
        return np.where(said == int(database.any()), 0.0, -epsilon) - math.log1p(math.exp(-epsilon))


@dataclass(frozen=True)
class NoisyCount:
    """How many have the bit, with discrete Laplace noise: one person moves it by one."""

    epsilon: Fraction

    def say(self, database: Bits, times: int) -> Bits:
        return discrete_laplace(np.full(times, database.sum()), scale_up(1 / self.epsilon), SystemSampler())

    def log_chance(self, database: Bits, said: Bits) -> Floats:
        rate = 1 / scale_up(1 / self.epsilon)
        return np.asarray(-np.abs(said - database.sum()) * rate + math.log(math.tanh(rate / 2)))


@dataclass(frozen=True)
class Choice:
    """One of several by the exponential mechanism: a bit raises the score of the first and lowers all others."""

    epsilon: Fraction
    candidates: int = 5

    def _scores(self, database: Bits) -> Bits:
        signs = np.append(1, np.full(self.candidates - 1, -1))
        return np.asarray(signs * database.sum())

    def say(self, database: Bits, times: int) -> Bits:
        return draw(self._scores(database), rate=self.epsilon / 2, draws=times, sampler=SystemSampler())

    def log_chance(self, database: Bits, said: Bits) -> Floats:
        logs = self._scores(database) * float(self.epsilon / 2)
        return np.asarray(logs[said] - np.logaddexp.reduce(logs))


@dataclass(frozen=True)
class Move:
    """What an adversary names in a round: a mechanism and two neighbouring databases."""

    mechanism: RandomisedResponse | NoisyCount | Choice
    databases: tuple[Bits, Bits]

    def play(self, side: int, times: int) -> tuple[Bits, Floats]:
        """What was said on this side, and how much likelier that was on side 0 than on side 1, in logarithms."""
        said = self.mechanism.say(self.databases[side], times)
        return said, np.subtract(*(self.mechanism.log_chance(database, said) for database in self.databases))


def neighbouring(neighbours: Neighbours, crowd: int) -> tuple[Bits, Bits]:
    """A database with Bob, who alone has the bit, and one with someone else in his place, or without him."""
    others = np.zeros(crowd, dtype=np.int64)
    return np.append(others, 1), np.append(others, 0) if neighbours is Neighbours.REPLACE else others


@dataclass(frozen=True)
class Adversary:
    """Moves that it can make, and which it makes: a function of the round, of the loss so far and of the last words."""

    moves: tuple[Move, ...]
    choose: Callable[[int, Floats, Bits], Bits]


def steady(epsilon: Fraction, neighbours: Neighbours) -> Adversary:
    """Asks for randomised response in every round: no adversary does better against optimal composition."""
    move = Move(RandomisedResponse(epsilon), neighbouring(neighbours, 3))
    return Adversary((move,), lambda turn, losses, said: np.zeros(len(losses), dtype=np.int64))


def adaptive(epsilon: Fraction, neighbours: Neighbours) -> Adversary:
    """Chooses the mechanism by how the loss stands and the databases by what was said last, sides swapped now and then.

    While it is behind it takes what tells the most; when ahead, it plays where a little can be won again and again.
    """
    pairs = (neighbouring(neighbours, 3), neighbouring(neighbours, 0), neighbouring(neighbours, 40)[::-1])
    members = (RandomisedResponse(epsilon), NoisyCount(epsilon), Choice(epsilon))
    moves = tuple(Move(member, (pair[0], pair[1])) for member in members for pair in pairs)

    def choose(turn: int, losses: Floats, said: Bits) -> Bits:
        level = losses / float(epsilon)
        member = np.where(level < 0.5, 0, np.where(level < turn - 0.5, 1, 2 * (turn % 2)))
        return np.asarray(member * len(pairs) + np.abs(said + turn) % len(pairs))

    return Adversary(moves, choose)


def experiment(adversary: Adversary, side: int, *, rounds: int, plays: int) -> Floats:
    """The k-fold composition experiment on one side: the log-likelihood ratio of the view of every play."""
    losses, said = np.zeros(plays), np.zeros(plays, dtype=np.int64)
    for turn in range(rounds):
        chosen = adversary.choose(turn, losses, said)
        for number in np.unique(chosen):
            these = np.flatnonzero(chosen == number)
            said[these], gained = adversary.moves[number].play(side, len(these))
            losses[these] += gained
    return losses


def filtered(
    gate: type[Filter], cap: Fraction, stake: Fraction, neighbours: Neighbours, side: int, plays: int
) -> Floats:
    """The experiment where the adversary names each ε as well and a filter stops it: it bets on, and after a loss half.

    Plays with the same view have made the same choices and stay together. A bet is a pure act of its ε, whatever makes
    it; after the fourth loss it gives up.
    """
    pair = neighbouring(neighbours, 3)
    one = ByRelation(replace=Fraction(1), add_remove=Fraction(1))
    losses = np.zeros(plays)
    waiting: list[tuple[Bits, tuple[Fraction, ...]]] = [(np.arange(plays, dtype=np.int64), (stake,))]
    while waiting:
        together, bets = waiting.pop()
        allowance = gate("pure", cap, neighbours)
        try:
            for bet in bets:
                allowance.admit(LaplaceNoise(scale=1 / bet, l1=one, l2_squared=one, linf=one))
        except BudgetExceeded:
            continue
        _, gained = Move(RandomisedResponse(bets[-1]), pair).play(side, len(together))
        losses[together] += gained
        waiting.append((together[gained > 0], (*bets, bets[-1])))
        if 8 * bets[-1] > stake:
            waiting.append((together[gained <= 0], (*bets, bets[-1] / 2)))
    return losses


class LateFilter(Filter):
    """Broken on purpose: a filter that compares with its cap what was spent before the act, not with it."""

    def admit(self, event: Event) -> None:
        if self.remaining < 0:
            raise BudgetExceeded("nothing is left")
        self._spent += cost_of(event, self.currency, self.neighbours)


FORGETFUL = "an accountant that forgets a round"


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """Basic, advanced and optimal composition and the filter, each with the adversary that it has to fear."""
    share, rounds = Fraction(1, 2), 4
    yield Experiment(
        name="composition-basic",
        neighbours=neighbours,
        views=_views(steady(share, neighbours), rounds),
        claim=composition.basic([(float(share), 0.0)] * rounds),
        twin=FORGETFUL,
        twin_claim=composition.basic([(float(share), 0.0)] * (rounds - 1)),
        effort=20,
    )
    honest, late = (partial(filtered, gate, rounds * share, share, neighbours) for gate in (Filter, LateFilter))
    yield Experiment(
        name="composition-filter",
        neighbours=neighbours,
        views=honest,
        claim=(float(rounds * share), 0.0),
        twin=LateFilter,
        twin_views=late,
        effort=20,
    )
    share, rounds, slack = Fraction(1, 10), 8, 0.4
    bound = composition.advanced(float(share), rounds, slack)
    yield Experiment(
        name="composition-advanced",
        neighbours=neighbours,
        views=_views(steady(share, neighbours), rounds),
        claim=(bound, slack),
        twin="advanced composition that claims its ε without its δ′",
        twin_claim=(bound, 0.0),
        effort=50,
    )
    share, rounds, slack = Fraction(2, 5), 6, 0.05
    optimal, less = (composition.optimal_epsilon(k, float(share), slack) for k in (rounds, rounds - 1))
    for name, attack in (("composition-optimal", steady), ("composition-adaptive", adaptive)):
        yield Experiment(
            name=name,
            neighbours=neighbours,
            views=_views(attack(share, neighbours), rounds),
            claim=(optimal, slack),
            twin=FORGETFUL,
            twin_claim=(less, slack),
            effort=20,
        )


def _views(adversary: Adversary, rounds: int) -> Views:
    return lambda side, plays: experiment(adversary, side, rounds=rounds, plays=plays)
