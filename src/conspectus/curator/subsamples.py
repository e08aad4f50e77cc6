"""The rows of a table divided into subsamples, so that every unit is in one of them, and a function's result on each.

Rows that have no id have no name either: two equal rows are the same twice. By a hash of its codes alone a row would
share its subsample with all rows like it, and a subsample would be all of some kinds of row and none of the others. So
the first, second and third of equal rows are told apart, and hashed with their number. Which of them is the first does
not matter: one row more is one number more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conspectus.data.sources import Table
from conspectus.queries.blocks.subsample_results import Subsampling
from conspectus.queries.blocks.unsafe_functions import in_order

from .foreign_process import run_apart

Codes = NDArray[np.int64]
Hashes = NDArray[np.uint64]


def results_of(table: Table, subsampling: Subsampling) -> NDArray[np.int64]:
    """The results of all subsamples (subsamples × outputs), as whole numbers within their bounds.

    Guarantee: one unit changes at most one line where it is added or removed, and at most two where it is replaced.
    """
    results = subsampling.results
    found = np.tile(np.array(results.default, dtype=np.int64), (subsampling.count, 1))
    for place, rows in enumerate(subsamples_of(table, subsampling.count, subsampling.public_seed)):
        steps = run_apart(subsampling.function, rows, results.steps, results.outputs, seconds=subsampling.seconds)
        if steps is not None:
            found[place] = np.clip(steps, 0, results.levels - 1)
    return found


def subsamples_of(table: Table, subsamples: int, public_seed: int) -> list[Codes]:
    """The codes of the rows of each subsample (rows × columns), sorted. A subsample may be empty."""
    width = len(table.domain)
    codes, units = [np.zeros((0, width), dtype=np.int64)], [np.zeros(0, dtype=np.uint64)]
    named = table.schema.unit.kind == "id"
    for chunk, ids in table.units(public_seed):
        codes.append(np.stack([chunk.column(column).astype(np.int64) for column in range(width)], axis=1))
        units.append(np.zeros(chunk.rows, dtype=np.uint64) if ids is None else ids)
    rows = np.concatenate(codes)
    if named:
        where = np.concatenate(units) % np.uint64(subsamples)
    else:
        rows = in_order(rows)
        where = subsample_numbers(rows, subsamples, public_seed)
    order = np.argsort(where, kind="stable")
    ends = np.searchsorted(where[order], np.arange(1, subsamples, dtype=np.uint64))
    return [in_order(rows[some]) for some in np.split(order, ends)]


def subsample_numbers(rows: Codes, subsamples: int, public_seed: int) -> Hashes:
    """The subsample of each row, by a hash of it and of its number among the rows that are equal to it.

    Rows are sorted, so that equal ones stand together.
    """
    count = len(rows)
    first = np.ones(count, dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    starts = np.flatnonzero(first)
    number = np.arange(count) - np.repeat(starts, np.diff([*starts.tolist(), count]))
    found = _mixed(np.full(count, public_seed % (1 << 64), dtype=np.uint64))
    for column in (*rows.T, number):
        found = _mixed(found ^ column.astype(np.uint64))
    return found % np.uint64(subsamples)


def _mixed(words: Hashes) -> Hashes:
    """The finaliser of splitmix64, on words that a constant moved away from 0."""
    with np.errstate(over="ignore"):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))
