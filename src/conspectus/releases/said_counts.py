"""What a session said to its questions, as its file and its release keep it, and the numbers that are made from that.

A session and its release answer from the same: single answers, each with a margin of its own; cells of marginals that
were bought in advance; and moments from the answers to their parts. So both say the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from conspectus.counting.evaluation import values_on
from conspectus.data.domain import Domain
from conspectus.mechanisms.bounds import Margin, margin_around
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.moments import Moment
from conspectus.queries.formulas import all_of, any_box, literal, predicate
from conspectus.queries.query import Linear, Predicate, Query
from conspectus.queries.workload import Workload
from conspectus.synopses.estimate import Basis, Estimate
from conspectus.synopses.evidence import MOST_LOOKED_UP
from conspectus.synopses.measured_sums import NoisySum
from conspectus.synopses.moment_estimates import MomentEstimate, estimate_boxed, estimate_noisy
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.noisy_vectors import NoisyVector
from conspectus.synopses.pooled_marginals import PooledSum, put_together
from conspectus.synopses.synopsis import Total

from .cells.cell_estimates import CellCounts, Interval, Values, ratio
from .cells.released_ranks import ReleasedRanks
from .numbers_from_parts import one_value_each, with_rest
from .released_counts import ReleasedCounts

MOST_CELLS = 1 << 20
"""Of how many cells it is looked up whether a session was asked for them."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """An answer of a session: a count, what it rests on, and its margin; None where no bound is honest."""

    count: float
    basis: Basis
    margin: Margin | None

    @property
    def centre(self) -> float:
        """The count that its interval lies around."""
        return self.count if self.margin is None or self.margin.centre is None else self.margin.centre

    def estimate(self, confidence: float, total: Total) -> Estimate:
        """It with its interval, in counts of the total."""
        if self.margin is None:
            return Estimate.unguaranteed(self.count / total.divisor, total.divisor)
        return self.margin.estimate(self.count, confidence, basis=self.basis, divisor=total.divisor)


def law_of(margin: Margin) -> tuple[Noise, int] | None:
    """The law of a count that was measured with one noise, and its grid; None for any other."""
    plain = margin.offset == 0 and margin.summed is None and not margin.mixed
    one = plain and len(margin.noises) == 1 and margin.noises[0][1] == 1
    return (margin.noises[0][0], margin.grid) if one else None


def said_cells(found: Sequence[Said], needed: NDArray[np.bool_], known: CellCounts | None) -> CellCounts:
    """The counts of the cells that are needed, from what was said of each; all others are told as nothing.

    What is known of their errors is the noise of marginals that were bought in advance, where these hold them all
    (`known`); or one law of noise; or margins around centres that hold together.
    """
    counts, centres = np.zeros(len(needed)), np.zeros(len(needed))
    counts[needed] = [one.count for one in found]
    centres[needed] = [one.centre for one in found]
    if known is not None:
        return replace(known, counts=counts)
    margins = [one.margin for one in found if one.margin is not None]
    if len(margins) < len(found):
        return CellCounts(counts=counts, measured=counts, law=None, basis="unguaranteed")
    laws = {law_of(margin) for margin in margins}
    if len(laws) == 1 and (law := laws.pop()) is not None:
        noise, grid = law
        return CellCounts(counts=counts, measured=centres, law=Noise(noise.kind, noise.scale * grid), grid=grid)

    def reach(failure: float) -> float:
        return max((margin.counts_at(1 - failure / len(margins)) for margin in margins), default=0.0)

    basis: Basis = "measured" if all(one.basis == "measured" for one in found) else "guessed"
    return CellCounts(counts=counts, measured=centres, law=None, reach=reach, basis=basis)


def said_moment(
    domain: Domain, moment: Moment, found: Sequence[Said], total: Total, confidence: float
) -> MomentEstimate:
    """A moment from what was said of its parts."""
    known = total.value if total.exact and moment.complete(domain) else None
    margins = [one.margin for one in found if one.margin is not None]
    laws = [law for margin in margins if (law := law_of(margin)) is not None]
    if len(laws) == len(found):
        listed = tuple((Noise(law.kind, law.scale * grid), grid) for law, grid in laws)
        vector = NoisyVector(np.array([one.centre for one in found]), np.eye(len(found)), listed)
        vector = vector if known is None else with_rest(vector, known)
        return estimate_noisy(moment, vector, confidence, total.value + total.margin((1 + confidence) / 2))
    each = 1 - (1 - confidence) / len(found)
    return estimate_boxed(moment, [one.estimate(each, total) for one in found], known)


def said_ratio(above: Said, below: Said, failure: float, *, part: bool) -> Interval:
    """A count over a count from what was said of both: Fieller's interval. With `part` it is 1 at most."""
    both = said_cells([above, below], np.ones(2, dtype=bool), None)
    ones = np.array([1.0, 0.0])
    return ratio(both, _Part(ones, ones, ones) if part else Values.of(ones), np.array([0.0, 1.0]), failure)


class _Part(Values):
    """What rows add to the part of a whole."""

    @property
    def possible(self) -> tuple[float, float]:
        """A part is between nothing and the whole."""
        return 0.0, 1.0


@dataclass(frozen=True, eq=False)
class SaidCounts(ReleasedCounts):
    """The counts of a session's release: what the session was asked is told as it told it.

    Attributes:
        free: Whether more counts are looked at than were asked for: no, as the session did not.
    """

    free: ClassVar[bool] = False

    def cells(self, columns: tuple[int, ...], needed: NDArray[np.bool_]) -> CellCounts:
        """The counts of all cells of some columns; as the session has them where it was asked for those needed."""
        found = self._said_of(columns, needed)
        return super().cells(columns, needed) if found is None else said_cells(found, needed, self._table(columns))

    def cells_known(self, columns: tuple[int, ...], needed: NDArray[np.bool_]) -> bool:
        """Whether the session was asked for all cells that are needed, or a marginal was bought that holds them."""
        return self._table(columns) is not None or self._said_of(columns, needed) is not None

    def rate(self, above: Predicate, below: Predicate, failure: float, *, part: bool) -> Interval | None:
        """A count over a count, where the session was asked for both; None for any other."""
        first, second = self.said(above), self.said(below)
        return None if first is None or second is None else said_ratio(first, second, failure, part=part)

    def ranks(self, column: int, rows: Predicate) -> ReleasedRanks | None:
        """The ranks of an ordered column; None where the session was asked for cells that no marginal holds."""
        columns = tuple(sorted({column, *rows.columns}))
        cells = math.prod(self.schema.domain.shape(columns))
        if cells <= MOST_CELLS and self._table(columns) is None:
            regular = literal(self.schema.domain, column, range(self.schema.columns[column].regular))
            valued = all_of(self.schema.domain, [any_box(self.schema.domain, rows.boxes), regular])
            needed = values_on(predicate(self.schema.domain, valued), self.schema.domain, columns) > 0
            if self._said_of(columns, needed) is not None:
                return None
        return super().ranks(column, rows)

    def _said_of(self, columns: tuple[int, ...], needed: NDArray[np.bool_]) -> list[Said] | None:
        """What the session said of some cells; None where it was not asked for all of them."""
        places = np.flatnonzero(needed).tolist()
        if len(places) > MOST_LOOKED_UP:
            return None
        block, told = Marginal(self.schema.domain, columns), []
        for place in places:
            if (one := self.said(block.query(place))) is None:
                return None
            told.append(one)
        return told

    def moment(self, moment: Moment, failure: float) -> MomentEstimate | None:
        """A moment from its parts, where the session was asked for them; None for any other."""
        return self.moment_said(moment, failure)

    def moment_said(self, moment: Moment, failure: float) -> MomentEstimate | None:
        """A moment as the session said it; None where it was not asked for all its parts."""
        if not one_value_each(self.schema, moment):
            return None
        parts = moment.parts(self.schema.domain, total_known=self.total.exact)
        told = [one for part in parts if (one := self.said(part)) is not None]
        if len(told) < len(parts):
            return None
        return said_moment(self.schema.domain, moment, told, self.total, 1 - failure)

    def said(self, query: Query) -> Said | None:
        """What the session said to a question; None where it was not asked, or the schema decides it."""
        guesses, place = self.evidence.guesses, self.evidence.place(query)
        if place is None or guesses is None or (isinstance(query, Predicate) and query.decided is not None):
            return None
        count = float(self.evidence.answers[place]) * self.total.divisor
        bound = guesses.bound(place)
        if isinstance(bound, Margin):
            return Said(count=count, basis="guessed", margin=bound)
        asked = self.evidence.workload.query(place)
        margin, own = self._margin(asked), self._own(asked)
        if own is not None and self._measured is self.synopsis:  # to the last bit, which a share may lose
            count = own.count
        return Said(count=count, basis="unguaranteed" if margin is None else "measured", margin=margin)

    def _estimate(self, asked: Workload, confidence: float) -> Estimate:
        said = self.said(asked.query(0))
        return super()._estimate(asked, confidence) if said is None else said.estimate(confidence, self.total)

    def _margin(self, query: Query) -> Margin | None:
        """How far an answer may be off that was not guessed; None where no measurement tells."""
        measured, own = self._measured, self._own(query)
        if measured is None:
            return None
        others = None if isinstance(query, Linear) else self._in_advance(measured).narrowest(query)
        if others is None and own is None and measured is self.synopsis:  # what single measurements add up to
            others = measured.find(query)
        if isinstance(others, NoisySum | PooledSum):
            return margin_around(others if own is None else put_together(own, others))
        if own is None or own.kind is None:
            return None
        law = Noise(own.kind, own.scale / own.averaged)
        # With fresh noise the answer is the count as noise left it.
        centre = None if measured is self.synopsis else own.count
        return Margin(noises=((law, 1),), grid=own.averaged, centre=centre)

    @property
    def _measured(self) -> NoisyAnswers | None:
        found = self.synopsis if isinstance(self.synopsis, NoisyAnswers) else self.evidence.measured
        return found if isinstance(found, NoisyAnswers) else None

    def _own(self, query: Query) -> NoisySum | None:
        """The measurement of a question by itself; None where there is none."""
        measured = self._measured
        place = None if measured is None else measured.listed_place(query)
        if measured is None or place is None:
            return None
        _, counts, law, grid = measured.measured_block(place[0])
        return NoisySum(count=float(counts[place[1]]), kind=law.kind, scale=law.scale, terms=1, averaged=grid)

    def _in_advance(self, measured: NoisyAnswers) -> NoisyAnswers:
        """The marginals among all that was measured: a session buys them before its first question."""
        if not self._known_marginals:
            self._known_marginals.append(marginals_alone(measured))
        return self._known_marginals[0]

    @cached_property
    def _known_marginals(self) -> list[NoisyAnswers]:
        return []


def marginals_alone(measured: NoisyAnswers) -> NoisyAnswers:
    """The marginals of noisy answers, without what was measured besides."""
    workload, offsets = measured.workload, measured.workload.offsets
    kept = [number for number, block in enumerate(workload.blocks) if isinstance(block, Marginal)]
    counts = [measured.counts[offsets[number] : offsets[number + 1]] for number in kept]
    return NoisyAnswers(
        measured.domain,
        Workload(measured.domain, tuple(workload.blocks[number] for number in kept)),
        np.concatenate(counts) if counts else np.zeros(0),
        tuple(measured.noise[number] for number in kept),
        measured.total,
        tuple(measured.grids[number] for number in kept),
        measured.pooled,
    )
