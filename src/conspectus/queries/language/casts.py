"""Casts that change no value: of whole numbers and truths to numbers, and of any number to a float."""

from __future__ import annotations

import math

from sqlglot import exp

from .bounded_parser import written
from .from_sql import bare
from .unanswerable import CannotQuery

_TYPES = exp.DataType.Type
FEWEST_DIGITS = 8
"""A DECIMAL with fewer digits before the point has no room for a count."""
_FLOATS = {_TYPES.DOUBLE, _TYPES.FLOAT}
_WHOLES = {_TYPES.INT, _TYPES.BIGINT, _TYPES.INT128, _TYPES.DECIMAL}


def keeps(cast: exp.Cast, *, whole: bool) -> bool:
    """Whether a cast keeps every number, or every whole number."""
    to = cast.to.this
    return to in _FLOATS or (whole and to in _WHOLES and _whole_digits(cast.to) >= FEWEST_DIGITS)


def _whole_digits(to: exp.DataType) -> float:
    """How many digits before the point a type has; the parameters are those of DECIMAL."""
    given = [part.name for part in to.expressions]
    if not all(name.isdecimal() and len(name) < 4 for name in given):
        return 0
    width, *scale = [*map(int, given), 0] if given else [math.inf]
    return width - sum(scale)


def uncast(node: exp.Expression) -> tuple[exp.Expression, list[exp.Cast]]:
    """What stands inside casts and parentheses, and the casts."""
    casts = []
    while isinstance(node := bare(node), exp.Cast):
        casts.append(node)
        node = node.this
    return node, casts


def check_casts(casts: list[exp.Cast], *, whole: bool) -> None:
    """Refuse casts that would change a number.

    Args:
        casts: The casts around it.
        whole: Whether it is a whole number, or a truth.

    Raises:
        CannotQuery: One of them would round it, or make something else of it.
    """
    for cast in casts:
        if not keeps(cast, whole=whole):
            raise CannotQuery(
                f"{written(cast)[:60]!r} changes the number: cast it to DOUBLE, round it by ROUND(…, digits), or "
                "ask for a condition, as in x <> 0"
            )
