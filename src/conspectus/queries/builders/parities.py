"""All parities of some number of two-valued columns."""

from __future__ import annotations

from conspectus.data.schema import Schema
from conspectus.queries.blocks.parity_list import Parities
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

from .arguments import check_schema, told


def parities(schema: Schema, k: int) -> Workload:
    """Each combination of k two-valued columns, as the fraction of rows with an even number of second values.

    Args:
        schema: the declaration of the table.
        k: how many columns a parity takes.

    Returns:
        A workload with one query for each combination, in schema order.

    Raises:
        WorkloadError: the schema has fewer than k two-valued columns.

    Example:
        >>> len(cs.parities(schema, 1)), len(cs.parities(schema, 2))
        (2, 1)
    """
    check_schema(schema)
    domain = schema.domain
    columns = tuple(c for c, size in enumerate(domain.sizes) if size == 2)
    if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k <= len(columns):
        raise WorkloadError(f"the schema has {len(columns)} two-valued columns: no parity takes {told(k)} of them")
    return Workload(domain, (Parities(domain, columns, k),))
