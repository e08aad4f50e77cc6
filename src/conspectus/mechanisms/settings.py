"""What a setting of a mechanism may be, and what is said of one that it may not."""

from __future__ import annotations

from fractions import Fraction

from conspectus.queries.rules import demand

LEAST_SHARE = 1e-9
"""A smaller share buys nothing, and leads out of the numbers that floats hold."""

SHARE = f"lies between {LEAST_SHARE:.9f} and {1 - LEAST_SHARE:.9f}"
"""What is said of a number that `is_share` refuses."""


class SettingError(ValueError):
    """A setting of a mechanism that is misspelt or out of range."""


def check_settings(*rules: tuple[object, str]) -> None:
    """Raise `SettingError` for the first broken rule: each is what must be true, and what to say if it is not."""
    demand(SettingError, *rules)


def is_share(number: float | Fraction, *, or_nothing: bool = False) -> bool:
    """Whether a number is a share that leaves something on either side; or an error to aim at, a share of the rows."""
    return LEAST_SHARE <= number <= 1 - LEAST_SHARE or (or_nothing and number == 0)
