"""Comparisons find their bins by bisection: the same codes, refusals and words as a plain walk through all bins."""

from __future__ import annotations

import datetime
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from conspectus.data.code_sets import CodeSet, code_set
from conspectus.data.columns.column import COMPARISONS, CutsBin, UnknownValue
from conspectus.data.columns.dates import WIDTHS, Date
from conspectus.data.columns.ordered import Integer, Number, Ordered

FIRST, LAST = datetime.date.min.toordinal(), datetime.date.max.toordinal()


def holds(op: str, value: float, x: float) -> bool:
    return {"<": value < x, "<=": value <= x, ">": value > x, ">=": value >= x, "=": value == x, "<>": value != x}[op]


def parts_of(column: Ordered, op: str, x: float) -> tuple[set[int], set[int]]:
    """The bins in which a comparison holds somewhere and everywhere, one bin after the other."""
    some, every = set(), set()
    for code in range(column.regular):
        low, high = column.lows[code].item(), column.highs[code].item()
        if isinstance(column, Number):
            closed = code == column.regular - 1
            inside = low <= x < high or (closed and x == high)
            below = high < x or (not closed and high <= x)  # all of the bin
            truths = {
                "<": (low < x, below),
                "<=": (low <= x, high <= x),
                ">": (high > x, low > x),
                ">=": (high > x or (closed and high == x), low >= x),
                "=": (inside, False),
                "<>": (True, not inside),
            }
            found = truths[op]
        else:  # a bin of days or integers is looked at value by value
            each = [holds(op, value, x) for value in range(low, high + 1)]
            found = any(each), all(each)
        some |= {code} if found[0] else set()
        every |= {code} if found[1] else set()
    return some, every


def walked(column: Ordered, op: str, literal: Any, *, snap: bool) -> CodeSet | type[Exception]:
    """What a comparison means, by a plain walk."""
    x = column._read(literal)
    if x is None or (op in ("=", "<>") and not column.lows[0] <= x <= column.highs[-1]):
        return UnknownValue
    some, every = parts_of(column, op, x)
    outer = {"<": 0, "<=": 0, ">": column.regular - 1, ">=": column.regular - 1}.get(op)
    beyond = outer is not None and outer not in some
    if not snap and (some != every or beyond):
        return CutsBin
    return code_set(sorted(some | ({outer} if beyond and outer is not None else set())))


@st.composite
def columns(draw: st.DrawFn) -> Ordered:
    kind, missing = draw(st.sampled_from(("integer", "edges", "number", "date"))), draw(st.booleans())
    if kind == "integer":
        low, span = draw(st.integers(-20, 20)), draw(st.integers(0, 90))
        return Integer("c", low, low + span, width=draw(st.sampled_from((1, 1, 2, 3, 7, 50))), missing=missing)
    if kind == "edges":
        whole = sorted(draw(st.sets(st.integers(-20, 40), min_size=2, max_size=8)))
        return Integer.between("c", whole, missing=missing)
    if kind == "number":
        reals = st.one_of(st.integers(-5, 5).map(float), st.floats(-5, 5), st.sampled_from((2.0**53, 1e18)))
        return Number("c", tuple(sorted(draw(st.sets(reals, min_size=2, max_size=8)))), missing=missing)
    first = draw(st.one_of(st.integers(FIRST, LAST), st.integers(719_000, 719_500), st.just(LAST)))
    last = min(LAST, first + draw(st.sampled_from((0, 1, 6, 40, 400))))
    ends = (datetime.date.fromordinal(day) for day in (first, last))
    return Date("c", *ends, width=draw(st.sampled_from(WIDTHS)), missing=missing)


def literals(column: Ordered) -> st.SearchStrategy[Any]:
    """Edges and what lies beside them, beyond the ends, between whole numbers, and no value at all."""
    ends = [point.item() for point in (*column.lows, *column.highs)]
    if column.kind == "date":
        near = [day + step + 719_163 for day in ends for step in (-1, 0, 1, 40)]
        return st.sampled_from([datetime.date.fromordinal(min(max(day, FIRST), LAST)) for day in near] + ["no"])
    near = [end + step for end in ends for step in (-1, -0.5, 0, 0.5, 1, 90)]
    return st.sampled_from([*near, 2**53 + 1, 10**17 + 1, 10**30, -1e300, "x", "3.5"])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_comparisons_mean_what_a_walk_through_all_bins_says(data: st.DataObject) -> None:
    column = data.draw(columns())
    literal = data.draw(literals(column))
    for op in COMPARISONS:
        for snap in (False, True):
            expected = walked(column, op, literal, snap=snap)
            if isinstance(expected, type):
                with pytest.raises(expected):
                    column.codes_where(op, literal, snap=snap)
            else:
                found = column.codes_where(op, literal, snap=snap)
                assert (type(found), found) == (type(expected), expected), (op, literal, snap)
                assert column.missing_code not in found


@settings(max_examples=200, deadline=None)
@given(columns())
def test_single_bins_are_those_of_the_whole_list(column: Ordered) -> None:
    points = [(low.item(), high.item()) for low, high in zip(column.lows, column.highs)]
    assert [(column._low(code), column._high(code)) for code in range(column.regular)] == points
    assert column._ends == (points[0][0], points[-1][1])
    assert column.one_value_each == (column.kind != "number" and all(low == high for low, high in points))
    for code, (low, high) in enumerate(points):
        assert column.find(column._value(low)) == code
        assert column.find(column._value(high)) == code + (column.kind == "number" and code + 1 < column.regular)
