"""What a synthetic row starts from, and keeps in the columns that no drawn query reads.

A public rule, or noisy one-way marginals that are paid for.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.data.domain import Codes, Domain, code_dtype
from conspectus.mechanisms.mechanism import Problem
from conspectus.queries.block import Block
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.ordering import starts_of
from conspectus.queries.query import Literal
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.least_squares import project_simplex
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import Total

from .shrinkage import posterior_means

RULES = ("first", "uniform", "marginals")


class InitialRows:
    """Draws whole rows, each column independently: always its first code, uniformly, or by noisy marginals."""

    def __init__(self, domain: Domain, rule: str, shares: NDArray[np.float64] | None = None) -> None:
        self._sizes = np.array(domain.sizes, dtype=np.int64)
        self._first = starts_of(self._sizes)
        self._rule = rule
        self.dtype = code_dtype(int(self._sizes.max()))
        self._two = bool((self._sizes == 2).all())
        if shares is not None:
            sums = np.cumsum(shares)
            before = np.repeat(np.concatenate([[0.0], sums])[self._first[:-1]], self._sizes)
            self._ends = sums - before + np.repeat(np.arange(len(domain)), self._sizes)
            self._ends[self._first[1:] - 1] = np.arange(1, len(domain) + 1)
            self._zero = shares[self._first[:-1]] if self._two else None

    def draw(self, rows: int, rng: np.random.Generator) -> Codes:
        """Rows as codes, a column of the result for each column of the domain."""
        shape = (rows, len(self._sizes))
        if self._rule == "first":
            return np.zeros(shape, dtype=self.dtype)
        luck = rng.random(shape, dtype=np.float32)
        if self._rule == "uniform":
            places = np.minimum(luck * self._sizes, self._sizes - 1)
        elif self._zero is not None:
            places = luck >= self._zero
        else:
            # Column c has its cumulative shares in (c, c + 1]: one search places all columns of all rows.
            ends = np.searchsorted(self._ends, luck.astype(np.float64) + np.arange(shape[1]), side="right")
            places = np.clip(ends - self._first[:-1], 0, self._sizes - 1)
        return np.asarray(places.astype(self.dtype))


def single_columns(workload: Workload) -> Workload:
    """The one-way marginals of the columns that a workload reads; of two values the second says it all."""
    domain = workload.domain
    two = [column for column in workload.columns if domain.sizes[column] == 2]
    more = [column for column in workload.columns if domain.sizes[column] > 2]
    blocks: list[Block] = [Marginal(domain, (column,)) for column in more]
    if two:
        literals = [Literal(column, (1,)) for column in two]
        blocks.append(Conjunctions.build(domain, literals, np.arange(len(two))[:, None]))
    return Workload(domain, tuple(blocks))


def single_width(workload: Workload) -> int:
    """A bound on the squared L2 sensitivity of the one-way marginals to one row: 1 for two values, 2 for more."""
    sizes = workload.domain.sizes
    return sum(min(sizes[column], 3) - 1 for column in workload.columns)


def measured_columns(
    curator: Curator, problem: Problem, singles: Workload, *, total: Total, price: Fraction
) -> NoisyAnswers:
    """Noisy one-way marginals: what rows start from, and where intervals of single columns come from."""
    law = problem.law(problem.sensitivity(singles), price)
    counts = curator.measure(singles, law).astype(np.float64)
    return NoisyAnswers(singles.domain, singles, counts, (law,), total)


def shares_of(columns: NoisyAnswers) -> NDArray[np.float64]:
    """Shares of every code of every column, from noisy one-way marginals; columns that nothing asks about are even."""
    domain, singles, total = columns.domain, columns.workload, columns.total.divisor
    sizes = np.array(domain.sizes, dtype=np.int64)
    first = starts_of(sizes)
    shares = np.repeat(1 / sizes, sizes)
    noisy = columns.counts / total
    for block, law, start in zip(singles.blocks, columns.noise, singles.offsets):
        here = noisy[start : start + len(block)]
        if isinstance(block, Marginal):
            column = block.columns[0]
            shares[first[column] : first[column + 1]] = project_simplex(here)
        else:
            ones = posterior_means(here, law, total=total)
            at = first[np.array(block.columns, dtype=np.int64)]
            shares[at], shares[at + 1] = 1 - ones, ones
    return shares
