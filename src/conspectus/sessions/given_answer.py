"""An answer of a session as it was given and is kept: for good, at any confidence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast, get_args

from conspectus.mechanisms.bounds import Margin
from conspectus.privacy.events import read_fraction
from conspectus.queries.rules import LARGEST
from conspectus.releases.said_counts import Said
from conspectus.synopses.estimate import Basis

UNCOUNTED = '"noises": []'
"""What stands in the margin of an answer that does not count, as the file has it."""


@dataclass(frozen=True, kw_only=True)
class Given(Said):
    """An answer; `price` is what it cost, in the session's currency."""

    price: Fraction

    @property
    def bought(self) -> bool:
        """Whether it was measured for itself: one that marginals bought in advance add up to cost nothing."""
        return self.basis == "measured" and self.price > 0

    @property
    def counts(self) -> bool:
        """Whether it counts towards the declared number of questions.

        Answers that the schema decides, or marginals bought in advance, alone or with a measurement that was bought
        later: these never come to a watch, and take none of the noise that the number was declared for.
        """
        return self.margin is None or bool(self.margin.noises)


def read_given(count: Any, basis: Any, margin: Any, price: Any) -> Given:
    """An answer as a file has it; `ValueError` for anything else."""
    sound = basis in get_args(Basis) and (margin is None) == (basis == "unguaranteed")
    if not sound or type(count) is not float or not abs(count) <= LARGEST:
        raise ValueError("an answer is a count on a basis")
    bound = None if margin is None else Margin.from_json(json.loads(margin))
    return Given(count=count, basis=cast(Basis, basis), margin=bound, price=read_fraction(price))
