"""Ready functions of a table and how to ask for them. Each is the share of all rows that its definition counts.

Every builder takes `given`: conditions as in `conjunctions`, one function for each (all rows by default). A function
under a condition is about the rows that satisfy it and is still a share of *all* rows: one person moves it by one row
at most, however few satisfy the condition. Positions of an ordered column are its bins, from 0 (the first) to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from conspectus.queries.block import check_length
from conspectus.queries.blocks.statistic import STATISTIC_STEPS, Statistic, Statistics
from conspectus.queries.query import Box, Literal, Predicate
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

from .arguments import (
    DeclaredColumn,
    DeclaredSchema,
    check_listable,
    check_schema,
    listed,
    pairs_of,
    position,
    positions,
)
from .conjunctions import Between, conjunctions

Condition = Mapping[str, object]
Given = Iterable[Condition] | Condition | None
_FINEST = 1 << 16
_BOUNDS = "bounds are pairs (low, high), given as a list"
_SIDES = "balances are between pairs of sets of values, given as a list"
_REFERENCES = "references are distributions, each a list of weights, given as a list"
_LISTS = "satisfied_shares takes a list of lists of conditions, as in [[{'sex': 'female'}, {'ill': True}]]"


def mode_shares(schema: DeclaredSchema, columns: Iterable[str] | None = None, *, given: Given = None) -> Workload:
    """For each condition and column: the share of rows that satisfy it and hold its most common value."""
    check_schema(schema)
    over = _columns(schema, columns)
    made = (Statistic("mode", (box,), (c,), (_codes(schema, c),)) for box in _boxes(schema, given) for c in over)
    return _workload(schema, made)


def truncated_means(
    schema: DeclaredSchema,
    column: str,
    bounds: Iterable[tuple[object, object]] | None = None,
    *,
    given: Given = None,
) -> Workload:
    """For each condition and pair (low, high): the mean of the position between the two, 0 below and 1 above them.

    The whole range of the column by default. Rows with a missing or other value count as 0.
    """
    check_schema(schema)
    at, declared = _ordered(schema, column)
    whole = [(0, declared.regular - 1)]
    ends = whole if bounds is None else [_ends(declared, *pair) for pair in pairs_of(bounds, _BOUNDS)]
    classes = _regular(schema, at)
    made = (
        Statistic("mean", (box,), (at,), (classes,), _ramp(declared.regular, low, high))
        for box in _boxes(schema, given)
        for low, high in ends
    )
    return _workload(schema, made)


def quantile_shares(
    schema: DeclaredSchema,
    column: str,
    quantiles: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9),
    *,
    given: Given = None,
) -> Workload:
    """For each condition and quantile q: what the lowest q of the rows contribute to the mean position.

    This is the generalised Lorenz curve at q. Rows with a missing or other value are left out.
    """
    check_schema(schema)
    at, declared = _ordered(schema, column)
    parts = [_quantile(q) for q in listed(quantiles, "quantiles are numbers from 0 to 1, given as a list")]
    classes, weights = _regular(schema, at), _ramp(declared.regular, 0, declared.regular - 1)
    made = (
        Statistic("quantile", (box,), (at,), (classes,), (q.numerator, q.denominator, *weights))
        for box in _boxes(schema, given)
        for q in parts
    )
    return _workload(schema, made)


def interval_balances(
    schema: DeclaredSchema,
    column: str,
    pairs: Iterable[tuple[object, object]] | None = None,
    *,
    given: Given = None,
) -> Workload:
    """For each condition and pair of disjoint sets of values: the smaller of the shares of rows in the two.

    A set is a value, a list of values or `between(low, high)`. By default each bin border cuts the column in two.
    """
    check_schema(schema)
    at, declared = _ordered(schema, column)
    if pairs is None:
        cuts = range(1, declared.regular)
        sides = [(set(range(cut)), set(range(cut, declared.regular))) for cut in cuts]
    else:
        sides = [(_chosen(schema, column, low), _chosen(schema, column, high)) for low, high in pairs_of(pairs, _SIDES)]
    if any(not low or not high or low & high for low, high in sides):
        raise WorkloadError("a balance is between two disjoint sets of values, neither of them empty")
    size = declared.size
    sorts = [tuple(0 if code in a else 1 if code in b else -1 for code in range(size)) for a, b in sides]
    made = (Statistic("balance", (box,), (at,), (classes,)) for box in _boxes(schema, given) for classes in sorts)
    return _workload(schema, made)


def kolmogorov_distances(
    schema: DeclaredSchema, column: str, references: Iterable[Sequence[float]] | None = None, *, given: Given = None
) -> Workload:
    """For each condition and reference: the largest gap between the cumulated shares of the column and the reference's.

    A reference is a public distribution over the column's ordinary values, in their order, as non-negative weights; by
    default the uniform one. It is rounded to steps of 1/256.
    """
    check_schema(schema)
    at, declared = _ordered(schema, column)
    known = [np.ones(declared.regular)] if references is None else listed(references, _REFERENCES)
    shares = [_cumulated(weights, declared.regular) for weights in known]
    classes = _regular(schema, at)
    made = (
        Statistic("reference", (box,), (at,), (classes,), share) for box in _boxes(schema, given) for share in shares
    )
    return _workload(schema, made)


def independence_distances(
    schema: DeclaredSchema, pairs: Iterable[Sequence[str]] | None = None, *, given: Given = None
) -> Workload:
    """For each condition and pair of columns: half the total variation between the joint table and the product of its
    marginals, which is 0 where the columns are independent. All pairs of columns by default."""
    check_schema(schema)
    made = (
        Statistic("independence", (box,), pair, tuple(_codes(schema, c) for c in pair))
        for box in _boxes(schema, given)
        for pair in _pairs(schema, pairs)
    )
    return _workload(schema, made)


def independence_gaps(
    schema: DeclaredSchema, pairs: Iterable[Sequence[str]] | None = None, *, given: Given = None
) -> Workload:
    """For each condition, pair of columns and pair of events: |P(A and B) − P(A)·P(B)|.

    An event is "at most this value" of an ordered column and "exactly this value" of any other.
    """
    check_schema(schema)
    made = (
        Statistic("independence", (box,), pair, (a, b))
        for box in _boxes(schema, given)
        for pair in _pairs(schema, pairs)
        for a, b in product(*(_events(schema, c) for c in pair))
    )
    return _workload(schema, made)


def satisfied_shares(schema: DeclaredSchema, lists: Iterable[Iterable[Condition]]) -> Workload:
    """For each list of conditions: how many of them a row satisfies on average, divided by their number."""
    check_schema(schema)
    made = [Statistic("satisfied", tuple(_boxes(schema, listed(several, _LISTS)))) for several in listed(lists, _LISTS)]
    return _workload(schema, made)


def _workload(schema: DeclaredSchema, functions: Iterable[Statistic]) -> Workload:
    listed = tuple(functions)
    check_length(len(listed), "this list of functions")
    return Workload(schema.domain, (Statistics(schema.domain, listed),) if listed else ())


def _boxes(schema: DeclaredSchema, given: Given) -> list[Box]:
    wanted = conjunctions(schema, [{}] if given is None else given)
    boxes = []
    for query in wanted.queries():
        assert isinstance(query, Predicate)
        if len(query.boxes) != 1:
            raise WorkloadError("no row can satisfy one of the conditions: leave it out")
        boxes.append(query.boxes[0])
    if not boxes:
        raise WorkloadError("functions need at least one condition; leave given out to ask about all rows")
    return boxes


def _columns(schema: DeclaredSchema, names: Iterable[str] | None) -> tuple[int, ...]:
    return tuple(range(len(schema.domain))) if names is None else positions(schema, names)


def _pairs(schema: DeclaredSchema, pairs: Iterable[Sequence[str]] | None) -> list[tuple[int, ...]]:
    if pairs is None:
        return list(combinations(range(len(schema.domain)), 2))
    found = [positions(schema, pair) for pair in listed(pairs, "pairs of columns are given as a list")]
    if any(len(pair) != 2 for pair in found):
        raise WorkloadError("independence is between two columns: give pairs of names")
    return found


def _ordered(schema: DeclaredSchema, column: str) -> tuple[int, DeclaredColumn]:
    at, declared = position(schema, column), schema.column(column)
    if not declared.ordered:
        raise WorkloadError(f"{column!r} has no order: this function needs an integer, number or date column")
    return at, declared


def _codes(schema: DeclaredSchema, column: int) -> tuple[int, ...]:
    """Every code a class of its own."""
    check_listable(schema, (column,))
    return tuple(range(schema.domain.sizes[column]))


def _regular(schema: DeclaredSchema, column: int) -> tuple[int, ...]:
    """Every ordinary code a class of its own; missing and other values are left out."""
    regular = schema.column(schema.domain.names[column]).regular
    return tuple(code if code < regular else -1 for code in range(schema.domain.sizes[column]))


def _events(schema: DeclaredSchema, column: int) -> list[tuple[int, ...]]:
    """In the event (1) or not (0), code by code: prefixes of an ordered column, single values of another."""
    check_listable(schema, (column,))
    declared = schema.column(schema.domain.names[column])
    size = schema.domain.sizes[column]
    if size < 2:
        return []
    if declared.ordered:
        cuts = range(1, declared.regular + (declared.regular < size))
        return [tuple(int(code < cut) for code in range(size)) for cut in cuts]
    # The two events of a two-valued column depart from independence by the same amount.
    return [tuple(int(code == value) for code in range(size)) for value in range(1 if size == 2 else size)]


def _chosen(schema: DeclaredSchema, column: str, values: object) -> set[int]:
    if not isinstance(values, Between | list | tuple | set | frozenset):
        values = [values]
    (query,) = conjunctions(schema, [{column: values}]).queries()
    assert isinstance(query, Predicate)
    literals: list[Literal] = [literal for box in query.boxes for literal in box]
    if query.boxes and not literals:
        return set(range(schema.column(column).size))
    return {code for literal in literals for code in literal.codes}


def _ends(declared: DeclaredColumn, low: object, high: object) -> tuple[int, int]:
    above, below = declared.codes_where(">=", low), declared.codes_where("<=", high)
    between = [code for code in set(above) & set(below) if code < declared.regular]
    if len(between) < 2:
        raise WorkloadError("a truncated mean needs two bins at least between its bounds: move them apart")
    return min(between), max(between)


def _ramp(size: int, low: int, high: int) -> tuple[int, ...]:
    """Weights in steps: 0 up to `low`, rising evenly, one from `high` on; a column of one bin has position 0."""
    if high == low:
        return (0,) * size
    return tuple(min(max(code - low, 0), high - low) * STATISTIC_STEPS // (high - low) for code in range(size))


def _quantile(q: float) -> Fraction:
    if isinstance(q, bool) or not isinstance(q, int | float) or not math.isfinite(q) or not 0 <= q <= 1:
        raise WorkloadError(f"a quantile lies between 0 and 1, not at {q!r}")
    return Fraction(q).limit_denominator(_FINEST)


def _cumulated(reference: Sequence[float] | NDArray[np.float64], regular: int) -> tuple[int, ...]:
    try:
        weights = np.asarray(reference, dtype=np.float64)
    except (TypeError, ValueError):
        raise WorkloadError(_REFERENCES) from None
    if weights.shape != (regular,) or not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() <= 0:
        raise WorkloadError(f"a reference has {regular} weights, zero or more: one for each ordinary value")
    return (*np.rint(np.cumsum(weights)[:-1] / weights.sum() * STATISTIC_STEPS).astype(int).tolist(), STATISTIC_STEPS)
