"""What to expect of a session that begins with marginals: how wrong its guess will be, and how wide its intervals.

The model is that of `interactions.py`, for a typical question: a conjunction of w columns that all have as many values
as the columns have in the geometric mean, v of them. All marginals of r columns were measured with noise of deviation s
on every cell. Then an interaction of j ≤ r columns is in A = C(d − j, r − j)/v^r, and a cell of w columns gets from its
C(w, j) interactions the variance

    C(w, j)·(v − 1)^j · s² / (v^2w · A).

An interaction of more than r columns was never measured. It is an error as large as itself, which is taken to be
`FADING`^(1−j) of the largest that it could be, for columns as variable as `SKEW` says.

Typical, all of it: no interval rests on it. It decides what is bought first, and where the threshold lies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from conspectus.data.domain import Domain
from conspectus.mechanisms.expectations import FADING, SKEW
from conspectus.mechanisms.sums_of_noise import half_width
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import deviation_of

CONFIDENCE = 0.95
TYPICAL = (1, 2, 3, 4)
"""The numbers of columns of the conjunctions that people are taken to ask about."""


@dataclass(frozen=True, kw_only=True)
class Primed:
    """A guess that was fitted to all marginals of `order` columns with this noise on every cell."""

    columns: int
    values: float
    order: int
    law: Noise
    rows: float

    @classmethod
    def of(cls, domain: Domain, *, order: int, law: Noise, rows: float) -> Primed:
        """The same of a table of this domain."""
        sizes = [size for size in domain.sizes if size > 1] or [2]
        values = math.exp(sum(math.log(size) for size in sizes) / len(sizes))
        return cls(columns=len(sizes), values=values, order=min(order, len(sizes)), law=law, rows=rows)

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
                squares += interactions * self.rows**2 * SKEW**j * FADING ** (2.0 - 2.0 * j)
        return math.sqrt(squares) / self.values**width

    def largest_error(self, questions: int) -> float:
        """The largest error of the guess on so many questions that no marginal covers, in counts, about."""
        beyond = [width for width in (*self.widths, self.order + 1) if self.order < width <= self.columns]
        worst = max((self.deviation(width) for width in beyond), default=0.0)
        return min(worst * math.sqrt(2 * math.log(2 * questions)), self.rows)

    def covered_width(self, width: int) -> float:
        """Half the width of the interval of a question that the marginals add up to, in counts.

        It holds the noise of the sum, and how far the guess is from that sum.
        """
        marginals = math.comb(self.columns - width, self.order - width)
        held = deviation_of(self.law) * math.sqrt(self.values ** (self.order - width) / marginals)
        noise = half_width(self.law) if width == self.order else 1.96 * held
        apart = math.sqrt(max(held**2 - self.deviation(width) ** 2, 0.0))
        return noise + apart * math.sqrt(2 / math.pi)

    def expected_width(self, guessed: float) -> float:
        """The mean half-width over typical questions, where `guessed` is that of a question that a watch passed."""
        widths = [self.covered_width(width) if self.covers(width) else guessed for width in self.widths]
        return sum(widths) / len(widths)
