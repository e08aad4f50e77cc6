"""Which residuals of a workload of marginals to measure, and how precisely: decided by public facts alone.

A marginal over T is put together from the residuals of all S ⊆ T (`queries/blocks/residual.py`). Measured by itself,
each residual is measured once, however many marginals hold it, and costs c_S = Π(1 − 1/n_i) of what a table costs.
The mean squared error of all cells of all marginals is Σ_S V_S·σ_S², where

    V_S = Σ_{T ⊇ S} Π_{i∈S}(n_i − 1) / Π_{i∈T∖S} n_i        (sums over the cells of each T),

and the price is Σ_S c_S/2σ_S². Alone these two would say 1/σ_S² ∝ (V_S/c_S)^½. The fit that follows shrinks what is
mostly noise, high interactions most, so that precision is worth more where more of it is kept: 1/σ_S² ∝
m_|S|·(V_S/c_S)^γ, with constants that were chosen on NLTCS and on seven columns of Adult; the optimum is flat.

Everything here is accuracy. What is spent, and on what, is one act (`curator.acts.residual_act`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from conspectus.curator.acts import residual_act, residual_scales
from conspectus.privacy.events import Event
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.residual import MOST_CELLS, Residual
from conspectus.queries.workload import Workload

from .mechanism import Problem

GAMMA = 0.3
ORDERS = (1.0, 2.0, 2.0, 1.0)
"""m for residuals of no, one, two, and three or more columns."""

MOST_RESIDUALS = 20_000
"""More sets of columns than this are not listed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedResiduals:
    """Residuals, and the scale of the noise on each in steps of its own 1/N."""

    residuals: tuple[Residual, ...]
    scales: tuple[float, ...]

    @property
    def deviations(self) -> dict[tuple[int, ...], float]:
        """The deviation of the noise on a cell before it is projected, in counts, by columns."""
        listed = zip(self.residuals, self.scales)
        return {residual.columns: scale / residual.cells for residual, scale in listed}

    def act(self, problem: Problem) -> Event:
        """The one act that measures them."""
        return residual_act(self.residuals, self.scales, relation=problem.relation)


def plan_residuals(problem: Problem, asked: Workload, price: Fraction) -> PlannedResiduals | None:
    """The residuals of all subsets of the columns of all marginals, the empty one left out, for a price in ρ.

    None where some questions are no marginals or there is one alone, where a budget is pure (a residual under Laplace
    noise costs more than the table), or where there are too many.
    """
    marginals = [block for block in asked.blocks if isinstance(block, Marginal)]
    if len(marginals) < len(asked.blocks) or problem.currency == "pure":
        return None
    sizes = asked.domain.sizes
    sets = {tuple(sorted(c for c in block.columns if sizes[c] > 1)) for block in marginals}
    # A marginal alone has nothing in common with others, and holds its own total, which residuals do not.
    if len(sets) < 2 or sum(2 ** len(columns) for columns in sets) > 64 * MOST_RESIDUALS:
        return None
    worth: dict[tuple[int, ...], float] = {}
    for columns in sorted(sets):
        for size in range(1, len(columns) + 1):
            for chosen in combinations(columns, size):
                outside = math.prod(sizes[c] for c in columns if c not in chosen)
                worth[chosen] = worth.get(chosen, 0.0) + math.prod(sizes[c] - 1 for c in chosen) / outside
    if not 0 < len(worth) <= MOST_RESIDUALS or any(math.prod(asked.domain.shape(s)) > MOST_CELLS for s in worth):
        return None
    ordered = sorted(worth, key=lambda columns: (len(columns), columns))
    residuals = tuple(Residual(asked.domain, columns) for columns in ordered)
    moved = np.array([residual.freedom / residual.cells for residual in residuals])
    orders = np.array([ORDERS[min(len(columns), 3)] for columns in ordered])
    precisions = orders * (np.array([worth[columns] for columns in ordered]) / moved) ** GAMMA
    scales = residual_scales(residuals, precisions.tolist(), price, relation=problem.relation)
    return PlannedResiduals(residuals=residuals, scales=scales)
