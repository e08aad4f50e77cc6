"""The one room where rows and coins meet: five doors and no sixth.

A mechanism receives a `Curator` and never a row, a count or a coin. Each door finds the exact numbers it will hide, has
its act admitted by the allowance (and written to the ledger, where there is one), then draws, then lets only the noisy
result out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.data.records.field import Elements
from conspectus.data.sources import Table
from conspectus.privacy import exponential, levels, noise
from conspectus.privacy.accounting import Allowance, Debit
from conspectus.privacy.events import Event, Noise, RowTotal
from conspectus.privacy.permute_and_flip import permute_and_flip
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks.residual import Residual
from conspectus.queries.proved_kinds import proved
from conspectus.queries.workload import Workload

from .acts import (
    Net,
    Rule,
    further_act,
    keys_act,
    listed,
    measurement,
    relation_of,
    residual_act,
    selection,
    stable_act,
    watch_act,
    watch_scales,
)
from .keys import Records, shown_keys
from .scores import ERROR_STEPS, Score, error_of
from .stable_statistics import StableStatistic
from .truth import Progress, Truth, lists_records
from .watch import Watch

Found = TypeVar("Found")
HALF = Fraction(1, 2)
"""The share of a watch's ε that the book gives to its threshold."""


class TotalIsPrivate(LookupError):
    """The number of rows was asked for where it is not public."""


class Curator:
    """Holds the truth about a table, the coins and the allowance; see the proof notes in `curator.proof.md`.

    A `Truth` that has read its table already may stand for the table: what it read is not read again.
    """

    def __init__(
        self,
        table: Table | Truth,
        allowance: Allowance,
        *,
        neighbours: Neighbours,
        debit: Debit | None = None,
        sampler: noise.Sampler | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._known = table if isinstance(table, Truth) else Truth(table)
        self._known.progress = progress
        held = self._known.table
        self.relation: Relation = relation_of(held.schema, neighbours, filtered=held.filtered)
        self.domain: Domain = held.domain
        self._allowance = allowance
        self._written = debit
        self._sampler = sampler or noise.SystemSampler()
        self._progress = progress
        self._lock = threading.RLock()

    def count_ahead(self, workload: Workload) -> None:
        """Count a workload ahead of the doors that will read it: in one pass, or from what is known. Nothing leaves."""
        with self._lock:
            self._known.counts(workload)

    def hold_in_memory(self) -> None:
        """Hold the whole table ready for single questions. Nothing leaves."""
        with self._lock:
            self._known.hold_in_memory()

    def report_progress(self, what: str, done: int, total: int | None) -> None:
        """Pass on how far a mechanism is: public by the mechanism's own plan."""
        if self._progress is not None:
            self._progress(what, done, total)

    def rows(self) -> int:
        """The exact number of rows where it is public: rows are the units, they are replaced, none was filtered."""
        if not self.relation.total_is_public:
            raise TotalIsPrivate("the number of rows is private here: measure it, or declare it with rows=")
        with self._lock:
            self._debit(RowTotal())
            return self._known.rows()

    def measure(self, what: Workload | Score, law: Noise) -> NDArray[np.int64]:
        """Noisy values of a workload in steps of its grid, or of a score in its own, with independent integer noise.

        Guarantee: the act is LaplaceNoise or GaussianNoise with the joint sensitivity of everything it publishes.
        """
        with self._lock:
            exact = self._debited(measurement(what, law, relation=self.relation), lambda: self._truth(what))
            draw = noise.discrete_laplace if law.kind == "laplace" else noise.discrete_gaussian
            return draw(exact, law.scale, self._sampler)

    def measure_residuals(self, residuals: Sequence[Residual], scales: Sequence[float]) -> list[NDArray[np.float64]]:
        """Noisy residuals in counts: `measure` of whole tables, of which only the projections leave.

        Each cell of each table gets independent discrete Gaussian noise, in steps of 1/N where N is the number of cells
        of that table; `scales` are in these steps. `residual_scales` finds them for a price.

        Guarantee: the act is MixedGaussianNoise with the joint shift of the residuals, not that of their tables.
        """
        with self._lock:
            tables = Workload(residuals[0].domain, tuple(residual.table for residual in residuals))
            act = residual_act(residuals, scales, relation=self.relation)
            counts = self._debited(act, lambda: self._truth(tables))
            parts = np.split(counts, tables.offsets[1:-1])
            noises = self._residual_noise(residuals, scales)
            return [residual.projected(part, drawn) for residual, part, drawn in zip(residuals, parts, noises)]

    def _residual_noise(self, residuals: Sequence[Residual], scales: Sequence[float]) -> list[NDArray[np.int64]]:
        """Noise for the cells of each table; tables of one scale share one draw, which is quicker."""
        drawn: dict[int, NDArray[np.int64]] = {}
        for scale in dict.fromkeys(scales):
            alike = [i for i, each in enumerate(scales) if each == scale]
            cells = [residuals[i].cells for i in alike]
            noisy = noise.discrete_gaussian(np.zeros(sum(cells), dtype=np.int64), scale, self._sampler)
            drawn |= dict(zip(alike, np.split(noisy, np.cumsum(cells)[:-1])))
        return [drawn[i] for i in range(len(residuals))]

    def select(
        self,
        score: Score | Net,
        epsilon: Fraction,
        *,
        draws: int = 1,
        barred: NDArray[np.int64] | None = None,
        rule: Rule = "exponential",
    ) -> NDArray[np.int64]:
        """`draws` candidates, with replacement, each by the exponential mechanism of range `epsilon` in all.

        With `barred`, candidates of a score that are out of the question by what is public, none is drawn twice. Any
        other rule than the exponential mechanism needs it, and each of its draws is pure with this epsilon.

        A candidate is a number; a member of a net is a line of numbers that the net explains.

        Guarantee: the act is ExponentialDraws of range epsilon: rate·spread from the score, the rest for rounding. By
        another rule it is NoisyMaxima of epsilon: rate·spread, or spread/scale.
        """
        with self._lock:
            act, rate = selection(score, epsilon, relation=self.relation, rule=rule, draws=draws)
            if barred is not None and (isinstance(score, Net) or draws > score.candidates - len(np.unique(barred))):
                raise ValueError("different candidates are drawn from a score that has as many left")
            if rule != "exponential" and barred is None:
                raise ValueError("the largest noisy scores are those of different candidates: give barred")
            asked = score.workload if isinstance(score, Net) else score
            exact = self._debited(act, lambda: self._truth(asked))
            if isinstance(score, Net):
                ranked = score.ranked(exact, levels.cutoff(score.mass, rate))
                known = ranked.distances, ranked.masses
                drawn = levels.draw_levels(*known, total=score.mass, rate=rate, draws=draws, sampler=self._sampler)
                return np.array([ranked.member(level, rank) for level, rank in drawn], dtype=np.int64)
            if barred is None:
                return exponential.draw(exact, rate=rate, draws=draws, sampler=self._sampler)
            if rule == "exponential":
                return exponential.peel(exact, barred, rate=rate, draws=draws, sampler=self._sampler)
            # The largest scores, one after the other, each with fresh noise on all that are left.
            if rule == "noisy-max":
                choose = partial(exponential.report_noisy_max, scale=float(1 / rate), sampler=self._sampler)
            else:
                choose = partial(permute_and_flip, rate=rate, sampler=self._sampler)
            return exponential.peeled(exact, barred, draws, choose)

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
        if hits < 1:
            raise ValueError("a watch has at least one hit")
        around_threshold, around_error = watch_scales(epsilon, share, relation=self.relation)
        steps = np.array([int(threshold * ERROR_STEPS)], dtype=np.int64)
        with self._lock:
            self._debit(watch_act(epsilon))
            noisy = noise.discrete_laplace(steps, around_threshold, self._sampler)
            further = (1 - share) * epsilon
            return Watch(
                self._noisy_error,
                int(noisy[0]),
                around_error,
                hits=hits,
                go_on=lambda: self._debit(further_act(further)),
                affords=lambda: self._allowance.admits(further_act(further)),
            )

    def affords_watch(self, epsilon: Fraction) -> bool:
        """Whether the allowance has a watch of this epsilon left. Nothing is spent, and the table is not looked at."""
        return self._allowance.admits(watch_act(epsilon))

    def stable_keys(self, scale: float, threshold: int) -> tuple[Elements | Records, NDArray[np.int64]]:
        """The keys of rows whose noisy counts reach a threshold, sorted, and these counts.

        A key is the canonical form of a record, where the table has records of any kind that can be read, or the
        address of a row. Every key that some row has gets independent discrete Laplace noise; what stays below is never
        seen.

        Guarantee: the act is StableKeys: (ε, δ)-differentially private with ε = L1/scale and the δ of the threshold.
        """
        with self._lock:
            keys, counts = self._debited(keys_act(scale, threshold, max_rows=self.relation.max_rows), self._keys)
            return shown_keys(keys, noise.discrete_laplace(counts, scale, self._sampler), threshold)

    def stable_value(
        self, what: StableStatistic, scale: float, threshold: int, *, noise_scale: float | None = None
    ) -> int | None:
        """One value of the table, where it is stable: None if its distance, with noise, stays below a threshold.

        The distance of a value is how far the counts must move until it may be another one. It gets discrete Laplace
        noise of scale `scale`. A value that one unit may still move gets noise of scale `noise_scale` itself.

        Guarantee: the act is StableValue: (ε, δ)-differentially private with ε = moved/scale and that of the value's
        own noise, and the δ of the threshold.
        """
        with self._lock:
            act = stable_act(what, scale, threshold, noise_scale, relation=self.relation)
            found = what.of(self._debited(act, lambda: self._truth(what.workload)))
            value = np.array([found.value], dtype=np.int64)
            distance = noise.discrete_laplace(np.array([found.distance], dtype=np.int64), scale, self._sampler)
            shown = value if noise_scale is None else noise.discrete_laplace(value, noise_scale, self._sampler)
            return int(shown[0]) if int(distance[0]) >= threshold else None

    def _keys(self) -> tuple[Elements | Records, NDArray[np.int64]]:
        return self._known.keys()

    def _noisy_error(self, query: Workload, guess: float, scale: float) -> int:
        with self._lock:
            # A weight in [0, 1] moves by at most one: such questions need no look at their sensitivity.
            small = proved(query).linear or lists_records(query)
            if not small and query.linf(self.relation) > self.relation.max_rows:
                raise ValueError("one unit moves this query by more than a watch allows for: measure it instead")
            error = error_of(int(self._truth(query)[0]), query.grid, guess)
            return int(noise.discrete_laplace(np.array([error], dtype=np.int64), scale, self._sampler)[0])

    def _debited(self, event: Event, find: Callable[[], Found]) -> Found:
        """Exact numbers, found before the act that draws on them is debited: whoever stops a long pass spends nothing.

        An act that the allowance does not admit is refused before the pass.
        """
        with self._lock:
            if not self._allowance.admits(event):
                self._debit(event)
            found = find()
            self._debit(event)
            return found

    def _debit(self, event: Event) -> None:
        """Admit an act and write it down. The one way to debit, for releases and sessions: nothing is drawn before."""
        with self._lock:
            if self._written is not None:
                self._written.check(event)
            self._allowance.admit(event)
            if self._written is not None:
                self._written.debit(event)

    def _truth(self, what: Workload | Score) -> NDArray[np.int64]:
        if isinstance(what, Workload):
            return self._known.counts(what)
        return listed(what).of(self._known.counts(what.workload))
