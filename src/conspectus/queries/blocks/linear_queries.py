"""Linear queries: each adds up, over the rows that satisfy a predicate, a weight in [0, 1] by the codes of columns.

Sums of a column are such queries: the weight of a code is where its value lies in the column's declared range. Weights
are whole steps of 1/`VALUE_STEPS`, so that a value is a whole number of steps and no float comes near the truth. A
block lists predicates, and for each of them which weighting it has.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.privacy.relation import Relation
from conspectus.queries.ordering import first_of_each
from conspectus.queries.query import VALUE_STEPS, Indices, Linear, Weighting
from conspectus.queries.sensitivity import ArrayValue, Sensitivity, WorkloadError, fixed

from .conjunction_list import Conjunctions

MOST_COMPARED = 1 << 22
"""Weights that may be compared, pair by pair, to find how far two records are apart."""


class _Norms(NamedTuple):
    """The L1 norm, the squared L2 norm and the largest entry of some weights of one record, or of two apart."""

    l1: int
    l2_squared: int
    linf: int

    def each(self, other: _Norms) -> _Norms:
        return _Norms(*map(max, self, other))


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
        found = []
        for number, weighting in enumerate(self.weightings):
            places = np.flatnonzero(self.which == number)
            alone = len(self.weightings) == 1
            found.append((weighting, places, self.given if alone else self.given.take(places)))
        return found

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """How far one unit moves the values together, in steps."""
        added, replaced = self._moves
        if not relation.replace:
            far = added
        elif relation.rows_are_units:
            far = replaced
        else:  # rows that pair up are replaced, the others added or removed
            far = added.each(replaced)
        return Sensitivity(*far).times(relation.max_rows)

    @cached_property
    def _moves(self) -> tuple[_Norms, _Norms]:
        """What an added or removed row does to the values, and what a replaced one does: see the proof note."""
        classes = self._classes()
        if not classes:
            return _Norms(0, 0, 0), _Norms(0, 0, 0)
        every = Conjunctions.join([predicates for _, predicates in classes]).max_satisfied()
        ones = [self._one(kinds) for kinds, _ in classes]
        satisfied = [predicates.max_satisfied() for _, predicates in classes]
        sums = [
            min(every * max(one[norm] for one in ones), sum(k * one[norm] for k, one in zip(satisfied, ones)))
            for norm in (0, 1)
        ]
        added = _Norms(sums[0], sums[1], max(one.linf for one in ones))
        # Predicate by predicate: a row that stays in it moves by a difference, one that comes or goes by a whole.
        stays = [self._two(kinds) for kinds, _ in classes]
        differing = [predicates.max_differing() for _, predicates in classes]
        apart = [0, 0]
        far = 0
        for two, one, (_, predicates), left in zip(stays, ones, classes, differing):
            whole = two if left == 0 else two.each(one)
            apart = [apart[norm] + len(predicates) * whole[norm] for norm in (0, 1)]
            far = max(far, whole.linf)
        return added, _Norms(min(2 * added.l1, apart[0]), min(2 * added.l2_squared, apart[1]), far)

    def _classes(self) -> list[tuple[tuple[tuple[int, int], ...], Conjunctions]]:
        """The distinct predicates by which weightings they have, and how often: (weighting, times) for each."""
        first, number = first_of_each(self._predicate_keys())
        kinds: dict[int, dict[int, int]] = {}
        for predicate, weighting in zip(number.tolist(), self.which.tolist()):
            times = kinds.setdefault(predicate, {})
            times[weighting] = times.get(weighting, 0) + 1
        groups: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for predicate, times in kinds.items():
            groups.setdefault(tuple(sorted(times.items())), []).append(int(first[predicate]))
        return [(kind, self.given.take(np.array(places))) for kind, places in groups.items()]

    def _predicate_keys(self) -> Indices:
        number: dict[Any, int] = {}
        return np.array([number.setdefault(self.given.query(i), len(number)) for i in range(len(self))], dtype=np.int64)

    def _weights(self, kinds: tuple[tuple[int, int], ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The weights of some weightings on all combinations of codes that they read, a line each; and how often."""
        columns = sorted({c for number, _ in kinds for c in self.weightings[number].columns})
        shape = self.domain.shape(columns)
        lines = []
        for number, _ in kinds:
            weighting = self.weightings[number]
            side = tuple(size if c in weighting.columns else 1 for c, size in zip(columns, shape))
            lines.append(np.broadcast_to(weighting.steps.reshape(side), shape).ravel().astype(np.int64))
        return np.stack(lines), np.array([times for _, times in kinds], dtype=np.int64)

    def _one(self, kinds: tuple[tuple[int, int], ...]) -> _Norms:
        """The norms of one record's weights, at most."""
        if self._cells(kinds) > MOST_COMPARED:
            most = [(int(self.weightings[number].steps.max()), times) for number, times in kinds]
            return _Norms(sum(w * t for w, t in most), sum(w * w * t for w, t in most), max(w for w, _ in most))
        weights, times = self._weights(kinds)
        squares = (weights * weights * times[:, None]).sum(axis=0)
        return _Norms(int((weights * times[:, None]).sum(axis=0).max()), int(squares.max()), int(weights.max()))

    def _two(self, kinds: tuple[tuple[int, int], ...]) -> _Norms:
        """The norms of the difference of two records' weights, at most."""
        one = self._one(kinds)
        spans = [(int(np.ptp(self.weightings[number].steps)), times) for number, times in kinds]
        l1, l2 = sum(span * t for span, t in spans), sum(span * span * t for span, t in spans)
        if len(kinds) > 1 and self._cells(kinds) ** 2 * len(kinds) <= MOST_COMPARED:
            weights, times = self._weights(kinds)
            distinct = np.unique(weights, axis=1)
            gaps = np.abs(distinct[:, :, None] - distinct[:, None, :])
            l1 = int(np.einsum("kij,k->ij", gaps, times).max())
            l2 = int(np.einsum("kij,k->ij", gaps * gaps, times).max())
        # Weights are not negative, so a difference is no longer than the two together.
        return _Norms(min(l1, 2 * one.l1), min(l2, 2 * one.l2_squared), max(span for span, _ in spans))

    def _cells(self, kinds: tuple[tuple[int, int], ...]) -> int:
        columns = {c for number, _ in kinds for c in self.weightings[number].columns}
        return self.domain.project(tuple(sorted(columns))).cells

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "linear",
            "given": self.given.to_json(),
            "weightings": [[list(weighting.columns), _packed(weighting.steps)] for weighting in self.weightings],
            "which": self.which.tolist(),
        }


def _packed(steps: NDArray[np.int32]) -> str:
    return base64.b64encode(steps.astype("<i4").tobytes()).decode("ascii")


_REFUSAL = "this is not a stored workload: "


def read_linear(domain: Domain, given: object, stored: Mapping[str, Any]) -> LinearQueries:
    """The block of a JSON value whose predicates were read before; refuses anything that is none."""
    if not isinstance(given, Conjunctions):
        raise WorkloadError(_REFUSAL + "linear queries are given by predicates")
    weightings = [_weighting(entry) for entry in stored["weightings"]]
    which = _integers(stored["which"])
    if len(which) != len(given) or any(not 0 <= number < len(weightings) for number in which):
        raise WorkloadError(_REFUSAL + "a linear query speaks of a weighting that is not there")
    return LinearQueries(domain, given, tuple(weightings), np.array(which, dtype=np.int32))


def _weighting(entry: object) -> Weighting:
    if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[1], str):
        raise WorkloadError(_REFUSAL + "a weighting is a list of columns and its weights")
    try:
        steps = np.frombuffer(base64.b64decode(entry[1], validate=True), dtype="<i4")
    except ValueError as problem:
        raise WorkloadError(_REFUSAL + "the weights of a weighting are damaged") from problem
    return Weighting(tuple(_integers(entry[0])), steps.astype(np.int32))


def _integers(value: object) -> list[int]:
    """A list of JSON integers, none of them beyond 31 bits."""
    if not isinstance(value, list) or not set(map(type, value)) <= {int} or any(abs(n) >= 1 << 31 for n in value):
        raise WorkloadError(_REFUSAL + "the numbers of linear queries are lists of integers")
    return value
