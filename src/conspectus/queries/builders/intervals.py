"""All intervals and all prefixes of an ordered column."""

from __future__ import annotations

from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

from .arguments import DeclaredSchema, check_schema, position


def ranges(schema: DeclaredSchema, column: str) -> Workload:
    """All intervals of an ordered column, by their first code, then by their last."""
    check_schema(schema)
    return _intervals(schema, column, prefixes_only=False)


def prefixes(schema: DeclaredSchema, column: str) -> Workload:
    """All prefixes of an ordered column: values up to the first code, up to the second, and so on."""
    check_schema(schema)
    return _intervals(schema, column, prefixes_only=True)


def _intervals(schema: DeclaredSchema, column: str, *, prefixes_only: bool) -> Workload:
    at, declared = position(schema, column), schema.column(column)
    if not declared.ordered:
        raise WorkloadError(f"{column!r} has no order: ranges and prefixes need an integer, number or date column")
    return Workload(schema.domain, (Intervals(schema.domain, at, declared.regular, prefixes_only),))
