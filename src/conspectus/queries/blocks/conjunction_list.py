"""Listed predicates: conjunctions, which are products of per-column sets of codes, and unions of disjoint ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from conspectus.data.code_sets import runs_of
from conspectus.data.domain import Domain
from conspectus.queries.disjoint_boxes import disjoint_boxes
from conspectus.queries.literals import LiteralRuns
from conspectus.queries.ordering import groups, row_keys, starts_of, stretches
from conspectus.queries.query import FEW_BOXES, Box, Indices, Literal, Predicate
from conspectus.queries.sensitivity import ArrayValue, CountingBlock, WorkloadError, fixed

from .conjunction_sensitivity import conjunction_bounds

Terms = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Conjunctions(ArrayValue, CountingBlock):
    """Listed predicates: a table of literals, boxes as rows of literal numbers, and the boxes of each query in turn.

    Query i is the union of the disjoint boxes from `starts[i]` up to `starts[i + 1]`. Literals and boxes are sorted,
    none is superfluous, and so equal lists of queries are equal values. `build` and `of` see to that, and whatever else
    they would have spelled otherwise is refused.

    Guarantee: `max_satisfied` and `max_differing` are never below the truth, for a list that repeats queries too.
    """

    domain: Domain
    literals: tuple[Literal, ...]
    terms: Terms
    starts: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("terms", "starts"):
            object.__setattr__(self, name, fixed(getattr(self, name)))
        _check(self)

    @classmethod
    def build(
        cls,
        domain: Domain,
        literals: Sequence[Literal],
        terms: NDArray[np.integer[Any]],
        starts: NDArray[np.integer[Any]] | None = None,
    ) -> Self:
        """From any table of literals and boxes over it (−1 pads a row); literals that hold every code are dropped."""
        # The time this takes grows with the boxes, not with a table of literals that few of them may use.
        used = np.unique(terms[terms >= 0])
        chosen = [literals[i] for i in used.tolist()]
        full = np.array([len(a.codes) == domain.sizes[a.column] for a in chosen] + [True])
        rows = np.where(terms >= 0, np.searchsorted(used, terms), -1)
        rows = np.where(full[rows], -1, rows)
        named = [(literal.column, literal.codes, i) for i, literal in enumerate(chosen) if not full[i]]
        named.sort()
        ordered: list[Literal] = []
        renumber = np.full(len(chosen) + 1, 0, dtype=np.int32)
        before: object = None
        for column, codes, i in named:
            if (column, codes) != before:
                before = (column, codes)
                ordered.append(chosen[i])
            renumber[i] = len(ordered) - 1
        renumber[-1] = len(ordered)
        # Padding sorts last while it is the largest number, and literals are sorted by column first.
        rows = np.sort(renumber[rows], axis=1)
        rows = np.where(rows == len(ordered), -1, rows).astype(np.int32)
        width = int((rows >= 0).sum(axis=1).max(initial=0))
        rows = np.ascontiguousarray(rows if width == rows.shape[1] else rows[:, :width])
        bounds = np.arange(len(rows) + 1) if starts is None else np.asarray(starts)
        if starts is not None and (np.diff(bounds) > 1).any():
            owner = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
            rows = rows[np.lexsort((row_keys(rows, len(ordered)), owner))]
        return cls(domain, tuple(ordered), rows, bounds.astype(np.int64))

    @classmethod
    def of(cls, domain: Domain, predicates: Iterable[Predicate]) -> Self:
        """From predicates, in order."""
        number: dict[Literal, int] = {}
        boxes: list[list[int]] = []
        starts = [0]
        for predicate in predicates:
            for box in predicate.boxes:
                if any(a.column >= len(domain) or a.codes[-1] >= domain.sizes[a.column] for a in box):
                    raise WorkloadError("a predicate speaks of a column or a code that its table does not have")
                boxes.append([number.setdefault(literal, len(number)) for literal in box])
            starts.append(len(boxes))
        width = max(map(len, boxes), default=0)
        terms = np.array([box + [-1] * (width - len(box)) for box in boxes], dtype=np.int64).reshape(len(boxes), width)
        return cls.build(domain, list(number), terms, np.array(starts))

    @classmethod
    def join(cls, blocks: Sequence[Self]) -> Self:
        """Several lists as one."""
        if len(blocks) == 1:
            return blocks[0]
        literals: list[Literal] = []
        width = max((block.terms.shape[1] for block in blocks), default=0)
        terms, starts, boxes = [], [np.zeros(1, dtype=np.int64)], 0
        for block in blocks:
            shifted = np.where(block.terms >= 0, block.terms.astype(np.int64) + len(literals), -1)
            terms.append(np.pad(shifted, ((0, 0), (0, width - shifted.shape[1])), constant_values=-1))
            starts.append(block.starts[1:] + boxes)
            literals += block.literals
            boxes += len(block.terms)
        return cls.build(blocks[0].domain, literals, np.concatenate(terms), np.concatenate(starts))

    @cached_property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({literal.column for literal in self.literals}))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def single(self) -> bool:
        """Whether every query is one box."""
        return bool((np.diff(self.starts) == 1).all())

    def box(self, number: int) -> Box:
        return tuple(self.literals[t] for t in self.terms[number].tolist() if t >= 0)

    def query(self, index: int) -> Predicate:
        boxes = tuple(self.box(number) for number in range(self.starts[index], self.starts[index + 1]))
        return Predicate.of_disjoint(boxes)

    def take(self, indices: Indices) -> Conjunctions:
        """Some queries, in the order given."""
        count = np.diff(self.starts)[indices]
        boxes = stretches(self.starts[indices], count)
        return Conjunctions.build(self.domain, self.literals, self.terms[boxes], starts_of(count))

    @cached_property
    def box_columns(self) -> NDArray[np.int32]:
        """The columns of each box, sorted, padded with −1."""
        column = np.array([literal.column for literal in self.literals] + [-1], dtype=np.int32)
        return fixed(column[self.terms])

    def column_groups(self) -> list[tuple[tuple[int, ...], Indices]]:
        """The boxes by their sets of columns: each set once, with the boxes over exactly these columns."""
        found = groups(row_keys(self.box_columns, len(self.domain)))
        return [(tuple(c for c in self.box_columns[boxes[0]].tolist() if c >= 0), boxes) for boxes in found]

    def of_boxes(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of the queries, from those of their boxes."""
        return np.diff(np.append(0, np.cumsum(counts))[self.starts])

    def keys(self) -> Indices:
        """One number for each query, equal for equal queries and different for different ones."""
        boxes = row_keys(self.terms, len(self.literals))
        if self.single:
            return boxes
        number: dict[bytes, int] = {}
        lists = (boxes[first:last].tobytes() for first, last in pairwise(self.starts.tolist()))
        return np.array([number.setdefault(listed, len(number)) for listed in lists], dtype=np.int64)

    @cached_property
    def numbers(self) -> int:
        """How many numbers it holds: what may be spent on looking at it is in proportion."""
        return self.terms.size + self.starts.size + 2 * sum(len(runs_of(literal.codes)) for literal in self.literals)

    @cached_property
    def _bounds(self) -> tuple[int, int]:
        return self.bounds()

    def bounds(self, work: int | None = None) -> tuple[int, int]:
        """`max_satisfied` and `max_differing`, from at most so many steps: fewer may leave them larger."""
        return conjunction_bounds(self.domain, self.literals, self.terms, self.starts, work)

    def max_satisfied(self) -> int:
        """A bound on the number of queries that one record satisfies: see `conjunction_sensitivity`."""
        return self._bounds[0]

    def max_differing(self) -> int:
        """A bound on the number of queries on which two records differ: see `conjunction_sensitivity`."""
        return self._bounds[1]

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "conjunctions",
            "literals": [[literal.column, *chain.from_iterable(runs_of(literal.codes))] for literal in self.literals],
            "width": int(self.terms.shape[1]),
            "terms": self.terms.ravel().tolist(),
            "starts": None if self.single and self.terms.shape[1] else self.starts.tolist(),
        }


def _check(block: Conjunctions) -> None:
    """Refuse whatever `build` would have spelled otherwise.

    Two spellings of one question would be counted as two that no record satisfies together, and noise for both would be
    too small. So a box has its literals in front, sorted by column and one for each, and its padding behind them; every
    literal and every place of a row is used; and the boxes of a query are sorted and disjoint.
    """
    sizes, terms, starts = block.domain.sizes, block.terms, block.starts
    if terms.ndim != 2 or terms.dtype != np.int32 or starts.ndim != 1 or starts.dtype != np.int64:
        raise WorkloadError("conjunctions need boxes as rows of 32-bit literal numbers")
    if not len(starts) or starts[0] != 0 or starts[-1] != len(terms) or (np.diff(starts) < 0).any():
        raise WorkloadError("conjunctions need their boxes in the order of their queries")
    if terms.size and (terms.min() < -1 or terms.max() >= len(block.literals)):
        raise WorkloadError("a conjunction speaks of a literal that is not in its table")
    named = [(literal.column, literal.codes) for literal in block.literals]
    if any(a >= b for a, b in pairwise(named)):
        raise WorkloadError("the literals of conjunctions must be sorted and distinct")
    for literal in block.literals:
        if literal.column >= len(sizes) or literal.codes[-1] >= sizes[literal.column]:
            raise WorkloadError("a literal speaks of a column or a code that its table does not have")
        if len(literal.codes) == sizes[literal.column]:
            raise WorkloadError("a literal that holds every code of its column says nothing and must be left out")
    used = np.zeros(len(block.literals) + 1, dtype=bool)
    used[terms] = True
    if not used[:-1].all() or (terms.shape[1] and (terms[:, -1] < 0).all()):
        raise WorkloadError("conjunctions need each literal of their table, and no place in which no box has one")
    columns = block.box_columns
    before, after = columns[:, :-1], columns[:, 1:]
    if not ((after == -1) | ((before >= 0) & (before < after))).all():
        raise WorkloadError("a box needs its literals sorted by column, one for each, and its padding behind them")
    if (np.diff(starts) > 1).any():
        keys, owner = row_keys(terms, len(block.literals)), np.repeat(np.arange(len(block)), np.diff(starts))
        if ((owner[1:] == owner[:-1]) & (keys[1:] <= keys[:-1])).any():
            raise WorkloadError("the boxes of a query must be sorted and distinct")
    count = np.diff(starts)
    many = np.flatnonzero(count > FEW_BOXES).tolist()
    runs = LiteralRuns(block.literals if many else ())
    if not all(disjoint_boxes(runs, terms[starts[index] : starts[index + 1]]) for index in many):
        raise WorkloadError("the boxes of a predicate must be disjoint")
    for index in np.flatnonzero((count > 1) & (count <= FEW_BOXES)).tolist():
        Predicate(block.query(index).boxes)  # which refuses boxes that overlap
