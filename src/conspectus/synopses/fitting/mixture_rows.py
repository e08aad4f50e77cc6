"""Rows drawn from a mixture of products, spread more evenly than independent draws.

How many rows a component makes is systematic: its expected number, rounded down or up. Inside a component every column
takes systematic steps through its shares, in an order of its own. So each row by itself has the law of the mixture
exactly, while tables of the rows vary less than those of independent ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled

from .rounding import systematic

Codes = NDArray[np.int32]


def stratified_rows(
    weights: NDArray[np.float64],
    tables: NDArray[np.float64],
    sizes: Sequence[int],
    rows: int,
    rng: np.random.Generator,
) -> Codes:
    """Rows of a mixture as codes, rows × columns, in random order.

    Args:
        weights: The weights of the components.
        tables: For each component the conditional shares of all columns, side by side.
        sizes: The number of codes of each column.
        rows: How many rows.
        rng: Public coins.
    """
    counts = systematic(weights, rows, float(rng.random()))
    found = np.empty((rows, len(sizes)), dtype=np.int32)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    _fill(found, counts, np.ascontiguousarray(tables), offsets, rng)
    return found[rng.permutation(rows)]


def spread_groups(
    groups: Codes, member: NDArray[np.int32], within: NDArray[np.float64], rng: np.random.Generator
) -> Codes:
    """Codes for rows whose groups are known: each group's rows are shared out among its codes, rounded down or up.

    Args:
        groups: The group of each row.
        member: The group of each code.
        within: The share of each code in its group.
        rng: Public coins.
    """
    order = rng.permutation(len(groups))
    order = order[np.argsort(groups[order], kind="stable")]
    ends = np.cumsum(np.bincount(groups, minlength=int(member.max()) + 1))
    codes = np.argsort(member, kind="stable")
    code_ends = np.cumsum(np.bincount(member))
    found = np.empty(len(groups), dtype=np.int32)
    low = code_low = 0
    for high, code_high in zip(ends.tolist(), code_ends.tolist()):
        inside = codes[code_low:code_high]
        if high > low:
            counts = systematic(within[inside], high - low, float(rng.random()))
            found[order[low:high]] = np.repeat(inside, counts)
        low, code_low = high, code_high
    return found


@compiled
def _fill(found: Any, counts: Any, tables: Any, offsets: Any, rng: Any) -> None:
    start = 0
    for k in range(len(counts)):
        count = counts[k]
        for column in range(len(offsets) - 1):
            low, high = offsets[column], offsets[column + 1]
            code, reached, offset = low, tables[k, low], rng.random()
            for i in range(count):
                point = (i + offset) / count
                while reached <= point and code < high - 1:
                    code += 1
                    reached += tables[k, code]
                # What rounding leaves over falls on the last code that has a share.
                taken = code
                while tables[k, taken] <= 0 and taken > low:
                    taken -= 1
                # Into a random place of those that are filled: the order of each column is its own.
                other = int(rng.random() * (i + 1))
                found[start + i, column] = found[start + other, column]
                found[start + other, column] = taken - low
        start += count
