"""Cells from a tree of noisy counts: every sum of them is one over its nodes, whose noises are independent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from conspectus.privacy.mixed_noise import Term
from conspectus.privacy.tails import variance_of
from conspectus.synopses.tree_counts import TreeCounts

from .cell_estimates import CellCounts, Vector

MOST_SOLVED = 1 << 20
"""Codes times leaves up to which the noise of every rank is computed, and not bounded."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeCells(CellCounts):
    """Cells of the table that is nearest to all nodes of a tree.

    Attributes:
        tree: What was measured.
        columns: The columns of the table, in schema order.
        places: Where in that table the cells stand.
    """

    tree: TreeCounts
    columns: tuple[int, ...]
    places: NDArray[np.int64]

    @classmethod
    def of(cls, tree: TreeCounts, columns: tuple[int, ...]) -> TreeCells:
        """All cells of some columns of the tree, in schema order."""
        counts = tree.marginal(columns).ravel()
        places = np.arange(counts.size)
        return cls(counts=counts, measured=counts, law=tree.noise, tree=tree, columns=columns, places=places)

    def taken(self, places: NDArray[np.bool_]) -> TreeCells:
        """Some of the cells."""
        return replace(self, counts=self.counts[places], measured=self.measured[places], places=self.places[places])

    def terms(self, weights: Vector) -> list[Term]:
        """The noises of a weighted sum: law, weight, and how many."""
        return super().terms(self._on_nodes(weights))

    def narrow(self, weights: Vector, failure: float) -> float | None:
        """The margin where noise is hardly ever drawn; see `CellCounts.narrow`."""
        return super().narrow(self._on_nodes(weights), failure)

    def deviation(self, weights: Vector) -> float:
        """The standard deviation of a weighted sum."""
        return self._unit * float(np.linalg.norm(self._on_nodes(weights)))

    def along(self, above: Vector, below: Vector) -> Callable[[float], float]:
        """Of a ratio r: the deviation of the sum with the weights above − r·below."""
        first, second = self._on_nodes(above), self._on_nodes(below)
        return lambda r: self._unit * float(np.linalg.norm(first - r * second))

    def rank_deviations(self, codes: NDArray[np.int64], size: int, q: float, column: int | None) -> Vector:
        """Of each of `size` codes: the deviation of the number of rows up to it less q times that of all rows.

        Of long columns a bound: the counts of least squares have the least variance of all that are sums of nodes
        without bias, such as those over the leaves, which weigh 1 − q up to a code and q beyond it.
        """
        if size * self.tree.leaves.size <= MOST_SOLVED:
            return np.array([self.deviation((codes <= code).astype(np.float64) - q) for code in range(size)])
        copies = self.tree.leaves.size // self.tree.marginal(self.columns).size
        held = np.cumsum(np.bincount(codes, minlength=size))
        squares = (1 - q) ** 2 * held + q**2 * (len(codes) - held)
        if column == self.tree.tree.column and (np.bincount(codes, minlength=size) == len(codes) // size).all():
            # Whole groups: a prefix is at most so many nodes of each, and the range beyond it at most twice as many.
            nodes = self.tree.tree.fanout * len(self.tree.tree.level_sizes) * (len(codes) // size)
            squares = np.minimum(squares, ((1 - q) ** 2 + 2 * q**2) * nodes)
        return np.asarray(self._unit * np.sqrt(squares * copies))

    @property
    def _unit(self) -> float:
        return math.sqrt(variance_of(self.tree.noise))

    def _on_nodes(self, weights: Vector) -> Vector:
        shape = self.tree.domain.shape(self.columns)
        whole = np.zeros(math.prod(shape))
        whole[self.places] = weights
        order = [self.columns.index(c) for c in self.tree.order if c in self.columns]
        sizes = [
            n if c in self.columns else 1 for c, n in zip(self.tree.order, self.tree.domain.shape(self.tree.order))
        ]
        spread = whole.reshape(shape).transpose(order).reshape(sizes)
        nodes = self.tree.on_nodes(np.broadcast_to(spread, self.tree.domain.shape(self.tree.order)))[0]
        # What is left of weights that cancel is what floats lose.
        return np.where(np.abs(nodes) > 1e-12 * np.abs(weights).max(initial=0.0), nodes, 0.0)
