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
from conspectus.data.domain import Domain
from conspectus.privacy.relation import Neighbours
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload

from .doors import Case, ForgottenFactor, Play

FAR = 100.0
WIDTH = 12
_AHEAD = 1000


class NetOfTheRows(Curator):
    """Broken on purpose: a net whose first member was made from the private rows."""

    def made(self, net: ListedNet) -> ListedNet:
        """The same net, but for its first guess, which is the truth."""
        guesses = net.guesses.copy()
        guesses[0] = self._truth(net.workload)
        return ListedNet(net.workload, guesses, net.masses, net.coarse)


def cases() -> Iterator[Case]:
    """Each way to draw from a net, under both relations, on tables where one unit does the most it can."""
    relations = tuple(Neighbours)
    for neighbours in relations:
        replaced = neighbours is Neighbours.REPLACE
        # Member i is far off at question i alone. From the first table to the second one member's error changes one
        # way by a count, and those of all the others the other way.
        signs = np.ones(WIDTH) if replaced else np.array([-1.0] + [1.0] * (WIDTH - 1))
        person = np.array([[1] + [0] * (WIDTH - 1)]) if replaced else np.ones((1, WIDTH), dtype=np.int64)
        other = 1 - person if replaced else np.zeros((0, WIDTH), dtype=np.int64)
        crowd = np.zeros((4, WIDTH), dtype=np.int64)
        yield Case(
            name="net-listed",
            neighbours=neighbours,
            tables=(np.concatenate([crowd, person]), np.concatenate([crowd, other])),
            play=_choosing(ListedNet(_ones(WIDTH), FAR * np.diag(signs), (1,) * WIDTH)),
            epsilon=1.0,
            delta=0.0,
            twin=ForgottenFactor,
            effort=2,
        )
        # Two guesses, below and above the truth; what is told is what the drawn one says.
        sixteen = np.repeat([[0], [1]], 8, axis=0)
        fewer = np.repeat([[0], [1]], [9, 7], axis=0) if replaced else sixteen[:-1]
        yield Case(
            name="net-public",
            neighbours=neighbours,
            tables=(sixteen, fewer),
            play=_publishing(ListedNet(_ones(1), np.array([[4.0], [12.0]]), (1, 1))),
            epsilon=1.0,
            delta=0.0,
            twin=NetOfTheRows,
        )
        # Databases of one row, which says yes or no: of sixteen rows eight do, so both are off by eight.
        half = np.repeat([[0], [1]], 8, axis=0)
        neighbour = np.repeat([[0], [1]], [9, 7], axis=0) if replaced else half[:-1]
        given = (_ones(1), np.array([[False], [True]]), (1, 1), 1, 16.0)
        nets: dict[str, Net] = {
            "net-enumerated": SmallDatabases(*given),
            "net-laminar": LaminarDatabases(*given, coarse=16),
        }
        for name, net in nets.items():
            yield Case(
                name=name,
                neighbours=neighbours,
                tables=(half, neighbour),
                play=_choosing(net),
                epsilon=1.0,
                delta=0.0,
                twin=ForgottenFactor,
            )


def _ones(width: int) -> Workload:
    """For each column the question "is it true?"."""
    domain = Domain(tuple(f"c{i}" for i in range(width)), (2,) * width)
    return Workload(domain, (Conjunctions.of(domain, [Predicate(((Literal(i, (1,)),),)) for i in range(width)]),))


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
