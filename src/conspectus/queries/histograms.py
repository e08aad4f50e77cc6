"""Dense histograms: many marginals at once by a shared tree of partial sums, and factors spread back over the cells.

A histogram has one entry for each cell of its domain, in row-major order; any shape with that many entries will do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .kernels import multiply_cells, sum_out

Vector = NDArray[np.float64]
Columns = tuple[int, ...]


class _Sums:
    """The order of work for some marginals: steps (from, to, outer, size, inner), each summing one axis away.

    Columns are decided from the first to the last. Sets without the column go on with a table that has it summed out,
    sets with it go on with the table as it is, so that every partial sum is made once.
    """

    def __init__(self, sizes: Columns, sets: tuple[Columns, ...]) -> None:
        self.places: dict[Columns, int] = {}
        length = 0
        for columns in sets:
            if columns not in self.places:
                self.places[columns] = length
                length += math.prod(sizes[c] for c in columns)
        self.outputs = length
        self.length = length
        self._sizes = sizes
        self._steps: list[tuple[int, int, int, int, int]] = []
        self._divide(-1, 0, 1, list(self.places), length)
        self.steps = np.array(self._steps, dtype=np.int64).reshape(-1, 5)

    def _divide(self, table: int, column: int, outer: int, sets: list[Columns], free: int) -> None:
        """`table` holds `outer` cells of decided columns, times all cells of the columns from `column` on."""
        sizes = self._sizes
        while column < len(sizes):
            inner = math.prod(sizes[column + 1 :])
            without = [columns for columns in sets if column not in columns]
            if len(without) == len(sets):
                end = column + 1
                while end < len(sizes) and not any(end in columns for columns in sets):
                    end += 1
                last = end == len(sizes) and len(sets) == 1
                size, inner = math.prod(sizes[column:end]), math.prod(sizes[end:])
                target = self.places[sets[0]] if last else free
                self._step(table, target, outer, size, inner)
                if last:
                    return
                table, column, free = free, end, free + outer * inner
                continue
            if without:
                self._divide(table, column, outer, without, free)
                sets = [columns for columns in sets if column in columns]
            outer, column = outer * sizes[column], column + 1
        for columns in sets:
            self._step(table, self.places[columns], 1, 1, outer)

    def _step(self, table: int, target: int, outer: int, size: int, inner: int) -> None:
        self._steps.append((table, target, outer, size, inner))
        self.length = max(self.length, target + outer * inner)


@lru_cache(maxsize=256)
def _sums(sizes: Columns, sets: tuple[Columns, ...]) -> _Sums:
    return _Sums(sizes, sets)


def marginals_of_histogram(histogram: Vector, column_sets: Sequence[Columns]) -> list[Vector]:
    """The marginals of a histogram (in the shape of its domain) over sorted sets of columns, in their order."""
    return _marginals(histogram, histogram.shape, column_sets)


def marginal_of(histogram: Vector, sizes: Columns, columns: Columns) -> Vector:
    """One marginal of a histogram, over a sorted set of columns, in the shape of their sizes."""
    return _marginals(histogram, sizes, [columns])[0]


def _marginals(histogram: Vector, sizes: Columns, column_sets: Sequence[Columns]) -> list[Vector]:
    sets = tuple(map(tuple, column_sets))
    plan = _sums(tuple(sizes), sets)
    work = np.empty(plan.length, dtype=np.float64)
    sum_out(np.ascontiguousarray(histogram, dtype=np.float64).reshape(-1), work, plan.steps)
    kept = work[: plan.outputs].copy()
    found = []
    for columns in sets:
        shape = tuple(sizes[c] for c in columns)
        start = plan.places[columns]
        found.append(kept[start : start + math.prod(shape)].reshape(shape))
    return found


@lru_cache(maxsize=4096)
def _cells(sizes: Columns, columns: Columns) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The marginal cell of a record as the sum of a number for its leading codes and one for its trailing codes."""
    stride, strides = 1, [0] * len(sizes)
    for column in reversed(columns):
        strides[column] = stride
        stride *= sizes[column]
    total = math.prod(sizes)
    split = min(range(len(sizes) + 1), key=lambda at: math.prod(sizes[:at]) + total // max(1, math.prod(sizes[:at])))
    return _numbers(sizes[:split], strides[:split]), _numbers(sizes[split:], strides[split:])


def _numbers(sizes: Sequence[int], strides: Sequence[int]) -> NDArray[np.int64]:
    numbers = np.zeros(1, dtype=np.int64)
    for size, stride in zip(sizes, strides):
        numbers = (numbers[:, None] + stride * np.arange(size)).reshape(-1)
    return numbers


def multiply_marginal(histogram: Vector, columns: Columns, factors: Vector, *, sizes: Columns | None = None) -> None:
    """Multiply every cell of a contiguous histogram, in place, by the factor of its marginal cell (sorted `columns`).

    `sizes` are those of the domain, the shape of the histogram by default.
    """
    if not histogram.flags.c_contiguous or histogram.dtype != np.float64:
        raise ValueError("a histogram that is changed in place must be a contiguous array of doubles")
    shape = tuple(histogram.shape if sizes is None else sizes)
    leading, trailing = _cells(shape, tuple(columns))
    flat = np.ascontiguousarray(factors, dtype=np.float64).reshape(-1)
    if len(flat) != math.prod(shape[c] for c in columns) or histogram.size != math.prod(shape):
        raise ValueError("there must be one factor for each cell of the marginal, and one entry for each of the domain")
    multiply_cells(histogram.reshape(-1), leading, trailing, flat)


def spread(sizes: Columns, columns: Columns, factors: Vector) -> Vector:
    """The adjoint of a marginal: a histogram whose cells hold the factor of their marginal cell."""
    shape = tuple(size if column in columns else 1 for column, size in enumerate(sizes))
    return np.array(np.broadcast_to(np.asarray(factors, dtype=np.float64).reshape(shape), tuple(sizes)))
