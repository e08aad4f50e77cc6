"""A hash table from addresses to consecutive numbers, in machine code: it joins sparse queries with rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled
from conspectus.data.records.field import Elements

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_EMPTY = np.int64(-1)


@dataclass(frozen=True, eq=False)
class AddressIndex:
    """Numbers addresses in the order in which they first appear; memory is linear in the distinct ones."""

    slots: NDArray[np.int64]
    distinct: Elements

    @classmethod
    def of(cls, addresses: Elements) -> tuple[Self, NDArray[np.int64]]:
        """The index of some addresses, and the number of each of them."""
        size = 1 << max(4, (2 * len(addresses)).bit_length())
        slots = np.full(size, _EMPTY, dtype=np.int64)
        distinct = np.empty(len(addresses), dtype=np.uint64)
        numbers = np.empty(len(addresses), dtype=np.int64)
        held = _enter(slots, distinct, addresses, numbers)
        kept = distinct[:held].copy()
        smaller = 1 << max(4, (2 * held).bit_length())
        if smaller < size:
            slots = np.full(smaller, _EMPTY, dtype=np.int64)
            _enter(slots, distinct, kept, np.empty(held, dtype=np.int64))
        return cls(slots, kept), numbers

    def __len__(self) -> int:
        return len(self.distinct)

    def tally(self, addresses: Elements, counts: NDArray[np.int64]) -> None:
        """Add to `counts` how often each number is among some addresses."""
        _tally(self.slots, self.distinct, addresses, counts)


@compiled
def _slot(slots: Any, distinct: Any, address: Any) -> Any:
    """Where an address is, or where it would be: linear probing from the high bits of a multiplicative hash."""
    mask = np.uint64(len(slots) - 1)
    mixed = address * _SPREAD
    place = (mixed ^ (mixed >> np.uint64(32))) & mask
    while slots[place] != _EMPTY and distinct[slots[place]] != address:
        place = (place + np.uint64(1)) & mask
    return place


@compiled
def _enter(slots: Any, distinct: Any, addresses: Any, numbers: Any) -> int:
    held = 0
    for at in range(len(addresses)):
        place = _slot(slots, distinct, addresses[at])
        if slots[place] == _EMPTY:
            slots[place] = held
            distinct[held] = addresses[at]
            held += 1
        numbers[at] = slots[place]
    return held


@compiled
def _tally(slots: Any, distinct: Any, addresses: Any, counts: Any) -> None:
    for at in range(len(addresses)):
        number = slots[_slot(slots, distinct, addresses[at])]
        if number != _EMPTY:
            counts[number] += 1


@compiled
def weigh(numbers: Any, steps: Any, offsets: Any, counts: Any, found: Any) -> None:
    """found[q] += Σ steps·counts over the entries of query q: integers, or floats."""
    for query in range(len(found)):
        for at in range(offsets[query], offsets[query + 1]):
            found[query] += np.int64(steps[at]) * counts[numbers[at]]


@compiled
def norms(numbers: Any, steps: Any, l1: Any, l2_squared: Any, linf: Any) -> None:
    """For each record the L1, squared L2 and L∞ norm of its weights, in steps, over all entries."""
    for at in range(len(numbers)):
        step = np.int64(steps[at])
        record = numbers[at]
        l1[record] += step
        l2_squared[record] += step * step
        linf[record] = max(linf[record], step)


@compiled
def tidied(offsets: Any, addresses: Any, steps: Any) -> NDArray[np.int64]:
    """Sort the entries of each query by address, in place, and close the gaps. Returns where the queries start then.

    Of equal addresses the largest weight stays. Weights of 0 are dropped.
    """
    starts = np.zeros(len(offsets), dtype=np.int64)
    held = 0
    for query in range(len(offsets) - 1):
        first, last = offsets[query], offsets[query + 1]
        mine, weights = addresses[first:last].copy(), steps[first:last].copy()
        ordered = True
        for at in range(1, len(mine)):
            ordered &= mine[at - 1] < mine[at]
        order = np.arange(len(mine)) if ordered else np.argsort(mine)
        begin = held
        for at in order:
            if weights[at] == 0:
                continue
            if held > begin and addresses[held - 1] == mine[at]:
                steps[held - 1] = max(steps[held - 1], weights[at])
            else:
                addresses[held], steps[held] = mine[at], weights[at]
                held += 1
        starts[query + 1] = held
    return starts
