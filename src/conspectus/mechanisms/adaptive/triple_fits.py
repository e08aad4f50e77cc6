"""Tables of three columns: maximum entropy given their pairs, and tilted towards what was measured of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from conspectus.compiled import compiled

from .budgeting import SCALE_OF_EFFECTS
from .pair_fits import Measurement, Model, ridge_of, without_margins
from .smoothing import Floats
from .tilting import MARGIN_RIDGE, Part, tilted

Columns = tuple[int, int, int]

ROUNDS = 8
MOST_FINE_CELLS = 1 << 18
"""Triples with more cells are crossed at a coarser level at once: their finest cells hold nothing that is looked at."""


@dataclass(frozen=True, eq=False)
class Triple:
    """What is known of three columns, as of two."""

    columns: Columns
    levels: tuple[int, ...]
    increments: Mapping[int, float]
    measured: Measurement


def crossed(model: Model, columns: Columns, level: int) -> Floats:
    """The table of three columns at a level: that of most entropy with the tables of its pairs, nearly."""
    a, b, c = columns
    sides = [model.table(a, b), model.table(a, c), model.table(b, c)]
    laws = [model.codings[column].law for column in columns]
    fine = math.prod(len(law) for law in laws) <= MOST_FINE_CELLS
    if not fine:
        sides = [model.merged(side, pair, level) for side, pair in zip(sides, ((a, b), (a, c), (b, c)))]
        laws = [model.merged(law, (column,), level) for law, column in zip(laws, columns)]
    table = laws[0][:, None, None] * laws[1][None, :, None] * laws[2]
    ab, ac, bc = (np.ascontiguousarray(side) for side in sides)
    proportional(table, ab, ac, bc, ROUNDS)
    return model.merged(table, columns, level) if fine else table


@compiled
def proportional(table: Any, ab: Any, ac: Any, bc: Any, rounds: int) -> None:
    """Iterative proportional fitting of a table of three columns to those of its pairs, in place."""
    first, second, third = table.shape
    held_ac, held_bc = np.empty((first, third)), np.empty((second, third))
    for _ in range(rounds):
        held_ac[:] = 0.0
        for i in range(first):
            for j in range(second):
                mass = 0.0
                for k in range(third):
                    mass += table[i, j, k]
                factor = ab[i, j] / mass if mass > 1e-300 else 0.0
                for k in range(third):
                    table[i, j, k] *= factor
                    held_ac[i, k] += table[i, j, k]
        for i in range(first):
            for k in range(third):
                held_ac[i, k] = ac[i, k] / held_ac[i, k] if held_ac[i, k] > 1e-300 else 0.0
        held_bc[:] = 0.0
        for i in range(first):
            for j in range(second):
                for k in range(third):
                    table[i, j, k] *= held_ac[i, k]
                    held_bc[j, k] += table[i, j, k]
        for j in range(second):
            for k in range(third):
                held_bc[j, k] = bc[j, k] / held_bc[j, k] if held_bc[j, k] > 1e-300 else 0.0
        for i in range(first):
            for j in range(second):
                for k in range(third):
                    table[i, j, k] *= held_bc[j, k]
    mass = table.sum()
    if mass > 0:
        table /= mass


def tilted_triple(model: Model, triple: Triple, base: Floats, evaluations: int, *, many: bool = False) -> Floats:
    """The table of three columns at the level that was measured, tilted towards that; its pairs stay as they are.

    `many` says that all triples were measured alike, without a look at which are strong: the ridge is then that of a
    Gaussian prior where it is the weaker one.
    """
    measured = triple.measured
    axes = np.indices(base.shape, dtype=np.int32).reshape(3, -1)
    parts = []
    for x, y in ((0, 1), (0, 2), (1, 2)):
        margin = base.sum(axis=3 - x - y)
        parts.append(Part(axes[x] * np.int32(base.shape[y]) + axes[y], margin, MARGIN_RIDGE, residual=False))
    known = model.total * base
    known = known + measured.residual - without_margins(known)
    for level in triple.levels:
        if level < measured.level:
            continue
        coarse, shares, cells = known, base, np.zeros(base.size, dtype=np.int32)
        for axis, column in enumerate(triple.columns):
            starts = model.codings[column].starts
            inside = np.searchsorted(starts[measured.level], starts[level])
            if len(inside) < coarse.shape[axis]:
                coarse = np.add.reduceat(coarse, inside, axis=axis)
                shares = np.add.reduceat(shares, inside, axis=axis)
            runs = (np.searchsorted(inside, np.arange(base.shape[axis]), side="right") - 1).astype(np.int32)
            cells = cells * np.int32(len(inside)) + runs[axes[axis]]
        noise = measured.sigma * math.sqrt(known.size / coarse.size) / model.total
        strength = triple.increments[level] / model.total
        ridge: float | Floats = ridge_of(noise, strength)
        if many:
            effect = max(SCALE_OF_EFFECTS * strength, 1e-9)
            ridge = np.minimum(ridge, noise**2 / (np.maximum(shares, 0.01) * effect**2))
        parts.append(Part(cells, without_margins(coarse) / model.total, ridge, residual=True))
    return tilted(base, parts, evaluations)
