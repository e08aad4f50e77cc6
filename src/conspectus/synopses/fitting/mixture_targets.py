"""What a mixture of products is fitted to: tables over one, two or more columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.rules import demand

Floats = NDArray[np.float32]


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
    groups: tuple[NDArray[np.integer[Any]] | None, ...] | None = None


@dataclass(frozen=True, eq=False)
class TableGoal:
    """A target of several columns: its shares as (all columns but the last) × (the last), and maps to its groups."""

    columns: tuple[int, ...]
    shares: Floats
    weight: np.float32
    groups: tuple[NDArray[np.integer[Any]] | None, ...]


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
        self.tables: list[TableGoal] = []
        self.number = 0
        for target in targets:
            self._add(target)
        # Summed once: which pairs there are does not change from step to step.
        self.held = self.pair_weight > 0

    def _add(self, target: Target) -> None:
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
            flat = np.ascontiguousarray(shares.reshape(-1, shares.shape[-1]))
            self.tables.append(TableGoal(columns, flat, np.float32(target.weight), groups))

    def chosen(self, many: int | None, rng: np.random.Generator) -> list[TableGoal]:
        """The tables that a step looks at."""
        if many is None or many >= len(self.tables):
            return self.tables
        return [self.tables[i] for i in rng.choice(len(self.tables), many, replace=False).tolist()]


def _checked(target: Target, sizes: Sequence[int]) -> tuple[Floats, tuple[NDArray[np.integer[Any]] | None, ...]]:
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
