"""Marginals taken apart into interactions, so that overlapping measurements of the same thing become one.

For a set S of columns let P_S subtract the mean along every axis of a table over S, and R_S = P_S M_S. A marginal over
c is then an orthogonal sum of interactions: for any p and y

    ‖M_c p − y‖² = Σ_{S ⊆ c} ‖R_S p − P_S M_S y‖² / Π_{i ∈ c∖S} n_i.

A weighted sum of squared distances to many marginals is therefore, up to a constant, one weighted squared distance per
*distinct* interaction, to the average of its measurements. The 560 three-way marginals of 16 columns overlap in 136
lower interactions; pooled, they are a well-conditioned problem. Marginals of many columns have too many interactions,
and are kept whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import numba
import numpy as np
from numpy.typing import NDArray

from .marginal_tree import Columns, MarginalTree

Vector = NDArray[np.float64]

_WHOLE = 6  # marginals of this many columns or more are not taken apart


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _centre(axes, values):  # type: ignore[no-untyped-def]
    for a in range(axes.shape[0]):
        start, outer, size, inner = axes[a, 0], axes[a, 1], axes[a, 2], axes[a, 3]
        for o in range(outer):
            for i in range(inner):
                at = start + o * size * inner + i
                mean = 0.0
                for j in range(size):
                    mean += values[at + j * inner]
                mean /= size
                for j in range(size):
                    values[at + j * inner] -= mean


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _second_moments(axes, values):  # type: ignore[no-untyped-def]
    # Along each axis E(1[x = j] − 1/n)² = p_j (1 − 2/n) + 1/n², applied to every axis in turn.
    for a in range(axes.shape[0]):
        start, outer, size, inner = axes[a, 0], axes[a, 1], axes[a, 2], axes[a, 3]
        for o in range(outer):
            for i in range(inner):
                at = start + o * size * inner + i
                mass = 0.0
                for j in range(size):
                    mass += values[at + j * inner]
                for j in range(size):
                    values[at + j * inner] = values[at + j * inner] * (1 - 2 / size) + mass / (size * size)


class Residuals:
    """The interactions of a list of marginals; `of` and `spread` are adjoint to each other.

    Vectors hold one table per interaction, one after the other; `of` gives the interactions of a table of the universe.
    """

    def __init__(self, sizes: Sequence[int], column_sets: Iterable[Columns]) -> None:
        marginals = list(dict.fromkeys(column_sets))
        apart = {c for c in marginals if len(c) < _WHOLE}
        interactions = {s for c in apart for k in range(1, len(c) + 1) for s in combinations(c, k)}
        self.sets: list[Columns] = sorted(interactions, key=lambda s: (len(s), s))
        self.whole: list[Columns] = [c for c in marginals if c not in apart]
        self.tree = MarginalTree(sizes, self.sets + self.whole)
        self.length = self.tree.length
        self._at = {("apart", s): int(self.tree.offsets[i]) for i, s in enumerate(self.sets)}
        self._at |= {("whole", s): int(self.tree.offsets[i + len(self.sets)]) for i, s in enumerate(self.whole)}
        self._sizes = tuple(sizes)
        axes = []
        for i, s in enumerate(self.sets):
            for j, c in enumerate(s):
                outer, inner = self._volume(s[:j]), self._volume(s[j + 1 :])
                axes.append((int(self.tree.offsets[i]), outer, self._sizes[c], inner))
        self._axes = np.array(axes, dtype=np.int64).reshape(-1, 4)

    def _volume(self, columns: Sequence[int]) -> int:
        return math.prod(self._sizes[c] for c in columns)

    def of(self, table: Vector) -> Vector:
        """The interactions of a table over the universe."""
        values = self.tree.marginals_flat(table)
        _centre(self._axes, values)
        return values

    def centred(self, values: Vector) -> Vector:
        """Each interaction's table with its means removed along every axis; a fresh array."""
        values = np.array(values, dtype=np.float64)
        _centre(self._axes, values)
        return values

    def spread(self, values: Vector) -> Vector:
        """The adjoint of `of`, for centred values: their sum as a function of the cells of the universe."""
        return self.tree.spread_flat(values)

    def variances(self, marginals: Vector, means: Vector) -> Vector:
        """For each entry the variance of its feature of one record, given (estimates of) the marginals and means."""
        moments = np.maximum(marginals, 0)
        _second_moments(self._axes, moments)
        return np.maximum(moments - means * means, 0)

    def pool(self, measured: Sequence[tuple[Columns, Vector, float]]) -> tuple[Vector, Vector, Vector]:
        """Pool marginals (columns, fractions, weight of the squared distance) into one target per interaction.

        Gives, entry by entry: the averaged marginals, the averaged interactions, and the weights of their squared
        distances. The weighted squared distances agree up to a constant with those to the marginals.
        """
        sums, weights = np.zeros(self.length), np.zeros(self.length)
        groups: dict[tuple[int, ...], list[tuple[Columns, Vector, float]]] = {}
        for columns, fractions, weight in measured:
            if ("whole", columns) in self._at:
                at = slice(start := self._at["whole", columns], start + fractions.size)
                sums[at] += weight * fractions
                weights[at] += weight
            elif columns:
                groups.setdefault(tuple(self._sizes[c] for c in columns), []).append((columns, fractions, weight))
        for shape, group in groups.items():  # all marginals of one shape together
            stack = np.stack([weight * fractions for _, fractions, weight in group]).reshape(-1, *shape)
            strength = np.array([weight for _, _, weight in group])
            for k in range(1, len(shape) + 1):
                for inside in combinations(range(len(shape)), k):
                    outside = tuple(j for j in range(len(shape)) if j not in inside)
                    copies = math.prod(shape[j] for j in outside)
                    projected = stack.sum(axis=tuple(j + 1 for j in outside)).reshape(len(group), -1) / copies
                    starts = np.array([self._at["apart", tuple(c[j] for j in inside)] for c, _, _ in group])
                    at_all = starts[:, None] + np.arange(projected.shape[1])
                    np.add.at(sums, at_all, projected)
                    np.add.at(weights, at_all, np.broadcast_to((strength / copies)[:, None], at_all.shape))
        averages = sums / weights
        return averages, self.centred(averages), weights
