"""The role of a block: queries that are counted, stored and priced together.

A block knows its queries and how far one unit moves them together. A block of counting queries (`CountingBlock` in
`sensitivity`) says how many of them one record can satisfy and on how many two records can differ: its joint
sensitivity follows from these two integers. The values of every block are whole steps of a public grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, Self, runtime_checkable

from conspectus.data.domain import Domain
from conspectus.privacy.relation import Relation

from .query import Indices, Query
from .sensitivity import Sensitivity, WorkloadError

MOST_QUERIES = 1 << 27
"""The largest workload that a builder makes: its counts alone take a gigabyte."""


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
        """Some of its queries, in the order given, as a block that lists them one by one."""

    @property
    def grid(self) -> int:
        """How many steps make one count, a power of two. Its values are whole numbers of steps."""

    @property
    def denominator(self) -> int | None:
        """What a share of one amounts to in counts; None where that is the number of rows of the table."""

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """How far one unit moves its values together, in its own steps."""

    def to_json(self) -> dict[str, Any]: ...


class Listing(Block, Protocol):
    """A block that lists its queries one by one, so that pieces of the same kind can be put together again."""

    @classmethod
    def join(cls, blocks: Sequence[Self]) -> Self: ...


class ReadsAll:
    """What blocks that read all columns of their table have in common."""

    domain: Domain

    @property
    def columns(self) -> tuple[int, ...]:
        """The positions of all columns."""
        return tuple(range(len(self.domain)))


def check_length(queries: int, what: str) -> None:
    """Refuse what would not fit into memory, with its exact size."""
    if queries > MOST_QUERIES:
        # A number of thousands of digits cannot be written, and says no more.
        many = f"{queries:,}" if queries < 1 << 63 else "more than 2⁶³"
        raise WorkloadError(
            f"{what} would have {many} queries, too many for memory (at most {MOST_QUERIES:,}): "
            "take fewer columns or coarser bins"
        )


def total_length(blocks: Iterable[Block], what: str) -> tuple[Block, ...]:
    """The blocks, if together they are not too long."""
    kept = tuple(blocks)
    check_length(sum(len(block) for block in kept), what)
    return kept
