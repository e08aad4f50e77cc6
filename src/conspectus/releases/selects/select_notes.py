"""What a SELECT says besides its numbers: where intervals are missing, what counts add up to, what values are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conspectus.data.columns.kinds import Column
from conspectus.data.domain import Domain
from conspectus.releases.cells.binned_cells import code_ends
from conspectus.releases.cells.cell_estimates import Interval
from conspectus.releases.released_counts import ReleasedCounts
from conspectus.synopses.stream_answers import StreamAnswers

VAGUE = (
    "what bounds every single count leaves anything possible for numbers made of many of them, which have no interval "
    "here: releases by projection, gaussian, laplace and histogram measure the tables that they are asked for"
)
_NOT_SUMMED = "each count is the best estimate of itself: those of all groups add up to {summed}, of {rows} rows"
_BUT_TABLES = "; counts of release.table and of conspectus export agree with one another"


def without_interval(domain: Domain, columns: Sequence[int]) -> str:
    """That numbers of these columns have no interval."""
    names = " and ".join(f'"{domain.names[c]}"' for c in columns) or "the total"
    together = " together" if len(columns) > 1 else ""
    return f"no noise or bound is known for {names}{together}: numbers from there have no interval"


def sums_note(source: object, counts: Sequence[Interval]) -> Iterator[str]:
    """That counts of all groups do not add up to the rows, where that can be seen."""
    if not isinstance(source, ReleasedCounts):
        return
    summed, rows = sum(round(one.value or 0.0) for one in counts), round(source.total.value)
    if abs(summed - rows) > len(counts) / 2:  # what rounding alone may do
        tables = "" if isinstance(source.synopsis, StreamAnswers) else _BUT_TABLES
        yield _NOT_SUMMED.format(summed=f"{summed:,}", rows=f"{rows:,}") + tables


def value_notes(column: Column, *, bins: bool) -> Iterator[str]:
    """What is said of the values of a column; with `bins`, also that intervals count where in a bin they lie."""
    low, high = code_ends(column)
    if (low[: column.regular] != high[: column.regular]).any() and bins:
        yield f'intervals count that values of "{column.name}" lie anywhere in their bins'
    if column.ordered:
        yield f'values of "{column.name}" outside its declared range count as its ends'
