"""A printed table: whole counts with their labels, their intervals, and a mark on those too noisy to print."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.schema import Schema
from conspectus.queries.builders.arguments import listed
from conspectus.queries.sensitivity import WorkloadError
from conspectus.synopses.published_records import record_array
from conspectus.synopses.synopsis import Ends, ListedRecords
from conspectus.tabular import ResultTable

from .answer import standing_notes

TOO_NOISY = 0.5
"""A cell is marked when its interval's half-width is more than this share of its count."""

INTERVALS = (("count", "low", "high"),)


def named_columns(columns: object) -> list[str]:
    """The columns that a table is asked for.

    Args:
        columns: The names as a list, or a single one.

    Raises:
        WorkloadError: It is no list of names, or an empty one.
    """
    how = 'a table is over columns by their names, as in table(["sex", "age"])'
    found = [columns] if isinstance(columns, str) else listed(columns, how)
    if not found:
        raise WorkloadError(f"{how}: name at least one")
    return found


def cells_table(
    schema: Schema, columns: Sequence[str], counts: NDArray[np.int64], ends: Ends, most: float
) -> ResultTable:
    """All cells of some columns in row-major order, each with its count and its interval in whole counts.

    Args:
        schema: The schema, for the labels of the cells.
        columns: The names of the columns.
        counts: One count for each cell.
        ends: The ends of one interval for each cell, in counts; NaN where there is none.
        most: The public number of rows; infinite where it is private.
    """
    shape = schema.domain.shape(tuple(schema.domain.names.index(name) for name in columns))
    places = zip(columns, np.indices(shape))
    labels = {name: schema.column(name).own_values.take(pa.array(codes.ravel())) for name, codes in places}
    known = ~np.isnan(ends[0])
    low, high = np.where(known, ends[0], 0.0), np.where(known, ends[1], 0.0)
    # Noise may put the middle below 0, or above all rows. The truth is nearer to that end, so the interval is taken
    # around it: it holds as often, and large noise never shrinks it to a point.
    middle = (low + high) / 2
    moved = np.clip(middle, 0.0, most) - middle
    low, high = np.maximum(low + np.minimum(moved, 0.0), 0.0), np.minimum(high + np.maximum(moved, 0.0), most)
    # Counts that were made consistent may leave their interval: it is widened to hold them, which keeps it honest.
    low = np.minimum(np.floor(low).astype(np.int64), counts)
    high = np.maximum(np.ceil(high).astype(np.int64), counts)
    noisy = ~known | (high - low > 2 * TOO_NOISY * np.maximum(counts, 1))
    low, high = pa.array(low, mask=~known), pa.array(high, mask=~known)
    made = pa.table({**labels, "count": counts, "low": low, "high": high, "too_noisy": noisy})
    return ResultTable(made, tuple(columns), INTERVALS, standing_notes(schema))


def records_table(name: str, published: ListedRecords, confidence: float) -> ResultTable:
    """The published records with their noisy counts, each with an interval that holds given that it was published."""
    counts = published.counts
    low, high = published.bounds(confidence)
    made = {"count": counts, "low": low, "high": high, "too_noisy": high - low > 2 * TOO_NOISY * counts}
    return ResultTable(pa.table({name: record_array(published.records), **made}), (name,), INTERVALS)
