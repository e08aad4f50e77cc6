"""Many marginals of one table at once, and the adjoint: each partial sum is made once.

The marginals are the leaves of a tree whose root is the full table; an edge sums one run of neighbouring columns out.
At each node the next column splits the wanted marginals into those that keep it and those that do not, and the latter
share the smaller table without it. The same edges walked backwards add functions of marginals into one function of the
full table. Node tables live on a stack, so the workspace stays small: a few tables of the size of the root.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import at_once, compiled
from conspectus.queries.ordering import starts_of

Columns = tuple[int, ...]

_FEW_CELLS = 1 << 14
"""Up to here marginals are summed before a compiler could be loaded."""


@compiled
def _forward(edges: Any, workspace: Any, leaves: Any) -> Any:
    for e in range(edges.shape[0]):
        source, target, is_leaf = edges[e, 0], edges[e, 1], edges[e, 2]
        outer, size, inner = edges[e, 3], edges[e, 4], edges[e, 5]
        out = leaves if is_leaf else workspace
        if inner == 1:
            for o in range(outer):
                row = workspace[source + o * size : source + (o + 1) * size]
                # Four sums side by side: one alone would wait for every addition before the next.
                a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
                whole = size // 4 * 4
                for s in range(0, whole, 4):
                    a0 += row[s]
                    a1 += row[s + 1]
                    a2 += row[s + 2]
                    a3 += row[s + 3]
                for s in range(whole, size):
                    a0 += row[s]
                out[target + o] = (a0 + a1) + (a2 + a3)
        elif size == 2:
            for o in range(outer):
                at = source + 2 * o * inner
                first, second = workspace[at : at + inner], workspace[at + inner : at + 2 * inner]
                sums = out[target + o * inner : target + (o + 1) * inner]
                for i in range(inner):
                    sums[i] = first[i] + second[i]
        else:
            for o in range(outer):
                sums = out[target + o * inner : target + (o + 1) * inner]
                at = source + o * size * inner
                first = workspace[at : at + inner]
                for i in range(inner):
                    sums[i] = first[i]
                for _ in range(1, size):
                    at += inner
                    more = workspace[at : at + inner]
                    for i in range(inner):
                        sums[i] += more[i]


@compiled
def _backward(edges: Any, workspace: Any, leaves: Any) -> Any:
    for e in range(edges.shape[0] - 1, -1, -1):
        source, target, is_leaf = edges[e, 0], edges[e, 1], edges[e, 2]
        outer, size, inner = edges[e, 3], edges[e, 4], edges[e, 5]
        fresh = edges[e, 6]
        given = leaves if is_leaf else workspace
        for o in range(outer):
            at = source + o * size * inner
            if inner == 1:
                row = workspace[at : at + size]
                value = given[target + o]
                if fresh:
                    for i in range(size):
                        row[i] = value
                else:
                    for i in range(size):
                        row[i] += value
                continue
            values = given[target + o * inner : target + (o + 1) * inner]
            for _ in range(size):
                row = workspace[at : at + inner]
                if fresh:
                    for i in range(inner):
                        row[i] = values[i]
                else:
                    for i in range(inner):
                        row[i] += values[i]
                at += inner


class MarginalTree:
    """A fixed list of marginals of tables of one shape; `marginals` and `spread` are adjoint to each other."""

    def __init__(self, sizes: Sequence[int], column_sets: Sequence[Columns]) -> None:
        self.sizes = tuple(sizes)
        self.column_sets = tuple(tuple(columns) for columns in column_sets)
        for columns in self.column_sets:
            if list(columns) != sorted(set(columns)) or any(not 0 <= c < len(self.sizes) for c in columns):
                raise ValueError(f"a marginal is over distinct columns in ascending order, not {columns}")
        lengths = [math.prod(self.sizes[c] for c in columns) for columns in self.column_sets]
        self.offsets = starts_of(lengths)
        self.cells = math.prod(self.sizes)
        self._edges: list[list[int]] = []
        self._depth = self.cells
        if self.column_sets:
            self._grow(tuple(range(len(self.sizes))), 0, self.cells, list(range(len(self.column_sets))))
        self._program = np.array(self._edges, dtype=np.int64).reshape(-1, 7)
        self._mark_fresh()

    def __len__(self) -> int:
        return len(self.column_sets)

    @property
    def length(self) -> int:
        """The number of cells of all marginals together."""
        return int(self.offsets[-1])

    def marginals_flat(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """All marginals of a table, one after the other."""
        leaves = np.empty(self.length)
        workspace = np.empty(self._depth)
        workspace[: self.cells] = np.asarray(table, dtype=np.float64).ravel()
        (at_once(_forward) if self.cells <= _FEW_CELLS else _forward)(self._program, workspace, leaves)
        return leaves

    def marginals(self, table: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """The marginals of a table, each flat in row-major order."""
        return np.split(self.marginals_flat(table), self.offsets[1:-1]) if self.column_sets else []

    def spread_flat(self, functions: NDArray[np.float64]) -> NDArray[np.float64]:
        """For functions of the marginals' cells, one after the other, their sum as a function of the table's cells."""
        if not self.column_sets:
            return np.zeros(self.cells)
        workspace = np.empty(self._depth)
        _backward(self._program, workspace, np.ascontiguousarray(functions, dtype=np.float64))
        return workspace[: self.cells]

    def _grow(self, kept: Columns, start: int, top: int, wanted: list[int]) -> None:
        """Make the edges below a node that holds the columns `kept` at `start`; the stack is free from `top`."""
        self._depth = max(self._depth, top)
        here = [w for w in wanted if self.column_sets[w] == kept]
        for w in here:
            self._edge(start, int(self.offsets[w]), True, 1, 1, self._volume(kept))
        rest = [w for w in wanted if self.column_sets[w] != kept]
        if not rest:
            return
        useless = set(kept).difference(*(self.column_sets[w] for w in rest))
        if useless:
            self._drop(kept, start, top, useless, rest)
            return
        # The largest column that only some of them need: without it their table shrinks most.
        shared = [c for c in kept if any(c not in self.column_sets[w] for w in rest)]
        column = max(shared, key=lambda c: self.sizes[c])
        without = [w for w in rest if column not in self.column_sets[w]]
        self._drop(kept, start, top, {column}, without)
        keep = [w for w in rest if column in self.column_sets[w]]
        if keep:
            self._grow(kept, start, top, keep)

    def _drop(self, kept: Columns, start: int, top: int, dropped: set[int], wanted: list[int]) -> None:
        """Sum the first run of neighbouring dropped columns out, and grow the smaller node."""
        first = next(i for i, c in enumerate(kept) if c in dropped)
        last = first
        while last + 1 < len(kept) and kept[last + 1] in dropped:
            last += 1
        left = kept[:first] + kept[last + 1 :]
        outer, size, inner = (self._volume(part) for part in (kept[:first], kept[first : last + 1], kept[last + 1 :]))
        if len(wanted) == 1 and self.column_sets[wanted[0]] == left:
            self._edge(start, int(self.offsets[wanted[0]]), True, outer, size, inner)
            return
        self._edge(start, top, False, outer, size, inner)
        self._grow(left, top, top + outer * inner, wanted)

    def _edge(self, source: int, target: int, leaf: bool, outer: int, size: int, inner: int) -> None:
        self._edges.append([source, target, int(leaf), outer, size, inner, 0])

    def _mark_fresh(self) -> None:
        """Walked backwards, the first edge into a node overwrites what the stack held there before; the rest add."""
        program = self._program
        live: set[int] = set()
        for e in range(len(program) - 1, -1, -1):
            source, target, leaf = (int(value) for value in program[e, :3])
            if source not in live:
                program[e, 6] = 1
                live.add(source)
            if not leaf:
                live.discard(target)

    def _volume(self, columns: Sequence[int]) -> int:
        return math.prod(self.sizes[c] for c in columns)


@lru_cache(maxsize=16)
def marginal_tree(sizes: tuple[int, ...], column_sets: tuple[Columns, ...]) -> MarginalTree:
    """The tree of these marginals, remembered: a loop asks for the same ones in every round."""
    return MarginalTree(sizes, column_sets)
