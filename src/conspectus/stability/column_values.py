"""The mode, the median and the interquartile range of one column, to be released as single values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from conspectus.curator.stable_statistics import BINS
from conspectus.data.columns.ordered import Ordered
from conspectus.data.schema import Schema
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.builders.arguments import check_listable, position
from conspectus.queries.query import Literal as Condition
from conspectus.queries.query import Predicate
from conspectus.queries.workload import Workload
from conspectus.whole_numbers import whole

from .aggregated import MOST_LEVELS, AggregateError

Kind = Literal["mode", "median", "interquartile-range"]


@dataclass(frozen=True, eq=False, repr=False)
class ColumnValue:
    """One value of one column. See `cs.column_mode`, `cs.column_median` and `cs.interquartile_range`.

    Attributes:
        schema: The declaration of the table.
        kind: Which value.
        column: The name of the column.
        bins: For an interquartile range, into how many bins each doubling of it is divided.
    """

    schema: Schema
    kind: Kind
    column: str
    bins: int = 8

    def __repr__(self) -> str:
        return f"<ColumnValue: the {self.kind} of {self.column}>"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def positions(self) -> int:
        return self.schema.column(self.column).regular

    def counts(self, place: int) -> Workload:
        """How many rows have each value. Rows with a missing value, or one that is not declared, are left out."""
        domain, declared = self.schema.domain, self.schema.column(self.column)
        where = domain.position(self.column)
        if declared.regular == declared.size:
            return Workload(domain, (Marginal(domain, (where,)),))
        cells = [Predicate(((Condition(where, (code,)),),)) for code in range(declared.regular)]
        return Workload(domain, (Conjunctions.of(domain, cells),))

    def shown(self, position: int, place: int) -> Any:
        """The value, or the name of the bin, at a position."""
        return self.schema.column(self.column).own_value(position)

    def ends(self, position: int, place: int) -> tuple[Any, Any] | None:
        """The ends of a bin; None where the column has no order."""
        declared = self.schema.column(self.column)
        return declared.bounds(position) if isinstance(declared, Ordered) else None

    @property
    def binned(self) -> bool:
        """Whether some of its values stand together in a bin."""
        declared = self.schema.column(self.column)
        return isinstance(declared, Ordered) and bool((declared.lows != declared.highs).any())

    @property
    def step(self) -> float:
        """How wide each bin is."""
        declared = self.schema.column(self.column)
        assert isinstance(declared, Ordered)
        return float(np.diff(declared.lows.astype(np.float64))[0])


def column_mode(schema: Schema, column: str) -> ColumnValue:
    """The most common value of a column.

    Args:
        schema: The declaration of the table.
        column: The name of the column.

    Returns:
        What `cs.plan_value` and `cs.release_value` take.

    Raises:
        AggregateError: The values of the column cannot be listed.
        UnknownColumn: There is no such column.

    Example:
        >>> cs.column_mode(schema, "diagnosis")
        <ColumnValue: the mode of diagnosis>
    """
    return _checked(schema, "mode", column)


def column_median(schema: Schema, column: str) -> ColumnValue:
    """The median of an ordered column: of an even number of rows the lower one. Missing values are left out.

    Args:
        schema: The declaration of the table.
        column: The name of the column: integers, numbers or dates.

    Returns:
        What `cs.plan_value` and `cs.release_value` take.

    Raises:
        AggregateError: The column has no order.
        UnknownColumn: There is no such column.

    Example:
        >>> cs.column_median(schema, "age")
        <ColumnValue: the median of age>
    """
    return _checked(schema, "median", column)


def interquartile_range(schema: Schema, column: str, *, bins: int = 8) -> ColumnValue:
    """How wide the middle half of a column is: a scale for its values. (The book's Algorithm 12, corrected.)

    Args:
        schema: The declaration of the table.
        column: The name of the column: integers, numbers or dates, in bins of one width.
        bins: Into how many bins each doubling of the range is divided, a power of two. More of them are less noise, and
            the range has to be stable to a smaller change: 1 for small tables, as in the book, 8 for thousands of rows.

    Returns:
        What `cs.plan_value` and `cs.release_value` take. The range is counted in whole bins.

    Raises:
        AggregateError: The column has no order, or bins of different widths.
        UnknownColumn: There is no such column.

    Example:
        >>> cs.interquartile_range(schema, "age")
        <ColumnValue: the interquartile-range of age>
    """
    if not whole(bins) or bins not in BINS:
        raise AggregateError(f"bins, into how many each doubling is divided, is one of {', '.join(map(str, BINS))}")
    found = dataclasses.replace(_checked(schema, "interquartile-range", column), bins=bins)
    declared = schema.column(column)
    assert isinstance(declared, Ordered)
    widths = np.diff(declared.lows.astype(np.float64))
    if not len(widths) or not np.allclose(widths, widths[0], rtol=1e-9):
        raise AggregateError(f'the bins of "{column}" have different widths: declare a column with bins of one width')
    return found


def _checked(schema: Schema, kind: Kind, column: str) -> ColumnValue:
    check_listable(schema, [position(schema, column)])
    declared = schema.column(column)
    if kind != "mode" and not declared.ordered:
        raise AggregateError(f'column "{column}" has no order, and so no {kind}: take integers, numbers or dates')
    if not 2 <= declared.regular <= MOST_LEVELS:
        raise AggregateError(
            f'column "{column}" has {declared.regular:,} values to choose from: declare 2 to {MOST_LEVELS:,}, or bins'
        )
    return ColumnValue(schema, kind, column)
