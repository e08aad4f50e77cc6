"""What a session has spent, by the kind of act that spent it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from conspectus.privacy.events import FurtherHit, ThresholdWatch
from conspectus.privacy.prices import cost_of

from .session import Session


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What was spent of a session's budget, in its currency. All of it is public.

    Attributes:
        total: The whole budget.
        watches: Spent on watches, which compare guesses with the truth.
        measurements: Spent on noisy counts: tables that were bought at the start, and answers.
        opened: How many watches there were.
        watching: Whether the last act opened a watch that has not been used up: it dies with its process.
        last: What the last watch cost.
    """

    total: float
    watches: float
    measurements: float
    opened: int
    watching: bool
    last: float

    @property
    def spent(self) -> float:
        return self.watches + self.measurements


def spending_of(session: Session) -> Spending:
    """What a session has spent so far, in every process."""
    kept = session._fresh()
    watches = last = Fraction(0)
    opened = 0
    for event in kept.events:
        if isinstance(event, ThresholdWatch | FurtherHit):
            last = cost_of(event, kept.currency, kept.neighbours).price
            watches += last
            opened += isinstance(event, ThresholdWatch)
    return Spending(
        total=float(kept.cap),
        watches=float(watches),
        measurements=float(kept.spent - watches),
        opened=opened,
        watching=bool(kept.events) and isinstance(kept.events[-1], ThresholdWatch),
        last=float(last),
    )
