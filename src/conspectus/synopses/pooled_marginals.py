"""The estimate of least variance from all measured marginals at once.

For a set S of columns let the interaction r_S be the marginal over S with its mean removed along every axis. A marginal
over A holds r_S for every S ⊆ A, with noise of the variance v_A·Π_{A∖S} n (v_A that of a cell, n the sizes of columns)
times one and the same projection, whatever A is. Noises of different interactions are uncorrelated. So the best linear
estimate of r_S is the mean of all measurements of it, weighted by their precisions, and the best one of a query is put
together from those. No sum of measured cells, with whatever signs, has a smaller variance: not "all but these", and no
inclusion and exclusion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from conspectus.counting.evaluation import indicator
from conspectus.data.domain import Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.mixed_noise import Term, mixed_margin
from conspectus.privacy.tails import variance_of
from conspectus.queries.query import Parity, Predicate, Query

from .evidence import NoisyCount
from .measured_sums import NoisySum
from .synopsis import Total

MOST_COLUMNS, MOST_CELLS = 8, 1 << 20
"""Queries about more columns, or over more cells of them, are not taken apart."""

NOTHING = 1e-12
"""Of the largest weight, or of 1 for sets of cells: less is what floats lost."""

_LEAST_VARIANCE = 1e-30

_NOTICED = 0.99
"""Two measurements are put together where that leaves this part of the narrower margin, or less."""

Table = NDArray[np.float64]
Columns = tuple[int, ...]
Weighted = tuple[Noise, Table, int, int]
"""A law in steps, the weights of its noises, the steps to a count, and how many noises have each weight."""
TermsOfBoxes = dict[tuple[tuple[int, int], ...], tuple[Term, ...]]


@dataclass(frozen=True, eq=False)
class MeasuredMarginal:
    """A marginal with noise: columns in schema order, their table, the law of the noise in steps, steps to a count."""

    columns: Columns
    table: Table
    law: Noise
    grid: int

    @classmethod
    def of(cls, domain: Domain, columns: Columns, counts: Table, law: Noise, grid: int) -> MeasuredMarginal:
        """From flat counts over columns in any order."""
        order = np.argsort(np.array(columns, dtype=np.int64))
        return cls(tuple(sorted(columns)), counts.reshape(domain.shape(columns)).transpose(order), law, grid)

    @property
    def variance(self) -> float:
        """Of one cell, in counts; above 0 even where noise is hardly ever drawn."""
        return max(variance_of(self.law) / self.grid**2, _LEAST_VARIANCE)


@dataclass(frozen=True, eq=False)
class PooledSum:
    """A weighted sum of noisy counts of several marginals, with the law of its noise."""

    count: float
    variance: float
    pool: PooledMarginals
    query: Predicate | Parity
    parts: dict[Columns, Table]

    @property
    def terms(self) -> tuple[Term, ...]:
        """Its noises, by law and size of weight."""
        return self.pool.terms(self.query, self.parts)

    def margin(self, confidence: float) -> float:
        """How far the noise has moved the count at most, with this probability."""
        return mixed_margin(self.terms, confidence)


@dataclass(frozen=True, eq=False)
class CombinedSum:
    """Two independent estimates of one count, weighted by their precisions, with the law of their noises together."""

    count: float
    variance: float
    terms: tuple[Term, ...]

    def margin(self, confidence: float) -> float:
        """How far the noise has moved the count at most, with this probability."""
        return mixed_margin(self.terms, confidence)


def put_together(own: NoisySum, others: NoisySum | PooledSum) -> NoisySum | PooledSum | CombinedSum:
    """A fresh measurement of a query, what marginals say of it, or both by their precisions: the narrowest.

    Their noises are independent, and the weights follow from the laws, so the mean of both is the truth plus a weighted
    sum of all of them. Which of the three is taken follows from the laws alone: the one whose margin is the least at a
    confidence of 0.95, and both only where that is noticed. It holds with any confidence, whichever it is.
    """
    both = own.variance + others.variance
    if not (own.variance > 0 and others.variance > 0):
        return own if own.variance < others.variance else others
    weight = others.variance / both
    listed = [(law, weight * size, times) for law, size, times in _terms_of(own)]
    listed += [(law, (1 - weight) * size, times) for law, size, times in _terms_of(others)]
    found: dict[tuple[Noise, float], int] = {}
    for law, size, times in listed:
        key = law, float(f"{size:.10g}")
        found[key] = found.get(key, 0) + times
    terms = tuple((law, size, times) for (law, size), times in sorted(found.items()))
    count = weight * own.count + (1 - weight) * others.count
    alone = min(others, own, key=lambda way: way.margin(0.95))
    mean = CombinedSum(count, own.variance * others.variance / both, terms)
    return mean if mean.margin(0.95) < _NOTICED * alone.margin(0.95) else alone


def _terms_of(held: NoisySum | PooledSum) -> tuple[Term, ...]:
    if isinstance(held, PooledSum):
        return held.terms
    return () if held.kind is None else ((Noise(held.kind, held.scale), 1 / held.averaged, held.terms),)


@dataclass(frozen=True, eq=False)
class CellEstimates:
    """The cells of one marginal: their counts, flat, the variance of each, and how much one noise weighs at most.

    A count is the truth plus a sum of independent noises with weights. `largest` bounds the size of these weights.
    """

    counts: Table
    variance: float
    largest: float


@dataclass(frozen=True, eq=False)
class PooledMarginals:
    """Measured marginals of one table, each set of columns once, with independent noise; and the total."""

    domain: Domain
    marginals: Sequence[MeasuredMarginal]
    total: Total

    def find(self, query: Predicate | Parity) -> PooledSum | None:
        """The best linear estimate of a query; None where marginals do not determine it, or it is too large."""
        if len(query.columns) > MOST_COLUMNS or math.prod(self.domain.shape(query.columns)) > MOST_CELLS:
            return None
        columns, inside = indicator(query, self.domain)
        count, variance, parts = 0.0, 0.0, {}
        for chosen, part in interactions_of(columns, inside.astype(np.float64)):
            square = float(np.square(part).sum())
            if square <= NOTHING:
                continue
            known = self._interaction(chosen)
            if known is None:
                return None
            count += float((part * known[0]).sum())
            variance += known[1] * square
            parts[chosen] = part
        return PooledSum(count, variance, self, query, parts)

    def narrower(self, query: Query, own: NoisyCount) -> PooledSum | None:
        """What all marginals say of a query, where that is more than its own measurement does.

        Of nearly equal variances its own is preferred, as its quantile is exact.
        """
        pooled = self.find(query) if isinstance(query, Predicate | Parity) else None
        return pooled if pooled is not None and pooled.variance < 0.98 * own.variance else None

    def table(self, columns: Columns) -> Table | None:
        """The best linear estimates of all cells of a marginal, over columns in schema order; see `find`."""
        shape = self.domain.shape(columns)
        if len(columns) > MOST_COLUMNS or math.prod(shape) > MOST_CELLS:
            return None
        cells = np.zeros(shape)
        for size in range(len(columns) + 1):
            for chosen in combinations(columns, size):
                known = self._interaction(chosen)
                if known is None:
                    return None
                part = known[0]
                for axis in range(size):
                    part = part - part.mean(axis=axis, keepdims=True)
                there = [n if column in chosen else 1 for column, n in zip(columns, shape)]
                cells += part.reshape(there) * (part.size / cells.size)
        return cells

    def cells(self, columns: Sequence[int]) -> CellEstimates | None:
        """The best linear estimates of all cells of a marginal, row-major over columns in any order; see `table`.

        An interaction of variance v has v·(1 − 1/n), multiplied along its columns, in each entry. A noise weighs in it
        what its marginal does, times the same product at most.
        """
        ordered = tuple(sorted(columns))
        table = self.table(ordered)
        if table is None:
            return None
        variance = largest = 0.0
        for size in range(len(ordered) + 1):
            for chosen in combinations(ordered, size):
                _, spread = self._interaction(chosen) or (None, 0.0)
                shape = self.domain.shape(chosen)
                free, share = math.prod(n - 1 for n in shape), math.prod(shape) / table.size
                variance += spread * free * share / table.size
                largest += spread * self._heaviest(chosen) * free / table.size
        counts = table.transpose([ordered.index(column) for column in columns]).ravel()
        return CellEstimates(counts, variance, largest)

    def terms(self, query: Predicate | Parity, parts: dict[Columns, Table]) -> tuple[Term, ...]:
        """The noises of an estimate that takes these multiples of interactions, by law and size of weight."""
        return noise_terms(self._of_boxes, query, lambda: self._weighted(parts))

    def noises(self, parts: dict[Columns, Table]) -> tuple[Term, ...]:
        """The noises of any sum of multiples of interactions, by law and size of weight."""
        return counted_terms(self._weighted(parts))

    @property
    def rows(self) -> tuple[float, float] | None:
        """The number of rows as all marginals tell it, and its variance; None where it is public or not told."""
        known = None if self.total.exact else self._interaction(())
        return None if known is None else (float(known[0]), known[1])

    @cached_property
    def _of_boxes(self) -> TermsOfBoxes:
        return {}

    def _weighted(self, parts: dict[Columns, Table]) -> Iterator[Weighted]:
        asked = set().union(*parts)
        for marginal in self.marginals:
            common = tuple(column for column in marginal.columns if column in asked)
            weights = np.zeros(self.domain.shape(common))
            for chosen, part in parts.items():
                if set(chosen) <= set(common) and (chosen or not self.total.exact):
                    shape = [self.domain.sizes[c] if c in chosen else 1 for c in common]
                    weights += self._share(marginal, chosen) * part.reshape(shape)
            copies = math.prod(self.domain.shape(marginal.columns)) // max(weights.size, 1)
            yield marginal.law, weights, marginal.grid, copies

    def _share(self, marginal: MeasuredMarginal, chosen: Columns) -> float:
        """The weight of one marginal in the mean of all that hold an interaction."""
        known = self._interaction(chosen)
        return 0.0 if known is None else self._precision(marginal, chosen) * known[1]

    def _precision(self, marginal: MeasuredMarginal, chosen: Columns) -> float:
        others = math.prod(self.domain.sizes[column] for column in marginal.columns if column not in chosen)
        return 1 / (marginal.variance * others)

    def _interaction(self, chosen: Columns) -> tuple[Table, float] | None:
        """The best estimate of an interaction, with its means, and its variance; None where no marginal holds it."""
        if chosen not in self._known:
            self._known[chosen] = self._pooled(chosen)
        return self._known[chosen]

    def _pooled(self, chosen: Columns) -> tuple[Table, float] | None:
        if not chosen and self.total.exact:
            return np.array(self.total.value), 0.0
        mean, precision = np.zeros(self.domain.shape(chosen)), 0.0
        for marginal in self._holding(chosen):
            outside = tuple(axis for axis, column in enumerate(marginal.columns) if column not in chosen)
            here = self._precision(marginal, chosen)
            mean += here * marginal.table.sum(axis=outside)
            precision += here
        return (mean / precision, 1 / precision) if precision else None

    def _heaviest(self, chosen: Columns) -> float:
        """The largest precision that one marginal adds to an interaction; nothing of a total that is exact."""
        if not chosen and self.total.exact:
            return 0.0
        return max(self._precision(marginal, chosen) for marginal in self._holding(chosen))

    def _holding(self, chosen: Columns) -> list[MeasuredMarginal]:
        """The marginals that hold some columns, in order."""
        places = [self._by_column.get(column, frozenset()) for column in chosen]
        found = frozenset.intersection(*places) if places else range(len(self.marginals))
        return [self.marginals[number] for number in sorted(found)]

    @cached_property
    def _by_column(self) -> dict[int, frozenset[int]]:
        """For each column the marginals that hold it."""
        every = {column for marginal in self.marginals for column in marginal.columns}
        listed = list(enumerate(self.marginals))
        return {c: frozenset(number for number, marginal in listed if c in marginal.columns) for c in every}

    @cached_property
    def _known(self) -> dict[Columns, tuple[Table, float] | None]:
        return {}


def noise_terms(
    known: TermsOfBoxes, query: Predicate | Parity, weighted: Callable[[], Iterable[Weighted]]
) -> tuple[Term, ...]:
    """The noises of the estimate of a query, by law and size of weight.

    Those of a box depend on how many codes its literals hold, and not on which: `known` remembers them.
    """
    if isinstance(query, Parity) or len(query.boxes) != 1:
        return counted_terms(weighted())
    shape = tuple((literal.column, len(literal.codes)) for literal in query.boxes[0])
    if shape not in known:
        known[shape] = counted_terms(weighted())
    return known[shape]


def counted_terms(weighted: Iterable[Weighted]) -> tuple[Term, ...]:
    """Noises by law and size of weight."""
    found: dict[tuple[Noise, float], int] = {}
    listed = list(weighted)
    largest = max((float(np.abs(weights).max(initial=0.0)) for _, weights, _, _ in listed), default=0.0)
    for law, weights, steps, copies in listed:
        sizes, times = np.unique(np.abs(weights.ravel()) / steps, return_counts=True)
        for size, often in zip(sizes.tolist(), times.tolist()):
            if size > NOTHING * largest / steps:
                key = law, float(f"{size:.10g}")
                found[key] = found.get(key, 0) + often * copies
    return tuple((law, size, times) for (law, size), times in sorted(found.items()))


def interactions_of(columns: Columns, table: Table, chosen: Columns = ()) -> Iterator[tuple[Columns, Table]]:
    """A function of some columns as a sum of interactions: along each axis its mean, or what is left of it."""
    if len(chosen) == table.ndim:
        yield chosen, table
        return
    axis = len(chosen)
    mean = table.mean(axis=axis, keepdims=True)
    rest = columns[1:]
    yield from interactions_of(rest, mean.squeeze(axis), chosen)
    yield from interactions_of(rest, table - mean, (*chosen, columns[0]))
