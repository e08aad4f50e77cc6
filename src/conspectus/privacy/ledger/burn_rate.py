"""How fast a ledger is spent: what counted at which moment, the rate, and when nothing would be left at that rate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pyarrow as pa

from conspectus.suggestions import suggest_keywords

MONTH = timedelta(days=365.25 / 12)
_SHORTEST = timedelta(days=1)
"""A ledger that is younger has no rate."""
_LONGEST = timedelta(days=365 * 200)
"""Nobody is told a day that lies further ahead."""


@suggest_keywords
@dataclass(frozen=True, kw_only=True)
class BurnRate:
    """How fast a ledger is spent, in shares of its cap.

    Attributes:
        made: When the ledger was made.
        now: The moment until which it is counted.
        steps: After each release or session: when it began, what it is called, and the share of the cap that is spent
            by then. An open one counts with all that it reserved.
        retired: When the ledger was retired; None while it is open.

    Example:
        >>> from datetime import UTC, datetime
        >>> january, july = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC)
        >>> rate = BurnRate(made=january, now=july, steps=((january, "first", 0.25),))
        >>> rate.spent, round(rate.per_month, 3), rate.empty.year
        (0.25, 0.042, 2027)
    """

    made: datetime
    now: datetime
    steps: tuple[tuple[datetime, str, float], ...]
    retired: datetime | None = None

    @property
    def spent(self) -> float:
        """The share of the cap that is spent."""
        return self.steps[-1][2] if self.steps else 0.0

    @property
    def per_month(self) -> float | None:
        """The share of the cap that is spent in a month, on average since it was made; None for one that is younger
        than a day."""
        lived = (self.retired or self.now) - self.made
        return None if lived < _SHORTEST else self.spent * (MONTH / lived)

    @property
    def empty(self) -> datetime | None:
        """When nothing would be left at this rate; None where nothing says so, or the ledger was retired."""
        rate = self.per_month
        if not rate or self.retired is not None:
            return None
        months = (1 - self.spent) / rate
        return self.now + months * MONTH if months * MONTH < _LONGEST else None

    def __str__(self) -> str:
        rate = self.per_month
        if rate is None:
            return "it was made less than a day ago, and has no rate yet"
        said = f"{100 * rate:.3g} % of the cap a month since {self.made:%Y-%m-%d}"
        if self.retired is not None:
            return f"{said}, until it was retired on {self.retired:%Y-%m-%d}"
        return f"{said}; at this rate nothing is left in {self.empty:%B %Y}" if self.empty is not None else said


def burn_rate_of(
    lines: pa.Table, cap: float, *, made: str, now: datetime | None = None, retired: str | None = None
) -> BurnRate:
    """The burn rate of a ledger from its table of releases; moments are texts as its lines have them."""
    begun = [_moment(text) for text in lines["made"].to_pylist()]
    shares = accumulate(price / cap for price in lines["price"].to_pylist())
    return BurnRate(
        made=min([_moment(made), *begun]),
        now=max([now or datetime.now(UTC), *begun]),
        steps=tuple(zip(begun, lines["label"].to_pylist(), shares)),
        retired=None if retired is None else _moment(retired),
    )


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
