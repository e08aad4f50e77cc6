"""A private bound on the maximum error of a finished synopsis, bought with a small declared share of the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.scores import GRID, worst_error
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import lower_quantile
from conspectus.queries.query import Sensitivity, Workload

if TYPE_CHECKING:
    from conspectus.curator.curator import Curator

    from .mechanism import Problem

FAILURE = 0.05
SCOPE = "every query of the released workload, as this synopsis answers it"


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """max |count − answer·N̂| ≤ noisy maximum + quantile of the noise, except with a stated probability.

    The noisy maximum and the noise are in grid steps (1/16 count); `total` is the public or paid number of rows.
    """

    noisy_maximum: int
    law: Noise
    total: float
    failure_probability: float = FAILURE
    scope: str = SCOPE
    holds: bool = True

    def __post_init__(self) -> None:
        numbers = (self.law.scale, self.total, self.failure_probability)
        if type(self.noisy_maximum) is not int or self.law.kind not in ("laplace", "gaussian"):
            raise ValueError("a certificate has a noisy maximum in whole steps and a known law of noise")
        if any(type(number) is not float or not 0 < number < math.inf for number in numbers):
            raise ValueError("the scale, the total and the failure probability of a certificate are above 0")
        if self.failure_probability >= 1 or type(self.holds) is not bool or not isinstance(self.scope, str):
            raise ValueError("a certificate fails with a probability below 1, and says what it covers")

    @property
    def bound(self) -> float:
        """The bound as a fraction of the rows, at the stated failure probability."""
        return self.counts_at(1 - self.failure_probability) / self.total

    def counts_at(self, confidence: float) -> float:
        """The bound in counts at any confidence: the true maximum is below noisy + t when the noise is above −t.

        The answers were rounded to the grid before they were compared, by half a step at most.
        """
        return max(0.0, (self.noisy_maximum + lower_quantile(self.law, 1 - confidence)) / GRID) + 0.5 / GRID

    def to_json(self) -> dict[str, Any]:
        return {
            "noisy_maximum": self.noisy_maximum,
            "law": list(self.law),
            "total": self.total,
            "failure_probability": self.failure_probability,
            "scope": self.scope,
            "holds": self.holds,
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Certificate:
        kind, scale = fields["law"]
        return cls(**{**fields, "law": Noise(kind, float(scale))})


def certify(
    curator: Curator,
    problem: Problem,
    *,
    workload: Workload,
    answers: NDArray[np.float64],
    total: float,
    price: Fraction,
) -> Certificate:
    """Measure the maximum error of the answers, one number of sensitivity m counts, for this price."""
    step = GRID * problem.max_rows
    law = problem.law(Sensitivity(l1=step, l2_squared=step * step, linf=step), price)
    noisy = curator.measure(worst_error(workload, answers * total), law)
    return Certificate(noisy_maximum=int(noisy[0]), law=law, total=max(total, 1.0))
