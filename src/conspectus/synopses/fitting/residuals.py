"""Marginals taken apart into interactions, so that overlapping measurements of the same thing become one.

For a set S of columns let P_S subtract the mean along every axis of a table over S, and R_S = P_S M_S. A marginal over
c is then an orthogonal sum of interactions: for any p and y

    ‖M_c p − y‖² = Σ_{S ⊆ c} ‖R_S p − P_S M_S y‖² / Π_{i ∈ c∖S} n_i.

A weighted sum of squared distances to many marginals is therefore, up to a constant, one weighted squared distance per
*distinct* interaction, to the average of its measurements. The 560 three-way marginals of 16 columns overlap in 136
lower interactions; pooled, they are a well-conditioned problem. The interactions of one marginal of many columns are
far longer together than it is. Such a marginal is turned as one into cosines along its axes, an orthonormal basis whose
first vector is constant: a coefficient belongs to the interaction of the axes along which it is not the first.
Partitions of a marginal's cells into parts are kept as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled
from conspectus.counting.marginal_tree import Columns, marginal_tree
from conspectus.queries.ordering import starts_of
from conspectus.synopses.fitting.lbfgs import Vector

Part = tuple[Columns, bytes]  # the columns, and for a partition of their cells the part of each as int64 bytes

INTERACTION = b"interaction"
"""What an interaction has in the place of parts."""

_NARROW = 5  # marginals of up to so many columns are always taken apart
_MOST_APART, _MOST_SETS = 8, 1 << 20  # others are turned as one where their interactions hold so many times their cells


@compiled
def _along_axes(axes: Any, values: Any, squares: bool) -> Any:
    """Take the mean away along each axis in turn; or with `squares`, turn shares into second moments of features.

    Along an axis E(1[x = j] − 1/n)² = p_j (1 − 2/n) + 1/n².
    """
    for a in range(axes.shape[0]):
        start, outer, size, inner = axes[a, 0], axes[a, 1], axes[a, 2], axes[a, 3]
        for o in range(outer):
            for i in range(inner):
                at = start + o * size * inner + i
                mass = 0.0
                for j in range(size):
                    mass += values[at + j * inner]
                scale, shift = (1 - 2 / size, mass / (size * size)) if squares else (1.0, -(mass / size))
                for j in range(size):
                    values[at + j * inner] = values[at + j * inner] * scale + shift


@dataclass(frozen=True, eq=False)
class Target:
    """What a fit aims at: the fractions of the cells of a marginal, or of the parts of them, and the weight of the
    squared distance to them. `parts` gives the part of each cell, None when every cell is its own. With `shares` each
    cell lies in the second of two parts with its share, and else in the first."""

    columns: Columns
    fractions: Vector
    weight: float
    parts: NDArray[np.int64] | None = None
    shares: NDArray[np.float64] | None = None

    @property
    def key(self) -> Part:
        if self.shares is not None:
            return self.columns, b"shares" + self.shares.astype(np.float64).tobytes()
        return self.columns, b"" if self.parts is None else self.parts.astype(np.int64).tobytes()

    @property
    def partition(self) -> bool:
        """Whether it is about parts of the cells of its columns, and no whole marginal."""
        return self.parts is not None or self.shares is not None


@dataclass(frozen=True)
class _Turned:
    """A marginal that is turned as one: where its coefficients stand, its columns and its shape."""

    start: int
    columns: Columns
    shape: tuple[int, ...]

    @property
    def place(self) -> slice:
        return slice(self.start, self.start + math.prod(self.shape))

    def cosines(self, values: Vector, *, back: bool = False) -> Vector:
        """Its coefficients; with `back` its cells from them. Both are orthonormal, and so adjoint to each other."""
        from scipy.fft import dctn, idctn  # a tenth of a second, which only a fit needs

        return np.asarray((idctn if back else dctn)(values.reshape(self.shape), norm="ortho")).ravel()

    def second_moments(self, shares: Vector) -> Vector:
        """Of each coefficient of one record the mean square, where records lie in cells with these shares."""
        from scipy.fft import dct

        moments = shares.reshape(self.shape)
        for axis, size in enumerate(self.shape):
            squares = np.square(dct(np.eye(size), norm="ortho", axis=0))
            moments = np.moveaxis(np.tensordot(squares, moments, axes=(1, axis)), 0, axis)
        return moments.ravel()

    @property
    def axes(self) -> NDArray[np.bool_]:
        """For each axis and coefficient whether it speaks of that column: whether it is not the first along it."""
        return np.indices(self.shape).reshape(len(self.shape), -1) > 0

    @property
    def copies(self) -> Vector:
        """Over how many cells of the other columns a coefficient adds up."""
        return np.asarray(np.where(self.axes, 1.0, np.array(self.shape, dtype=np.float64)[:, None]).prod(axis=0))


def _of_order(strengths: Sequence[float], order: int) -> float:
    return strengths[min(max(order, 1), len(strengths)) - 1]


def _subsets(sets: Iterable[Columns]) -> set[Columns]:
    """All that are not empty."""
    return {s for c in sets for k in range(1, len(c) + 1) for s in combinations(c, k)}


class Residuals:
    """The distinct features of a list of targets; `of` and `spread` are adjoint to each other on centred vectors.

    Feature vectors hold, one after the other, a table per interaction, then one vector for each marginal that is turned
    as one, and for each partition.
    """

    def __init__(self, sizes: Sequence[int], targets: Sequence[Target], interactions: Iterable[Columns] = ()) -> None:
        """`interactions` are features besides those of the targets, of however many columns."""
        self.sizes = tuple(sizes)
        marginals = {target.columns for target in targets if not target.partition}
        self._whole = self._too_long_apart({columns for columns in marginals if len(columns) > _NARROW})
        sets = sorted(_subsets(marginals - self._whole).union(interactions), key=lambda s: (len(s), s))
        together = {target.key: target for target in targets if self._alone(target)}
        wide = list(dict.fromkeys(columns for columns, _ in together))
        self._tree = marginal_tree(self.sizes, tuple(sets + wide))
        starts = dict(zip(sets + [("wide", c) for c in wide], self._tree.offsets.tolist()))
        self._shared = int(self._tree.offsets[len(sets)])  # features up to here are leaves of the tree as they are
        self.keys: list[Part] = [(s, INTERACTION) for s in sets] + list(together)
        lengths = [self._volume(s) for s in sets] + [target.fractions.size for target in together.values()]
        self.offsets = starts_of(lengths)
        self.length = int(self.offsets[-1])
        self._at = dict(zip(self.keys, self.offsets.tolist()))
        whole = [(key, tuple(self.sizes[c] for c in key[0])) for key in together if not key[1]]
        self._turned = [_Turned(self._at[key], key[0], shape) for key, shape in whole]
        leaves, features = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        weights, plain = [np.empty(0)], True
        for key, target in together.items():
            cells = self._volume(target.columns)
            here, at = starts["wide", target.columns] + np.arange(cells), self._at[key]
            if target.shares is None:
                leaves.append(here)
                features.append(at + (np.arange(cells) if target.parts is None else target.parts))
                weights.append(np.ones(cells))
            else:
                plain = False
                leaves += [here, here]
                features += [np.full(cells, at), np.full(cells, at + 1)]
                weights += [1 - target.shares, target.shares]
        self._leaves, self._features = np.concatenate(leaves), np.concatenate(features)
        # How much of a leaf a feature holds: all of it, unless some cells lie in two parts.
        self._weights: Vector | float = 1.0 if plain else np.concatenate(weights)
        axes = [
            (starts[s], self._volume(s[:j]), self.sizes[c], self._volume(s[j + 1 :]))
            for s in sets
            for j, c in enumerate(s)
        ]
        self._axes = np.array(axes, dtype=np.int64).reshape(-1, 4)

    def _too_long_apart(self, wide: set[Columns]) -> set[Columns]:
        """These marginals, where they are to be turned as one; none of them where they are taken apart, since they
        have so much in common."""
        if len(wide) < 2 or sum(2.0 ** len(columns) for columns in wide) > _MOST_SETS:
            return wide
        apart = sum(self._volume(columns) for columns in _subsets(wide))
        return wide if apart > _MOST_APART * sum(self._volume(columns) for columns in wide) else set()

    def _alone(self, target: Target) -> bool:
        """Whether a target is a vector of its own, and shares no interactions of its columns with other targets."""
        return target.partition or target.columns in self._whole

    def _volume(self, columns: Sequence[int]) -> int:
        return math.prod(self.sizes[c] for c in columns)

    def of(self, table: Vector) -> Vector:
        """The features of a table over the universe."""
        leaves = self._tree.marginals_flat(table)
        if self.length == self._shared:
            values = leaves
        else:
            gathered = np.bincount(self._features, weights=leaves[self._leaves] * self._weights, minlength=self.length)
            values = gathered.astype(np.float64, copy=False)
            values[: self._shared] = leaves[: self._shared]
        _along_axes(self._axes, values, False)
        return self._coefficients(values)

    def centred(self, values: Vector) -> Vector:
        """Each interaction's table with its means removed along every axis; a fresh array."""
        values = np.array(values, dtype=np.float64)
        _along_axes(self._axes, values, False)
        return values

    def spread(self, values: Vector) -> Vector:
        """The adjoint of `of`, for centred values: their sum as a function of the cells of the universe."""
        if self.length != self._shared:
            values = values.copy() if self._turned else values
            for one in self._turned:
                values[one.place] = one.cosines(values[one.place], back=True)
            handed = np.bincount(
                self._leaves, weights=values[self._features] * self._weights, minlength=self._tree.length
            )
            filled = handed.astype(np.float64, copy=False)
            filled[: self._shared] = values[: self._shared]
            values = filled
        return self._tree.spread_flat(values)

    def put_together(self, values: Vector) -> Vector:
        """The marginals over the columns of each interaction, as fractions, from the interactions of all subsets.

        They are those of one function on the universe: the sum of all interactions, each spread evenly.
        """
        cells = self._volume(range(len(self.sizes)))
        volumes = [self._volume(columns) if kind == INTERACTION else 0 for columns, kind in self.keys]
        together = self.spread(values * np.repeat(volumes, np.diff(self.offsets)) / cells) + 1 / cells
        return self._tree.marginals_flat(together)[: self._shared]

    def variances(self, marginals: Vector, means: Vector) -> Vector:
        """For each entry the variance of its feature of one record, given (estimates of) the marginals and means."""
        moments = np.maximum(marginals, 0)
        _along_axes(self._axes, moments, True)
        for one in self._turned:
            moments[one.place] = one.second_moments(np.maximum(marginals[one.place], 0))
        return np.maximum(moments - means * means, 0)

    def by_order(self, strengths: Sequence[float]) -> Vector:
        """For each entry the strength for as many columns as it speaks of, the last one for any more, in units of the
        noise of the counts that it is an interaction of: a coefficient has that noise over the root of the cells of
        other columns that it adds up."""
        orders = [(len(columns) if kind == INTERACTION else 1) for columns, kind in self.keys]
        found = np.repeat([_of_order(strengths, order) for order in orders], np.diff(self.offsets))
        for one in self._turned:
            orders = one.axes.sum(axis=0).tolist()
            found[one.place] = [_of_order(strengths, order) for order in orders] / np.sqrt(one.copies)
        return found

    def repeats(self, precision: Vector) -> Vector:
        """For each entry the precision of all measurements of its interaction together, over that of its own.

        It is 1 where all are pooled. Marginals that are turned as one keep theirs apart where they overlap.
        """
        found = np.ones(self.length)
        if not self._turned:
            return found
        # By sets of columns of more than one value, as numbers; what is about one value is nothing.
        bits = {column: 1 << place for place, column in enumerate(c for c, size in enumerate(self.sizes) if size > 1)}
        together: dict[int, float] = {}
        own = []
        for (columns, kind), start, end in zip(self.keys, self.offsets.tolist(), self.offsets[1:].tolist()):
            if kind == INTERACTION and bits.keys() >= set(columns):
                mask = sum(bits[column] for column in columns)
                own.append((slice(start, end), np.array([mask]), precision[start : start + 1]))
        for one in self._turned:
            masks = np.array([bits.get(column, 0) for column in one.columns], dtype=np.int64) @ one.axes
            own.append((one.place, masks, precision[one.place] / one.copies))
        for _, masks, precisions in own:
            for mask, at in zip(*(each.tolist() for each in np.unique(masks, return_index=True))):
                together[mask] = together.get(mask, 0.0) + float(precisions[at])
        for place, masks, precisions in own:
            found[place] = np.array([together[mask] for mask in masks.tolist()]) / precisions
        return found

    def interactions(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each entry the number of its interaction; and how many dimensions each of these has.

        A partition has none: of what was asked as one question nothing is told apart.
        """
        kinds = [math.prod(self.sizes[c] - 1 for c in columns) * (kind == INTERACTION) for columns, kind in self.keys]
        entries = np.repeat(np.arange(len(self.keys)), np.diff(self.offsets))
        dimensions = [np.array(kinds, dtype=np.int64)]
        for one in self._turned:
            code = 2 ** np.arange(len(one.shape)) @ one.axes
            entries[one.place] = code + sum(part.size for part in dimensions)
            dimensions.append(np.bincount(code) * (np.arange(code.max() + 1) > 0))
        return entries, np.concatenate(dimensions)

    def _coefficients(self, values: Vector) -> Vector:
        """Marginals that are turned as one, in their cosines; in place."""
        for one in self._turned:
            values[one.place] = one.cosines(values[one.place])
        return values

    def pool(self, targets: Sequence[Target]) -> tuple[Vector, Vector, Vector]:
        """Pool targets into one for each feature.

        Gives, entry by entry: the averaged marginals, the averaged features, and the weights of their squared
        distances. The weighted squared distances agree up to a constant with those to the targets.
        """
        sums, weights = np.zeros(self.length), np.zeros(self.length)
        groups: dict[tuple[int, ...], list[Target]] = {}
        for target in targets:
            if self._alone(target):
                start = self._at[target.key]
                sums[start : start + target.fractions.size] += target.weight * target.fractions
                weights[start : start + target.fractions.size] += target.weight
            elif target.columns:
                groups.setdefault(tuple(self.sizes[c] for c in target.columns), []).append(target)
        for shape, group in groups.items():
            self._pool_alike(shape, group, sums, weights)
        averages = sums / weights
        return averages, self._coefficients(self.centred(averages)), weights

    def _pool_alike(self, shape: tuple[int, ...], group: list[Target], sums: Vector, weights: Vector) -> None:
        """Take all marginals of one shape apart together."""
        strength = np.array([target.weight for target in group])
        stack = np.stack([target.weight * target.fractions for target in group]).reshape(-1, *shape)
        for k in range(1, len(shape) + 1):
            for inside in combinations(range(len(shape)), k):
                outside = tuple(j for j in range(len(shape)) if j not in inside)
                copies = math.prod(shape[j] for j in outside)
                projected = stack.sum(axis=tuple(j + 1 for j in outside)).reshape(len(group), -1) / copies
                sets = [tuple(target.columns[j] for j in inside) for target in group]
                starts = np.array([self._at[s, INTERACTION] for s in sets])
                places = starts[:, None] + np.arange(projected.shape[1])
                np.add.at(sums, places, projected)
                np.add.at(weights, places, np.broadcast_to((strength / copies)[:, None], places.shape))
