"""Counts of a release for a SELECT: as `ask` finds them, and cells with the noise that they were measured with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from conspectus.data.schema import Schema
from conspectus.privacy.tails import variance_of
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.moments import Moment
from conspectus.queries.formulas import all_of, any_box, literal, predicate
from conspectus.queries.query import Predicate
from conspectus.queries.workload import Workload
from conspectus.synopses.evidence import Evidence
from conspectus.synopses.moment_estimates import MomentEstimate
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import Synopsis, Total

from .binned_cells import code_ends
from .cell_estimates import CellCounts, Interval
from .numbers_from_parts import moment_estimate, one_value_each
from .within_bins import WithinBins


@dataclass(frozen=True, eq=False)
class ReleasedCounts:
    """What answers counts from a release: everything is post-processing, and costs nothing.

    Attributes:
        schema: The schema of the table.
        synopsis: What answers.
        evidence: What is published beside it.
        check_seen: Refuses what the release never saw.
        within: What was bought about values inside bins.
        moments: The sums, means, variances and covariances that were released by themselves.
    """

    schema: Schema
    synopsis: Synopsis
    evidence: Evidence
    check_seen: Callable[[Workload], None]
    within: WithinBins | None = None
    moments: tuple[Moment, ...] = ()

    @property
    def total(self) -> Total:
        return self.synopsis.total

    def count(self, query: Predicate, failure: float) -> Interval:
        """How many rows satisfy a predicate."""
        domain = self.schema.domain
        asked = Workload(domain, (Conjunctions.of(domain, [query]),))
        self.check_seen(asked)
        found = self.synopsis.estimate(asked, 1 - failure, self.evidence)
        value = found.count if found.share is None else found.share * self.total.divisor
        if found.low is not None and found.high is not None:
            value = min(max(value, found.low), found.high)
        return Interval(value=value, low=found.low, high=found.high, basis=found.basis)

    def moment(self, moment: Moment, failure: float) -> MomentEstimate | None:
        """A moment that was released, of the same rows; None for any other, which follows from the cells.

        A released mean counts each bin as its middle: that of the values is off by half of the widest bin at most.
        """
        released = self._released.get(self._key(moment)) if self._released else None
        binned = released is not None and not one_value_each(self.schema, released)
        if released is None or (binned and (released.kind != "mean" or self.within is not None)):
            return None
        found = moment_estimate(self.synopsis, self.evidence, released, 1 - failure)
        if not binned or found.low is None or found.high is None:
            return found
        low, high = code_ends(self.schema.columns[released.numbers[0].column])
        half = float((high - low).max()) / 2
        return replace(found, low=found.low - half, high=found.high + half)

    @cached_property
    def _released(self) -> dict[object, Moment]:
        return {self._key(moment): moment for moment in self.moments}

    def _key(self, moment: Moment) -> object:
        """The same for all moments that mean the same: rows without a value are in none, whether or not it says so."""
        domain = self.schema.domain
        there = [literal(domain, axis.column, range(axis.values.size)) for axis in moment.numbers]
        rows = predicate(domain, all_of(domain, [any_box(domain, moment.given.boxes), *there]))
        return moment.kind, rows, moment.numbers

    def cells(self, columns: tuple[int, ...], needed: NDArray[np.bool_]) -> CellCounts:
        """The counts of all cells of some columns."""
        domain = self.schema.domain
        asked = Workload(domain, (Marginal(domain, columns),))
        self.check_seen(asked)
        measured = self.synopsis if isinstance(self.synopsis, NoisyAnswers) else self.evidence.measured
        noisy = summed_cells(measured, columns) if isinstance(measured, NoisyAnswers) else None
        if noisy is not None and isinstance(self.synopsis, NoisyAnswers):
            return noisy
        counts = self.synopsis.answer(asked) * self.total.divisor
        if noisy is not None:
            return replace(noisy, counts=counts)
        bound = self.evidence.bound
        additive = self.synopsis.additive
        if bound is None or self.evidence.margin(asked.query(0), 0.95, additive=additive) is None:
            return CellCounts(counts=counts, measured=counts, law=None, basis="unguaranteed")

        def reach(failure: float) -> float:
            # The bound holds for all released answers at once, and each cell is a sum of equally many of them.
            margin = self.evidence.margin(asked.query(0), 1 - failure, additive=additive)
            return math.inf if margin is None else margin

        return CellCounts(counts=counts, measured=counts, law=None, reach=reach, basis="guessed")


def summed_cells(noisy: NoisyAnswers, columns: tuple[int, ...]) -> CellCounts | None:
    """The cells of some columns as sums of those of one measured marginal, of the least noise; None where none covers.

    The sums have no noise in common.
    """
    best: tuple[float, CellCounts] | None = None
    wanted, domain, workload = set(columns), noisy.domain, noisy.workload
    seen = set()
    for number, block in enumerate(workload.blocks):
        if not isinstance(block, Marginal) or not wanted <= set(block.columns) or block in seen:
            continue
        seen.add(block)
        law, grid = noisy.noise[number], noisy.grids[number]
        copies = math.prod(domain.sizes[c] for c in block.columns if c not in wanted)
        variance = variance_of(law) * copies / grid**2
        if best is not None and variance >= best[0]:
            continue
        counts = noisy.counts[workload.offsets[number] : workload.offsets[number + 1]]
        table = counts.reshape(domain.shape(block.columns))
        outside = tuple(axis for axis, c in enumerate(block.columns) if c not in wanted)
        kept = [c for c in block.columns if c in wanted]
        flat = table.sum(axis=outside).transpose([kept.index(c) for c in columns]).ravel()
        best = variance, CellCounts(counts=flat, measured=flat, law=law, grid=grid, copies=copies)
    return None if best is None else best[1]
