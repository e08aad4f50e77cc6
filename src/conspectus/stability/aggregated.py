"""`cs.aggregated`: any function of one's own on disjoint subsamples, and one private value of its results."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from conspectus.curator.foreign_process import rehearse
from conspectus.data.schema import Schema
from conspectus.queries.blocks.subsample_results import (
    SUM_STEPS,
    Function,
    Listed,
    Numbers,
    Results,
    SubsampleSums,
    SubsampleVotes,
    Subsampling,
)
from conspectus.queries.builders.arguments import check_schema, told
from conspectus.queries.rules import demand
from conspectus.queries.workload import Workload
from conspectus.whole_numbers import SEED, is_seed

By = Literal["mean", "median", "mode"]
Range = tuple[float, float]

MOST_BLOCKS, MOST_LEVELS, MOST_OUTPUTS = 10_000, 1 << 16, 256
MADE_ROWS = 200
"""Rows that are nobody's, on which a function is tried before it sees any that are somebody's."""


class AggregateError(ValueError):
    """What was declared of a function that runs on subsamples is not of its form, or the function fails."""


@dataclass(frozen=True, eq=False, repr=False)
class Aggregated:
    """A function of one's own, to be run on subsamples, and what is made of its results. See `cs.aggregated`.

    Attributes:
        schema: The declaration of the table.
        by: What is released of the results: their mean, median or mode.
        names: What the numbers that the function returns are called.
        subsampling: The function, the number of subsamples, and how results are read.
        trial: Whether the function is tried on made rows first.
    """

    schema: Schema
    by: By
    names: tuple[str, ...]
    subsampling: Subsampling
    trial: bool = True

    def __repr__(self) -> str:
        return f"<Aggregated: the {self.by} of {', '.join(self.names)} over {self.subsampling.count:,} subsamples>"

    @property
    def kind(self) -> str:
        return self.by

    @property
    def positions(self) -> int:
        return self.subsampling.results.levels

    def counts(self, place: int) -> Workload:
        """How many subsamples have each result, of one number that the function returns."""
        return Workload(self.schema.domain, (SubsampleVotes(self.schema.domain, self.subsampling, place),))

    def sums(self) -> Workload:
        """The sums of its numbers over all subsamples."""
        return Workload(self.schema.domain, (SubsampleSums(self.schema.domain, self.subsampling),))

    def shown(self, position: int, place: int) -> Any:
        """What a position stands for."""
        return self.subsampling.results.value(position, place)

    def ends(self, position: int, place: int) -> tuple[float, float] | None:
        """Between which numbers a result was that has this position; None where it is no number."""
        results = self.subsampling.results
        if isinstance(results, Listed):
            return None
        low, high = results.ranges[place]
        value, half = results.value(position, place), (high - low) / (results.levels - 1) / 2
        return max(low, value - half), min(high, value + half)

    def check(self) -> None:
        """Try the function on made rows, which are nobody's, unless it is not to be tried.

        Raises:
            AggregateError: It fails on them, and how.
        """
        if not self.trial:
            return
        public_seed = self.subsampling.public_seed
        draw = np.random.Generator(np.random.PCG64(public_seed))
        sizes = np.array(self.schema.domain.sizes, dtype=np.int64)
        rows = draw.integers(0, sizes, (MADE_ROWS, len(sizes)))
        results, seconds = self.subsampling.results, self.subsampling.seconds
        why = rehearse(self.subsampling.function, rows, results.steps, results.outputs, seconds=seconds)
        if why is not None:
            raise AggregateError(
                f"on {MADE_ROWS} made rows the function failed ({why}): mend it, or leave the trial out with "
                "trial=False, if it works on real rows alone"
            )


def aggregated(
    schema: Schema,
    function: Function,
    *,
    blocks: int,
    range: Range | Mapping[str, Range] | None = None,
    values: Sequence[Any] | None = None,
    by: By | None = None,
    default: Any = None,
    levels: int = 1001,
    seconds: float = 60.0,
    public_seed: int = 0,
    trial: bool = True,
) -> Aggregated:
    """Any function of the table, no sensitivity promised: it runs on disjoint subsamples, and their results are joined.

    Each row, or each id with all of its rows, lies in one of `blocks` subsamples, by a keyed hash. So one person
    changes the result of one subsample (of two where one is replaced by another), whatever the function does. What is
    released is a private mean, median or mode of these results, by `cs.release_value`. (Subsample and aggregate.)

    The function runs once for each subsample, in a process of its own. An exception, a result that is none, and a
    subsample that takes longer than `seconds` count as `default`. What it prints is thrown away; what it stores or
    sends, and how long it takes in all, is outside every guarantee.

    Args:
        schema: The declaration of the table.
        function: Receives an integer array of codes, rows × columns in schema order, with any number of rows, sorted;
            returns one number, as many numbers as there are ranges, or one of `values`.
        blocks: Into how many subsamples the table is divided. More of them are less noise, and smaller subsamples.
        range: Between which numbers results lie, as (low, high); for several results {name: (low, high)}. What lies
            outside is moved to the nearest end.
        values: In place of a range, the values that the function returns one of.
        by: "mean", "median" or "mode"; by default the median of numbers, and the mode of values.
        default: What stands for a subsample whose function fails: by default the low end of each range, or the first
            value.
        levels: To how many numbers between low and high results are rounded for a median.
        seconds: The longest that the function may run on one subsample.
        public_seed: Keys the hash that divides the table. It is public.
        trial: Whether the function is run on made rows before anything is spent, so that a mistake in it is told.

    Returns:
        What `cs.plan_value` and `cs.release_value` take.

    Raises:
        AggregateError: What was declared is not of its form.

    Example:
        >>> import numpy as np
        >>> def share_of_smokers(codes):
        ...     return codes[:, 2].mean()
        >>> cs.aggregated(schema, share_of_smokers, blocks=50, range=(0, 1))
        <Aggregated: the median of result over 50 subsamples>
    """
    check_schema(schema)
    how: str = by or ("median" if values is None else "mode")
    demand(
        AggregateError,
        (callable(function), f"a function of the codes is needed, not {told(function)}"),
        (
            type(blocks) is int and 2 <= blocks <= MOST_BLOCKS,
            f"blocks, into how many subsamples the table is divided, is a whole number from 2 to {MOST_BLOCKS:,}",
        ),
        ((range is None) != (values is None), "declare the results: range=(low, high), or values=[…], and not both"),
        (how in ("mean", "median", "mode"), f'by is "mean", "median" or "mode", not {told(by)}'),
        (
            (how == "mode") == (values is not None),
            "a mode is that of values=[…], a mean or median that of numbers in a range=(low, high)",
        ),
        (
            type(levels) is int and 2 <= levels <= MOST_LEVELS,
            f"levels, to how many numbers results are rounded, is a whole number from 2 to {MOST_LEVELS:,}",
        ),
        (_real(seconds) and seconds > 0, "seconds, the longest that the function may run on a subsample, is above 0"),
        (is_seed(public_seed), SEED),
    )
    results: Results
    names: tuple[str, ...] = ("result",)
    if values is not None:
        results = _listed(values, default)
    else:
        names, ranges = _ranges(range)
        fine = SUM_STEPS + 1 if how == "mean" else levels
        results = Numbers(ranges, fine, _defaults(names, ranges, fine, default))
    subsamples = Subsampling(function, blocks, results, float(seconds), public_seed)
    return Aggregated(schema, how, names, subsamples, trial)  # type: ignore[arg-type]


def _listed(values: Sequence[Any], default: Any) -> Listed:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise AggregateError("values is a list of what the function may return")
    if not 2 <= len(values) <= MOST_LEVELS:
        raise AggregateError(f"values are different ones, from 2 to {MOST_LEVELS:,} of them")
    listed = tuple(values)
    try:
        different = _different(listed)
    except TypeError:  # of what stands in a file, all but texts, numbers, true, false and null end here
        raise AggregateError("values are texts, numbers, None and what else has a hash, such as tuples") from None
    demand(
        AggregateError,
        (different, f"values are different ones, from 2 to {MOST_LEVELS:,} of them"),
        (default is None or default in listed, "default is one of the values"),
    )
    return Listed(listed, (0 if default is None else listed.index(default),))


def _different(values: tuple[Any, ...]) -> bool:
    """Whether no two values are equal, in time that grows as their number does, whoever chose them.

    A result is found in the list by equality, so 1, 1.0 and True are one value. Numbers are told apart by their digits:
    the hash of an integer is no secret, and many of one hash would be compared pair by pair.
    """
    digits = [_digits(value) for value in values if isinstance(value, int | float)]
    others = [value for value in values if not isinstance(value, int | float)]
    return len(set(digits)) == len(digits) and len(set(others)) == len(others)


def _digits(number: float) -> str:
    """Equal texts for equal numbers, whole ones of any size among them; NaN is like NaN here, and may stand once."""
    whole = isinstance(number, int) or number.is_integer()
    return hex(int(number)) if whole else number.hex()


def _ranges(given: Any) -> tuple[tuple[str, ...], tuple[Range, ...]]:
    named = dict(given) if isinstance(given, Mapping) else {"result": given}
    ends = [tuple(pair) if isinstance(pair, Sequence) else () for pair in named.values()]
    demand(
        AggregateError,
        (1 <= len(named) <= MOST_OUTPUTS, f"a function returns from 1 to {MOST_OUTPUTS} numbers"),
        (all(isinstance(name, str) and name for name in named), "the names of ranges are texts"),
        (
            all(len(p) == 2 and all(map(_real, p)) and 0 < float(p[1]) - float(p[0]) < math.inf for p in ends),
            "a range is a low and a higher number, as in range=(0, 1)",
        ),
    )
    return tuple(named), tuple((float(low), float(high)) for low, high in ends)


def _defaults(names: tuple[str, ...], ranges: tuple[Range, ...], levels: int, default: Any) -> tuple[int, ...]:
    """The default of each number, in steps."""
    if default is None:
        return (0,) * len(ranges)
    named = isinstance(default, Mapping)
    given: list[Any] = [default.get(name) for name in names] if named else [default] * len(names)
    inside = [_real(number) and low <= number <= high for number, (low, high) in zip(given, ranges)]
    if not all(inside) or (named and set(default) != set(names)):
        raise AggregateError("default is a number in the range, or {name: number} for each range")
    return Numbers(ranges, levels, (0,) * len(ranges)).steps(given)


def _real(number: Any) -> bool:
    try:
        return isinstance(number, numbers.Real) and not isinstance(number, bool) and math.isfinite(number)
    except OverflowError:  # a whole number that is larger than any float
        return False
