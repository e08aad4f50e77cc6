"""All small databases, without enumeration, where any two questions are nested or disjoint (a *laminar* family).

Such questions form a tree: the cells of one marginal, the prefixes of a column, a hierarchy of either. A database is a
number of rows at each node, and its score is the worst level over the nodes. How many databases keep every level at t
or below is then a product over the tree: a node's generating polynomial, whose j-th coefficient counts the ways to put
j rows below it, is the product of its children's, without the coefficients that would make its own error too large. A
polynomial is one long integer with a slot for each coefficient (Kronecker's substitution), so a node is one
multiplication. From the counts at t and at t − 1 a member of any rank is read off exactly; nothing is rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .nets import Databases, Levels, Member, Ranked, answer_levels, databases

Kind = Literal["most", "below", "between"]
"""Databases at a level or below it, strictly below, or exactly at it."""

Shifted = tuple[int, int]
"""A polynomial that begins with so many zero coefficients, and the others in the slots of one integer."""

TOP = 1 << 44
"""Higher than any level: counts are below 2⁴⁰."""


@dataclass(frozen=True)
class Node:
    """A set of records: its question (none at the root), its parent, and the class that is in none of its children."""

    query: int | None
    parent: int
    residue: int | None


def laminar_tree(truth: NDArray[np.bool_]) -> tuple[Node, ...] | None:
    """The tree of a laminar family of questions on classes of records, parents first; None where it is not laminar."""
    owner = np.zeros(len(truth), np.int64)
    sizes = truth.sum(axis=0)
    nodes: list[tuple[int | None, int]] = [(None, -1)]
    for query in np.argsort(-sizes, kind="stable").tolist():
        inside = np.flatnonzero(truth[:, query])
        if not len(inside):
            nodes.append((query, 0))
            continue
        parent = int(owner[inside[0]])
        if (owner[inside] != parent).any():
            return None
        owner[inside] = len(nodes)
        nodes.append((query, parent))
    residue: dict[int, int] = {}
    for number, node in enumerate(owner.tolist()):
        # Two classes at one node satisfy the same questions: no two are alike, so this does not happen.
        if residue.setdefault(node, number) != number:
            return None
    return tuple(Node(query, parent, residue.get(number)) for number, (query, parent) in enumerate(nodes))


@dataclass(frozen=True, eq=False)
class LaminarDatabases(Databases):
    """All small databases over classes of records that a laminar family of questions tells apart.

    Guarantee: that of `Databases`: one unit of at most m rows moves every score by at most ⌈16·m/coarse⌉ levels, under
    both relations.
    """

    _tree: tuple[Node, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        tree = laminar_tree(self.truth)
        if tree is None:
            raise ValueError("the questions are nested or disjoint: others are enumerated")
        object.__setattr__(self, "_tree", tree)

    def ranked(self, counts: NDArray[np.int64], farthest: int) -> Ranked:
        """The levels up to `farthest` from the best one, and one more for all the others."""
        levels = answer_levels(counts, self.size, self.total, self.coarse)
        return _LaminarLevels(self._tree, levels, self.sizes, self.size, self.mass, farthest)


class _LaminarLevels:
    """Cumulative counts of databases, level by level, and the way back from a rank to a database."""

    def __init__(
        self, tree: Sequence[Node], levels: Levels, sizes: Sequence[int], size: int, mass: int, farthest: int
    ) -> None:
        self._tree, self._levels, self._sizes, self._size = tree, levels, sizes, size
        self._slot = 8 * -(-(mass.bit_length() + 1) // 8)
        self._residues = [
            1 if node.residue is None else self._packed([databases(sizes[node.residue], j) for j in range(size + 1)])
            for node in tree
        ]
        # No database is at `low` or below, where some node has no number of rows left; some are at `best` or below.
        low, step = int(levels.min(axis=1).max(initial=0)) - 1, 1
        while not self._up_to(low + step):
            low, step = low + step, 2 * step
        best = low + step
        while best - low > 1:
            middle = (low + best) // 2
            low, best = (low, middle) if self._up_to(middle) else (middle, best)
        upto, self._ends = [0], [best - 1]
        while upto[-1] < mass and len(upto) <= farthest + 1:
            self._ends.append(best + len(upto) - 1)
            upto.append(self._up_to(self._ends[-1]))
        if upto[-1] < mass:
            self._ends.append(TOP)
            upto.append(mass)
        self.distances = list(range(len(upto) - 1))
        self.masses = [after - before for before, after in pairwise(upto)]

    def _packed(self, coefficients: Sequence[int]) -> int:
        width = self._slot // 8
        return int.from_bytes(b"".join(value.to_bytes(width, "little") for value in coefficients), "little")

    def _unpacked(self, polynomial: Shifted) -> list[int]:
        """All coefficients; what stands beyond the last is never read."""
        width = self._slot // 8
        shift, value = polynomial
        slots = max(self._size + 1 - shift, 0)
        held = (value & ((1 << (self._slot * slots)) - 1)).to_bytes(width * slots, "little")
        found = [int.from_bytes(held[at : at + width], "little") for at in range(0, len(held), width)]
        return [0] * (self._size + 1 - slots) + found

    def _stretches(self, level: int) -> tuple[list[int], list[int]] | None:
        """For each node the least and the largest number of rows that keep its error at this level or below.

        An error falls and then rises with the number of rows, so these are all between them; None where there is none.
        """
        allowed = self._levels <= level
        several = allowed.sum(axis=1)
        if not several.all():
            return None
        first = allowed.argmax(axis=1)
        last = first + several - 1
        low = [0 if node.query is None else int(first[node.query]) for node in self._tree]
        return low, [self._size if node.query is None else int(last[node.query]) for node in self._tree]

    def _up_to(self, level: int) -> int:
        """How many databases have every error at this level or below."""
        grown = self._grown(level)
        return 0 if grown is None else self._unpacked(grown.finished[0])[self._size]

    def _grown(self, level: int) -> _Grown | None:
        """The polynomials of all nodes at this level; None where no database is there."""
        stretches = self._stretches(level)
        if stretches is None:
            return None
        low, high = stretches
        slot = self._slot
        products: list[list[Shifted]] = [[(0, residue)] for residue in self._residues]
        finished: list[Shifted] = [(0, 0)] * len(self._tree)
        for number in range(len(self._tree) - 1, -1, -1):
            shift, value = products[number][-1]
            # Only what may be read later is kept: a few slots, where the level is low.
            value &= (1 << (slot * max(high[number] + 1 - shift, 0))) - 1
            value >>= slot * max(low[number] - shift, 0)
            finished[number] = shift, value = max(shift, low[number]), value
            if number:
                parent = self._tree[number].parent
                other_shift, other = products[parent][-1]
                room = (1 << (slot * max(high[parent] + 1 - shift - other_shift, 0))) - 1
                products[parent].append((shift + other_shift, (value & room) * (other & room) & room))
        return _Grown(finished, products, low, high)

    def member(self, level: int, rank: int) -> Member:
        """The database of this rank: at every product the rank says how the rows are split, and what each side is."""
        most, below = self._grown(self._ends[level + 1]), self._grown(self._ends[level])
        assert most is not None
        found = np.zeros(len(self._sizes), np.int64)
        children: list[list[int]] = [[] for _ in self._tree]
        for number in range(len(self._tree) - 1, 0, -1):
            children[self._tree[number].parent].append(number)
        kind: Kind = "between"
        if below is None:
            below, kind = most, "most"
        waiting: list[tuple[int, int, int, Kind]] = [(0, self._size, rank, kind)]
        while waiting:
            number, rows, rank, kind = waiting.pop()
            if kind == "between" and not below.low[number] <= rows <= below.high[number]:
                kind = "most"  # the node's own error is what makes it this level
            for place in range(len(children[number]) - 1, -1, -1):
                child = children[number][place]
                left = [self._unpacked(grown.products[number][place]) for grown in (most, below)]
                right = [self._unpacked(grown.finished[child]) for grown in (most, below)]
                given, rank, kind, right_rank, right_kind = _split(left, right, rows, rank, kind)
                waiting.append((child, given, right_rank, right_kind))
                rows -= given
            residue = self._tree[number].residue
            if residue is not None:
                found[residue] = rows
        return found


@dataclass(frozen=True, eq=False)
class _Grown:
    """For each node its polynomial, the products of its residue and its first i children, its stretch of rows."""

    finished: list[Shifted]
    products: list[list[Shifted]]
    low: list[int]
    high: list[int]


def _split(
    left: Sequence[list[int]], right: Sequence[list[int]], rows: int, rank: int, kind: Kind
) -> tuple[int, int, Kind, int, Kind]:
    """How many of the rows go to the right factor; then the rank and the kind of the left one, and of the right one.

    A product is *exactly* at a level if its left side is and its right side is there or below, or if its left side is
    strictly below and its right side is exactly there.
    """
    (a, b), (c, d) = left, right
    for given in range(rows + 1):
        rest = rows - given
        if kind == "between":
            first, second = (a[rest] - b[rest]) * c[given], b[rest] * (c[given] - d[given])
            if rank < first:
                return given, rank // c[given], "between", rank % c[given], "most"
            if rank < first + second:
                exact = c[given] - d[given]
                return given, (rank - first) // exact, "below", (rank - first) % exact, "between"
            rank -= first + second
        else:
            one, other = (a[rest], c[given]) if kind == "most" else (b[rest], d[given])
            if rank < one * other:
                return given, rank // other, kind, rank % other, kind
            rank -= one * other
    raise AssertionError("a rank below the number of databases has one")
