"""Running counts: two streams that differ in one event, or in the events of one person, with the file seen once.

A stream of two steps has one interval for each, and a counter. Whoever sees the file after the second step knows the
counter, and by the outputs the noise of the first interval: an event in the second step moves both. Many plays are made
at once: a workload that asks the same again and again has independent noise on each.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.curator.stream_counter import StreamCounter
from conspectus.data.schema import Schema
from conspectus.data.sources import Table, open_table
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.builders.marginals import marginal
from conspectus.queries.workload import Workload

from .plays import Experiment

SCHEMA = Schema.from_dict({"name": "audit", "columns": {"on": {"type": "boolean"}}})
COUNTED = marginal(SCHEMA, ["on"])
LEVELS = 1


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """One event, and a person with two of them; the twin forgets the noise of the counter (E-46)."""
    for name, events in (("stream-event", 1), ("stream-user", 2)):
        moved = COUNTED.sensitivity(Relation(neighbours, events, events == 1)).l1
        yield Experiment(
            name=name,
            neighbours=neighbours,
            views=partial(_seen, neighbours, events, float((1 + LEVELS) * moved)),
            claim=(1.0, 0.0),
            twin="noise for the intervals alone, Lap(log T/ε), in a counter whose file is seen",
            twin_views=partial(_seen, neighbours, events, float(LEVELS * moved)),
            effort=4,
        )


def _steps(neighbours: Neighbours, events: int, side: int) -> tuple[Table, Table]:
    """Two steps. On the second side the person's events are in the second one, or are ones and not zeros there."""
    own = [1] * events if side else [0] * events if neighbours is Neighbours.REPLACE else []
    first, second = (open_table(pa.table({"on": np.array(on, dtype=bool)}), SCHEMA) for on in ([0, 1], [0, 1, *own]))
    return first, second


def _seen(neighbours: Neighbours, events: int, scale: float, side: int, trials: int) -> NDArray[np.float64]:
    """The least of what moves: the counter in the file, and by how much it is above the first output."""
    first, second = _steps(neighbours, events, side)
    counter = StreamCounter(Workload(COUNTED.domain, COUNTED.blocks * trials), Noise("laplace", scale), LEVELS)
    state, shown = counter.step(counter.begin(), 0, first)
    state, _ = counter.step(state, 1, second)
    replaced = neighbours is Neighbours.REPLACE
    moved = []
    for counts, before in ((state.counter, 2), (state.counter - shown, 1)):
        zeros, ones = counts.reshape(trials, 2).T
        moved.append(ones - before)
        if replaced:
            moved.append(before + events - zeros)
    return np.asarray(np.min(moved, axis=0), dtype=np.float64)
