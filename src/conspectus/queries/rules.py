"""Rules that values keep when they are made, each with the sentence for whoever breaks it."""

from __future__ import annotations


def demand(error: type[Exception], *rules: tuple[object, str]) -> None:
    """Raise an error for the first rule that is broken: each is what must be true, and what to say if it is not.

    All conditions are evaluated before the first is looked at, so each has to make sense on its own.
    """
    for holds, why in rules:
        if not holds:
            raise error(why)
