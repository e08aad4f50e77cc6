"""Marginals by the names of their columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

from conspectus.data.schema import Schema
from conspectus.queries.block import check_length, total_length
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

from .arguments import check_listable, check_schema, positions, told


def marginals(schema: Schema, k: int, columns: Iterable[str] | None = None) -> Workload:
    """Every k-way marginal: for each combination of k columns, in schema order, the number of rows in every cell.

    Args:
        schema: the declaration of the table.
        k: how many columns a marginal takes.
        columns: the names of the columns to combine; all of them by default.

    Returns:
        A workload with one block for each combination, its cells in row-major order of the columns' codes.

    Raises:
        WorkloadError: k is no number of these columns, or the cells are too many for memory.
        UnknownColumn: a column is not in the schema.

    Example:
        >>> len(cs.marginals(schema, 2))
        51
        >>> len(cs.marginals(schema, 2, columns=["sex", "smoker", "diagnosis"]))
        16
    """
    check_schema(schema)
    domain = schema.domain
    chosen = sorted(positions(schema, columns)) if columns is not None else list(range(len(domain)))
    if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k <= len(chosen):
        raise WorkloadError(f"a marginal takes between 0 and {len(chosen)} of these columns, not {told(k)}")
    if k:
        check_listable(schema, chosen)
    what = f"all {k}-way marginals of {len(chosen)} columns"
    check_length(math.comb(len(chosen), k), what)
    check_length(_cells(domain.shape(chosen), k), what)
    return Workload(domain, total_length((Marginal(domain, chosen_k) for chosen_k in combinations(chosen, k)), what))


def marginal(schema: Schema, columns: Sequence[str]) -> Workload:
    """The marginal over these columns: the number of rows in every cell, the columns in the order given.

    Args:
        schema: the declaration of the table.
        columns: the names of the columns.

    Returns:
        A workload of one block, its cells in row-major order of the columns' codes.

    Raises:
        WorkloadError: a column is named twice, or the cells are too many for memory.
        UnknownColumn: a column is not in the schema.

    Example:
        >>> len(cs.marginal(schema, ["diagnosis", "sex"]))
        6
    """
    chosen = positions(schema, columns)
    check_listable(schema, chosen)
    return Workload(schema.domain, (Marginal(schema.domain, chosen),))


def _cells(sizes: tuple[int, ...], k: int) -> int:
    """The number of cells of all k-way marginals: the elementary symmetric polynomial of the sizes."""
    sums = [1, *[0] * k]
    for size in sizes:
        for degree in range(k, 0, -1):
            sums[degree] += size * sums[degree - 1]
    return sums[k]
