"""Which tables are measured, at which level and how precisely: one plan that spends a price exactly.

For each table the error that is left after measuring a level with noise σ is predicted from how strong it is at each
level. What a measurement gains falls with σ, and its price falls with σ²: for a value κ of a unit of price, each table
takes the level and the σ with the largest gain − κ·price. κ is found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled

from .smoothing import Floats

SCALE_OF_EFFECTS = 1.25
"""The deviation of log-ratios of a table, over its distance to independence as a share: √(π/2)."""

_GRID, _SPAN = 80, 4000.0
_MOST_CELLS, _BUCKETS = 400, 200


@dataclass(frozen=True, eq=False)
class Option:
    """One way to measure a table: at a level, for a price of `cost`/2σ², with what it gains at each σ of the grid."""

    level: int
    cost: float
    gains: Floats


@dataclass(frozen=True)
class Choice:
    """How a table is measured."""

    level: int
    sigma: float
    gain: float


def sigma_grid(price: float, cost: float) -> Floats:
    """The σ that are compared: from what all of the price would buy one table of this cost."""
    least = 0.5 * math.sqrt(cost / (2 * price))
    return np.exp(np.linspace(math.log(least), math.log(least * _SPAN), _GRID))


def left_over(guess: Floats, strength: float, total: float, sigmas: Floats) -> Floats:
    """The share of a level's distance that is left after it was measured with each σ; `guess` in counts."""
    cells = np.maximum(guess.ravel(), 0.0)
    many = np.ones(len(cells))
    if len(cells) > _MOST_CELLS:
        cells.sort()
        edges = np.linspace(0, len(cells), _BUCKETS + 1).astype(np.int64)
        many = np.diff(edges).astype(float)
        cells = np.add.reduceat(cells, edges[:-1]) / many
    return np.asarray(_left_over(cells, many, SCALE_OF_EFFECTS * strength / total, sigmas))


@compiled
def _left_over(cells: Any, many: Any, effect: float, sigmas: Any) -> Any:
    found = np.zeros(len(sigmas))
    mass = 0.0
    for i in range(len(cells)):
        mass += many[i] * cells[i]
    for j in range(len(sigmas)):
        for i in range(len(cells)):
            ratio = cells[i] * effect / sigmas[j]
            found[j] += many[i] * cells[i] / np.sqrt(1.0 + ratio * ratio)
    return found / max(mass, 1e-12)


def gains(
    guesses: Mapping[int, Floats], increments: Mapping[int, float], total: float, sigmas: Floats
) -> dict[int, Floats]:
    """For each level, by how much measuring it with each σ lowers the distance of the table; `guesses` in counts.

    A measurement speaks of its level and of all coarser ones, there with less noise; finer levels are left as they are.
    """
    levels = list(increments)
    whole = math.sqrt(sum(increments[level] ** 2 for level in levels))
    found = {}
    for place, level in enumerate(levels):
        left = np.full(len(sigmas), math.fsum(increments[finer] ** 2 for finer in levels[:place]))
        for coarser in levels[place:]:
            less = math.sqrt(guesses[level].size / guesses[coarser].size)
            kept = left_over(guesses[coarser], increments[coarser], total, sigmas * less)
            left += (increments[coarser] * kept) ** 2
        found[level] = whole - np.sqrt(left)
    return found


def choose(options: Sequence[Sequence[Option]], price: float, sigmas: Floats) -> dict[int, Choice]:
    """How each table is measured, by its place among the options; tables that are not worth it are left out.

    The σ are scaled at the end, so that Σ cost/2σ² is the price.
    """
    owner = np.array([place for place, ways in enumerate(options) for _ in ways], dtype=np.int64)
    every = [way for ways in options for way in ways]
    if not every:
        return {}
    gain = np.stack([way.gains for way in every])
    prices = np.array([way.cost for way in every])[:, None] / (2 * sigmas**2)

    def best(kappa: float) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
        net = gain - kappa * prices
        at = net.argmax(axis=1)
        rows = np.arange(len(every))
        worth = np.where((net[rows, at] > 0) & (gain[rows, at] > 0) & (at < len(sigmas) - 1), net[rows, at], -np.inf)
        # Of each table's ways the best: ways are grouped by table, and the last of a rising order wins.
        order = np.lexsort((worth, owner))
        last = order[np.flatnonzero(np.append(np.diff(owner[order]) != 0, True))]
        chosen = last[np.isfinite(worth[last])]
        return chosen, at[chosen], float(prices[chosen, at[chosen]].sum())

    low, high = -60.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        if best(math.exp(middle))[2] > price:
            low = middle
        else:
            high = middle
    chosen, at, spent = best(math.exp(high))
    stretch = math.sqrt(spent / price) if spent > 0 else 1.0
    return {
        int(owner[way]): Choice(every[way].level, float(sigmas[j]) * stretch, float(gain[way, j]))
        for way, j in zip(chosen, at)
    }
