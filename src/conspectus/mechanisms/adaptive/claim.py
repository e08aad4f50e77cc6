"""What to expect of `adaptive`, from public facts alone.

Its error has two parts. One is noise. The other is what pairs do not say of the table, which grows with its cells and
falls slowly with the budget. No theorem bounds the second, so both are read off tables that we know: with x the noise
of columns of which `parameters.shares_of` speaks, the L1 error of a marginal is about b·x^p, and the largest error of a
cell B·x^q. The constants lie between those of tables of two-valued columns and those of tables of thousands of cells.
"""

from __future__ import annotations

import math

import numpy as np

from conspectus.mechanisms.expectations import (
    ADAPTIVE_BEYOND,
    ADAPTIVE_DENSE,
    ADAPTIVE_DENSE_CELLS,
    ADAPTIVE_FLOOR,
    ADAPTIVE_FLOOR_MEAN,
    ADAPTIVE_LARGE,
    ADAPTIVE_LARGE_CELLS,
    ADAPTIVE_LISTED,
    ADAPTIVE_MEAN_OF_MAX,
    ADAPTIVE_SMALL,
    ADAPTIVE_SMALL_CELLS,
)
from conspectus.mechanisms.mechanism import Claim, Problem, expected_maximum, expected_size
from conspectus.mechanisms.simulation.reruns import Asked
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal

from .parameters import AdaptivePlan, shares_of, unit_cost

_MANY = 64
"""Of so many noises the largest is no smaller than that of a fit: those of larger tables are mostly fitted away."""

CITES = ("McKenna, Mullins, Sheldon & Miklau 2022 (select, measure, fit)", "Xiao, He, Zhang & Kifer 2023 (residuals)")


def claim_of(problem: Problem, plan: AdaptivePlan, *, components: int, triples: bool, intervals: bool) -> Claim:
    """Typical errors, and the memory that matrices over all groups of all columns take."""
    rows = problem.planned_rows
    rho = float(problem.cap)
    shares = shares_of(plan, problem.relation, rho, rows, triples=triples)
    sizes = problem.workload.domain.sizes
    floor = _noise(problem, plan, rho * (shares.pairs if plan.pairs else 1.0))
    dense = ADAPTIVE_DENSE if problem.cells <= ADAPTIVE_DENSE_CELLS else 1.0
    whole = largest = 0.0
    for block in problem.workload.blocks:
        # The noise of columns of this size, where `shares` has that of a usual column.
        own = [sizes[column] for column in block.columns] or [1]
        noise = shares.noise * float(np.mean(own)) / float(np.mean(plan.sizes))
        if isinstance(block, Marginal):
            distance, most = _errors(noise, float(len(block)))
            beyond = max(len(own) - 3, 0)
            distance, most = distance + ADAPTIVE_BEYOND[0] * beyond, most + ADAPTIVE_BEYOND[1] * beyond
            least = ADAPTIVE_FLOOR_MEAN * expected_size(floor) * min(len(block), ADAPTIVE_SMALL_CELLS)
            whole += max(min(dense * distance, 2.0) * rows, least)
        else:
            _, most = _errors(noise, float(math.prod(sorted(own)[-3:])))
            wide = block.terms.shape[1] > 2 if isinstance(block, Conjunctions) else len(own) > 2
            most *= ADAPTIVE_LISTED if wide else 1.0
            whole += max(ADAPTIVE_MEAN_OF_MAX * most * rows, ADAPTIVE_FLOOR_MEAN * expected_size(floor)) * len(block)
        largest = max(largest, most * rows)
    asked = len(problem.workload)
    width = sum(min(size, plan.most_groups) for size in plan.sizes)
    memory = 4 * (9 * components * width + 8 * width * width) + 40 * width * width + 16 * asked
    notes = ["no interval is proved: nothing bounds what pairs and triples do not say"]
    if intervals:
        notes = ["intervals are simulated, not proved: by reruns on tables drawn from the release"]
        memory += Asked.of(problem.workload.domain, plan.columns, problem.in_order).memory
    return Claim(
        mechanism="adaptive",
        expected_max=max(largest, ADAPTIVE_FLOOR * expected_maximum(floor, min(asked, _MANY))),
        expected_mean=whole / asked,
        bound=None,
        memory=memory,
        citations=CITES,
        notes=tuple(notes),
    )


def _errors(noise: float, cells: float) -> tuple[float, float]:
    """The L1 error of a table of so many cells and its largest error, as shares of the rows."""
    span = math.log(ADAPTIVE_LARGE_CELLS / ADAPTIVE_SMALL_CELLS)
    at = min(max(math.log(max(cells, 1.0) / ADAPTIVE_SMALL_CELLS) / span, 0.0), 1.0)
    small, large = ADAPTIVE_SMALL, ADAPTIVE_LARGE
    factor, power, factor_max, power_max = (
        math.exp((1 - at) * math.log(a) + at * math.log(b)) for a, b in zip(small, large)
    )
    return factor * noise**power, factor_max * noise**power_max


def _noise(problem: Problem, plan: AdaptivePlan, price: float) -> Noise:
    """About the noise on a cell of a pair, or of a column where there are no pairs, were all measured alike."""
    cost = unit_cost(problem.relation)
    if plan.pairs:
        stays = [math.prod(1 - 1 / max(plan.sizes[c], 2) for c in columns) for columns in plan.pairs]
        return Noise("gaussian", math.sqrt(cost * sum(stays) / (2 * price)))
    return Noise("gaussian", math.sqrt(cost * len(plan.columns) / (2 * price)))
