"""Closed forms of a mixture of products: tables of any columns, conjunctions, parities and listed records.

Given its component, the columns of a record are independent: so the share of a conjunction of per-column sets is
Σ_k w_k Π_j P_kj(S_j), and every table is a sum of products of vectors. All arrays are cut into runs of components, so
that memory is bounded whatever is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled, one_thread
from conspectus.queries.literals import LiteralArrays

Vector = NDArray[np.float64]
_MOST_ENTRIES = 1 << 22
_FEW = 64
"""So many sums are made without machine code: to load what makes it takes longer than they do."""


@dataclass(frozen=True, eq=False)
class CoarseColumn:
    """How a mixture holds a column whose codes it tells apart only in groups.

    Attributes:
        groups: The group of every code, numbered from 0 without a gap.
        within: The share of every code in its group; they sum to 1 in each.
    """

    groups: NDArray[np.int32]
    within: Vector

    @property
    def size(self) -> int:
        """The number of groups."""
        return int(self.groups.max()) + 1


@dataclass(frozen=True, eq=False)
class MixtureAnswers:
    """Weights and conditional shares of some columns, and how these are coded: ready to answer.

    Attributes:
        weights: One for each component, with sum 1.
        sides: For each column its conditional shares, components × groups, with sum 1 in each component.
        coarse: For each column how its codes are grouped; None where every code stands alone.
    """

    weights: Vector
    sides: Sequence[Vector]
    coarse: Sequence[CoarseColumn | None]

    def marginal(self, columns: Sequence[int]) -> Vector:
        """The table over some columns in the order given, in the shape of their codes."""
        sides = [self.sides[c] for c in columns]
        table = self._grouped(sides).reshape([side.shape[1] for side in sides])
        for axis, column in enumerate(columns):
            if (how := self.coarse[column]) is not None:
                shape = [1] * len(columns)
                shape[axis] = -1
                table = table.take(how.groups, axis=axis) * how.within.reshape(shape)
        return table

    def _grouped(self, sides: Sequence[Vector]) -> Vector:
        """The table over groups, flat: one product of two matrices, each of about half of the columns."""
        cut = _balanced([side.shape[1] for side in sides])
        left, right = sides[:cut], sides[cut:]
        widths = [math.prod(side.shape[1] for side in half) for half in (left, right)]
        found = np.zeros(widths)
        step = max(1, _MOST_ENTRIES // max(widths))
        with one_thread():
            for part in self._runs(step):
                first = _products(left, part, self.weights[part, None])
                found += first.T @ _products(right, part, np.ones((first.shape[0], 1)))
        return found

    def parities(self, matrix: NDArray[np.integer[Any]]) -> Vector:
        """The shares of records with an even number of second values, for columns padded with −1."""
        # The mean of Π(1 − 2·[second value]) is a product inside a component; a padding column says 1.
        signs = [1 - 2 * _of_code(side, how, 1) for side, how in zip(self.sides, self.coarse)]
        signed = np.array([*signs, np.ones(len(self.weights))])
        return (1 + self._sums(signed, np.where(matrix < 0, len(signs), matrix))) / 2

    def boxes(self, literals: LiteralArrays, terms: NDArray[np.int32], place: Sequence[int]) -> Vector:
        """The share of each box: a row of literal numbers, padded with −1. `place` is where each column is held."""
        found = np.zeros(len(terms))
        named = literals.column[:-1]
        numbers = np.argsort(named, kind="stable")
        used = np.unique(named).tolist()
        inside = {c: self._indicator(literals, np.flatnonzero(named == c), place[c]) for c in used}
        row = np.full(len(named) + 1, len(named), dtype=np.int64)
        row[numbers] = np.arange(len(named))
        for part in self._runs(max(1, _MOST_ENTRIES // (len(named) + 1))):
            shares = [inside[c] @ self.sides[place[c]][part].T for c in used]
            every = np.concatenate([*shares, np.ones((1, len(self.weights[part])))])
            _add(self.weights[part], every, row[terms], found)
        return found

    def _indicator(self, literals: LiteralArrays, numbers: NDArray[np.int64], held: int) -> Vector:
        """For some literals on one column the share of every group that each of them holds."""
        how = self.coarse[held]
        found = np.zeros((len(numbers), self.sides[held].shape[1]))
        for row, number in zip(found, numbers.tolist()):
            start = int(literals.start[number])
            codes = literals.codes[start : start + int(literals.length[number])]
            if how is None:
                row[codes] = 1
            else:
                np.add.at(row, how.groups[codes], how.within[codes])
        return found

    def records(self, codes: Sequence[NDArray[np.integer[Any]]]) -> Vector:
        """The share of each record, given as codes of all columns, column by column."""
        terms = np.empty((len(codes[0]), len(self.sides)), dtype=np.int64)
        scale = np.ones(len(codes[0]))
        for column, (given, how, offset) in enumerate(zip(codes, self.coarse, self._offsets)):
            places = given.astype(np.int64)
            terms[:, column] = offset + (places if how is None else how.groups[places])
            if how is not None:
                scale *= how.within[places]
        return scale * self._sums(np.concatenate([side.T for side in self.sides]), terms)

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(side.shape[1] for side in self.sides)])

    def _sums(self, every: Vector, terms: NDArray[np.integer[Any]]) -> Vector:
        found = np.zeros(len(terms))
        _add(self.weights, np.ascontiguousarray(every), np.ascontiguousarray(terms, dtype=np.int64), found)
        return found

    def _runs(self, step: int) -> Iterator[slice]:
        """All components, in runs of this length."""
        return (slice(at, at + step) for at in range(0, len(self.weights), step))


def _balanced(widths: Sequence[int]) -> int:
    """Where to cut some columns in two so that the larger half has the fewest cells."""
    return min(range(len(widths) + 1), key=lambda cut: max(math.prod(widths[:cut]), math.prod(widths[cut:])))


def _products(sides: Sequence[Vector], part: slice, start: Vector) -> Vector:
    """For some components all products of one share of each column, row-major, times what each starts with."""
    made = start
    for side in sides:
        made = (made[:, :, None] * side[part][:, None, :]).reshape(len(made), -1)
    return made


def _of_code(side: Vector, how: CoarseColumn | None, code: int) -> Vector:
    """The conditional share of one code; a column that has no such code never takes it."""
    if how is None:
        return side[:, code] if code < side.shape[1] else np.zeros(len(side))
    return side[:, how.groups[code]] * how.within[code] if code < len(how.groups) else np.zeros(len(side))


def _add(weights: Vector, every: Vector, terms: NDArray[np.int64], found: Vector) -> None:
    """Add to each sum Σ_k w_k Π_t every[t, k] over the terms of its row; the numbers are the same in both ways."""
    if len(terms) > _FEW:
        _add_products(weights, every, terms, found)
        return
    for row, places in enumerate(terms.tolist()):
        product = weights.copy()
        for place in places:
            product *= every[place]
        found[row] += np.add.accumulate(product)[-1]  # in order, as the kernel does; np.sum adds in pairs


@compiled
def _add_products(weights: Any, every: Any, terms: Any, found: Any) -> None:
    """Add to each sum Σ_k w_k Π_t every[t, k] over the terms of its row."""
    product = np.empty(len(weights))
    for row in range(len(terms)):
        product[:] = weights
        for place in range(terms.shape[1]):
            factors = every[terms[row, place]]
            for k in range(len(weights)):
                product[k] *= factors[k]
        found[row] += product.sum()
