"""All intervals and all prefixes of an ordered column."""

from __future__ import annotations

from conspectus.data.schema import Schema
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

from .arguments import position


def ranges(schema: Schema, column: str) -> Workload:
    """All intervals of an ordered column, by their first bin, then by their last.

    Args:
        schema: the declaration of the table.
        column: the name of an integer, number or date column.

    Returns:
        A workload of r(r + 1)/2 queries for r bins. Rows with a missing or other value are in no interval.

    Raises:
        WorkloadError: the column has no order.
        UnknownColumn: the column is not in the schema.

    Example:
        >>> len(cs.ranges(schema, "age"))
        15
    """
    return _intervals(schema, column, prefixes_only=False)


def prefixes(schema: Schema, column: str) -> Workload:
    """All prefixes of an ordered column: values up to the first bin, up to the second, and so on.

    Args:
        schema: the declaration of the table.
        column: the name of an integer, number or date column.

    Returns:
        A workload of as many queries as the column has bins. Rows with a missing or other value are in no prefix.

    Raises:
        WorkloadError: the column has no order.
        UnknownColumn: the column is not in the schema.

    Example:
        >>> len(cs.prefixes(schema, "age"))
        5
    """
    return _intervals(schema, column, prefixes_only=True)


def _intervals(schema: Schema, column: str, *, prefixes_only: bool) -> Workload:
    at, declared = position(schema, column), schema.column(column)
    if not declared.ordered:
        raise WorkloadError(f"{column!r} has no order: ranges and prefixes need an integer, number or date column")
    return Workload(schema.domain, (Intervals(schema.domain, at, declared.regular, prefixes_only),))
