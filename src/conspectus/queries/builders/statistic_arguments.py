"""What the builders of ready functions are given, turned into conditions, classes and weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, combinations

import numpy as np
from numpy.typing import NDArray

from conspectus.data.columns.kinds import Column
from conspectus.data.schema import Schema
from conspectus.queries.blocks.statistic import FINEST, STATISTIC_STEPS
from conspectus.queries.query import Box, Literal, Predicate
from conspectus.queries.sensitivity import WorkloadError

from .arguments import check_listable, listed, position, positions
from .conjunctions import Between, conjunctions

Condition = Mapping[str, object]
Given = Iterable[Condition] | Condition | None
REFERENCES = "references are distributions, each a list of weights, given as a list"
_FINEST_QUANTILE = 1 << 20


def conditions(schema: Schema, given: Given) -> list[Box]:
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


def chosen_columns(schema: Schema, names: Iterable[str] | None) -> tuple[int, ...]:
    return tuple(range(len(schema.domain))) if names is None else positions(schema, names)


def column_pairs(schema: Schema, pairs: Iterable[Sequence[str]] | None) -> list[tuple[int, ...]]:
    if pairs is None:
        return list(combinations(range(len(schema.domain)), 2))
    found = [positions(schema, pair) for pair in listed(pairs, "pairs of columns are given as a list")]
    if any(len(pair) != 2 for pair in found):
        raise WorkloadError("independence is between two columns: give pairs of names")
    return found


def ordered(schema: Schema, column: str) -> tuple[int, Column]:
    at, declared = position(schema, column), schema.column(column)
    if not declared.ordered:
        raise WorkloadError(f"{column!r} has no order: this function needs an integer, number or date column")
    return at, declared


def every_code(schema: Schema, column: int) -> tuple[int, ...]:
    """Every code a class of its own."""
    check_listable(schema, (column,))
    return tuple(range(schema.domain.sizes[column]))


def ordinary_codes(schema: Schema, column: int) -> tuple[int, ...]:
    """Every ordinary code a class of its own; missing and other values are left out."""
    regular = schema.column(schema.domain.names[column]).regular
    return tuple(code if code < regular else -1 for code in range(schema.domain.sizes[column]))


def events(schema: Schema, column: int) -> list[tuple[int, ...]]:
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


def chosen_codes(schema: Schema, column: str, values: object) -> set[int]:
    if not isinstance(values, Between | list | tuple | set | frozenset):
        values = [values]
    (query,) = conjunctions(schema, [{column: values}]).queries()
    assert isinstance(query, Predicate)
    literals: list[Literal] = [literal for box in query.boxes for literal in box]
    if query.boxes and not literals:
        return set(range(schema.column(column).size))
    return {code for literal in literals for code in literal.codes}


def bins_between(declared: Column, low: object, high: object) -> tuple[int, int]:
    above, below = declared.codes_where(">=", low), declared.codes_where("<=", high)
    between = [code for code in set(above) & set(below) if code < declared.regular]
    if len(between) < 2:
        raise WorkloadError("a truncated mean needs two bins at least between its bounds: move them apart")
    return min(between), max(between)


def ramp(size: int, low: int, high: int) -> tuple[tuple[int, ...], int]:
    """Weights, and what stands for one: 0 up to `low`, rising evenly, one from `high` on; all 0 in a single bin."""
    rise = max(high - low, 1)
    return exact_weights(tuple(min(max(code - low, 0), high - low) for code in range(size)), rise)


def exact_weights(weights: tuple[int, ...], whole: int) -> tuple[tuple[int, ...], int]:
    """The same shares of a whole that is not the number of steps, which stands for the rounded weights of old files."""
    return (tuple(2 * weight for weight in weights), 2 * whole) if whole == STATISTIC_STEPS else (weights, whole)


def quantile(q: float) -> Fraction:
    if isinstance(q, bool) or not isinstance(q, int | float) or not math.isfinite(q) or not 0 <= q <= 1:
        raise WorkloadError(f"a quantile lies between 0 and 1, not at {q!r}")
    return Fraction(q).limit_denominator(_FINEST_QUANTILE)


def cumulated(reference: Sequence[float] | NDArray[np.float64], regular: int) -> tuple[tuple[int, ...], int]:
    """Cumulated shares, and what stands for one: exact where they have a common denominator, else to the nearest."""
    try:
        weights = np.asarray(reference, dtype=np.float64)
    except (TypeError, ValueError):
        raise WorkloadError(REFERENCES) from None
    if weights.shape != (regular,) or not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() <= 0:
        raise WorkloadError(f"a reference has {regular} weights, zero or more: one for each ordinary value")
    sums = list(accumulate(map(Fraction, weights.tolist())))
    shares = [part / sums[-1] for part in sums]
    whole = 1
    for share in shares:
        whole = math.lcm(whole, share.denominator)
        if whole >= FINEST:
            return tuple(math.floor(share * FINEST + Fraction(1, 2)) for share in shares), FINEST
    return exact_weights(tuple(int(share * whole) for share in shares), whole)
