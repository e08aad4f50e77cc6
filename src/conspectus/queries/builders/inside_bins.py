"""Where values lie inside the bins of a column, as linear queries about the same column in narrower bins.

Of the rows in one bin, with w in [0, 1] the place of a value between the ends of the bin, these are asked: the sums of
w², 2w(1 − w) and (1 − w)². They add up to the number of rows in the bin, and the mean and the spread of w follow from
them. A row lies in one bin and adds one to its three sums together, so all bins of a column cost one count.
"""

from __future__ import annotations

import numpy as np

from conspectus.data.columns.finer_bins import FinerBins
from conspectus.data.domain import Domain
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.formulas import literal, predicate
from conspectus.queries.query import VALUE_STEPS, Linear, Weighting


def inside_bins(domain: Domain, at: int, finer: FinerBins) -> LinearQueries:
    """The three sums for each bin of several values, bin by bin.

    Guarantee: one row moves all of them together by at most one count in L1, and a replaced row by two; in squared L2
    by one and by two.

    Args:
        domain: The columns, the one at `at` in narrow bins.
        at: The position of the column.
        finer: What the narrow bins are.
    """
    # Whole steps of w first: then the three are whole numbers that add up to one, to the step.
    steps = np.rint(finer.place * VALUE_STEPS).astype(np.int64)
    squares = steps * steps // VALUE_STEPS
    others = (VALUE_STEPS - steps) ** 2 // VALUE_STEPS
    between = VALUE_STEPS - squares - others
    rest = np.zeros(domain.sizes[at] - len(finer.place), dtype=np.int32)
    listed = (np.concatenate([each.astype(np.int32), rest]) for each in (squares, between, others))
    weightings = [Weighting((at,), each) for each in listed]
    queries = []
    for code in finer.wide.tolist():
        here = predicate(domain, literal(domain, at, finer.narrow(code)))
        queries += [Linear(here, weighting) for weighting in weightings]
    return LinearQueries.of(domain, queries)
