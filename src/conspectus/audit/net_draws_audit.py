"""Audits of draws from nets: a list of guesses, and small databases enumerated and counted along a tree."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.acts import Net
from conspectus.curator.curator import Curator
from conspectus.curator.laminar import LaminarDatabases
from conspectus.curator.nets import ListedNet, SmallDatabases
from conspectus.privacy.relation import Neighbours

from .doors import WIDTH, ForgottenFactor, Play, case, coins, one_falls, ones
from .plays import Experiment

FAR = 100.0
_AHEAD = 1000


class NetOfTheRows(Curator):
    """Broken on purpose: a net whose first member was made from the private rows."""

    def made(self, net: ListedNet) -> ListedNet:
        """The same net, but for its first guess, which is the truth."""
        guesses = net.guesses.copy()
        guesses[0] = self._truth(net.workload)
        return ListedNet(net.workload, guesses, net.masses, net.coarse)


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """Each way to draw from a net, on tables where one unit does the most it can."""
    # Member i is far off at question i alone. From the first table to the second one member's error changes one
    # way by a count, and those of all the others the other way.
    _, tables = one_falls(neighbours)
    signs = np.array([1.0 if neighbours is Neighbours.REPLACE else -1.0] + [1.0] * (WIDTH - 1))
    listed = ListedNet(ones(WIDTH), FAR * np.diag(signs), (1,) * WIDTH)
    yield case("net-listed", neighbours, tables, _choosing(listed), ForgottenFactor, effort=2)
    # Two guesses, below and above the truth; what is told is what the drawn one says.
    half = coins(neighbours, 8)
    public = ListedNet(ones(1), np.array([[4.0], [12.0]]), (1, 1))
    yield case("net-public", neighbours, half, _publishing(public), NetOfTheRows)
    # Databases of one row, which says yes or no: of sixteen rows eight do, so both are off by eight.
    given = (ones(1), np.array([[False], [True]]), (1, 1), 1, 16.0)
    nets: dict[str, Net] = {
        "net-enumerated": SmallDatabases(*given),
        "net-laminar": LaminarDatabases(*given, coarse=16),
    }
    for name, net in nets.items():
        yield case(name, neighbours, half, _choosing(net), ForgottenFactor)


def _publishing(net: ListedNet) -> Play:
    """What the drawn member says about the first question: a member is published whole, not by its number alone."""
    ready: dict[Curator, list[float]] = {}

    def play(curator: Curator) -> float:
        if not ready.get(curator):
            used = curator.made(net) if isinstance(curator, NetOfTheRows) else net
            drawn = curator.select(used, Fraction(1), draws=_AHEAD)
            ready[curator] = used.guesses[drawn[:, 0], 0].tolist()
        return ready[curator].pop()

    return play


def _choosing(net: Net) -> Play:
    """Whether the first member was drawn; draws are independent, and made ahead so that levels are counted once."""
    ready: dict[Curator, list[NDArray[np.int64]]] = {}

    def play(curator: Curator) -> float:
        if not ready.get(curator):
            ready[curator] = list(curator.select(net, Fraction(1), draws=_AHEAD))
        return float(ready[curator].pop()[0])

    return play
