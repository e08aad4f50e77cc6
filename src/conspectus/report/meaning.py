"""What a guarantee means for one person, in numbers that a board can weigh."""

from __future__ import annotations

import math
from dataclasses import dataclass

from conspectus.privacy import composition
from conspectus.privacy.accounting import epsilon_of
from conspectus.privacy.guarantee import USUAL_DELTA, Guarantee, printed
from conspectus.privacy.relation import Neighbours

PRIORS = (0.01, 0.1, 0.5, 0.9)


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """(ε, δ) as bounds on what an attacker can learn about one unit.

    (ε, δ)-indistinguishable outputs are each within δ of outputs that are ε-indistinguishable without any δ
    (Dwork & Roth 2014, Lemma 3.17): all bounds here hold for those, and δ is the price of the difference.
    """

    epsilon: float
    delta: float
    implied: bool

    @property
    def factor(self) -> float:
        """The most by which the odds of any statement about one unit can change."""
        return math.exp(self.epsilon) if self.epsilon < 700 else math.inf

    def beliefs(self, prior: float) -> tuple[float, float]:
        """The least and the most that an attacker who believed `prior` can believe afterwards."""
        shift = math.exp(-self.epsilon)
        return prior * shift / (prior * shift + 1 - prior), prior / (prior + (1 - prior) * shift)

    @property
    def best_guess(self) -> float:
        """The most often that any attacker can tell apart two equally likely tables: (e^ε + δ)/(1 + e^ε)."""
        shift = math.exp(-self.epsilon)
        return min(1.0, (1 + self.delta * shift) / (1 + shift))


def meaning_of(guarantee: Guarantee) -> Meaning:
    """The (ε, δ) of a guarantee; of a concentrated one without δ, what it implies at a usual δ."""
    if guarantee.epsilon is not None:
        return Meaning(epsilon=guarantee.epsilon, delta=guarantee.delta, implied=False)
    delta = USUAL_DELTA + guarantee.missing
    return Meaning(epsilon=epsilon_of(guarantee.rho or 0.0, USUAL_DELTA), delta=delta, implied=True)


def group_of(guarantee: Guarantee, units: int) -> Meaning | None:
    """What a guarantee says of several units together, at the same δ where it has a ρ; None where it says nothing.

    By ρ the group has units²·ρ, and its ε at δ. Without a ρ, or where it holds but for a δ, ε grows with the units, and
    δ with the power of ε.
    """
    one = meaning_of(guarantee)
    if guarantee.rho is not None and one.delta and not guarantee.missing:
        rho = composition.group_rho(guarantee.rho, units)
        if rho == math.inf:
            return None
        return Meaning(epsilon=epsilon_of(rho, one.delta), delta=one.delta, implied=one.implied)
    epsilon, delta = composition.group(one.epsilon, one.delta, units)
    said = delta < 1 and epsilon < math.inf
    return Meaning(epsilon=epsilon, delta=delta, implied=one.implied) if said else None


def change_of(guarantee: Guarantee) -> str:
    """What the relation lets change, in words."""
    unit = "one row" if guarantee.unit == "row" else f"all rows of one {guarantee.unit}"
    if guarantee.neighbours is Neighbours.REPLACE:
        return f"{unit} replaced by anything else the schema allows"
    return f"{unit} added to the table or removed from it"


def factor_text(meaning: Meaning) -> str:
    """The odds factor, rounded up, or that it says nothing."""
    if meaning.factor > 1e6:
        return "more than a million"
    return printed(meaning.factor, 3)


def rarity(delta: float) -> str:
    """A small probability as people say it, and not smaller than it is (but for a last bit of the float)."""
    return f"1 in {math.floor(1 / delta * (1 + 1e-12)):,}" if delta > 0 else "none"


def percent(share: float, *, up: bool) -> str:
    """A probability with as many digits as it needs near 0 and 1: `up`, no less than it is; otherwise no more."""
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    tenths = math.ceil(1000 * share - 1e-9) if up else math.floor(1000 * share + 1e-9)
    if share >= 0.9995 or tenths >= 1000:
        return "over 99.9 %"
    if share < 0.0005 or tenths <= 0:
        return "under 0.1 %"
    return f"{tenths / 10:.1f} %"
