"""Cells of measured marginals that a fit misses by more than noise explains: features of their own.

In an interaction of thousands of dimensions one cell does not show, however many rows it holds: the ridge that keeps
the noise of all others out takes its rows for noise as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .lbfgs import Vector
from .residuals import Target


class StandingOut:
    """The cells of some targets that were found to stand out.

    Noise alone makes a miss as large as is asked for, in any cell, with a probability below `chance`: the ridge only
    makes misses smaller. It is Gaussian, or with `heavy_tails` Laplace noise.
    """

    def __init__(self, sizes: Sequence[int], targets: Sequence[Target], *, chance: float, heavy_tails: bool) -> None:
        self._sizes, self._chance, self._heavy_tails = tuple(sizes), chance, heavy_tails
        self._marginals = [one for one in targets if not one.partition and one.columns]
        self._found = [np.zeros(one.fractions.size, dtype=bool) for one in self._marginals]

    def more(self, weights: Vector) -> bool:
        """Whether a histogram misses cells that were not found before."""
        table, more, far = weights.reshape(self._sizes), False, self._far()
        for one, found in zip(self._marginals, self._found):
            others = tuple(c for c in range(len(self._sizes)) if c not in one.columns)
            missed = np.abs(table.sum(axis=others).ravel() - one.fractions) * math.sqrt(one.weight) > far
            more = more or bool((missed & ~found).any())
            found |= missed
        return more

    def _far(self) -> float:
        """How many deviations from its count no cell is by noise."""
        from scipy.special import ndtri  # a quarter of a second, which only a fit needs

        each = self._chance / max(1, sum(found.size for found in self._found))
        return -math.log(each) / math.sqrt(2) if self._heavy_tails else float(-ndtri(each / 2))

    @property
    def targets(self) -> list[Target]:
        """For each marginal with such cells a partition: each of them is a part, and all others are one."""
        return [
            Target(
                one.columns,
                np.append(one.fractions[~found].sum(), one.fractions[found]),
                one.weight,
                found * found.cumsum(),
            )
            for one, found in zip(self._marginals, self._found)
            if found.any()
        ]
