"""Sums, means and values inside bins on the neighbours that move them most, and twins that make the usual mistakes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.curator.scores import Score
from conspectus.data.domain import Domain
from conspectus.data.schema import Schema
from conspectus.data.sources import Table, open_table
from conspectus.privacy.events import Noise
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.moments import Moment, Moments, Numbers
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload
from conspectus.releases.within_bins import InsidePlan

from .doors import HalfTheNoise, Play, case
from .plays import Experiment


class RangeForgotten(HalfTheNoise):
    """Broken on purpose: a sum charged as if its values reached half as far as they do."""


class OneNoise(Curator):
    """Broken on purpose: a sum and a count of the same rows with one and the same noise, which their difference loses.

    To keep the view a number of the same kind, half of the noise is drawn anew.
    """

    def measure(self, what: Workload | Score, law: Noise) -> NDArray[np.int64]:
        true = self._truth(what)
        shared = super().measure(what, law) - true
        return np.asarray(true + shared[:1] + (shared - shared[:1]) // 8)


class BinLeftForgotten(HalfTheNoise):
    """Broken on purpose: values inside bins with the noise of a mean alone, as if a row could not change its bin."""


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """A sum over a group, a mean by group, and values inside bins, where one row moves from one end to the other."""
    replaced = neighbours is Neighbours.REPLACE
    crowd = np.repeat([[0, 1], [1, 0]], 4, axis=0)
    tables = np.concatenate([crowd, [[1, 1]]]), np.concatenate([crowd, np.array([[0, 1]])[: int(replaced)]])
    whole = Predicate(((Literal(1, (1,)),),))
    play = _measuring(neighbours, Moment("sum", whole, (Numbers(0, np.array([0.0, 1.0])),)))
    yield case("linear-sum", neighbours, tables, play, RangeForgotten)
    play = _measuring(neighbours, Moment("mean", whole, (Numbers(0, np.array([0.0, 1.0])),)))
    yield case("linear-mean", neighbours, tables, play, OneNoise)
    yield _inside(neighbours)


def _inside(neighbours: Neighbours) -> Experiment:
    """Two bins of two values: one row leaves the low end of the first, and enters the high end of the second."""
    declared = {"value": {"type": "integer", "min": 0, "max": 3, "width": 2}}
    schema = Schema.from_dict({"name": "audit", "neighbours": str(neighbours), "columns": declared})
    workload = Workload(schema.domain, (Marginal(schema.domain, (0,)),))
    plan, _ = InsidePlan.of(schema, workload, Relation(neighbours), budget=Budget(epsilon=2.0), share=0.5)
    crowd = np.repeat([[0], [1], [2], [3]], 2, axis=0)
    moved = np.array([[3]])[: int(neighbours is Neighbours.REPLACE)]

    def play(curator: Curator) -> float:
        high, _, low = plan.bought(schema, curator).sums[0]
        return float(high[1] - low[0])

    def opened(rows: NDArray[np.int64]) -> Table:
        return open_table(pa.table({"value": rows[:, 0]}), schema).recoded(plan.schema)

    tables = np.concatenate([crowd, [[0]]]), np.concatenate([crowd, moved])
    return case("inside-bins", neighbours, tables, play, BinLeftForgotten, opened=opened)


def _measuring(neighbours: Neighbours, moment: Moment) -> Play:
    """The parts of a moment with the noise that their proved sensitivity asks for, as one number in counts."""
    domain = Domain(("c0", "c1"), (2, 2))
    question = Workload(domain, (Moments(domain, (moment,)),)).measured()
    law = Noise("laplace", float(question.sensitivity(Relation(neighbours)).l1))

    def play(curator: Curator) -> float:
        found = curator.measure(question, law) / question.grid
        return float(found[0]) if len(found) == 1 else float(found[0] - found[1])

    return play
