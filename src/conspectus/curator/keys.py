"""The keys of a table and their exact counts: what the curator adds noise to before any of it is shown.

A row has one key, which depends on that row alone: the canonical form of its record where the table has records of any
kind that can be read, and its address otherwise. Keys are the same where they are equal, byte by byte or number by
number; nothing else about a row is kept, so that a key which is shown says no more than itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import CodedRows, Domain
from conspectus.data.records.field import Elements
from conspectus.data.sources import Table
from conspectus.queries.addresses import addresses_of

Counts = NDArray[np.int64]
Records = tuple[bytes, ...]
"""Canonical forms."""

_NO_KEYS: tuple[Elements, Counts] = (np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64))


def counted_keys(table: Table) -> tuple[Elements | Records, Counts]:
    """The distinct keys of a table and how many rows have each: one pass, memory linear in the keys."""
    if table.reads_records:
        return count_records(table.records())
    return count_addresses(table.domain, table.chunks())


def count_records(parts: Iterable[NDArray[np.object_]]) -> tuple[Records, Counts]:
    """Records by their canonical forms, and their counts, sorted."""
    held: Counter[bytes] = Counter()
    for part in parts:
        held.update(part.tolist())
    keys = tuple(sorted(held))
    return keys, np.fromiter((held[key] for key in keys), dtype=np.int64, count=len(keys))


def count_addresses(domain: Domain, chunks: Iterable[CodedRows]) -> tuple[Elements, Counts]:
    """Rows by their addresses, and their counts, sorted."""
    held = _NO_KEYS
    waiting: list[tuple[Elements, Counts]] = []
    for chunk in chunks:
        waiting.append(np.unique(addresses_of(domain, chunk), return_counts=True))
        if sum(len(keys) for keys, _ in waiting) > len(held[0]):  # each key is sorted a few times alone
            held, waiting = _merged([held, *waiting]), []
    return _merged([held, *waiting])


def shown_keys(keys: Elements | Records, noisy: Counts, threshold: int) -> tuple[Elements | Records, Counts]:
    """What reaches the threshold, in the order of the keys, whatever order the rows had."""
    places = np.flatnonzero(noisy >= threshold)
    shown = tuple(keys[place] for place in places.tolist()) if isinstance(keys, tuple) else keys[places]
    return shown, noisy[places]


def _merged(parts: Sequence[tuple[Elements, Counts]]) -> tuple[Elements, Counts]:
    """Keys and counts of several parts of a table together."""
    keys, places = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
    counts = np.zeros(len(keys), dtype=np.int64)
    np.add.at(counts, places, np.concatenate([counts for _, counts in parts]))
    return keys, counts
