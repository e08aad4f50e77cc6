"""The same acts priced by several theorems, so that a reader sees what the choice of theorem is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from conspectus.privacy import composition
from conspectus.privacy.accounting import epsilon_of, price_pure, price_rho
from conspectus.privacy.events import Event, ExponentialDraws, GaussianNoise, MixedGaussianNoise, NoisyMaxima, RowTotal
from conspectus.privacy.prices import Unpriced, gaussian_acts
from conspectus.privacy.relation import Neighbours

MOST_ACTS = 1_000_000
MOST_RHO = 10**12
"""Beyond this ρ no ε is worth showing."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """The ε at δ that one theorem proves; None where it says nothing."""

    theorem: str
    epsilon: float | None


def comparison(events: Sequence[Event], delta: float, neighbours: Neighbours) -> tuple[Price, ...]:
    """ε at δ by basic composition, Theorem 3.20 and concentrated composition, each on its own.

    An act with Gaussian noise has no ε of its own. For the first two theorems it is given one at a share of δ by the
    tight conversion: half of δ is spread over such acts, and Theorem 3.20 takes the other half.
    """
    acts = [event for event in events if not isinstance(event, RowTotal)]
    noisy = sum(isinstance(event, GaussianNoise | MixedGaussianNoise) for event in acts)
    pure = not noisy
    try:
        rho = sum((price_rho(event, neighbours) for event in acts), Fraction(0))
        if noisy and not delta:
            return ()
        alone = _epsilons(acts, delta / noisy if noisy else 0.0, neighbours)
        halved = _epsilons(acts, delta / 2 / noisy if noisy else 0.0, neighbours)
    except Unpriced:
        return ()
    added, _ = composition.basic((epsilon, 0.0) for epsilon in alone)
    said = [Price(theorem="basic composition (Theorems 3.14 and 3.16)", epsilon=added)]
    if delta:
        slack = delta if pure else delta / 2
        advanced = composition.advanced_heterogeneous(halved, slack) if max(halved, default=0.0) < 300 else None
        said.append(Price(theorem="advanced composition (Theorem 3.20, unequal acts)", epsilon=advanced))
        converted = epsilon_of(rho, delta) if rho < MOST_RHO else None
        said.append(Price(theorem="concentrated composition, tight conversion", epsilon=converted))
        noise = gaussian_acts(acts, neighbours)
        exact = math.inf if not noise or rho >= MOST_RHO else composition.gaussian_epsilon(noise, delta)
        said += [Price(theorem="Gaussian noise alone, composed exactly", epsilon=exact)] if exact < math.inf else []
    return tuple(said)


def _epsilons(acts: Sequence[Event], delta: float, neighbours: Neighbours) -> list[float]:
    """The ε of every act on its own, draws counted one by one."""
    found: list[float] = []
    for act in acts:
        if isinstance(act, GaussianNoise | MixedGaussianNoise):
            found.append(epsilon_of(price_rho(act, neighbours), delta))
        elif isinstance(act, ExponentialDraws | NoisyMaxima) and 0 < act.draws <= MOST_ACTS:
            found += [float(price_pure(act, neighbours) / act.draws)] * act.draws
        else:
            found.append(float(price_pure(act, neighbours)))
    return found
