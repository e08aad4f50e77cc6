"""What to expect of `adaptive`, from public facts alone.

Its error has two parts. One is noise. The other is what pairs do not say of the table, which grows with its cells and
falls slowly with the budget. No theorem bounds the second, so both are read off tables that we know: with x the noise
of columns of which `parameters.shares_of` speaks, the L1 error of a marginal is about b·x^p, and the largest error of a
cell B·x^q. The constants lie between those of tables of two-valued columns and those of tables of thousands of cells.

A listed conjunction is different: how many rows it may hold is nearly public. Were values equally frequent it would
hold the share v of them, and a mixture that has next to nothing there is wrong by no more than what is there. So its
error is the smaller of noise and of a part of v·n, with what pairs and triples do not say of it on top (`_listed`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from conspectus.mechanisms.mechanism import Claim, Problem, expected_maximum, expected_size
from conspectus.mechanisms.simulation.reruns import Asked
from conspectus.mechanisms.typical.expectations import (
    ADAPTIVE_BEYOND,
    ADAPTIVE_DENSE,
    ADAPTIVE_DENSE_CELLS,
    ADAPTIVE_FLOOR,
    ADAPTIVE_FLOOR_MEAN,
    ADAPTIVE_ITSELF,
    ADAPTIVE_LARGE,
    ADAPTIVE_LARGE_CELLS,
    ADAPTIVE_LISTED,
    ADAPTIVE_LISTED_LARGEST,
    ADAPTIVE_LISTED_MASS,
    ADAPTIVE_LISTED_NOISE,
    ADAPTIVE_LISTED_POWER,
    ADAPTIVE_LISTED_UNSEEN,
    ADAPTIVE_LISTED_UNSEEN_MOST,
    ADAPTIVE_MEAN_OF_MAX,
    ADAPTIVE_SMALL,
    ADAPTIVE_SMALL_CELLS,
)
from conspectus.mechanisms.typical.question_facts import nominal_shares
from conspectus.privacy.events import Noise
from conspectus.queries.block import Block
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import Parities
from conspectus.queries.workload import Workload

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
    whole = largest = listed = 0.0
    others = 0
    asked = len(problem.workload)
    # Never less than noise on one marginal that gets all of the budget.
    own_law = Noise("gaussian", max(floor.scale, math.sqrt(unit_cost(problem.relation) / (2 * rho))))
    for block in problem.workload.blocks:
        # What is measured itself is no more wrong than its measurement.
        own_noise = _spread(block) * expected_size(own_law)
        own_largest = _spread(block) * expected_maximum(own_law, asked)
        # The noise of columns of this size, where `shares` has that of a usual column.
        own = [sizes[column] for column in block.columns] or [1]
        noise = shares.noise * float(np.mean(own)) / float(np.mean(plan.sizes))
        if isinstance(block, Marginal):
            distance, most = _errors(noise, float(len(block)))
            beyond = max(len(own) - 3, 0)
            distance, most = distance + ADAPTIVE_BEYOND[0] * beyond, most + ADAPTIVE_BEYOND[1] * beyond
            least = ADAPTIVE_FLOOR_MEAN * expected_size(floor) * min(len(block), ADAPTIVE_SMALL_CELLS)
            whole += min(max(min(dense * distance, 2.0) * rows, least), own_noise * len(block))
        else:
            _, most = _errors(noise, float(math.prod(sorted(own)[-3:])))
            wide = block.terms.shape[1] > 2 if isinstance(block, Conjunctions) else len(own) > 2
            most *= ADAPTIVE_LISTED if wide else 1.0
            if isinstance(block, Conjunctions) and len(block):
                mean, counts = _listed(problem, plan, block, most * rows)
                whole, listed = whole + min(mean, own_noise) * len(block), max(listed, min(counts, own_largest))
                continue
            guess = max(ADAPTIVE_MEAN_OF_MAX * most * rows, ADAPTIVE_FLOOR_MEAN * expected_size(floor))
            whole += min(guess, own_noise) * len(block)
        largest, others = max(largest, min(most * rows, own_largest)), others + len(block)
    if others:
        largest = max(largest, ADAPTIVE_FLOOR * expected_maximum(floor, min(others, _MANY)))
    width = sum(min(size, plan.most_groups) for size in plan.sizes)
    memory = 4 * (9 * components * width + 8 * width * width) + 40 * width * width + 16 * asked
    notes = ["no interval is proved: nothing bounds what pairs and triples do not say"]
    if intervals:
        notes = ["intervals are simulated, not proved: by reruns on tables drawn from the release"]
        memory += Asked.of(problem.workload.domain, plan.columns, problem.in_order).memory
    return Claim(
        mechanism="adaptive",
        expected_max=max(largest, listed),
        expected_mean=whole / asked,
        bound=None,
        memory=memory,
        citations=CITES,
        notes=tuple(notes),
    )


def _spread(block: Block) -> float:
    """How many deviations of the noise on a cell an answer about one or two columns has, which are measured themselves;
    infinity for wider questions."""
    match block:
        case Marginal():
            return _itself(sum(size > 1 for size in block.shape))
        case Conjunctions():
            _, width, spread = _facts(block)
            return max(1.0, float(spread.max(initial=1.0))) * _itself(int(width.max(initial=0)))
        case Intervals():
            return math.sqrt(block.regular) / 2
        case Parities():
            return _itself(block.k)
        case _:
            return math.inf


def _itself(columns: int) -> float:
    """The same for a cell of a table of so many columns."""
    return math.inf if columns > 2 else ADAPTIVE_ITSELF if columns == 2 else ADAPTIVE_FLOOR


def _errors(noise: float, cells: float) -> tuple[float, float]:
    """The L1 error of a table of so many cells and its largest error, as shares of the rows."""
    span = math.log(ADAPTIVE_LARGE_CELLS / ADAPTIVE_SMALL_CELLS)
    at = min(max(math.log(max(cells, 1.0) / ADAPTIVE_SMALL_CELLS) / span, 0.0), 1.0)
    small, large = ADAPTIVE_SMALL, ADAPTIVE_LARGE
    factor, power, factor_max, power_max = (
        math.exp((1 - at) * math.log(a) + at * math.log(b)) for a, b in zip(small, large)
    )
    return factor * noise**power, factor_max * noise**power_max


def _listed(problem: Problem, plan: AdaptivePlan, block: Conjunctions, most: float) -> tuple[float, float]:
    """The mean and the largest error of listed conjunctions, in counts; `most` is that of cells of as many columns."""
    rows, columns = problem.planned_rows, len(plan.columns)
    share, width, spread = _facts(block)
    unit = math.sqrt(unit_cost(problem.relation) / (2 * float(problem.cap)))
    # A long run of codes has the noise of all of them, and nothing takes it away.
    noise = unit * np.maximum(ADAPTIVE_LISTED_NOISE * columns**0.25, math.sqrt(2 / math.pi * columns) * spread)
    unseen = np.maximum(width - 2, 0)
    missed = np.minimum(ADAPTIVE_LISTED_UNSEEN * unseen**2, ADAPTIVE_LISTED_UNSEEN_MOST)

    def errors(share: NDArray[np.float64]) -> NDArray[np.float64]:
        known = 1 / (1 / (noise * share**0.25) + 1 / (ADAPTIVE_LISTED_MASS * rows * share))
        found: NDArray[np.float64] = known + missed * rows * share
        return found

    # Tables are uneven: what is asked about may be more frequent than values are on average, and the more so the
    # smaller that is. Of many errors a few are the largest, which a norm says without looking for the worst one.
    uneven = errors(share**ADAPTIVE_LISTED_POWER)
    worst = float(uneven.max())
    norm = worst * float(((uneven / worst) ** 6).sum()) ** (1 / 6)
    held = ADAPTIVE_LISTED_UNSEEN_MOST * rows * float(np.where(unseen > 0, share, 0.0).max())
    return float(errors(share).mean()), max(ADAPTIVE_LISTED_LARGEST * norm, min(most, held))


def _facts(block: Conjunctions) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Of each conjunction: its nominal share; how many columns it reads; and the root of how many codes of one column
    it puts together."""
    sizes = block.domain.sizes
    codes = np.array([len(literal.codes) for literal in block.literals] + [1.0])
    of = np.array([sizes[literal.column] for literal in block.literals] + [1.0])
    owner = np.repeat(np.arange(len(block)), np.diff(block.starts))
    width, spread = np.zeros(len(block), dtype=np.int64), np.zeros(len(block))
    np.maximum.at(width, owner, (block.terms >= 0).sum(axis=1))
    np.maximum.at(spread, owner, np.sqrt(codes * (1 - codes / of))[block.terms].max(axis=1, initial=0.0))
    return nominal_shares(Workload(block.domain, (block,))), width, spread


def _noise(problem: Problem, plan: AdaptivePlan, price: float) -> Noise:
    """About the noise on a cell of a pair, or of a column where there are no pairs, were all measured alike."""
    cost = unit_cost(problem.relation)
    if plan.pairs:
        stays = [math.prod(1 - 1 / max(plan.sizes[c], 2) for c in columns) for columns in plan.pairs]
        return Noise("gaussian", math.sqrt(cost * sum(stays) / (2 * price)))
    return Noise("gaussian", math.sqrt(cost * len(plan.columns) / (2 * price)))
