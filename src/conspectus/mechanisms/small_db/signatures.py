"""The universe as the questions see it: records that no question tells apart are one class, and each class is counted.

A record is built column by column. What the questions will say of it depends on the boxes that are still alive and on
the parities so far, one bit each; records with equal bits are counted together. So the universe may be astronomically
large, and has no more classes than there are patterns of answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.query import Literal, Parity, Predicate
from conspectus.queries.workload import Workload

MOST_CLASSES = 1 << 13
MOST_QUESTIONS = 1 << 13
MOST_BITS = 1 << 26
"""The most bits that the masks of a column, or all signatures together, may take."""


@dataclass(frozen=True)
class _Block:
    """Codes of one column that no question tells apart: the boxes that live on, and the parities that turn."""

    keep: int
    turn: int
    codes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Signatures:
    """Every pattern of answers that a record can have, and how many records of the columns read have it.

    `truth[c, q]` says whether question q holds on the records of class c; `sizes[c]` is how many of them there are.
    """

    domain: Domain
    columns: tuple[int, ...]
    truth: NDArray[np.bool_]
    sizes: tuple[int, ...]
    _ends: tuple[tuple[int, ...], ...]
    _layers: tuple[dict[int, int], ...]
    _blocks: tuple[tuple[_Block, ...], ...]

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def records(self) -> int:
        """The number of records of the columns read."""
        return sum(self.sizes)

    def record(self, number: int, rank: int) -> tuple[int, ...]:
        """The record of this rank (from 0 on) in this class, as codes of the columns read."""
        if not 0 <= rank < self.sizes[number]:
            raise IndexError(f"class {number} has {self.sizes[number]} records")
        state = 0
        for state in self._ends[number]:
            if rank < self._layers[-1][state]:
                break
            rank -= self._layers[-1][state]
        codes: list[int] = []
        for blocks, before in zip(reversed(self._blocks), self._layers[-2::-1]):
            state, rank, code = _step_back(state, rank, blocks, before)
            codes.append(code)
        return tuple(reversed(codes))


def _step_back(state: int, rank: int, blocks: Sequence[_Block], before: dict[int, int]) -> tuple[int, int, int]:
    for earlier, ways in before.items():
        for block in blocks:
            if (earlier & block.keep) ^ block.turn == state:
                here = ways * len(block.codes)
                if rank < here:
                    rank, offset = divmod(rank, len(block.codes))
                    return earlier, rank, block.codes[offset]
                rank -= here
    raise AssertionError("a state was reached from somewhere")


@lru_cache(maxsize=8)
def signatures(workload: Workload, most: int = MOST_CLASSES) -> Signatures | None:
    """The classes of a workload's universe; None where there are more than `most`, or it is too long to look at."""
    domain, columns = workload.domain, workload.columns
    widest = max(domain.shape(columns), default=1)
    if not 0 < len(workload) <= MOST_QUESTIONS or len(workload) * widest > MOST_BITS or not workload.counting:
        return None
    starts = [0]
    literals: list[tuple[int, Literal]] = []
    stretches: list[tuple[int, Intervals]] = []
    parities: list[tuple[int, tuple[int, ...]]] = []
    boxes = 0
    for block in workload.blocks:
        if isinstance(block, Intervals):
            # Thousands of intervals as lists of codes would take seconds: they are compared with their ends instead.
            stretches.append((boxes, block))
            starts += range(boxes + 1, boxes + len(block) + 1)
            boxes += len(block)
            continue
        for number in range(len(block)):
            query = block.query(number)
            if isinstance(query, Parity):
                parities.append((len(starts) - 1, query.columns))
            elif isinstance(query, Predicate):
                literals += [(boxes + i, literal) for i, box in enumerate(query.boxes) for literal in box]
                boxes += len(query.boxes)
            starts.append(boxes)
    if (boxes + 1) * widest > MOST_BITS:
        return None
    accepts = {c: np.ones((domain.sizes[c], boxes), dtype=bool) for c in columns}
    for box, literal in literals:
        accepts[literal.column][:, box] = False
        accepts[literal.column][list(literal.codes), box] = True
    for box, intervals in stretches:
        codes, (low, high) = np.arange(domain.sizes[intervals.column])[:, None], intervals.bounds
        accepts[intervals.column][:, box : box + len(intervals)] = (codes >= low) & (codes <= high)
    above = ((1 << len(parities)) - 1) << boxes
    blocks = tuple(_blocks(accepts[c], c, [read for _, read in parities], above) for c in columns)
    layers: list[dict[int, int]] = [{((1 << boxes) - 1) | above: 1}]
    for column in blocks:
        after: dict[int, int] = {}
        for state, ways in layers[-1].items():
            for kind in column:
                reached = (state & kind.keep) ^ kind.turn
                after[reached] = after.get(reached, 0) + ways * len(kind.codes)
            if len(after) > 2 * most:
                return None
        layers.append(after)
    truth = _truth(list(layers[-1]), starts, boxes, [place for place, _ in parities])
    classes: dict[bytes, list[int]] = {}
    for state, line in zip(layers[-1], np.packbits(truth, axis=1)):
        classes.setdefault(line.tobytes(), []).append(state)
    if len(classes) > most or len(classes) * len(workload) > MOST_BITS:
        return None
    ends = tuple(map(tuple, classes.values()))
    place = {state: number for number, state in enumerate(layers[-1])}
    sizes = tuple(sum(layers[-1][state] for state in states) for states in ends)
    found = truth[[place[states[0]] for states in ends]]
    return Signatures(domain, columns, found, sizes, ends, tuple(layers), blocks)


def _blocks(
    accepts: NDArray[np.bool_], column: int, parities: Sequence[tuple[int, ...]], above: int
) -> tuple[_Block, ...]:
    """The codes of a column, those together that every question treats alike, in the order of their first one."""
    boxes = accepts.shape[1]
    turn = sum(1 << (boxes + i) for i, read in enumerate(parities) if column in read)
    kinds: dict[tuple[int, int], list[int]] = {}
    for code, line in enumerate(np.packbits(accepts, axis=1, bitorder="little")):
        keep = int.from_bytes(line.tobytes(), "little") | above
        kinds.setdefault((keep, turn if code else 0), []).append(code)
    return tuple(_Block(keep, turned, tuple(codes)) for (keep, turned), codes in kinds.items())


def _truth(states: Sequence[int], starts: Sequence[int], boxes: int, parities: Sequence[int]) -> NDArray[np.bool_]:
    """What each final state says of each question: one of its boxes lives, or its parity is even."""
    width = -(-(boxes + len(parities)) // 8) or 1
    packed = np.frombuffer(b"".join(state.to_bytes(width, "little") for state in states), np.uint8)
    bits = np.unpackbits(packed.reshape(len(states), width), axis=1, bitorder="little").astype(bool)
    if not parities and len(starts) == boxes + 1 and all(a < b for a, b in pairwise(starts)):
        return bits[:, :boxes]  # one box a question
    found = np.zeros((len(states), len(starts) - 1), dtype=bool)
    for query, (first, last) in enumerate(pairwise(starts)):
        found[:, query] = bits[:, first:last].any(axis=1)
    for number, query in enumerate(parities):
        found[:, query] = bits[:, boxes + number]
    return found
