"""What a file holds is data, and is shown as such: no sign of it steers what shows it, or begins a line.

A label may hold signs that move, hide or turn around what is written beside it, or that end a line, so that what
follows looks like a line of the result.
"""

from __future__ import annotations

import html
from unicodedata import category

STANDS_FOR = "\N{REPLACEMENT CHARACTER}"


JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
"""Signs without a width that some scripts are spelled with."""


def plain(text: str) -> str:
    """A text as one line, with � for each sign that is neither seen nor a space."""
    if text.isprintable():
        return text
    return "".join(sign if _is_plain(sign) else STANDS_FOR for sign in text)


def escape(text: str) -> str:
    """A text to stand in HTML or SVG, where lines mean nothing: what is mark-up there is escaped."""
    return html.escape("".join(sign if sign in "\n\t" else plain(sign) for sign in text))


def _is_plain(sign: str) -> bool:
    return sign.isprintable() or sign in JOINERS or category(sign) == "Zs"
