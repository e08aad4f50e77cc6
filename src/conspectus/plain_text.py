"""What a file holds is data, and is shown as such: no sign of it steers the terminal that shows it.

A label may hold signs that move, hide or turn around what is written beside it, and so forge a line of a result.
"""

from __future__ import annotations

STANDS_FOR = "\N{REPLACEMENT CHARACTER}"


def plain(text: str, kept: str = "") -> str:
    """A text with � for each sign that cannot be printed, but for those `kept`."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in kept else STANDS_FOR for sign in text)
