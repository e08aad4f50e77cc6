"""`cs.attacks`: what an attacker gets out of published answers, and what the promise allows to any attacker.

The attacks themselves are functions of numbers: `differencing`, `exhaustive`, `linear`, `membership`. Put them to a
release of your own, of a table whose secrets you know and may know. `run` puts them to releases of made tables, by any
mechanism at any ε, and `picture` draws the result.
"""

from __future__ import annotations

from .attack_picture import picture as picture
from .attackers import AttackError as AttackError
from .attackers import differencing as differencing
from .attackers import exhaustive as exhaustive
from .attackers import linear as linear
from .attackers import membership as membership
from .contest import AttackResult as AttackResult
from .contest import run as run
from .contest import success_bound as success_bound

__all__ = [
    "AttackError",
    "AttackResult",
    "differencing",
    "exhaustive",
    "linear",
    "membership",
    "picture",
    "run",
    "success_bound",
]
