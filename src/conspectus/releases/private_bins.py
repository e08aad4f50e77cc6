"""Bins by private quantiles: edges for a column of which its owner knows the range alone.

A small release of the column in many narrow bins is paid for as any other. What is computed from it is post-processing:
edges between which about as many rows lie. They may stand in the schema of the next release, which is then public
knowledge that was bought, and no longer read off the rows. The two releases compose: their ε add up.
"""

from __future__ import annotations

import numpy as np

from conspectus.data.columns.kinds import Integer, Number
from conspectus.queries.builders.marginals import marginal
from conspectus.queries.sensitivity import WorkloadError
from conspectus.whole_numbers import MOST_TURNS, whole

from .release import Release


def quantile_edges(release: Release, column: str, bins: int) -> list[int] | list[float]:
    """Edges of bins that hold about as many rows each, from a release that covers the column in narrow bins.

    It costs nothing beyond the release. Write the edges into the schema of the next one: the budgets of both add up.

    Args:
        release: A release whose workload covers the column, such as `cs.marginal(schema, [column])`.
        column: The name of an integer or number column.
        bins: The most bins, at least two. Fewer are returned where the release cannot tell more apart.

    Returns:
        Ascending edges, as `edges` of a column in a schema: the first is its minimum and the last its maximum.

    Raises:
        WorkloadError: The column has no numbers, or `bins` is no number of bins.
        CannotAnswer: The release does not hold the column.

    Example:
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> fine = cs.Schema.from_dict({"columns": {"income": {"type": "integer", "min": 0, "max": 9999, "width": 10}}})
        >>> rows = pa.table({"income": [100] * 400 + [900] * 300 + [5000] * 300})
        >>> small = cs.release(cs.open_table(rows, fine), cs.marginal(fine, ["income"]), epsilon=1e4)
        >>> cs.quantile_edges(small, "income", 3)
        [0, 110, 910, 9999]
    """
    declared = release.schema.column(column)
    if not isinstance(declared, Integer | Number):
        raise WorkloadError(f'"{column}" is of type {declared.kind}: edges are for integer and number columns')
    if not whole(bins, 2, MOST_TURNS):
        raise WorkloadError(f"bins is how many there are at most, from 2 to {MOST_TURNS:,}")
    asked = marginal(release.schema, [column])
    counts = release.synopsis.answer(asked)[: declared.regular] * release.total.divisor
    upto = np.cumsum(counts)
    # Noise makes the sums go up and down: in between lies what they have reached, and what they will fall to.
    risen, falls = np.maximum.accumulate(upto), np.minimum.accumulate(upto[::-1])[::-1]
    settled = (risen + falls) / 2
    rows = max(float(settled[-1]), 0.0)
    places = np.searchsorted(settled, rows * np.arange(1, bins) / bins, side="left")
    inner = sorted({int(place) + 1 for place in places if place + 1 < declared.regular})
    first, last = declared.bounds(0)[0], declared.bounds(declared.regular - 1)[1]
    return [first, *(declared.bounds(code)[0] for code in inner), last]
