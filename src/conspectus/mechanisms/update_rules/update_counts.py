"""T(α) of the median and of the perceptron: how often each can be off by α; and the nets that a median is taken of."""

from __future__ import annotations

import math
from collections.abc import Iterator

MOST_MEMBERS = 1 << 15
"""The largest net of databases that a median is taken of."""


def databases(cells: int, rows: int) -> Iterator[tuple[int, ...]]:
    """All ways to put so many rows into so many cells."""
    if cells == 1:
        yield (rows,)
        return
    for first in range(rows + 1):
        for rest in databases(cells - 1, rows - first):
            yield (first, *rest)


def net_size(cells: int, rows: int) -> int:
    """The number of databases of so many rows: C(|X| + m − 1, m)."""
    return math.comb(cells + rows - 1, rows)


def net_rows(cells: int, alpha: float) -> int:
    """How many rows make the databases of that many an α-net for any class of queries: m ≥ |X|/4α.

    Rounding the fractions of a table over |X| cells to multiples of 1/m, by largest remainders, moves any query by at
    most |X|/4m: if k remainders are rounded up, the rises add up to at most k(1 − k/|X|)/m.
    """
    return math.ceil(cells / (4 * alpha))


def finest_net(cells: int) -> int:
    """The most rows that the databases of a net of at most `MOST_MEMBERS` can have; of one cell, one row is the net."""
    rows = 1
    while cells > 1 and net_size(cells, rows + 1) <= MOST_MEMBERS:
        rows += 1
    return rows


def median_updates(alpha: float, cells: int) -> float:
    """T(α) = log₂|N|, for an α-net N (Theorem 5.8); infinite where the net is too large to hold.

    The member nearest to the table is never removed by an update of level α, and each update removes at least half.
    """
    size = net_size(cells, net_rows(cells, alpha))
    return math.log2(size) if size <= MOST_MEMBERS else math.inf


def perceptron_updates(alpha: float, cells: int) -> float:
    """T(α) = |X|/α² (Theorem 5.11, with a public bound on the private norm of the table: ‖x*‖₂ ≤ ‖x*‖₁ = 1).

    ‖x* − x‖² falls by at least α²/‖f‖² ≥ α²/|X| in every update of level α, from ‖x*‖² at first, where x* is the table
    as fractions.
    """
    return cells / alpha**2
