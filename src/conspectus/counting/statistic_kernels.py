"""The loops behind functions of a table: rows by condition and code, and values from numbers of rows by class.

All arithmetic is on 64-bit integers and exact for tables of up to 2³¹ rows. The kinds are numbered as in `KINDS`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conspectus.compiled import compiled

MODE, MEAN, QUANTILE, BALANCE, REFERENCE, INDEPENDENCE, SATISFIED, COUNT = range(8)
"""The kinds of `statistic.KINDS`, and plain counts, which rows are fitted to as well."""


@compiled
def in_steps(number: Any, whole: Any, steps: int) -> int:
    """number·steps/whole to the nearest integer: in two parts, so that the product with the steps cannot overflow."""
    return int(number // whole * steps + (2 * (number % whole) * steps + whole) // (2 * whole))


@compiled
def value_of(
    kind: int, held: Any, at: int, first: int, second: int, numbers: Any, start: int, whole: int, steps: int
) -> int:
    """The value in steps of the numbers of rows `held[at:]`, a table of `first` by `second` classes.

    What is weighted is divided by `whole`, a row's worth of weight.
    """
    cells = first * second
    if kind == COUNT:
        return int(held[at] * steps)
    if kind == SATISFIED:
        return in_steps(held[at], whole, steps)
    if kind == MODE:
        most = np.int64(0)
        for j in range(cells):
            most = max(most, held[at + j])
        return int(most * steps)
    if kind == BALANCE:
        return int(min(held[at], held[at + 1]) * steps) if cells == 2 else 0
    if kind == MEAN:
        total = np.int64(0)
        for j in range(cells):
            total += held[at + j] * numbers[start + j]
        return in_steps(total, whole, steps)
    rows = np.int64(0)
    for j in range(cells):
        rows += held[at + j]
    if kind == QUANTILE:
        left = rows * numbers[start] // numbers[start + 1]
        total = np.int64(0)
        for j in range(cells):
            taken = min(left, held[at + j])
            total += taken * numbers[start + 2 + j]
            left -= taken
        return in_steps(total, whole, steps)
    if kind == REFERENCE:
        so_far = np.int64(0)
        largest = np.int64(0)
        for j in range(cells):
            so_far += held[at + j]
            largest = max(largest, abs(so_far * whole - rows * numbers[start + j]))
        return in_steps(largest, whole, steps)
    if rows == 0:
        return 0
    off = np.int64(0)
    for i in range(first):
        here = np.int64(0)
        for j in range(second):
            here += held[at + i * second + j]
        for j in range(second):
            below = np.int64(0)
            for k in range(first):
                below += held[at + k * second + j]
            off += abs(rows * held[at + i * second + j] - here * below)
    return in_steps(off, 4 * rows, steps)


@compiled
def tabulate_given(
    codes: Any,
    count: int,
    groups: Any,
    group_boxes: Any,
    box_literals: Any,
    literal_column: Any,
    literal_at: Any,
    inside: Any,
    group_tables: Any,
    table_columns: Any,
    table_at: Any,
    sizes: Any,
    held: Any,
) -> None:
    """Add the rows of each group to its tables: one entry for each code, or pair of codes, of the table's columns.

    A row counts once for each of the group's boxes that it lies in. `inside[literal_at[l] + code]` says whether literal
    l holds on a code; every other pair of arrays lists what belongs to an item from its own start up to the next's.
    """
    weight = np.empty(count, dtype=np.int64)
    places = np.empty(count, dtype=np.int64)
    for group in groups:
        weight[:] = 0
        for box in range(group_boxes[group], group_boxes[group + 1]):
            for row in range(count):
                good = 1
                for literal in range(box_literals[box], box_literals[box + 1]):
                    if inside[literal_at[literal] + codes[literal_column[literal], row]] == 0:
                        good = 0
                        break
                weight[row] += good
        filled = 0
        for row in range(count):
            if weight[row] > 0:
                places[filled] = row
                filled += 1
        for table in range(group_tables[group], group_tables[group + 1]):
            at, a, b = table_at[table], table_columns[table, 0], table_columns[table, 1]
            if a < 0:
                for place in range(filled):
                    held[at] += weight[places[place]]
            elif b < 0:
                for place in range(filled):
                    held[at + codes[a, places[place]]] += 1
            else:
                width = sizes[b]
                for place in range(filled):
                    row = places[place]
                    held[at + codes[a, row] * width + codes[b, row]] += 1


@compiled
def values(
    held: Any,
    table_of: Any,
    table_at: Any,
    kinds: Any,
    shapes: Any,
    code_sizes: Any,
    class_at: Any,
    classes: Any,
    number_at: Any,
    numbers: Any,
    wholes: Any,
    steps: int,
    found: Any,
) -> None:
    """The value of every function: its table's codes are folded into classes, and the value is taken of those."""
    widest = 1
    for f in range(len(kinds)):
        widest = max(widest, shapes[f, 0] * shapes[f, 1])
    folded = np.zeros(widest, dtype=np.int64)
    for f in range(len(kinds)):
        first, second = shapes[f, 0], shapes[f, 1]
        folded[: first * second] = 0
        at = table_at[table_of[f]]
        for i in range(code_sizes[f, 0]):
            a = classes[class_at[f, 0] + i] if class_at[f, 0] >= 0 else 0
            if a < 0:
                continue
            for j in range(code_sizes[f, 1]):
                b = classes[class_at[f, 1] + j] if class_at[f, 1] >= 0 else 0
                if b >= 0:
                    folded[a * second + b] += held[at + i * code_sizes[f, 1] + j]
        found[f] = value_of(kinds[f], folded, 0, first, second, numbers, number_at[f], wholes[f], steps)
