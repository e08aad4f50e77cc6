"""Which values of a column are told apart: those that stand out of their noise, and groups of the others.

A pair of columns has as many cells as the product of their values, most of them empty on real tables. A value whose
count cannot be told from its noise is put together with others before pairs are looked at: with its neighbours where
the column has an order, else with all that are rare. Inside its group it keeps the share that the column's own noisy
counts give it. Groups are put together further into coarser levels, each inside the one before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .smoothing import Floats, denoised

Groups = NDArray[np.int64]

STANDS_OUT = 3.0
"""A value is told apart when its noisy count is above so many deviations. Values from 2 to 6 do alike (Adult)."""

LEVELS = (1 << 62, 30, 16, 8, 4)
"""At most so many groups of a column at each level of coarseness."""


@dataclass(frozen=True, eq=False)
class Coding:
    """One column as it is modelled: public, made from its noisy counts.

    Attributes:
        groups: The group of every code.
        shares: The share of its group that every code has.
        law: The share of the rows that every group has.
        deviations: How noisy the count of every group is, in counts.
        starts: For each level the groups of level 0 that its groups begin with.
    """

    groups: Groups
    shares: Floats
    law: Floats
    deviations: Floats
    starts: tuple[Groups, ...]

    @property
    def size(self) -> int:
        """How many groups there are."""
        return len(self.law)

    @cached_property
    def maps(self) -> tuple[Groups, ...]:
        """For each level, which of its groups every group of level 0 lies in."""
        every = np.arange(self.size)
        return tuple(np.searchsorted(starts, every, side="right") - 1 for starts in self.starts)

    def expanded(self, tables: NDArray[np.floating], axis: int = -1) -> NDArray[np.floating]:
        """Tables over groups as tables over codes."""
        shape = [1] * tables.ndim
        shape[axis] = len(self.groups)
        return np.take(tables, self.groups, axis=axis) * self.shares.reshape(shape).astype(tables.dtype)


def code_column(noisy: Floats, deviation: float, total: float, in_order: int, most: int = 1 << 62) -> Coding:
    """How one column is modelled, from its noisy counts of this deviation and the number of rows.

    `in_order` is how many of its codes, from the first on, stand in an order: 0 where none do. At most `most` groups
    are made.
    """
    counts = denoised(noisy, deviation, max(total, 1.0), in_order)
    limit = STANDS_OUT * deviation
    if len(noisy) > most:
        # What stands out is so much that it would not fit: only the largest do.
        limit = max(limit, float(np.sort(noisy)[-(most // 2)]))
    runs = _runs(noisy[:in_order], limit) if in_order else []
    if len(runs) > most // 2:
        together = -(-len(runs) // max(most // 2, 1)) if len(noisy) > most else 1
        runs = [np.concatenate(runs[at : at + together]) for at in range(0, len(runs), together)]
    loose = np.arange(in_order, len(noisy))
    told = loose[noisy[loose] > limit]
    rare = loose[noisy[loose] <= limit]
    told = told[np.argsort(-noisy[told], kind="stable")]
    members = [*runs, *told[:, None], *([rare] if len(rare) else [])]
    groups = np.empty(len(noisy), dtype=np.int64)
    shares = np.ones(len(noisy))
    law = np.empty(len(members))
    deviations = np.empty(len(members))
    for number, codes in enumerate(members):
        groups[codes] = number
        inside = counts[codes] + 1e-3 * deviation
        shares[codes] = inside / inside.sum()
        law[number] = counts[codes].sum() + 1e-4
        deviations[number] = deviation * math.sqrt(len(codes))
    law /= law.sum()
    return Coding(groups, shares, law, deviations, _levels(law, len(runs)))


def _runs(noisy: Floats, limit: float) -> list[Groups]:
    """Runs of neighbouring codes: single ones that stand out, and stretches between them that do so together."""
    runs: list[list[int]] = []
    held: list[int] = []
    mass = 0.0
    for code, count in enumerate(noisy.tolist()):
        if count > limit:
            if held:
                runs.append(held)
                held, mass = [], 0.0
            runs.append([code])
            continue
        held.append(code)
        mass += count
        if mass > limit * math.sqrt(len(held)):
            runs.append(held)
            held, mass = [], 0.0
    if held:
        runs.append(held)
    # A stretch that does not stand out joins the smaller stretch beside it; single codes that do are left alone.
    masses = [float(noisy[run].sum()) for run in runs]
    at = 0
    while at < len(runs):
        beside = [near for near in (at - 1, at + 1) if 0 <= near < len(runs) and len(runs[near]) > 1]
        if masses[at] > limit * math.sqrt(len(runs[at])) or not beside:
            at += 1
            continue
        low, high = sorted((at, min(beside, key=masses.__getitem__)))
        runs[low : high + 1] = [runs[low] + runs[high]]
        masses[low : high + 1] = [masses[low] + masses[high]]
        at = max(low - 1, 0)
    return [np.array(run, dtype=np.int64) for run in runs]


def _levels(law: Floats, in_order: int) -> tuple[Groups, ...]:
    """Nested coarser groups: runs of about equal mass of those in order, and the largest of the others."""
    found = [np.arange(len(law))]
    for most in LEVELS[1:]:
        finer = found[-1]
        if len(finer) <= most:
            found.append(finer)
            continue
        mass = np.add.reduceat(law, finer)
        ordered = int(np.searchsorted(finer, in_order))
        others = len(finer) - ordered
        room = min(others, max(1, most // 4) if ordered else most)
        found.append(np.concatenate([finer[_even_runs(mass[:ordered], most - room)], finer[ordered:][:room]]))
    return tuple(found)


def _even_runs(mass: Floats, most: int) -> Groups:
    """The first places of about so many runs of about equal mass."""
    if len(mass) <= most:
        return np.arange(len(mass), dtype=np.int64)
    limit = 1.3 * float(mass.sum()) / most
    starts, held = [0], 0.0
    for place, each in enumerate(mass.tolist()):
        if held > 0 and held + each > limit:
            starts.append(place)
            held = 0.0
        held += each
    return np.array(starts, dtype=np.int64)
