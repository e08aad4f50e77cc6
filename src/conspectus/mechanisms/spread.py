"""The first round of boosting: questions chosen in public, spread evenly over the pairs of columns.

The first distribution is uniform whatever the table, so this round's sample costs nothing and need not be random. Even
spreading beats independent draws: every pair of columns is seen about equally often.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from conspectus.queries.marginals import Marginal
from conspectus.queries.query import Workload
from conspectus.synopses.synopsis import public_coins

from .iterative import Candidates

TIMES = 7
"""How often the first round sees each pair of columns, on average (measured on NLTCS, 3-way and 5-way)."""


def first_size(candidates: Candidates) -> int:
    """As many questions as see every pair of columns `TIMES` times; four a column where they are no marginals."""
    pairs = _pairs(candidates)
    if pairs is None:
        return min(len(candidates), max(10, 4 * len(candidates.workload.columns)))
    seen = int(pairs.any(axis=0).sum())
    return min(len(candidates), max(10, -(-TIMES * seen * len(pairs) // max(int(pairs.sum()), 1))))


def first_sample(candidates: Candidates, size: int, *, public_seed: int | None = None) -> NDArray[np.int64]:
    """Distinct candidates: each next one has the pairs of columns that were seen least, ties broken at random."""
    coins = public_coins(public_seed)
    pairs = _pairs(candidates)
    if pairs is None or size >= len(candidates):
        return np.sort(coins.permutation(len(candidates))[:size])
    table = pairs.astype(np.float64)
    order = coins.random(len(candidates)) * 1e-6
    times = np.zeros(table.shape[1])
    chosen: list[int] = []
    for _ in range(size):
        worth = table @ (1 / (1 + 3 * times) ** 2) + order
        worth[chosen] = -1.0
        chosen.append(int(worth.argmax()))
        times += table[chosen[-1]]
    return np.sort(np.array(chosen, dtype=np.int64))


def questions(candidates: Candidates, drawn: NDArray[np.int64]) -> Workload:
    """The workload of some candidates, each once however often it was drawn."""
    ends = np.append(candidates.starts[1:], len(candidates.workload))
    places = [np.arange(candidates.starts[i], ends[i]) for i in np.unique(drawn)]
    return candidates.workload.take(np.concatenate(places))


def _pairs(candidates: Candidates) -> NDArray[np.bool_] | None:
    """Which pairs of columns each candidate reads; None where some are no marginals."""
    blocks = candidates.workload.blocks
    if len(blocks) != len(candidates) or not all(isinstance(block, Marginal) for block in blocks):
        return None
    columns = candidates.workload.columns
    place = {pair: number for number, pair in enumerate(combinations(columns, 2))}
    table = np.zeros((len(blocks), max(len(place), 1)), dtype=bool)
    for number, block in enumerate(blocks):
        table[number, [place[pair] for pair in combinations(sorted(block.columns), 2)]] = True
    return table
