"""Multiplicities of synthetic rows, fitted to noisy counts that are paid for.

Measured are the queries that were drawn most often, which is known already and costs nothing. A query that is still
drawn in the last rounds is one that the rows answer badly.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from conspectus.curator.curator import Curator
from conspectus.mechanisms.mechanism import Problem
from conspectus.queries.ordering import starts_of
from conspectus.synopses.fitting.lbfgs import dot, minimise

from .clauses import AskedClauses
from .data_player import Played

NOISE = 0.012  # chosen on Adult, by `python -m bench dual_query`
"""The noise that is aimed at, in fractions of the rows. As many queries are measured as the price pays for with it.

Many queries with more noise fit better than few with less."""

MOST_MEASURED = 2000
STRENGTH = 10.0  # chosen on Adult, by `python -m bench dual_query`
"""How strongly weights are drawn to those of the game, for each round that was played."""

EVALUATIONS = 150
COPIES = 16
"""Copies of a row, on average: weights are rounded to whole numbers of them."""


def most_drawn(drawn: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The queries that were drawn most often, as they are or negated: at most so many, in order."""
    times = drawn.reshape(2, -1).sum(axis=0)
    chosen = np.argsort(-times, kind="stable")[:most]
    return np.sort(chosen[times[chosen] > 0])


def reweighted(
    curator: Curator,
    problem: Problem,
    asked: AskedClauses,
    game: Played,
    *,
    total: float,
    rounds: int,
    price: Fraction,
) -> Played:
    """The same rows with multiplicities that fit noisy counts of the most-drawn queries; the counts cost `price`."""
    # One unit of m rows moves each count by m at most: L2² is at most m² for each query.
    noise = NOISE * total / problem.max_rows
    wanted = float(price) * noise if problem.currency == "pure" else 2 * float(price) * noise**2
    chosen = most_drawn(game.drawn, min(max(int(wanted), 16), MOST_MEASURED))
    sample = asked.workload.take(chosen)
    law = problem.law(problem.sensitivity(sample), price)
    noisy = curator.measure(sample, law) / total
    inner = AskedClauses(sample)
    lines = []
    for number in range(len(game.rows)):
        satisfied = np.zeros(len(chosen), dtype=np.int64)
        inner.tally(game.rows[number : number + 1], satisfied, 1)
        lines.append(np.flatnonzero(satisfied))
    ends = starts_of([len(line) for line in lines])
    ones = np.ones(int(ends[-1]))
    holds = csr_array((ones, np.concatenate(lines), ends), shape=(len(lines), len(chosen)))
    before = game.multiplicities / game.multiplicities.sum()
    weights = fitted(holds, noisy, before, deviation=law.scale / total, strength=STRENGTH * rounds)
    copies = np.rint(COPIES * len(weights) * weights).astype(np.int64)
    return replace(game, multiplicities=copies if copies.any() else game.multiplicities)


def fitted(
    holds: csr_array,
    noisy: NDArray[np.float64],
    before: NDArray[np.float64],
    *,
    deviation: float,
    strength: float,
) -> NDArray[np.float64]:
    """Weights w of rows that minimise Σ (w·holds − noisy)²/2σ² + strength·KL(w ‖ before)."""
    variance = max(deviation, 1e-5) ** 2
    base = np.log(before)
    across = holds.T.tocsr()

    def loss(logs: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_weights = logs - logs.max()
        log_weights -= np.log(np.exp(log_weights).sum())
        weights = np.exp(log_weights)
        moved = log_weights - base
        gap = across @ weights - noisy
        slope = (holds @ gap) / variance + strength * moved
        value = dot(gap, gap) / (2 * variance) + strength * dot(weights, moved)
        return value, weights * (slope - dot(weights, slope))

    found, _ = minimise(loss, base, evaluations=EVALUATIONS, solved=lambda: False)
    weights = np.exp(found - found.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)
