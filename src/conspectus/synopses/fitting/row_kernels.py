"""The inner loop of fitting synthetic rows to answers: change one code of one row, keep the change if it helps.

Every function keeps the numbers of rows by class that it is computed from, so that a change costs only what the
functions that read its column make of two entries. Lists that belong to an item run from its own start to the next's.
`questions` are the arrays of all functions, as `RowFitter` has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conspectus.compiled import compiled
from conspectus.counting.statistic_kernels import value_of


@compiled
def place_of(
    rows: Any, row: int, f: int, boxes_at: Any, literals_at: Any, columns: Any, inside_at: Any, inside: Any
) -> int:
    """How many of the function's boxes the row lies in."""
    found = 0
    for box in range(boxes_at[f], boxes_at[f + 1]):
        good = 1
        for literal in range(literals_at[box], literals_at[box + 1]):
            if inside[inside_at[literal] + rows[row, columns[literal]]] == 0:
                good = 0
                break
        found += good
    return found


@compiled
def cell_of(rows: Any, row: int, f: int, over: Any, class_at: Any, classes: Any, second: int) -> int:
    """The class of the row among those of the function, or −1."""
    if over[f, 0] < 0:
        return 0
    a = classes[class_at[f, 0] + rows[row, over[f, 0]]]
    if a < 0 or over[f, 1] < 0:
        return int(a)
    b = classes[class_at[f, 1] + rows[row, over[f, 1]]]
    return int(a * second + b) if b >= 0 else -1


@compiled
def leaning(held: Any, at: int) -> int:
    """What the first cell of a table of two by two has beyond independence, times the number of rows."""
    a, b, c, d = held[at], held[at + 1], held[at + 2], held[at + 3]
    return int(a * d - b * c)


@compiled
def beyond(distance: float, slack: float) -> float:
    """The square of what a distance is beyond its slack."""
    left = abs(distance) - slack
    return left * left if left > 0 else 0.0


@compiled
def fill(rows: Any, questions: Any, held: Any, values: Any) -> None:
    """The numbers of rows by class and the values of all functions, from scratch."""
    boxes_at, literals_at, columns, inside_at, inside, over, class_at, classes = questions[:8]
    kinds, shapes, number_at, numbers, wholes, steps, held_at = questions[8:]
    held[:] = 0
    for f in range(len(kinds)):
        for row in range(len(rows)):
            weight = place_of(rows, row, f, boxes_at, literals_at, columns, inside_at, inside)
            cell = cell_of(rows, row, f, over, class_at, classes, shapes[f, 1])
            if weight > 0 and cell >= 0:
                held[held_at[f] + cell] += weight
        values[f] = value_of(
            kinds[f], held, held_at[f], shapes[f, 0], shapes[f, 1], numbers, number_at[f], wholes[f], steps
        )


@compiled
def improve(
    rows: Any,
    which: Any,
    where: Any,
    what: Any,
    luck: Any,
    directions: Any,
    by_column: Any,
    questions: Any,
    held: Any,
    values: Any,
    wanted: Any,
    weights: Any,
    slack: Any,
    codes_at: Any,
    code_counts: Any,
    code_wanted: Any,
    code_weights: Any,
    code_slack: Any,
) -> int:
    """Try to set row `which[p]`, column `where[p]` to the code `what[p]`, one p after the other; how many were kept.

    The loss is the weighted sum of squared distances from what is wanted, of functions and of codes column by column;
    a distance counts from its slack on. What is wanted is noisy: to come nearer than the noise would be to learn it.
    A distance from independence that has a direction counts as negative on the other side.
    A change is kept if the loss grows by less than `luck[p]`, which is 0 but for a search that is to leave its valley.
    """
    readers_at, readers, signs_at, signs = by_column
    boxes_at, literals_at, columns, inside_at, inside, over, class_at, classes = questions[:8]
    kinds, shapes, number_at, numbers, wholes, steps, held_at = questions[8:]
    kept = 0
    most = 1
    for c in range(len(readers_at) - 1):
        most = max(most, readers_at[c + 1] - readers_at[c])
    touched = np.empty(most, dtype=np.int64)
    trace = np.empty((most, 4), dtype=np.int64)
    fresh = np.empty(most, dtype=np.int64)
    for p in range(len(which)):
        i, c, b = which[p], where[p], what[p]
        a = rows[i, c]
        if a == b:
            continue
        here = codes_at[c]
        old, new = code_counts[here + a] - code_wanted[here + a], code_counts[here + b] - code_wanted[here + b]
        change = code_weights[here + a] * (beyond(old - 1, code_slack[here + a]) - beyond(old, code_slack[here + a]))
        change += code_weights[here + b] * (beyond(new + 1, code_slack[here + b]) - beyond(new, code_slack[here + b]))
        count = 0
        for reader in range(readers_at[c], readers_at[c + 1]):
            if signs[signs_at[reader] + a] == signs[signs_at[reader] + b]:
                continue
            f = readers[reader]
            second = shapes[f, 1]
            weight = place_of(rows, i, f, boxes_at, literals_at, columns, inside_at, inside)
            cell = cell_of(rows, i, f, over, class_at, classes, second)
            rows[i, c] = b
            weight_now = place_of(rows, i, f, boxes_at, literals_at, columns, inside_at, inside)
            cell_now = cell_of(rows, i, f, over, class_at, classes, second)
            rows[i, c] = a
            if cell < 0:
                weight = 0
            if cell_now < 0:
                weight_now = 0
            if weight == weight_now and (weight == 0 or cell == cell_now):
                continue
            if weight > 0:
                held[held_at[f] + cell] -= weight
            if weight_now > 0:
                held[held_at[f] + cell_now] += weight_now
            value = value_of(kinds[f], held, held_at[f], shapes[f, 0], second, numbers, number_at[f], wholes[f], steps)
            if directions[f] != 0 and directions[f] * leaning(held, held_at[f]) < 0:
                value = -value
            change += weights[f] * (beyond(value - wanted[f], slack[f]) - beyond(values[f] - wanted[f], slack[f]))
            touched[count], fresh[count] = f, value
            trace[count, 0], trace[count, 1] = weight, cell
            trace[count, 2], trace[count, 3] = weight_now, cell_now
            count += 1
        if change < luck[p]:
            kept += 1
            rows[i, c] = b
            code_counts[here + a] -= 1
            code_counts[here + b] += 1
            for k in range(count):
                values[touched[k]] = fresh[k]
        else:
            for k in range(count):
                at = held_at[touched[k]]
                if trace[k, 0] > 0:
                    held[at + trace[k, 1]] += trace[k, 0]
                if trace[k, 2] > 0:
                    held[at + trace[k, 3]] -= trace[k, 2]
    return kept
