"""Live sessions over made tables, and how far off their answers are: for what their plans expect."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from tests.made_problems import SHAPES, Rng, budget_of, records, sizes_of

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.mechanisms.mechanism import Claim
from conspectus.mechanisms.registry import ONLINE
from conspectus.queries.workload import Workload

WIDTHS = (1, 2, 3, 4)
"""The numbers of columns of the conjunctions that are asked, as many of each: what plans take for typical."""
MOST_CELLS = 4_096
MOST_LISTED = 256
"""The records that a question may list to `sparse-mw`."""


@dataclass(frozen=True)
class MadeSession:
    """A table, the questions of a session in their order, and its budget."""

    shape: str
    table: cs.Table
    asked: Workload
    budget: dict[str, Any] = field(default_factory=dict)

    def claims(self) -> Iterator[Claim]:
        """What each mechanism says that can serve the session, where it expects to say something."""
        cells = self.table.schema.domain.cells
        for name in ONLINE:
            plan = cs.plan_session(self.table.schema, mechanism=name, questions=len(self.asked), **self.budget)
            listed = name != "sparse-mw" or self.shape == "records" or cells // 2 <= MOST_LISTED
            for claim in plan.claims:
                if listed and claim.expected_max <= self.budget["rows"] / 4:
                    yield claim

    def errors(self, mechanism: str) -> tuple[float, float]:
        """The mean and the largest error of one session, in counts: of fractions of the rows."""
        budget = {name: value for name, value in self.budget.items() if name != "rows"}
        counts, rows = count(self.asked, self.table.chunks())
        with cs.open_session(self.table, mechanism=mechanism, questions=len(self.asked), **budget) as session:
            shares = np.array([session.ask(question).fraction for question in self.asked])
        off = np.abs(shares * rows - counts / self.asked.grid)
        return float(off.mean()), float(off.max())


def made_session(seed: int) -> MadeSession:
    """A session that follows from its seed: about a table of one of seven shapes, or once in eight about records."""
    rng = np.random.default_rng(seed)
    rows = int(rng.choice([1_000, 5_000, 20_000, 100_000]))
    budget = budget_of(rng, rows)
    kind = int(rng.integers(len(SHAPES) + 1))
    if kind == len(SHAPES):
        about = records(rng, rows, budget)
        return MadeSession("records", about.table, about.workload.distinct(), about.budget)
    shape = SHAPES[kind]
    sizes = [2] * int(rng.integers(6, 12)) if rng.random() < 0.5 else sizes_of(rng, "whole")
    while math.prod(sizes) > MOST_CELLS:
        sizes.pop()
    names = [f"c{place}" for place in range(len(sizes))]
    columns = {name: {"type": "integer", "min": 0, "max": size - 1} for name, size in zip(names, sizes)}
    schema = cs.Schema.from_dict({"name": shape.__name__, "columns": columns})
    table = cs.open_table(pa.table(dict(zip(names, shape(rng, sizes, rows)))), schema)
    return MadeSession(shape.__name__, table, typical_questions(rng, schema), budget)


def typical_questions(rng: Rng, schema: cs.Schema) -> Workload:
    """Random conjunctions of one to four columns, each width as often as there are enough of it, in a random order."""
    sizes, many = schema.domain.sizes, int(rng.choice([20, 100, 400]))
    asked = Workload(schema.domain, ())
    for width in WIDTHS[: len(sizes)]:
        there = sum(math.prod(each) for each in combinations(sizes, width))
        each = max(min(many // len(WIDTHS), there // 2), 1)
        asked += cs.random_conjunctions(schema, width, each, int(rng.integers(1_000_000)))
    return asked.take(rng.permutation(len(asked)))
