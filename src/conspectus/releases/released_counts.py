"""Counts of a release for a SELECT: as `ask` finds them, and cells with the noise that they were measured with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from conspectus.data.schema import Schema
from conspectus.privacy.tails import variance_of
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.moments import Moment
from conspectus.queries.query import Predicate
from conspectus.queries.workload import Workload
from conspectus.synopses.evidence import Evidence
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import Synopsis, Total

from .cell_estimates import CellCounts, Interval
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
    """

    schema: Schema
    synopsis: Synopsis
    evidence: Evidence
    check_seen: Callable[[Workload], None]
    within: WithinBins | None = None

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

    def moment(self, moment: Moment, failure: float) -> None:
        """Nothing: moments follow from the cells."""

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
