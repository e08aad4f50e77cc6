"""Integers that stay close to real numbers: rounding with a fixed total.

Tables published from one release are marginals of one non-negative integer table, so they agree with each other. The
integer table comes from systematic rounding along a path through the cells on which neighbours differ in one column
only; then units are moved between cells, each cell staying within one of its share, until the marginals of up to three
columns are close to theirs too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from conspectus.counting.marginal_tree import MarginalTree, marginal_tree

_MOST_BALANCED = 1 << 21  # cells; above, systematic rounding alone
_MOST_MARGINALS = 1000
_ROUNDS = 200
_SURE = 0.01


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
    weights: NDArray[np.float64], total: int, *, sizes: Sequence[int] | None = None
) -> NDArray[np.int64]:
    """A non-negative integer table with the given total, each cell within one of its share, marginals close.

    `weights` has the shape of the table, or is flat with its `sizes` given. The result has the shape of `weights`.
    """
    weights = np.asarray(weights, dtype=np.float64)
    shape = tuple(weights.shape if sizes is None else sizes)
    path = snake(shape)
    if path.size != weights.size:
        raise CannotRound(f"a table of {path.size} cells cannot hold {weights.size} weights")
    counts = np.empty(weights.size, dtype=np.int64)
    counts[path] = systematic(weights.ravel()[path], total, 0.5)
    if weights.size <= _MOST_BALANCED and total:
        counts = _balanced(counts, _shares(weights.ravel(), total), _low_marginals(shape))
    return counts.reshape(weights.shape)


def _low_marginals(sizes: tuple[int, ...]) -> MarginalTree:
    """All marginals of up to three columns, or of two or one where there would be too many."""
    order = max(k for k in (1, 2, 3) if k == 1 or math.comb(len(sizes), k) <= _MOST_MARGINALS)
    sets = (columns for k in range(1, order + 1) for columns in combinations(range(len(sizes)), k))
    return marginal_tree(sizes, tuple(sets))


def _balanced(counts: NDArray[np.int64], shares: NDArray[np.float64], tree: MarginalTree) -> NDArray[np.int64]:
    """Move units from cells that were rounded up to cells that were rounded down while the marginals come closer.

    Let `pull` be the marginals' errors summed over the marginals, at each cell: half the derivative of their sum of
    squares. A move from x to y lowers that sum when pull(x) − pull(y) exceeds the number of marginals in which the two
    cells differ. First come moves between any cells, then along one column at a time. Many moves are made at once, and
    taken back when together they overshoot.
    """
    remainders = shares - np.floor(shares)
    # Cells that are all but integers keep their integer: no record is made up where there is next to no weight.
    free = (remainders > _SURE) & (remainders < 1 - _SURE)
    errors = tree.marginals_flat(counts - shares)
    for column in (None, *range(len(tree.sizes))):
        most = counts.size
        for _ in range(_ROUNDS if column is None else _ROUNDS // 20):
            pull = tree.spread_flat(errors)
            givers, takers = _moves(pull, free & (counts > shares), free & (counts < shares), tree, column)
            if not givers.size or not most:
                break
            moved = counts.copy()
            moved[givers[:most]] -= 1
            moved[takers[:most]] += 1
            new_errors = tree.marginals_flat(moved - shares)
            if float((new_errors**2).sum()) < float((errors**2).sum()):
                counts, errors, most = moved, new_errors, 2 * most
            else:
                most = min(most, givers.size) // 2
    return counts


def _moves(
    pull: NDArray[np.float64],
    above: NDArray[np.bool_],
    below: NDArray[np.bool_],
    tree: MarginalTree,
    column: int | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cells that give and cells that take, each at most once, in the order of what their move is worth."""
    high, low = np.where(above, pull, -np.inf), np.where(below, pull, np.inf)
    if column is None:
        most = int(min(above.sum(), below.sum()))
        givers, takers = np.argsort(-high, kind="stable")[:most], np.argsort(low, kind="stable")[:most]
        differing = len(tree)
    else:
        lines = np.moveaxis(np.arange(pull.size).reshape(tree.sizes), column, -1).reshape(-1, tree.sizes[column])
        every = np.arange(len(lines))
        givers = lines[every, high[lines].argmax(axis=1)]
        takers = lines[every, low[lines].argmin(axis=1)]
        differing = sum(column in columns for columns in tree.column_sets)
    worth = high[givers] - low[takers] - differing
    chosen = np.flatnonzero(worth > 0)
    chosen = chosen[np.argsort(-worth[chosen], kind="stable")]
    return givers[chosen], takers[chosen]
