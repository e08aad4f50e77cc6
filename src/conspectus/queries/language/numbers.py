"""`cs.sums`, `cs.means`, `cs.variances` and `cs.covariances`: numbers by group, of rows that a predicate chooses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np

from conspectus.data.columns.kinds import Column
from conspectus.data.schema import Schema
from conspectus.queries.block import check_length
from conspectus.queries.blocks.moments import Moment, Moments, Numbers
from conspectus.queries.builders.arguments import check_listable, position, positions
from conspectus.queries.builders.conjunctions import conjunctions
from conspectus.queries.formulas import all_of, any_box, literal, predicate
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

from .from_sql import parse

Where = str | Mapping[str, object] | Workload | None
"""Which rows count: a SQL predicate, a mapping as in `cs.conjunctions`, a workload of one predicate, or all."""


def sums(schema: Schema, column: str, by: Iterable[str] = (), where: Where = None) -> Workload:
    """The sum of a column's values, one for each combination of values of the columns in `by`.

    Values are clamped to the declared range of the column; of a column in bins each bin counts as its middle. Missing
    values are left out. One row moves a sum by the largest value in size, so a wide range costs accuracy.

    Args:
        schema: the declaration of the table.
        column: the name of an integer, number or boolean column; True counts as 1.
        by: the names of the columns to group by; none by default, for one sum.
        where: which rows count: a SQL predicate, a mapping as in `cs.conjunctions`, or a workload of one predicate.

    Returns:
        A workload with one query for each cell of `by`, in row-major order of the columns' codes. Answers are in the
        column's own units: `Answer.value`, `.low` and `.high`, and `Release.answers`.

    Raises:
        WorkloadError: the column has no numbers, or the predicate is none.
        UnknownColumn: a column is not in the schema.

    Example:
        >>> len(cs.sums(schema, "age", by=["sex"], where="smoker"))
        2
    """
    return _moments(schema, "sum", (column,), by, where)


def means(schema: Schema, column: str, by: Iterable[str] = (), where: Where = None) -> Workload:
    """The mean of a column's values, one for each combination of values of the columns in `by`.

    It is computed from two private sums whose joint noise is that of a single count, and has an interval that holds
    however small the group is. Values are clamped to the declared range of the column; of a column in bins each bin
    counts as its middle. Missing values are left out.

    Args:
        schema: the declaration of the table.
        column: the name of an integer, number or boolean column; True counts as 1.
        by: the names of the columns to group by; none by default, for one mean.
        where: which rows count: a SQL predicate, a mapping as in `cs.conjunctions`, or a workload of one predicate.

    Returns:
        A workload with one query for each cell of `by`, in row-major order of the columns' codes. Answers are in the
        column's own units: `Answer.value`, `.low` and `.high`, and `Release.answers`.

    Raises:
        WorkloadError: the column has no numbers, or the predicate is none.
        UnknownColumn: a column is not in the schema.

    Example:
        >>> len(cs.means(schema, "age", by=["sex", "smoker"]))
        4
    """
    return _moments(schema, "mean", (column,), by, where)


def variances(schema: Schema, column: str, by: Iterable[str] = (), where: Where = None) -> Workload:
    """The variance of a column's values, one for each combination of values of the columns in `by`.

    It is the mean squared distance from the mean, divided by the number of rows and not by one less. Values are
    clamped to the declared range of the column; of a column in bins each bin counts as its middle.

    Args:
        schema: the declaration of the table.
        column: the name of an integer, number or boolean column; True counts as 1.
        by: the names of the columns to group by; none by default, for one variance.
        where: which rows count: a SQL predicate, a mapping as in `cs.conjunctions`, or a workload of one predicate.

    Returns:
        A workload with one query for each cell of `by`, in row-major order of the columns' codes. Answers are in the
        square of the column's own units.

    Raises:
        WorkloadError: the column has no numbers, or the predicate is none.
        UnknownColumn: a column is not in the schema.

    Example:
        >>> len(cs.variances(schema, "age", where={"sex": "female"}))
        1
    """
    return _moments(schema, "variance", (column,), by, where)


def covariances(schema: Schema, a: str, b: str, by: Iterable[str] = (), where: Where = None) -> Workload:
    """The covariance of two columns' values, one for each combination of values of the columns in `by`.

    Rows where either value is missing are left out.

    Args:
        schema: the declaration of the table.
        a: the name of an integer, number or boolean column; True counts as 1.
        b: the name of another one.
        by: the names of the columns to group by; none by default, for one covariance.
        where: which rows count: a SQL predicate, a mapping as in `cs.conjunctions`, or a workload of one predicate.

    Returns:
        A workload with one query for each cell of `by`, in row-major order of the columns' codes. Answers are in the
        product of the columns' own units.

    Raises:
        WorkloadError: a column has no numbers, both are the same, or the predicate is none.
        UnknownColumn: a column is not in the schema.

    Example:
        >>> len(cs.covariances(schema, "age", "smoker", by=["sex"]))
        2
    """
    if a == b:
        raise WorkloadError(f"the covariance of {a!r} with itself is its variance: use cs.variances")
    first, second = sorted((a, b), key=lambda name: position(schema, name))
    return _moments(schema, "covariance", (first, second), by, where)


def _moments(schema: Schema, kind: str, columns: tuple[str, ...], by: Iterable[str], where: Where) -> Workload:
    axes = tuple(numbers_of(schema, column) for column in columns)
    domain = schema.domain
    groups = positions(schema, by)
    check_listable(schema, groups)
    check_length(domain.project(groups).cells, "these groups")
    chosen = where_predicate(schema, where)
    moments = tuple(
        Moment(kind, _narrowed(chosen, dict(zip(groups, codes)), schema), axes)
        for codes in product(*(range(domain.sizes[column]) for column in groups))
    )
    return Workload(domain, (Moments(domain, moments),))


def numbers_of(schema: Schema, name: str) -> Numbers:
    """What the codes of a column stand for; refused where it has no numbers."""
    return Numbers(position(schema, name), code_values(schema.column(name)))


def code_values(column: Column) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The number that each ordinary code of a column stands for: its value, or the middle of its bin."""
    if column.kind == "boolean":
        return np.arange(column.regular, dtype=np.float64)
    if column.kind not in ("integer", "number"):
        wanted = "ask for its quantiles" if column.ordered else "count its values, or group by it"
        raise WorkloadError(f"{column.name!r} is of type {column.kind} and has no numbers to add up: {wanted}")
    low, high = column.lows, column.highs  # type: ignore[attr-defined]
    return np.asarray((low + high) / 2, dtype=np.float64)


def where_predicate(schema: Schema, where: Where) -> Predicate:
    """The predicate that chooses rows, in its canonical form."""
    if where is None:
        return Predicate(((),))
    if isinstance(where, str):
        return parse(schema, where)
    asked = conjunctions(schema, [where]) if isinstance(where, Mapping) else where
    if not isinstance(asked, Workload) or asked.domain != schema.domain or len(asked) != 1:
        raise WorkloadError("where is a SQL predicate, a mapping as in cs.conjunctions, or a workload of one predicate")
    query = asked.query(0)
    if not isinstance(query, Predicate):
        raise WorkloadError("where chooses rows by a predicate: parities, sums and functions choose none")
    return query


def _narrowed(chosen: Predicate, cell: Mapping[int, int], schema: Schema) -> Predicate:
    """The rows of a predicate that lie in one cell."""
    domain = schema.domain
    if chosen.boxes == ((),):
        held = (Literal(c, (code,)) for c, code in sorted(cell.items()) if domain.sizes[c] > 1)
        return Predicate((tuple(held),))
    single = [literal(domain, c, (code,)) for c, code in cell.items()]
    return predicate(domain, all_of(domain, [any_box(domain, chosen.boxes), *single]))
