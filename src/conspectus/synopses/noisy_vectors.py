"""Several queries from the same noisy counts: what they are together, and the noise of any combination of them.

A ratio of two noisy sums has an interval only if it is known how their noises go together. A `NoisyVector` writes each
query as a weighted sum of measured counts, whose noises are independent and of known laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.counting.evaluation import values_on
from conspectus.data.domain import Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.mixed_noise import Term, mixed_margin, wide_margin
from conspectus.privacy.tails import variance_of, weighted_quantile
from conspectus.queries.block import Block
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.query import Linear, Parity, Predicate, Query
from conspectus.queries.workload import Workload

from .evidence import NoisyCount
from .measured_sums import selection_in
from .synopsis import Ends

NARROW = 0.25
"""Scales below this make noises that are mostly 0."""

Law = tuple[Noise, int]
"""A law in steps, and how many steps make one count."""


class MeasuredBlocks(Protocol):
    """Noisy counts, block by block: what a vector is made from."""

    @property
    def domain(self) -> Domain: ...

    def listed_place(self, query: Query) -> tuple[int, int] | None:
        """The block and the place in it of the least noisy measurement of exactly this query."""

    def covering(self, columns: tuple[int, ...]) -> Sequence[int]:
        """The measured marginals that hold all these columns, by the numbers of their blocks."""

    @property
    def interval_blocks(self) -> Sequence[int]:
        """The measured blocks of intervals or prefixes."""

    def measured_block(self, number: int) -> tuple[Block, NDArray[np.float64], Noise, int]:
        """A block, its noisy counts, and their law and grid."""


def ends_of_block(
    measured: MeasuredBlocks, cells: Workload, first: NoisyCount | None, confidence: float
) -> Ends | None:
    """The intervals of the cells of a marginal that was measured as it stands: all of them have the law of the first.

    None where it was not measured so, or not by itself alone: then each cell has to be looked at.
    """
    block = cells.blocks[0]
    if first is None or len(cells.blocks) > 1 or not isinstance(block, Marginal):
        return None
    known = [measured.measured_block(number)[:2] for number in measured.covering(block.columns)]
    same = [(held, counts) for held, counts in known if len(held) == len(block)]
    if len(same) != 1 or same[0][0] != block or same[0][1][0] != first.count:
        return None
    counts, margin = same[0][1], first.margin(confidence)
    return counts - margin, counts + margin


@dataclass(frozen=True, eq=False)
class NoisyVector:
    """Noisy counts of several queries: `weights @ noises` away from the truth, the noises independent.

    Attributes:
        counts: One noisy count for each query.
        weights: A line for each query, a column for each noise.
        laws: The law of each noise, with its grid; weights are in counts of it.
        copies: Of how many such noises each is the sum.
    """

    counts: NDArray[np.float64]
    weights: NDArray[np.float64]
    laws: tuple[Law, ...]
    copies: int = 1

    @property
    def covariance(self) -> NDArray[np.float64]:
        """The covariance of the counts."""
        known = {(law, grid): self.copies * variance_of(law) / grid**2 for law, grid in set(self.laws)}
        variances = np.array([known[law] for law in self.laws])
        return np.asarray((self.weights * variances) @ self.weights.T)

    def margin(self, coefficients: NDArray[np.float64], confidence: float) -> float:
        """How far a combination of the counts is from the truth at most, with this probability."""
        return noise_of(coefficients @ self.weights, self.laws, confidence, self.copies)

    def extended(self, lines: NDArray[np.float64], constants: NDArray[np.float64]) -> NoisyVector:
        """The vector `lines @ counts + constants`."""
        return NoisyVector(lines @ self.counts + constants, lines @ self.weights, self.laws, self.copies)


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """A weighted sum of noisy counts: a `NoisyVector` of one query."""

    vector: NoisyVector
    source: str = ""

    @property
    def count(self) -> float:
        return float(self.vector.counts[0])

    @property
    def variance(self) -> float:
        return float(self.vector.covariance[0, 0])

    def margin(self, confidence: float) -> float:
        """How far the noise has moved the count at most, with this probability."""
        return self.vector.margin(np.ones(1), confidence)


def noise_of(weights: NDArray[np.float64], laws: Sequence[Law], confidence: float, copies: int = 1) -> float:
    """How far a weighted sum of independent noises is from 0 at most, with this probability; of each there are copies
    of the same weight."""
    listed: list[Term] = []
    sizes = np.abs(weights)
    kinds = list(dict.fromkeys(laws))
    if any(law.scale < NARROW for law, _ in kinds):
        # Noise that is hardly ever drawn has no smooth law: a moment bound of each kind, and a step at least.
        each, reach = 1 - (1 - confidence) / len(kinds), 0.0
        for kind in kinds:
            mine = np.repeat(sizes[[one == kind for one in laws]], copies) / kind[1]
            reach += max(weighted_quantile(kind[0], mine, each), float(mine.max(initial=0.0)))
        return reach
    for law, grid in kinds:
        mine = sizes if len(kinds) == 1 else sizes[[each == (law, grid) for each in laws]]
        held = mine[mine > 0]
        if held.size:
            # Weights that differ in the last digits alone are one: fewer terms, and the larger one is taken.
            step = float(held.max()) * 1e-9
            for size, times in zip(*np.unique(np.ceil(held / step), return_counts=True)):
                listed.append((law, float(size) * step / grid, int(times) * copies))
    if (closed := wide_margin(listed, confidence)) is not None:
        return closed
    return mixed_margin(tuple(sorted(listed, key=lambda term: (-term[1], term[2]))), confidence)


Line = tuple[int, NDArray[np.int64], NDArray[np.float64]]
"""A query as a weighted sum of counts of one block: its number, the places of the counts, and their weights."""


def noisy_vector(measured: MeasuredBlocks, queries: Sequence[Query]) -> NoisyVector | None:
    """Queries as weighted sums of measured counts; None where some of them are none."""
    lines = [_line(measured, query) for query in queries]
    known = [line for line in lines if line is not None]
    if len(known) < len(lines):
        return None
    weights, counts = [np.zeros((len(lines), 0))], [np.zeros(0)]
    laws: list[Law] = []
    for number in dict.fromkeys(number for number, _, _ in known):
        used = np.unique(np.concatenate([places for block, places, _ in known if block == number]))
        _, values, law, grid = measured.measured_block(number)
        part = np.zeros((len(lines), len(used)))
        for row, (block, places, sizes) in enumerate(known):
            if block == number:
                part[row, np.searchsorted(used, places)] = sizes
        weights.append(part)
        counts.append(values[used])
        laws += [(law, grid)] * len(used)
    together = np.concatenate(weights, axis=1)
    return NoisyVector(together @ np.concatenate(counts), together, tuple(laws))


def _line(measured: MeasuredBlocks, query: Query) -> Line | None:
    """One query as measured counts with weights: its own measurement, or the cells of the least noisy marginal."""
    direct = measured.listed_place(query)
    if direct is not None:
        return direct[0], np.array([direct[1]]), np.ones(1)
    if not isinstance(query, Predicate | Parity | Linear):
        return None
    best: tuple[float, Line] | None = None
    for number in (*measured.covering(query.columns), *measured.interval_blocks):
        block, _, law, grid = measured.measured_block(number)
        if isinstance(block, Marginal):
            weights = values_on(query, block.domain, block.columns)
            held = np.flatnonzero(weights)
            weights = weights[held]
        elif (chosen := selection_in(block, query)) is not None:
            held = np.concatenate([chosen.added, chosen.subtracted])
            weights = np.repeat([1.0, -1.0], [chosen.added.size, chosen.subtracted.size])
        else:
            continue
        variance = float(np.square(weights).sum()) * variance_of(law) / grid**2
        if best is None or variance < best[0]:
            best = variance, (number, held, weights)
    return None if best is None else best[1]
