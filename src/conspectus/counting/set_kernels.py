"""Conjunctions over sets of rows: lists of places and bitmaps, in any mixture."""

from __future__ import annotations

from typing import Any

import numpy as np

from conspectus.compiled import compiled

from .kernels import count_ones

_FAR = 16
"""A list this many times longer than the other one is searched; a shorter one is walked through."""


@compiled
def _holds(words: Any, place: Any) -> Any:
    return np.int64((words[place >> np.uint16(6)] >> np.uint64(place & np.uint16(63))) & np.uint64(1))


@compiled
def _from_bitmap(here: Any, count: int, words: Any, inverted: Any, out: Any) -> int:
    """The places of a list that a bitmap holds, or does not hold."""
    found = 0
    for i in range(count):
        out[found] = here[i]
        found += _holds(words, here[i]) ^ inverted
    return found


@compiled
def _from_list(here: Any, count: int, places: Any, start: int, end: int, inverted: Any, out: Any) -> int:
    """The places of a list that another list holds, or does not hold; both are sorted."""
    found = 0
    at = start
    far = end - start > _FAR * count
    for i in range(count):
        place = here[i]
        if far:
            # Steps that double, then halves: the other list is much longer.
            step = 1
            while at + step < end and places[at + step] < place:
                at += step
                step += step
            high = min(end, at + step)
            low = at
            while low < high:
                middle = (low + high) >> 1
                if places[middle] < place:
                    low = middle + 1
                else:
                    high = middle
            at = low
        else:
            while at < end and places[at] < place:
                at += 1
        hit = 1 if at < end and places[at] == place else 0
        out[found] = place
        found += hit ^ inverted
    return found


@compiled
def count_sets(
    rows: int,
    ends: Any,
    places: Any,
    bitmap: Any,
    bits: Any,
    ones: Any,
    slot: Any,
    inverted: Any,
    literal: Any,
    depth: Any,
    after: Any,
    deepest: int,
    begin: int,
    stop: int,
    totals: Any,
) -> None:
    """Count the nodes of a tree of conjunctions from `begin` (a root) up to `stop`, over one chunk of sets.

    Node k adds the set `slot[literal[k]]`, or its complement where `inverted`, to its parent; nodes stand in preorder,
    `after` being the first node outside the subtree. What a parent holds is a list or a bitmap, as it comes.
    """
    words = (rows + 63) // 64
    lists = np.empty((deepest + 1, 64 * words), dtype=np.uint16)
    maps = np.zeros((deepest + 1, words), dtype=np.uint64)
    sizes = np.zeros(deepest + 1, dtype=np.int64)
    is_map = np.zeros(deepest + 1, dtype=np.bool_)
    spare = np.empty(64 * words, dtype=np.uint16)
    node = begin
    while node < stop:
        number = literal[node]
        own = slot[number]
        negative = np.int64(1) if inverted[number] else np.int64(0)
        end = after[node]
        leaf = end == node + 1
        level = depth[node]
        which = bitmap[own]
        first = ends[own]
        last = ends[own + 1]
        if level == 0:
            found = rows - ones[own] if negative else ones[own]
            totals[node] += found
            if leaf or found == 0:
                node = end
                continue
            here = maps[0]
            # Roots are kept as bitmaps: the lists of their children are looked up in them.
            if which >= 0:
                here[:] = bits[which]
            else:
                here[:] = np.uint64(0)
                for i in range(first, last):
                    here[places[i] >> np.uint16(6)] |= np.uint64(1) << np.uint64(places[i] & np.uint16(63))
            if negative:
                for w in range(words):
                    here[w] = ~here[w]
                if rows & 63:
                    here[words - 1] &= (np.uint64(1) << np.uint64(rows & 63)) - np.uint64(1)
            is_map[0] = True
            sizes[0] = found
            node += 1
            continue
        parent = level - 1
        out = spare if leaf else lists[level]
        if not is_map[parent]:
            if which >= 0:
                found = _from_bitmap(lists[parent], sizes[parent], bits[which], negative, out)
            else:
                found = _from_list(lists[parent], sizes[parent], places, first, last, negative, out)
            is_map[level] = False
        elif which >= 0:
            above = maps[parent]
            mine = bits[which]
            ones_found = np.uint64(0)
            flip = np.uint64(0) - np.uint64(negative)
            if leaf:
                for w in range(words):
                    ones_found += count_ones(above[w] & (mine[w] ^ flip))
            else:
                here = maps[level]
                for w in range(words):
                    both = above[w] & (mine[w] ^ flip)
                    here[w] = both
                    ones_found += count_ones(both)
            found = np.int64(ones_found)
            is_map[level] = True
        elif leaf or not negative:
            above = maps[parent]
            found = 0
            for i in range(first, last):
                out[found] = places[i]
                found += _holds(above, places[i])
            if negative:
                found = sizes[parent] - found
            is_map[level] = False
        else:
            above = maps[parent]
            here = maps[level]
            here[:] = above
            found = sizes[parent]
            for i in range(first, last):
                found -= _holds(above, places[i])
                here[places[i] >> np.uint16(6)] &= ~(np.uint64(1) << np.uint64(places[i] & np.uint16(63)))
            is_map[level] = True
        totals[node] += found
        sizes[level] = found
        node = end if found == 0 else node + 1
