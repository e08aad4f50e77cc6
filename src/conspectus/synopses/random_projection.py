"""A noisy random projection: one small vector and a public hash answer any sparse query, over any universe.

An estimate of a record's count is the inner product of its column with the vector, divided by the number of its
non-zeros; a query adds up the estimates of its records with their weights. Two things are between the answer and the
truth. *Noise*: a weighted sum of independent draws whose weights are known. *Distortion*: other rows that share
coordinates with the query's records. With F = Σ_x count(x)², w the weights of the query and T coordinates, distortion
has mean 0 and over a 4-wise independent hash a variance of at most (‖w‖²·F + (Σ w·count)²)/T.

Each of the s sections gives an estimate of its own, from T/s coordinates. The *mean* of them is the product above;
their *median* (Charikar, Chen and Farach-Colton 2002) has a little more noise and ignores up to (s − 1)/2 sections in
which a heavy record falls on one of the query's. Sections are independent, in their hashes and in their noise, so the
median is off by more than t only if (s + 1)/2 independent events happen together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.noise_plus_shift import Tail, shifted_quantile, weighted_tail
from conspectus.privacy.tails import moments_of
from conspectus.queries.block import Block
from conspectus.queries.blocks.sparse_projection import SparseProjection
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.builders.sparse import written_out
from conspectus.queries.rules import demand
from conspectus.queries.sensitivity import WorkloadError, fixed
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords

from .estimate import Estimate
from .evidence import Evidence
from .printed_tables import PrintedTables, near_answers
from .synopsis import BadSynopsis, CannotAnswer, Synopsis, Total, checked_noise, numbers_of, part

_FIELDS = ("size", "nonzeros", "independence", "public_seed")
LEAST_INDEPENDENCE = 4
"""Variances are sums over pairs of pairs of records: a bound needs that many to be independent."""

MOST_PRINTED = 1 << 16
"""The most records that there can be where tables are printed."""

MOST_LISTED = 1 << 22
"""Records that a predicate may stand for and still be asked."""

_OF_MOMENT = (0.15, 0.3, 0.5)
"""What the estimate of F may take of the failure probability of an interval: more where coordinates are few."""

_OF_HASH = 0.8
"""What of that is for the hash, whose second moment alone is known; the rest is for three events with light tails."""

_TIMES = 3
"""How often the bound on the true answer is improved by the interval that it gives."""

Estimator = Literal["mean", "median"]

MOST_SECTIONS = 63
"""Sections that a median is taken of: with more, each has little to say and costs as much to ask."""


@suggest_keywords
@dataclass(frozen=True, eq=False)
class RandomProjection(Synopsis):
    """`values` is the projection of the table with noise, in whole counts; `noise` is its law; `estimator` says how an
    answer is taken from the estimates of the sections."""

    domain: Domain
    projection: SparseProjection
    values: NDArray[np.int64]
    noise: Noise
    total: Total
    estimator: Estimator = "mean"

    kind: ClassVar[str] = "random-projection"
    answers_alone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.int64)
        fits = values.shape == (self.projection.size,) and self.projection.domain == self.domain
        known = self.estimator == "mean" or (self.estimator == "median" and has_median(self.projection))
        demand(
            BadSynopsis,
            (fits, "a projection needs one value for each coordinate, of one table"),
            (known, "a projection answers by the mean of its sections, or by the median of an odd number"),
        )
        object.__setattr__(self, "noise", checked_noise(*self.noise))
        object.__setattr__(self, "values", fixed(values))

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        """One fraction per query, from the vector and the hash alone."""
        self._check_domain(workload)
        parts = [self._counts(_listed(workload.domain, block)) for block in workload.blocks]
        return np.concatenate(parts) / self.total.divisor if parts else np.zeros(0)

    def _counts(self, block: SparseQueries) -> NDArray[np.float64]:
        values, records = self.values.astype(np.float64), block.index.distinct
        if self.estimator == "mean":
            return block.weighed(self.projection.dot(records, values))
        each = [block.weighed(self.projection.dot_section(j, records, values)) for j in range(self.projection.nonzeros)]
        return np.asarray(np.median(each, axis=0))

    def estimate(self, query: Workload, confidence: float, beside: Evidence | None = None) -> Estimate:
        """The count of one query, with noise whose law is known and a bound on the distortion by the rest of the table.

        See `Synopsis.estimate`, and `interval` for the bound.
        """
        count, half = self.interval(query, confidence)
        if half is None:
            return Estimate.unguaranteed(count / self.total.divisor, self.total.divisor)
        return Estimate.within(count, half, basis="guessed")

    def interval(self, question: Workload, confidence: float) -> tuple[float, float | None]:
        """The count of one query, and how far it may be from the truth at this confidence, noise and hash together.

        Of an estimate from T coordinates, noise N has a law that is known once the places of the query's records are;
        distortion D is independent of it given the hash, and E D² ≤ (‖w‖²·F + A²)/T over all hashes, where A is the
        true answer: `shifted_quantile`. Except with the failure probability, A is at most the answer and that quantile,
        which grows with A: so bounds on A improve each other, from A² ≤ ‖w‖²·F on. For the median each section may fail
        with a probability p for which a majority of s independent sections fails as seldom as the interval may. None
        where the hash is not independent enough for a bound.
        """
        block = _listed(self.domain, question.blocks[0])
        count = float(self._counts(block)[0])
        if self.projection.independence < LEAST_INDEPENDENCE:
            return count, None
        shared = np.zeros(self.projection.size, dtype=np.int64)
        self.projection.add(block.addresses, block.steps.astype(np.int64), shared)
        norm = float(np.square(block.steps / block.grid).sum())
        estimates = estimates_of(self.projection, self.estimator)
        unit = estimates / (block.grid * self.projection.nonzeros)
        tails = [weighted_tail(self.noise, each, unit) for each in shared.reshape(estimates, -1)]
        failure = 1 - confidence
        most = norm * self.second_moment(failure_of_moment(self.projection, failure) * failure)
        return count, half_width(
            self.projection, self.noise, tails, norm=norm, most=most, count=count, confidence=confidence
        )

    def second_moment(self, failure: float) -> float:
        """An upper bound on F = Σ count(x)², except with this probability.

        ‖u + ν‖² = ‖u‖² + 2u·ν + ‖ν‖². The lower tail of ‖ν‖², a sum of independent terms that are not negative, is
        P(E − sum ≥ t) ≤ exp(−t²/2ΣE ν⁴) (Maurer 2003). u·ν has the tail of a Gaussian of deviation σ‖u‖, or for Laplace
        noise P(u·ν ≥ √2·b·‖u‖·(1 + L)) ≤ e^(−L), by its moments at 1/√2·b. ‖u‖²/s has mean F, and over a 4-wise
        independent hash a variance of at most 2F²/T: `kept_by_hash`. No table of n rows has a larger F than n².
        """
        size, s = self.projection.size, self.projection.nonzeros
        second, fourth = moments_of(self.noise)
        light = failure * (1 - _OF_HASH) / 3
        rows = self.total.value + self.total.margin(1 - light)
        most = max(rows, 0.0) ** 2
        kept = kept_by_hash(size, failure)
        if kept <= 0:
            return most
        noisy = float(np.square(self.values.astype(np.float64)).sum())
        level = math.log(1 / light)
        slip = math.sqrt(2 * size * fourth * level)
        if self.noise.kind == "gaussian":
            linear = self.noise.scale * math.sqrt(2 * level)
        else:
            linear = self.noise.scale * math.sqrt(2) * (1 + level)
        root = linear + math.sqrt(linear * linear + max(noisy - size * second + slip, 0.0))
        return min(most, root * root / (s * kept))

    def integer_marginal(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """A marginal of a table near the answers about all marginals of one and two columns, and about all records."""
        return self._printed.integer_marginal(columns)

    @cached_property
    def _printed(self) -> PrintedTables:
        if self.domain.cells > MOST_PRINTED:
            raise CannotAnswer("a projection of so many possible records holds no tables: ask it about listed records")
        every = range(len(self.domain))
        sets = sorted({tuple(every), *combinations(every, 1), *combinations(every, min(2, len(every)))})
        # The error of a list of records grows with the root of its length.
        variances = [self.domain.cells / math.prod(self.domain.shape(columns)) for columns in sets]
        return near_answers(self, sets, variances)

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """A projection has no rows; this always raises `CannotAnswer`."""
        raise CannotAnswer("a projection has no rows to give: ask it about listed records, or release a histogram")

    def measurements(self) -> list[tuple[Workload, Noise, int]]:
        """The projection itself; see `Synopsis.measurements`."""
        return [(Workload(self.domain, (self.projection,)), self.noise, 1)]

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        meta = {
            "projection": self.projection.to_json(),
            "noise": list(self.noise),
            "total": self.total.to_json(),
            "estimator": self.estimator,
        }
        return meta, {"projection": pa.table({"value": self.values})}

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        shape, noise = meta.get("projection"), meta.get("noise")
        if not isinstance(shape, Mapping) or set(shape) != set(_FIELDS) or not isinstance(noise, list):
            raise BadSynopsis("the projection is not readable")
        if len(noise) != 2:
            raise BadSynopsis("a projection has one law of noise")
        values = numbers_of(part(tables, "projection", [("value", pa.int64())])["value"])
        try:
            projection = SparseProjection(domain, *(shape[field] for field in _FIELDS))
        except WorkloadError as problem:
            raise BadSynopsis("the projection is not readable") from problem
        total, estimator = Total.from_json(meta.get("total")), meta.get("estimator", "mean")
        return cls(domain, projection, values, checked_noise(*noise), total, estimator)


def has_median(projection: SparseProjection) -> bool:
    """Whether the sections of a projection are estimates that have a middle one."""
    s = projection.nonzeros
    return not projection.dense and 3 <= s <= MOST_SECTIONS and s % 2 == 1


def estimates_of(projection: SparseProjection, estimator: Estimator) -> int:
    """How many estimates an answer is made of: the mean is one, from all coordinates, and the median has one from each
    section."""
    return projection.nonzeros if estimator == "median" else 1


def failure_of_moment(projection: SparseProjection, failure: float) -> float:
    """Which part of the failure of an interval is set aside for F: as little as leaves a quarter of it to be seen."""
    seen = (part for part in _OF_MOMENT if kept_by_hash(projection.size, part * failure) >= 0.25)
    return next(seen, _OF_MOMENT[0])


def half_width(
    projection: SparseProjection,
    noise: Noise,
    tails: Sequence[Tail],
    *,
    norm: float,
    most: float,
    count: float,
    confidence: float,
) -> float:
    """How far an answer may be from the truth, as `RandomProjection.interval` proves it.

    Args:
        projection: The projection that it was estimated from.
        noise: The noise on each coordinate.
        tails: That of the noise in each of the estimates whose median, or mean, is the answer.
        norm: ‖w‖², the sum of the squared weights of the query.
        most: A bound on ‖w‖²·F.
        count: The answer.
        confidence: How likely the interval holds.
    """
    size, s, failure = projection.size // len(tails), projection.nonzeros, 1 - confidence
    allowed = section_failure(len(tails), (1 - failure_of_moment(projection, failure)) * failure)
    deviation = math.sqrt(moments_of(noise)[0] * norm * len(tails) / s)
    answer, half = math.sqrt(most), math.inf
    for _ in range(_TIMES):
        square = (most + answer * answer) / size
        half = min(half, max(shifted_quantile(tail, square, allowed, deviation) for tail in tails))
        answer = min(answer, max(count, 0.0) + half)
    return half


def kept_by_hash(size: int, failure: float) -> float:
    """1 − λ, where ‖u‖²/s ≥ (1 − λ)·F but for the hash's part of this failure; nothing is known where it is 0 or less.

    A variance of at most v·F² with v = 2/T leaves P(‖u‖²/s ≤ (1 − λ)·F) ≤ v/(v + λ²) on one side (Cantelli).
    """
    return 1 - math.sqrt(2 / size * (1 / (_OF_HASH * failure) - 1))


def majority_fails(blocks: int, p: float) -> float:
    """The probability that more than half of an odd number of independent sections fail, if each does with p."""
    most = range((blocks + 1) // 2, blocks + 1)
    return math.fsum(math.comb(blocks, j) * p**j * (1 - p) ** (blocks - j) for j in most)


def section_failure(sections: int, failure: float) -> float:
    """A p, the largest but for rounding, at which a majority of the sections fails with at most this probability."""
    if sections == 1:
        return failure
    low, high = 0.0, 0.5
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if majority_fails(sections, middle) <= failure * (1 - 1e-9) else (low, middle)
    return low


def _listed(domain: Domain, block: Block) -> SparseQueries:
    """A block as sparse queries: predicates are written out where they can be."""
    if isinstance(block, SparseQueries):
        return block
    try:
        return written_out(Workload(domain, (block,)), MOST_LISTED)
    except WorkloadError as problem:
        raise CannotAnswer(f"a projection answers questions about few records alone: {problem}") from problem
