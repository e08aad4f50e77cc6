"""The keys of a table and their exact counts: what the curator adds noise to before any of it is shown.

A row has one key, which depends on that row alone: the canonical form of its record where the table has records of any
kind that can be read, and its address otherwise. Keys are the same where they are equal, byte by byte or number by
number; nothing else about a row is kept, so that a key which is shown says no more than itself.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, CodedRows, Domain
from conspectus.data.fold import Fold, Gather, Vectors, merged_keys
from conspectus.data.records.field import Elements
from conspectus.data.sources import Table
from conspectus.queries.addresses import addresses_of

Counts = NDArray[np.int64]
Records = tuple[bytes, ...]
"""Canonical forms."""


class RecordKeys(Gather[tuple[Records, Counts]]):
    """Records by their canonical forms, and their counts, sorted."""

    records = True

    def __init__(self) -> None:
        self._held: Counter[bytes] = Counter()

    def add(self, chunk: CodedRows) -> None:
        assert isinstance(chunk, Chunk)
        assert chunk.records is not None
        self._held.update(chunk.records.tolist())

    def finish(self, vectors: Vectors, rows: int) -> tuple[Records, Counts]:
        keys = tuple(sorted(self._held))
        return keys, np.fromiter((self._held[key] for key in keys), dtype=np.int64, count=len(keys))


class AddressKeys:
    """Rows by their addresses, and their counts, sorted. Counts of the same address add over any split of the rows."""

    records = False
    gathers = False
    keyed = True

    def __init__(self, domain: Domain) -> None:
        self.columns = tuple(range(len(domain)))
        self._domain = domain

    def start(self, threads: int = 1, pool: Executor | None = None) -> _AddressCounts:
        return _AddressCounts(self._domain)

    def finish(self, vectors: Vectors, rows: int) -> tuple[Elements, Counts]:
        return vectors[0].view(np.uint64), vectors[1]


class _AddressCounts:
    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._held: Vectors = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        self._waiting: list[Vectors] = []

    def add(self, chunk: CodedRows) -> None:
        keys, counts = np.unique(addresses_of(self._domain, chunk), return_counts=True)
        self._waiting.append((keys.astype(np.uint64).view(np.int64), counts.astype(np.int64)))
        if sum(len(keys) for keys, _ in self._waiting) > len(self._held[0]):  # each key is sorted a few times alone
            self._held, self._waiting = self.vectors(), []

    def vectors(self) -> Vectors:
        return merged_keys([self._held, *self._waiting])


def keys_of(table: Table) -> Fold[tuple[Elements | Records, Counts]]:
    """What finds the distinct keys of a table and how many rows have each: memory linear in the keys."""
    return RecordKeys() if table.reads_records else AddressKeys(table.domain)


def shown_keys(keys: Elements | Records, noisy: Counts, threshold: int) -> tuple[Elements | Records, Counts]:
    """What reaches the threshold, in the order of the keys, whatever order the rows had."""
    places = np.flatnonzero(noisy >= threshold)
    shown = tuple(keys[place] for place in places.tolist()) if isinstance(keys, tuple) else keys[places]
    return shown, noisy[places]
