"""DualQuery's game: queries are drawn by their payoffs, rows answer them, and payoffs move.

The table is touched by the draws alone. A round's rows are found from what was drawn, in public, and may be as many as
one likes: each answers its own resample of the same draws, and they share the round's step, so that the round is played
by their mixture. A mixture of good responses is one; and many rows answer on a finer grid than one.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.curator.scores import DualPayoffs
from conspectus.data.domain import Codes

from .clauses import AskedClauses
from .initial_rows import Filling
from .oracles import exact, search
from .parameters import Schedule


@dataclass(frozen=True, kw_only=True)
class Responding:
    """How a round is answered: `responses` rows, each the best of `restarts` searches, or one by the exact oracle."""

    responses: int
    restarts: int
    exact: bool
    seconds: float


@dataclass(frozen=True, eq=False)
class Played:
    """What a game leaves: rows as codes, each with its multiplicity; how often each query and negation was drawn."""

    rows: Codes
    multiplicities: NDArray[np.int64]
    drawn: NDArray[np.int64]


def play(
    curator: Curator,
    asked: AskedClauses,
    schedule: Schedule,
    *,
    filling: Filling,
    responding: Responding,
    rng: np.random.Generator,
    pool: Executor,
) -> Played:
    """Draw, respond, re-weight, as often as the schedule says."""
    queries = len(asked.workload)
    played = np.zeros(queries, dtype=np.int64)
    drawn = np.zeros(2 * queries, dtype=np.int64)
    rate = 0
    rows: list[Codes] = []
    rates: list[NDArray[np.int64]] = []
    for turn in range(schedule.rounds):
        curator.report_progress("rounds", turn, schedule.rounds)
        times = schedule.draws[turn]
        if turn:
            payoffs = DualPayoffs(asked.workload, schedule.total, rate, played.copy())
            sample = curator.select(payoffs, schedule.ranges[turn - 1], draws=times)
        else:
            sample = rng.integers(0, 2 * queries, times)  # all payoffs are 0: uniform, whatever the table
        np.add.at(drawn, sample, 1)
        found = respond(asked, sample, filling=filling, responding=responding, rng=rng, pool=pool)
        each = schedule.rates[turn] // len(found)
        asked.tally(found, played, each, pool)
        rate += each * len(found)
        rows.append(found)
        rates.append(np.full(len(found), each))
    copies = np.concatenate(rates)
    return Played(np.concatenate(rows), copies // np.gcd.reduce(copies), drawn)


def respond(
    asked: AskedClauses,
    sample: NDArray[np.int64],
    *,
    filling: Filling,
    responding: Responding,
    rng: np.random.Generator,
    pool: Executor | None = None,
) -> Codes:
    """Rows that satisfy as much as they can of a sample: candidate i is query i, or the negation of query i − |Q|."""
    queries = len(asked.workload)
    which, times = np.unique(sample, return_counts=True)
    signs = np.where(which < queries, 1, -1)
    clauses, of_box, of_parity = asked.pick(which % queries, signs * times)
    starts = filling.draw(responding.responses * responding.restarts, rng)
    if responding.exact:
        best = exact(clauses, starts[0], seconds=responding.seconds)
        return best.rows
    lines = None
    if responding.responses > 1:
        again = signs * rng.multinomial(len(sample), times / len(sample), size=responding.responses)
        lines = np.concatenate([again[:, of_box], again[:, of_parity]], axis=1)
    return search(clauses, starts, values=lines, restarts=responding.restarts, rng=rng, pool=pool).rows


def answers_of(asked: AskedClauses, game: Played, pool: Executor) -> NDArray[np.float64]:
    """The fraction of the rows, copies counted, that satisfies each query: binary digits of the copies, one by one."""
    found = np.zeros(len(asked.workload), dtype=np.int64)
    for digit in range(int(game.multiplicities.max()).bit_length()):
        holders = game.multiplicities >> digit & 1 == 1
        if holders.any():
            asked.tally(game.rows[holders], found, 1 << digit, pool)
    return np.asarray(found / game.multiplicities.sum(), dtype=np.float64)
