"""A count that runs on: the rows of one step of time meet the coins of that step, and the noisy count so far comes out.

The book's Figure 12.2, the pan-private counter, for a vector of counts, in integers:

    Counter ~ noise(ξ)                                           `StreamCounter.begin`
    at each step t with rows x_t:                                 `StreamCounter.step`
      Counter ← Counter + x_t
      for every interval I that begins at t: η_I ~ noise(ξ)
      output Counter + Σ η_I over the intervals I that contain t
      erase η_I of every interval that ends at t

The intervals are those of a binary tree over 2^levels steps, without its root: one of each length 2^j, j < levels,
contains a step. A state is the Counter and the η_I of the intervals that go on: all that is kept between two steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from conspectus.data.sources import Table
from conspectus.privacy import noise
from conspectus.privacy.events import Noise
from conspectus.queries.proved_kinds import proved
from conspectus.queries.workload import Workload

from .truth import Truth

Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class CounterState:
    """What is kept between two steps: the noisy counter, and the noises of the intervals that go on, by their level."""

    counter: Counts
    noises: dict[int, Counts] = field(default_factory=dict)


class StreamCounter:
    """A pan-private counter of a workload over one tree of steps; see `stream_counter.proof.md`.

    Args:
        workload: What is counted: its values add up over rows.
        law: The noise of the counter, and of every interval.
        levels: The tree has 2^levels steps.
        sampler: Where the noise comes from.
    """

    def __init__(self, workload: Workload, law: Noise, levels: int, *, sampler: noise.Sampler | None = None) -> None:
        self._workload, self._law, self._levels = proved(workload), law, levels
        self._sampler = sampler or noise.SystemSampler()

    def begin(self) -> CounterState:
        """The state before the first step: a counter that is noise alone.

        Guarantee: as `step`.
        """
        return CounterState(counter=self._noise())

    def step(self, state: CounterState, place: int, table: Table) -> tuple[CounterState, Counts]:
        """Take in the rows of the step at this place of the tree; the next state, and the noisy counts so far.

        Guarantee: let one unit move the sums of all steps that it has rows in by at most Δ1 in L1 and Δ2 in L2, added
        up over its rows. Then all outputs together, and the state after any one step, are as private as counts that
        move by (1 + levels)·Δ1 and √(1 + levels)·Δ2, published with this noise: if the state before a step and its
        noises are used for that one step alone.
        """
        counter = state.counter + Truth(table, once=True).counts(self._workload)
        noises = dict(state.noises)
        for level in range(self._levels):
            if place % (1 << level) == 0:
                noises[level] = self._noise()
        shown = counter + sum(noises.values(), np.zeros_like(counter))
        going_on = {level: drawn for level, drawn in noises.items() if (place + 1) % (1 << level)}
        return CounterState(counter=counter, noises=going_on), shown

    def rows(self, table: Table) -> int:
        """How many rows a step has. For streams in which rows are replaced in their step: elsewhere it is private."""
        return Truth(table).rows()

    def _noise(self) -> Counts:
        nothing = np.zeros(len(self._workload), dtype=np.int64)
        draw = noise.discrete_laplace if self._law.kind == "laplace" else noise.discrete_gaussian
        return draw(nothing, self._law.scale, self._sampler)
