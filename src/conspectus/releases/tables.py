"""From a synopsis to a printed table: one integer table behind all of them, and which questions a bound covers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Domain, in_words
from conspectus.privacy.tails import shown_interval
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.query import Box, Predicate, Query
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.max_entropy import Measurement, fit_histogram
from conspectus.synopses.fitting.rounding import round_to_total
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.published_records import PublishedRecords, record_array
from conspectus.synopses.synopsis import CannotAnswer, Synopsis

TOO_NOISY = 0.5
"""A cell is marked when its interval's half-width is more than this share of its count."""

MOST_CELLS = 1 << 22
"""The largest universe over which a histogram is fitted to noisy answers after the fact."""


def fitted_histogram(synopsis: NoisyAnswers) -> Histogram:
    """The maximum-entropy histogram of the measured marginals: post-processing, and one source for every table."""
    marginals = synopsis.measured_marginals()
    held = tuple(sorted({c for columns, _, _ in marginals for c in columns})) or (0,)
    domain = synopsis.domain.project(held)
    measured = [
        Measurement(tuple(held.index(c) for c in columns), counts, sigma) for columns, counts, sigma in marginals
    ]
    if not measured:
        raise CannotAnswer("this release measured no marginal, so no rows or tables can be made: release marginals too")
    if domain.cells > MOST_CELLS:
        raise CannotAnswer(
            f"{in_words(domain.cells)} cells is too large to fit to noisy answers (limit {MOST_CELLS:,}): "
            "give a schema with fewer columns or wider bins"
        )
    fit = fit_histogram(domain, measured, synopsis.total.divisor, steps=400)
    return Histogram(synopsis.domain, fit.weights, synopsis.total, held)


def integer_table(source: Histogram, columns: Sequence[int], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The marginal of the one integer table `counts` over these columns, in the order given, flat."""
    held = source.columns or ()
    if not set(columns) <= set(held):
        raise CannotAnswer("no question of this release was about these columns: release them too")
    others = tuple(place for place, c in enumerate(held) if c not in columns)
    table = counts.reshape(source.held.sizes).sum(axis=others)
    order = np.argsort(np.argsort(np.array(columns, dtype=np.int64)))
    return np.ascontiguousarray(table.transpose(order) if table.ndim > 1 else table).ravel().astype(np.int64)


def published_table(synopsis: PublishedRecords, confidence: float) -> pa.Table:
    """The published records with their noisy counts, each with an interval that holds given that it was published."""
    counts = synopsis.counts
    low, high = shown_interval(synopsis.noise.scale, counts, synopsis.threshold, confidence)
    made = {"count": counts, "low": low, "high": high, "too_noisy": high - low > 2 * TOO_NOISY * counts}
    return pa.table({synopsis.domain.names[0]: record_array(synopsis.records), **made})


def rounded_marginal(synopsis: Synopsis, asked: Workload) -> NDArray[np.int64]:
    """A table of its own where there is no histogram behind it: non-negative integers that sum to the total.

    Where nothing at all is known of its cells, all of them are zero.
    """
    shares = np.maximum(synopsis.answer(asked), 0.0)
    return round_to_total(shares, synopsis.total.rows) if shares.any() else np.zeros(len(asked), dtype=np.int64)


def codes_of(domain: Domain, columns: Sequence[int]) -> list[NDArray[np.int64]]:
    """For each column, its code in every cell of the marginal over these columns, in row-major order."""
    return [codes.ravel() for codes in np.indices(domain.shape(columns))]


def listed_queries(workload: Workload) -> frozenset[Query]:
    """The queries that stand on their own in a workload, outside whole marginals."""
    loose = (block for block in workload.blocks if not isinstance(block, Marginal))
    return frozenset(block.query(i) for block in loose for i in range(len(block)))


def covering_cells(workload: Workload, listed: frozenset[Query], query: Query) -> int | None:
    """The least number of queries of the workload that sum to this one: a bound on each bounds their sum.

    None where no marginal of the workload covers its columns.
    """
    if query in listed:
        return 1
    if not isinstance(query, Predicate):
        return None
    sizes = workload.domain.sizes
    needed = set(query.columns)
    best: int | None = None
    for block in workload.blocks:
        if isinstance(block, Marginal) and needed <= set(block.columns):
            cells = sum(_cells(box, block.columns, sizes) for box in query.boxes)
            best = cells if best is None else min(best, cells)
    return best


def _cells(box: Box, columns: Sequence[int], sizes: Sequence[int]) -> int:
    chosen = {literal.column: len(literal.codes) for literal in box}
    return math.prod(chosen.get(c, sizes[c]) for c in columns)
