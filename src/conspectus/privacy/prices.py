"""What each private act costs, in either currency and under either relation: exact rationals.

An act that has no bound under a relation, or no meaning in a currency, is refused and never guessed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, assert_never

from .events import (
    Approximate,
    ByRelation,
    Event,
    ExponentialDraws,
    FurtherHit,
    GaussianNoise,
    LaplaceNoise,
    MixedGaussianNoise,
    NoisyMaxima,
    RowTotal,
    StableKeys,
    StableValue,
    ThresholdWatch,
)
from .relation import Neighbours

Currency = Literal["pure", "zcdp"]

_LONGEST = 1 << 12  # bits of a running total's denominator; beyond it the total is rounded up


class Unpriced(ValueError):
    """An act that has no price in this currency or under this neighbouring relation."""


def price_pure(event: Event, neighbours: Neighbours) -> Fraction:
    """The ε of an act under a relation: acts add up (Theorem 3.14)."""
    match event:
        case LaplaceNoise():
            return _bound(event.l1, neighbours) / _positive(event.scale)
        case ExponentialDraws():
            return _bound(event.range, neighbours) * _times(event.draws)
        case NoisyMaxima():
            return _bound(event.epsilon, neighbours) * _times(event.draws)
        case ThresholdWatch() | FurtherHit():
            return _bound(event.epsilon, neighbours)
        case GaussianNoise() | MixedGaussianNoise():
            raise Unpriced("Gaussian noise is never pure: allow a delta above 0, or use Laplace noise")
        case StableKeys():
            raise Unpriced("published keys are never pure: allow a delta above 0")
        case StableValue():
            raise Unpriced("a value that is published where it is stable is never pure: allow a delta above 0")
        case RowTotal():
            return _free_total(neighbours)
    assert_never(event)


def price_rho(event: Event, neighbours: Neighbours) -> Fraction:
    """The ρ of an act under a relation: acts add up (Bun & Steinke 2016).

    Laplace: every coordinate moved by Δ is (Δ/b)-pure and so (Δ/b)²/2; independent coordinates add to L2²/2b².
    Gaussian: L2²/2σ², for discrete noise on integers too (Canonne, Kamath & Steinke 2020, Theorem 14). Of several
    scales: half of the sum of the squared shifts, each over its own σ².
    Exponential mechanism: range²/8 a draw, by bounded range (Cesar & Rogers 2021).
    Noisy maxima: ε²/2 a draw, as any pure act.
    """
    match event:
        case LaplaceNoise():
            return _bound(event.l2_squared, neighbours) / (2 * _positive(event.scale) ** 2)
        case GaussianNoise():
            return _bound(event.l2_squared, neighbours) / (2 * _positive(event.sigma_squared))
        case MixedGaussianNoise():
            return _bound(event.shift_squared, neighbours) / 2
        case ExponentialDraws():
            return _bound(event.range, neighbours) ** 2 / 8 * _times(event.draws)
        case NoisyMaxima():
            return _bound(event.epsilon, neighbours) ** 2 / 2 * _times(event.draws)
        case ThresholdWatch():
            return _bound(event.epsilon, neighbours) ** 2 / 2
        case FurtherHit():
            raise Unpriced("a threshold that is kept after a hit has a pure price alone: open a new watch for each hit")
        case StableKeys():
            raise Unpriced("published keys have a delta of their own beside their rho: both have to be counted")
        case StableValue():
            raise Unpriced("a stable value has a delta of its own beside its rho: both have to be counted")
        case RowTotal():
            return _free_total(neighbours)
    assert_never(event)


def price_approximate(event: Approximate, neighbours: Neighbours) -> tuple[Fraction, Fraction]:
    """(ε, δ) of published keys, or of a stable value: Laplace noise, and the chance that what is a unit's own shows.

    P(Z ≥ t) = p^t/(1 + p) with p = e^(−1/b): a unit has at most `rows` keys of its own, each with at most as many rows.
    A value that one unit changes has a distance of at most `moved`. δ is rounded up.

    Guarantee: the act is (ε, δ)-differentially private, and δ-approximately ε²/2-zero-concentrated.
    """
    scale = _positive(event.scale)
    if isinstance(event, StableValue):
        moved = _bound(event.moved, neighbours)
        if event.threshold - moved < 1:
            raise Unpriced("a threshold has to lie above what one unit moves the distance by")
        return moved / scale + _bound(event.epsilon, neighbours), _shows(event.threshold - moved, scale, 1)
    above = event.threshold - event.rows
    if above < 1 or event.rows < 1:
        raise Unpriced("a threshold has to lie above the number of rows of a unit")
    return _bound(event.l1, neighbours) / scale, _shows(Fraction(above), scale, event.rows)


def _shows(above: Fraction, scale: Fraction, times: int) -> Fraction:
    """`times` the chance that discrete Laplace noise reaches a whole number above 0, rounded up."""
    power = math.exp(-float(above / scale)) / (1 + math.exp(-float(1 / scale)))
    return min(Fraction(1), Fraction(times * power * (1 + 1e-12) + 5e-324))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What acts cost: a price in a currency, and the sum of those δ that are the acts' own; either adds up."""

    price: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    def __add__(self, other: Cost) -> Cost:
        return Cost(price=add_up(self.price, other.price), delta=add_up(self.delta, other.delta))

    def within(self, cap: Cost) -> bool:
        """Whether neither part passes the cap's."""
        return self.price <= cap.price and self.delta <= cap.delta


def cost_of(event: Event, currency: Currency, neighbours: Neighbours) -> Cost:
    """Both parts of what an act costs. Only published keys and stable values have a δ of their own.

    No key's count moves by more than the rows of a unit, so the squares of what moves sum to l1·rows at most. Of a
    stable value the noise on its distance and that on itself are two pure acts, ε²/2 each.

    Guarantee: in pure ε the act is (price, δ)-differentially private; in ρ it is δ-approximately price-zCDP.
    """
    if not isinstance(event, Approximate):
        return Cost(price=price(event, currency, neighbours))
    epsilon, delta = price_approximate(event, neighbours)
    if currency == "pure":
        return Cost(price=epsilon, delta=delta)
    if isinstance(event, StableValue):
        own = _bound(event.epsilon, neighbours)
        return Cost(price=((epsilon - own) ** 2 + own**2) / 2, delta=delta)
    squared = min(_bound(event.l1, neighbours) * event.rows, _bound(event.l1, neighbours) ** 2)
    return Cost(price=squared / (2 * event.scale**2), delta=delta)


def price(event: Event, currency: Currency, neighbours: Neighbours) -> Fraction:
    """The price of an act in a currency."""
    return price_pure(event, neighbours) if currency == "pure" else price_rho(event, neighbours)


def _bound(bounds: ByRelation, neighbours: Neighbours) -> Fraction:
    bound = bounds.under(neighbours)
    if bound is None:
        raise Unpriced(f"this act has no bound under {neighbours} neighbours: use the other relation")
    if bound < 0:
        raise Unpriced("a sensitivity below 0 has no price: state how far one unit moves the answer")
    return bound


def _positive(scale: Fraction) -> Fraction:
    if scale <= 0:
        raise Unpriced("noise of scale 0 has no price: choose a scale above 0")
    return scale


def _times(draws: int) -> int:
    if draws < 0:
        raise Unpriced("a number of draws cannot be below 0")
    return draws


def _free_total(neighbours: Neighbours) -> Fraction:
    if neighbours != Neighbours.REPLACE:
        raise Unpriced("the exact number of rows is private under add-remove neighbours: measure it with noise")
    return Fraction(0)


def add_up(spent: Fraction, cost: Fraction) -> Fraction:
    """Their exact sum; once its denominator grows beyond 4096 bits it is rounded *up* to a multiple of 2⁻⁴⁰⁹⁶."""
    total = spent + cost
    if total.denominator.bit_length() <= _LONGEST + 1:
        return total
    return Fraction(-(-(total.numerator << _LONGEST) // total.denominator), 1 << _LONGEST)


def total_of(costs: Iterable[Fraction]) -> Fraction:
    """The sum of any number of costs, by `add_up`: denominators of a long list would grow with it."""
    total = Fraction(0)
    for cost in costs:
        total = add_up(total, cost)
    return total


def least_that_fits(fits: Callable[[int], bool], guess: int) -> int:
    """The least whole number above 0 that fits, where all numbers above one that fits do, too.

    It is looked for around a guess in steps that double, then by halves: as many questions as the guess is off by
    digits, however far apart floats are there.
    """
    low, high, step = 0, max(guess, 1), 1
    while not fits(high):
        low, high, step = high, high + step, 2 * step
    step = 1
    while high - step > low and fits(high - step):
        high, step = high - step, 2 * step
    low = max(low, high - step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def scale_up(number: Fraction) -> float:
    """The smallest float that is at least `number`; record `Fraction` of it, which is what the sampler honours."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def scale_down(number: Fraction) -> float:
    """The largest float that is at most `number`."""
    nearest = float(number)
    return nearest if Fraction(nearest) <= number else math.nextafter(nearest, -math.inf)


def root_up(square: Fraction) -> float:
    """A float whose square is at least `square`, exactly, and hardly more."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def root_down(square: Fraction) -> Fraction:
    """A rational whose square is at most `square`, exactly, and hardly less."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 > square:
        root = math.nextafter(root, 0.0)
    return Fraction(root)


def pure_acts(events: Iterable[Event], neighbours: Neighbours) -> Counter[Fraction]:
    """A list of acts as independent pure acts {ε: how often}.

    Counts move by integers. Where no count moves by more than one, at most L1 of them move, each by one: that many
    acts of 1/b. Otherwise Laplace noise is one act of L1/b. A watch and its further hits are one act. A list does not
    say which hit belongs to which watch, so in a list with further hits all watches and hits are one act.
    """
    acts: Counter[Fraction] = Counter()
    listed = list(events)
    kept = any(isinstance(event, FurtherHit) for event in listed)
    watched = Fraction(0)
    for event in listed:
        epsilon = price_pure(event, neighbours)
        if kept and isinstance(event, ThresholdWatch | FurtherHit):
            watched = add_up(watched, epsilon)
        elif isinstance(event, LaplaceNoise) and _bound(event.linf, neighbours) <= 1:
            acts[1 / event.scale] += math.floor(_bound(event.l1, neighbours))
        elif isinstance(event, ExponentialDraws):
            acts[_bound(event.range, neighbours)] += event.draws
        elif isinstance(event, NoisyMaxima):
            acts[_bound(event.epsilon, neighbours)] += event.draws
        else:
            acts[epsilon] += 1
    acts[watched] += 1
    return Counter({share: times for share, times in acts.items() if share and times})


def gaussian_acts(events: Iterable[Event], neighbours: Neighbours) -> list[tuple[float, float]] | None:
    """A list of Gaussian acts as (Σ of squared shifts over σ², smallest σ²) each, rounded outward.

    None where some act draws other noise. The number of rows, where it is used in the open, is free."""
    found: list[tuple[float, float]] = []
    for event in events:
        if isinstance(event, RowTotal):
            _free_total(neighbours)
        elif isinstance(event, GaussianNoise | MixedGaussianNoise):
            found.append((scale_up(2 * price_rho(event, neighbours)), scale_down(_positive(event.sigma_squared))))
        else:
            return None
    return found
