"""What public facts decide of a stream: what is measured, its trees and its noise, and the one act that is debited."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.schema import Schema
from conspectus.mechanisms.mechanism import Problem
from conspectus.mechanisms.total import with_total
from conspectus.privacy.accounting import Filter
from conspectus.privacy.events import ByRelation, Event, GaussianNoise, LaplaceNoise, Noise
from conspectus.privacy.guarantee import Budget, large_epsilon
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.block import Block
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.proved_kinds import proved
from conspectus.queries.query import Predicate
from conspectus.queries.sensitivity import CountingBlock
from conspectus.queries.workload import Workload
from conspectus.synopses.synopsis import Total
from conspectus.whole_numbers import MOST, whole

from .horizon import MOST_LEVELS, Horizon
from .stream_file import StreamError


class StreamPlan:
    """What public facts decide of a stream: what is measured, its trees and noise, and the one act."""

    def __init__(self, schema: Schema, workload: Workload, terms: dict[str, Any], budget: Budget) -> None:
        steps, events = terms["horizon"], terms["events"]
        longest = 1 << MOST_LEVELS
        if steps is not None and not whole(steps, most=longest):
            raise StreamError(f"the horizon is a number of steps from 1 to {longest:,}, or None where it is not known")
        if not whole(events):
            raise StreamError(f"events, how many one person has at most, is a number from 1 to {MOST:,}")
        if proved(workload).domain != schema.domain or not len(workload):
            raise StreamError("a stream counts at least one question, built from its schema")
        if not all(isinstance(block, CountingBlock | SparseQueries) for block in workload.blocks):
            raise StreamError("a stream counts rows: functions of a whole table do not add up over time")
        if not schema.unit.one_row_per_unit:
            raise StreamError("the rows of a stream are its events: leave the unit out, and say events= for persons")
        relation = Relation(Neighbours.of(terms["neighbours"]), events, events == 1)
        self.schema, self.workload, self.events = schema, workload, events
        self.problem = Problem(workload=workload, budget=budget, relation=relation)
        self.measured = with_total(self.problem)
        moved = {each: self.measured.sensitivity(relation.under(each)) for each in Neighbours}
        self.horizon = Horizon(problem=self.problem, moved=moved[relation.neighbours], steps=steps)
        self.spending = Filter.of(budget, relation.neighbours)
        self._moved = moved
        self.act = self.act_at(0)

    def act_at(self, step: int) -> Event:
        """The act of the tree that a step is in: none costs more than the first, and an event is in one of them."""
        moved, tree = self._moved, self.horizon.tree_at(step)
        times, scale = 1 + tree.levels, Fraction(tree.law.scale)

        def both(norm: str) -> ByRelation:
            sizes = {each: Fraction(getattr(found, norm)) for each, found in moved.items()}
            return ByRelation(replace=sizes[Neighbours.REPLACE], add_remove=sizes[Neighbours.ADD_REMOVE])

        l1, squares = both("l1").mapped(lambda n: times * n), both("l2_squared").mapped(lambda n: times * n)
        if tree.law.kind == "laplace":
            return LaplaceNoise(l1=l1, l2_squared=squares, linf=both("linf"), scale=scale)
        return GaussianNoise(l2_squared=squares, sigma_squared=scale * scale)

    @property
    def said(self) -> tuple[str, ...]:
        """What a reader of the guarantee must know."""
        several = f"it holds for all events of one person together, where these are at most {self.events:,}"
        return (*large_epsilon(self.problem.budget), *([several] if self.events > 1 else []))

    def noisy_total(self, counts: NDArray[np.int64], law: Noise, terms: int) -> Total:
        """The number of events: a question that was counted beside the others, or the sum of a marginal's cells.

        Args:
            counts: The noisy counts of some steps, in steps of the grid.
            law: The law of each noise in one of them.
            terms: How many noises one of them has.
        """
        measured = self.measured
        places = zip(measured.blocks, measured.offsets, measured.offsets[1:])
        draws, start, end = min((end - start, start, end) for block, start, end in places if _counts_all(block))
        value = float(counts[start:end].sum()) / measured.grid
        return Total(
            value=value, exact=False, kind=law.kind, scale=law.scale, terms=terms * draws, averaged=measured.grid
        )


def _counts_all(block: Block) -> bool:
    """Whether the counts of a block add up to the number of all events."""
    return isinstance(block, Marginal) or (len(block) == 1 and block.query(0) == Predicate(((),)))
