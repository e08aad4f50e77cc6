"""One answer for a person: the number, an honest interval, and what both rest on."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import pyarrow as pa

from conspectus.data.schema import Schema
from conspectus.queries.query import Predicate, Query
from conspectus.synopses.estimate import Basis, Estimate
from conspectus.synopses.moment_estimates import MomentEstimate
from conspectus.synopses.synopsis import Total
from conspectus.tabular import Bars, Tabular


@dataclass(frozen=True, kw_only=True)
class Answer(Tabular):
    """A fraction of the rows with its interval.

    The numbers are as noise left them, so that sums of them stay without bias: a fraction may lie a little outside 0 to
    1. The text for people has what is possible, and says what was cut off.

    Attributes:
        fraction: The share of the rows. Of a function that counts no rows, its value between 0 and 1.
        count: The same in rows. None for a function that counts no rows, and where the number of rows is not known.
        low: The true fraction is at least this, with the stated confidence; None where no interval would be honest.
        high: The true fraction is at most this.
        basis: What the answer rests on: "measured" (noise whose law is known), "guessed" (a guess within a bound),
            "simulated" (errors of reruns on tables drawn from the release) or "unguaranteed" (no interval).
        confidence: The probability, over the noise, with which the interval holds the truth. Of a simulated interval:
            how often such intervals held it in reruns, widened for what real tables hold beyond their synopsis.
        question: The question that was answered, as a predicate: what was asked, or the whole bins that it was widened
            to. None where a workload was asked.
        notes: What must be said besides, such as values that the schema counts as others.
        value: A sum, mean, variance, covariance or quantile in the column's own units; `low` and `high` are then its
            interval, `count` and `fraction` the rows that it is over. None for a fraction of the rows.

    Example:
        >>> answer = Answer(fraction=0.25, count=50.0, low=0.2, high=0.3, basis="measured", confidence=0.95)
        >>> print(answer)
        0.2500 of the rows (about 50), 95% interval 0.2000 to 0.3000, measured
    """

    fraction: float
    count: float | None
    low: float | None
    high: float | None
    basis: Basis
    confidence: float
    question: str | None = None
    notes: tuple[str, ...] = ()
    value: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values, by the names of its attributes."""
        return {**dataclasses.asdict(self), "notes": list(self.notes)}

    def to_arrow(self) -> pa.Table:
        """The answer as a table of one line."""
        return pa.Table.from_pylist([{**self.to_dict(), "notes": "; ".join(self.notes)}])

    def _heading(self) -> str:
        return str(self)

    def _bars(self) -> Bars:
        label = self.question or "answer"
        return Bars(labels=[label], sizes=[self.fraction], lows=[self.low], highs=[self.high], axis="share of the rows")

    def __str__(self) -> str:
        if self.value is not None:
            return self._of_value(self.value)
        ends = None if self.low is None or self.high is None else (_possible(self.low), _possible(self.high))
        shown, digits = _possible(self.fraction), 4 if ends is None else _digits(*ends, least=4)
        text = f"{shown:.{digits}f}"
        if self.count is not None:
            # The count of a share that was cut is that part of the same total.
            count = self.count if shown == self.fraction else shown and self.count / self.fraction
            text += f" of the rows (about {count:,.0f})"
        if round(shown, digits) != round(self.fraction, digits):
            text += f" (noise made it {self.fraction:.{digits}f})"
        return self._with_interval(text, ends, digits)

    def _of_value(self, value: float) -> str:
        ends = None if self.low is None or self.high is None else (self.low, self.high)
        digits = 4 if ends is None else _digits(*ends, least=0)
        text = f"{value:,.6g}" if ends is None else f"{value:,.{digits}f}"
        if self.count is not None:
            text += f" over about {max(self.count, 0):,.0f} rows"
        return self._with_interval(text, ends, digits)

    def _with_interval(self, text: str, ends: tuple[float, float] | None, digits: int) -> str:
        if ends is None:
            text += ", no interval: the accuracy of this answer is not guaranteed"
        else:
            # The ends are rounded outward: what is printed holds the truth as often as what was found.
            low = math.floor(ends[0] * 10**digits + _TINY) / 10**digits
            high = math.ceil(ends[1] * 10**digits - _TINY) / 10**digits
            text += f", {self.confidence:.0%} interval {low:,.{digits}f} to {high:,.{digits}f}, {self.basis}"
        return "; ".join([text, *self.notes])


_TINY = 1e-6
"""Of the last digit that is printed: what floats lose is no reason to round outward."""


def _digits(low: float, high: float, *, least: int) -> int:
    """How many digits tell the ends of an interval apart: two more than its width needs to be seen, or `least`."""
    return 4 if high <= low else min(max(least, 1 - math.floor(math.log10(high - low))), 12)


def _possible(fraction: float) -> float:
    """A share as it can be: between nothing and everything."""
    return min(max(fraction, 0.0), 1.0)


NEAREST = 1e-12
"""How near to 0 or 1 a confidence may be. Nearer ones are lost to rounding when noises share what may fail: a question
that was paid for would then have no interval."""


class ConfidenceError(ValueError):
    """A confidence that is not strictly between 0 and 1, or nearer than 1e-12 to one of them."""


def checked_confidence(confidence: float) -> float:
    """The confidence, refused unless it lies strictly between 0 and 1, and no nearer to them than 1e-12."""
    if not isinstance(confidence, Real):
        raise ConfidenceError(f"confidence is a number between 0 and 1, for example 0.95, not {str(confidence)[:40]!r}")
    if not NEAREST <= confidence <= 1 - NEAREST:
        near = f", by {NEAREST:g} or more" if 0 < confidence < 1 else ""
        raise ConfidenceError(f"confidence lies strictly between 0 and 1{near}, for example 0.95, not {confidence!r}")
    return confidence


def count_confidence(total: Total, confidence: float) -> float:
    """The confidence that a count needs for its share of the total to have the given one.

    A total that was paid for may be wrong too: it and the count share the failure probability (union bound).
    """
    return confidence if total.exact else (1 + confidence) / 2


def standing_notes(schema: Schema) -> tuple[str, ...]:
    """What stands beside every number of a table: of an id with many rows some are left out, and are in no count."""
    unit = schema.unit
    if unit.kind != "id":
        return ()
    return (f'numbers are of the rows that are used: at most {unit.max_rows:,} of each "{unit.column}"',)


def value_answer(found: MomentEstimate, total: Total, confidence: float, notes: tuple[str, ...]) -> Answer:
    """A sum, mean, variance or covariance as an answer in the units of its columns."""
    share = 1.0 if found.count is None else found.count / total.divisor
    return Answer(
        fraction=share,
        count=found.count,
        low=found.low,
        high=found.high,
        basis=found.basis,
        confidence=confidence,
        notes=notes,
        value=found.value,
    )


def answer_of(estimate: Estimate, total: Total, confidence: float, query: Query) -> Answer:
    """An estimate in counts as an answer in fractions.

    The interval is cut to what is possible, but never so that it leaves the count out. It is taken around the count or,
    where noise made that impossible, around the nearest possible one. That is no farther from the truth, so the
    interval holds as often; and large noise never shrinks it to a point. An answer in shares that leaves its interval
    is moved to the nearer end. What the schema says of every row is no estimate: it is all rows or none.

    Args:
        estimate: An estimate that holds at `count_confidence(total, confidence)`.
        total: The number of rows that fractions are of.
        confidence: The probability with which the interval of the answer holds.
        query: What is asked, whose real value the interval holds.
    """
    if isinstance(query, Predicate) and query.decided is not None:
        return _by_schema(query.decided, total, confidence)
    divisor, slip = total.divisor, total.margin((1 + confidence) / 2)
    most, least = total.value + slip, total.value - slip
    estimate = estimate.for_real_values(query, most)
    if estimate.low is None or estimate.high is None:
        share = estimate.count / divisor if estimate.share is None else estimate.share
        return Answer(
            fraction=share, count=share * divisor, low=None, high=None, basis="unguaranteed", confidence=confidence
        )
    fraction = estimate.count / divisor
    moved = min(max(estimate.count, 0.0), max(most, 1.0)) - estimate.count
    low, high = max(0.0, estimate.low + moved), max(0.0, estimate.high + moved)
    answer = Answer(
        fraction=fraction,
        count=estimate.count,
        low=(lowest := min(1.0, low / max(most, 1.0), fraction)),
        high=(highest := max(min(1.0, high / least) if least >= 1 else 1.0, fraction)),
        basis=estimate.basis,
        confidence=confidence,
    )
    if estimate.share is None:
        return answer
    inside = min(max(estimate.share, lowest), highest)
    return dataclasses.replace(answer, fraction=inside, count=inside * divisor)


def _by_schema(every: bool, total: Total, confidence: float) -> Answer:
    share = float(every and (total.value > 0 or not total.exact))  # a share of no rows is 0
    return Answer(
        fraction=share, count=share * total.divisor, low=share, high=share, basis="measured", confidence=confidence
    )
