"""Workloads as values: a sequence of queries in a fixed order, and how far one unit moves all of them together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from conspectus.data.domain import Domain
from conspectus.privacy.relation import Relation
from conspectus.suggestions import suggest_keywords

from .block import Block, Listing
from .blocks.linear_queries import LinearQueries
from .blocks.moments import Moments
from .distinct import distinct_blocks
from .from_json import read_blocks
from .query import Indices, Query
from .sensitivity import CountingBlock, Sensitivity, WorkloadError, counting_sensitivity

MIXED = "workloads over different tables do not mix: build both from the same schema"
APART = "counts of rows do not mix with functions of the table, nor functions of different scales: release them apart"


@suggest_keywords
@dataclass(frozen=True, repr=False)
class Workload:
    """A sequence of queries in a fixed order, held as blocks.

    Workloads are values: equal where their queries are, hashable, and kept in JSON. `w1 + w2` asks both; `w[i]`, slices
    and `take` choose some. They are made by `cs.marginals`, `cs.sql` and the other builders.

    Args:
        domain: the columns of the table and the number of codes of each.
        blocks: the queries, in order.

    Raises:
        WorkloadError: the blocks are of different tables, or mix counts of rows with functions of other scales.

    Example:
        >>> workload = cs.marginals(schema, 1) + cs.sql(schema, ["smoker AND age >= 60"])
        >>> len(workload), len(workload[:5])
        (13, 5)
    """

    domain: Domain
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        if any(block.domain != self.domain for block in self.blocks):
            raise WorkloadError(MIXED)
        if len({block.denominator for block in self.blocks}) > 1:
            raise WorkloadError(APART)

    def __repr__(self) -> str:
        kinds = ", ".join(dict.fromkeys(type(block).__name__ for block in self.blocks)) or "nothing"
        return f"<Workload: {len(self):,} queries of {kinds}>"

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each block starts, and at the end the number of queries."""
        return tuple(accumulate((len(block) for block in self.blocks), initial=0))

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The positions of the columns that its queries read."""
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
        """The query at a position.

        Args:
            index: the position, from 0 on; negative ones count from the end.

        Returns:
            The query as a value.

        Raises:
            IndexError: there is no such position.

        Example:
            >>> cs.sql(schema, ["smoker"]).query(0)
            Predicate(boxes=((Literal(column=2, codes=(1,)),),))
        """
        index = _checked(index, len(self))
        at = int(np.searchsorted(self.offsets, index, side="right")) - 1
        return self.blocks[at].query(index - self.offsets[at])

    def queries(self) -> Iterator[Query]:
        """All queries, one by one.

        Returns:
            An iterator over the queries, in order.

        Example:
            >>> sum(1 for _ in cs.marginals(schema, 1).queries())
            12
        """
        return (block.query(i) for block in self.blocks for i in range(len(block)))

    def take(self, indices: Sequence[int] | Indices) -> Workload:
        """The queries at these positions, in this order. Stretches that are whole blocks stay whole.

        Args:
            indices: the positions, from 0 on.

        Returns:
            A workload of these queries.

        Raises:
            IndexError: there is no such position.

        Example:
            >>> len(cs.marginals(schema, 1).take([0, 3, 3]))
            3
        """
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
        """Single queries of several blocks as few blocks: queries of one kind in a row are put together."""
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
            block: Block = kind.join([piece for piece, _ in parts])  # type: ignore[attr-defined]
            order = np.argsort(places)
            joined.append((block.take(order) if len(parts) > 1 else block, np.sort(places)))
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
    def denominator(self) -> int | None:
        """What a share of one amounts to in counts; None where that is the number of rows of the table."""
        return self.blocks[0].denominator if self.blocks else None

    @cached_property
    def counting(self) -> bool:
        """Whether every query is 0 or 1 on a record."""
        return all(isinstance(block, CountingBlock) for block in self.blocks)

    @cached_property
    def linear(self) -> bool:
        """Whether every query has a value in [0, 1] on a record, and on a table their sum: what a histogram answers."""
        return all(isinstance(block, CountingBlock | LinearQueries) for block in self.blocks)

    def measured(self, *, total_known: bool = False) -> Workload:
        """What is measured for it: means and other moments are computed from linear queries, anything else is itself.

        Args:
            total_known: whether the number of rows is public, so that it need not be measured too.

        Returns:
            A workload without moments; this one if it has none.

        Example:
            >>> len(cs.means(schema, "age", by=["sex"])), len(cs.means(schema, "age", by=["sex"]).measured())
            (2, 4)
        """
        if not any(isinstance(block, Moments) for block in self.blocks):
            return self
        kept = (b.parts(total_known=total_known) if isinstance(b, Moments) else b for b in self.blocks)
        return Workload(self.domain, tuple(kept))

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """How far one unit moves all values of this workload together, in steps of its grid.

        Guarantee: one unit of `relation` moves the vector of all values, a repeated query as often as it stands there,
        by at most the three norms that are returned.

        Args:
            relation: who are neighbours, and how many rows a unit has.

        Returns:
            The L1 norm, the squared L2 norm and the largest coordinate, in whole steps.

        Example:
            >>> from conspectus.privacy.relation import Relation
            >>> cs.marginals(schema, 1).sensitivity(Relation("replace"))
            Sensitivity(l1=8, l2_squared=8, linf=1)
        """
        plain = [block for block in self.blocks if isinstance(block, CountingBlock)]
        sums = sum(block.max_satisfied() for block in plain), sum(block.max_differing() for block in plain)
        norms = counting_sensitivity(*sums, relation).times(self.grid)
        for block in self.blocks:
            if not isinstance(block, CountingBlock):
                here = block.sensitivity(relation)
                norms = norms.beside(here.times(self.grid // block.grid))
        return norms

    def linf(self, relation: Relation) -> Fraction:
        """How far one unit moves any single query at most, in counts. This is cheap, as no two queries are compared.

        Guarantee: one unit of `relation` moves no value by more than this.

        Args:
            relation: who are neighbours, and how many rows a unit has.

        Returns:
            A bound for every query of the workload; 0 for an empty workload.

        Example:
            >>> from conspectus.privacy.relation import Relation
            >>> cs.marginals(schema, 1).linf(Relation("add-remove", max_rows=3, rows_are_units=False))
            Fraction(3, 1)
        """
        moves = (
            Fraction(relation.max_rows)
            if isinstance(block, CountingBlock)
            else Fraction(block.sensitivity(relation).linf, block.grid)
            for block in self.blocks
        )
        return max(moves, default=Fraction(0))

    def distinct(self) -> Workload:
        """The same questions, each asked once: repeated blocks and repeated listed queries are left out.

        Returns:
            A workload without repetitions; this one if it has none.

        Example:
            >>> once = cs.marginals(schema, 1)
            >>> (once + once).distinct() == once
            True
        """
        return self._repetition[0]

    def positions_in(self, distinct: Workload) -> Indices:
        """For each query its position in `self.distinct()`, so that equal questions can share one answer.

        Args:
            distinct: what `self.distinct()` returned.

        Returns:
            An array with one position for each query.

        Raises:
            WorkloadError: `distinct` is another workload.

        Example:
            >>> twice = cs.sql(schema, ["smoker", "smoker"])
            >>> twice.positions_in(twice.distinct()).tolist()
            [0, 0]
        """
        if distinct != self.distinct():
            raise WorkloadError("positions are known in the distinct form of this workload alone: use distinct()")
        return self._repetition[1]

    @cached_property
    def _repetition(self) -> tuple[Workload, Indices]:
        blocks, positions = distinct_blocks(self.blocks)
        return (self if blocks is self.blocks else Workload(self.domain, blocks)), positions

    def to_json(self) -> dict[str, Any]:
        """Everything about the workload as JSON values. Functions of one's own leave their names and no code.

        Returns:
            A dictionary that `from_json` reads.

        Example:
            >>> cs.Workload.from_json(cs.marginals(schema, 1).to_json()) == cs.marginals(schema, 1)
            True
        """
        return {
            "format": "conspectus-workload",
            "version": 1,
            "columns": list(self.domain.names),
            "sizes": list(self.domain.sizes),
            "blocks": [block.to_json() for block in self.blocks],
        }

    @classmethod
    def from_json(cls, stored: object) -> Workload:
        """The workload that `to_json` wrote. Everything is checked, and what is not a workload is refused.

        Args:
            stored: the JSON values.

        Returns:
            The workload.

        Raises:
            WorkloadError: the values are no workload.

        Example:
            >>> len(cs.Workload.from_json(cs.ranges(schema, "age").to_json()))
            15
        """
        return cls(*read_blocks(stored))

    def save(self, path: str | Path) -> None:
        """Write the workload to a file, as JSON.

        Args:
            path: the file.

        Example:
            >>> cs.marginals(schema, 2).save("questions.json")
        """
        Path(path).write_text(json.dumps(self.to_json(), separators=(",", ":")), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Workload:
        """Read a workload from a file that `save` wrote.

        Args:
            path: the file.

        Returns:
            The workload.

        Raises:
            WorkloadError: the file cannot be read, or holds no workload.

        Example:
            >>> cs.marginals(schema, 2).save("questions.json")
            >>> len(cs.Workload.load("questions.json"))
            51
        """
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as problem:
            raise WorkloadError(f"{path} is not a workload file: write one with Workload.save") from problem
        return cls.from_json(stored)


def _checked(index: int, length: int) -> int:
    position = index + length if index < 0 else index
    if not 0 <= position < length:
        raise IndexError(f"positions in this workload run from 0 to {length - 1}")
    return position
