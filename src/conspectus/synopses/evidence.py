"""What a release publishes beside its synopsis: answers, noisy sums and a bound, from which intervals are taken.

A histogram or synthetic rows do not know how wrong they are. A release knows: it holds the noisy answers that the
synopsis was fitted to, or a certificate that bounds the error on every released query. An `Evidence` hands both to the
synopsis when it estimates a query.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.canonical_query import canonical_query
from conspectus.queries.formulas import literal, predicate
from conspectus.queries.query import Predicate, Query, TableFunction, cells_of
from conspectus.queries.workload import Workload

MOST_LOOKED_UP = 1 << 12
"""Of how many cells it is looked up one by one whether they were released."""


class Bound(Protocol):
    """A bound on the error of every released answer, in counts: a certificate."""

    def counts_at(self, confidence: float) -> float:
        """No error is larger than this, with this probability."""


class NoisyCount(Protocol):
    """A count with noise whose law is known."""

    @property
    def count(self) -> float: ...

    @property
    def variance(self) -> float: ...

    def margin(self, confidence: float) -> float:
        """How far the noise has moved the count at most, with this probability."""


class Guesses(Protocol):
    """Answers of a session: a bound for each that a watch let pass."""

    def bound(self, place: int) -> Bound | None:
        """How far the answer at this place of the workload may be off; None where it was not guessed."""


class Measured(Protocol):
    """Noisy answers that add up to other ones."""

    def narrowest(self, query: Query) -> NoisyCount | None:
        """What they say of this query, all together, with the narrowest interval; None where they say nothing."""

    def intervals(self, cells: Workload, confidence: float, /) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The ends of an interval for every cell of one marginal, in counts; NaN where they say nothing."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """What is known of the answers of a synopsis besides the synopsis itself.

    Attributes:
        workload: The queries that were released.
        answers: What was released for them, as shares in the workload's order.
        bound: A bound on the error of each of these answers, if one was bought.
        measured: The noisy answers that were bought, if they are published.
        guesses: Which of the answers a session guessed; None where they are not those of a session.
    """

    workload: Workload
    answers: NDArray[np.float64]
    bound: Bound | None = None
    measured: Measured | None = None
    guesses: Guesses | None = None

    def given(self, query: Query) -> float | None:
        """The answer that was released, to a function of the table or in a session; None for any other.

        A function cannot always be evaluated again, and a session answers each question once.
        """
        place = self.place(query)
        return None if place is None else float(self.answers[place])

    def reach(self, query: Query, confidence: float, *, additive: bool) -> float | None:
        """How far the answer that is given to this query may be off: as a guess of a session, or as `margin` says."""
        place = None if self.guesses is None else self.place(query)
        bound = None if self.guesses is None or place is None else self.guesses.bound(place)
        return self.margin(query, confidence, additive=additive) if bound is None else bound.counts_at(confidence)

    def noisy(self, query: Query) -> NoisyCount | None:
        """What the measured answers say of this query, all together; None where they say nothing."""
        return None if self.measured is None else self.measured.narrowest(query)

    def margin(self, query: Query, confidence: float, *, additive: bool) -> float | None:
        """How far the synopsis may be from the truth on this query, by the bound; None where it says nothing.

        Args:
            query: Any query; it need not be a released one.
            confidence: The probability with which the margin holds.
            additive: Whether answers of the synopsis add up: the answer to a union of disjoint queries is the sum of
                their answers. Then as many bounds as there are summands bound the error of a sum.
        """
        if self.bound is None:
            return None
        forms = (query, canonical_query(self.workload.domain, query))
        found = (covering_cells(self.workload, self._listed, form) for form in forms)
        cells = next((cells for cells in found if cells is not None), None)
        if cells is None or (cells != 1 and not additive):
            return None
        return cells * self.bound.counts_at(confidence)

    def margins(self, cells: Workload, confidence: float, *, additive: bool) -> NDArray[np.float64]:
        """`margin` of every cell of one marginal; NaN where the bound says nothing.

        Every cell is a sum of equally many cells of a released marginal that covers it. Cells may be released one by
        one, too: these are looked up, unless there are very many.
        """
        if self._listed and len(cells) <= MOST_LOOKED_UP:
            found = [self.margin(query, confidence, additive=additive) for query in cells.queries()]
            return np.array([np.nan if each is None else each for each in found])
        many = covering_cells(self.workload, frozenset(), cells.query(0))
        if self.bound is None or many is None or (many != 1 and not additive):
            return np.full(len(cells), np.nan)
        return np.full(len(cells), many * self.bound.counts_at(confidence))

    def cells_margin(
        self, cells: Marginal, needed: NDArray[np.bool_], confidence: float, *, additive: bool
    ) -> float | None:
        """How far the synopsis may be from the truth on each of some cells, by the bound; None where it says nothing.

        The bound holds for all released answers at once. A cell is a sum of cells of a released marginal, equally many
        for each; or it was released itself; or it is what one released prefix of its column has beyond another.

        Args:
            cells: A marginal.
            needed: Which of its cells are asked about.
            confidence: The probability with which the margin holds, for all of them at once.
            additive: See `margin`.
        """
        if self.bound is None:
            return None
        bounds = covering_cells(self.workload, frozenset(), cells.query(0))
        asked = np.flatnonzero(needed)
        if bounds is None and len(asked) > MOST_LOOKED_UP:
            return None
        listed = [self._bounds_of(cells, int(cell)) for cell in asked] if bounds is None else [bounds]
        if any(each is None or (each != 1 and not additive) for each in listed):
            return None
        return max((each for each in listed if each is not None), default=0) * self.bound.counts_at(confidence)

    def _bounds_of(self, cells: Marginal, cell: int) -> int | None:
        """How many bounds on listed answers bound that of a cell; None where none do."""
        domain = self.workload.domain
        if canonical_query(domain, cells.query(cell)) in self._listed:
            return 1
        column = cells.columns[0]
        ends = [predicate(domain, literal(domain, column, range(end))) for end in (cell, cell + 1)]
        return 2 if len(cells.columns) == 1 and all(end in self._listed for end in ends) else None

    def place(self, query: Query) -> int | None:
        """Where the answer to a query stands that must be told again as it was."""
        if self.guesses is None:
            return self._told.get(query) if isinstance(query, TableFunction) else None
        place = self._told.get(query)
        return self._told.get(canonical_query(self.workload.domain, query)) if place is None else place

    @cached_property
    def _told(self) -> dict[Query, int]:
        """Where functions of the table, and all questions of a session, stand in the workload."""
        listed = enumerate(self.workload.queries())
        every = self.guesses is not None
        return {query: place for place, query in listed if every or isinstance(query, TableFunction)}

    @cached_property
    def _listed(self) -> frozenset[Query]:
        """The queries that stand on their own in the workload, outside marginals."""
        loose = (block for block in self.workload.blocks if not isinstance(block, Marginal))
        return frozenset(block.query(i) for block in loose for i in range(len(block)))


def covering_cells(workload: Workload, listed: frozenset[Query], query: Query) -> int | None:
    """The least number of queries of the workload that sum to this one: a bound on each bounds their sum.

    `listed` are the queries outside marginals. None where no marginal of the workload covers the query's columns.
    """
    if query in listed:
        return 1
    if not isinstance(query, Predicate):
        return None
    sizes = workload.domain.sizes
    needed = set(query.columns)
    best: int | None = None
    for block in workload.blocks:
        if isinstance(block, Marginal) and needed <= set(block.columns):
            cells = sum(cells_of(box, sizes, block.columns) for box in query.boxes)
            best = cells if best is None else min(best, cells)
    return best
