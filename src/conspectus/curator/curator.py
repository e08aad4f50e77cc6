"""The one room where rows and coins meet: four doors and no fifth.

A mechanism receives a `Curator` and never a row, a count or a coin. Each door first has its act admitted by the
allowance (and written to the ledger, where there is one), then draws, then lets only the noisy result out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.data.field import Elements
from conspectus.data.sources import Table
from conspectus.privacy import exponential, levels, noise
from conspectus.privacy.accounting import Allowance, scale_up
from conspectus.privacy.events import (
    Event,
    ExponentialDraws,
    FurtherHit,
    GaussianNoise,
    LaplaceNoise,
    Noise,
    Reach,
    RowTotal,
    StableKeys,
    ThresholdWatch,
)
from conspectus.privacy.guarantee import RELATIONS, Neighbours
from conspectus.queries.counting import count
from conspectus.queries.query import Block, Sparse, Workload
from conspectus.queries.sparse import SparseQueries

from . import kept
from .keys import Records, counted_keys, shown_keys
from .laminar import LaminarDatabases
from .nets import ListedNet, SmallDatabases
from .scores import GRID, SCORES, Score, error_of

Known = TypeVar("Known", bound="Score | Net")
Net = ListedNet | SmallDatabases | LaminarDatabases
NETS: tuple[type[Net], ...] = (ListedNet, SmallDatabases, LaminarDatabases)
"""Ranges to select from that need not be listed; closed, as the list of scores is."""

Progress = Callable[[str, int, int | None], None]
"""Told what is being done, how far it is and how long it will be; never told anything about the table."""


HALF = Fraction(1, 2)
"""The share of a watch's ε that the book gives to its threshold."""


class TotalIsPrivate(LookupError):
    """The number of rows was asked for where it is not public."""


class WatchOver(RuntimeError):
    """A watch was asked again after its last hit."""


class Debit(Protocol):
    """Where an act is written down before its coins are drawn: a ledger's reservation."""

    def debit(self, event: Event) -> None: ...


class Curator:
    """Holds the table, the coins and the allowance; see the proof notes in `curator.proof.md`."""

    def __init__(
        self,
        table: Table,
        allowance: Allowance,
        *,
        neighbours: Neighbours,
        reservation: Debit | None = None,
        coins: noise.Coins | None = None,
        progress: Progress | None = None,
    ) -> None:
        if neighbours == "add-remove" and table.schema.unit.users is not None:
            raise ValueError("a table of a declared number of users has no neighbour with one user more")
        self.neighbours: Neighbours = neighbours
        self.domain: Domain = table.domain
        self.max_rows: int = table.schema.unit.max_rows
        # Where rows may be dropped, a unit holds between none and max_rows of them, and the row total is private.
        self.rows_are_units: bool = table.schema.unit.whole and not table.filtered
        self.total_is_public: bool = neighbours == "replace" and self.rows_are_units
        self._table = table
        self._allowance = allowance
        self._reservation = reservation
        self._coins = coins or noise.SystemCoins()
        self._progress = progress
        self._counts: dict[Block, NDArray[np.int64]] = {}
        self._latest: tuple[Workload, NDArray[np.int64]] | None = None
        self._rows: int | None = None
        self._kept: kept.Kept | None = None
        self._held: tuple[Elements | Records, NDArray[np.int64]] | None = None
        self._lock = threading.RLock()

    def attend(self, workload: Workload) -> None:
        """Count a workload in one pass, ahead of the doors that will read it. Nothing leaves."""
        with self._lock:
            missing = tuple(dict.fromkeys(block for block in workload.blocks if block not in self._counts))
            if not missing and self._rows is not None:
                return
            wanted = Workload(self.domain, missing)
            counts, rows = count(wanted, self._table.chunks(wanted.columns), progress=self._progress)
            self._rows = rows
            for block, start in zip(missing, wanted.offsets):
                # Kept in the block's own steps: the next workload that holds it may have another grid.
                self._counts[block] = counts[start : start + len(block)] // (wanted.grid // block.grid)

    def keep(self) -> None:
        """Hold the whole table ready for single questions: in one pass, then in memory. Nothing leaves."""
        with self._lock:
            if self._kept is None:
                self._kept = kept.keep(self.domain, self._table.chunks())
                self._rows = self._kept.rows

    def tell(self, what: str, done: int, total: int | None) -> None:
        """Pass on how far a mechanism is: public by the mechanism's own plan."""
        if self._progress is not None:
            self._progress(what, done, total)

    def rows(self) -> int:
        """The exact number of rows where it is public: rows are the units, they are replaced, none was filtered."""
        if not self.total_is_public:
            raise TotalIsPrivate("the number of rows is private here: measure it, or declare it with rows=")
        with self._lock:
            self._debit(RowTotal())
            if self._rows is None:
                self.attend(Workload(self.domain, ()))
            assert self._rows is not None
            return self._rows

    def measure(self, what: Workload | Score, law: Noise) -> NDArray[np.int64]:
        """Noisy values of a workload in steps of its grid, or of a score in its own, with independent integer noise.

        Guarantee: the act is LaplaceNoise or GaussianNoise with the joint sensitivity of everything it publishes.
        """
        with self._lock:
            self._debit(measurement(what, law, max_rows=self.max_rows, rows_are_units=self.rows_are_units))
            draw = noise.discrete_laplace if law.kind == "laplace" else noise.discrete_gaussian
            return draw(self._truth(what), law.scale, self._coins)

    def select(
        self, score: Score | Net, epsilon: Fraction, *, draws: int = 1, barred: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """`draws` candidates, with replacement, each by the exponential mechanism of range `epsilon` in all.

        With `barred`, candidates of a score that are out of the question by what is public, none is drawn twice.

        A candidate is a number; a member of a net is a line of numbers that the net explains.

        Guarantee: the act is ExponentialDraws of range epsilon: 2·rate·reach from the score, the rest for rounding.
        """
        with self._lock:
            reach = _listed(score, (*SCORES, *NETS)).reach(self.max_rows, self.rows_are_units)
            here = reach.under(self.neighbours)
            if here is None:
                raise ValueError("a selection needs a score with a known sensitivity")
            if barred is not None and (isinstance(score, Net) or draws > score.candidates - len(np.unique(barred))):
                raise ValueError("different candidates are drawn from a score that has as many left")
            rate = selection_rate(here, epsilon)
            spread = reach.mapped(lambda step: selection_range(step, rate))
            self._debit(ExponentialDraws(range=spread, draws=draws))
            if isinstance(score, Net):
                ranked = score.ranked(self._truth(score.workload), levels.cutoff(score.mass, rate))
                known = ranked.distances, ranked.masses
                drawn = levels.draw_levels(*known, total=score.mass, rate=rate, draws=draws, coins=self._coins)
                return np.array([ranked.member(level, rank) for level, rank in drawn], dtype=np.int64)
            scores = self._truth(score)
            if barred is None:
                return exponential.draw(scores, rate=rate, draws=draws, coins=self._coins)
            return exponential.peel(scores, barred, rate=rate, draws=draws, coins=self._coins)

    def above_threshold(
        self, threshold: Fraction, epsilon: Fraction, *, share: Fraction = HALF, hits: int = 1
    ) -> Watch:
        """A watch over a stream of single queries: is |count − guess| at least about `threshold` counts?

        It answers until it has said yes `hits` times. `share` is the part of ε that hides the threshold, the rest hides
        each error; the book's Algorithm 1 is a half with one hit. A watch with several hits keeps one threshold, pays ε
        for the first hit and (1 − share)·ε, before it goes on, for each further one. A unit of at most m rows may move
        each query by at most m counts; any other is refused.

        Guarantee: the act is ThresholdWatch of this epsilon, until and including the first hit (book, Algorithm 1), and
        FurtherHit of (1 − share)·epsilon for the stretch up to and including each hit after it.
        """
        if not 0 < share < 1 or hits < 1 or epsilon <= 0:
            raise ValueError("a watch splits an epsilon above 0 in two parts, and has at least one hit")
        with self._lock:
            self._debit(_watching(epsilon))
            reach = Fraction(GRID * self.max_rows)
            steps = np.array([int(threshold * GRID)], dtype=np.int64)
            noisy = noise.discrete_laplace(steps, scale_up(reach / (share * epsilon)), self._coins)
            further = (1 - share) * epsilon
            return Watch(
                self._noisy_error,
                int(noisy[0]),
                scale_up(2 * reach / further),
                hits=hits,
                go_on=lambda: self._go_on(further),
                affords=lambda: self._allowance.admits(_further(further)),
            )

    def affords_watch(self, epsilon: Fraction) -> bool:
        """Whether the allowance has a watch of this epsilon left. Nothing is spent, and the table is not looked at."""
        return self._allowance.admits(_watching(epsilon))

    def _go_on(self, epsilon: Fraction) -> None:
        with self._lock:
            self._debit(_further(epsilon))

    def stable_keys(self, scale: float, threshold: int) -> tuple[Elements | Records, NDArray[np.int64]]:
        """The keys of rows whose noisy counts reach a threshold, sorted, and these counts.

        A key is the canonical form of a record, where the table has records of any kind that can be read, or the
        address of a row. Every key that some row has gets independent discrete Laplace noise; what stays below is never
        seen.

        Guarantee: the act is StableKeys: (ε, δ)-differentially private with ε = reach/scale and the δ of the threshold.
        """
        with self._lock:
            self._debit(keys_act(scale, threshold, max_rows=self.max_rows))
            keys, counts = self._keys()
            return shown_keys(keys, noise.discrete_laplace(counts, scale, self._coins), threshold)

    def _keys(self) -> tuple[Elements | Records, NDArray[np.int64]]:
        if self._held is None:
            self._held = counted_keys(self._table)
        return self._held

    def _noisy_error(self, query: Workload, guess: float, scale: float) -> int:
        with self._lock:
            # A weight in [0, 1] moves by at most one, so records that are listed need no look at their sensitivity.
            small = query.counting or _lists_records(query)
            if not small and query.step(self.neighbours, self.max_rows, self.rows_are_units) > self.max_rows:
                raise ValueError("one unit moves this query by more than a watch allows for: measure it instead")
            error = error_of(int(self._truth(query)[0]), query.grid, guess)
            return int(noise.discrete_laplace(np.array([error], dtype=np.int64), scale, self._coins)[0])

    def _debit(self, event: Event) -> None:
        self._allowance.admit(event)
        if self._reservation is not None:
            self._reservation.debit(event)

    def _truth(self, what: Workload | Score) -> NDArray[np.int64]:
        if not isinstance(what, Workload):
            return _listed(what).of(self._truth(what.workload))
        if self._latest is not None and self._latest[0] is what:
            return self._latest[1]
        if self._kept is not None and len(what) == 1 and (what.counting or _lists_records(what)):
            query = what.query(0)
            finer = what.grid // query.grid if isinstance(query, Sparse) else 1
            return np.array([self._kept.count(query) * finer], dtype=np.int64)
        self.attend(what)
        parts = [self._counts[block] * (what.grid // block.grid) for block in what.blocks]
        truth = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        self._latest = (what, truth)
        return truth


class Watch:
    """A sparse vector: its noisy threshold is a secret, and it ends with its last hit.

    It answers in the process that opened it alone: a fork copies the threshold, and would have its own last hit.
    """

    def __init__(
        self,
        noisy_error: Callable[[Workload, float, float], int],
        threshold: int,
        scale: float,
        *,
        hits: int = 1,
        go_on: Callable[[], None] | None = None,
        affords: Callable[[], bool] | None = None,
    ) -> None:
        self._noisy_error = noisy_error
        self._threshold = threshold
        self._scale = scale
        self._left = hits
        self._go_on = go_on
        self._affords = affords
        self._unpaid = False
        self._process = os.getpid()
        self._lock = threading.Lock()

    @property
    def over(self) -> bool:
        """Whether it has had its last hit."""
        return self._left == 0

    @property
    def unaffordable(self) -> bool:
        """Whether its next stretch costs more than what is left."""
        return self._unpaid and self._affords is not None and not self._affords()

    def exceeds(self, query: Workload, guess: float) -> bool:
        """Whether the guess (in counts) for a workload of one query is off by more than the threshold, noisily."""
        if len(query) != 1:
            raise ValueError("a watch is asked one query at a time")
        if os.getpid() != self._process:
            raise WatchOver("this watch belongs to the process that opened it: open another one in this process")
        with self._lock:
            if self._left == 0:
                raise WatchOver("this watch ended with its last hit: open another one")
            if self._unpaid and self._go_on is not None:
                self._go_on()  # the next stretch is paid before its first coin
            self._unpaid = False
            hit = self._noisy_error(query, guess, self._scale) >= self._threshold
            self._left -= hit
            self._unpaid = hit
            return hit


def _watching(epsilon: Fraction) -> ThresholdWatch:
    return ThresholdWatch(epsilon=Reach(replace=epsilon, add_remove=epsilon))


def _further(epsilon: Fraction) -> FurtherHit:
    return FurtherHit(epsilon=Reach(replace=epsilon, add_remove=epsilon))


def _lists_records(query: Workload) -> bool:
    return all(isinstance(block, SparseQueries) for block in query.blocks)


def _listed(score: Known, known: tuple[type[Score | Net], ...] = SCORES) -> Known:
    """The score, if it is on a closed list: a stranger could understate how far one unit moves it."""
    if type(score) not in known:
        raise TypeError("this score is not on the list of proved ones")
    return score


def measurement(what: Workload | Score, law: Noise, *, max_rows: int, rows_are_units: bool) -> Event:
    """The act of measuring a workload or a listed score with this noise; a function of public facts alone."""
    if isinstance(what, Workload):
        replace, add_remove = (what.sensitivity(relation, max_rows, rows_are_units) for relation in RELATIONS)
        l1 = Reach(replace=Fraction(replace.l1), add_remove=Fraction(add_remove.l1))
        squared = Reach(replace=Fraction(replace.l2_squared), add_remove=Fraction(add_remove.l2_squared))
        linf = Reach(replace=Fraction(replace.linf), add_remove=Fraction(add_remove.linf))
    else:
        linf = _listed(what).reach(max_rows, rows_are_units)
        l1 = linf.mapped(lambda step: step * what.candidates)
        squared = linf.mapped(lambda step: step * step * what.candidates)
    scale = Fraction(law.scale)
    if law.kind == "laplace":
        return LaplaceNoise(reach=l1, reach_squared=squared, reach_max=linf, scale=scale)
    return GaussianNoise(reach_squared=squared, sigma_squared=scale * scale)


def keys_act(scale: float, threshold: int, *, max_rows: int) -> StableKeys:
    """The act of publishing keys; a function of public facts alone."""
    reach = Reach(replace=Fraction(2 * max_rows), add_remove=Fraction(max_rows))
    return StableKeys(reach=reach, rows=max_rows, scale=Fraction(scale), threshold=threshold)


def selection_rate(reach: Fraction, epsilon: Fraction) -> Fraction:
    """The rate at which `select` draws, with probability ∝ exp(rate·score), for a range of epsilon."""
    if epsilon <= exponential.slack():
        raise ValueError("a selection needs a budget above its rounding")
    return (epsilon - exponential.slack()) / (2 * reach)


def selection_range(reach: Fraction, rate: Fraction) -> Fraction:
    """The range to ask `select` for, so that candidates are drawn with probability ∝ exp(rate·score), exactly."""
    return 2 * rate * reach + exponential.slack()
