"""Lines of a result: HAVING, ORDER BY and what is printed of them, all after the numbers were found."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conspectus.queries.language.select_plan import Output, Select
from conspectus.queries.language.unanswerable import CannotQuery


@dataclass(frozen=True)
class Line:
    """One line of a result: the values of its keys, and what was found for each measure."""

    keys: tuple[Any, ...]
    measures: tuple[Any, ...]


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def value_of(expression: Any, line: Line, plan: Select) -> Any:
    """A condition or a number over one line; None where something in it is not known."""
    what, *parts = expression
    if what == "key":
        return line.keys[parts[0]]
    if what == "measure":
        return line.measures[parts[0]].value
    if what == "output":
        output = plan.outputs[parts[0]]
        return line.keys[output.key] if output.key is not None else number_of(output, line).value
    if what == "value":
        return parts[0]
    if what in ("and", "or", "not"):
        truths = [value_of(part, line, plan) for part in parts]
        if what == "not":
            return None if truths[0] is None else not truths[0]
        return all(t is True for t in truths) if what == "and" else any(t is True for t in truths)
    if what == "in":
        inner = value_of(parts[0], line, plan)
        return any(value_of(one, line, plan) == inner for one in parts[1])
    first, second = (value_of(part, line, plan) for part in parts)
    if first is None or second is None:
        return None
    try:
        return _OPERATORS[what](first, second)
    except TypeError:
        raise CannotQuery(f"{first!r} and {second!r} cannot be compared: compare numbers with numbers") from None


def rank_of(value: Any, down: bool) -> tuple[bool, Any]:
    """What lines are sorted by: what is not known comes last."""
    if value is None:
        return True, 0
    return False, _Downward(value) if down else value


@dataclass(frozen=True)
class _Downward:
    value: Any

    def __lt__(self, other: _Downward) -> bool:
        return bool(other.value < self.value)


def number_of(output: Output, line: Line) -> Any:
    assert output.measure is not None
    return line.measures[output.measure].scaled(output.factor)
