"""The closed list of values that may be published where they are stable, each with its distance to another value.

A statistic is a deterministic function of exact counts over an ordered list (the codes of a column, or the results that
subsamples of a table voted for) to a whole number, and to a whole distance: how far counts must move until the value
may be another one. Why one unit moves a distance by no more than it says, and why values that one unit can change have
a small one, is written in `stable_statistics.proof.md`; `stable_value` publishes nothing that is not on this list.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conspectus.privacy.events import ByRelation
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.subsample_results import SubsampleVotes
from conspectus.queries.proved_kinds import proved
from conspectus.queries.sensitivity import CountingBlock
from conspectus.queries.workload import Workload

LOG_STEPS = 256
"""Steps to one in the logarithm to base two of an interquartile range."""

BINS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Into how many bins a doubling of an interquartile range may be divided."""

FARTHEST = 1 << 40
"""The distance of a value that no table changes."""

NO_SPREAD = -(1 << 40)
"""What stands for the logarithm of 0."""

Counts = NDArray[np.int64]


class Stable(NamedTuple):
    """A value, and a distance within which every table has nearly the same one."""

    value: int
    distance: int


@dataclass(frozen=True, eq=False)
class StableMode:
    """The position of the largest count, the first one of several.

    Guarantee: one unit moves the distance by at most the L1 sensitivity of the counts, and where it changes the value
    the distance is at most that.
    """

    workload: Workload

    def __post_init__(self) -> None:
        _check(self.workload)

    @property
    def spread(self) -> int:
        return 0

    def moved(self, relation: Relation) -> ByRelation:
        return _l1(self.workload, relation)

    def of(self, counts: Counts) -> Stable:
        mode = int(counts.argmax())
        places = np.arange(len(counts))
        gaps = (counts[mode] - counts + (places > mode))[places != mode]
        return Stable(mode, int(gaps.min(initial=FARTHEST)))


@dataclass(frozen=True, eq=False)
class StableMedian:
    """The position of the lower median; the first position where nothing was counted.

    Its distance says how far it is to a table from which one unit moves the median by more than `within` positions:
    with 0 the median is published as it is, and otherwise with noise for as much as that.

    Guarantee: one unit moves the distance by at most the L1 sensitivity of the counts, and where it moves the value by
    more than `within` the distance is at most that.
    """

    workload: Workload
    within: int = 0

    def __post_init__(self) -> None:
        _check(self.workload)
        if type(self.within) is not int or self.within < 0:
            raise ValueError("how far a median may move is a whole number from 0 on")

    @property
    def spread(self) -> int:
        return self.within

    def moved(self, relation: Relation) -> ByRelation:
        return _l1(self.workload, relation)

    def of(self, counts: Counts) -> Stable:
        ranks = 2 * counts.cumsum() - counts.sum()
        return Stable(_first(ranks, 0), _farthest(lambda r: _first(ranks, r) - _first(ranks, -r) <= self.within, ranks))


@dataclass(frozen=True, eq=False)
class LogScale:
    """The logarithm to base two of the interquartile range, in whole steps of 1/`LOG_STEPS`; `NO_SPREAD` for 0.

    The book's Algorithm 12: the logarithm lies in one of the bins [k, k + 1), or [k − ½, k + ½) with `shifted`, and the
    distance is that to a table with another bin. With `bins` each of these is divided into so many, a power of two, and
    shifted by half of one. The range is counted in positions.

    Guarantee: a unit of at most m rows moves the distance by at most 3·m where it is added or removed, and 4·m where it
    is replaced; a subsample that changes its vote, by 4. Where it changes the bin, the distance is at most that. Within
    a bin values differ by less than `LOG_STEPS`/`bins`.
    """

    workload: Workload
    shifted: bool = False
    bins: int = 1

    def __post_init__(self) -> None:
        _check(self.workload)
        if type(self.bins) is not int or self.bins not in BINS:
            raise ValueError("a doubling is divided into a power of two of bins, each of two steps at least")

    @property
    def spread(self) -> int:
        return LOG_STEPS // self.bins

    def moved(self, relation: Relation) -> ByRelation:
        if not self.workload.counting:
            return _l1(self.workload, relation).mapped(lambda moved: 2 * moved)
        return ByRelation(replace=Fraction(4 * relation.max_rows), add_remove=Fraction(3 * relation.max_rows))

    def of(self, counts: Counts) -> Stable:
        below, rows = 4 * counts.cumsum(), int(counts.sum())
        first, third = below - rows, below - 3 * rows
        bin_here = self._bin(_first(third, 0) - _first(first, 0))

        def stays(r: int) -> bool:
            widest = _first(third, r) - _first(first, -r)
            narrowest = max(_first(third, -r) - _first(first, r), 0)
            return self._bin(widest) == bin_here == self._bin(narrowest)

        return Stable(log_steps(_first(third, 0) - _first(first, 0)), _farthest(stays, np.concatenate([first, third])))

    def _bin(self, width: int) -> int:
        steps = log_steps(width)
        return steps if width == 0 else (steps + (self.spread // 2 if self.shifted else 0)) // self.spread


def log_steps(width: int) -> int:
    """⌊`LOG_STEPS`·log₂(width)⌋, exactly; `NO_SPREAD` for 0."""
    return (width**LOG_STEPS).bit_length() - 1 if width else NO_SPREAD


def _first(ranks: Counts, level: int) -> int:
    """The first position whose rank reaches a level, the last one if none does. Ranks never fall."""
    return min(int(np.searchsorted(ranks, level, side="left")), len(ranks) - 1)


def _farthest(holds: Callable[[int], bool], ranks: Counts) -> int:
    """One more than the largest whole number for which something holds that holds for 0 and, if at all, then before.

    Beyond all ranks nothing changes any more: what still holds there holds for good.
    """
    beyond = int(np.abs(ranks).max()) + 1
    return FARTHEST if holds(beyond) else bisect_left(range(1, beyond), True, key=lambda r: not holds(r)) + 1


def _l1(workload: Workload, relation: Relation) -> ByRelation:
    """How far one unit moves all counts together: its rows, which are counted once each, or the votes it changes."""
    if not workload.counting:
        return ByRelation.of(relation, lambda each: workload.sensitivity(each).l1)
    return ByRelation(replace=Fraction(2 * relation.max_rows), add_remove=Fraction(relation.max_rows))


def _check(workload: Workload) -> None:
    """Refuse counts of which nothing is proved: a row is counted once at most, or subsamples of a table have votes."""
    counting = [block for block in proved(workload).blocks if isinstance(block, CountingBlock)]
    once = len(counting) == len(workload.blocks) == 1 and counting[0].max_satisfied() <= 1
    votes = len(workload.blocks) == 1 and type(workload.blocks[0]) is SubsampleVotes
    if not (once or votes) or not len(workload):
        raise ValueError("stable values are those of one column, or of the votes of subsamples of a table")


StableStatistic = StableMode | StableMedian | LogScale
STABLE: tuple[type[StableStatistic], ...] = (StableMode, StableMedian, LogScale)
"""The list is closed: the curator refuses any other type, subclasses included."""
