"""Cells from a tree of noisy counts: every sum of them is one over its nodes, whose noises are independent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from conspectus.privacy.mixed_noise import Term
from conspectus.privacy.tails import variance_of
from conspectus.queries.blocks.dyadic_tree import DyadicTree
from conspectus.synopses.tree_counts import TreeCounts, TreeSums

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
        sums: How sums of them are sums over nodes.
    """

    tree: TreeCounts
    columns: tuple[int, ...]
    places: NDArray[np.int64]
    sums: TreeSums

    @classmethod
    def of(cls, tree: TreeCounts, columns: tuple[int, ...]) -> TreeCells:
        """All cells of some columns of the tree, in schema order."""
        counts, sums = tree.marginal(columns).ravel(), tree.sums(columns)
        return cls(
            counts=counts,
            measured=counts,
            law=tree.noise,
            copies=sums.copies,
            tree=tree,
            columns=columns,
            places=np.arange(counts.size),
            sums=sums,
        )

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

        Of other columns than the one of the tree a bound, where there are many leaves: the counts of least squares have
        the least variance of all that are sums of nodes without bias, such as those over the leaves, which weigh 1 − q
        up to a code and q beyond it.
        """
        nodes = self.sums.tree
        if column == nodes.column:
            held = self._spread(np.ones(len(self.places)))
            found = rank_variances(nodes, held, q, adds_up=self.sums.adds_up)[:size]
            return np.asarray(self._unit * np.sqrt(np.maximum(found, 0.0)))
        if size * nodes.groups * nodes.leaves <= MOST_SOLVED:
            return np.array([self.deviation((codes <= code).astype(np.float64) - q) for code in range(size)])
        copies = self.tree.leaves.size // math.prod(self.tree.domain.shape(self.columns))
        held = np.cumsum(np.bincount(codes, minlength=size))
        squares = (1 - q) ** 2 * held + q**2 * (len(codes) - held)
        return np.asarray(math.sqrt(variance_of(self.tree.noise) * copies) * np.sqrt(squares))

    @property
    def _unit(self) -> float:
        return math.sqrt(variance_of(self.tree.noise) * self.copies)

    def _on_nodes(self, weights: Vector) -> Vector:
        nodes = self.sums.on_nodes(self._spread(weights))[0]
        # What is left of weights that cancel is what floats lose.
        return np.where(np.abs(nodes) > 1e-12 * np.abs(weights).max(initial=0.0), nodes, 0.0)

    def _spread(self, weights: Vector) -> Vector:
        """Weights of the cells as those of all leaves of the groups that are told apart."""
        shape, nodes = self.tree.domain.shape(self.columns), self.sums.tree
        whole = np.zeros(math.prod(shape))
        whole[self.places] = weights
        table = whole.reshape(shape).transpose([self.columns.index(c) for c in self.sums.order if c in self.columns])
        return np.broadcast_to(table.reshape(nodes.groups, -1), (nodes.groups, nodes.leaves))


def rank_variances(tree: DyadicTree, held: Vector, q: float, *, adds_up: bool) -> Vector:
    """The variance of the rows up to each code less q times all rows, for noise of variance 1 in every node.

    With A the nodes and w the weights of the leaves it is w·(AᵀA)⁻¹·w. Below a node AᵀA is that of its children, side
    by side, and 1 everywhere: with s = 1·(AᵀA)⁻¹·w, t the same for ones and Q what is looked for, added up over the
    children, those of the node are s/(1 + t), t/(1 + t) and Q − s²/(1 + t). For the rows u up to a code all children
    left of it are as for all rows m, and those right of it are 0, so that one child is followed from level to level.

    Args:
        tree: The nodes.
        held: Which leaves count: a line of ones and zeros for each group.
        q: Between 0 and 1.
        adds_up: Whether the number of rows below all nodes is known.
    """
    size, fanout = tree.leaves, tree.fanout
    s, t, both = held.copy(), np.ones(size), np.square(held)  # of all rows m: s, t and m·m
    up, cross, square = held.copy(), np.square(held), np.square(held)  # of the rows u up to a code: s, u·m and u·u
    at = np.arange(size)  # the node above each code

    def left(values: Vector) -> Vector:
        """For each code the sum over the nodes of its family left of its own."""
        sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
        return np.asarray(sums[:, at] - sums[:, at // fanout * fanout])

    for many in reversed(tree.level_sizes[:-1]):
        up, cross, square = up + left(s), cross + left(both), square + left(both)
        short = many * fanout - len(t)
        total = np.pad(t, (0, short)).reshape(many, fanout).sum(axis=1)
        s, both = (np.pad(x, ((0, 0), (0, short))).reshape(-1, many, fanout).sum(axis=2) for x in (s, both))
        at = at // fanout
        part = 1 + total[at]
        up, cross, square = up / part, cross - up * s[:, at] / part, square - up**2 / part
        s, both, t = s / (1 + total), both - s**2 / (1 + total), total / (1 + total)
    fanout = len(t)  # the highest nodes have none above them
    up, cross, square = up + left(s), cross + left(both), square + left(both)
    found = (square - 2 * q * cross + q**2 * both.sum(axis=1, keepdims=True)).sum(axis=0)
    if adds_up:
        known = (up - q * s.sum(axis=1, keepdims=True)).sum(axis=0)
        found = found - np.square(known) / (len(held) * t.sum())
    return np.asarray(found)
