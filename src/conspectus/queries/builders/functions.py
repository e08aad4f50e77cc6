"""Functions of one's own, each with the sensitivity that its owner declares."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from conspectus.data.schema import Schema
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks.unsafe_functions import MOST_DENOMINATOR, RANGE, DeclaredFunction, Share, UnsafeFunctions
from conspectus.queries.refuter import examine
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.whole_numbers import MOST, whole

from .arguments import check_schema, told


def unsafe_functions(
    schema: Schema,
    functions: Mapping[str, tuple[Share, float]],
    *,
    range: tuple[float, float] | Mapping[str, tuple[float, float]] = RANGE,
    fallback: float | Mapping[str, float] | None = None,
    rows: int | None = None,
) -> Workload:
    """Arbitrary functions of the whole table, each with the sensitivity that its owner declares.

    The functions run on the private rows, in this process: what they print, store or send is outside every guarantee.
    What they return is protected, if the declared sensitivities are true.

    Args:
        schema: the declaration of the table.
        functions: {name: (function, sensitivity)}. A function receives an integer array of codes, rows × columns in
            schema order, with any number of rows, and returns a share between 0 and 1. The sensitivity is how far one
            unit may move it in a table of as many rows as the released one has; where the number of rows is private, in
            a table of any number of rows.
        range: where values are clamped to, a part of [0, 1], for all functions or as {name: (low, high)}. It is public.
        fallback: what stands for an exception and for what is no number, for all functions or as {name: value}; the
            lower end of the range by default. It is public.
        rows: with a number of rows, the declared sensitivities are put to the test at once, on made tables of that many
            rows. A release and a plan do that anyway.

    Returns:
        A workload with one query for each function, in their order.

    Raises:
        WorkloadError: a function, a sensitivity, a range or a fallback is not of its form.
        RefutedSensitivity: a made table proves a declared sensitivity wrong.

    Example:
        >>> def share_of_smokers(codes):
        ...     return codes[:, 2].mean() if len(codes) else 0.0
        >>> len(cs.unsafe_functions(schema, {"smokers": (share_of_smokers, 1 / 1000)}, rows=1000))
        1
    """
    check_schema(schema)
    if not isinstance(functions, Mapping):
        raise WorkloadError("give functions as a mapping {name: (function, sensitivity)}")
    if rows is not None and not whole(rows):
        raise WorkloadError(
            f"rows, the number of rows of made tables, is a positive integer, at most {MOST:,}, not {told(rows)}"
        )
    ranges = _each(functions, range, RANGE, "range")
    fallbacks = _each(functions, fallback, None, "fallback")
    width = len(schema.domain)
    listed = tuple(_declared(name, given, width, ranges[name], fallbacks[name]) for name, given in functions.items())
    least = min((function.most for function in listed), default=Fraction(1))
    denominator = 1 << max(0, math.ceil(1 / least) - 1).bit_length()
    if denominator > MOST_DENOMINATOR:
        raise WorkloadError(
            f"a sensitivity or range below 1/{MOST_DENOMINATOR:,} is too small to count in: declare more"
        )
    workload = Workload(schema.domain, (UnsafeFunctions(schema.domain, listed, denominator),) if listed else ())
    if rows is not None:
        unit: Any = getattr(schema, "unit", None)
        most = getattr(unit, "max_rows", 1)
        relation = Relation(getattr(schema, "neighbours", None) or Neighbours.REPLACE, most, most == 1)
        examine(workload, relation, rows=rows)
    return workload


def _each(functions: Iterable[str], given: Any, usual: Any, what: str) -> dict[str, Any]:
    """What was given for all functions, or for those that are named."""
    names = list(functions)
    if not isinstance(given, Mapping):
        return dict.fromkeys(names, given)
    strange = [name for name in given if name not in names]
    if strange:
        raise WorkloadError(f"a {what} is declared for {strange[0]!r}, and no function is called that")
    return {name: given.get(name, usual) for name in names}


def _declared(name: str, given: object, width: int, span: object, fallback: object) -> DeclaredFunction:
    if not isinstance(given, Iterable) or len(pair := tuple(given)) != 2 or not callable(pair[0]):
        raise WorkloadError(f"give {name!r} as a pair: a function of the codes, and its sensitivity")
    function, sensitivity = pair
    if not _real(sensitivity) or not 0 < sensitivity <= 1:
        raise WorkloadError(f"the sensitivity of {name!r} lies above 0 and is at most 1, like shares do")
    ends = tuple(span) if isinstance(span, Sequence) else ()
    if len(ends) != 2 or not all(map(_real, ends)):
        raise WorkloadError(f"the range of {name!r} is a pair of numbers: its low and its high end")
    if fallback is not None and not _real(fallback):
        raise WorkloadError(f"the fallback of {name!r} is a number in its range")
    low, high = float(ends[0]), float(ends[1])
    stands: Any = low if fallback is None else fallback
    return DeclaredFunction(name, Fraction(sensitivity), function, width, (low, high), float(stands))


def _real(number: Any) -> bool:
    return isinstance(number, numbers.Real) and not isinstance(number, bool) and math.isfinite(number)
