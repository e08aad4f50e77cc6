"""Sets of codes as sorted values: a short one is a tuple, a long one with few gaps its runs of consecutive codes.

All but one of 40,000 codes are two runs. Which form a set has depends on the set alone, so that equal sets are equal
values; both are ordered as the sequences of their codes are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, total_ordering
from itertools import accumulate, chain, pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

_SHORT, _LONG_RUN = 64, 8


@total_ordering
class Runs(Sequence[int]):
    """Codes in ascending order, as the first and the last of each run. `CodeSet` says when a set has this form."""

    def __init__(self, firsts: Sequence[int], lasts: Sequence[int]) -> None:
        self.firsts, self.lasts = tuple(firsts), tuple(lasts)
        apart = all(last + 1 < first for last, first in zip(self.lasts, self.firsts[1:]))
        if not self.firsts or len(self.firsts) != len(self.lasts) or self.firsts[0] < 0 or not apart:
            raise ValueError("runs of codes are sorted, and there are gaps between them")
        if any(first > last for first, last in zip(self.firsts, self.lasts)):
            raise ValueError("a run of codes goes from its first to its last")

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        """How many codes there are up to and including each run."""
        return tuple(accumulate(last - first + 1 for first, last in zip(self.firsts, self.lasts)))

    def __len__(self) -> int:
        return self._ends[-1]

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(range(first, last + 1) for first, last in zip(self.firsts, self.lasts))

    def __contains__(self, code: object) -> bool:
        if not isinstance(code, int | np.integer):
            return False
        run = bisect_right(self.firsts, int(code)) - 1
        return run >= 0 and int(code) <= self.lasts[run]

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[int, ...]: ...
    def __getitem__(self, place: int | slice) -> int | tuple[int, ...]:
        if isinstance(place, slice):
            return tuple(self)[place]
        at = place + len(self) if place < 0 else place
        if not 0 <= at < len(self):
            raise IndexError("there are fewer codes")
        run = bisect_right(self._ends, at)
        return self.lasts[run] - (self._ends[run] - 1 - at)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.int64]:
        parts = [np.arange(first, last + 1) for first, last in zip(self.firsts, self.lasts)]
        return np.concatenate(parts).astype(dtype or np.int64, copy=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Runs):
            return NotImplemented
        return (self.firsts, self.lasts) == (other.firsts, other.lasts)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.firsts, self.lasts))

    def __lt__(self, other: object) -> bool:
        """As sequences of codes compare, of which either may be a tuple."""
        if not isinstance(other, Runs | tuple):
            return NotImplemented
        mine, others = iter(runs_of(self)), iter(runs_of(other))
        for first, last in mine:
            a, b = next(others, (-1, -1))
            if first != a:
                return first < a
            if last != b:
                # The longer run has the smaller next code, unless the other sequence ends here and is the smaller one.
                goes_on = next(mine if last < b else others, None) is not None
                return (last > b) == goes_on
        return next(others, None) is not None

    def __repr__(self) -> str:
        return f"Runs({self.firsts}, {self.lasts})"


CodeSet = tuple[int, ...] | Runs
"""Codes in ascending order: runs where there are many codes and few runs, a tuple otherwise."""


def runs_of(codes: CodeSet) -> list[tuple[int, int]]:
    """The first and the last of each run of consecutive codes."""
    if isinstance(codes, Runs):
        return list(zip(codes.firsts, codes.lasts))
    ends = [place for place, (code, after) in enumerate(pairwise(codes), 1) if after != code + 1]
    return [(codes[start], codes[end - 1]) for start, end in pairwise((0, *ends, len(codes))) if codes]


def code_set(codes: Sequence[int] | NDArray[np.integer[Any]]) -> CodeSet:
    """The set of these codes, which are sorted and distinct; `ValueError` where they are not."""
    if isinstance(codes, Runs):
        return of_runs(runs_of(codes))  # short ones have the other form, however they are handed over
    if len(codes) <= _SHORT:
        short = tuple(codes.tolist() if isinstance(codes, np.ndarray) else codes)
        if any(a >= b for a, b in pairwise(short)):
            raise ValueError("codes are sorted and distinct")
        return short
    values = np.asarray(codes, dtype=np.int64)
    steps = np.diff(values)
    if (steps < 1).any():
        raise ValueError("codes are sorted and distinct")
    cuts = np.flatnonzero(steps > 1)
    if _LONG_RUN * (len(cuts) + 1) > len(values):
        return codes if isinstance(codes, tuple) else tuple(values.tolist())
    return Runs(values[np.append(0, cuts + 1)].tolist(), values[np.append(cuts, len(values) - 1)].tolist())


def of_runs(runs: Sequence[tuple[int, int]]) -> CodeSet:
    """The codes of runs, each a first and a last, in ascending order and with gaps between them."""
    length = sum(last - first + 1 for first, last in runs)
    if length > _SHORT and _LONG_RUN * len(runs) <= length:
        return Runs([first for first, _ in runs], [last for _, last in runs])
    return tuple(chain.from_iterable(range(first, last + 1) for first, last in runs))


def all_but(code: int, size: int) -> CodeSet:
    """Every code below `size` but one."""
    return of_runs([(first, last) for first, last in ((0, code - 1), (code + 1, size - 1)) if first <= last])


def complement(codes: CodeSet, size: int) -> CodeSet:
    """Every code below `size` that is not among these."""
    found, start = [], 0
    for first, last in runs_of(codes):
        if first > start:
            found.append((start, first - 1))
        start = last + 1
    return of_runs([*found, (start, size - 1)] if start < size else found)


def common(a: CodeSet, b: CodeSet) -> CodeSet:
    """The codes that two sets share."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return code_set(sorted(set(a).intersection(b)))
    found = []
    mine, others = iter(runs_of(a)), iter(runs_of(b))
    here, there = next(mine, None), next(others, None)
    while here is not None and there is not None:
        first, last = max(here[0], there[0]), min(here[1], there[1])
        if first <= last:
            found.append((first, last))
        if here[1] < there[1]:
            here = next(mine, None)
        else:
            there = next(others, None)
    return of_runs(found)


def together(sets: Iterable[CodeSet]) -> CodeSet:
    """The codes that some sets hold together."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(run for codes in sets for run in runs_of(codes)):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return of_runs(found)
