"""Sets of literals as the nodes of a tree, so that common beginnings are computed once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conspectus.queries.ordering import distinct_keys, row_keys


@dataclass(frozen=True, eq=False)
class Trie:
    """Nodes in preorder: the literal each adds to its parent, its depth, and the first node outside its subtree.

    `node_of` holds the node of each set that the tree was built from, −1 for the empty set.
    """

    literal: NDArray[np.int32]
    depth: NDArray[np.int32]
    after: NDArray[np.int64]
    node_of: NDArray[np.int64]
    deepest: int


def build_trie(sets: NDArray[np.int32], rank: NDArray[np.int64]) -> Trie:
    """The tree of some sets (rows of literal numbers, −1 pads), the literals of lowest rank nearest to the root."""
    count = len(rank)
    by_rank = np.argsort(rank, kind="stable").astype(np.int32)
    place = np.empty(count + 1, dtype=np.int32)
    place[by_rank] = np.arange(count, dtype=np.int32)
    place[count] = count
    rows = np.sort(place[np.where(sets < 0, count, sets)], axis=1)
    rows = np.where(rows == count, -1, rows).astype(np.int32)
    first, inverse = distinct_keys(row_keys(rows, count))
    rows = rows[first]
    changed = np.ones(rows.shape, dtype=bool)
    changed[1:] = np.logical_or.accumulate(rows[1:] != rows[:-1], axis=1)
    new = changed & (rows >= 0)
    number = np.cumsum(new.ravel()).reshape(new.shape) - 1
    length = (rows >= 0).sum(axis=1)
    last = number[np.arange(len(rows)), np.maximum(length - 1, 0)] if rows.shape[1] else np.zeros(len(rows), np.int64)
    node = np.where(length > 0, last, -1)
    depth = np.broadcast_to(np.arange(rows.shape[1], dtype=np.int32), rows.shape)[new]
    literal = by_rank[rows[new]] if count else np.zeros(0, dtype=np.int32)
    after = np.full(len(depth), len(depth), dtype=np.int64)
    for level in range(rows.shape[1]):
        shallow = np.append(np.flatnonzero(depth <= level), len(depth))
        here = np.flatnonzero(depth == level)
        after[here] = shallow[np.searchsorted(shallow, here, side="right")]
    return Trie(literal, np.ascontiguousarray(depth), after, node[inverse], int(depth.max(initial=0)))
