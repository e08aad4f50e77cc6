"""A tree of intervals over the codes of a column: how many rows lie below each node, in every group of other columns.

Level 1 cuts the codes into `fanout` stretches at most, each further level cuts these again, and the last level is the
single codes. A range of r codes is a sum of few nodes, where it would be a sum of r counts of a plain table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.block import check_length
from conspectus.queries.query import Indices, Literal, Predicate
from conspectus.queries.sensitivity import CountingBlock, WorkloadError

from .conjunction_list import Conjunctions

MOST_FANOUT = 1 << 16


@dataclass(frozen=True)
class DyadicTree(CountingBlock):
    """The nodes of a tree over all codes of `column`, for each cell of the columns `by`, in row-major order of these.

    Nodes of one group stand level by level, from the stretches below the root down to the codes.

    Guarantee: `max_satisfied` and `max_differing` are the exact maxima over records and pairs of records.
    """

    domain: Domain
    column: int
    by: tuple[int, ...]
    fanout: int

    def __post_init__(self) -> None:
        known = [self.column, *self.by]
        if any(type(c) is not int or not 0 <= c < len(self.domain) for c in known) or len(set(known)) != len(known):
            raise WorkloadError("a tree needs a column of its table, and other ones to group by")
        if list(self.by) != sorted(self.by) or type(self.fanout) is not int or not 2 <= self.fanout <= MOST_FANOUT:
            raise WorkloadError(f"a tree groups by columns in order, and has between 2 and {MOST_FANOUT:,} branches")
        check_length(len(self), "this tree")

    @property
    def leaves(self) -> int:
        """The number of codes of the column."""
        return self.domain.sizes[self.column]

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many codes a node of each level holds at most, from the highest level to single codes."""
        widths = [1]
        while widths[-1] * self.fanout < self.leaves:
            widths.append(widths[-1] * self.fanout)
        return tuple(reversed(widths))

    @cached_property
    def level_sizes(self) -> tuple[int, ...]:
        """How many nodes each level has."""
        return tuple(-(-self.leaves // width) for width in self.widths)

    @property
    def nodes(self) -> int:
        """How many nodes one group has."""
        return sum(self.level_sizes)

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return self.domain.project(self.by).cells

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted((*self.by, self.column)))

    def __len__(self) -> int:
        return self.groups * self.nodes

    def query(self, index: int) -> Predicate:
        group, node = divmod(index, self.nodes)
        level = 0
        while node >= self.level_sizes[level]:
            node, level = node - self.level_sizes[level], level + 1
        first = node * self.widths[level]
        codes = tuple(range(first, min(first + self.widths[level], self.leaves)))
        cells = np.unravel_index(group, self.domain.shape(self.by)) if self.by else ()
        held = [Literal(c, (int(code),)) for c, code in zip(self.by, cells) if self.domain.sizes[c] > 1]
        if len(codes) < self.leaves:
            held.append(Literal(self.column, codes))
        return Predicate((tuple(sorted(held, key=lambda literal: literal.column)),))

    def take(self, indices: Indices) -> Conjunctions:
        """Some nodes, listed."""
        return Conjunctions.of(self.domain, [self.query(int(i)) for i in indices])

    def max_satisfied(self) -> int:
        """A record lies below one node of every level."""
        return len(self.widths)

    def max_differing(self) -> int:
        """Two records of different groups, or below different nodes of level 1, share no node."""
        apart = self.groups > 1 or self.level_sizes[0] > 1
        return 2 * len(self.widths) if apart else 0

    def sums(self, table: NDArray[Any]) -> NDArray[Any]:
        """The nodes of all groups, from a table of groups by codes."""
        found = []
        for width, size in zip(self.widths, self.level_sizes):
            padded = np.pad(table, ((0, 0), (0, size * width - self.leaves)))
            found.append(padded.reshape(len(table), size, width).sum(axis=2))
        return np.concatenate(found, axis=1)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "tree", "column": self.column, "columns": list(self.by), "fanout": self.fanout}
