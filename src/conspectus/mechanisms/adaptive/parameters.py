"""Settings and public facts to a plan: which columns, pairs and triples are looked at, and how the budget is shared."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from conspectus.mechanisms.mechanism import CannotServe, Problem, not_counting, refuse_for, root_up
from conspectus.mechanisms.sharper_budgets import sharpened_terms
from conspectus.privacy.gaussian_filter import GaussianTerms
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import Parities, ParityList
from conspectus.queries.workload import Workload

from .pair_scores import HALF_NORMAL

MOST_COLUMNS, MOST_PAIRS = 400, 40_000
MOST_CODES = 1 << 22
MOST_GROUPS = 5000
"""Of all columns together: matrices over them are what takes memory."""

WIDEST_SET = 12
"""Questions about more columns than these ask about pairs: their triples would be too many."""

TOTAL_SHARE = Fraction(1, 500)
"""Of the budget, for a first look at the number of rows where that is private."""

LEAST_FOR_COLUMNS, FEW_FOR_COLUMNS, MOST_FOR_COLUMNS = 0.05, 0.2, 0.6
"""Of the budget: at least, less than which where it is large, and at most."""

USUAL_NOISE, GROWTH, GROWTH_ABOVE = 0.0148, 0.27, 0.35
"""Columns get a quarter of the budget where the noise of `Shares` is usual, and more with it, by these powers. By the
second they get a fifth more than by the first at ε = 0.1: tables of three columns are 1.6 % nearer for it on 14 columns
of Diabetic, as near on 14 of Census-Income (2 runs each), and 1.8 % nearer on Adult (5 runs)."""

UNIFORM_SHARE = 0.37
"""Of the budget, for triples that are all measured alike. With it the worst triple of NLTCS at ε = 1 is 11 % nearer to
the truth than with 0.3, and the mean as near; with 0.45 the worst is 17 % nearer and the mean 2 % farther."""

WIDE_ENOUGH = 100
"""Noise of this σ² costs about a hundredth of the budget for being discrete."""

PAIR_LEVELS, TRIPLE_LEVELS = (0, 1, 2, 3, 4), (2, 3)

Columns = TypeVar("Columns", bound=tuple[int, ...])
Pairs = Mapping[tuple[int, int], float]
Triples = Mapping[tuple[int, int, int], float]


@dataclass(frozen=True, kw_only=True, eq=False)
class AdaptivePlan:
    """What public facts decide. Columns of pairs and triples are places in `columns`.

    Attributes:
        columns: The columns that are modelled: those that the workload asks about.
        sizes: How many codes each has.
        in_order: How many codes of each, from the first on, stand in an order.
        pairs: The pairs of columns that questions ask about, each with its weight.
        triples: The triples, likewise.
        most_groups: The most groups of one column that are told apart.
        terms: What its Gaussian acts keep to, where that buys more than their ρ.
    """

    columns: tuple[int, ...]
    sizes: tuple[int, ...]
    in_order: tuple[int, ...]
    pairs: Pairs
    triples: Triples
    most_groups: int
    terms: GaussianTerms | None

    def widened(self, problem: Problem) -> Problem:
        """The problem with the budget that the terms allow."""
        return problem if self.terms is None else replace(problem, rho=self.terms.rho)

    @property
    def narrowest(self) -> float:
        """The least scale of noise, in steps of what it is added to, that the terms allow."""
        return 0.0 if self.terms is None else root_up(self.terms.least_square)


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How what is left after the first look at the number of rows is shared. They sum to one with that of pairs.

    Attributes:
        noise: About how far a column is from the truth in L1, were all of the budget spent on columns.
        columns: For the columns.
        scores: For the distances of pairs to independence.
        triples: For triples: 0 where they would be noise.
        triple_scores: For the distances of triples to what their pairs make likely.
        levels: Which levels of pairs are scored.
        uniform: Whether all triples are measured alike, without a look at which are strong: where they are small.
    """

    noise: float
    columns: float
    scores: float
    triples: float
    triple_scores: float
    levels: tuple[int, ...]
    uniform: bool

    @property
    def pairs(self) -> float:
        return 1 - self.columns - self.scores - self.triples - self.triple_scores


def refuse_columns(many: int) -> None:
    """Raise `CannotServe` where there are more columns than can be modelled together."""
    if many > MOST_COLUMNS:
        raise CannotServe(f"it models pairs of {many:,} columns (limit {MOST_COLUMNS}): ask about fewer columns")


def plan_of(problem: Problem) -> AdaptivePlan:
    """What public facts decide, or why it cannot serve them."""
    refuse_for(not_counting(problem))
    if problem.currency == "pure":
        raise CannotServe("it measures with Gaussian noise: allow a delta above 0, or use mwem, dual-query or laplace")
    domain, held = problem.workload.domain, problem.held
    refuse_columns(len(held))
    place = {column: at for at, column in enumerate(held)}
    sets: dict[tuple[int, ...], float] = defaultdict(float)
    for columns, weight in column_sets(problem.workload):
        sets[tuple(sorted(place[column] for column in columns))] += weight
    pairs: dict[tuple[int, int], float] = defaultdict(float)
    triples: dict[tuple[int, int, int], float] = defaultdict(float)
    for columns, weight in sets.items():
        for a, b in combinations(columns, 2):
            pairs[a, b] += weight
        if len(columns) <= WIDEST_SET:
            for a, b, c in combinations(columns, 3):
                triples[a, b, c] += weight
    if len(pairs) > MOST_PAIRS:
        raise CannotServe(
            f"it measures {len(pairs):,} pairs of columns (limit {MOST_PAIRS:,}): ask about fewer columns"
        )
    sizes = domain.shape(held)
    most = most_groups(sizes)
    if max(sizes) > MOST_CODES:
        raise CannotServe(f"a column has {max(sizes):,} values (limit {MOST_CODES:,}): declare fewer, or bins")
    if most < 2:
        raise CannotServe(f"these {len(held):,} columns are too many to be told apart: ask about fewer columns")
    in_order = tuple(problem.in_order[column] if problem.in_order else 0 for column in held)
    return AdaptivePlan(
        columns=held,
        sizes=sizes,
        in_order=in_order,
        pairs=_evened(pairs),
        triples=_evened(triples),
        most_groups=most,
        terms=sharpened_terms(problem, lambda rho: _least_square(sizes, pairs, problem.relation, rho)),
    )


def _least_square(
    sizes: tuple[int, ...], pairs: Iterable[tuple[int, int]], relation: Relation, rho: Fraction
) -> Fraction:
    """The σ² that no noise shall go below, in steps of what it is added to.

    That of columns when they get most of the budget; where this is narrow, and the budget so large that they get less,
    a wider one, which costs less for being discrete. And half of what pairs have when all are measured alike.
    """
    roots = [root_of(size) for size in sizes]
    whole = Fraction(unit_cost(relation)) / (2 * rho)
    columns = min((whole * sum(roots) * size**2 / root for size, root in zip(sizes, roots) if size > 1), default=whole)
    cells = [(sizes[a] * sizes[b]) ** 2 for a, b in pairs]
    usual = [whole * min(cells) * len(cells) / 4] if cells else []
    always = min([columns / Fraction(MOST_FOR_COLUMNS), *usual])
    return (
        always if always >= WIDE_ENOUGH else min([columns / Fraction(FEW_FOR_COLUMNS), Fraction(WIDE_ENOUGH), *usual])
    )


def root_of(size: int) -> int:
    """What a column of this size gets of the price of all columns, up to a factor: about the root of its size."""
    return math.isqrt(size << 40)


def most_groups(sizes: Iterable[int]) -> int:
    """The largest number of groups of a column with which all columns together stay within `MOST_GROUPS`."""
    falling = sorted(sizes, reverse=True)
    low, high = 1, max(falling[0], 2)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(size, middle) for size in falling) <= MOST_GROUPS:
            low = middle
        else:
            high = middle - 1
    return low


def _evened(weights: Mapping[Columns, float]) -> dict[Columns, float]:
    """Weights with mean one, in the order of the columns."""
    mean = sum(weights.values()) / max(len(weights), 1)
    return {columns: weights[columns] / mean for columns in sorted(weights)}


def column_sets(workload: Workload) -> Iterable[tuple[tuple[int, ...], float]]:
    """The sets of columns that questions ask about, each with its weight: 1 for a marginal, and for single questions
    their number over what each such set has on average."""
    for block in workload.blocks:
        match block:
            case Marginal():
                yield block.columns, 1.0
            case Intervals():
                yield (block.column,), 1.0
            case Conjunctions():
                columns = np.array([*(literal.column for literal in block.literals), -1], dtype=np.int64)[block.terms]
                yield from _counted(columns)
            case Parities() | ParityList():
                yield from _counted(np.asarray(block.matrix, dtype=np.int64))


def _counted(columns: NDArray[np.int64]) -> Iterable[tuple[tuple[int, ...], float]]:
    if not columns.size:
        return
    found, many = np.unique(np.sort(columns, axis=1), axis=0, return_counts=True)
    for line, number in zip(found.tolist(), many.tolist()):
        yield tuple(sorted({column for column in line if column >= 0})), number / float(many.mean())


def unit_cost(relation: Relation) -> float:
    """The squared L2 norm of what one unit moves a table: 1, 2 under replace, times the rows of a unit squared."""
    return (2.0 if relation.replace else 1.0) * relation.max_rows**2


def residual_cost(shape: Iterable[int], relation: Relation) -> float:
    """About what one unit moves the residual of a table of this shape, as a squared L2 norm."""
    sizes = list(shape)
    stays = math.prod(1 - 1 / n for n in sizes)
    if not relation.replace:
        return stays * relation.max_rows**2
    # Two records that differ on the axis of fewest values alone are farthest apart.
    alone = [stays / (1 - 1 / n) * (-1 / n) if n > 1 else 0.0 for n in sizes]
    return 2 * (stays - min(alone)) * relation.max_rows**2


def shares_of(plan: AdaptivePlan, relation: Relation, rho: float, rows: float, *, triples: bool) -> Shares:
    """How the budget is shared, by the number of rows as far as it is known. Chosen on Adult and NLTCS."""
    cost, many, pairs = unit_cost(relation), len(plan.columns), len(plan.pairs)
    noise = HALF_NORMAL * math.sqrt(cost * many / (2 * rho)) / rows * float(np.mean(plan.sizes))
    power = GROWTH if noise < USUAL_NOISE else GROWTH_ABOVE
    columns = min(max(0.25 * (noise / USUAL_NOISE) ** power, LEAST_FOR_COLUMNS), MOST_FOR_COLUMNS)
    if not pairs:
        return Shares(noise=noise, columns=1.0, scores=0.0, triples=0.0, triple_scores=0.0, levels=(), uniform=False)
    scores = 0.03 if noise < 0.05 else 0.05
    moved = (2 if relation.replace else 1) * relation.max_rows
    fine = moved * math.sqrt(3 * pairs / (2 * scores * rho)) / rows < 0.03
    uniform = triples and _small(plan)
    share = 0.0
    if uniform:
        share = UNIFORM_SHARE if noise < 0.003 else 0.0
    elif triples and plan.triples:
        share = 0.3 if noise < 0.0005 else 0.1 if noise < 0.003 else 0.05 if noise < 0.006 else 0.0
    looks = 0.01 if share and not uniform else 0.0
    return Shares(
        noise=noise,
        columns=columns,
        scores=scores,
        triples=share,
        triple_scores=looks,
        levels=(0, 2, 3) if fine else (2,),
        uniform=uniform and share > 0,
    )


def _small(plan: AdaptivePlan) -> bool:
    """Whether triples have few cells, so that all of them can be measured alike."""
    if not plan.triples:
        return False
    cells = [math.prod(min(plan.sizes[c], 16) for c in columns) for columns in plan.triples]
    return float(np.mean(cells)) <= 30
