"""What a synopsis says about one query: a count, an interval that holds the truth, and what both rest on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from conspectus.queries.query import Linear, Query, Sparse, TableFunction

Basis = Literal["measured", "guessed", "simulated", "unguaranteed"]
"""What an answer rests on: noise whose law is known, a guess within a bound, errors of reruns on a table that is like
the synopsis, or nothing that could be said."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The count of one query, and an interval around it; both are in counts of the synopsis's total.

    The numbers are as noise left them: a count may be negative, and an interval may leave what is possible.

    Attributes:
        count: What was measured or guessed.
        low: The truth is at least this count, with the confidence that was asked for; None where no bound is honest.
        high: The truth is at most this count.
        basis: What count and interval rest on.
        share: The answer as a share of the total, where the synopsis answers in shares and not by `count`. It was
            fitted to other answers too, and may leave the interval: then the nearer end of the interval is the answer.
    """

    count: float
    low: float | None
    high: float | None
    basis: Basis
    share: float | None = None

    @property
    def width(self) -> float:
        """How wide the interval is; without end where there is none."""
        return math.inf if self.low is None or self.high is None else self.high - self.low

    @classmethod
    def within(
        cls, count: float, below: float, above: float | None = None, *, basis: Basis, share: float | None = None
    ) -> Estimate:
        """A count that exceeds the truth by at most `below`, and falls short of it by at most `above`, or `below`."""
        high = count + (below if above is None else above)
        return cls(count=count, low=count - below, high=high, basis=basis, share=share)

    def possible_ends(self, most: float) -> tuple[float, float] | None:
        """The interval, cut to what is possible: no less than 0. None where there is none.

        It is taken around the count or, where noise made that impossible, around the nearest possible one, between 0
        and `most`. That is no farther from the truth, so the interval holds as often; and large noise never shrinks it
        to a point.
        """
        if self.low is None or self.high is None:
            return None
        moved = min(max(self.count, 0.0), most) - self.count
        return max(0.0, self.low + moved), max(0.0, self.high + moved)

    def for_real_values(self, query: Query, rows: float) -> Estimate:
        """Widened by what rounding did: the interval then holds the real value of a query that is counted in steps.

        `rows` is the largest number of rows that the total may stand for.
        """
        if self.low is None or self.high is None or not isinstance(query, TableFunction | Sparse | Linear):
            return self
        slack = query.rounding(rows, self.high)
        return replace(self, low=self.low - slack, high=self.high + slack)

    @classmethod
    def unguaranteed(cls, share: float, divisor: float) -> Estimate:
        """A share of a total of `divisor` counts, without an interval."""
        return cls(count=share * divisor, low=None, high=None, basis="unguaranteed", share=share)
