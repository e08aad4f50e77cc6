"""Proved bounds on how many listed predicates one record satisfies, and on how many two records differ.

A bound below the truth would understate the noise that a release needs. So each group of queries that read the same
columns is counted exactly where its truth table is affordable or its queries are cells, and bounded from above
elsewhere. The bounds of groups are added up: a sum of maxima is at least the maximum of the sum.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.literals import LiteralArrays
from conspectus.queries.ordering import distinct_keys, groups, row_keys, stretches
from conspectus.queries.query import Literal

MOST_WORK = 1 << 31
"""Multiplications that may be spent on one block, shared evenly by its groups of queries."""

MOST_TABLE = 1 << 24
"""Entries of one truth table; below it, sums in single precision are exact."""

MOST_PAIRS = 1 << 22
"""Pairs of cells that are compared at once."""


def conjunction_bounds(
    domain: Domain,
    literals: tuple[Literal, ...],
    terms: NDArray[np.int32],
    starts: NDArray[np.int64],
    most: int = MOST_WORK,
) -> tuple[int, int]:
    """Bounds on how many listed predicates one record satisfies, and on how many two records differ.

    Guarantee: neither number is below the truth, for any two records of the domain, however little work may be spent on
    them (`most`, shared evenly by groups). Query i is the union of the
    disjoint boxes from `starts[i]` up to `starts[i + 1]`.
    """
    arrays = LiteralArrays(literals)
    columns = arrays.column[terms]
    equality = arrays.length[terms] <= 1
    each = np.diff(starts)
    single = each == 1
    satisfied = differing = groups_of_cells = 0
    queries_left = np.arange(len(each))
    if single.all():
        # Mostly every group is cells, and there may be a group for every query: all of them at once.
        cells = row_keys(terms, len(literals))
        satisfied, differing, groups_of_cells, queries_left = _all_cells(domain, columns, cells, equality)
    found = _by_columns(domain, columns, starts, queries_left)
    work = most // max(1, groups_of_cells + len(found))
    for over, queries in found:
        if not over:
            # Constant queries: true everywhere, or never. Two records never differ on them.
            satisfied += int(single[queries].sum())
        elif single[queries].all() and equality[starts[queries]].all():
            here = _cells(terms[starts[queries]], len(literals))
            satisfied, differing = satisfied + here[0], differing + here[1]
        else:
            boxes = stretches(starts[queries], each[queries])
            shape = domain.shape(over)
            here = _tabulated(arrays, terms[boxes], each[queries], over=over, shape=shape, work=work)
            satisfied, differing = satisfied + here[0], differing + here[1]
    return satisfied, differing


def _all_cells(
    domain: Domain, columns: NDArray[np.int32], cells: NDArray[np.int64], equality: NDArray[np.bool_]
) -> tuple[int, int, int, NDArray[np.int64]]:
    """Both bounds for the groups that hold nothing but cells, the number of these groups, and the other queries.

    A record lies in at most one cell of a group, and two records in at most two. A cell may be listed several times. So
    a record satisfies at most as many queries as the most repeated cell has, and two records differ on at most those
    of the two most repeated cells.
    """
    first, group = distinct_keys(row_keys(columns, len(domain)))
    plain = np.ones(len(first), dtype=bool)
    np.logical_and.at(plain, group, equality.all(axis=1) & (columns >= 0).any(axis=1))
    chosen = plain[group]
    # A cell names its literals and with them its columns, so equal cells are of one group.
    _, place, times = np.unique(cells[chosen], return_index=True, return_counts=True)
    owner = group[chosen][place]
    order = np.lexsort((-times, owner))
    owner, times = owner[order], times[order]
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    seconds = starts[np.diff(np.append(starts, len(owner))) > 1] + 1
    satisfied = int(times[starts].sum())
    return satisfied, satisfied + int(times[seconds].sum()), int(plain.sum()), np.flatnonzero(~chosen)


def _by_columns(
    domain: Domain, columns: NDArray[np.int32], starts: NDArray[np.int64], queries_left: NDArray[np.int64]
) -> list[tuple[tuple[int, ...], NDArray[np.int64]]]:
    """The queries by the sets of columns that they read; `columns` holds those of every box."""
    counts = np.diff(starts)
    ones = queries_left[counts[queries_left] == 1]
    found: dict[tuple[int, ...], list[NDArray[np.int64]]] = {}
    for members in groups(row_keys(columns[starts[ones]], len(domain))):
        queries = ones[members]
        found.setdefault(_set(columns[starts[queries[0]]]), []).append(queries)
    for query in np.flatnonzero(counts != 1).tolist():
        # Boxes of one query may read different columns: the query reads their union.
        over = _set(columns[starts[query] : starts[query + 1]])
        found.setdefault(over, []).append(np.array([query]))
    return [(over, np.concatenate(queries)) for over, queries in found.items()]


def _set(columns: NDArray[np.int32]) -> tuple[int, ...]:
    return tuple(sorted(set(columns.ravel().tolist()) - {-1}))


def _cells(rows: NDArray[np.int32], literals: int) -> tuple[int, int]:
    """Cells of one marginal: a record lies in one, two records in two; a repeated cell counts each time."""
    times = np.sort(np.unique(row_keys(rows, literals), return_counts=True)[1])[::-1]
    return int(times[0]), int(times[:2].sum())


def _tabulated(
    arrays: LiteralArrays,
    terms: NDArray[np.int32],
    each: NDArray[np.int64],
    *,
    over: tuple[int, ...],
    shape: tuple[int, ...],
    work: int,
) -> tuple[int, int]:
    """Both bounds of a group by its truth table where that is affordable, else the number of queries for both.

    `each` counts the boxes of every query.
    """
    queries, cells = len(each), math.prod(shape)
    if cells * max(len(terms), queries) > min(work, MOST_TABLE):
        return queries, queries
    truth = np.ones((len(terms), 1), dtype=np.uint8)
    for column, size in zip(over, shape):
        side = arrays.indicator(arrays.on(terms, column), size)
        truth = (truth[:, :, None] & side[:, None, :]).reshape(len(terms), -1)
    if len(terms) > queries:
        truth = np.add.reduceat(truth, np.cumsum(each) - each, axis=0)
    table = truth.astype(np.float32)
    by_cell = table.sum(axis=0, dtype=np.float64)
    satisfied = int(by_cell.max())
    if cells * cells > MOST_PAIRS or cells * cells * queries > work:
        changing = int((truth.min(axis=1) != truth.max(axis=1)).sum())
        return satisfied, min(changing, 2 * satisfied)
    differing = by_cell[:, None] + by_cell[None, :] - 2 * (table.T @ table)
    return satisfied, int(differing.max())
