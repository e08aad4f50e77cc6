"""Equal questions asked once: a workload without repetitions, and where each question went."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import numpy as np

from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.moments import Moments
from conspectus.queries.blocks.parity_list import ParityList
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.blocks.statistic import Statistics
from conspectus.queries.blocks.unsafe_functions import UnsafeFunctions

from .block import Block
from .ordering import distinct_keys, first_of_each, row_keys
from .query import Indices

Listing = Conjunctions | ParityList | Statistics | UnsafeFunctions | SparseQueries | LinearQueries | Moments
LISTINGS = get_args(Listing)
"""The kinds of blocks that list their questions one by one."""


def distinct_blocks(blocks: tuple[Block, ...]) -> tuple[tuple[Block, ...], Indices]:
    """The blocks without repeated blocks and repeated listed queries; and where each query went."""
    kept: list[Block] = []
    first_of: dict[tuple[type, Any], tuple[int, Block]] = {}
    positions: list[Indices] = []
    length = 0
    listed = {kind: _Seen(blocks, kind) for kind in LISTINGS}
    for block in blocks:
        if isinstance(block, LISTINGS):
            piece, places = listed[type(block)].next(block, length)
            if len(piece):
                kept.append(piece)
                length += len(piece)
            positions.append(places)
            continue
        # The same cells in another order of columns are the same questions.
        name = (Marginal, tuple(sorted(block.columns))) if isinstance(block, Marginal) else (type(block), block)
        if name not in first_of:
            first_of[name] = (length, block)
            kept.append(block)
            length += len(block)
        start, stored = first_of[name]
        positions.append(start + _within(block, stored))
    where = np.concatenate(positions) if positions else np.zeros(0, dtype=np.int64)
    unchanged = length == sum(map(len, blocks))
    return (blocks if unchanged else tuple(kept)), where


def _within(block: Block, stored: Block) -> Indices:
    places = np.arange(len(block), dtype=np.int64)
    if not isinstance(block, Marginal) or not isinstance(stored, Marginal) or block == stored:
        return places
    order = [stored.columns.index(column) for column in block.columns]
    return np.ascontiguousarray(places.reshape(stored.shape).transpose(order)).ravel()


class _Seen:
    """Tells for each query of the listing blocks of one kind whether it was asked before, and where."""

    def __init__(self, blocks: tuple[Block, ...], kind: type) -> None:
        mine = [block for block in blocks if isinstance(block, kind)]
        keys = _keys(kind.join(mine)) if mine else np.zeros(0, dtype=np.int64)  # type: ignore[attr-defined]
        self._first, self._number = first_of_each(keys)
        self._place = np.zeros(len(self._first), dtype=np.int64)
        self._at = 0

    def next(self, block: Block, length: int) -> tuple[Block, Indices]:
        span = np.arange(self._at, self._at + len(block))
        numbers = self._number[span]
        new = np.flatnonzero(self._first[numbers] == span)
        self._place[numbers[new]] = length + np.arange(len(new))
        self._at += len(block)
        return (block if len(new) == len(block) else block.take(new)), self._place[numbers]


def _keys(block: Listing) -> Indices:
    """Equal for equal queries, different for different ones."""
    if isinstance(block, Statistics | UnsafeFunctions | Moments):
        return _numbered(block.functions)
    if isinstance(block, SparseQueries):
        return _numbered(map(block.written, range(len(block))))
    if isinstance(block, LinearQueries):
        return distinct_keys(_keys(block.given))[1] * len(block.weightings) + block.which
    if isinstance(block, ParityList):
        return row_keys(block.matrix, len(block.domain))
    return block.keys()


def _numbered(values: Iterable[object]) -> Indices:
    number: dict[object, int] = {}
    return np.array([number.setdefault(value, len(number)) for value in values], dtype=np.int64)
