"""Queries as SQL predicates, in the values of a schema."""

from __future__ import annotations

import datetime
from typing import Any, Protocol, runtime_checkable

from conspectus.data.code_sets import CodeSet, common, complement, runs_of
from conspectus.data.columns.kinds import Column
from conspectus.data.schema import Schema
from conspectus.queries.canonical_query import even_boxes
from conspectus.queries.query import Linear, Literal, Parity, Predicate, Query, Sparse
from conspectus.queries.sensitivity import WorkloadError

_MOST_PARITY = 9
_REFUSALS: dict[type, str] = {
    Sparse: "a sparse query lists records, which no SQL predicate does",
    Linear: "a sum of values is no SQL predicate",
}


@runtime_checkable
class _Binned(Protocol):
    """A column in bins: the least and the greatest value of each."""

    def bounds(self, code: int) -> tuple[Any, Any]: ...


def to_sql(schema: Schema, query: Query) -> str:
    """A SQL predicate that asks this query; reading it gives the query back, where it came from a predicate."""
    if isinstance(query, Parity):
        if len(query.columns) > _MOST_PARITY:
            raise WorkloadError(f"a parity of more than {_MOST_PARITY} columns is too long to be written in SQL")
        query = even_boxes(query)
    if not isinstance(query, Predicate):
        raise WorkloadError(_REFUSALS.get(type(query), "a function of the table is no SQL predicate"))
    boxes = [" AND ".join(_literal(schema, part) for part in box) or "TRUE" for box in query.boxes]
    if len(boxes) == 1:
        return boxes[0]
    return " OR ".join(f"({box})" for box in boxes) or "FALSE"


def named(column: str) -> str:
    """The name of a column in double quotes."""
    return '"' + column.replace('"', '""') + '"'


def _literal(schema: Schema, part: Literal) -> str:
    label = schema.domain.names[part.column]
    column, name = schema.column(label), named(label)
    null = column.null_codes()
    present = complement(null, column.size)
    held = common(part.codes, present)
    if not held:
        return f"{name} IS NULL"
    if held == present:
        return f"{name} IS NOT NULL" if null else "TRUE"
    pieces = _intervals(column, name, held) if isinstance(column, _Binned) else [_listed(column, name, held, present)]
    if any(code in part.codes for code in null):
        pieces.append(f"{name} IS NULL")
    return pieces[0] if len(pieces) == 1 else f"({' OR '.join(pieces)})"


def _listed(column: Column, name: str, held: CodeSet, present: CodeSet) -> str:
    """Listed values, or all but those listed, whichever is shorter."""
    left = common(complement(held, column.size), present)
    codes, plain, several = (held, "=", "IN") if len(held) <= len(left) else (left, "<>", "NOT IN")
    values = [_value(column.labels[code]) for code in codes]
    return f"{name} {plain} {values[0]}" if len(values) == 1 else f"{name} {several} ({', '.join(values)})"


def _intervals(column: Any, name: str, held: CodeSet) -> list[str]:
    """One comparison, or a pair of them, for each run of bins."""
    pieces = []
    for first, last in runs_of(held):
        low, high = column.bounds(first)
        if first == last and low == high:
            pieces.append(f"{name} = {_value(low)}")
            continue
        above = f"{name} >= {_value(low)}" if first > 0 else ""
        below = f"{name} < {_value(column.bounds(last + 1)[0])}" if last + 1 < column.regular else ""
        pieces.append(" AND ".join(side for side in (above, below) if side))
    return [f"({piece})" if " AND " in piece and len(pieces) > 1 else piece for piece in pieces]


def _value(value: object) -> str:
    if value in ("true", "false"):
        return str(value).upper()
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"
