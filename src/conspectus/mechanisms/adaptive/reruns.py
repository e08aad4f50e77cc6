"""The pipeline run again on tables drawn from its own synopsis: how far its answers are off there, as margins.

    1. as many rows as the release has, drawn from the mixture, by public coins
    2. everything again: measure them with as much noise, plan, fit
    3. what the second mixture answers, beside what the drawn rows hold, for cells of tables and for sets of cells
    4. the errors of 3, pooled by the kind of question, its number of columns and the size of its answer

Privacy: all of it is a function of the released mixture, of public facts (the problem and the plan) and of public
coins. The doors of the rerun are those of a `SimulatedTable`: this module knows no curator, and nothing is debited.
Accuracy: nothing is proved. A table that holds more than its mixture does has larger errors than its reruns; margins
are widened for that, by what was seen on real tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from conspectus.mechanisms.mechanism import Problem
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload
from conspectus.synopses.intervals.simulated_errors import LEVELS, Curve, Kind, SimulatedErrors
from conspectus.synopses.product_mixture import ProductMixture
from conspectus.synopses.synopsis import public_sampler

from .doors import Doors
from .parameters import AdaptivePlan
from .simulated_table import SimulatedTable

MOST_COLUMNS = 4
"""Questions of up to so many columns are asked of reruns."""

MOST_CELLS, MOST_TABLES = 1 << 20, 200
"""Of one number of columns, in one rerun: cells of tables, and tables."""

SUMS = 1000
"""Sets of cells that are asked about, for each number of columns."""

FEWEST, MOST = 2, 12
ENOUGH = 4000
"""The least and the largest number of reruns; between them, so many that about so many cells are learned from."""

STEP = 3
"""Sizes of answers in one power of ten that have margins of their own."""

FEWEST_ERRORS = 200
"""Margins come from so many errors at least: sizes with fewer are put together."""

SMALLEST = 1e-3
LARGER, LARGER_BIG = 1.2, 1.4
Errors = tuple[NDArray[np.float64], NDArray[np.float64]]


def simulated_errors(
    fitted: Callable[[Doors], ProductMixture],
    released: ProductMixture,
    problem: Problem,
    plan: AdaptivePlan,
    public_seed: int,
    progress: Callable[[str, int, int | None], None],
) -> SimulatedErrors | None:
    """Margins for answers of a released mixture, from reruns; None where it has no rows to draw.

    Args:
        fitted: The pipeline: measures through the doors that it is given, and fits.
        released: The mixture that was released.
        problem: What was asked, and who are neighbours: public.
        plan: What public facts decided.
        public_seed: Makes the reruns repeatable; it protects nobody.
        progress: Told after each rerun.
    """
    if not released.total.rows:
        return None
    questions = _questions(plan, problem, public_sampler(public_seed))
    cells = sum(len(asked) for (kind, _), asked in questions.items() if kind == "cell")
    reruns = min(max(math.ceil(ENOUGH / cells), FEWEST), MOST)
    found: dict[tuple[Kind, int], list[Errors]] = {key: [] for key in questions}
    for turn in range(reruns):
        progress("reruns", turn, reruns)
        rng = public_sampler(public_seed + turn + 1)
        table = SimulatedTable(released.drawn(released.total.rows, rng), problem.relation, rng)
        again = fitted(table)
        for key, asked in questions.items():
            answers = again.answer(asked) * again.total.divisor
            found[key].append((answers, table.counts(asked).astype(np.float64)))
    progress("reruns", reruns, reruns)
    curves = {
        key: curve(np.concatenate([each[0] for each in errors]), np.concatenate([each[1] for each in errors]))
        for key, errors in found.items()
    }
    return SimulatedErrors(reruns, curves)


def _questions(plan: AdaptivePlan, problem: Problem, rng: np.random.Generator) -> dict[tuple[Kind, int], Workload]:
    """What reruns are asked: whole tables, and sets of cells, of every number of columns."""
    domain = problem.workload.domain
    found: dict[tuple[Kind, int], Workload] = {}
    for order in range(1, min(MOST_COLUMNS, len(plan.columns)) + 1):
        tables = _tables(plan, order, rng)
        if tables:
            found["cell", order] = Workload(domain, tuple(Marginal(domain, columns) for columns in tables))
        boxes = [_box(plan, order, rng) for _ in range(SUMS)]
        found["sum", order] = Workload(domain, (Conjunctions.of(domain, [Predicate((box,)) for box in boxes]),))
    return found


def _tables(plan: AdaptivePlan, order: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Column sets whose tables reruns are asked for: some at random, within a number of cells."""
    many = len(plan.columns)
    if math.comb(many, order) <= 1 << 14:
        every = list(combinations(range(many), order))
        places = [every[i] for i in rng.permutation(len(every))]
    else:
        places = [tuple(sorted(rng.permutation(many)[:order].tolist())) for _ in range(4 * MOST_TABLES)]
    chosen, cells = [], 0
    for place in dict.fromkeys(places):
        size = math.prod(plan.sizes[at] for at in place)
        if cells + size <= MOST_CELLS and len(chosen) < MOST_TABLES:
            chosen.append(tuple(plan.columns[at] for at in place))
            cells += size
    return chosen


def _box(plan: AdaptivePlan, order: int, rng: np.random.Generator) -> tuple[Literal, ...]:
    """A set of codes for each of some columns: an interval where codes stand in an order, else any."""
    box = []
    for at in sorted(rng.permutation(len(plan.columns))[:order].tolist()):
        size = plan.sizes[at]
        many = int(rng.integers(1, max(size, 2)))
        if plan.in_order[at]:
            low = int(rng.integers(0, size - many + 1))
            codes = tuple(range(low, low + many))
        else:
            codes = tuple(sorted(rng.permutation(size)[:many].tolist()))
        box.append(Literal(plan.columns[at], codes))
    return tuple(box)


def curve(answers: NDArray[np.float64], truths: NDArray[np.float64]) -> Curve:
    """Margins by the size of answers, from answers of reruns and the truths beside them."""
    order = np.argsort(answers, kind="stable")
    answers, misses = answers[order], (truths - answers)[order]
    steps = np.floor(np.log10(np.maximum(answers, SMALLEST)) * STEP).astype(np.int64)
    cuts = [0]
    for end in [*(np.flatnonzero(np.diff(steps)) + 1).tolist(), len(answers)]:
        if end - cuts[-1] >= FEWEST_ERRORS:
            cuts.append(end)
    if len(cuts) == 1:
        cuts.append(len(answers))
    cuts[-1] = len(answers)
    sizes, below, above = [], [], []
    sides = (1 + np.array(LEVELS)) / 2
    for low, high in pairwise(cuts):
        size = math.exp(float(np.log(np.maximum(answers[low:high], SMALLEST)).mean()))
        wider = _wider(size)
        sizes.append(size)
        below.append(wider * np.maximum(-np.quantile(misses[low:high], 1 - sides), 0.0))
        above.append(wider * np.maximum(np.quantile(misses[low:high], sides), 0.0))
    kept = np.concatenate([[True], np.diff(sizes) > 0])
    return Curve(np.array(sizes)[kept], np.array(below)[kept], np.array(above)[kept])


def _wider(size: float) -> float:
    """By how much margins are widened, for what real tables hold beyond their mixtures."""
    return LARGER if size < 100 else LARGER_BIG
