"""An answer of a session as it was given and is kept: for good, at any confidence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast, get_args

from conspectus.mechanisms.bounds import Margin
from conspectus.privacy.events import read_fraction
from conspectus.queries.rules import LARGEST
from conspectus.synopses.estimate import Basis, Estimate
from conspectus.synopses.synopsis import Total


@dataclass(frozen=True, kw_only=True)
class Given:
    """An answer; `price` is what it cost, in the session's currency."""

    count: float
    basis: Basis
    margin: Margin | None
    price: Fraction

    @property
    def bought(self) -> bool:
        """Whether it was measured for itself: one that marginals bought in advance add up to cost nothing."""
        return self.basis == "measured" and self.price > 0

    @property
    def centre(self) -> float:
        """The count that its interval lies around."""
        return self.count if self.margin is None or self.margin.centre is None else self.margin.centre

    def estimate(self, confidence: float, total: Total) -> Estimate:
        """It with its interval, in counts of the total."""
        if self.margin is None:
            return Estimate.unguaranteed(self.count / total.divisor, total.divisor)
        return self.margin.estimate(self.count, confidence, basis=self.basis, divisor=total.divisor)


def read_given(count: Any, basis: Any, margin: Any, price: Any) -> Given:
    """An answer as a file has it; `ValueError` for anything else."""
    sound = basis in get_args(Basis) and (margin is None) == (basis == "unguaranteed")
    if not sound or type(count) is not float or not abs(count) <= LARGEST:
        raise ValueError("an answer is a count on a basis")
    bound = None if margin is None else Margin.from_json(json.loads(margin))
    return Given(count=count, basis=cast(Basis, basis), margin=bound, price=read_fraction(price))
