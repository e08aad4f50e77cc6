"""What `cs.release_value` published: the outcomes of its acts, and the values that are read from them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from conspectus.curator.stable_statistics import LOG_STEPS, NO_SPREAD
from conspectus.data.schema import Schema
from conspectus.privacy.events import Event, to_json
from conspectus.privacy.guarantee import Guarantee
from conspectus.privacy.tails import noise_margin
from conspectus.queries.blocks.subsample_results import SUM_STEPS, Numbers
from conspectus.releases.answer import standing_notes
from conspectus.suggestions import suggest_keywords

from .aggregated import Aggregated
from .column_values import ColumnValue
from .value_file import read_fields, write_fields
from .value_plan import CHOICES, ValuePlan, mean_margin

UNSTABLE = "the value is not stable enough: a few people could change it, so nothing was published"
CHOSEN = "a choice by its rank: the plan says how many rows or subsamples may lie between, and no interval follows"
ON_SUBSAMPLES = "of the results on subsamples of the table: how far they lie from a result on all rows is not known"

IN_BINS = "of the values as the schema divides them into bins"


@dataclass(frozen=True, kw_only=True)
class SingleValue:
    """One value with its interval.

    Attributes:
        name: What it is called.
        value: The value: a number, a listed value, or the name of a bin. None where nothing was published.
        low: The true value is at least this, with the stated confidence; None where no interval would be honest.
        high: The true value is at most this.
        confidence: The probability, over the noise, with which the interval holds the truth.
        basis: "measured" (noise whose law is known), "exact" (the true value), "chosen" (by its rank), or "nothing".
        note: What must be said besides.
    """

    name: str
    value: Any
    low: Any
    high: Any
    confidence: float
    basis: str
    note: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.name}: nothing. {self.note}"
        if self.low is None:
            return f"{self.name}: {plain(self.value)}, {self.basis}"
        between = f"{self.confidence:.0%} interval {plain(self.low)} to {plain(self.high)}"
        return f"{self.name}: {plain(self.value)}, {between}, {self.basis}"


def plain(value: Any) -> str:
    """A value, or an end of its interval, as a text."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@suggest_keywords
@dataclass(frozen=True, kw_only=True, repr=False)
class ValueRelease:
    """What `cs.release_value` published; read back by `cs.load_value`.

    Attributes:
        plan: What was released, how, and what was expected of it.
        outcomes: What the private acts gave, as whole numbers: noisy sums, or positions. None where nothing was
            published.
        confidence: The probability, over the noise, with which an interval holds the truth.
        guarantee: What was spent, and whom it protects.
        events: The private acts.
    """

    plan: ValuePlan
    outcomes: tuple[int | None, ...]
    confidence: float
    guarantee: Guarantee
    events: tuple[Event, ...]

    @cached_property
    def values(self) -> tuple[SingleValue, ...]:
        """The values, in the order of their names."""
        return tuple(values_of(self.plan, self.outcomes, self.confidence))

    @property
    def value(self) -> Any:
        """The value, where there is one: None if nothing was published."""
        if len(self.values) != 1:
            raise LookupError("there are several values: take them from .values")
        return self.values[0].value

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said of all values: what the plan says, and which rows they are of."""
        return (*self.plan.notes, *standing_notes(self.schema))

    @property
    def mechanism(self) -> str:
        """By which mechanism."""
        return self.plan.mechanism

    @property
    def schema(self) -> Schema:
        """The declaration of the table."""
        return self.plan.wanted.schema

    @property
    def declared(self) -> bool:
        """Whether the acts were fixed before the first draw: whether a scale is looked for again depends on it."""
        return self.plan.wanted.kind != "interquartile-range"

    def __repr__(self) -> str:
        return f"<ValueRelease: {'; '.join(map(str, self.values))}>"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values.

        Returns:
            A dictionary that JSON can hold, where the values themselves can be.
        """
        return {
            "mechanism": self.mechanism,
            "values": [dataclasses.asdict(value) for value in self.values],
            "guarantee": {**dataclasses.asdict(self.guarantee), "warnings": list(self.guarantee.warnings)},
            "events": [to_json(event) for event in self.events],
            "notes": list(self.notes),
        }

    def save(self, path: str | Path) -> None:
        """Write it as one file that `cs.load_value` reads. A function of one's own is not in it: a file holds no code.

        Args:
            path: The file. One that exists is replaced, as a whole or not at all.

        Raises:
            CannotWriteFile: Nothing can be written there.
            AggregateError: The values that a function may return are neither texts nor numbers.
        """
        write_fields(Path(path), {field.name: getattr(self, field.name) for field in dataclasses.fields(self)})


def load_value(path: str | Path) -> ValueRelease:
    """Read back what `cs.release_value` published. It says what it said when it was saved, to the bit.

    Nothing in the file is executed and everything is checked: the acts must be those that publish these values, and
    cost no more than the guarantee says. What follows from them (values, intervals, notes) is computed afresh.

    Args:
        path: A file that `ValueRelease.save` or `conspectus value -o` wrote.

    Returns:
        The `ValueRelease`. A function of one's own is not in it; all else that was declared of it is.

    Raises:
        BadSynopsisFile: The file is not a complete, undamaged release of values that this version can read.

    Example:
        >>> import tempfile
        >>> import conspectus as cs, pyarrow as pa
        >>> column = {"type": "integer", "min": 0, "max": 99}
        >>> schema = cs.Schema.from_dict({"name": "people", "columns": {"age": column}})
        >>> table = cs.open_table(pa.table({"age": [30] * 900 + [40] * 300}), schema)
        >>> release = cs.release_value(table, cs.column_median(schema, "age"), epsilon=1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.save(f"{folder}/age.conspectus")
        ...     again = cs.load_value(f"{folder}/age.conspectus")
        >>> again.values == release.values
        True
    """
    return ValueRelease(**read_fields(Path(path)))


def values_of(plan: ValuePlan, outcomes: tuple[int | None, ...], confidence: float) -> list[SingleValue]:
    """The values that follow from what the acts of a plan gave."""
    if plan.wanted.kind == "interquartile-range":
        return [_scale(plan, outcomes, confidence)]
    if plan.law is not None:
        return [_mean(plan, place, _known(found), confidence) for place, found in enumerate(outcomes)]
    if plan.mechanism in CHOICES:
        shown = [plan.wanted.shown(_known(found), place) for place, found in enumerate(outcomes)]
        return [_value(name, value, confidence, "chosen", CHOSEN) for name, value in zip(plan.wanted.names, shown)]
    return [_tested(plan, place, found, confidence) for place, found in enumerate(outcomes)]


def _known(found: int | None) -> int:
    assert found is not None, "only a test publishes nothing"
    return found


def _mean(plan: ValuePlan, place: int, found: int, confidence: float) -> SingleValue:
    wanted = plan.wanted
    assert isinstance(wanted, Aggregated)
    assert plan.law is not None
    results = wanted.subsampling.results
    assert isinstance(results, Numbers)
    low, high = results.ranges[place]
    value = low + (high - low) * (found / (SUM_STEPS * wanted.subsampling.count))
    off = (high - low) * mean_margin(wanted, plan.law, confidence)
    ends = {"low": value - off, "high": value + off}
    return _value(wanted.names[place], value, confidence, "measured", f"the mean {ON_SUBSAMPLES}", **ends)


def _tested(plan: ValuePlan, place: int, found: int | None, confidence: float) -> SingleValue:
    """A value where it is stable; with noise, as positions, where it is nearly so."""
    wanted, test = plan.wanted, plan.tests[place]
    name, last = wanted.names[place], wanted.positions - 1
    if found is None:
        return _value(name, None, confidence, "nothing", UNSTABLE)
    off = 0 if test.noise_scale is None else noise_margin("laplace", test.noise_scale, 1, confidence)
    position, low, high = (min(max(found + moved, 0), last) for moved in (0, -off, off))
    ends = [wanted.ends(end, place) for end in (low, high)]
    note = ON_SUBSAMPLES if isinstance(wanted, Aggregated) else IN_BINS if wanted.binned else ""
    basis = "exact" if test.noise_scale is None else "measured"
    if ends[0] is None or ends[1] is None:
        return _value(name, wanted.shown(position, place), confidence, basis, note)
    return _value(name, wanted.shown(position, place), confidence, basis, note, low=ends[0][0], high=ends[1][1])


def _scale(plan: ValuePlan, outcomes: tuple[int | None, ...], confidence: float) -> SingleValue:
    """The book's Algorithm 12: bins of the logarithm, and where a bin's end is too near, bins shifted by half."""
    wanted, found = plan.wanted, outcomes[-1]
    assert isinstance(wanted, ColumnValue)
    if found is None:
        return _value(wanted.column, None, confidence, "nothing", UNSTABLE)
    scale = plan.tests[len(outcomes) - 1].noise_scale
    assert scale is not None
    off = noise_margin("laplace", scale, 1, confidence)
    note = "counted in whole bins of the schema" if wanted.binned else ""
    if found < NO_SPREAD // 2:
        return _value(wanted.column, 0.0, confidence, "exact", note, low=0.0, high=0.0)
    widest = wanted.positions - 1

    def power(steps: int) -> float:
        return float(wanted.step * min(2.0 ** min(steps / LOG_STEPS, 60.0), widest))

    # Whole steps are rounded down, so that the truth may be almost a step larger; a range that is not 0 is 1 at least.
    value, low, high = (max(power(steps), wanted.step) for steps in (found, found - off, found + off + 1))
    return _value(wanted.column, value, confidence, "measured", note, low=low, high=high)


def _value(
    name: str, value: Any, confidence: float, basis: str, note: str, *, low: Any = None, high: Any = None
) -> SingleValue:
    return SingleValue(name=name, value=value, low=low, high=high, confidence=confidence, basis=basis, note=note)
