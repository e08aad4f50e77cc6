"""Synthetic rows fitted to functions of which nothing is known: every tried change evaluates all of them anew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from conspectus.counting.counters import counter_of
from conspectus.counting.statistic_counts import Integers
from conspectus.data.domain import Chunk, code_dtype
from conspectus.queries.block import Block
from conspectus.queries.blocks.unsafe_functions import UnsafeFunctions
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.lbfgs import Vector

from .row_fitting import OneWay, changes


class TrialFitter:
    """A plain local search: one code of one row is changed, all functions are evaluated, the better rows are kept."""

    def __init__(
        self,
        samples: Sequence[Workload],
        answers: Vector,
        deviations: Vector,
        one_way: OneWay,
        *,
        evaluations: int,
    ) -> None:
        self._samples = samples
        self.questions = len(answers)
        self._answers = answers
        self._weights = 1 / np.square(np.maximum(deviations, 1e-9))
        self._one_way = one_way
        self._domain = samples[0].domain
        self._most = max(1, evaluations // max(len(answers), 1))

    def fit(self, start: Integers, tries: int, rng: np.random.Generator) -> tuple[Integers, float]:
        """The rows `start` after this many tried changes, or as many as may be evaluated, and the distance left."""
        rows = start.copy()
        loss = self.left(rows)
        which, where, what = changes(self._domain, rows, min(tries, self._most), rng)
        for i, c, code in zip(which.tolist(), where.tolist(), what.tolist()):
            before = rows[i, c]
            if before == code:
                continue
            rows[i, c] = code
            tried = self.left(rows)
            if tried < loss:
                loss = tried
            else:
                rows[i, c] = before
        return rows, loss

    def left(self, rows: Integers) -> float:
        """The weighted squared distance of any rows from what is wanted."""
        values = [
            block_values(block, rows) / (block.grid * (block.denominator or len(rows)))
            for sample in self._samples
            for block in sample.blocks
        ]
        loss = float((self._weights * np.square(np.concatenate(values) - self._answers)).sum())
        for c, (shares, off) in enumerate(zip(self._one_way.shares, self._one_way.deviations)):
            here = np.bincount(rows[:, c], minlength=len(shares)) / len(rows)
            loss += float(np.square((here - shares) / max(off, 1e-9)).sum())
        return loss


def block_values(block: Block, rows: Integers) -> Integers:
    """The values of a block on these rows, in its own steps."""
    if isinstance(block, UnsafeFunctions):
        return block.values(rows.copy())
    sizes = block.domain.sizes
    counter = counter_of(block)
    counter.add(Chunk(tuple(rows[:, c].astype(code_dtype(size)) for c, size in enumerate(sizes)), len(rows)))
    return counter.counts()
