"""`cs.local`: the local model, where nobody is trusted. Everybody randomises their own answer; a decoder reads many.

It is a module of its own. Nothing here reads a table, and no ledger counts it: each person's ε is spent by that person.
"""

from __future__ import annotations

from .randomised_response import LocalError as LocalError
from .randomised_response import LocalShare as LocalShare
from .randomised_response import RandomisedResponse as RandomisedResponse

__all__ = ["LocalError", "LocalShare", "RandomisedResponse"]
