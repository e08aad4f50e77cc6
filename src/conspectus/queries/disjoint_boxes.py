"""Whether the boxes of a query are disjoint: all pairs at once, column by column.

A predicate may have hundreds of boxes, and a file thousands of predicates. Boxes that overlap would count a record
twice, so every pair is looked at; one by one, that took longer than anything else that is done with a file.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .literals import LiteralRuns
from .ordering import stretches


def disjoint_boxes(runs: LiteralRuns, terms: NDArray[np.int32]) -> bool:
    """Whether no record lies in two of these boxes, which are rows of literal numbers, padded with −1.

    Two boxes are disjoint exactly where both have a literal on some column, and these share no code.
    """
    apart = np.eye(len(terms), dtype=bool)
    columns = runs.column[terms]
    for column in np.unique(columns[columns >= 0]).tolist():
        held = runs.on(terms, column)
        here = np.flatnonzero(held >= 0)
        if len(here) > 1:
            used, number = np.unique(held[here], return_inverse=True)
            apart[here[:, None], here[None, :]] |= _without_common_code(runs, used)[number[:, None], number[None, :]]
    return bool(apart.all())


def _without_common_code(runs: LiteralRuns, numbers: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which two of some literals on one column share no code.

    In the order of their first codes, a run meets those behind it that begin before it ends. The runs of one literal
    are apart, so these are at most as many as there are literals, for each run that begins.
    """
    which = stretches(runs.start[numbers], runs.runs[numbers])
    order = np.argsort(runs.first[which], kind="stable")
    first, beyond = runs.first[which][order], runs.beyond[which][order]
    owner = np.repeat(np.arange(len(numbers)), runs.runs[numbers])[order]
    after = np.arange(1, len(first) + 1)
    met = np.searchsorted(first, beyond) - after
    apart = ~np.eye(len(numbers), dtype=bool)
    step = max(1, (1 << 20) // len(numbers))
    for start in range(0, len(first), step):
        here = slice(start, start + step)
        one, other = np.repeat(owner[here], met[here]), owner[stretches(after[here], met[here])]
        apart[one, other] = apart[other, one] = False
    return apart
