"""Ready functions of a table and how to ask for them. Each is the share of all rows that its definition counts.

Every builder takes `given`: conditions as in `conjunctions`, one function for each (all rows by default). A function
under a condition is about the rows that satisfy it and is still a share of *all* rows: one person moves it by one row
at most, however few satisfy the condition. Positions of an ordered column are its bins, from 0 (the first) to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from conspectus.data.schema import Schema
from conspectus.queries.block import check_length
from conspectus.queries.blocks.statistic import Statistic, Statistics
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

from .arguments import check_schema, listed, pairs_of
from .statistic_arguments import (
    REFERENCES,
    Condition,
    Given,
    bins_between,
    chosen_codes,
    chosen_columns,
    column_pairs,
    conditions,
    cumulated,
    events,
    every_code,
    ordered,
    ordinary_codes,
    quantile,
    ramp,
)

_BOUNDS = "bounds are pairs (low, high), given as a list"
_SIDES = "balances are between pairs of sets of values, given as a list"
_LISTS = "satisfied_shares takes a list of lists of conditions, as in [[{'sex': 'female'}, {'ill': True}]]"


def mode_shares(schema: Schema, columns: Iterable[str] | None = None, *, given: Given = None) -> Workload:
    """For each condition and column: the share of rows that satisfy it and hold its most common value.

    Args:
        schema: the declaration of the table.
        columns: the names of the columns; all of them by default.
        given: conditions as in `conjunctions`, one function for each; all rows by default.

    Returns:
        A workload with one function for each condition and column, the columns of one condition in turn.

    Raises:
        WorkloadError: no row can satisfy a condition, or a column holds records that nobody can list.
        UnknownColumn: a column is not in the schema.

    Example:
        >>> len(cs.mode_shares(schema, ["diagnosis"], given=[{"sex": "female"}, {"sex": "male"}]))
        2
    """
    check_schema(schema)
    forms = (((c,), (every_code(schema, c),)) for c in chosen_columns(schema, columns))
    return _workload(schema, "mode", given, forms)


def truncated_means(
    schema: Schema,
    column: str,
    bounds: Iterable[tuple[object, object]] | None = None,
    *,
    given: Given = None,
) -> Workload:
    """For each condition and pair (low, high): the mean of the position between the two, 0 below and 1 above them.

    Rows with a missing or other value count as 0.

    Args:
        schema: the declaration of the table.
        column: the name of an ordered column.
        bounds: pairs (low, high) of values; the whole range of the column by default.
        given: conditions as in `conjunctions`, one function for each; all rows by default.

    Returns:
        A workload with one function for each condition and pair, the pairs of one condition in turn.

    Raises:
        WorkloadError: the column has no order, or there are not two bins between the bounds.
        UnknownColumn: the column is not in the schema.

    Example:
        >>> len(cs.truncated_means(schema, "age", [(20, 79)]))
        1
    """
    at, declared = ordered(schema, column)
    full = [(0, declared.regular - 1)]
    ends = full if bounds is None else [bins_between(declared, *pair) for pair in pairs_of(bounds, _BOUNDS)]
    classes = ordinary_codes(schema, at)
    forms = (((at,), (classes,), *ramp(declared.regular, low, high)) for low, high in ends)
    return _workload(schema, "mean", given, forms)


def quantile_shares(
    schema: Schema,
    column: str,
    quantiles: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9),
    *,
    given: Given = None,
) -> Workload:
    """For each condition and quantile q: what the lowest q of the rows contribute to the mean position.

    This is the generalised Lorenz curve at q: of t rows the lowest ⌊q·t⌋. Rows with a missing or other value are left
    out.

    Args:
        schema: the declaration of the table.
        column: the name of an ordered column.
        quantiles: numbers from 0 to 1, each taken as the nearest fraction of a denominator up to 1,048,576.
        given: conditions as in `conjunctions`, one function for each; all rows by default.

    Returns:
        A workload with one function for each condition and quantile, the quantiles of one condition in turn.

    Raises:
        WorkloadError: the column has no order, or a quantile is not between 0 and 1.
        UnknownColumn: the column is not in the schema.

    Example:
        >>> len(cs.quantile_shares(schema, "age", [0.25, 0.5, 0.75]))
        3
    """
    at, declared = ordered(schema, column)
    parts = [quantile(q) for q in listed(quantiles, "quantiles are numbers from 0 to 1, given as a list")]
    classes = ordinary_codes(schema, at)
    weights, whole = ramp(declared.regular, 0, declared.regular - 1)
    forms = (((at,), (classes,), (q.numerator, q.denominator, *weights), whole) for q in parts)
    return _workload(schema, "quantile", given, forms)


def interval_balances(
    schema: Schema,
    column: str,
    pairs: Iterable[tuple[object, object]] | None = None,
    *,
    given: Given = None,
) -> Workload:
    """For each condition and pair of disjoint sets of values: the smaller of the shares of rows in the two.

    Args:
        schema: the declaration of the table.
        column: the name of an ordered column.
        pairs: pairs of sets. A set is a value, a list of values or `between(low, high)`. By default each bin border
            cuts the column in two.
        given: conditions as in `conjunctions`, one function for each; all rows by default.

    Returns:
        A workload with one function for each condition and pair, the pairs of one condition in turn.

    Raises:
        WorkloadError: the column has no order, or two sets overlap or are empty.
        UnknownColumn: the column is not in the schema.

    Example:
        >>> len(cs.interval_balances(schema, "age"))
        4
    """
    at, declared = ordered(schema, column)
    if pairs is None:
        cuts = range(1, declared.regular)
        sides = [(set(range(cut)), set(range(cut, declared.regular))) for cut in cuts]
    else:
        sides = [
            (chosen_codes(schema, column, low), chosen_codes(schema, column, high))
            for low, high in pairs_of(pairs, _SIDES)
        ]
    if any(not low or not high or low & high for low, high in sides):
        raise WorkloadError("a balance is between two disjoint sets of values, neither of them empty")
    size = declared.size
    sorts = [tuple(0 if code in a else 1 if code in b else -1 for code in range(size)) for a, b in sides]
    return _workload(schema, "balance", given, (((at,), (classes,)) for classes in sorts))


def kolmogorov_distances(
    schema: Schema, column: str, references: Iterable[Sequence[float]] | None = None, *, given: Given = None
) -> Workload:
    """For each condition and reference: the largest gap between the cumulated shares of the column and the reference's.

    Args:
        schema: the declaration of the table.
        column: the name of an ordered column.
        references: public distributions over the column's ordinary values, each as non-negative weights in their order;
            by default the uniform one.
        given: conditions as in `conjunctions`, one function for each; all rows by default.

    Returns:
        A workload with one function for each condition and reference, the references of one condition in turn.

    Raises:
        WorkloadError: the column has no order, or a reference does not have one weight for each ordinary value.
        UnknownColumn: the column is not in the schema.

    Example:
        >>> len(cs.kolmogorov_distances(schema, "age", [[1, 2, 3, 2, 1]]))
        1
    """
    at, declared = ordered(schema, column)
    known = [np.ones(declared.regular)] if references is None else listed(references, REFERENCES)
    shares = [cumulated(weights, declared.regular) for weights in known]
    classes = ordinary_codes(schema, at)
    return _workload(schema, "reference", given, (((at,), (classes,), *share) for share in shares))


def independence_distances(
    schema: Schema, pairs: Iterable[Sequence[str]] | None = None, *, given: Given = None
) -> Workload:
    """For each condition and pair of columns: how far the two are from independent.

    This is half the total variation between the joint table and the product of its marginals, 0 where the columns are
    independent.

    Args:
        schema: the declaration of the table.
        pairs: pairs of names; all pairs of columns by default.
        given: conditions as in `conjunctions`, one function for each; all rows by default.

    Returns:
        A workload with one function for each condition and pair, the pairs of one condition in turn.

    Raises:
        WorkloadError: a pair does not name two columns, or a column holds records that nobody can list.
        UnknownColumn: a column is not in the schema.

    Example:
        >>> len(cs.independence_distances(schema, [("smoker", "diagnosis")]))
        1
    """
    check_schema(schema)
    forms = ((pair, tuple(every_code(schema, c) for c in pair)) for pair in column_pairs(schema, pairs))
    return _workload(schema, "independence", given, forms)


def independence_gaps(schema: Schema, pairs: Iterable[Sequence[str]] | None = None, *, given: Given = None) -> Workload:
    """For each condition, pair of columns and pair of events: |P(A and B) − P(A)·P(B)|.

    An event is "at most this value" of an ordered column and "exactly this value" of any other.

    Args:
        schema: the declaration of the table.
        pairs: pairs of names; all pairs of columns by default.
        given: conditions as in `conjunctions`, one function for each; all rows by default.

    Returns:
        A workload with one function for each condition, pair of columns and pair of events.

    Raises:
        WorkloadError: a pair does not name two columns, or a column holds records that nobody can list.
        UnknownColumn: a column is not in the schema.

    Example:
        >>> len(cs.independence_gaps(schema, [("smoker", "diagnosis")]))
        3
    """
    check_schema(schema)
    both = ((pair, product(*(events(schema, c) for c in pair))) for pair in column_pairs(schema, pairs))
    return _workload(schema, "independence", given, ((pair, two) for pair, all_two in both for two in all_two))


def satisfied_shares(schema: Schema, lists: Iterable[Iterable[Condition]]) -> Workload:
    """For each list of conditions: how many of them a row satisfies on average, divided by their number.

    Args:
        schema: the declaration of the table.
        lists: lists of conditions as in `conjunctions`.

    Returns:
        A workload with one function for each list.

    Raises:
        WorkloadError: what was given are no lists of conditions, or no row can satisfy a condition.
        UnknownColumn: a column is not in the schema.

    Example:
        >>> len(cs.satisfied_shares(schema, [[{"smoker": True}, {"diagnosis": "lung"}]]))
        1
    """
    check_schema(schema)
    asked = [tuple(conditions(schema, listed(several, _LISTS))) for several in listed(lists, _LISTS)]
    return _listing(schema, tuple(Statistic("satisfied", boxes) for boxes in asked))


def _workload(schema: Schema, kind: str, given: Given, forms: Iterable[tuple[Any, ...]]) -> Workload:
    """For each condition the functions of these columns, classes and numbers."""
    boxes, each = conditions(schema, given), list(forms)
    return _listing(schema, tuple(Statistic(kind, (box,), *form) for box in boxes for form in each))


def _listing(schema: Schema, functions: tuple[Statistic, ...]) -> Workload:
    check_length(len(functions), "this list of functions")
    return Workload(schema.domain, (Statistics(schema.domain, functions),) if functions else ())
