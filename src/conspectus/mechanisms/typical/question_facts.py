"""What is public about the questions of a workload: how narrow they are, and how many dimensions they span."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.lbfgs import Vector

from .expectations import FIT_LEFT, FIT_LEFT_CELLS

SMALLEST = 1e-200
"""In place of no share at all, of a question that nothing satisfies."""

_HALF = 0.5


def nominal_shares(workload: Workload) -> Vector:
    """The share of the rows that would satisfy each question, or its negation if that is smaller, were all combinations
    of values equally frequent. A half where nothing public says more."""
    shares = [np.empty(0)]
    for block in workload.blocks:
        match block:
            case Marginal():
                found = np.full(len(block), 1 / len(block))
            case Conjunctions():
                found = conjunction_shares(block)
            case Intervals():
                low, high = block.bounds
                found = (high - low + 1) / block.domain.sizes[block.column]
            case _:
                found = np.full(len(block), _HALF)
        shares.append(found)
    share = np.concatenate(shares)
    return np.clip(np.minimum(share, 1 - share), SMALLEST, _HALF)


def conjunction_shares(block: Conjunctions) -> NDArray[np.float64]:
    """The share of all records for which each conjunction holds."""
    sizes = block.domain.sizes
    codes = np.array([len(literal.codes) for literal in block.literals] + [1.0])
    of = np.array([sizes[literal.column] for literal in block.literals] + [1.0])
    owner = np.repeat(np.arange(len(block)), np.diff(block.starts))
    return np.bincount(owner, (codes / of)[block.terms].prod(axis=1), minlength=len(block)).astype(np.float64)


def narrowness(workload: Workload) -> float:
    """The mean of √(4v(1 − v)) over all questions, where v is a nominal share: by so much less do their counts vary in
    sampled rows than those of questions about a half of all rows."""
    share = nominal_shares(workload)
    return float(np.sqrt(4 * share * (1 - share)).mean())


def most_on_average(workload: Workload) -> float:
    """How wrong the answers of any table can be on average, as a share of the rows: of the cells of one marginal the
    errors add up to 2 at most."""
    whole = all(isinstance(block, Marginal) for block in workload.blocks)
    return min(1.0, 2 * len(workload.blocks) / max(len(workload), 1)) if whole else 1.0


def dimensions(workload: Workload) -> int:
    """The dimension of the space that the questions span: that of each interaction that a marginal holds, once, and one
    for each single question, at most."""
    interactions: set[tuple[int, ...]] = set()
    sizes = workload.domain.sizes
    single = 0
    for block in workload.blocks:
        if isinstance(block, Marginal) and len(block.columns) <= 8:
            held = sorted(block.columns)
            interactions |= {each for size in range(len(held) + 1) for each in combinations(held, size)}
        else:
            single += len(block)
    cells = workload.domain.project(workload.columns or (0,)).cells
    return min(cells, single + sum(math.prod(sizes[c] - 1 for c in columns) for columns in interactions))


def kept_noise(part: float, questions: int) -> float:
    """How much of its noise an answer keeps after a fit, where of many questions this part is left of each.

    Many questions bound one another. One alone is bound by nothing, and keeps all of its noise.
    """
    return 1 - (1 - part) * (1 - 1 / math.sqrt(max(questions, 1)))


def left_by_fit(cells: int) -> float:
    """The largest error, in counts, that a fit of so many cells leaves however little noise there was."""
    return FIT_LEFT * min(1.0, cells / FIT_LEFT_CELLS)
