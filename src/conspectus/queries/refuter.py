"""A search for two made tables that refute a declared sensitivity. It never sees a private row.

Two tables are walked into one another unit by unit. A function of sensitivity s moves by at most s a step, so by at
most k·s over k steps; where it moves more, halving the walk leads to a single step that it moves too far on, in as many
evaluations as the walk's length has binary digits. Jumps are found even where the whole walk is not too steep: one half
of it always is at least as steep as the whole. The ends of the walks are extreme tables (one record only, two records)
and random ones. The search starts no evaluation after `SECONDS` for all functions together; one that is under way is
waited for, so that a function that takes long is looked at on few tables. What it does not refute may still be wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.unsafe_functions import UnsafeFunctions, in_order

from .sensitivity import WorkloadError
from .workload import Workload

SECONDS = 2.0
"""How long one workload is examined, all functions together."""

_SMALL = 48
"""Units in the walks where the number of rows is private and none was declared: all sizes up to it are tried."""

_WALKS = 40
_MOST_ENTRIES = 1 << 22

Codes = NDArray[np.int64]


class RefutedSensitivity(WorkloadError):
    """Two made tables that one unit tells apart, on which a function differs by more than was declared."""


class _TimeIsUp(Exception):
    """No evaluation may start any more."""


@dataclass(frozen=True, eq=False)
class Walk:
    """Tables from one end to the other, neighbours one unit apart: step k has changed k units."""

    steps: int
    table: Callable[[int], Codes]


def examine(workload: Workload, relation: Relation, *, rows: int | None, public_seed: int | None = None) -> None:
    """Refuse a workload with a function whose declared sensitivity a search over made tables refutes."""
    blocks = [block for block in workload.blocks if isinstance(block, UnsafeFunctions)]
    listed = [(block, index) for block in blocks for index in range(len(block)) if block.functions[index].function]
    if not listed:
        return
    rng = np.random.Generator(np.random.PCG64(public_seed))
    until = time.monotonic() + SECONDS
    for walk in walks_of(workload.domain, relation, rows, rng):
        # In a new order for each walk: of very many functions, time allows to look at some.
        for number in rng.permutation(len(listed)).tolist():
            block, index = listed[number]
            try:
                found = _too_steep(block, index, walk, until)
            except _TimeIsUp:
                return
            if found is not None:
                raise RefutedSensitivity(_told(block, index, walk, found))


def walks_of(domain: Domain, relation: Relation, rows: int | None, rng: np.random.Generator) -> Iterator[Walk]:
    """Walks between made tables, the likeliest to refute first."""
    width, max_rows = len(domain), relation.max_rows
    # A table that memory would not hold is walked with fewer rows.
    units = _SMALL if rows is None else max(1, min(rows, _MOST_ENTRIES // max(width, 1)) // max_rows)
    for turn in range(_WALKS):
        ends = [_made(domain, units * max_rows, (turn + side) % 4, rng) for side in range(2)]
        if turn % 5 == 4:
            ends[1] = _one_column_moved(domain, ends[0], rng)
        if relation.replace and rows is not None:
            yield _replacing(ends[0], ends[1], max_rows)
        elif rows is None:
            yield _adding(ends[0], max_rows)
            if relation.replace:
                yield _replacing(ends[0], ends[1], max_rows)
        else:
            yield _around(ends[0], ends[1], max_rows)


def _made(domain: Domain, rows: int, kind: int, rng: np.random.Generator) -> Codes:
    """A made table: one record, two records, even draws, or skewed draws, in a random order."""
    sizes = np.array(domain.sizes)
    if kind == 0:
        return np.tile(rng.integers(0, sizes), (rows, 1))
    if kind == 1:
        two = rng.integers(0, sizes, (2, len(sizes)))
        return np.asarray(two[(np.arange(rows) >= rows // 2).astype(int)])
    if kind == 2:
        return rng.integers(0, sizes, (rows, len(sizes)))
    skewed = [rng.choice(size, rows, p=rng.dirichlet(np.full(size, 0.3))) for size in sizes]
    return np.stack(skewed, axis=1) if rows else np.zeros((0, len(sizes)), dtype=np.int64)


def _one_column_moved(domain: Domain, table: Codes, rng: np.random.Generator) -> Codes:
    """The same with one column from one end of its codes to the other."""
    column = int(rng.integers(0, len(domain)))
    moved = table.copy()
    table[:, column], moved[:, column] = 0, domain.sizes[column] - 1
    return moved


def _replacing(first: Codes, last: Codes, max_rows: int) -> Walk:
    def table(step: int) -> Codes:
        return np.concatenate([last[: step * max_rows], first[step * max_rows :]])

    return Walk(len(first) // max_rows, table)


def _adding(last: Codes, max_rows: int) -> Walk:
    """From no rows to all of them."""
    return Walk(len(last) // max_rows, lambda step: last[: step * max_rows].copy())


def _around(first: Codes, last: Codes, max_rows: int) -> Walk:
    """Units taken away and put back in turn, so that no table has more rows, and none lacks more than one unit."""

    def table(step: int) -> Codes:
        done, missing = step // 2, step % 2
        return np.concatenate([last[: done * max_rows], first[(done + missing) * max_rows :]])

    return Walk(2 * (len(first) // max_rows), table)


def _too_steep(block: UnsafeFunctions, index: int, walk: Walk, until: float) -> tuple[int, float, float] | None:
    """A step of the walk on which the function moves by more than is charged for, with its two values.

    The clock is read before every evaluation.
    """
    function, declared = block.functions[index], block.single_sensitivity(index)
    known: dict[int, float] = {}

    def share(step: int) -> float:
        if step not in known:
            if time.monotonic() > until:
                raise _TimeIsUp
            known[step] = function.share(in_order(walk.table(step)))
        return known[step]

    def rise(low: int, high: int) -> float:
        return abs(block.steps(share(high)) - block.steps(share(low))) / (high - low)

    low, high = 0, walk.steps
    while high - low > 1:
        middle = (low + high) // 2
        low, high = max(((low, middle), (middle, high)), key=lambda part: rise(*part))
    if high > low and rise(low, high) > declared:
        return low, share(low), share(high)
    # The first table again, after all others: what a function remembers of one table it would tell about another.
    first = known.pop(0, None)
    if first is not None and abs(block.steps(share(0)) - block.steps(first)) > 1:
        raise RefutedSensitivity(
            f"{function.name!r} is no function of the rows: on one made table it is {first:.6g}, and asked again "
            f"{share(0):.6g}. It may keep nothing and draw nothing at random"
        )
    return None


def _told(block: UnsafeFunctions, index: int, walk: Walk, found: tuple[int, float, float]) -> str:
    function = block.functions[index]
    step, here, there = found
    first, second = walk.table(step), walk.table(step + 1)
    return (
        f"the declared sensitivity of {function.name!r}, {float(function.sensitivity):.6g}, is refuted: on a made "
        f"table of {_rows(first, block.domain)} it is {here:.6g}, and with one unit changed, on "
        f"{_rows(second, block.domain)}, it is {there:.6g}, which is {abs(here - there):.6g} away. Declare at least "
        "that, or change the function"
    )


def _rows(table: Codes, domain: Domain) -> str:
    """A table in a few words: its most frequent records."""
    if not len(table):
        return "no rows"
    records, counts = np.unique(table, axis=0, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:2]
    shown = [f"{counts[i]:,} × ({', '.join(map(str, records[i][:6]))}{', …' if len(domain) > 6 else ''})" for i in most]
    rest = "" if len(records) <= 2 else f" and {len(records) - 2:,} other records"
    return f"{len(table):,} {'row' if len(table) == 1 else 'rows'}, {', '.join(shown)}{rest}"
