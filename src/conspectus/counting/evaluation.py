"""Answers from marginals: what a synopsis does with a workload."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.block import Block
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.dyadic_tree import DyadicTree
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import Parities, ParityList
from conspectus.queries.literals import LiteralArrays
from conspectus.queries.ordering import groups, row_keys
from conspectus.queries.query import VALUE_STEPS, Indices, Linear, Parity, Predicate, Query, Sparse, Weighting
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

MarginalSource = Callable[[tuple[int, ...]], NDArray[Any]]
"""Gives the marginal over a sorted tuple of column positions, in the shape of their sizes; () asks for the total."""

_MOST_ENTRIES = 1 << 22


def answers_from_marginals(workload: Workload, marginal: MarginalSource, *, dtype: Any = np.float64) -> NDArray[Any]:
    """The answer to every query, in the scale of the marginals; each marginal is asked for once."""
    answers = np.zeros(len(workload), dtype=dtype)
    pieces: dict[tuple[int, ...], list[Callable[[NDArray[Any]], None]]] = {}
    for block, start in zip(workload.blocks, workload.offsets):
        mine = answers[start : start + len(block)]
        if isinstance(block, LinearQueries):
            _fill_linear(block, marginal, mine)
        for columns, fill in _pieces(block, mine):
            pieces.setdefault(columns, []).append(fill)
    for columns, fills in pieces.items():
        table = np.asarray(marginal(columns)).reshape(workload.domain.shape(columns))
        for fill in fills:
            fill(table)
    return answers


def _pieces(block: Block, answers: NDArray[Any]) -> list[tuple[tuple[int, ...], Callable[[NDArray[Any]], None]]]:
    """What a block needs: sets of columns, each with what to do with its marginal."""
    if isinstance(block, Marginal):
        return [(tuple(sorted(block.columns)), lambda table: _fill_cells(block, table, answers))]
    if isinstance(block, Intervals):
        return [(block.columns, lambda table: _fill_intervals(block, table, answers))]
    if isinstance(block, DyadicTree):
        return [(block.columns, lambda table: _fill_tree(block, table, answers))]
    if isinstance(block, Parities | ParityList):
        return [
            (tuple(c for c in block.matrix[members[0]].tolist() if c >= 0), partial(_fill_parities, members, answers))
            for members in groups(row_keys(block.matrix, len(block.domain)))
        ]
    if isinstance(block, Conjunctions):
        arrays = LiteralArrays(block.literals)
        owner = np.repeat(np.arange(len(block)), np.diff(block.starts))
        return [
            (columns, partial(_fill_boxes, arrays, block.terms[boxes], owner[boxes], answers))
            for columns, boxes in block.column_groups()
        ]
    if isinstance(block, LinearQueries):
        return []  # weighted marginals: see `_fill_linear`
    raise TypeError(f"no way to answer a block of {type(block).__name__}")


def _fill_linear(block: LinearQueries, marginal: MarginalSource, answers: NDArray[Any]) -> None:
    """Linear queries from marginals: the sums of weights in each cell are a table, of which predicates sum cells."""
    once = cache(marginal)
    for weighting, places, given in block.by_weighting():
        weigh = partial(weighted_marginal, block.domain, weighting, once)
        answers[places] = answers_from_marginals(Workload(block.domain, (given,)), weigh)


def weighted_marginal(
    domain: Domain, weighting: Weighting, marginal: MarginalSource, columns: tuple[int, ...]
) -> NDArray[np.float64]:
    """The sums of weights in each cell of some columns, from the marginal of these and of what the weights read."""
    together = tuple(sorted({*columns, *weighting.columns}))
    table = np.asarray(marginal(together), dtype=np.float64).reshape(domain.shape(together))
    side = tuple(size if c in weighting.columns else 1 for c, size in zip(together, table.shape))
    weighed = table * (weighting.steps.reshape(side) / VALUE_STEPS)
    return np.asarray(weighed.sum(axis=tuple(place for place, c in enumerate(together) if c not in columns)))


def _fill_cells(block: Marginal, table: NDArray[Any], answers: NDArray[Any]) -> None:
    order = [sorted(block.columns).index(column) for column in block.columns]
    answers[:] = table.transpose(order).ravel()


def _fill_intervals(block: Intervals, table: NDArray[Any], answers: NDArray[Any]) -> None:
    ends = np.append(0, np.cumsum(table[: block.regular], dtype=answers.dtype))
    low, high = block.bounds
    answers[:] = ends[high + 1] - ends[low]


def _fill_tree(block: DyadicTree, table: NDArray[Any], answers: NDArray[Any]) -> None:
    order = [block.columns.index(column) for column in (*block.by, block.column)]
    answers[:] = block.sums(table.transpose(order).reshape(block.groups, block.leaves)).ravel()


def _fill_parities(members: Indices, answers: NDArray[Any], table: NDArray[Any]) -> None:
    answers[members] = table.ravel()[even_cells(table.ndim)].sum()


def even_cells(columns: int) -> NDArray[np.bool_]:
    """Which cells of a table over two-valued columns have an even number of second values."""
    even = np.ones(1, dtype=bool)
    for _ in range(columns):
        even = np.concatenate([even, ~even])
    return even


def _fill_boxes(
    arrays: LiteralArrays, terms: NDArray[np.int32], owner: Indices, answers: NDArray[Any], table: NDArray[Any]
) -> None:
    np.add.at(answers, owner, _box_sums(arrays, terms[:, : table.ndim], table))


def _box_sums(arrays: LiteralArrays, terms: NDArray[np.int32], table: NDArray[Any]) -> NDArray[Any]:
    """The sum of a table over each box; literal j of every box is on axis j."""
    if (arrays.length[terms] == 1).all():
        cell = tuple(arrays.codes[arrays.start[terms[:, axis]]] for axis in range(table.ndim))
        return table[cell] if table.ndim else np.full(len(terms), table[()])
    chosen = [np.unique(terms[:, axis], return_inverse=True) for axis in range(table.ndim)]
    if math.prod(len(numbers) for numbers, _ in chosen) <= max(_MOST_ENTRIES, 4 * len(terms)):
        # Few different literals on each axis: sum for all combinations of them, then look up.
        sums = table
        for axis, (numbers, _) in enumerate(chosen):
            side = arrays.indicator(numbers, table.shape[axis]).astype(table.dtype)
            sums = np.tensordot(sums, side, axes=(0, 1))
        return np.asarray(sums[tuple(inverse.reshape(-1) for _, inverse in chosen)])
    step = max(1, _MOST_ENTRIES // max(1, table.size))
    batches = (terms[at : at + step] for at in range(0, len(terms), step))
    return np.concatenate([_one_by_one(arrays, part, table) for part in batches])


def _one_by_one(arrays: LiteralArrays, terms: NDArray[np.int32], table: NDArray[Any]) -> NDArray[Any]:
    first = arrays.indicator(terms[:, 0], table.shape[0]).astype(table.dtype)
    sums = first @ table.reshape(table.shape[0], -1)
    for axis in range(1, table.ndim):
        side = arrays.indicator(terms[:, axis], table.shape[axis]).astype(table.dtype)
        sums = (sums.reshape(len(terms), table.shape[axis], -1) * side[:, :, None]).sum(axis=1)
    return np.asarray(sums.reshape(len(terms)))


def indicator(query: Query, domain: Domain) -> tuple[tuple[int, ...], NDArray[np.uint8]]:
    """The columns that a counting query reads, sorted, and whether it is true on each cell of their marginal."""
    if isinstance(query, Parity):
        return query.columns, even_cells(len(query.columns)).astype(np.uint8).reshape((2,) * len(query.columns))
    if isinstance(query, Sparse):
        raise WorkloadError("a sparse query lists records and has no table of cells: release it with sparse-project")
    if not isinstance(query, Predicate):
        raise TypeError("a function of the table has no value on a record")
    columns = query.columns
    inside = np.zeros(domain.shape(columns), dtype=np.uint8)
    for box in query.boxes:
        sides = {literal.column: np.array(literal.codes) for literal in box}
        inside[np.ix_(*(sides.get(c, np.arange(domain.sizes[c])) for c in columns))] = 1
    return columns, inside


def cell_values(query: Query, domain: Domain) -> tuple[tuple[int, ...], NDArray[np.float64]]:
    """The columns that a query reads, sorted, and its value in [0, 1] on each cell of their marginal."""
    if not isinstance(query, Linear):
        columns, inside = indicator(query, domain)
        return columns, inside.astype(np.float64)
    held, inside = indicator(query.given, domain)
    columns, weighting = query.columns, query.weighting
    shape = domain.shape(columns)
    there = inside.reshape(tuple(size if c in held else 1 for c, size in zip(columns, shape)))
    weights = weighting.steps.reshape(tuple(size if c in weighting.columns else 1 for c, size in zip(columns, shape)))
    return columns, np.broadcast_to(there * (weights / VALUE_STEPS), shape)


def values_on(query: Query, domain: Domain, columns: Sequence[int]) -> NDArray[np.float64]:
    """The value of a query on each cell of some columns, its own among them, row-major in the order given."""
    held, values = cell_values(query, domain)
    order = sorted(columns)
    side = values.reshape(tuple(size if c in held else 1 for c, size in zip(order, domain.shape(order))))
    table = np.broadcast_to(side, domain.shape(order))
    return np.ascontiguousarray(table.transpose([order.index(c) for c in columns])).ravel()
