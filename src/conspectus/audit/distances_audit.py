"""Audits of distances of tables to guesses: every table of a row moves, and under replace twice."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.curator.scores import Score, TableDistances
from conspectus.mechanisms.mechanism import root_up
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks.grouped_marginal import GroupedMarginal
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload

from .doors import GAUSSIAN, RHO, Play, case, coin_domain, one_moves
from .plays import Experiment

COINS = coin_domain(3)
TABLES = (
    Marginal(COINS, (0,)),
    Marginal(COINS, (0, 1)),
    Marginal(COINS, (0, 2)),
    GroupedMarginal(COINS, (0, 1, 2), (None, None, (0, 0))),
)


class OneTableAlone(Curator):
    """Broken on purpose: several distances charged as if a row moved one of them."""

    def measure(self, what: Workload | Score, law: Noise) -> NDArray[np.int64]:
        several = what.candidates if isinstance(what, TableDistances) else 1
        return super().measure(what, Noise(law.kind, law.scale / math.sqrt(several)))


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """Distances of four tables, all of which one row moves as far as any row can."""
    tables = one_moves(neighbours)
    yield case("distances", neighbours, tables, _measuring(neighbours), OneTableAlone, GAUSSIAN, effort=2)


def _measuring(neighbours: Neighbours) -> Play:
    """The sum of all distances: each is moved alike, so that nothing tells more."""
    workload = Workload(COINS, TABLES)
    # Half of the cells are guessed far too large and half too small: to go from one to the other counts twice.
    guess = np.concatenate([np.repeat([100.0, 0.0], len(table) // 2) for table in TABLES])
    score = TableDistances(workload, guess)
    moved = score.sensitivity(Relation(neighbours)).under(neighbours)
    assert moved is not None
    law = Noise("gaussian", root_up(moved * moved * score.candidates / (2 * RHO)))
    return lambda curator: float(curator.measure(score, law).sum())
