"""The best linear estimate of a marginal from all noisy marginals of one table, with its exact variance.

A marginal over T is an orthogonal sum of interactions. For S ⊆ T let E_S = P_S M_S x: the table over S with its mean
removed along every axis (`residuals`). With K_T the number of cells of T,

    M_T x = Σ_{S ⊆ T} E_S · K_S/K_T,    each E_S repeated along the columns that are not in S.

A marginal over C ⊇ S with independent noise of variance s² in each cell measures E_S with the covariance
s²·K_C/K_S · P_S, and independent noises of different interactions are uncorrelated. So least squares over all measured
marginals is one average for each interaction, with the weights a_C = K_S/(K_C·s²). By Gauss and Markov no other linear
unbiased estimate has a smaller variance, in any cell. An average has the covariance P_S/A_S, A_S = Σ a_C; the diagonal
of P_S is d_S/K_S with d_S = Π(n_i − 1), and the variance of a cell of T is

    Σ_{S ⊆ T} d_S·K_S / (K_T²·A_S).

The interaction of no column is the number of rows: public, or a noisy total with a variance of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Columns = tuple[int, ...]

MOST_INTERACTIONS = 1 << 19
"""The most interactions, counted once for each marginal that holds them, that are worth taking apart."""


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """A marginal with independent noise in each cell: ascending columns, flat counts, and the variance of a cell."""

    columns: Columns
    counts: Vector
    variance: float


@dataclass(frozen=True, eq=False)
class CellEstimates:
    """The cells of one marginal: their counts, flat, the variance of each, and how much one noise weighs at most.

    A count is the truth plus a sum of independent noises with weights. `largest` bounds the size of these weights.
    """

    counts: Vector
    variance: float
    largest: float


def in_ascending_order(sizes: Sequence[int], columns: Sequence[int], counts: Vector) -> tuple[Columns, Vector]:
    """A marginal with its columns in ascending order."""
    order = np.argsort(np.array(columns, dtype=np.int64), kind="stable")
    table = np.asarray(counts, dtype=np.float64).reshape([sizes[c] for c in columns])
    return tuple(columns[i] for i in order), table.transpose(order).ravel()


def subsets(columns: Columns) -> Iterator[Columns]:
    """All sets of these columns but the empty one."""
    return (chosen for k in range(1, len(columns) + 1) for chosen in combinations(columns, k))


class BestEstimates:
    """Least squares over noisy marginals of one table, interaction by interaction."""

    def __init__(
        self, sizes: Sequence[int], marginals: Sequence[NoisyMarginal], total: float, total_variance: float
    ) -> None:
        self._sizes = tuple(sizes)
        self._total, self._total_variance = total, total_variance
        self._least = min(marginal.variance for marginal in marginals)
        self._sums: dict[Columns, Vector] = {}
        self._precisions: dict[Columns, float] = {}
        self._heaviest: dict[Columns, float] = {}
        alike: dict[tuple[int, ...], list[NoisyMarginal]] = {}
        for marginal in marginals:
            alike.setdefault(tuple(self._sizes[c] for c in marginal.columns), []).append(marginal)
        for shape, group in alike.items():
            self._pool(shape, group)

    @staticmethod
    def worthwhile(marginals: Sequence[NoisyMarginal]) -> bool:
        """Whether there are few enough interactions; marginals of very many columns have too many."""
        return sum(2.0 ** len(marginal.columns) for marginal in marginals) <= MOST_INTERACTIONS

    def cover(self, columns: Sequence[int]) -> bool:
        """Whether some marginal holds all these columns, so that every interaction of them was measured."""
        return not columns or tuple(sorted(columns)) in self._sums

    def of(self, columns: Sequence[int]) -> CellEstimates:
        """The cells of a marginal that is covered, row-major in the order of the columns given."""
        shape = [self._sizes[c] for c in columns]
        cells = math.prod(shape)
        table = np.full(shape, self._total / cells)
        variance = self._total_variance / cells**2
        # Of the total only the variance is known: at worst all of it comes from one noise.
        largest = math.sqrt(self._total_variance / self._least) / cells
        for chosen in subsets(tuple(columns)):
            inside = tuple(sorted(chosen))
            effect = self._sums[inside] / self._precisions[inside]
            along = effect.transpose([inside.index(c) for c in chosen])
            table += along.reshape([self._sizes[c] if c in chosen else 1 for c in columns]) * (effect.size / cells)
            dimensions = math.prod(self._sizes[c] - 1 for c in inside)
            variance += dimensions * effect.size / (cells**2 * self._precisions[inside])
            largest += dimensions / cells * self._heaviest[inside] / self._precisions[inside]
        return CellEstimates(table.ravel(), variance, largest)

    def _pool(self, shape: tuple[int, ...], group: list[NoisyMarginal]) -> None:
        """Take all marginals of one shape apart together, and add what each interaction was measured as."""
        stack = np.stack([marginal.counts for marginal in group]).reshape(-1, *shape)
        cells = math.prod(shape)
        for inside in subsets(tuple(range(len(shape)))):
            effects = stack.sum(axis=tuple(i + 1 for i in range(len(shape)) if i not in inside))
            for axis in range(1, effects.ndim):
                effects = effects - effects.mean(axis=axis, keepdims=True)
            for marginal, effect in zip(group, effects):
                columns = tuple(marginal.columns[i] for i in inside)
                precision = effect.size / (cells * marginal.variance)
                self._sums[columns] = self._sums.get(columns, 0.0) + precision * effect
                self._precisions[columns] = self._precisions.get(columns, 0.0) + precision
                self._heaviest[columns] = max(self._heaviest.get(columns, 0.0), precision)
