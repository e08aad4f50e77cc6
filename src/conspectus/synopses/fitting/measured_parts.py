"""Counts of questions as measured marginals, or parts of marginals: what a histogram is fitted to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from conspectus.counting.evaluation import cell_values
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.lbfgs import Vector

from .max_entropy import Measurement

Piece = tuple[tuple[int, ...], NDArray[np.int64], NDArray[np.float64] | float]


def part_tables(question: Workload, held: tuple[int, ...]) -> Iterator[Piece]:
    """For each piece of a question: its columns, as places among those held; for each cell of their marginal the
    number of the answer that counts it, or −1; and with which weight it does, 1 unless the question has weights."""
    at = 0
    for block in question.blocks:
        if isinstance(block, Marginal):
            yield tuple(held.index(c) for c in block.columns), np.arange(at, at + len(block)), 1.0
        else:
            for i in range(len(block)):
                columns, values = cell_values(block.query(i), question.domain)
                flat = values.ravel()
                weights = flat if isinstance(block, LinearQueries) else 1.0
                yield tuple(held.index(c) for c in columns), np.where(flat > 0, at + i, -1), weights
        at += len(block)


def as_measured(
    question: Workload, held: tuple[int, ...], counts: Vector, sigma: float, total: float
) -> Iterator[Measurement]:
    """Counts with this deviation as measured marginals; a single question splits its marginal into in and out."""
    for columns, parts, weights in part_tables(question, held):
        if not isinstance(weights, float):
            inside = float(counts[int(parts.max())]) if parts.max() >= 0 else 0.0
            yield Measurement(columns, np.array([total - inside, inside]), sigma, shares=weights)
        elif parts.min() >= 0:
            yield Measurement(columns, counts[parts], sigma)
        else:
            inside = float(counts[int(parts.max())])
            yield Measurement(columns, np.array([total - inside, inside]), sigma, parts=(parts >= 0).astype(np.int64))
