"""Sums and means: linear queries on the neighbours that move them most, and two twins that make the usual mistakes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.curator.scores import Score
from conspectus.data.domain import Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks.moments import Moment, Moments, Numbers
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload

from .doors import Play, case
from .plays import Experiment


class RangeForgotten(Curator):
    """Broken on purpose: a sum charged as if its values reached half as far as they do."""

    def measure(self, what: Workload | Score, law: Noise) -> NDArray[np.int64]:
        return super().measure(what, Noise(law.kind, law.scale / 2))


class OneNoise(Curator):
    """Broken on purpose: a sum and a count of the same rows with one and the same noise, which their difference loses.

    To keep the view a number of the same kind, half of the noise is drawn anew.
    """

    def measure(self, what: Workload | Score, law: Noise) -> NDArray[np.int64]:
        true = self._truth(what)
        shared = super().measure(what, law) - true
        return np.asarray(true + shared[:1] + (shared - shared[:1]) // 8)


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """A sum over a group, and a mean by group, where one row moves from the lowest value to the highest."""
    replaced = neighbours is Neighbours.REPLACE
    crowd = np.repeat([[0, 1], [1, 0]], 4, axis=0)
    tables = np.concatenate([crowd, [[1, 1]]]), np.concatenate([crowd, np.array([[0, 1]])[: int(replaced)]])
    whole = Predicate(((Literal(1, (1,)),),))
    play = _measuring(neighbours, Moment("sum", whole, (Numbers(0, np.array([0.0, 1.0])),)))
    yield case("linear-sum", neighbours, tables, play, RangeForgotten)
    play = _measuring(neighbours, Moment("mean", whole, (Numbers(0, np.array([0.0, 1.0])),)))
    yield case("linear-mean", neighbours, tables, play, OneNoise)


def _measuring(neighbours: Neighbours, moment: Moment) -> Play:
    """The parts of a moment with the noise that their proved sensitivity asks for, as one number in counts."""
    domain = Domain(("c0", "c1"), (2, 2))
    question = Workload(domain, (Moments(domain, (moment,)),)).measured()
    law = Noise("laplace", float(question.sensitivity(Relation(neighbours)).l1))

    def play(curator: Curator) -> float:
        found = curator.measure(question, law) / question.grid
        return float(found[0]) if len(found) == 1 else float(found[0] - found[1])

    return play
