"""DualQuery's data player: rows that answer what was drawn, and what all rows of a game say together.

It never touches the table: all it sees is the sample, which is out already. So a round may be answered by as many rows
as one likes. Each answers its own resample of the same draws, and they share the round's step: the round is then played
by their mixture. A mixture of good responses is a good response, and many rows answer on a finer grid than one.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Codes

from .clauses import AskedClauses
from .initial_rows import InitialRows
from .oracles import exact, search


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


def respond(
    asked: AskedClauses,
    sample: NDArray[np.int64],
    *,
    initial: InitialRows,
    responding: Responding,
    rng: np.random.Generator,
    pool: Executor | None = None,
) -> Codes:
    """Rows that satisfy as much as they can of a sample: candidate i is query i, or the negation of query i − |Q|."""
    queries = len(asked.workload)
    which, times = np.unique(sample, return_counts=True)
    signs = np.where(which < queries, 1, -1)
    clauses, of_box, of_parity = asked.pick(which % queries, signs * times)
    starts = initial.draw(responding.responses * responding.restarts, rng)
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
