"""The ranks of a column in a release: numbers of rows up to each value, with how far they may be off.

Whoever asks for a quantile of a release is answered from here: one question has one value and one interval.

Let P be the number of rows up to a value, and N that of all rows that count. The q-quantile is the first value with
P − q·N ≥ 0. Its interval holds every value for which the noise could explain that P − q·N is not below 0 there, and is
below 0 one value earlier. The true quantile is left out only if one of two noises is beyond its quantile on one side,
so the interval holds with its confidence, however the noise of different values goes together. That is true of the
numbers that the noise was added to, so P and N are taken from these, and not from a table that was fitted to them: of
a fitted table nobody knows how far P − q·N is off, and in the tails it is off by more than the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import get_args

import numpy as np

from conspectus.counting.evaluation import values_on
from conspectus.data.schema import Schema
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.formulas import all_of, any_box, literal, predicate
from conspectus.queries.query import Predicate
from conspectus.queries.workload import Workload
from conspectus.releases.answer import count_confidence
from conspectus.synopses.estimate import Basis, Estimate
from conspectus.synopses.evidence import Evidence
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.noisy_vectors import NoisyVector, noisy_vector
from conspectus.synopses.synopsis import Synopsis

from .cell_estimates import CellCounts, Vector
from .ranks import QuantileCodes, Ranks, RanksApart, RanksTogether, possible_codes, quantile_in

PROBES = 48
"""At how many codes a release without noise of a known law is asked how far it may be off, at most."""

TRUE = Predicate(((),))


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleasedRanks:
    """The ranks of an ordered column among some rows of a release.

    Attributes:
        schema: The schema of the table.
        synopsis: What answers.
        evidence: What is published beside it.
        place: The position of the column.
        where: Which rows count, but for those without a value.
        table: The cells of some columns as they were measured, or as reruns tell of them; None where neither is known.
    """

    schema: Schema
    synopsis: Synopsis
    evidence: Evidence
    place: int
    where: Predicate
    table: Callable[[tuple[int, ...]], CellCounts | None]

    def quantile(self, q: float, failure: float) -> QuantileCodes | None:
        """The q-quantile; None where there may be no row and nothing is known."""
        if (span := self.span) is None:
            return None
        return quantile_in(self.ranks, lambda: self.fitted, span, q, failure)

    @property
    def regular(self) -> int:
        """How many ordinary codes the column has."""
        return self.schema.columns[self.place].regular

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The columns that it is about, in schema order."""
        return tuple(sorted({self.place, *self.where.columns}))

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The first and the last ordinary code that a row can have; None where no row can count."""
        allowed = values_on(self.up_to(0, self.regular - 1), self.schema.domain, self.columns) > 0
        axis = self.columns.index(self.place)
        others = tuple(a for a in range(len(self.columns)) if a != axis)
        held = np.flatnonzero(allowed.reshape(self.schema.domain.shape(self.columns)).any(axis=others))
        return (int(held[0]), int(held[-1])) if len(held) else None

    def up_to(self, first: int, last: int) -> Predicate:
        """The rows that count whose code lies between two."""
        domain = self.schema.domain
        inside = literal(domain, self.place, range(first, last + 1))
        return predicate(domain, all_of(domain, [any_box(domain, self.where.boxes), inside]))

    @cached_property
    def fitted(self) -> Vector:
        """The number of rows with each ordinary code by the synopsis itself."""
        domain, regular = self.schema.domain, self.regular
        if self.where == TRUE:
            asked = Workload(domain, (Marginal(domain, (self.place,)),))
        else:
            asked = Workload(domain, (Conjunctions.of(domain, [self.up_to(c, c) for c in range(regular)]),))
        return np.asarray(self.synopsis.answer(asked)[:regular] * self.synopsis.total.divisor)

    @cached_property
    def ranks(self) -> Ranks:
        """What is known best: the cells of a table or the ranks themselves, as they were measured, whichever has less
        noise; cells by reruns; or the synopsis with what bounds its answers."""
        cells = self.table(self.columns)
        apart = self._apart() if cells is None or self._ranges else None
        if cells is not None:
            inside = values_on(self.up_to(0, self.regular - 1), self.schema.domain, self.columns) > 0
            shape = self.schema.domain.shape(self.columns)
            codes = np.unravel_index(np.flatnonzero(inside), shape)[self.columns.index(self.place)]
            together = RanksTogether(cells.taken(inside), codes, self.regular, self.place)
            if apart is None or (cells.lawful and _less_noise(together, apart)):
                return together
        return EstimatedRanks(self) if apart is None else apart

    @property
    def _measured(self) -> NoisyAnswers | None:
        found = self.synopsis if isinstance(self.synopsis, NoisyAnswers) else self.evidence.measured
        return found if isinstance(found, NoisyAnswers) else None

    @property
    def _ranges(self) -> bool:
        """Whether ranges of the column were measured, which may say more of these rows than single values do."""
        if self._measured is None or self.columns != (self.place,):
            return False
        blocks = (self._measured.measured_block(number)[0] for number in self._measured.interval_blocks)
        return any(isinstance(block, Intervals) and block.column == self.place for block in blocks)

    def _apart(self) -> RanksApart | None:
        """Ranks from measurements of each; None where some of them were not measured."""
        if self._measured is None:
            return None
        found = []
        for code in range(self.regular):
            one = self._vector(self._measured, code)
            if one is None:
                return None
            found.append(one)
        return RanksApart(found)

    def _vector(self, measured: NoisyAnswers, code: int) -> NoisyVector | None:
        """What was measured of both sides of a code. Where all rows count and their number is public, one side tells
        the other."""
        total = measured.total
        if not total.exact or self.up_to(0, self.regular - 1).decided is not True:
            return noisy_vector(measured, self.both_sides(code))
        if code == self.regular - 1:
            return NoisyVector(np.array([total.value]), np.zeros((1, 0)), ())
        side = noisy_vector(measured, [self.up_to(0, code)])
        return None if side is None else side.extended(np.array([[1.0], [-1.0]]), np.array([0.0, total.value]))

    def both_sides(self, code: int) -> list[Predicate]:
        """The rows up to a code, and those beyond it where there is one."""
        last = self.regular - 1
        return [self.up_to(0, code), *([self.up_to(code + 1, last)] if code < last else [])]


def _less_noise(together: RanksTogether, apart: RanksApart) -> bool:
    """Whether the first has no more noise over all codes, for a median: the same choice for every quantile, and a
    public one."""
    first, second = (float(np.square(ranks.deviations(0.5)).sum()) for ranks in (together, apart))
    return first <= second


@dataclass(frozen=True, eq=False)
class EstimatedRanks:
    """Ranks from the answers of a synopsis, and from the intervals that it has for single counts, where it has any.

    P − q·N is (1 − q)·P − q·R, too, with R the rows beyond a code. Of both ways the one that may be off by less is
    taken, and the three counts share what may fail. Estimates take time, so that some codes are looked at: between two
    of them the larger margin is taken. Where an estimate is not the synopsis's own answer, what lies between them
    counts as off, too.
    """

    asked: ReleasedRanks
    seen: dict[tuple[Predicate, float], Estimate] = field(default_factory=dict)

    lawful = False

    @property
    def counts(self) -> Vector:
        """The number of rows with each code; see `Ranks`."""
        return self.asked.fitted

    @property
    def known(self) -> bool:
        """Whether the rows on one side of each code have an interval."""
        return self._reach(0.5, 0.05) is not None

    @property
    def basis(self) -> Basis:
        """The weakest of what the counts rest on, in the order of the list of all of them."""
        used = {each.basis for each in self.seen.values() if each.low is not None}
        return max(used, key=get_args(Basis).index) if used else "unguaranteed"

    def maybe_empty(self, failure: float) -> bool:
        """Whether there may be no row; see `Ranks`."""
        return float(self.counts.sum()) < 0.5

    def kept(self, q: float, failure: float, slack: tuple[float, float] = (0.0, 0.0)) -> tuple[int, int] | None:
        """The first and the last code that may be the quantile; see `Ranks`."""
        reach = self._reach(q, failure)
        return None if reach is None else possible_codes(self._excess(q), reach, slack)

    def _excess(self, q: float) -> Vector:
        sums = np.cumsum(self.counts)
        return np.asarray(sums - q * float(sums[-1]))

    def _reach(self, q: float, failure: float) -> Vector | None:
        """How far P − q·N may be off at each code; None where that is not known at some of them.

        Between two codes that were asked about it is at least what it is at the first, and at most what it is at the
        second: in the table it never falls.
        """
        last, excess = self.asked.regular - 1, self._excess(q)
        probes, found = np.unique(np.linspace(0, last, PROBES).astype(np.int64)), []
        every = self.asked.up_to(0, last)
        for code in probes.tolist():
            sides = self.asked.both_sides(code)
            ways = [list(zip(sides, (1 - q, -q)))] + [[(sides[0], 1.0), (every, -q)]] * (code < last)
            off = min(self._off(way, float(excess[code]), failure) for way in ways)
            if not math.isfinite(off):
                return None
            found.append(off)
        after, margins = np.searchsorted(probes, np.arange(last + 1)), np.array(found)
        before = np.where(probes[after] == np.arange(last + 1), after, after - 1)
        above = margins[after] + excess[probes[after]] - excess
        below = margins[before] + excess - excess[probes[before]]
        return np.asarray(np.maximum(above, below))

    def _off(self, way: list[tuple[Predicate, float]], excess: float, failure: float) -> float:
        """How far a weighted sum of counts may be off from what the synopsis says; infinite where it is not known."""
        told, off = 0.0, 0.0
        for rows, part in way:
            one = self._estimate(rows, failure)
            if one.low is None or one.high is None:
                return math.inf
            told += part * one.count
            off += abs(part) * max(one.high - one.count, one.count - one.low)
        return off + abs(told - excess)

    def _estimate(self, rows: Predicate, failure: float) -> Estimate:
        failure = float(f"{failure:.9g}")  # 1 − 0.95 is 0.05, and asked for once
        if (rows, failure) not in self.seen:
            asked, total = self.asked, self.asked.synopsis.total
            put = Workload(asked.schema.domain, (Conjunctions.of(asked.schema.domain, [rows]),))
            found = asked.synopsis.estimate(put, count_confidence(total, 1 - failure / 3), asked.evidence)
            self.seen[rows, failure] = found
        return self.seen[rows, failure]
