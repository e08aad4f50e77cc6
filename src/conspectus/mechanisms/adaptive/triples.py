"""Triples: which are measured, and what table each is given to the last fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations

import numpy as np

from conspectus.mechanisms.simulation.measured_through import Doors
from conspectus.synopses.synopsis import public_sampler

from .measuring import MOST_CELLS, Tables, choose_measurements, measure_residuals, measure_strengths
from .pair_fits import Model, in_parallel, without_margins
from .pair_scores import HALF_NORMAL
from .parameters import TRIPLE_LEVELS, AdaptivePlan, Shares, residual_cost, unit_cost
from .smoothing import Floats
from .triple_fits import Columns, Triple, crossed, tilted_triple

MOST_TRIPLES, SOME_TRIPLES = 2000, 600
"""More triples than the first number are not all looked at, but so many of them."""

LEVEL = TRIPLE_LEVELS[0]
STANDS_OUT = 9.0
"""A triple has a strength of its own where its χ² is so many root degrees of freedom above them."""

EVALUATIONS = 40


def measure_triples(
    curator: Doors,
    plan: AdaptivePlan,
    tables: Tables,
    model: Model,
    shares: Shares,
    *,
    price: Fraction,
    looks: Fraction,
) -> dict[Columns, Triple]:
    """Triples with noise, where their share of the budget is above zero."""
    if not shares.triples:
        return {}
    levels = {columns: model.levels(columns, TRIPLE_LEVELS, MOST_CELLS) for columns in _strongest(model, plan)}
    levels = {columns: found for columns, found in levels.items() if found and found[0] == LEVEL}
    if not levels:
        return {}
    fine = dict(zip(levels, in_parallel(lambda columns: model.total * crossed(model, columns, LEVEL), list(levels))))
    if shares.uniform:
        return _all_alike(curator, tables, model, fine, price)
    guesses = {
        columns: {level: model.coarser(fine[columns], columns, LEVEL, level) for level in found}
        for columns, found in levels.items()
    }
    variance = unit_cost(curator.relation) * len(levels) / (2 * float(price))
    strengths = measure_strengths(curator, tables, model, guesses, levels, price=looks, variance=variance)
    chosen = choose_measurements(curator, model, guesses, strengths, plan.triples, float(price))
    wanted = {columns: (choice.level, choice.sigma) for columns, choice in chosen.items()}
    measured = measure_residuals(curator, tables, wanted, price)
    return {columns: Triple(columns, levels[columns], strengths[columns], found) for columns, found in measured.items()}


def _strongest(model: Model, plan: AdaptivePlan) -> list[Columns]:
    """The triples that are looked at: those whose pairs are strongest, where there are too many."""
    every = list(plan.triples)
    if len(every) <= MOST_TRIPLES:
        return every

    def strength(columns: Columns) -> float:
        return sum(model.pairs[pair].strength for pair in combinations(columns, 2) if pair in model.pairs)

    return sorted(sorted(every, key=strength, reverse=True)[:MOST_TRIPLES])


def _all_alike(
    curator: Doors, tables: Tables, model: Model, guesses: Mapping[Columns, Floats], price: Fraction
) -> dict[Columns, Triple]:
    """All triples with the same noise. How strong they are is then seen in what was measured: in its χ²."""
    cost = sum(residual_cost(guess.shape, curator.relation) for guess in guesses.values())
    sigma = math.sqrt(cost / (2 * float(price)))
    measured = measure_residuals(curator, tables, dict.fromkeys(guesses, (LEVEL, sigma)), price)
    excess, freedom = {}, {}
    for columns, found in measured.items():
        left = found.residual - without_margins(guesses[columns])
        freedom[columns] = math.prod(size - 1 for size in left.shape)
        excess[columns] = float((left**2).sum()) / found.sigma**2 - freedom[columns]
    usual = max(float(np.mean([excess[columns] / freedom[columns] for columns in measured])), 0.02)
    triples = {}
    for columns, found in measured.items():
        own = excess[columns] if excess[columns] > STANDS_OUT * math.sqrt(freedom[columns]) else 0.0
        squares = max(own, usual * freedom[columns])
        strength = HALF_NORMAL * found.sigma * math.sqrt(squares * found.residual.size)
        triples[columns] = Triple(columns, (LEVEL,), {LEVEL: strength}, found)
    return triples


def triple_tables(
    model: Model, measured: Mapping[Columns, Triple], public_seed: int, *, uniform: bool
) -> dict[Columns, tuple[int, Floats]]:
    """For the last fit: a level and a table for all triples of columns, or for some of them where they are many."""
    alive = [place for place, coding in enumerate(model.codings) if coding.size > 1]
    many = math.comb(len(alive), 3)
    if not model.pairs or not many:
        return {}
    if many <= MOST_TRIPLES:
        every: list[Columns] = list(combinations(alive, 3))
    else:
        drawn = public_sampler(public_seed).random((SOME_TRIPLES, len(alive))).argsort(axis=1)[:, :3]
        every = sorted({tuple(sorted(alive[i] for i in line)) for line in drawn.tolist()} | set(measured))

    def table(columns: Columns) -> tuple[int, Floats]:
        triple = measured.get(columns)
        level = LEVEL if triple is None else triple.measured.level
        base = crossed(model, columns, level)
        if triple is None:
            return level, base
        return level, tilted_triple(model, triple, base, EVALUATIONS, many=uniform)

    return dict(zip(every, in_parallel(table, every)))
