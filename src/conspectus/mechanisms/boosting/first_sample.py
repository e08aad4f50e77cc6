"""The first round of boosting: questions chosen in public, spread evenly over the pairs of columns.

The first distribution is uniform whatever the table, so this round's sample costs nothing and need not be random. Even
spreading beats independent draws: every pair of columns is seen about equally often.
"""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from conspectus.mechanisms.iterative import Candidates
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.ordering import starts_of
from conspectus.synopses.synopsis import public_sampler

TIMES = 7
"""How often the first round sees each pair of columns, on average (measured on NLTCS, 3-way and 5-way)."""


def first_size(candidates: Candidates) -> int:
    """As many marginals as see every pair of columns `TIMES` times; of single questions, four for each column and pair.

    A single question says much less than a marginal (measured on 4,000 conjunctions of NLTCS).
    """
    pairs = _pairs(candidates)
    if pairs is None:
        columns = len(candidates.workload.columns)
        return min(len(candidates), max(10, 2 * columns * (columns + 1)))
    seen = len(np.unique(pairs.indices))
    wanted = -(-TIMES * seen * len(candidates) // max(int(pairs.nnz), 1))
    return min(len(candidates), max(10, wanted))


def first_sample(candidates: Candidates, size: int, *, public_seed: int | None = None) -> NDArray[np.int64]:
    """Distinct candidates: each next one has the pairs of columns that were seen least, ties broken at random."""
    rng = public_sampler(public_seed)
    pairs = _pairs(candidates)
    if pairs is None or size >= len(candidates):
        return np.sort(rng.permutation(len(candidates))[:size])
    order = rng.random(len(candidates)) * 1e-6
    times = np.zeros(pairs.shape[1])
    chosen: list[int] = []
    for _ in range(size):
        worth = pairs @ (1 / (1 + 3 * times) ** 2) + order
        worth[chosen] = -1.0
        best = int(worth.argmax())
        chosen.append(best)
        times[pairs.indices[pairs.indptr[best] : pairs.indptr[best + 1]]] += 1
    return np.sort(np.array(chosen, dtype=np.int64))


def _pairs(candidates: Candidates) -> csr_array | None:
    """Which pairs of columns each candidate reads; None where some are no marginals."""
    blocks = candidates.workload.blocks
    if len(blocks) != len(candidates) or not all(isinstance(block, Marginal) for block in blocks):
        return None
    place = {pair: number for number, pair in enumerate(combinations(candidates.workload.columns, 2))}
    read = [[place[pair] for pair in combinations(sorted(block.columns), 2)] for block in blocks]
    ends = starts_of([len(pairs) for pairs in read])
    indices = np.fromiter(chain.from_iterable(read), dtype=np.int64, count=int(ends[-1]))
    return csr_array((np.ones(indices.size), indices, ends), shape=(len(blocks), max(len(place), 1)))
