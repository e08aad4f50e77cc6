"""How strongly columns hang together: Cramér's V of every pair, as a fitted synopsis has it, and its picture."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.builders.marginals import marginal
from conspectus.releases.release import Release
from conspectus.synopses.synopsis import CannotAnswer

from . import page
from .pictures import triangle

MOST_COLUMNS = 42
MOST_CELLS = 1 << 16
FEWEST = 3
"""A matrix of fewer columns says less than the tables themselves."""
NOTE = (
    "Association is Cramér's V of the published tables: 0 where two columns have nothing to do with each other, 1 "
    "where each decides the other. It is computed from the release alone."
)


def matrix(release: Release) -> str:
    """A picture of the association of all pairs of columns; nothing where the synopsis is no fitted whole.

    Plain noisy tables are left out: noise alone makes columns look associated.
    """
    if release.synopsis.all_measured or release.synopsis.listed() is not None or not release.counts_rows:
        return ""
    columns = _columns(release)[:MOST_COLUMNS]
    if len(columns) < FEWEST:
        return ""
    pairs = combinations(range(len(columns)), 2)
    found = {pair: association(release, *(columns[place] for place in pair)) for pair in pairs}
    if all(value is None for value in found.values()):
        return ""
    title = "Association of columns (Cramér's V)"
    return page.figure(title, triangle(columns, found, title=title), wide=True)


def cramers_v(counts: NDArray[np.float64]) -> float:
    """Cramér's V of a table: 0 for independent columns, 1 for columns that decide each other."""
    total = counts.sum()
    # Values that nobody has say nothing, and must not make a table look wider than it is.
    counts = counts[counts.sum(axis=1) > 1e-9 * total][:, counts.sum(axis=0) > 1e-9 * total]
    if total <= 0 or min(counts.shape) < 2:
        return 0.0
    shares = counts / total
    expected = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
    squares = np.divide((shares - expected) ** 2, expected, out=np.zeros_like(shares), where=expected > 1e-9)
    return float(np.sqrt(squares.sum() / (min(counts.shape) - 1)))


def _columns(release: Release) -> list[str]:
    """The columns that some released marginal holds together with another, in schema order."""
    held = {
        column
        for block in release.workload.blocks
        if isinstance(block, Marginal) and len(block.columns) > 1
        for column in block.columns
    }
    return [release.schema.domain.names[column] for column in sorted(held)]


def association(release: Release, first: str, second: str) -> float | None:
    """Cramér's V of two columns, as the synopsis has them; None where it has not, or the table is too large."""
    sizes = [release.schema.column(name).size for name in (first, second)]
    if math.prod(sizes) > MOST_CELLS:
        return None
    try:
        counts = np.maximum(release.synopsis.answer(marginal(release.schema, [first, second])), 0)
    except CannotAnswer:
        return None
    return cramers_v(counts.reshape(sizes))
