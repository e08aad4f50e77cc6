"""Made tables: pairs in the shape of the Netflix Prize, and rows of independent biased coins of any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import conspectus as cs
from conspectus.data.chunks import MOST_ROWS, SetChunk
from conspectus.data.columns.kinds import Boolean

USERS, ITEMS, PAIRS = 480_189, 17_770, 100_480_507
"""The shape of the Netflix Prize data, which is not to be had."""

MOST_BYTES = 1 << 28


def netflix(path: Path) -> int:
    """Pairs of that shape in a Parquet file, item by item: popularity by a power law, activity by a log-normal."""
    rng = np.random.default_rng(1)
    activity = np.cumsum(np.exp(1.2 * rng.standard_normal(USERS)))
    popularity = 1.0 / (np.arange(1, ITEMS + 1) + 20.0) ** 0.9
    # Users who are drawn twice for an item count once, so more are drawn than are wanted.
    wanted = np.minimum(1.25 * PAIRS * popularity / popularity.sum(), 0.9 * USERS).astype(int)
    fields = pa.schema([("user", pa.int32()), ("item", pa.int32())])
    order = rng.permutation(ITEMS)
    pairs = 0
    with pq.ParquetWriter(path, fields) as writer:
        users: list[np.ndarray] = []
        items: list[np.ndarray] = []
        for item, times in zip(order, wanted):
            drawn = np.searchsorted(activity, np.sort(rng.random(times)) * activity[-1])
            users.append(drawn[np.diff(drawn, prepend=-1) > 0].astype(np.int32))
            items.append(np.full(len(users[-1]), item, dtype=np.int32))
            if sum(map(len, users)) > 1 << 21 or item == order[-1]:
                writer.write_table(pa.table([np.concatenate(users), np.concatenate(items)], schema=fields))
                pairs += sum(map(len, users))
                users, items = [], []
    return pairs


class BiasedCoins:
    """A table of two-valued columns, each row of column i a coin of bias p_i, and p_i uniform; made as it is read.

    Plays the part of an opened table. Every pass makes the same rows, and only the columns that are asked about.
    """

    filtered = False

    def __init__(self, width: int, rows: int, *, seed: int = 1) -> None:
        self.schema = cs.Schema("coins", tuple(Boolean(f"a{column}") for column in range(width)))
        self.domain = self.schema.domain
        self.name = "coins"
        self._rows = rows
        self._seed = seed
        # Sixteen binary digits of a bias: as many random words make 64 rng.
        self.biases = np.random.default_rng(seed).integers(1, 1 << 16, width).astype(np.int64)

    def chunks(self, columns: Sequence[int] | None = None, rows: int = MOST_ROWS) -> Iterator[SetChunk]:
        """One pass, as many rows at a time as fit into a quarter of a gigabyte."""
        wanted = np.arange(len(self.domain)) if columns is None else np.unique(np.array(columns, dtype=np.int64))
        step = min(MOST_ROWS, max(64, 8 * MOST_BYTES // max(1, len(wanted)) // 64 * 64))
        for start in range(0, self._rows, step):
            count = min(step, self._rows - start)
            bits = np.zeros((len(wanted), (count + 63) // 64), dtype=np.uint64)
            _toss(wanted, self.biases[wanted], self._seed, start, count, bits)
            yield SetChunk.of_bits(wanted, bits, rows=count)


@numba.njit(nogil=True, cache=True)
def _toss(columns, biases, seed, start, rows, bits):  # type: ignore[no-untyped-def]
    words = bits.shape[1]
    for at in range(len(columns)):
        for word in range(words):
            # A counter through a mixer: the coins of a place are the same whatever else is read.
            state = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(columns[at])
            state = state * np.uint64(0xD1342543DE82EF95) + np.uint64(start // 64 + word)
            below = np.uint64(0)
            for digit in range(16):
                state += np.uint64(0x9E3779B97F4A7C15)
                mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                mixed ^= mixed >> np.uint64(31)
                # From the last digit to the first: below = digit ? below | mixed : below & mixed.
                if (biases[at] >> digit) & 1:
                    below |= mixed
                else:
                    below &= mixed
            if 64 * (word + 1) > rows and rows & 63:
                below &= (np.uint64(1) << np.uint64(rows & 63)) - np.uint64(1)
            bits[at, word] = below
