"""Linear queries: each adds up, over the rows that satisfy a predicate, a weight in [0, 1] by the codes of columns.

Sums of a column are such queries: the weight of a code is where its value lies in the column's declared range. Weights
are whole steps of 1/`VALUE_STEPS`, so that a value is a whole number of steps and no float comes near the truth. A
block lists predicates, and for each of them which weighting it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import mul
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.privacy.relation import Relation
from conspectus.queries.ordering import first_of_each
from conspectus.queries.query import VALUE_STEPS, Indices, Linear, Weighting
from conspectus.queries.sensitivity import ArrayValue, Sensitivity, WorkloadError, fixed, moved_rows
from conspectus.queries.stored_parts import REFUSAL, integers, packed, unpacked

from .conjunction_list import Conjunctions
from .conjunction_sensitivity import work_for

MOST_COMPARED = 1 << 22
"""Weights that may be listed, or compared pair by pair, to find the sensitivity of one block."""

COMPARED_FOR_A_NUMBER = 1 << 13
"""The same for each number that the block holds: a short one takes little time."""

MOST_REPEATED = 1 << 14
"""Queries whose squared weights are added up in 64 bits: VALUE_STEPS² has 48 of them."""

Kinds = tuple[tuple[int, int], ...]
"""Weightings by their numbers, and how often each is asked for."""


@dataclass(frozen=True, eq=False)
class LinearQueries(ArrayValue):
    """Listed linear queries: query i sums the weighting `which[i]` over the rows that satisfy predicate i of `given`.

    Weightings are distinct and stand in the order of their first use, so that equal lists of queries are equal values;
    `build` sees to that.

    Guarantee: `sensitivity` bounds, under both relations and for units of m rows, how far one unit moves all values
    together, for lists that repeat predicates and queries too.
    """

    domain: Domain
    given: Conjunctions
    weightings: tuple[Weighting, ...]
    which: NDArray[np.int32]

    grid: ClassVar[int] = VALUE_STEPS
    denominator: ClassVar[None] = None

    def __post_init__(self) -> None:
        which, sizes = self.which, self.domain.sizes
        if self.given.domain != self.domain or which.dtype != np.int32 or which.shape != (len(self.given),):
            raise WorkloadError("linear queries need a weighting for each of their predicates")
        used = list(dict.fromkeys(which.tolist()))
        if used != list(range(len(self.weightings))) or len(set(self.weightings)) != len(used):
            raise WorkloadError("the weightings of linear queries are distinct, in the order of their first use")
        for weighting in self.weightings:
            if weighting.columns[-1] >= len(sizes):
                raise WorkloadError("a linear query speaks of a column that its table does not have")
            if weighting.steps.size != int(np.prod([sizes[c] for c in weighting.columns], dtype=object)):
                raise WorkloadError("a linear query has a weight for each combination of codes of its columns")
        object.__setattr__(self, "which", fixed(which))

    @classmethod
    def build(cls, domain: Domain, given: Conjunctions, weightings: Sequence[Weighting], which: Indices) -> Self:
        """From weightings in any order, some of them perhaps equal or unused."""
        number: dict[Weighting, int] = {}
        places = np.asarray(which, dtype=np.int64)
        named = {old: number.setdefault(weightings[old], len(number)) for old in dict.fromkeys(places.tolist())}
        return cls(domain, given, tuple(number), np.array([named[old] for old in places.tolist()], dtype=np.int32))

    @classmethod
    def of(cls, domain: Domain, queries: Sequence[Linear]) -> Self:
        """From queries, in order."""
        given = Conjunctions.of(domain, [query.given for query in queries])
        return cls.build(domain, given, [query.weighting for query in queries], np.arange(len(queries)))

    @classmethod
    def join(cls, blocks: Sequence[Self]) -> Self:
        """Several lists as one."""
        weightings = [weighting for block in blocks for weighting in block.weightings]
        starts = np.cumsum([0, *(len(block.weightings) for block in blocks)])
        which = np.concatenate([block.which + start for block, start in zip(blocks, starts)])
        return cls.build(blocks[0].domain, Conjunctions.join([b.given for b in blocks]), weightings, which)

    def __len__(self) -> int:
        return len(self.which)

    def query(self, index: int) -> Linear:
        return Linear(self.given.query(index), self.weightings[int(self.which[index])])

    def take(self, indices: Indices) -> LinearQueries:
        """Some queries, in the order given."""
        which = self.which[indices].astype(np.int64)
        return LinearQueries.build(self.domain, self.given.take(indices), self.weightings, which)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({*self.given.columns, *(c for weighting in self.weightings for c in weighting.columns)}))

    def by_weighting(self) -> list[tuple[Weighting, Indices, Conjunctions]]:
        """For each weighting the queries that have it, and their predicates."""
        if len(self.weightings) == 1:
            return [(self.weightings[0], np.arange(len(self)), self.given)]
        order = np.argsort(self.which, kind="stable")
        places = np.split(order, np.cumsum(np.bincount(self.which))[:-1])
        return [(each, some, self.given.take(some)) for each, some in zip(self.weightings, places)]

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """How far one unit moves the values together, in steps."""
        return moved_rows(*self._moves, relation)

    @cached_property
    def _moves(self) -> tuple[Sensitivity, Sensitivity]:
        """What an added or removed row does to the values, and what a replaced one does: see the proof note."""
        classes = self._classes()
        if not classes:
            return Sensitivity(0, 0, 0), Sensitivity(0, 0, 0)
        every = Conjunctions.join([predicates for _, predicates in classes]).max_satisfied()
        # What is looked at is bounded for the whole block, however many classes it has, by the numbers that it holds.
        stored = len(self) + sum(weighting.steps.size for weighting in self.weightings)
        share = min(MOST_COMPARED, COMPARED_FOR_A_NUMBER * stored) // len(classes)
        ones, twos = zip(*(self._norms(kinds, share) for kinds, _ in classes))
        work, every_predicate = work_for(self.given.numbers), sum(len(predicates) for _, predicates in classes)
        held = [predicates.bounds(work * len(predicates) // every_predicate) for _, predicates in classes]
        satisfied = [most for most, _ in held]
        norms = [one.l1 for one in ones], [one.l2_squared for one in ones]
        sums = [min(every * max(norm), sum(k * one for k, one in zip(satisfied, norm))) for norm in norms]
        added = Sensitivity(sums[0], sums[1], max(one.linf for one in ones))
        # Predicate by predicate: a row that stays in it moves by a difference, one that comes or goes by a whole.
        apart = Sensitivity(0, 0, 0)
        for one, two, (_, differing), (_, predicates) in zip(ones, twos, held, classes):
            whole = two if differing == 0 else two.each(one)
            many = len(predicates)
            apart = apart.beside(Sensitivity(many * whole.l1, many * whole.l2_squared, whole.linf))
        l1, l2_squared = min(2 * added.l1, apart.l1), min(2 * added.l2_squared, apart.l2_squared)
        return added, Sensitivity(l1, l2_squared, apart.linf)

    def _classes(self) -> list[tuple[Kinds, Conjunctions]]:
        """The distinct predicates by which weightings they have, and how often: (weighting, times) for each."""
        first, number = first_of_each(self.given.keys())
        kinds: dict[int, dict[int, int]] = {}
        for predicate, weighting in zip(number.tolist(), self.which.tolist()):
            times = kinds.setdefault(predicate, {})
            times[weighting] = times.get(weighting, 0) + 1
        groups: dict[Kinds, list[int]] = {}
        for predicate, times in kinds.items():
            groups.setdefault(tuple(sorted(times.items())), []).append(int(first[predicate]))
        return [(kind, self.given.take(np.array(places))) for kind, places in groups.items()]

    def _norms(self, kinds: Kinds, work: int) -> tuple[Sensitivity, Sensitivity]:
        """The norms of one record's weights, and of the difference of two records' weights, at most.

        Weightings that have no column in common take their maxima on one record: their norms add up.
        """
        parts = self._parts(kinds)
        one = two = Sensitivity(0, 0, 0)
        for columns, part in parts:
            alone, apart = self._bounds(part)
            cells = self.domain.project(columns).cells * len(part)
            # Below this many queries, sums of squares of weights have 63 bits.
            if len(part) > 1 and sum(times for _, times in part) <= MOST_REPEATED and cells <= work // len(parts):
                alone, apart = self._compared(columns, part, apart, work // len(parts))
            one, two = one.beside(alone), two.beside(apart)
        return one, two

    def _parts(self, kinds: Kinds) -> list[tuple[tuple[int, ...], Kinds]]:
        """Weightings by the columns that they read: those of different parts have none in common."""
        leader: dict[int, int] = {}

        def first(column: int) -> int:
            while (above := leader.setdefault(column, column)) != column:
                leader[column] = column = leader.setdefault(above, above)
            return column

        for number, _ in kinds:
            columns = self.weightings[number].columns
            for column in columns:
                leader[first(column)] = first(columns[0])
        found: dict[int, list[tuple[int, int]]] = {}
        for number, times in kinds:
            found.setdefault(first(self.weightings[number].columns[0]), []).append((number, times))
        read = ({c for number, _ in part for c in self.weightings[number].columns} for part in found.values())
        return [(tuple(sorted(columns)), tuple(part)) for columns, part in zip(read, found.values())]

    @cached_property
    def _ends(self) -> list[tuple[int, int]]:
        """The least and the largest weight of each weighting."""
        return [(int(weighting.steps.min()), int(weighting.steps.max())) for weighting in self.weightings]

    def _bounds(self, part: Kinds) -> tuple[Sensitivity, Sensitivity]:
        """Both norms from the largest weight and the range of each weighting: exact where there is one of them."""
        ends = [self._ends[number] for number, _ in part]
        sizes = [[high for _, high in ends], [high - low for low, high in ends]]
        times = [times for _, times in part]
        one, two = (
            Sensitivity(sum(map(mul, size, times)), sum(s * s * t for s, t in zip(size, times)), max(size))
            for size in sizes
        )
        return one, two

    def _compared(
        self, columns: tuple[int, ...], part: Kinds, apart: Sensitivity, work: int
    ) -> tuple[Sensitivity, Sensitivity]:
        """Both norms from the weights on all combinations of codes; of two records only where pairs of these are few.

        Where they are many, `apart` bounds the difference, and so does twice the norm of one record.
        """
        shape, lines = self.domain.shape(columns), []
        for number, _ in part:
            weighting = self.weightings[number]
            side = tuple(size if c in weighting.columns else 1 for c, size in zip(columns, shape))
            lines.append(np.broadcast_to(weighting.steps.reshape(side), shape).ravel().astype(np.int64))
        weights, times = np.stack(lines), np.array([times for _, times in part], dtype=np.int64)
        one = Sensitivity(int((times @ weights).max()), int((times @ (weights * weights)).max()), int(weights.max()))
        if weights.shape[1] * weights.size <= work:
            return one, Sensitivity(*_farthest(np.unique(weights, axis=1), times.tolist()), apart.linf)
        # Weights are not negative, so a difference is no longer than the two together.
        return one, Sensitivity(min(apart.l1, 2 * one.l1), min(apart.l2_squared, 2 * one.l2_squared), apart.linf)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "linear",
            "given": self.given.to_json(),
            "weightings": [[list(weighting.columns), packed(weighting.steps, "<i4")] for weighting in self.weightings],
            "which": self.which.tolist(),
        }


def _farthest(weights: NDArray[np.int64], times: list[int]) -> tuple[int, int]:
    """The largest L1 and squared L2 distance of two columns, of which a line counts as often as `times` says."""
    l1 = l2_squared = 0
    many = weights.shape[1]
    step = max(1, (1 << 15) // many)
    for start in range(0, many, step):
        sums = np.zeros((min(step, many - start), many - start), dtype=np.int64)
        squares = np.zeros_like(sums)
        for line, often in zip(weights, times):
            gaps = np.abs(line[start : start + step, None] - line[None, start:])
            sums += gaps * often
            squares += gaps * gaps * often
        l1, l2_squared = max(l1, int(sums.max())), max(l2_squared, int(squares.max()))
    return l1, l2_squared


def read_linear(domain: Domain, given: object, stored: Mapping[str, Any]) -> LinearQueries:
    """The block of a JSON value whose predicates were read before; refuses anything that is none."""
    if not isinstance(given, Conjunctions):
        raise WorkloadError(REFUSAL + "linear queries are given by predicates")
    weightings = [_weighting(entry) for entry in stored["weightings"]]
    which = _integers(stored["which"])
    if len(which) != len(given) or any(not 0 <= number < len(weightings) for number in which):
        raise WorkloadError(REFUSAL + "a linear query speaks of a weighting that is not there")
    return LinearQueries(domain, given, tuple(weightings), np.array(which, dtype=np.int32))


def _weighting(entry: object) -> Weighting:
    if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[1], str):
        raise WorkloadError(REFUSAL + "a weighting is a list of columns and its weights")
    steps = unpacked(entry[1], "<i4", "the weights of a weighting are damaged")
    return Weighting(tuple(_integers(entry[0])), steps)


def _integers(value: object) -> list[int]:
    return integers(value, "the numbers of linear queries are lists of integers", 1 - (1 << 31), (1 << 31) - 1)
