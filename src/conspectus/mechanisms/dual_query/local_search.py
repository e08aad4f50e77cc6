"""A local search for the row that is worth most, over categorical columns: the loops behind `oracles`.

A move gives one column its best value, all others fixed. Where no such move helps, the search tries boxes that do not
hold and are worth something: it sets all columns of one at once. It ends where neither helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled

from .clauses import Clauses


@dataclass(frozen=True, eq=False)
class Incidence:
    """Which clauses read which columns. Columns and clauses are numbered within; parities follow the boxes.

    Occurrences stand by column. `code` is the code that a literal asks for, −1 − w for the w-th literal with several
    codes; for a parity it is not read.
    """

    columns: NDArray[np.int64]
    sizes: NDArray[np.int64]
    first: NDArray[np.int64]
    clause: NDArray[np.int64]
    code: NDArray[np.int64]
    begin: NDArray[np.int64]
    column: NDArray[np.int64]
    asked: NDArray[np.int64]
    boxes: int
    start: NDArray[np.int64]
    inside: NDArray[np.uint8]

    @classmethod
    def of(cls, clauses: Clauses) -> Incidence:
        numbers = clauses.literals
        box, place = np.nonzero(clauses.boxes >= 0)
        literal = clauses.boxes[box, place].astype(np.int64)
        read = numbers.column_of(literal)
        single = int(numbers.first[-1])
        code = np.where(literal < single, literal - numbers.first[read], -1 - (literal - single))
        parity, place = np.nonzero(clauses.parities >= 0)
        owner = np.concatenate([box, len(clauses.boxes) + parity]).astype(np.int64)
        read = np.concatenate([read, clauses.parities[parity, place].astype(np.int64)])
        code = np.concatenate([code, np.zeros(len(parity), dtype=np.int64)])
        columns, column = np.unique(read, return_inverse=True)
        column = column.reshape(-1).astype(np.int64)
        by_column = np.argsort(column, kind="stable")
        clauses_in_all = len(clauses.boxes) + len(clauses.parities)
        return cls(
            columns=columns,
            sizes=numbers.sizes[columns],
            first=np.searchsorted(column[by_column], np.arange(len(columns) + 1)),
            clause=owner[by_column],
            code=code[by_column],
            begin=np.searchsorted(owner, np.arange(clauses_in_all + 1)),
            column=column,
            asked=code,
            boxes=len(clauses.boxes),
            start=numbers.start,
            inside=numbers.inside,
        )


def climb(
    incidence: Incidence, values: NDArray[np.int64], rows: NDArray[np.int64], orders: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Improve each row (codes of the incidence's columns) in place, for its own values; what each is worth at last.

    `values` has one line for each row, over boxes and parities; `orders` the order in which columns are tried.
    """
    i = incidence
    found = np.zeros(len(rows), dtype=np.int64)
    widest = int(i.sizes.max(initial=1))
    _climb(
        i.sizes, i.first, i.clause, i.code, i.begin, i.column, i.asked, i.boxes, i.start, i.inside, widest,
        values, rows, orders, found,
    )  # fmt: skip
    return found


@compiled
def _has(code: Any, value: Any, start: Any, inside: Any) -> Any:
    """Whether a literal with this code (or set of codes) holds at a value."""
    if code >= 0:
        return code == value
    return inside[start[-1 - code] + value] != 0


@compiled
def _set(
    column: Any, value: Any, row: Any, first: Any, clause: Any, code: Any, boxes: Any, start: Any, inside: Any,
    worth: Any, lacking: Any,
) -> Any:  # fmt: skip
    """Give a column a value, keep the books, and return what was gained."""
    gained = np.int64(0)
    old = row[column]
    if old == value:
        return gained
    for at in range(first[column], first[column + 1]):
        member = clause[at]
        if member >= boxes:
            # `lacking` is 1 for a parity that is odd; two-valued columns flip it.
            gained += worth[member] if lacking[member] else -worth[member]
            lacking[member] ^= 1
            continue
        held, holds = _has(code[at], old, start, inside), _has(code[at], value, start, inside)
        if held and not holds:
            if lacking[member] == 0:
                gained -= worth[member]
            lacking[member] += 1
        elif holds and not held:
            lacking[member] -= 1
            if lacking[member] == 0:
                gained += worth[member]
    row[column] = value
    return gained


@compiled
def _best_value(
    column: Any, size: Any, row: Any, first: Any, clause: Any, code: Any, boxes: Any, start: Any, inside: Any,
    worth: Any, lacking: Any, gain: Any,
) -> Any:  # fmt: skip
    """The value of a column that is worth most with all others fixed; the present one where none is better."""
    gain[:size] = 0
    now = row[column]
    for at in range(first[column], first[column + 1]):
        member = clause[at]
        amount = worth[member]
        if amount == 0:
            continue
        if member >= boxes:
            even_at = 1 - now if lacking[member] else now
            gain[even_at] += amount
            continue
        wanted = code[at]
        others = lacking[member] - (0 if _has(wanted, now, start, inside) else 1)
        if others:
            continue
        if wanted >= 0:
            gain[wanted] += amount
        else:
            base = start[-1 - wanted]
            for value in range(size):
                if inside[base + value]:
                    gain[value] += amount
    best = now
    for value in range(size):
        if gain[value] > gain[best]:
            best = value
    return best


@compiled
def _climb(
    sizes: Any, first: Any, clause: Any, code: Any, begin: Any, column: Any, asked: Any, boxes: Any, start: Any,
    inside: Any, widest: Any, values: Any, rows: Any, orders: Any, found: Any,
) -> None:  # fmt: skip
    clauses = len(begin) - 1
    lacking = np.empty(clauses, dtype=np.int64)
    gain = np.empty(widest, dtype=np.int64)
    for number in range(len(rows)):
        row, worth, order = rows[number], values[number], orders[number]
        total = np.int64(0)
        for member in range(clauses):
            missing = 0
            for at in range(begin[member], begin[member + 1]):
                if member >= boxes:
                    missing ^= row[column[at]]
                elif not _has(asked[at], row[column[at]], start, inside):
                    missing += 1
            lacking[member] = missing
            if missing == 0:
                total += worth[member]
        moved = True
        while moved:
            while moved:
                moved = False
                for which in order:
                    best = _best_value(
                        which, sizes[which], row, first, clause, code, boxes, start, inside, worth, lacking, gain
                    )
                    if best != row[which]:
                        total += _set(which, best, row, first, clause, code, boxes, start, inside, worth, lacking)
                        moved = True
            for member in range(boxes):
                if worth[member] <= 0 or lacking[member] == 0:
                    continue
                low, high = begin[member], begin[member + 1]
                before = row[column[low:high]].copy()
                gained = np.int64(0)
                for at in range(low, high):
                    wanted, which = asked[at], column[at]
                    if not _has(wanted, row[which], start, inside):
                        value = wanted
                        if wanted < 0:
                            value = 0
                            while inside[start[-1 - wanted] + value] == 0:
                                value += 1
                        gained += _set(which, value, row, first, clause, code, boxes, start, inside, worth, lacking)
                if gained > 0:
                    total += gained
                    moved = True
                else:
                    for at in range(low, high):
                        _set(
                            column[at], before[at - low], row, first, clause, code, boxes, start, inside, worth, lacking
                        )
        found[number] = total
