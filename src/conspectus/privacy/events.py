"""Private acts as frozen values: what was done. What it costs is said in `prices`.

A file of events is read years later. So the meaning of an event never changes; a new meaning is a new class. Every
event states, under each neighbouring relation, how far one unit can move what it touched. None means that no bound is
known there, and the event is then refused a price there. All numbers are exact rationals, in counts (or grid steps for
scores).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from .relation import Neighbours, Relation

Kind = Literal["laplace", "gaussian"]


LARGEST_SCALE = float(2**50)


class ScaleError(ValueError):
    """A noise scale that no sampler can honour."""


class Noise(NamedTuple):
    """A law of integer noise: discrete Laplace of scale b, or discrete Gaussian of parameter σ; the float is exact."""

    kind: Kind
    scale: float


def check_scale(scale: float) -> None:
    """Refuse a scale that no sampler can honour: when an act is planned, so that its refusal spends nothing.

    Raises:
        ScaleError: It is not above 0, or beyond 2**50, where sums of counts and noise would leave 64 bits.
    """
    if not 0 < scale <= LARGEST_SCALE:
        raise ScaleError(f"a noise scale must be above 0 and at most 2**50, not {scale:g}: change the budget")


def drawable(law: Noise) -> Noise:
    """The law, where its noise can be drawn; `ScaleError` otherwise."""
    check_scale(law.scale)
    return law


@dataclass(frozen=True, kw_only=True)
class ByRelation:
    """A bound under each kind of neighbours, None where there is none: how far one unit moves something, or an ε.

    A ledger may be bound to another relation than the release that made the act. So an act carries both bounds.
    """

    replace: Fraction | None
    add_remove: Fraction | None

    @classmethod
    def of(cls, relation: Relation, bound: Callable[[Relation], Fraction | int]) -> ByRelation:
        """The bound for the units of a relation, under both kinds of neighbours."""
        return cls(
            replace=Fraction(bound(relation.under(Neighbours.REPLACE))),
            add_remove=Fraction(bound(relation.under(Neighbours.ADD_REMOVE))),
        )

    def under(self, neighbours: Neighbours) -> Fraction | None:
        return self.replace if Neighbours.of(neighbours) is Neighbours.REPLACE else self.add_remove

    def mapped(self, change: Callable[[Fraction], Fraction]) -> ByRelation:
        """The same function of both bounds, where there are bounds."""
        return ByRelation(
            replace=None if self.replace is None else change(self.replace),
            add_remove=None if self.add_remove is None else change(self.add_remove),
        )


@dataclass(frozen=True, kw_only=True)
class LaplaceNoise:
    """Integer counts were published with independent discrete Laplace noise of this scale.

    `l1`, `l2_squared` and `linf` bound the L1, the *squared* L2 and the L∞ norm of what one unit moves.
    Pure: ε = L1/b. Concentrated: a coordinate moved by Δ is (Δ/b)-pure, so ρ = Σ Δ²/2b² = L2²/2b².
    """

    l1: ByRelation
    l2_squared: ByRelation
    linf: ByRelation
    scale: Fraction


@dataclass(frozen=True, kw_only=True)
class GaussianNoise:
    """Integer counts were published with discrete Gaussian noise; `l2_squared` is their *squared* L2 sensitivity."""

    l2_squared: ByRelation
    sigma_squared: Fraction


@dataclass(frozen=True, kw_only=True)
class MixedGaussianNoise:
    """Integers were drawn with discrete Gaussian noise of several scales, and they or functions of them published.

    `shift_squared` bounds the sum of the squares of what one unit moves, each divided by the σ² of its own noise;
    `sigma_squared` is the smallest σ², in steps of the integers.
    """

    shift_squared: ByRelation
    sigma_squared: Fraction


@dataclass(frozen=True, kw_only=True)
class ExponentialDraws:
    """`draws` draws by the exponential mechanism, of bounded range.

    Between neighbours the log-weights of all candidates move within one interval. `range` bounds its length for one
    draw, rounding included."""

    range: ByRelation
    draws: int


@dataclass(frozen=True, kw_only=True)
class NoisyMaxima:
    """`draws` choices, each of the largest of noisy scores, with fresh noise: noisy max, or permute-and-flip.

    Each is pure with this ε. Of such choices no bounded range is known, so that in ρ they are pure acts.
    """

    epsilon: ByRelation
    draws: int


@dataclass(frozen=True, kw_only=True)
class ThresholdWatch:
    """One AboveThreshold: a stream of queries against one noisy threshold until the first hit; pure, with this ε."""

    epsilon: ByRelation


@dataclass(frozen=True, kw_only=True)
class FurtherHit:
    """A watch went on with the same noisy threshold after a hit, until and including its next one.

    The watch and its further hits are together pure with the sum of their ε. In other currencies a further hit has no
    price of its own.
    """

    epsilon: ByRelation


@dataclass(frozen=True, kw_only=True)
class StableKeys:
    """The keys of a table whose noisy counts reach a threshold were published, with these counts.

    The count of every key that some row has got discrete Laplace noise of this scale. `l1` bounds the L1 norm of what
    one unit moves. `rows` bounds the rows of a unit: so also how many keys it alone may have, and their counts.
    """

    l1: ByRelation
    rows: int
    scale: Fraction
    threshold: int


@dataclass(frozen=True, kw_only=True)
class StableValue:
    """One value of the table was published if its distance to tables with another one, with noise, reached a threshold.

    The distance got discrete Laplace noise of this scale. `moved` bounds how far one unit moves it, and from which
    distance on no unit changes the value by more than its noise allows for. `epsilon` is the pure ε of that noise, and
    0 where the value was published as it is.
    """

    moved: ByRelation
    scale: Fraction
    threshold: int
    epsilon: ByRelation


@dataclass(frozen=True, kw_only=True)
class RowTotal:
    """The exact number of rows was used in the open: free where it is public (rows are replaced), refused elsewhere."""


Event = (
    LaplaceNoise
    | GaussianNoise
    | MixedGaussianNoise
    | ExponentialDraws
    | NoisyMaxima
    | ThresholdWatch
    | FurtherHit
    | StableKeys
    | StableValue
    | RowTotal
)
Approximate = StableKeys | StableValue
"""Acts that hold but for a δ of their own."""


def to_json(event: Event) -> dict[str, Any]:
    """A tagged, exact JSON form; fractions are written as strings."""
    fields = {_STORED.get(field, field): _written(value) for field, value in vars(event).items()}
    return {"event": _TAG[type(event)], **fields}


def _written(value: ByRelation | Fraction | int) -> Any:
    if isinstance(value, ByRelation):
        return {key: None if bound is None else str(bound) for key, bound in vars(value).items()}
    return str(value) if isinstance(value, Fraction) else value


MOST_DIGITS = 4_300
"""Of a numerator or denominator, as many as Python writes: sums of prices have denominators of at most 4,096 bits."""
_fraction = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}(/[0-9]{{1,{MOST_DIGITS}}})?")


def read_fraction(text: object) -> Fraction:
    """A fraction as `str` writes it. An exponent is refused: a short text would be a number that fills the memory."""
    if not isinstance(text, str) or not _fraction.fullmatch(text):
        raise ValueError("not a fraction: write whole numbers, as in 3/4")
    return Fraction(text)


def from_json(fields: Mapping[str, Any]) -> Event:
    """The inverse of `to_json`; refuses anything else."""
    try:
        kind = _KIND[fields["event"]]
        if _STORED.keys() & fields.keys():
            raise ValueError("a field by another name than files have")
        values: dict[str, Any] = {
            _FIELD.get(name, name): _read(name, value) for name, value in fields.items() if name != "event"
        }
        numbers = [value for value in values.values() if not isinstance(value, ByRelation)]
        bounds = [bound for value in values.values() if isinstance(value, ByRelation) for bound in vars(value).values()]
        if any(number <= 0 for number in numbers) or any(bound is not None and bound < 0 for bound in bounds):
            raise ValueError("scales and numbers of draws are above 0, and bounds are not below")
        event = kind(**values)
        if to_json(event) != dict(fields):
            raise ValueError("an act is spelled in another way than it is written")
        return event
    except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError) as error:
        raise ValueError("not a private event that this version knows") from error


def _read(name: str, value: Any) -> ByRelation | Fraction | int:
    if isinstance(value, Mapping):
        return ByRelation(**{key: None if bound is None else read_fraction(bound) for key, bound in value.items()})
    if name not in _WHOLE:
        return read_fraction(value)
    if type(value) is not int:  # a float rounded down, or a truth taken for 1, would be another act
        raise ValueError("what counts something is a whole number")
    return value


_KIND: dict[str, type[Event]] = {
    "laplace": LaplaceNoise,
    "gaussian": GaussianNoise,
    "mixed-gaussian": MixedGaussianNoise,
    "exponential": ExponentialDraws,
    "noisy-maxima": NoisyMaxima,
    "threshold": ThresholdWatch,
    "further-hit": FurtherHit,
    "stable-keys": StableKeys,
    "stable-value": StableValue,
    "rows": RowTotal,
}
_STORED = {"l1": "reach", "l2_squared": "reach_squared", "linf": "reach_max"}
"""What fields are called in files, for good: files of every version are read and written alike."""
_WHOLE = ("draws", "rows", "threshold")
"""The fields that count something."""
_FIELD = {stored: field for field, stored in _STORED.items()}
_TAG: dict[type[Event], str] = {kind: tag for tag, kind in _KIND.items()}
