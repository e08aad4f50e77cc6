"""Integers that stay close to real numbers: rounding with a fixed total.

Tables published from one release are marginals of one non-negative integer table, so they agree with each other. The
integer table comes from systematic rounding along a path through the cells on which neighbours differ in one column
only: what a cell gains by rounding its neighbours on the path lose, so most marginals hardly notice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class CannotRound(ValueError):
    """Numbers that are not the shares of a total: negative, not finite, or all zero."""


def _shares(values: NDArray[np.float64], total: int) -> NDArray[np.float64]:
    values = np.asarray(values, dtype=np.float64)
    mass = float(values.sum()) if values.size else 0.0
    if total < 0 or not np.isfinite(mass) or (values.size and float(values.min()) < 0):
        raise CannotRound("rounding needs finite numbers, zero or more, and a total that is not negative")
    if mass <= 0:
        if total:
            raise CannotRound("a positive total cannot be shared among numbers that are all zero")
        return values
    # Dividing first keeps the largest share at most `total` even when the mass is subnormal.
    return (values / mass) * total


def round_to_total(values: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Integers proportional to `values` with sum `total`, each within one of its share (largest remainder).

    Ties go to the first position, so the result is a function of its arguments.
    """
    shares = _shares(values, total)
    floors = np.floor(shares)
    counts = floors.astype(np.int64)
    missing = total - int(counts.sum())
    remainders = (shares - floors).ravel()
    flat = counts.ravel()
    if missing > 0:
        flat[np.argsort(-remainders, kind="stable")[:missing]] += 1
    elif missing < 0:  # only when the division rounded many shares up to the next integer
        order = np.argsort(remainders, kind="stable")
        flat[order[flat[order] > 0][:-missing]] -= 1
    return flat.reshape(shares.shape)


def systematic(weights: NDArray[np.float64], total: int, offset: float) -> NDArray[np.int64]:
    """Systematic rounding of a vector: the number of the points offset, offset + 1, … in each cumulative interval.

    With `offset` uniform in (0, 1) each count has expectation total·weight / Σ weights, and it is always the floor or
    the ceiling of it (up to rounding of the cumulative sum); so is the sum over any run of consecutive cells.
    """
    shares = _shares(weights, total)
    if shares.size == 0:
        return np.zeros(0, dtype=np.int64)
    ends = np.cumsum(shares)
    points = np.clip(np.floor(ends + offset), 0, total).astype(np.int64)
    points = np.maximum.accumulate(points)
    # The last cell with weight ends at the total exactly, whatever the float sum says; empty cells stay empty.
    points[int(np.flatnonzero(shares)[-1]) if total else 0 :] = total
    return np.diff(points, prepend=0)


def snake(sizes: Sequence[int]) -> NDArray[np.int64]:
    """The cells of a product in reflected order: each differs from the one before in one column, by one step."""
    path = np.zeros(1, dtype=np.int64)
    for size in sizes:
        # Appending a column: forwards along it below even places of the path so far, backwards below odd ones.
        steps = np.tile(np.arange(size, dtype=np.int64), (path.size, 1))
        steps[1::2] = steps[1::2, ::-1]
        path = (path[:, None] * size + steps).ravel()
    return path


def integer_histogram(
    weights: NDArray[np.float64], total: int, *, sizes: Sequence[int] | None = None, offset: float = 0.5
) -> NDArray[np.int64]:
    """A non-negative integer table with the given total, each cell within one of its share, marginals close.

    `weights` has the shape of the table, or is flat with its `sizes` given. The result has the shape of `weights`.
    """
    weights = np.asarray(weights, dtype=np.float64)
    path = snake(weights.shape if sizes is None else sizes)
    if path.size != weights.size:
        raise CannotRound(f"a table of {path.size} cells cannot hold {weights.size} weights")
    counts = np.empty(weights.size, dtype=np.int64)
    counts[path] = systematic(weights.ravel()[path], total, offset)
    return counts.reshape(weights.shape)
