"""Shares of a number of rows that is private: a ratio of two noisy counts, with the narrower of two intervals.

An interval of the count over one of the total shares what may go wrong between both, though their noises have much in
common. Fieller's interval, from all measured marginals together or from the cells of one table, knows that; but a count
may be known better than by these. Which one is taken follows from the laws of the noise alone, for a share of one half:
whatever the noise is, it is the same one, and holds as often as it does by itself. Where the marginals tell of the
count as well as the answer does, theirs is the narrower one for every share.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from conspectus.queries.query import Predicate, Query
from conspectus.synopses.estimate import Estimate
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import CannotAnswer

from .answer import Answer
from .cells.cell_estimates import Interval, Values, ratio
from .cells.pooled_halves import pooled_halves

if TYPE_CHECKING:
    from .released_counts import ReleasedCounts

_MOST_CELLS = 1 << 16
_INSIDE, _BOTH = np.array([1.0, 0.0]), np.array([1.0, 1.0])
"""Of the rows inside and the others: those inside, and all."""

_AS_WELL = 1.05
"""How much wider an interval may be that is as good: quantiles of mixed noises are at most a few per cent too wide."""


def with_ratio(source: ReleasedCounts, answer: Answer, estimate: Estimate, query: Query) -> Answer:
    """An answer of a release, with the interval of a ratio of noisy counts where that has less noise.

    Args:
        source: The counts of the release.
        answer: The answer, its interval from those of the count and of the total.
        estimate: The count that it was made from.
        query: What was asked.
    """
    total, failure = source.total, 1 - answer.confidence
    if total.exact or not isinstance(query, Predicate) or query.decided is not None or estimate.basis != "measured":
        return answer
    if answer.low is None or answer.high is None:
        return answer
    synopsis, apart = source.synopsis, estimate.width / 2 + total.margin(1 - failure / 2) / 2
    halves = pooled_halves(synopsis if isinstance(synopsis, NoisyAnswers) else source.evidence.measured, query)
    if halves is not None and halves.margin(_INSIDE, failure / 2) <= estimate.width / 2 * _AS_WELL:
        return _within(ratio(halves, Values.of(_INSIDE), _BOTH, failure), answer)
    columns = tuple(sorted(query.columns))
    shape = source.schema.domain.shape(columns)
    if math.prod(shape) > _MOST_CELLS:
        return answer
    inside, every = np.zeros(shape), np.ones(math.prod(shape))
    for box in query.boxes:
        codes = {literal.column: literal.codes for literal in box}
        inside[np.ix_(*(codes.get(c, range(size)) for c, size in zip(columns, shape)))] = 1.0
    try:
        cells, held = source.cells(columns, every > 0), inside.ravel()
    except CannotAnswer:  # single questions were measured, and no table that holds these cells
        return answer
    if not cells.lawful or cells.margin(held - 0.5, failure) >= apart:
        return answer
    return _within(ratio(cells, Values.of(held), every, failure), answer)


def _within(found: Interval, answer: Answer) -> Answer:
    """The answer in an interval that holds it."""
    if found.low is None or found.high is None:
        return answer
    return replace(answer, low=min(found.low, answer.fraction), high=max(found.high, answer.fraction))
