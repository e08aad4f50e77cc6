"""The one room where rows and coins meet: three doors and no fourth.

A mechanism receives a `Curator` and never a row, a count or a coin. Each door first has its act admitted by the
allowance (and written to the ledger, where there is one), then draws, then lets only the noisy result out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.data.sources import Table
from conspectus.privacy import exponential, noise
from conspectus.privacy.accounting import Allowance, scale_up
from conspectus.privacy.events import (
    Event,
    ExponentialDraws,
    GaussianNoise,
    LaplaceNoise,
    Noise,
    Reach,
    RowTotal,
    ThresholdWatch,
)
from conspectus.privacy.guarantee import RELATIONS, Neighbours
from conspectus.queries.counting import count
from conspectus.queries.query import Block, Workload

from .scores import GRID, SCORES, Score, query_errors

Progress = Callable[[str, int, int | None], None]
"""Told what is being done, how far it is and how long it will be; never told anything about the table."""


class TotalIsPrivate(LookupError):
    """The number of rows was asked for where it is not public."""


class WatchOver(RuntimeError):
    """A watch was asked again after its first hit."""


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
                self._counts[block] = counts[start : start + len(block)]

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
        """Noisy counts of a workload, or noisy scores in grid steps, with independent integer noise.

        Guarantee: the act is LaplaceNoise or GaussianNoise with the joint sensitivity of everything it publishes.
        """
        with self._lock:
            self._debit(measurement(what, law, max_rows=self.max_rows, rows_are_units=self.rows_are_units))
            draw = noise.discrete_laplace if law.kind == "laplace" else noise.discrete_gaussian
            return draw(self._truth(what), law.scale, self._coins)

    def select(self, score: Score, epsilon: Fraction, *, draws: int = 1) -> NDArray[np.int64]:
        """`draws` candidates, with replacement, each by the exponential mechanism of range `epsilon` in all.

        Guarantee: the act is ExponentialDraws of range epsilon: 2·rate·reach from the score, the rest for rounding.
        """
        with self._lock:
            reach = _listed(score).reach(self.max_rows)
            here = reach.under(self.neighbours)
            slack = exponential.slack()
            if here is None or epsilon <= slack:
                raise ValueError("a selection needs a score with a known sensitivity and a budget above its rounding")
            rate = (epsilon - slack) / (2 * here)
            spread = _mapped(reach, lambda step: 2 * rate * step + slack)
            self._debit(ExponentialDraws(range=spread, draws=draws))
            return exponential.draw(self._truth(score), rate=rate, draws=draws, coins=self._coins)

    def above_threshold(self, threshold: Fraction, epsilon: Fraction) -> Watch:
        """A watch over a stream of single queries: is |count − guess| at least about `threshold` counts?

        Guarantee: the act is ThresholdWatch of this epsilon, until and including the first hit (book, Algorithm 1).
        """
        with self._lock:
            self._debit(ThresholdWatch(epsilon=Reach(replace=epsilon, add_remove=epsilon)))
            reach = Fraction(GRID * self.max_rows)
            steps = np.array([int(threshold * GRID)], dtype=np.int64)
            noisy = noise.discrete_laplace(steps, scale_up(2 * reach / epsilon), self._coins)
            return Watch(self._noisy_error, int(noisy[0]), scale_up(4 * reach / epsilon))

    def _noisy_error(self, query: Workload, guess: float, scale: float) -> int:
        with self._lock:
            score = query_errors(query, np.array([guess]))
            return int(noise.discrete_laplace(self._truth(score), scale, self._coins)[0])

    def _debit(self, event: Event) -> None:
        self._allowance.admit(event)
        if self._reservation is not None:
            self._reservation.debit(event)

    def _truth(self, what: Workload | Score) -> NDArray[np.int64]:
        if not isinstance(what, Workload):
            return _listed(what).of(self._truth(what.workload))
        if self._latest is not None and self._latest[0] is what:
            return self._latest[1]
        self.attend(what)
        parts = [self._counts[block] for block in what.blocks]
        truth = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        self._latest = (what, truth)
        return truth


class Watch:
    """One AboveThreshold: its noisy threshold is a secret, and it ends with its first hit."""

    def __init__(self, noisy_error: Callable[[Workload, float, float], int], threshold: int, scale: float) -> None:
        self._noisy_error = noisy_error
        self._threshold = threshold
        self._scale = scale
        self._over = False
        self._lock = threading.Lock()

    def exceeds(self, query: Workload, guess: float) -> bool:
        """Whether the guess (in counts) for a workload of one query is off by more than the threshold, noisily."""
        if len(query) != 1:
            raise ValueError("a watch is asked one query at a time")
        with self._lock:
            if self._over:
                raise WatchOver("this watch ended with its first hit: open another one")
            self._over = self._noisy_error(query, guess, self._scale) >= self._threshold
            return self._over


def _listed(score: Score) -> Score:
    """The score, if it is on the closed list: a stranger could understate how far one unit moves it."""
    if type(score) not in SCORES:
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
        linf = _listed(what).reach(max_rows)
        l1 = _mapped(linf, lambda step: step * what.candidates)
        squared = _mapped(linf, lambda step: step * step * what.candidates)
    scale = Fraction(law.scale)
    if law.kind == "laplace":
        return LaplaceNoise(reach=l1, reach_squared=squared, reach_max=linf, scale=scale)
    return GaussianNoise(reach_squared=squared, sigma_squared=scale * scale)


def selection_range(reach: Fraction, rate: Fraction) -> Fraction:
    """The range to ask `select` for, so that candidates are drawn with probability ∝ exp(rate·score), exactly."""
    return 2 * rate * reach + exponential.slack()


def _mapped(reach: Reach, change: Callable[[Fraction], Fraction]) -> Reach:
    return Reach(
        replace=None if reach.replace is None else change(reach.replace),
        add_remove=None if reach.add_remove is None else change(reach.add_remove),
    )
