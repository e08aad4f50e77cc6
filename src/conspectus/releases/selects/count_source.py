"""What a SELECT is answered from: counts, shares, cells, moments and ranks, of a release or of a session."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.data.schema import Schema
from conspectus.queries.blocks.moments import Moment
from conspectus.queries.query import Predicate
from conspectus.releases.answer import Answer
from conspectus.releases.cells.cell_estimates import CellCounts, Interval
from conspectus.releases.cells.released_ranks import ReleasedRanks
from conspectus.releases.within_bins import WithinBins
from conspectus.synopses.moment_estimates import MomentEstimate
from conspectus.synopses.synopsis import Total


class CountSource(Protocol):
    """What answers counts: a release, or a session."""

    @property
    def schema(self) -> Schema: ...

    @property
    def total(self) -> Total: ...

    @property
    def within(self) -> WithinBins | None:
        """What is known of values inside bins."""

    @property
    def partial(self) -> tuple[str, ...]:
        """What is said of values where counts are of some of the rows alone; nothing where they are of all."""

    @property
    def free(self) -> bool:
        """Whether counts cost nothing, so that more of them may be looked at than were asked for."""

    def count(self, query: Predicate, failure: float) -> Interval:
        """How many rows satisfy a predicate."""

    def share(self, query: Predicate, failure: float) -> Answer:
        """What share of all rows satisfies a predicate, as `ask` says it."""

    def cells(self, columns: tuple[int, ...], needed: NDArray[np.bool_]) -> CellCounts:
        """The counts of all cells of some columns, row-major; of those that are not needed anything may be said."""

    def cells_known(self, columns: tuple[int, ...], needed: NDArray[np.bool_]) -> bool:
        """Whether the cells that are needed are known already, and cost nothing."""

    def rate(self, above: Predicate, below: Predicate, failure: float, *, part: bool) -> Interval | None:
        """A count over a count, where a session was asked for both already; None for any other.

        With `part` all rows of the one are among those of the other.
        """

    def moment(self, moment: Moment, failure: float) -> MomentEstimate | None:
        """A moment, where it is asked for by itself; None where it follows from cells."""

    def ranks(self, column: int, rows: Predicate) -> ReleasedRanks | None:
        """The ranks of an ordered column among some rows; None where they follow from cells."""
