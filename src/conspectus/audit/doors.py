"""The doors of the curator: each is played on worst-case neighbouring tables, and its twin is broken on purpose.

A case plays one door many times on a table D and on a neighbour D′, and keeps one number of each play.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.curator.acts import Net, Rule, selection_range
from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS, LOG_WEIGHT_STEPS, DualPayoffs, Reweighting, Score, query_errors
from conspectus.data.domain import Domain
from conspectus.data.schema import Schema
from conspectus.data.sources import Table, open_records, open_table
from conspectus.mechanisms.mechanism import root_up
from conspectus.privacy.accounting import Currency, Filter, epsilon_of
from conspectus.privacy.events import Noise
from conspectus.privacy.noise import Sampler, SystemSampler, UnsafeSeededSampler, discrete_gaussian, discrete_laplace
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.statistic import Statistic, Statistics
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload

from .plays import Experiment

Play = Callable[[Curator], float]
Tables = tuple[NDArray[Any], NDArray[Any]]

WIDTH = 12
"""Columns of the tables on which many questions are asked."""


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


class HalfARow(HalfTheNoise):
    """Broken on purpose: functions of the table charged as if one row moved them by half a row."""


class ForgottenFactor(Curator):
    """Broken on purpose: the exponential mechanism without the factor 2 that non-monotone scores need."""

    def select(
        self,
        score: Score | Net,
        epsilon: Fraction,
        *,
        draws: int = 1,
        barred: NDArray[np.int64] | None = None,
        rule: Rule = "exponential",
    ) -> NDArray[np.int64]:
        return super().select(score, self._forgotten(score) * epsilon, draws=draws, barred=barred, rule=rule)

    def _forgotten(self, score: Score | Net) -> int:
        return 2


class ForgottenRounds(ForgottenFactor):
    """Broken on purpose: boosting's draws charged as if one round alone had moved the weights, not all that were."""

    def _forgotten(self, score: Score | Net) -> int:
        return len(score.rates) if isinstance(score, Reweighting) else 1


class LastRoundForgotten(ForgottenFactor):
    """Broken on purpose: DualQuery's draws charged for the rounds before the last one alone, of two that were."""


def case(
    name: str,
    neighbours: Neighbours,
    tables: Tables,
    play: Play,
    twin: type[Curator],
    claim: tuple[float, float] = (1.0, 0.0),
    *,
    effort: int = 1,
    opened: Callable[[NDArray[np.int64]], Table] | None = None,
) -> Experiment:
    """A door, two neighbouring tables, a play and its claim.

    A table is codes (rows × columns, all two-valued), or records of any kind (objects, in one dimension); or what
    `opened` makes of its codes.
    """
    currency: Currency = "zcdp" if claim[1] else "pure"

    def views(kind: type[Curator], side: int, trials: int) -> NDArray[np.float64]:
        rows = tables[side]
        table = open_records(rows.tolist()) if rows.ndim == 1 else (opened or _coded)(rows)
        endless = Filter(currency, Fraction(10**12), neighbours, missing=Fraction(10**12))
        curator = kind(table, endless, neighbours=neighbours, sampler=DrawnAhead())
        return np.array([play(curator) for _ in range(trials)])

    return Experiment(
        name=name,
        neighbours=neighbours,
        views=partial(views, Curator),
        claim=claim,
        twin=twin,
        twin_views=partial(views, twin),
        effort=effort,
    )


def _coded(codes: NDArray[np.int64]) -> Table:
    columns = coin_domain(codes.shape[1]).names
    schema = Schema.from_dict({"name": "audit", "columns": {name: {"type": "boolean"} for name in columns}})
    return open_table(pa.table({name: codes[:, i].astype(bool) for i, name in enumerate(columns)}), schema)


def coins(neighbours: Neighbours, each: int) -> Tables:
    """As many ones as zeros, and the neighbour in which one row is turned over or gone."""
    half = np.repeat([[0], [1]], each, axis=0)
    turned = np.repeat([[0], [1]], [each - 1, each + 1], axis=0)
    return half, turned if neighbours is Neighbours.REPLACE else half[:-1]


def one_moves(neighbours: Neighbours) -> Tables:
    """Three columns and two rows of each kind; on the second table one more of the last kind, in the place of one that
    differs in the first column where rows are replaced."""
    rows = np.repeat(np.indices((2, 2, 2)).reshape(3, 8).T, 2, axis=0)
    kept = np.delete(rows, 6, axis=0) if neighbours is Neighbours.REPLACE else rows
    return rows, np.concatenate([kept, [[1, 1, 1]]])


def one_falls(neighbours: Neighbours) -> tuple[NDArray[np.float64], Tables]:
    """Guesses for `ones(WIDTH)`, and two tables: on the second the first error is 1 smaller, all others are larger."""
    replaced = neighbours is Neighbours.REPLACE
    others = [0 if replaced else 1] * (WIDTH - 1)
    crowd = np.zeros((4, WIDTH), dtype=np.int64)
    other = np.array([[0] + [1] * (WIDTH - 1)])[: int(replaced)]
    return np.array([0.0, *others]), (np.concatenate([crowd, [[1, *others]]]), np.concatenate([crowd, other]))


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """Every door, on tables chosen so that one unit does the most it can."""
    replaced = neighbours is Neighbours.REPLACE
    half, moved = coins(neighbours, 8), 2 if replaced else 1
    play = _measuring(Noise("laplace", float(moved)))
    yield case("measure-laplace", neighbours, half, play, HalfTheNoise)
    play = _measuring(Noise("gaussian", root_up(Fraction(moved) / (2 * RHO))))
    yield case("measure-gaussian", neighbours, half, play, HalfTheNoise, GAUSSIAN, effort=2)
    # Eight rows agree, and the ninth joins them: the most common value becomes one row more common.
    crowd = np.zeros((9, 1), dtype=np.int64)
    tables = (np.repeat([[0], [1]], [8, 1], axis=0) if replaced else crowd[:8], crowd)
    yield case("functions", neighbours, tables, _measuring_a_function(neighbours), HalfARow)
    guess, tables = one_falls(neighbours)
    play = _drawing(query_errors(ones(WIDTH), guess), Fraction(1))
    yield case("select", neighbours, tables, play, ForgottenFactor, effort=2)
    boosted, spread = _boosted(guess)
    yield case("boosting", neighbours, tables, _drawing(boosted, spread), ForgottenRounds, (float(spread), 0.0))
    # From the first table to the second the one query falls that is likely, and the likely negations rise.
    crowd = np.repeat([[1] + [0] * (WIDTH - 1)], 6, axis=0)
    other = np.zeros((1 if replaced else 0, WIDTH), dtype=np.int64)
    tables = (np.concatenate([crowd, np.ones((1, WIDTH), dtype=np.int64)]), np.concatenate([crowd, other]))
    payoffs, spread = _payoffs()
    yield case("dual-query", neighbours, tables, _drawing(payoffs, spread), LastRoundForgotten, (float(spread), 0.0))


RHO = Fraction(1, 8)
DELTA = 0.01
GAUSSIAN = (epsilon_of(RHO, DELTA), DELTA)
"""What Gaussian noise that costs `RHO` claims."""


def coin_domain(width: int) -> Domain:
    """Columns of two codes each."""
    return Domain(tuple(f"c{i}" for i in range(width)), (2,) * width)


def ones(width: int) -> Workload:
    """For each column the question "is it true?"."""
    domain = coin_domain(width)
    return Workload(domain, (Conjunctions.of(domain, [Predicate(((Literal(i, (1,)),),)) for i in range(width)]),))


def one_column() -> Workload:
    """The zeros and the ones of a single column."""
    return Workload(coin_domain(1), (Marginal(coin_domain(1), (0,)),))


def told(curator: Curator, zeros: float, ones: float) -> float:
    """What tells neighbours apart the best: a replaced row moves both counts, an added one the ones alone."""
    return float(ones - zeros) if curator.relation.neighbours is Neighbours.REPLACE else float(ones)


def _measuring(law: Noise) -> Play:
    question = one_column()
    return lambda curator: told(curator, *curator.measure(question, law))


def _measuring_a_function(neighbours: Neighbours) -> Play:
    """The share of the most common value, with the noise that its proved sensitivity asks for."""
    domain = coin_domain(1)
    question = Workload(domain, (Statistics(domain, (Statistic("mode", ((),), (0,), ((0, 1),)),)),))
    law = Noise("laplace", float(question.sensitivity(Relation(neighbours)).l1))
    return lambda curator: float(curator.measure(question, law)[0])


def _boosted(guess: NDArray[np.float64]) -> tuple[Reweighting, Fraction]:
    """Weights after three rounds with the same guess, all errors between λ and λ + μ, and the range of a draw: 1."""
    rounds, gap = 3, 12 * ERROR_STEPS
    rate = gap * LOG_WEIGHT_STEPS // (4 * ERROR_STEPS * rounds)
    score = Reweighting(ones(WIDTH), np.arange(WIDTH), lam=0, mu=gap, guesses=(guess,) * rounds, rates=(rate,) * rounds)
    return score, _spread(score, Fraction(1, LOG_WEIGHT_STEPS * LOG_WEIGHT_STEPS))


def _payoffs() -> tuple[DualPayoffs, Fraction]:
    """Payoffs after two rounds, whose rows satisfied every query but the first, and the range of a draw: 1."""
    total = 7
    rate = total * LOG_WEIGHT_STEPS // 2
    played = np.array([0] + [rate] * (WIDTH - 1), dtype=np.int64)
    score = DualPayoffs(ones(WIDTH), total, rate, played)
    return score, _spread(score, Fraction(1, total * LOG_WEIGHT_STEPS))


def _spread(score: Score, step: Fraction) -> Fraction:
    """The range of a draw by a score, one step of which is so much."""
    moved = score.sensitivity(Relation(Neighbours.REPLACE)).replace
    assert moved is not None
    return selection_range(moved, step)


def _drawing(score: Score, spread: Fraction) -> Play:
    return lambda curator: float(curator.select(score, spread)[0] == 0)
