"""What is proved of errors: a private bound on the largest one of a release, the potential of boosting, and how far one
answer of a session may be off."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from conspectus.curator.scores import ERROR_STEPS, LOG_WEIGHT_STEPS, ROUNDED
from conspectus.privacy.events import Noise
from conspectus.privacy.mixed_noise import Term, mixed_margin
from conspectus.privacy.tails import lower_quantile, noise_margin
from conspectus.queries.rules import LARGEST, demand
from conspectus.synopses.estimate import Basis, Estimate
from conspectus.synopses.measured_sums import NoisySum
from conspectus.synopses.pooled_marginals import CombinedSum, PooledSum
from conspectus.synopses.synopsis import checked_noise

FAILURE = 0.05
"""How often a bound may fail, unless another probability is asked for."""

SCOPE = "every query of the released workload, as this synopsis answers it"
POTENTIAL_SCOPE = "every query of the released workload, as the weighted median with the rates of the run answers it"


def _check(noisy: int, law: Noise, failure: float, scope: str, size: float) -> None:
    """What every certificate keeps, whether it was measured just now or read from a file."""
    known = type(noisy) is int and law.kind in ("laplace", "gaussian") and isinstance(scope, str)
    numbers = all(type(number) is float and 0 < number < math.inf for number in (law.scale, failure, size))
    demand(
        ValueError,
        (known, "a certificate has a noisy number in whole steps, a known law of noise, and a scope"),
        (numbers, "the scale, the size and the failure probability of a certificate are above 0"),
        (numbers and failure < 1, "a certificate fails with a probability below 1"),
    )


@dataclass(frozen=True, kw_only=True)
class Potential:
    """A noisy ln Z of boosting: a question that the ensemble answers worse than λ + μ alone would make it 0 or more.

    So where ln Z is below 0, every question is within `inaccurate` = λ + μ, in counts. `noisy` and the noise are in
    steps of 2⁻²⁰.
    """

    noisy: int
    law: Noise
    inaccurate: float
    failure_probability: float = FAILURE
    scope: str = POTENTIAL_SCOPE

    def __post_init__(self) -> None:
        _check(self.noisy, self.law, self.failure_probability, self.scope, self.inaccurate)

    @property
    def upper(self) -> float:
        """ln Z is at most this, except with the stated probability; it was rounded down, by less than a step."""
        return (self.noisy + lower_quantile(self.law, self.failure_probability) + 2) / LOG_WEIGHT_STEPS

    @property
    def holds(self) -> bool:
        """Whether it proves its bound."""
        return self.upper < 0

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "law": list(self.law)}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Potential:
        kind, scale = fields["law"]
        return cls(**{**fields, "law": Noise(kind, float(scale))})


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A bound on the maximum error of a release: max |count − answer·N̂| ≤ noisy maximum + quantile of the noise.

    Attributes:
        noisy_maximum: The largest error with noise on it, in grid steps (1/16 count).
        law: The law of that noise, in grid steps.
        total: N̂, the public or paid number of rows.
        failure_probability: How often the bound may fail, over the noise.
        scope: Which answers it is about, in words.
        holds: Whether it says anything. Answers and truths are shares, and no two shares are more than 1 apart.
        slip: How far a paid total may be off, in counts, except with half the failure probability.
        potential: Boosting's own proof, where one was bought.

    Example:
        >>> bound = Certificate(noisy_maximum=160, law=Noise("laplace", 16.0), total=1000.0)
        >>> round(bound.bound, 4), bound.holds
        (0.0131, True)
    """

    noisy_maximum: int
    law: Noise
    total: float
    failure_probability: float = FAILURE
    scope: str = SCOPE
    holds: bool = True
    slip: float = 0.0
    potential: Potential | None = None

    def __post_init__(self) -> None:
        _check(self.noisy_maximum, self.law, self.failure_probability, self.scope, self.total)
        if type(self.holds) is not bool or type(self.slip) is not float or not 0 <= self.slip < math.inf:
            raise ValueError("a certificate holds or does not, and its total may be off by a number from 0 on")

    @property
    def bound(self) -> float:
        """The bound as a fraction of the rows, at the stated failure probability or better.

        With |c − aN̂| ≤ B and |N − N̂| ≤ s, an answer a ≤ 1 is within (B + s)/(N̂ − s) of c/N. Half of the failure
        probability is for B; the other half is for a paid N̂, and left over where N is known: a bound that fails just
        as often as it says would be seen to fail more often in every other count of runs. No two shares are more
        than 1 apart, and `certify` is given shares alone.
        """
        counts = self.counts_at(1 - self.failure_probability / 2) + self.slip
        return min(1.0, counts / max(self.total - self.slip, 1.0))

    @property
    def vacuous(self) -> bool:
        """Whether the bound says no more than that answers are shares: the noise on it was larger than the table."""
        return self.bound >= 1

    def counts_at(self, confidence: float) -> float:
        """The bound in counts at any confidence: the true maximum is below noisy + t when the noise is above −t.

        What was compared had been rounded to the grid.
        """
        return (
            max(0.0, (self.noisy_maximum + lower_quantile(self.law, 1 - confidence)) / ERROR_STEPS)
            + ROUNDED / ERROR_STEPS
        )

    def to_json(self) -> dict[str, Any]:
        potential = None if self.potential is None else self.potential.to_json()
        return {**vars(self), "law": list(self.law), "potential": potential}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Certificate:
        kind, scale = fields["law"]
        potential = fields.get("potential")
        known = None if potential is None else Potential.from_json(potential)
        return cls(**{**fields, "law": Noise(kind, float(scale)), "potential": known})


@dataclass(frozen=True, kw_only=True)
class Margin:
    """How far an answer may be from the truth, in counts, at any confidence.

    The distance is at most the sum of its parts. Each of `noises`, `summed` and `mixed` gets an even share of the
    failure probability, and each draw of an entry an even share of that (union bound). A measured answer has offset 0
    and one draw. A guessed one has the threshold as its offset, and the draws of the watch. An answer that earlier
    measurements decide has the noises of their best estimate, and the interval lies around that estimate.

    Attributes:
        offset: What needs no chance, in counts.
        noises: Pairs (law, times), each for the largest of `times` draws of a law in counts.
        summed: None, or (law, terms, parts): a sum of `terms` draws, divided by `parts`.
        mixed: The noises of one weighted sum, by law and size of weight.
        centre: The count that the distance is from; None where it is the answer itself.
        grid: The draws of `noises` lie on a grid of so many steps to a count. Where the noise is small, its quantile
            depends on the grid.
    """

    offset: float = 0.0
    noises: tuple[tuple[Noise, int], ...] = ()
    summed: tuple[Noise, int, int] | None = None
    grid: int = 1
    mixed: tuple[Term, ...] = ()
    centre: float | None = None

    def estimate(self, count: float, confidence: float, *, basis: Basis, divisor: float) -> Estimate:
        """An answer with its interval; `divisor` is the number of rows that shares are of.

        Around a centre, the interval is that of the centre, and the answer a share beside it.
        """
        reach = self.counts_at(confidence)
        if self.centre is None:
            return Estimate.within(count, reach, basis=basis)
        return Estimate.within(self.centre, reach, basis=basis, share=count / divisor)

    def counts_at(self, confidence: float) -> float:
        """A bound that holds with this probability."""
        failure = (1 - confidence) / max(len(self.noises) + (self.summed is not None) + bool(self.mixed), 1)
        counts = self.offset
        for law, times in self.noises:
            counts += _quantile(Noise(law.kind, law.scale * self.grid), 1, 1 - failure / times) / self.grid
        if self.summed is not None:
            law, terms, parts = self.summed
            counts += _quantile(law, terms, 1 - failure) / parts
        return counts + mixed_margin(self.mixed, 1 - failure)

    def to_json(self) -> dict[str, Any]:
        noises = [[law.kind, law.scale, times] for law, times in self.noises]
        summed = None if self.summed is None else [*self.summed[0], *self.summed[1:]]
        fields: dict[str, Any] = {"offset": self.offset, "noises": noises, "summed": summed, "grid": self.grid}
        if self.mixed:
            by_law: dict[Noise, list[list[float]]] = {}
            for law, weight, times in self.mixed:
                by_law.setdefault(law, []).append([weight, times])
            fields["mixed"] = [[*law, weights] for law, weights in by_law.items()]
        return fields if self.centre is None else {**fields, "centre": self.centre}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Margin:
        """The inverse of `to_json`; refuses anything else."""
        noises = tuple((checked_noise(kind, scale), times) for kind, scale, times in fields["noises"])
        offset = fields["offset"]
        if type(offset) not in (int, float) or not 0 <= offset <= LARGEST:
            raise ValueError("the offset of a margin is a number of rows")
        summed = None
        if fields["summed"] is not None:
            kind, scale, terms, parts = fields["summed"]
            summed = (checked_noise(kind, scale), terms, parts)
        grid = fields["grid"]
        mixed = tuple(
            (checked_noise(kind, scale), weight, times)
            for kind, scale, weights in fields.get("mixed", ())
            for weight, times in weights
        )
        counts = [grid, *(times for _, times in noises), *(summed[1:] if summed else ()), *(one[2] for one in mixed)]
        if any(type(times) is not int or times < 1 for times in counts):
            raise ValueError("the noises of a margin are drawn once or more")
        centre = fields.get("centre")
        numbers = [*(weight for _, weight, _ in mixed), *(() if centre is None else (centre,))]
        if any(type(number) is not float or not abs(number) <= LARGEST for number in numbers):
            raise ValueError("a margin weighs its noises, and lies around a count")
        if any(weight <= 0 for _, weight, _ in mixed):
            raise ValueError("the weights of a margin are sizes")
        return cls(offset=float(offset), noises=noises, summed=summed, grid=grid, mixed=mixed, centre=centre)


def margin_around(held: NoisySum | PooledSum | CombinedSum) -> Margin:
    """The margin of a count that several measurements tell together; it lies around what they tell."""
    if not isinstance(held, NoisySum):
        return Margin(mixed=held.terms, centre=held.count)
    law = None if held.kind is None else (Noise(held.kind, held.scale), held.terms, held.averaged)
    return Margin(summed=law, centre=held.count)


@lru_cache(maxsize=1024)
def _quantile(law: Noise, terms: int, confidence: float) -> int:
    """Many answers share one law: their quantile is found once."""
    return noise_margin(law.kind, law.scale, terms, confidence)
