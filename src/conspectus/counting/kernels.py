"""The loops that numpy cannot write: bit-packed conjunctions and parities, contingency tables, dense histograms.

All of them release the interpreter's lock and are run by threads of ours. Codes arrive as one matrix, a row for each
column of the table, whose values were checked to lie inside their columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conspectus.compiled import compiled, intrinsic

WORDS = 128
"""64-bit words in a block of rows: the packed literals of a block stay in the second-level cache."""

ROWS = 64 * WORDS
"""Rows in a block."""

_STRIP = 4096


@intrinsic
def count_ones(typing_context: Any, word: Any) -> Any:
    """The number of ones in a word, as the processor's own instruction (vectorised where there is one)."""
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@compiled
def _and_count(a: Any, b: Any) -> Any:
    ones = np.uint64(0)
    for w in range(WORDS):
        ones += count_ones(a[w] & b[w])
    return ones


@compiled
def _pack(codes: Any, start: int, stop: int, columns: Any, first: Any, listed: Any, items: Any, bits: Any) -> None:
    """Set bit r of every literal that row start + r satisfies; the literals of a code are listed under its number."""
    bits[:, :] = np.uint64(0)
    for at in range(len(columns)):
        column = codes[columns[at]]
        base = first[at]
        for row in range(start, stop):
            code = base + np.int64(column[row])
            place = np.uint64(row - start)
            word = place >> np.uint64(6)
            bit = np.uint64(1) << (place & np.uint64(63))
            for j in range(listed[code], listed[code + 1]):
                bits[items[j], word] |= bit


@compiled
def count_conjunctions(
    codes: Any,
    rows: int,
    columns: Any,
    first: Any,
    listed: Any,
    items: Any,
    literals: int,
    literal: Any,
    depth: Any,
    after: Any,
    deepest: int,
    begin: int,
    step: int,
    totals: Any,
) -> None:
    """Count the nodes of a tree of conjunctions over every `step`-th block of rows.

    A node is its parent AND one literal; nodes stand in preorder, `after` being the first node outside the subtree. A
    parent's bits are made once for all its children, and a subtree whose root is empty in this block is passed over.
    """
    bits = np.empty((literals, WORDS), dtype=np.uint64)
    ones = np.empty(literals, dtype=np.int64)
    stack = np.empty((deepest + 1, WORDS), dtype=np.uint64)
    nodes = len(literal)
    for start in range(begin * ROWS, rows, step * ROWS):
        _pack(codes, start, min(rows, start + ROWS), columns, first, listed, items, bits)
        for number in range(literals):
            ones[number] = np.int64(_and_count(bits[number], bits[number]))
        node = 0
        while node < nodes:
            number = literal[node]
            end = after[node]
            if ones[number] == 0:
                node = end
                continue
            level = depth[node]
            if level == 0:
                totals[node] += ones[number]
                stack[0, :] = bits[number]
                node += 1
                continue
            own = bits[number]
            parent = stack[level - 1]
            if end == node + 1:
                totals[node] += np.int64(_and_count(parent, own))
                node = end
                continue
            here = stack[level]
            found = np.uint64(0)
            for w in range(WORDS):
                both = parent[w] & own[w]
                here[w] = both
                found += count_ones(both)
            totals[node] += np.int64(found)
            node = end if found == 0 else node + 1


@compiled
def count_odd(
    codes: Any,
    rows: int,
    columns: Any,
    first: Any,
    listed: Any,
    items: Any,
    literals: int,
    literal: Any,
    depth: Any,
    deepest: int,
    begin: int,
    step: int,
    totals: Any,
) -> None:
    """As `count_conjunctions` with XOR: the rows on which an odd number of a node's literals hold."""
    bits = np.empty((literals, WORDS), dtype=np.uint64)
    stack = np.zeros((deepest + 2, WORDS), dtype=np.uint64)
    for start in range(begin * ROWS, rows, step * ROWS):
        _pack(codes, start, min(rows, start + ROWS), columns, first, listed, items, bits)
        for node in range(len(literal)):
            level = depth[node]
            own = bits[literal[node]]
            parent = stack[level]
            here = stack[level + 1]
            found = np.uint64(0)
            for w in range(WORDS):
                both = parent[w] ^ own[w]
                here[w] = both
                found += count_ones(both)
            totals[node] += np.int64(found)


@compiled
def tabulate(codes: Any, rows: int, columns: Any, sizes: Any, table: Any) -> None:
    """Add the rows to a contingency table over some columns, cells in row-major order."""
    cell = np.empty(_STRIP, dtype=np.uint32)
    for start in range(0, rows, _STRIP):
        count = min(_STRIP, rows - start)
        column = codes[columns[0]]
        for i in range(count):
            cell[i] = column[start + i]
        for at in range(1, len(columns)):
            column = codes[columns[at]]
            size = np.uint32(sizes[at])
            for i in range(count):
                cell[i] = cell[i] * size + np.uint32(column[start + i])
        for i in range(count):
            table[cell[i]] += 1


@compiled
def lacking_one(members: Any, waiting: Any, inside: Any) -> Any:
    """For each column, how many waiting sets lack it and nothing else. Rows are sets of columns, padded with −1."""
    gain = np.zeros(len(inside), dtype=np.int64)
    for row in range(len(members)):
        if waiting[row]:
            missing, which = 0, 0
            for column in members[row]:
                if column >= 0 and not inside[column]:
                    missing += 1
                    which = column
            if missing == 1:
                gain[which] += 1
    return gain


@compiled
def covered(members: Any, waiting: Any, inside: Any) -> Any:
    """The waiting sets that lack nothing; they wait no more."""
    found = np.zeros(len(members), dtype=np.int64)
    count = 0
    for row in range(len(members)):
        if waiting[row]:
            whole = True
            for column in members[row]:
                if column >= 0 and not inside[column]:
                    whole = False
                    break
            if whole:
                waiting[row] = False
                found[count] = row
                count += 1
    return found[:count]
