"""Listed conjunctions: mappings from columns to the values that a row may hold there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

from conspectus.data.code_sets import CodeSet, common, together
from conspectus.data.columns.kinds import Column
from conspectus.data.domain import Domain
from conspectus.data.schema import Schema
from conspectus.queries.block import check_length
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

from .arguments import check_schema, listed, position


@dataclass(frozen=True)
class Between:
    """Values from `low` to `high`, both included."""

    low: object
    high: object


def between(low: object, high: object) -> Between:
    """All values from `low` to `high`, both included, for use in `conjunctions`.

    Args:
        low: the lowest value.
        high: the highest value.

    Returns:
        What stands for these values where a value is expected.

    Example:
        >>> len(cs.conjunctions(schema, [{"age": cs.between(20, 59)}]))
        1
    """
    return Between(low, high)


_ROWS = "conjunctions are mappings from columns to values, given as a list such as [{'sex': 'female'}]"


def conjunctions(
    schema: Schema, rows: Iterable[Mapping[str, object]] | Mapping[str, object], *, snap: bool = False
) -> Workload:
    """One query for each mapping: how many rows hold, in each of its columns, one of its values?

    Args:
        schema: the declaration of the table.
        rows: mappings from the names of columns to a value, a list of values (any of them), `between(low, high)`, or
            None for a missing value. A single mapping is one query; `{}` is true on every row.
        snap: whether an interval that cuts a bin is widened to the whole bin. It is refused otherwise.

    Returns:
        A workload with one query for each mapping, in their order.

    Raises:
        WorkloadError: what was given are no mappings, or an interval cuts a bin.
        UnknownColumn: a column is not in the schema.

    Example:
        >>> asked = cs.conjunctions(schema, [{"sex": "female", "smoker": True}, {"diagnosis": ["heart", "lung"]}])
        >>> len(asked)
        2
    """
    check_schema(schema)
    predicates = []
    for row in [rows] if isinstance(rows, Mapping) else listed(rows, _ROWS):
        if not isinstance(row, Mapping):
            raise WorkloadError(f"{_ROWS}, not of {type(row).__name__}")
        box = []
        for name, value in row.items():
            at = position(schema, name)
            codes = _codes(schema.column(name), value, snap=snap)
            if len(codes) < schema.domain.sizes[at]:
                box.append((at, codes))
        possible = all(codes for _, codes in box)
        predicates.append(
            Predicate((tuple(Literal(at, codes) for at, codes in sorted(box, key=itemgetter(0))),) if possible else ())
        )
    check_length(len(predicates), "this list of conjunctions")
    return Workload(schema.domain, (Conjunctions.of(schema.domain, predicates),))


def _codes(column: Column, value: object, *, snap: bool) -> CodeSet:
    if isinstance(value, Between):
        return common(column.codes_where(">=", value.low, snap=snap), column.codes_where("<=", value.high, snap=snap))
    if isinstance(value, list | tuple | set | frozenset):
        return together(_codes(column, one, snap=snap) for one in value)
    return column.null_codes() if value is None else column.codes_where("=", value, snap=snap)


def always(domain: Domain) -> Workload:
    """The one question that is true on every row: how many are there?"""
    return Workload(domain, (Conjunctions.of(domain, [Predicate(((),))]),))
