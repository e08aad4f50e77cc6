"""The doors of the curator: each is played on worst-case neighbouring tables, and its twin is broken on purpose.

A case plays one door many times on a table D and on a neighbour D′, and keeps one number of each play.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.curator.acts import Net, selection_range
from conspectus.curator.curator import HALF, Curator
from conspectus.curator.scores import ERROR_STEPS, LOG_WEIGHT_STEPS, DualPayoffs, Reweighting, Score, query_errors
from conspectus.curator.watch import Watch
from conspectus.data.domain import Domain
from conspectus.data.schema import Schema
from conspectus.data.sources import Table, open_records, open_table
from conspectus.mechanisms.mechanism import root_up
from conspectus.privacy.accounting import Currency, Filter, epsilon_of, scale_up
from conspectus.privacy.events import Noise
from conspectus.privacy.noise import Sampler, SystemSampler, UnsafeSeededSampler, discrete_gaussian, discrete_laplace
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.statistic import Statistic, Statistics
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload

from .plays import ALPHA, TWIN_ALPHA, AuditResult, lower_bound

Play = Callable[[Curator], float]


class DrawnAhead(UnsafeSeededSampler):
    """The real sampler's noise, drawn in batches and handed out one by one: an audit asks for millions of single draws.

    Each draw is used once. It is for audits alone, since noise that lies in memory could be read there.
    """

    def __init__(self) -> None:
        super().__init__(0)
        self._drawn: dict[tuple[Draw, float], list[int]] = {}

    def bytes(self, count: int) -> bytes:
        return SystemSampler().bytes(count)

    def discrete_laplace(self, count: int, scale: float) -> NDArray[np.int64]:
        return self._next(discrete_laplace, count, scale)

    def discrete_gaussian(self, count: int, sigma: float) -> NDArray[np.int64]:
        return self._next(discrete_gaussian, count, sigma)

    def _next(self, draw: Draw, count: int, scale: float) -> NDArray[np.int64]:
        ready = self._drawn.setdefault((draw, scale), [])
        if len(ready) < count:
            ready.extend(draw(np.zeros(_BATCH + count, dtype=np.int64), scale, SystemSampler()).tolist())
        return np.array([ready.pop() for _ in range(count)], dtype=np.int64)


Draw = Callable[[NDArray[np.int64], float, Sampler], NDArray[np.int64]]
_BATCH = 4096


class HalfTheNoise(Curator):
    """Broken on purpose: half the noise that was paid for, as when the sensitivity of a replaced row is forgotten."""

    def measure(self, what: Workload | Score, law: Noise) -> NDArray[np.int64]:
        return super().measure(what, Noise(law.kind, law.scale / 2))


class HalfARow(Curator):
    """Broken on purpose: functions of the table charged as if one row moved them by half a row."""

    def measure(self, what: Workload | Score, law: Noise) -> NDArray[np.int64]:
        understated = isinstance(what, Workload) and not what.counting
        return super().measure(what, Noise(law.kind, law.scale / 2) if understated else law)


class ForgottenFactor(Curator):
    """Broken on purpose: the exponential mechanism without the factor 2 that non-monotone scores need."""

    def select(
        self, score: Score | Net, epsilon: Fraction, *, draws: int = 1, barred: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        return super().select(score, 2 * epsilon, draws=draws, barred=barred)


class ForgottenRounds(Curator):
    """Broken on purpose: boosting's draws charged as if one round alone had moved the weights, not all that were."""

    def select(
        self, score: Score | Net, epsilon: Fraction, *, draws: int = 1, barred: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        rounds = len(score.rates) if isinstance(score, Reweighting) else 1
        return super().select(score, rounds * epsilon, draws=draws, barred=barred)


class LastRoundForgotten(Curator):
    """Broken on purpose: DualQuery's draws charged for the rounds before the last one alone, of two that were."""

    def select(
        self, score: Score | Net, epsilon: Fraction, *, draws: int = 1, barred: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        return super().select(score, 2 * epsilon, draws=draws, barred=barred)


class BareThreshold(Curator):
    """Broken on purpose: the threshold itself gets no noise."""

    def above_threshold(
        self, threshold: Fraction, epsilon: Fraction, *, share: Fraction = HALF, hits: int = 1
    ) -> Watch:
        moved = Fraction(ERROR_STEPS * self.relation.max_rows)
        return Watch(self._noisy_error, int(threshold * ERROR_STEPS), scale_up(4 * moved / epsilon))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A door, two neighbouring tables, a play and its claim.

    A table is codes (rows × columns, all two-valued), or records of any kind (objects, in one dimension).
    """

    name: str
    neighbours: Neighbours
    tables: tuple[NDArray[Any], NDArray[Any]]
    play: Play
    epsilon: float
    delta: float
    twin: type[Curator]
    effort: int = 1

    def judge(self, trials: int) -> AuditResult:
        """Play the case and its twin, and bound ε from below for both."""
        return AuditResult(
            name=self.name,
            neighbours=self.neighbours,
            claimed=self.epsilon,
            delta=self.delta,
            lower_bound=_bound(self, Curator, trials, ALPHA),
            twin=(self.twin.__doc__ or "").split(": ", 1)[1].split(".")[0],
            twin_bound=_bound(self, self.twin, trials, TWIN_ALPHA),
            trials=trials,
        )


def _bound(case: Case, kind: type[Curator], trials: int, alpha: float) -> float:
    here, there = (_plays(case, kind, table, trials) for table in case.tables)
    return lower_bound(here, there, delta=case.delta, alpha=alpha)


def _plays(case: Case, kind: type[Curator], rows: NDArray[Any], trials: int) -> NDArray[np.float64]:
    table = open_records(rows.tolist()) if rows.ndim == 1 else _coded(rows)
    currency: Currency = "zcdp" if case.delta else "pure"
    endless = Filter(currency, Fraction(10**12), case.neighbours, missing=Fraction(10**12))
    curator = kind(table, endless, neighbours=case.neighbours, sampler=DrawnAhead())
    return np.array([case.play(curator) for _ in range(trials)])


def _coded(codes: NDArray[np.int64]) -> Table:
    columns = _domain(codes.shape[1]).names
    schema = Schema.from_dict({"name": "audit", "columns": {name: {"type": "boolean"} for name in columns}})
    return open_table(pa.table({name: codes[:, i].astype(bool) for i, name in enumerate(columns)}), schema)


def cases() -> Iterator[Case]:
    """Every door under both relations, on tables chosen so that one unit does the most it can."""
    relations = tuple(Neighbours)
    for neighbours in relations:
        replaced = neighbours is Neighbours.REPLACE
        half = np.repeat([[0], [1]], 8, axis=0)
        neighbour = np.repeat([[0], [1]], [7, 9], axis=0) if replaced else half[:-1]
        moved = 2 if replaced else 1
        yield Case(
            name="measure-laplace",
            neighbours=neighbours,
            tables=(half, neighbour),
            play=_measuring(Noise("laplace", float(moved))),
            epsilon=1.0,
            delta=0.0,
            twin=HalfTheNoise,
        )
        yield Case(
            name="measure-gaussian",
            neighbours=neighbours,
            tables=(half, neighbour),
            play=_measuring(Noise("gaussian", root_up(Fraction(moved) / (2 * RHO)))),
            epsilon=epsilon_of(RHO, DELTA),
            delta=DELTA,
            twin=HalfTheNoise,
            effort=2,
        )
        # Eight rows agree, and the ninth joins them: the most common value becomes one row more common.
        crowd = np.zeros((9, 1), dtype=np.int64)
        yield Case(
            name="functions",
            neighbours=neighbours,
            tables=(np.repeat([[0], [1]], [8, 1], axis=0) if replaced else crowd[:8], crowd),
            play=_measuring_a_function(neighbours),
            epsilon=1.0,
            delta=0.0,
            twin=HalfARow,
        )
        # From the first table to the second one error falls by one count and all the others rise.
        width = 12
        guess = np.zeros(width) if replaced else np.array([0.0] + [1.0] * (width - 1))
        person = np.array([[1] + [0] * (width - 1)]) if replaced else np.ones((1, width), dtype=np.int64)
        other = np.array([[0] + [1] * (width - 1)]) if replaced else np.zeros((0, width), dtype=np.int64)
        crowd = np.zeros((4, width), dtype=np.int64)
        tables = (np.concatenate([crowd, person]), np.concatenate([crowd, other]))
        yield Case(
            name="select",
            neighbours=neighbours,
            tables=tables,
            play=_selecting(guess, Fraction(1)),
            epsilon=1.0,
            delta=0.0,
            twin=ForgottenFactor,
            effort=2,
        )
        boosted, spread = _boosted(guess)
        yield Case(
            name="boosting",
            neighbours=neighbours,
            tables=tables,
            play=_drawing(boosted, spread),
            epsilon=float(spread),
            delta=0.0,
            twin=ForgottenRounds,
        )
        # From the first table to the second the one query falls that is likely, and the likely negations rise.
        crowd = np.repeat([[1] + [0] * (width - 1)], 6, axis=0)
        other = np.zeros((1 if replaced else 0, width), dtype=np.int64)
        payoffs, spread = _payoffs(width)
        yield Case(
            name="dual-query",
            neighbours=neighbours,
            tables=(np.concatenate([crowd, np.ones((1, width), dtype=np.int64)]), np.concatenate([crowd, other])),
            play=_drawing(payoffs, spread),
            epsilon=float(spread),
            delta=0.0,
            twin=LastRoundForgotten,
        )
        yield Case(
            name="above-threshold",
            neighbours=neighbours,
            tables=tables,
            play=_watching(guess[:9], Fraction(3), threshold=Fraction(2, 3)),
            epsilon=3.0,
            delta=0.0,
            twin=BareThreshold,
            effort=6,
        )


RHO = Fraction(1, 8)
DELTA = 0.01


def _domain(width: int) -> Domain:
    return Domain(tuple(f"c{i}" for i in range(width)), (2,) * width)


def _ones(width: int) -> Workload:
    """For each column the question "is it true?"."""
    domain = _domain(width)
    return Workload(domain, (Conjunctions.of(domain, [Predicate(((Literal(i, (1,)),),)) for i in range(width)]),))


def _measuring(law: Noise) -> Play:
    question = Workload(_domain(1), (Marginal(_domain(1), (0,)),))

    def play(curator: Curator) -> float:
        zeros, ones = curator.measure(question, law)
        return float(ones - zeros) if curator.relation.neighbours is Neighbours.REPLACE else float(ones)

    return play


def _measuring_a_function(neighbours: Neighbours) -> Play:
    """The share of the most common value, with the noise that its proved sensitivity asks for."""
    domain = _domain(1)
    question = Workload(domain, (Statistics(domain, (Statistic("mode", ((),), (0,), ((0, 1),)),)),))
    law = Noise("laplace", float(question.sensitivity(Relation(neighbours)).l1))

    def play(curator: Curator) -> float:
        return float(curator.measure(question, law)[0])

    return play


def _selecting(guess: NDArray[np.float64], epsilon: Fraction) -> Play:
    score = query_errors(_ones(len(guess)), guess)

    def play(curator: Curator) -> float:
        return float(curator.select(score, epsilon)[0] == 0)

    return play


def _boosted(guess: NDArray[np.float64]) -> tuple[Reweighting, Fraction]:
    """Weights after three rounds with the same guess, all errors between λ and λ + μ, and the range of a draw: 1."""
    rounds, gap = 3, 12 * ERROR_STEPS
    rate = gap * LOG_WEIGHT_STEPS // (4 * ERROR_STEPS * rounds)
    score = Reweighting(
        _ones(len(guess)), np.arange(len(guess)), lam=0, mu=gap, guesses=(guess,) * rounds, rates=(rate,) * rounds
    )
    moved = score.sensitivity(Relation(Neighbours.REPLACE)).replace
    assert moved is not None
    return score, selection_range(moved, Fraction(1, LOG_WEIGHT_STEPS * LOG_WEIGHT_STEPS))


def _payoffs(width: int) -> tuple[DualPayoffs, Fraction]:
    """Payoffs after two rounds, whose rows satisfied every query but the first, and the range of a draw: 1."""
    total = 7
    rate = total * LOG_WEIGHT_STEPS // 2
    played = np.array([0] + [rate] * (width - 1), dtype=np.int64)
    score = DualPayoffs(_ones(width), total, rate, played)
    moved = score.sensitivity(Relation(Neighbours.REPLACE)).replace
    assert moved is not None
    return score, selection_range(moved, Fraction(1, total * LOG_WEIGHT_STEPS))


def _drawing(score: Reweighting | DualPayoffs, spread: Fraction) -> Play:
    def play(curator: Curator) -> float:
        return float(curator.select(score, spread)[0] == 0)

    return play


def _watching(guess: NDArray[np.float64], epsilon: Fraction, threshold: Fraction) -> Play:
    questions = list(_ones(12))[: len(guess)]

    def play(curator: Curator) -> float:
        watch = curator.above_threshold(threshold, epsilon)
        if any(watch.exceeds(questions[i], float(guess[i])) for i in range(1, len(guess))):
            return 0.0
        return float(watch.exceeds(questions[0], float(guess[0])))

    return play
