"""Record batches of a size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def cut(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of at most so many rows, which share its memory."""
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of plain numbers, small ones joined: of at most so many rows, as all of them are already."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if held and count + batch.num_rows > rows:
            yield _joined(held)
            held, count = [], 0
        held.append(batch)
        count += batch.num_rows
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    places = range(batches[0].num_columns)
    columns = [pa.concat_arrays([batch.column(place) for batch in batches]) for place in places]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)
