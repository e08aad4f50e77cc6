"""What to expect of a session that begins with marginals: how wrong its guess will be, and how wide its intervals.

The model is that of `interactions.py`, for a typical question: a conjunction of w columns that all have as many values
as the columns have in the geometric mean, v of them. All marginals of r columns were measured with noise of deviation s
on every cell. Then an interaction of j ≤ r columns is in A = C(d − j, r − j)/v^r, and a cell of w columns gets from its
C(w, j) interactions the variance

    C(w, j)·(v − 1)^j · s² / (v^2w · A).

What the marginals decide has its interval from their best estimate. The widths of these are those of the columns as
they are: an interaction of the columns S is in every marginal that holds S, so its precision is the sum over these
marginals of 1/s² over the sizes of their other columns, an elementary symmetric polynomial.

An interaction of more than r columns was never measured. It is an error as large as itself, which is taken to be
`ONLINE_FADING`^(1−j) of the largest that it could be, for columns as variable as `SKEW` says.

Typical, all of it: no interval rests on it. It decides what is bought first, and where the threshold lies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from conspectus.data.domain import Domain
from conspectus.mechanisms.sums_of_noise import half_width
from conspectus.mechanisms.typical.expectations import ONLINE_FADING, SKEW
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import deviation_of

CONFIDENCE = 0.95
TYPICAL = (1, 2, 3, 4)
"""The numbers of columns of the conjunctions that people are taken to ask about."""


def usual_values(sizes: tuple[int, ...]) -> float:
    """How many values columns of these sizes have, in the geometric mean."""
    return math.exp(sum(math.log(size) for size in sizes) / len(sizes))


def typical_shares(domain: Domain) -> list[float]:
    """The share of all records that a typical question holds for, by its number of columns."""
    return [usual_values(domain.sizes) ** -width for width in TYPICAL if width <= len(domain.sizes)]


@dataclass(frozen=True, kw_only=True)
class Primed:
    """A guess that was fitted to all marginals of `order` columns with this noise on every cell."""

    sizes: tuple[int, ...]
    order: int
    law: Noise
    rows: float

    @classmethod
    def of(cls, domain: Domain, *, order: int, law: Noise, rows: float) -> Primed:
        """The same of a table of this domain."""
        sizes = tuple(size for size in domain.sizes if size > 1) or (2,)
        return cls(sizes=sizes, order=min(order, len(sizes)), law=law, rows=rows)

    @property
    def columns(self) -> int:
        return len(self.sizes)

    @property
    def values(self) -> float:
        """How many values the columns have, in the geometric mean."""
        return usual_values(self.sizes)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many columns a typical question may have."""
        return tuple(width for width in TYPICAL if width <= self.columns)

    def covers(self, width: int) -> bool:
        """Whether such a question is a sum of cells of one marginal."""
        return width <= self.order

    def deviation(self, width: int) -> float:
        """How far the guess is off on a conjunction of so many columns, as a standard deviation in counts."""
        noise, squares = deviation_of(self.law), 0.0
        for j in range(1, width + 1):
            interactions = math.comb(width, j) * (self.values - 1) ** j
            if self.covers(j):
                marginals = math.comb(self.columns - j, self.order - j)
                squares += interactions * noise**2 * self.values**self.order / marginals
            else:
                squares += interactions * self.rows**2 * SKEW**j * ONLINE_FADING ** (2.0 - 2.0 * j)
        return math.sqrt(squares) / self.values**width

    def largest_error(self, questions: int) -> float:
        """The largest error of the guess on so many questions that no marginal covers, in counts, about."""
        beyond = [width for width in (*self.widths, self.order + 1) if self.order < width <= self.columns]
        worst = max((self.deviation(width) for width in beyond), default=0.0)
        return min(worst * math.sqrt(2 * math.log(2 * questions)), self.rows)

    def covered_width(self, width: int) -> float:
        """The mean half-width of intervals of questions that the marginals decide: cells of so many columns, in counts.

        It is that of their best estimate. Where that is little better than the one cell that was measured, the cell is
        taken, and its quantile (`PooledMarginals.narrower`).
        """
        noise, alone = deviation_of(self.law), half_width(self.law)
        spreads = cell_spreads(tuple(sorted(self.sizes)), self.order, width)
        own = width == self.order
        return sum(alone if own and each >= _OWN else 1.96 * noise * each for each in spreads) / len(spreads)

    def expected_width(self, guessed: float) -> float:
        """The mean half-width over typical questions, where `guessed` is that of a question that a watch passed."""
        widths = [self.covered_width(width) if self.covers(width) else guessed for width in self.widths]
        return sum(widths) / len(widths)


_OWN = math.sqrt(0.98)


@lru_cache(maxsize=64)
def cell_spreads(sizes: tuple[int, ...], order: int, width: int) -> tuple[float, ...]:
    """For each set of `width` columns the deviation of the best estimate of a cell, in deviations of a measured one.

    All marginals of `order` columns were measured with noise of one law, and the number of rows is known.
    """
    places = range(len(sizes))
    parts: dict[tuple[int, ...], float] = {}
    for count in range(1, width + 1):
        for chosen in combinations(places, count):
            inverses = [1 / sizes[c] for c in places if c not in chosen]
            moved = math.prod(sizes[c] * (sizes[c] - 1) for c in chosen)
            parts[chosen] = moved / _symmetric(inverses, order - count)
    return tuple(
        math.sqrt(sum(parts[s] for count in range(1, width + 1) for s in combinations(held, count)))
        / math.prod(sizes[c] for c in held)
        for held in combinations(places, width)
    )


def _symmetric(numbers: list[float], degree: int) -> float:
    """The sum of all products of so many of these numbers."""
    sums = [1.0] + [0.0] * degree
    for number in numbers:
        for at in range(degree, 0, -1):
            sums[at] += number * sums[at - 1]
    return sums[degree]
