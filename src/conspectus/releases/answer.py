"""One answer for a person: the number, an honest interval, and what it rests on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from conspectus.mechanisms.bounds import Certificate
from conspectus.privacy.tails import sum_quantile
from conspectus.queries.workload import Workload
from conspectus.synopses.noisy_answers import Estimate
from conspectus.synopses.synopsis import Total

Basis = Literal["measured", "guessed", "unguaranteed"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A fraction of the rows with its interval; `count` is the same in rows. No interval where none would be honest.

    The answer to a function of the table that counts no rows is a value between 0 and 1, and has no count; nor has a
    share of rows where the release does not know their number. The numbers are as noise left them, so that sums of them
    stay without bias; the text for people has what is possible, and says what was cut off.
    """

    fraction: float
    count: float | None
    low: float | None
    high: float | None
    basis: Basis
    confidence: float

    def __str__(self) -> str:
        shown = _possible(self.fraction)
        text = f"{shown:.4f}"
        if self.count is not None:
            # The count of a share that was cut is that part of the same total.
            count = self.count if shown == self.fraction else shown and self.count / self.fraction
            text += f" of the rows (about {count:,.0f})"
        if round(shown, 4) != round(self.fraction, 4):
            text += f" (noise made it {self.fraction:.4f})"
        if self.low is None or self.high is None:
            return f"{text}, no interval: the accuracy of this answer is not guaranteed"
        low, high = _possible(self.low), _possible(self.high)
        return f"{text}, {self.confidence:.0%} interval {low:.4f} to {high:.4f}, {self.basis}"


def _possible(fraction: float) -> float:
    """A share as it can be: between nothing and everything."""
    return min(max(fraction, 0.0), 1.0)


class ConfidenceError(ValueError):
    """A confidence that is not strictly between 0 and 1."""


def checked_confidence(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ConfidenceError(f"confidence lies strictly between 0 and 1, for example 0.95, not {confidence!r}")
    return confidence


def measured(estimate: Estimate, total: Total, confidence: float) -> Answer:
    """A sum of noisy cells: the interval is the exact quantile of the sum of its noises."""
    margin = margin_of(estimate, _count_confidence(total, confidence))
    return _interval(estimate.count, margin, total, confidence, "measured")


def smoothed(fraction: float, estimate: Estimate, total: Total, confidence: float) -> Answer:
    """An answer of a synopsis that was made from noisy ones, with the interval of the noisy sum for the same question.

    The synopsis may leave that interval; its answer is then moved to the nearer end.
    """
    answer = measured(estimate, total, confidence)
    assert answer.low is not None
    assert answer.high is not None
    inside = min(max(fraction, answer.low), answer.high)
    return dataclasses.replace(answer, fraction=inside, count=inside * total.divisor)


def margin_of(estimate: Estimate, confidence: float) -> float:
    """How far the noise of an estimate may have moved its count."""
    if estimate.kind is None:
        return 0.0
    return sum_quantile(estimate.kind, estimate.scale, estimate.terms, confidence) / estimate.averaged


def guessed(fraction: float, certificate: Certificate, cells: int, total: Total, confidence: float) -> Answer:
    """An answer within the certificate's bound, or a sum of `cells` such answers within that many bounds."""
    margin = cells * certificate.counts_at(_count_confidence(total, confidence))
    return _interval(fraction * total.divisor, margin, total, confidence, "guessed")


def within(count: float, margin: Callable[[float], float], total: Total, confidence: float, basis: Basis) -> Answer:
    """A count that is within `margin` of the truth, which says at any confidence how many rows that is."""
    return _interval(count, margin(_count_confidence(total, confidence)), total, confidence, basis)


class Projected(Protocol):
    """A synopsis that knows how far each of its answers may be off."""

    def interval(self, question: Workload, confidence: float) -> tuple[float, float | tuple[float, float] | None]: ...


def projected(synopsis: Projected, question: Workload, total: Total, confidence: float) -> Answer:
    """An answer of a projection: noise whose law is known, and a bound on the distortion by the rest of the table."""
    count, margin = synopsis.interval(question, _count_confidence(total, confidence))
    if margin is None:
        return unguaranteed(count / total.divisor, total, confidence)
    below, above = margin if isinstance(margin, tuple) else (margin, margin)
    return _interval(count, below, total, confidence, "guessed", above=above)


def unguaranteed(fraction: float, total: Total, confidence: float) -> Answer:
    return Answer(
        fraction=fraction,
        count=fraction * total.divisor,
        low=None,
        high=None,
        basis="unguaranteed",
        confidence=confidence,
    )


def _count_confidence(total: Total, confidence: float) -> float:
    """With a paid total the failure probability is shared by the count and the total (union bound)."""
    return confidence if total.exact else (1 + confidence) / 2


def _interval(
    count: float, margin: float, total: Total, confidence: float, basis: Basis, *, above: float | None = None
) -> Answer:
    """The interval for a count as fractions: cut to what is possible, but never so that it leaves the answer out.

    The truth is at most `margin` below the count and as much above it, or at most `above`.
    """
    slip = total.margin((1 + confidence) / 2)
    fraction = count / total.divisor
    low, high = max(0.0, count - margin), max(0.0, count + (margin if above is None else above))
    most, least = total.value + slip, total.value - slip
    return Answer(
        fraction=fraction,
        count=count,
        low=min(1.0, low / max(most, 1.0), fraction),
        high=max(min(1.0, high / least) if least >= 1 else 1.0, fraction),
        basis=basis,
        confidence=confidence,
    )
