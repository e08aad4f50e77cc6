"""What a mixture of products is fitted to: tables over one, two or more columns."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.rules import demand

Floats = NDArray[np.float32]
Groups = NDArray[np.integer[Any]] | None

MOST_TOGETHER = 16
"""Targets in one bundle: a step over a few bundles should still be one over many columns."""


class CannotFit(ValueError):
    """Targets that no mixture can be fitted to; the message says what is wrong with them."""


@dataclass(frozen=True, eq=False)
class Target:
    """A table that a mixture should have.

    Attributes:
        columns: The positions of its columns, ascending.
        shares: What it holds, in the shape of its columns: zero or more. It is scaled to sum 1.
        weight: How much it counts. In the method that this is from, tables of one or two columns count 1, of three 2.
        groups: For each column the group of every code, where the table is coarser than the columns are; None where it
            is not. Groups are numbered from 0 without a gap.
    """

    columns: tuple[int, ...]
    shares: NDArray[np.floating[Any]]
    weight: float = 1.0
    groups: tuple[Groups, ...] | None = None


@dataclass(frozen=True, eq=False)
class _Table:
    """A target of several columns as it was checked."""

    columns: tuple[int, ...]
    shares: Floats
    weight: float
    groups: tuple[Groups, ...]

    def sides(self) -> list[tuple[int, bytes | None]]:
        """What each column is told apart by."""
        return [(column, None if one is None else one.tobytes()) for column, one in zip(self.columns, self.groups)]


@dataclass(frozen=True, eq=False)
class Bundle:
    """Targets that have all columns but one in common, so that one product of matrices makes all of their tables.

    Attributes:
        common: The columns in common, with maps to their groups.
        others: The other column of each target, likewise.
        shares: (Cells of the common columns) × (codes or groups of the others, side by side).
        weights: The weight of each column of `shares`.
        weight_of: What the bundle weighs for each of its columns, in all.
    """

    common: tuple[tuple[int, Groups], ...]
    others: tuple[tuple[int, Groups], ...]
    shares: Floats
    weights: Floats
    weight_of: Mapping[int, float]


class Goal:
    """All targets, ready for steps."""

    def __init__(self, domain: Domain, targets: Sequence[Target]) -> None:
        self.sizes = domain.sizes
        self.offsets = np.concatenate([[0], np.cumsum(domain.sizes)]).astype(np.int64)
        self.places = [slice(a, b) for a, b in pairwise(self.offsets.tolist())]
        width = int(self.offsets[-1])
        self.single = np.concatenate([np.full(size, 1 / size, dtype=np.float32) for size in domain.sizes])
        self.single_weight = np.zeros(width, dtype=np.float32)
        self.pairs = np.zeros((width, width), dtype=np.float32)
        self.pair_weight = np.zeros((width, width), dtype=np.float32)
        self.divisor = np.zeros(len(domain), dtype=np.float32)
        tables: list[_Table] = []
        self.number = 0
        for target in targets:
            self._add(target, tables)
        self.bundles = _bundled(tables)
        # Summed once: which pairs there are does not change from step to step.
        self.held = self.pair_weight > 0

    def _add(self, target: Target, tables: list[_Table]) -> None:
        shares, groups = _checked(target, self.sizes)
        columns, plain = target.columns, all(one is None for one in groups)
        if len(columns) == 1 and plain:
            at = self.places[columns[0]]
            self.single[at] = shares
            self.single_weight[at] = target.weight
            self.divisor[columns[0]] += target.weight
        elif len(columns) == 2 and plain:
            a, b = (self.places[c] for c in columns)
            demand(CannotFit, (not self.pair_weight[a, b].any(), f"the pair {columns} has two targets"))
            self.pairs[a, b], self.pairs[b, a] = shares, shares.T
            self.pair_weight[a, b] = self.pair_weight[b, a] = target.weight
            self.divisor[list(columns)] += target.weight
            self.number += 1
        else:
            tables.append(_Table(columns, shares, target.weight, groups))

    def chosen(self, many: int | None, rng: np.random.Generator) -> list[Bundle]:
        """The bundles that a step looks at: so many tables, and those that come with the last of them."""
        if many is None:
            return self.bundles
        order = rng.permutation(len(self.bundles))
        before = np.cumsum([0, *(len(self.bundles[i].others) for i in order[:-1])])
        return [self.bundles[i] for i in order[before < many]]


def _bundled(tables: Sequence[_Table]) -> list[Bundle]:
    """All tables, each in one bundle: the largest bundles first."""
    members: dict[Any, list[tuple[int, int]]] = {}
    for number, table in enumerate(tables):
        sides = table.sides()
        for place in range(len(sides)):
            members.setdefault(tuple(sides[:place] + sides[place + 1 :]), []).append((number, place))
    every = list(members.values())
    heap = [(-len(those), at) for at, those in enumerate(every)]
    heapq.heapify(heap)
    waiting = [True] * len(tables)
    found = []
    while heap:
        size, at = heapq.heappop(heap)
        left = [(number, place) for number, place in every[at] if waiting[number]]
        if left and len(left) == -size:
            taken, left = left[:MOST_TOGETHER], left[MOST_TOGETHER:]
            found.append(_bundle([(tables[number], place) for number, place in taken]))
            for number, _ in taken:
                waiting[number] = False
        if left:
            heapq.heappush(heap, (-len(left), at))
    return found


def _bundle(members: Sequence[tuple[_Table, int]]) -> Bundle:
    """Tables, and which column of each the others do not have."""
    parts, weights, weight_of = [], [], dict[int, float]()
    for table, place in members:
        other = table.shares.shape[place]
        parts.append(np.moveaxis(table.shares, place, -1).reshape(-1, other))
        weights.append(np.full(other, table.weight, dtype=np.float32))
        for column in table.columns:
            weight_of[column] = weight_of.get(column, 0.0) + table.weight
    first, at = members[0]
    common = tuple((c, one) for spot, (c, one) in enumerate(zip(first.columns, first.groups)) if spot != at)
    others = tuple((table.columns[place], table.groups[place]) for table, place in members)
    return Bundle(common, others, np.concatenate(parts, axis=1), np.concatenate(weights), weight_of)


def _checked(target: Target, sizes: Sequence[int]) -> tuple[Floats, tuple[Groups, ...]]:
    """The shares of a target, scaled to sum 1, and its groups; refuses what is no table over the columns."""
    columns = target.columns
    known = bool(columns) and list(columns) == sorted(set(columns)) and columns[0] >= 0 and columns[-1] < len(sizes)
    demand(CannotFit, (known, f"the columns of a target are ascending and among {len(sizes)}, not {columns}"))
    groups = target.groups or (None,) * len(columns)
    shape = []
    for column, one in zip(columns, groups):
        if one is not None:
            whole = len(one) == sizes[column] and set(one.tolist()) == set(range(int(one.max()) + 1))
            demand(CannotFit, (whole, "each code of a column has a group, and groups are numbered without a gap"))
        shape.append(sizes[column] if one is None else int(one.max()) + 1)
    shares = np.asarray(target.shares, dtype=np.float64)
    mass = float(shares.sum())
    demand(
        CannotFit,
        (len(groups) == len(columns), "a target has groups for each of its columns, or for none"),
        (shares.shape == tuple(shape), f"the target over {columns} has the shape {shares.shape}, not {tuple(shape)}"),
        (
            np.isfinite(mass) and mass > 0 and float(shares.min()) >= 0 and target.weight > 0,
            "a target holds shares, zero or more and not all zero, and has a weight above zero",
        ),
    )
    return (shares / mass).astype(np.float32), groups
