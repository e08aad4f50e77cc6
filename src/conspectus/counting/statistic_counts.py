"""Functions of a table, counted while its rows stream by: what they share is tabulated once."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import processors
from conspectus.data.domain import Chunk, CodedRows, Domain, code_dtype, fitting
from conspectus.data.fold import Vectors
from conspectus.queries.block import check_length
from conspectus.queries.blocks.statistic import KINDS, STATISTIC_STEPS, Statistic, Statistics
from conspectus.queries.ordering import starts_of
from conspectus.queries.query import Box, Literal

from .block_counter import BlockCounter
from .statistic_kernels import tabulate_given, values

Integers = NDArray[np.int64]

_LITTLE = 1 << 18
"""Work that is done before threads would have started."""


class Conditions:
    """Boxes as flat arrays: the literals of each box, and for each literal on which codes it holds."""

    def __init__(self, domain: Domain, boxes: Sequence[Box], place: dict[int, int]) -> None:
        number: dict[Literal, int] = {}
        listed = [number.setdefault(literal, len(number)) for box in boxes for literal in box]
        tables = [np.zeros(domain.sizes[literal.column], dtype=np.uint8) for literal in number]
        for literal, table in zip(number, tables):
            table[list(literal.codes)] = 1
        starts = starts_of([len(table) for table in tables])
        self.box_literals = starts_of([len(box) for box in boxes])
        self.literal_column = np.array([place[a.column] for box in boxes for a in box], dtype=np.int64)
        self.literal_at = starts[np.array(listed, dtype=np.int64)]
        self.inside = np.concatenate([*tables, np.zeros(1, dtype=np.uint8)])


class Classes:
    """What each function makes of the codes of its columns: kinds, shapes, classes and numbers as flat arrays."""

    def __init__(self, functions: Sequence[Statistic]) -> None:
        self.kinds = np.array([KINDS.index(f.kind) for f in functions], dtype=np.int64)
        self.shapes = np.array([padded(f.shape) for f in functions], dtype=np.int64).reshape(-1, 2)
        sizes = [padded(tuple(map(len, f.classes))) for f in functions]
        self.code_sizes = np.array(sizes, dtype=np.int64).reshape(-1, 2)
        at: dict[tuple[int, ...], int] = {}
        flat: list[int] = []
        self.class_at = np.full((len(functions), 2), -1, dtype=np.int64)
        for number, function in enumerate(functions):
            for side, classes in enumerate(function.classes):
                if classes not in at:
                    at[classes] = len(flat)
                    flat += classes
                self.class_at[number, side] = at[classes]
        self.classes = np.array(flat or [0], dtype=np.int64)
        self.number_at = starts_of([len(f.numbers) for f in functions])
        self.numbers = np.array([number for f in functions for number in f.numbers] or [0], dtype=np.int64)
        self.wholes = np.array([f.divisor for f in functions], dtype=np.int64)


class Layout:
    """What a list of functions needs: the tables of codes for each condition, and how values are read from them."""

    def __init__(self, domain: Domain, functions: Sequence[Statistic]) -> None:
        self.columns = tuple(sorted({column for function in set(functions) for column in function.columns}))
        place = {column: number for number, column in enumerate(self.columns)}
        self.classes = Classes(functions)
        by_group: dict[tuple[Box, ...], dict[tuple[int, ...], int]] = {}
        for function in functions:
            by_group.setdefault(function.given, {}).setdefault(function.over, 0)
        self.conditions = Conditions(domain, [box for given in by_group for box in given], place)
        self.group_boxes = starts_of([len(given) for given in by_group])
        self.group_tables = starts_of([len(tables) for tables in by_group.values()])
        columns: list[tuple[int, int]] = []
        cells: list[int] = []
        for tables in by_group.values():
            for over in tables:
                tables[over] = len(columns)
                columns.append(padded(tuple(place[c] for c in over), -1))
                cells.append(math.prod(domain.shape(over)))
        check_length(sum(cells), "the tables behind these functions")
        self.groups = len(by_group)
        self.table_columns = np.array(columns, dtype=np.int64).reshape(-1, 2)
        self.table_at = starts_of(cells)
        self.table_of = np.array([by_group[f.given][f.over] for f in functions], dtype=np.int64)
        self.sizes = np.array(domain.shape(self.columns), dtype=np.int64)


def layout_of(block: Statistics) -> Layout:
    """The layout of a block, made once for each block that is alive: a search asks the same functions again and again.

    Found by identity, since to hash thousands of functions would take as long as laying them out.
    """
    held = _LAYOUTS.get(id(block))
    if held is not None and held[0]() is block:
        return held[1]
    layout = Layout(block.domain, block.functions)
    number = id(block)
    _LAYOUTS[number] = weakref.ref(block, lambda _: _LAYOUTS.pop(number, None)), layout
    return layout


_LAYOUTS: dict[int, tuple[weakref.ref[Statistics], Layout]] = {}


class StatisticCounts(BlockCounter):
    """The tables of a layout, filled while rows stream by, and the values of its functions.

    What adds up are the numbers of rows by condition and code, as values do not.
    """

    def __init__(self, layout: Layout, *, threads: int | None = None) -> None:
        self._layout = layout
        self.held = np.zeros(int(layout.table_at[-1]), dtype=np.int64)
        self._threads = threads or processors()
        self._parts = np.array_split(np.arange(layout.groups), max(1, min(4 * self._threads, layout.groups)))

    def add(self, chunk: CodedRows) -> None:
        """Take in some rows."""
        layout = self._layout
        codes = np.zeros((len(layout.columns), chunk.rows), dtype=code_dtype(int(layout.sizes.max(initial=1))))
        for number, column in enumerate(layout.columns):
            codes[number] = fitting(chunk.column(column), int(layout.sizes[number]), chunk.rows)
        if chunk.rows * len(layout.table_columns) < _LITTLE:
            for part in self._parts:
                self._tabulate(codes, chunk.rows, part)
            return
        with ThreadPoolExecutor(self._threads) as pool:
            # Each part has tables of its own, so threads never write to the same place.
            for done in [pool.submit(self._tabulate, codes, chunk.rows, part) for part in self._parts]:
                done.result()

    def _tabulate(self, codes: NDArray[np.unsignedinteger[Any]], rows: int, groups: Integers) -> None:
        layout, known = self._layout, self._layout.conditions
        tabulate_given(
            codes,
            rows,
            groups,
            layout.group_boxes,
            known.box_literals,
            known.literal_column,
            known.literal_at,
            known.inside,
            layout.group_tables,
            layout.table_columns,
            layout.table_at,
            layout.sizes,
            self.held,
        )

    def of_parts(self, parts: Vectors, rows: int) -> Integers:
        """The values of all functions, in steps, from tables that were added up."""
        layout, sorts = self._layout, self._layout.classes
        found = np.zeros(len(sorts.kinds), dtype=np.int64)
        values(
            parts[0],
            layout.table_of,
            layout.table_at,
            sorts.kinds,
            sorts.shapes,
            sorts.code_sizes,
            sorts.class_at,
            sorts.classes,
            sorts.number_at,
            sorts.numbers,
            sorts.wholes,
            STATISTIC_STEPS,
            found,
        )
        return found


def values_on_tables(domain: Domain, function: Statistic, tables: Integers) -> Integers:
    """The value of one function, in steps, on each of many tables that are given by the counts of their cells.

    What a function is computed from adds up over rows: it is found for one row in each cell, and summed.
    """
    layout = Layout(domain, (function,))
    codes = np.unravel_index(np.arange(domain.cells), domain.sizes)
    single = np.zeros((domain.cells, int(layout.table_at[-1])), dtype=np.int64)
    for cell in range(domain.cells):
        row = {c: codes[c][cell : cell + 1].astype(code_dtype(domain.sizes[c])) for c in layout.columns}
        counted = StatisticCounts(layout, threads=1)
        counted.add(Chunk.of(len(domain), row, 1))
        single[cell] = counted.parts()[0]
    many, sorts = len(tables), layout.classes
    held = np.ascontiguousarray(tables @ single)
    found = np.zeros(many, dtype=np.int64)
    values(
        held.ravel(),
        np.arange(many, dtype=np.int64),
        np.arange(many + 1, dtype=np.int64) * held.shape[1],
        np.repeat(sorts.kinds, many),
        np.repeat(sorts.shapes, many, axis=0),
        np.repeat(sorts.code_sizes, many, axis=0),
        np.repeat(sorts.class_at, many, axis=0),
        sorts.classes,
        np.arange(many + 1, dtype=np.int64) * len(function.numbers),
        np.tile(sorts.numbers[: len(function.numbers)], many) if function.numbers else sorts.numbers,
        np.repeat(sorts.wholes, many),
        STATISTIC_STEPS,
        found,
    )
    return found


def padded(pair: tuple[int, ...], rest: int = 1) -> tuple[int, int]:
    """A pair of numbers, with `rest` for what is not there."""
    first, second = (*pair, rest, rest)[:2]
    return first, second
