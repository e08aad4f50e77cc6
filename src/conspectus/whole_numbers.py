"""Whole numbers that somebody declares: how large they may be.

The danger is a short input that hangs: a few digits more in a schema, and a loop never ends, a float overflows or the
memory is full. So every declared number has a most, which nobody meets by honest work, and is refused above it where it
is declared.
"""

from __future__ import annotations

MOST = 1 << 40
"""Rows, questions, events and units that may be declared: as floats they are exact, and their squares far from
overflowing."""

MOST_TURNS = 1 << 20
"""Rounds, evaluations and what else is worked off one by one."""

MOST_MADE = 1_000_000_000
"""Synthetic rows that are made in one call, and held in memory together."""

MOST_SEED = (1 << 63) - 1
"""The largest public seed: it fits into 64 bits with a sign, as files and databases have them."""

SEED = "public_seed is a whole number from 0 to 2**63 - 1"
"""What is said of any other."""


def whole(number: object, least: int = 1, most: int = MOST) -> bool:
    """Whether this is a whole number between these, both included. True and False are none, and 2.0 is none."""
    return isinstance(number, int) and not isinstance(number, bool) and least <= number <= most


def is_seed(number: object) -> bool:
    """Whether this may be a public seed."""
    return whole(number, 0, MOST_SEED)
