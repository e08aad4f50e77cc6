"""The result of a SELECT: a table in which every number has the ends of its interval beside it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from conspectus.tabular import ResultTable


@dataclass(frozen=True, eq=False, repr=False)
class QueryResult(ResultTable):
    """What a SELECT was answered: made by `release.query` and `session.query`.

    It has a column for each output of the SELECT. Beside a number `x` stand `x_low` and `x_high`: the truth lies
    between them with the confidence that was asked for, number by number; null where no interval would be honest.

    Attributes:
        arrow: The table itself; `to_pandas`, `to_polars`, `to_dict` and `plot` take it elsewhere.
        labels: The columns that rows were grouped by.
        measures: For each number its column, and those of its ends.
        notes: What must be said besides: bins, widened conditions, numbers without an interval.
        confidence: The probability, over the noise, with which each interval holds the truth.
        cost: What it took from the budget of a session, in its currency; nothing from a release.

    Example:
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "people", "columns": {
        ...     "smoker": {"type": "boolean"}, "visits": {"type": "integer", "min": 0, "max": 9}}})
        >>> rows = pa.table({"smoker": [True] * 40 + [False] * 60, "visits": [3] * 40 + [1] * 60})
        >>> release = cs.release(cs.open_table(rows, schema), cs.marginals(schema, 2), epsilon=1e6)
        >>> found = release.query("SELECT smoker, AVG(visits) AS mean FROM people GROUP BY smoker ORDER BY 2 DESC")
        >>> found.to_dict()["smoker"], [round(mean, 3) for mean in found.to_dict()["mean"]]
        ([True, False], [3.0, 1.0])
        >>> found.column_names
        ['smoker', 'mean', 'mean_low', 'mean_high']
    """

    confidence: float = 0.95
    cost: float = 0.0


def table_of(names: Sequence[str], columns: Sequence[Sequence[Any]], alike: Sequence[Sequence[Any]]) -> pa.Table:
    """Columns of plain values as a table; values of several types in one column become texts.

    Args:
        names: The names of the columns.
        columns: The values of each.
        alike: For each column, values of the types that it can have: so its type is the same in a table without lines.
    """
    arrays = []
    for values, others in zip(columns, alike, strict=True):
        kinds = {type(value) for value in (*values, *others) if value is not None}
        if len(kinds) > 1 and not kinds <= {int, float}:
            kinds = {str}
        elif kinds == {int, float}:
            kinds = {float}
        kind = kinds.pop() if kinds else float
        made = [None if value is None else kind(value) if kind in (str, float) else value for value in values]
        arrays.append(pa.array(made, type=_TYPES.get(kind)))
    return pa.Table.from_arrays(arrays, names=list(names))


_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), datetime.date: pa.date32()}
