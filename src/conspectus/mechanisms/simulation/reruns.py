"""A pipeline run again on tables drawn from its own synopsis: how far its answers are off there, as margins.

    1. as many rows as the release has, drawn from the synopsis, by public coins
    2. everything again: measure them with as much noise, plan, fit
    3. what the second synopsis answers, beside what the drawn rows hold, for cells of tables and for sets of cells
    4. the errors of 3, pooled by the kind of question, its number of columns and the size of its answer

Privacy: all of it is a function of the released synopsis, of public facts (the questions and the plan) and of public
coins. The doors of a rerun are those of a `SimulatedTable`: this room may import no curator, and nothing is debited.
Accuracy: nothing is proved. A table that holds more than its synopsis does has larger errors than its reruns; margins
are widened for that, by what was seen on real tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, Domain
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload
from conspectus.synopses.intervals.simulated_errors import FAILED, LEVELS, Curve, Kind, SimulatedErrors
from conspectus.synopses.synopsis import Synopsis, public_sampler

from .measured_through import Doors
from .simulated_table import SimulatedTable

MOST_COLUMNS = 4
"""Questions of up to so many columns are asked of reruns."""

MOST_CELLS, MOST_TABLES, MOST_KEPT = 1 << 21, 200, 1 << 18
"""Of one number of columns, in one rerun: cells of tables, tables, and about how many cells with an answer below one
are kept."""

SUMS = 1000
"""Sets of cells that are asked about, for each number of columns."""

FEWEST, MOST = 2, 6
ENOUGH = 4000
"""The least and the largest number of reruns; between them, so many that about so many cells are learned from."""

STEP = 3
"""Sizes of answers in one power of ten that have margins of their own."""

FEWEST_ERRORS = 200
"""Margins come from so many errors at least: sizes with fewer are put together."""

SMALLEST = 1e-3
LARGER, LARGER_STEP = 1.1, 0.1
"""By how much margins are widened, for what real tables hold beyond their synopses: up to one count, and more for each
power of ten. Chosen on columns of Census-Income (whole and as two values each) and ACS income at ε = 0.1 to 10."""

GROWTH = 0.25
"""Among the largest answers, which are few, margins grow with this power of the answer."""

FEWEST_CELLS, MOST_WEIGHT, RIDGE, MOST_LOG = 3, 50.0, 30.0, 0.7
"""For the factors of columns: the least cells of a table, its largest weight, the ridge, and the largest logarithm."""

Key = tuple[Kind, int]


@dataclass(frozen=True)
class Asked:
    """What reruns are asked about: columns of a table, by their positions, and how many codes of each, from the first
    on, stand in an order."""

    domain: Domain
    columns: tuple[int, ...]
    in_order: tuple[int, ...]

    @classmethod
    def of(cls, domain: Domain, columns: Sequence[int], in_order: Sequence[int]) -> Asked:
        """These columns, but for those of one code; `in_order` is for all columns of the table, or empty."""
        held = tuple(column for column in columns if domain.sizes[column] > 1)
        return cls(domain, held, tuple(in_order[c] if in_order else 0 for c in held))

    @property
    def memory(self) -> int:
        """About how many bytes answers of reruns take at most."""
        largest = math.prod(sorted(self.sizes)[-MOST_COLUMNS:])
        return 48 * min(MOST_CELLS, MOST_TABLES * largest)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each column has."""
        return self.domain.shape(self.columns)


def simulated_errors(
    fitted: Callable[[Doors], Synopsis],
    drawn: Callable[[np.random.Generator], Chunk],
    asked: Asked,
    relation: Relation,
    *,
    public_seed: int,
    progress: Callable[[str, int, int | None], None],
) -> SimulatedErrors | None:
    """Margins for answers of a released synopsis, from reruns; None where there is nothing to ask.

    Args:
        fitted: The pipeline: measures through the doors that it is given, and fits.
        drawn: Rows drawn from the released synopsis by public coins, as many as it says there are.
        asked: What to ask.
        relation: Who are neighbours.
        public_seed: Makes the reruns repeatable; it protects nobody.
        progress: Told after each rerun.
    """
    questions = _questions(asked, public_sampler(public_seed))
    if not questions:
        return None
    cells = sum(len(workload) for (kind, _), workload in questions.items() if kind == "cell")
    reruns = min(max(math.ceil(ENOUGH / max(cells, 1)), FEWEST), MOST)
    found: dict[Key, Errors] = {}
    for turn in range(reruns):
        progress("reruns", turn, reruns)
        rng = public_sampler(public_seed + turn + 1)
        table = SimulatedTable(drawn(rng), relation, rng)
        again = fitted(table)
        for key, workload in questions.items():
            here = Errors.of(workload, again.answer(workload) * again.total.divisor, table.counts(workload))
            found[key] = found[key].and_also(here) if key in found else here
    progress("reruns", reruns, reruns)
    factors = column_factors([errors for (kind, order), errors in found.items() if kind == "cell" and order > 1])
    return SimulatedErrors(reruns, {key: curve(errors, factors) for key, errors in found.items()}, factors)


def where_they_work(rerun: Callable[[], SimulatedErrors | None]) -> tuple[SimulatedErrors | None, tuple[str, ...]]:
    """What reruns find; where they fail, nothing and the reason, as a warning for the release.

    The release is paid for before them. Whatever goes wrong here, in lack of memory too, may cost it its intervals and
    no more.
    """
    try:
        return rerun(), ()
    except Exception as error:
        return None, (f"{FAILED} ({type(error).__name__}): no answer has a simulated interval",)


@dataclass(frozen=True, eq=False)
class Errors:
    """Answers of reruns beside the truth, and what they were about.

    Attributes:
        answers: In counts.
        misses: The truth less the answer.
        sets: The sets of columns that questions were about.
        about: For each answer, which of them.
    """

    answers: NDArray[np.float64]
    misses: NDArray[np.float64]
    sets: tuple[tuple[int, ...], ...]
    about: NDArray[np.int64]

    @classmethod
    def of(cls, asked: Workload, answers: NDArray[np.float64], counts: NDArray[np.int64]) -> Errors:
        if all(isinstance(block, Marginal) for block in asked.blocks):
            sets = tuple(tuple(block.columns) for block in asked.blocks)
            about = np.repeat(np.arange(len(sets)), np.diff(asked.offsets))
        else:
            sets = tuple(query.columns for query in asked.queries() if isinstance(query, Predicate))
            about = np.arange(len(sets))
        # Most cells of large tables are nearly empty, and alike. A choice by answers and places is fair to errors.
        kept = np.flatnonzero((answers >= 1) | (np.arange(len(answers)) % -(-len(answers) // MOST_KEPT) == 0))
        return cls(answers[kept], (counts - answers)[kept], sets, about[kept])

    def and_also(self, other: Errors) -> Errors:
        """These, and those of another rerun with the same questions."""
        mine, yours = (self.answers, self.misses, self.about), (other.answers, other.misses, other.about)
        answers, misses, about = (np.concatenate(pair) for pair in zip(mine, yours))
        return Errors(answers, misses, self.sets, about)

    def steps(self) -> NDArray[np.int64]:
        """Which size each answer has, in steps of a part of a power of ten."""
        return np.asarray(np.floor(np.log10(np.maximum(self.answers, SMALLEST)) * STEP), dtype=np.int64)


def column_factors(tables: Sequence[Errors]) -> dict[int, float]:
    """By how much errors of tables with a column are larger than those of others, answers of one size compared.

    The logarithm of the root mean square of a table's errors, each over what is usual for the size of its answer, is
    taken to be a sum over its columns: least squares with a ridge.
    """
    columns = sorted({column for errors in tables for each in errors.sets for column in each})
    lines, sizes, weights = [], [], []
    for number, errors in enumerate(tables):
        large = errors.answers >= 1
        steps = errors.steps()[large] + 3 * STEP
        squares = errors.misses[large] ** 2
        many = np.maximum(np.bincount(steps), 1)
        usual = np.maximum(np.bincount(steps, squares) / many, 1e-12)
        about = errors.about[large]
        cells = np.bincount(about, minlength=len(errors.sets))
        sums = np.bincount(about, squares / usual[steps], len(errors.sets))
        for place in np.flatnonzero(cells >= FEWEST_CELLS):
            line = np.zeros(len(columns) + len(tables))
            line[[columns.index(column) for column in errors.sets[place]]] = 1
            line[len(columns) + number] = 1
            lines.append(line)
            sizes.append(math.log(max(sums[place] / cells[place], 1e-6)) / 2)
            weights.append(min(float(cells[place]), MOST_WEIGHT))
    if not lines:
        return {}
    design, weight = np.array(lines), np.array(weights)[:, None]
    ridge = np.diag([RIDGE] * len(columns) + [1e-6] * len(tables))
    found = np.linalg.solve(design.T @ (weight * design) + ridge, design.T @ (weight[:, 0] * np.array(sizes)))
    logs = found[: len(columns)] - found[: len(columns)].mean()
    return {column: float(math.exp(min(max(log, -MOST_LOG), MOST_LOG))) for column, log in zip(columns, logs.tolist())}


def _questions(asked: Asked, rng: np.random.Generator) -> dict[Key, Workload]:
    """What reruns are asked: whole tables, and sets of cells, of every number of columns."""
    domain = asked.domain
    found: dict[Key, Workload] = {}
    for order in range(1, min(MOST_COLUMNS, len(asked.columns)) + 1):
        tables = _tables(asked, order, rng)
        if tables:
            found["cell", order] = Workload(domain, tuple(Marginal(domain, columns) for columns in tables))
        boxes = [_box(asked, order, rng) for _ in range(SUMS)]
        found["sum", order] = Workload(domain, (Conjunctions.of(domain, [Predicate((box,)) for box in boxes]),))
    return found


def _tables(asked: Asked, order: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Column sets whose tables reruns are asked for: some at random, within a number of cells."""
    many = len(asked.columns)
    if math.comb(many, order) <= 1 << 14:
        every = list(combinations(range(many), order))
        places = [every[i] for i in rng.permutation(len(every))]
    else:
        places = [tuple(sorted(rng.permutation(many)[:order].tolist())) for _ in range(4 * MOST_TABLES)]
    chosen: list[tuple[int, ...]] = []
    cells = 0
    for place in dict.fromkeys(places):
        size = math.prod(asked.sizes[at] for at in place)
        if cells + size <= MOST_CELLS and len(chosen) < MOST_TABLES:
            chosen.append(tuple(asked.columns[at] for at in place))
            cells += size
    return chosen


def _box(asked: Asked, order: int, rng: np.random.Generator) -> tuple[Literal, ...]:
    """A set of codes for each of some columns: an interval where codes stand in an order, else any."""
    box = []
    for at in sorted(rng.permutation(len(asked.columns))[:order].tolist()):
        size = asked.sizes[at]
        many = int(rng.integers(1, max(size, 2)))
        if asked.in_order[at]:
            low = int(rng.integers(0, size - many + 1))
            codes = tuple(range(low, low + many))
        else:
            codes = tuple(sorted(rng.permutation(size)[:many].tolist()))
        box.append(Literal(asked.columns[at], codes))
    return tuple(box)


def curve(errors: Errors, factors: Mapping[int, float]) -> Curve:
    """Margins by the size of answers, where errors are over the factors of their columns."""
    each = np.array([math.prod(factors.get(column, 1.0) for column in columns) for columns in errors.sets])
    order = np.argsort(errors.answers, kind="stable")
    answers, misses = errors.answers[order], (errors.misses / each[errors.about])[order]
    steps = errors.steps()[order]
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
    # The last margins are for all answers up to the largest one, and grow slowly towards it.
    largest = float(answers[-1])
    if largest > 1.01 * sizes[-1]:
        grown = (largest / sizes[-1]) ** GROWTH
        sizes.append(largest)
        below.append(grown * below[-1])
        above.append(grown * above[-1])
    kept = np.concatenate([[True], np.diff(sizes) > 0])
    return Curve(np.array(sizes)[kept], np.array(below)[kept], np.array(above)[kept])


def _wider(size: float) -> float:
    """By how much margins of answers of a size are widened."""
    return LARGER + LARGER_STEP * math.log10(max(size, 1.0))
