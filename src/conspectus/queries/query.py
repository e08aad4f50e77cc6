"""Queries and workloads as values: what is asked, in which order, and how far one unit moves the answers.

A counting query has a value in {0, 1} on every record: a `Predicate` (a union of disjoint boxes) or a `Parity`. A
`Workload` is a sequence of blocks, each of which knows its queries and how far one unit moves them together. A block of
counting queries (`ZeroOne`) says how many of them one record can satisfy (`reach`) and on how many two records can
differ (`contrast`), and from these two integers its joint sensitivities follow. Values of any block are whole steps of
a public grid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, combinations, pairwise
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import CodedRows, Domain
from conspectus.data.runs import CodeSet, code_set, common
from conspectus.spelling import spelled_methods

from .moves import Sensitivity as Sensitivity
from .moves import WorkloadError as WorkloadError
from .moves import ZeroOne, check_unit, zero_one

MOST_QUERIES = 1 << 27
"""The largest workload that a builder makes: its counts alone take a gigabyte."""

MIXED = "workloads over different tables do not mix: build both from the same schema"
APART = "counts of rows do not mix with functions of the table, nor functions of different scales: release them apart"

_NO_LITERAL = "a literal needs a column and a non-empty sorted set of codes"

Indices = NDArray[np.int64]


@dataclass(frozen=True, order=True)
class Literal:
    """`column` takes one of `codes`: positions, sorted and distinct, at least one; many in few runs as `Runs`."""

    column: int
    codes: CodeSet

    def __post_init__(self) -> None:
        codes = self.codes
        if self.column < 0 or not codes or codes[0] < 0:
            raise WorkloadError(_NO_LITERAL)
        if len(codes) > 1:
            try:
                object.__setattr__(self, "codes", code_set(codes))
            except ValueError as unsorted:
                raise WorkloadError(_NO_LITERAL) from unsorted


Box = tuple[Literal, ...]
"""A conjunction of literals, at most one for each column, sorted by column; the empty box is always true."""


@dataclass(frozen=True)
class Predicate:
    """A union of disjoint boxes, so that its count is the sum of theirs; no box is never true, `((),)` always."""

    boxes: tuple[Box, ...]

    def __post_init__(self) -> None:
        for box in self.boxes:
            if any(a.column >= b.column for a, b in pairwise(box)):
                raise WorkloadError("a box needs its literals sorted by column, one for each")
        # Overlapping boxes would count a record twice, and sensitivities would be understated.
        if any(not _disjoint(a, b) for a, b in combinations(self.boxes, 2)):
            raise WorkloadError("the boxes of a predicate must be disjoint")

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({literal.column for box in self.boxes for literal in box}))


@dataclass(frozen=True)
class Parity:
    """True on records with an even number of second values among `columns`, all of them two-valued."""

    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(a >= b for a, b in zip(self.columns, self.columns[1:])):
            raise WorkloadError("a parity needs its columns sorted and distinct")


class TableFunction:
    """A question whose value is a function of the whole table and no number of records: see `statistic`."""

    @property
    def counts_rows(self) -> bool:
        """Whether its value is a share of the rows all the same, so that a number of rows means something."""
        return False

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that it reads, sorted."""
        raise NotImplementedError


@dataclass(frozen=True)
class Sparse:
    """Weights on listed records: addresses, sorted and distinct, each with a whole number of steps of `grid` to one."""

    addresses: tuple[int, ...]
    steps: tuple[int, ...]
    grid: int

    def __post_init__(self) -> None:
        if len(self.addresses) != len(self.steps) or any(a >= b for a, b in pairwise(self.addresses)):
            raise WorkloadError("a sparse query needs its records sorted and distinct, with a weight for each")
        if any(not 0 < step <= self.grid for step in self.steps):
            raise WorkloadError("the weights of a sparse query lie in [0, 1], and those of listed records above 0")

    def written(self) -> bytes:
        """Records and weights as bytes, whatever the grid: equal for equal queries."""
        weights = np.array([0, *self.steps], dtype=np.uint64) * np.uint64((1 << 32) // self.grid)
        return np.array(self.addresses, dtype=np.uint64).tobytes() + weights[1:].astype(np.uint64).tobytes()


Query = Predicate | Parity | TableFunction | Sparse


class Counter(Protocol):
    """Counts the queries of a block over chunks of rows."""

    def add(self, chunk: CodedRows) -> None: ...

    def counts(self) -> NDArray[np.int64]: ...


@runtime_checkable
class Block(Protocol):
    """Queries that are counted, stored and priced together. Blocks are frozen values: comparable and hashable."""

    @property
    def domain(self) -> Domain: ...

    @property
    def columns(self) -> tuple[int, ...]:
        """The positions of the columns it reads."""

    def __len__(self) -> int: ...

    def query(self, index: int) -> Query: ...

    def take(self, indices: Indices) -> Block:
        """Some of its queries, in the order given, as a block that lists them (`Conjunctions` or `ParityList`)."""

    @property
    def grid(self) -> int:
        """Steps to one count, a power of two: the values that its counter finds are whole steps."""

    @property
    def whole(self) -> int | None:
        """What a share of one amounts to in counts; None where that is the number of rows of the table."""

    def moved(self, neighbours: str, max_rows: int, rows_are_units: bool) -> Sensitivity:
        """How far one unit moves its values together, in its own steps."""

    def counter(self) -> Counter: ...

    def to_json(self) -> dict[str, Any]: ...


class Listing(Block, Protocol):
    """A block that lists its queries one by one, so that pieces of the same kind can be put together again."""

    @classmethod
    def join(cls, blocks: Sequence[Self]) -> Self: ...


BLOCK_KINDS: dict[str, Callable[[Domain, Mapping[str, Any]], Block]] = {}
"""How each kind of block is read back from JSON; every module of blocks adds its own."""


@spelled_methods
@dataclass(frozen=True)
class Workload:
    """A sequence of queries in a fixed order, held as blocks. Slices and `take` keep whole blocks whole."""

    domain: Domain
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        if any(block.domain != self.domain for block in self.blocks):
            raise WorkloadError(MIXED)
        if len({block.whole for block in self.blocks}) > 1:
            raise WorkloadError(APART)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each block starts, and at the end the number of queries."""
        return tuple(accumulate((len(block) for block in self.blocks), initial=0))

    @cached_property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({column for block in self.blocks for column in block.columns}))

    def __len__(self) -> int:
        return self.offsets[-1]

    def __add__(self, other: Workload) -> Workload:
        if not isinstance(other, Workload):
            return NotImplemented
        if other.domain != self.domain:
            raise WorkloadError(MIXED)
        return Workload(self.domain, self.blocks + other.blocks)

    def __getitem__(self, key: int | slice) -> Workload:
        if isinstance(key, slice):
            return self.take(np.arange(len(self))[key])
        return self.take([_checked(key, len(self))])

    def __iter__(self) -> Iterator[Workload]:
        return (self[i] for i in range(len(self)))

    def query(self, index: int) -> Query:
        index = _checked(index, len(self))
        at = int(np.searchsorted(self.offsets, index, side="right")) - 1
        return self.blocks[at].query(index - self.offsets[at])

    def queries(self) -> Iterator[Query]:
        """All queries, in order."""
        return (block.query(i) for block in self.blocks for i in range(len(block)))

    def take(self, indices: Sequence[int] | Indices) -> Workload:
        """The queries at these positions, in this order. Stretches that are whole blocks stay whole."""
        wanted = np.asarray(indices, dtype=np.int64).reshape(-1)
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= len(self)):
            raise IndexError(f"positions in this workload run from 0 to {len(self) - 1}")
        if len(wanted) == len(self) and np.array_equal(wanted, np.arange(len(self))):
            return self
        owner = np.searchsorted(self.offsets, wanted, side="right") - 1
        local = wanted - np.asarray(self.offsets, dtype=np.int64)[owner]
        # A stretch is a maximal run inside one block that counts up one by one from wherever it starts.
        cuts = np.flatnonzero((np.diff(owner) != 0) | (np.diff(local) != 1)) + 1
        bounds = [0, *cuts.tolist(), len(wanted)]
        blocks: list[Block] = []
        loose = 0
        for start, end in pairwise(bounds):
            block = self.blocks[owner[start]] if end > start else None
            if block is not None and local[start] == 0 and end - start == len(block):
                blocks += self._listed(owner[loose:start], local[loose:start])
                blocks.append(block)
                loose = end
        blocks += self._listed(owner[loose:], local[loose:])
        return Workload(self.domain, tuple(blocks))

    def _listed(self, owner: Indices, local: Indices) -> list[Block]:
        """Single queries of several blocks as few blocks: neighbours of the same kind are put together."""
        if not len(owner):
            return []
        kinds: dict[type, list[tuple[Listing, Indices]]] = {}
        by_owner = np.argsort(owner, kind="stable")
        for places in np.split(by_owner, np.flatnonzero(np.diff(owner[by_owner])) + 1):
            piece: Any = self.blocks[owner[places[0]]].take(local[places])
            kinds.setdefault(type(piece), []).append((piece, places))
        kind_of = np.zeros(len(owner), dtype=np.int64)
        joined: list[tuple[Block, Indices]] = []
        for which, (kind, parts) in enumerate(kinds.items()):
            places = np.concatenate([places for _, places in parts])
            whole: Block = kind.join([piece for piece, _ in parts])  # type: ignore[attr-defined]
            order = np.argsort(places)
            joined.append((whole.take(order) if len(parts) > 1 else whole, np.sort(places)))
            kind_of[places] = which
        bounds = [0, *(np.flatnonzero(np.diff(kind_of)) + 1).tolist(), len(owner)]
        pieces = []
        for start, end in pairwise(bounds):
            block, places = joined[kind_of[start]]
            first = int(np.searchsorted(places, start))
            count = end - start
            pieces.append(block if count == len(block) else block.take(np.arange(first, first + count)))
        return pieces

    @cached_property
    def grid(self) -> int:
        """Steps to one count: the finest grid of its blocks."""
        return max((block.grid for block in self.blocks), default=1)

    @cached_property
    def whole(self) -> int | None:
        """What a share of one amounts to in counts; None where that is the number of rows of the table."""
        return self.blocks[0].whole if self.blocks else None

    @cached_property
    def counting(self) -> bool:
        """Whether every query is 0 or 1 on a record."""
        return all(isinstance(block, ZeroOne) for block in self.blocks)

    def sensitivity(self, neighbours: str, max_rows: int = 1, rows_are_units: bool = True) -> Sensitivity:
        """How far one unit moves the values of this workload, in steps of its grid, exactly as it stands (a repeated
        query counts again). What record satisfies the most is the same question for all counting blocks together."""
        check_unit(neighbours, max_rows, rows_are_units)
        plain = [block for block in self.blocks if isinstance(block, ZeroOne)]
        sums = sum(block.reach() for block in plain), sum(block.contrast() for block in plain)
        moved = zero_one(*sums, neighbours, max_rows, rows_are_units).times(self.grid)
        for block in self.blocks:
            if not isinstance(block, ZeroOne):
                here = block.moved(neighbours, max_rows, rows_are_units)
                moved = moved.beside(here.times(self.grid // block.grid))
        return moved

    def step(self, neighbours: str, max_rows: int = 1, rows_are_units: bool = True) -> Fraction:
        """A bound on how far one unit moves any single query, in counts; cheap, as no two queries are compared."""
        check_unit(neighbours, max_rows, rows_are_units)
        moves = [Fraction(max_rows)] if any(isinstance(block, ZeroOne) for block in self.blocks) else []
        for block in self.blocks:
            if not isinstance(block, ZeroOne):
                moves.append(Fraction(block.moved(neighbours, max_rows, rows_are_units).linf, block.grid))
        return max(moves, default=Fraction(0))

    def distinct(self) -> Workload:
        """The same questions, each asked once: repeated blocks and repeated listed queries are left out."""
        return self._repetition[0]

    def positions_in(self, distinct: Workload) -> Indices:
        """For each query its position in `self.distinct()`, so that equal questions can share one answer."""
        if distinct != self.distinct():
            raise WorkloadError("positions are known in the distinct form of this workload alone: use distinct()")
        return self._repetition[1]

    @cached_property
    def _repetition(self) -> tuple[Workload, Indices]:
        from .repetition import without_repetition  # the blocks it looks into import this module

        return without_repetition(self)

    def to_json(self) -> dict[str, Any]:
        """Everything about the workload as JSON values."""
        return {
            "format": "conspectus-workload",
            "version": 1,
            "columns": list(self.domain.names),
            "sizes": list(self.domain.sizes),
            "blocks": [block.to_json() for block in self.blocks],
        }

    @classmethod
    def from_json(cls, stored: object) -> Workload:
        """The workload that `to_json` wrote; everything is checked, and what is not a workload is refused."""
        from .stored import read_workload

        return read_workload(stored)

    def save(self, path: str | Path) -> None:
        Path(path).write_text(json.dumps(self.to_json(), separators=(",", ":")), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Workload:
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as problem:
            raise WorkloadError(f"{path} is not a workload file: write one with Workload.save") from problem
        return cls.from_json(stored)


def check_length(queries: int, what: str) -> None:
    """Refuse what would not fit into memory, with its exact size."""
    if queries > MOST_QUERIES:
        raise WorkloadError(
            f"{what} would have {queries:,} queries, too many for memory (at most {MOST_QUERIES:,}): "
            "take fewer columns or coarser bins"
        )


def total_length(blocks: Iterable[Block], what: str) -> tuple[Block, ...]:
    """The blocks, if together they are not too long."""
    kept = tuple(blocks)
    check_length(sum(len(block) for block in kept), what)
    return kept


def _disjoint(a: Box, b: Box) -> bool:
    codes = {literal.column: literal.codes for literal in a}
    return any(literal.column in codes and not common(codes[literal.column], literal.codes) for literal in b)


def _checked(index: int, length: int) -> int:
    position = index + length if index < 0 else index
    if not 0 <= position < length:
        raise IndexError(f"positions in this workload run from 0 to {length - 1}")
    return position
