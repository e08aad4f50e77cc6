"""Stable values, and functions on subsamples of the table: mistakes of the book, and the ones that are feared most."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.curator.scores import LargestCounts, MiddleRanks, Score
from conspectus.curator.stable_statistics import StableMedian, StableMode, StableStatistic
from conspectus.curator.subsamples import subsample_numbers
from conspectus.privacy.noise import discrete_laplace
from conspectus.privacy.relation import Neighbours
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.subsample_results import Function, Listed, SubsampleVotes, Subsampling
from conspectus.queries.blocks.unsafe_functions import in_order
from conspectus.queries.workload import Workload
from conspectus.stability.value_planning import least_threshold

from .choices import MonotoneDiscount
from .doors import ForgottenFactor, Play, Tables, case, coin_domain, one_column
from .plays import Experiment

SUBSAMPLES, WIDTH, MIDDLE = 8, 6, 56
DELTA, EPSILON = 0.01, Fraction(1, 2)


class HalfTheVotes(MonotoneDiscount):
    """Broken on purpose: votes charged as if they were counts of rows, which all move in one direction (Claim 3.9)."""


class ByPosition(Curator):
    """Broken on purpose: rows are divided into stretches of equal length, so that one row more moves all the others."""

    def _truth(self, what: Workload | Score) -> NDArray[np.int64]:
        if not hasattr(self, "_stretches"):
            table = self._known.table
            chunks = [np.stack([chunk.column(c) for c in range(WIDTH)], axis=1) for chunk in table.chunks()]
            rows = in_order(np.concatenate(chunks).astype(np.int64))
            ends = [place * len(rows) // SUBSAMPLES for place in range(SUBSAMPLES + 1)]
            votes = [odd_ones(rows[a:b]) for a, b in pairwise(ends)]
            self._stretches = np.bincount(votes, minlength=2)
        assert isinstance(what, LargestCounts)
        return what.of(self._stretches)


class PrintedThreshold(Curator):
    """Broken on purpose: the threshold that Algorithm 12 prints, 1 + ln(1/δ), which is not divided by ε."""

    def stable_value(
        self, what: StableStatistic, scale: float, threshold: int, *, noise_scale: float | None = None
    ) -> int | None:
        moved = what.moved(self.relation).under(self.relation.neighbours)
        assert moved is not None
        return super().stable_value(what, scale, int(moved) + math.ceil(math.log(1 / DELTA)), noise_scale=noise_scale)


class LocalSensitivity(Curator):
    """Broken on purpose: no test, and noise in proportion to how far one unit moves the median of this very table."""

    def stable_value(
        self, what: StableStatistic, scale: float, threshold: int, *, noise_scale: float | None = None
    ) -> int | None:
        moved = what.moved(self.relation).under(self.relation.neighbours)
        assert moved is not None
        found = what.of(self._truth(what.workload))
        if found.distance > moved:
            return found.value
        return int(discrete_laplace(np.array([found.value]), float(1 / EPSILON), self._sampler)[0])


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """Votes that move as far as they can, rows that all move up, and values that one unit changes."""
    yield case("subsample-votes", neighbours, _flipped(neighbours), _voting(odd_rows), HalfTheVotes)
    yield case("subsamples", neighbours, _shifted(neighbours), _voting(odd_ones), ByPosition)
    yield case("subsample-ranks", neighbours, _leaning(neighbours), _ranking(), ForgottenFactor)
    moved = 2 if neighbours is Neighbours.REPLACE else 1
    scale = float(moved / EPSILON)
    level = least_threshold(scale, moved, Fraction(DELTA))
    claim = (float(EPSILON), DELTA)
    counts = one_column()
    # One unit away from the other mode, and at it; then a median that one unit cannot change, and one that it can.
    play = _publishing(StableMode(counts), scale, level)
    yield case("stable-value-threshold", neighbours, _coins(neighbours, 0), play, PrintedThreshold, claim)
    play = _publishing(StableMedian(counts), scale, level)
    yield case("stable-value-local", neighbours, _coins(neighbours, 1), play, LocalSensitivity, claim)


def odd_rows(codes: NDArray[np.int64]) -> int:
    """Whether there is an odd number of rows: one row more or less always changes it."""
    return len(codes) % 2


def odd_ones(codes: NDArray[np.int64]) -> int:
    """Whether an odd number of rows has a one in the last column."""
    return int(codes[:, -1].sum()) % 2


def _voting(function: Function) -> Play:
    domain = coin_domain(WIDTH)
    votes = SubsampleVotes(domain, Subsampling(function, SUBSAMPLES, Listed((0, 1), (0,)), 60.0, 0))
    score = LargestCounts(Workload(domain, (votes,)))
    return lambda curator: float(curator.select(score, Fraction(1))[0])


def _flipped(neighbours: Neighbours) -> Tables:
    """A few subsamples with an odd number of rows; and the neighbour where one, or two of them, have an even number."""
    rows = np.array([[(number >> bit) & 1 for bit in range(WIDTH)] for number in range(1 << WIDTH)])
    ordered = in_order(rows)
    subsamples = subsample_numbers(ordered, SUBSAMPLES, 0)
    alone = [ordered[subsamples == subsample] for subsample in range(3)]
    if neighbours is Neighbours.REPLACE:
        # Subsamples 0 and 1 are odd. A row leaves subsample 0, and another one comes into subsample 1.
        return np.stack([alone[0][0], alone[1][0]]), np.stack([alone[1][1], alone[1][0]])
    return np.stack([subsample[0] for subsample in alone]), np.stack([alone[0][0], alone[1][0]])


def _shifted(neighbours: Neighbours) -> Tables:
    """Rows in order whose last column is 1, 1, 0, 0, 1, 1, …: two by two even, and odd if all move up by one."""
    numbers = np.arange(1, 2 * SUBSAMPLES + 1)
    leading = [(numbers >> bit) & 1 for bit in reversed(range(WIDTH - 1))]
    rows = np.stack([*leading, (np.arange(2 * SUBSAMPLES) // 2 + 1) % 2], axis=1)
    first = np.zeros((1, WIDTH), dtype=np.int64)
    kept = rows[:-1] if neighbours is Neighbours.REPLACE else rows
    return rows, np.concatenate([first, kept])


def _leaning(neighbours: Neighbours) -> Tables:
    """Rows at both ends and few at the median; one more on the left lifts all on that side, and lowers the others."""
    here, there = ([4, 2, 4], [5, 2, 3]) if neighbours is Neighbours.REPLACE else ([4, 1, 4], [5, 1, 4])
    numbers = np.array([0, MIDDLE, (1 << WIDTH) - 1])
    cells = np.stack([(numbers >> bit) & 1 for bit in reversed(range(WIDTH))], axis=1)
    return np.repeat(cells, here, axis=0), np.repeat(cells, there, axis=0)


def _ranking() -> Play:
    """Whether a position on the right of the median is chosen, of all cells of the table in a row."""
    domain = coin_domain(WIDTH)
    score = MiddleRanks(Workload(domain, (Marginal(domain, tuple(range(WIDTH))),)))
    return lambda curator: float(curator.select(score, Fraction(1))[0] > MIDDLE)


def _coins(neighbours: Neighbours, further: int) -> Tables:
    """Zeros and ones, the zeros winning by so little that one unit decides; `further` by one unit more."""
    ones, moved = 10, 2 if neighbours is Neighbours.REPLACE else 1
    zeros = ones + (1 if moved == 2 else 0) + further * moved
    here = np.repeat([[0], [1]], [zeros, ones], axis=0)
    there = [zeros - 1, ones + 1] if moved == 2 else [zeros, ones + 1]
    return here, np.repeat([[0], [1]], there, axis=0)


def _publishing(what: StableStatistic, scale: float, threshold: int) -> Play:
    return lambda curator: float(curator.stable_value(what, scale, threshold) == 0)
