"""What is bought: columns, distances of pairs and triples, and their residuals. The only steps that spend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np

from conspectus.curator.acts import residual_scales
from conspectus.curator.scores import ERROR_STEPS, TableDistances
from conspectus.mechanisms.mechanism import Problem, root_up
from conspectus.mechanisms.simulation.measured_through import Doors
from conspectus.mechanisms.total import take_total
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.grouped_marginal import GroupedMarginal, Grouping
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.residual import Residual
from conspectus.queries.builders.conjunctions import always
from conspectus.queries.workload import Workload
from conspectus.synopses.synopsis import Total

from .budgeting import Choice, Option, choose, gains, sigma_grid
from .coding import Coding, code_column
from .pair_fits import Measurement, Model
from .pair_scores import increments, sampling_distance, signals
from .parameters import AdaptivePlan, residual_cost, unit_cost
from .smoothing import Floats

Columns = TypeVar("Columns", bound=tuple[int, ...])

MOST_CELLS = 1 << 18
"""The largest table that is measured; larger ones are looked at on a coarser level."""


def first_total(curator: Doors, problem: Problem, price: Fraction) -> Total:
    """The number of rows: as it is where it is public, else with noise for this price."""
    law = None
    if not problem.total_is_public:
        law = problem.law(problem.sensitivity(always(problem.workload.domain)), price)
    return take_total(curator, problem, law)


def measure_columns(
    curator: Doors, problem: Problem, plan: AdaptivePlan, first: Total, price: Fraction
) -> tuple[list[Coding], Total]:
    """Every column with noise, as it is modelled, and the number of rows by all of them together.

    Columns of more values get more of the price, by the root of their number.
    """
    domain = problem.workload.domain
    tables = [Workload(domain, (Marginal(domain, (column,)),)) for column in plan.columns]
    curator.count_ahead(Workload(domain, tuple(table.blocks[0] for table in tables)))
    roots = [math.isqrt(size << 40) for size in plan.sizes]
    noisy: list[Floats] = []
    laws: list[Noise] = []
    for table, root in zip(tables, roots):
        law = problem.law(problem.sensitivity(table), price * root / sum(roots))
        noisy.append(curator.measure(table, law).astype(np.float64))
        laws.append(law)
    total = first
    if not first.exact:
        # Each column's counts add up to the rows: the mean of least variance, of these and of the first look.
        sums = [first.value, *(float(counts.sum()) for counts in noisy)]
        weights = [1 / first.scale**2, *(1 / (len(counts) * law.scale**2) for counts, law in zip(noisy, laws))]
        value = math.fsum(w * s for w, s in zip(weights, sums)) / math.fsum(weights)
        # Its noise is no larger than that of the best of them alone, which is a law that was drawn.
        scale, terms = min(
            [(first.scale, 1), *((law.scale, len(counts)) for counts, law in zip(noisy, laws))],
            key=lambda known: known[1] * known[0] ** 2,
        )
        total = Total(value=value, exact=False, kind="gaussian", scale=scale, terms=terms)
    codings = [
        code_column(counts, law.scale, total.divisor, in_order, plan.most_groups)
        for counts, law, in_order in zip(noisy, laws, plan.in_order)
    ]
    return codings, total


class Tables:
    """Tables of some columns of a model at a level, as questions to the curator."""

    def __init__(self, problem: Problem, plan: AdaptivePlan, model: Model) -> None:
        self._domain = problem.workload.domain
        self._plan = plan
        self._model = model
        self._groups: dict[tuple[int, int], Grouping] = {}

    def _grouping(self, place: int, level: int) -> Grouping:
        key = (place, level)
        if key not in self._groups:
            coding = self._model.codings[place]
            groups = coding.maps[level][coding.groups]
            plain = np.array_equal(groups, np.arange(len(groups)))
            self._groups[key] = None if plain else tuple(groups.tolist())
        return self._groups[key]

    def residual(self, columns: Sequence[int], level: int) -> Residual:
        """The residual of some columns at a level."""
        groups = tuple(self._grouping(place, level) for place in columns)
        return Residual(self._domain, tuple(self._plan.columns[place] for place in columns), groups)

    def marginal(self, columns: Sequence[int], level: int) -> Marginal | GroupedMarginal:
        """The table itself."""
        return self.residual(columns, level).table


def measure_strengths(
    curator: Doors,
    tables: Tables,
    model: Model,
    guesses: Mapping[Columns, Mapping[int, Floats]],
    scored: Mapping[Columns, Sequence[int]],
    *,
    price: Fraction,
    variance: float,
) -> dict[Columns, dict[int, float]]:
    """How strong each table is at each of its levels, in counts, from noisy distances to the guesses, in counts.

    `guesses` has all levels of a table, `scored` those that are looked at; `variance` is that of the noise with which a
    table would be measured.
    """
    looked = [(columns, level) for columns, levels in scored.items() for level in levels]
    workload = Workload(
        tables.marginal(*looked[0]).domain, tuple(tables.marginal(columns, level) for columns, level in looked)
    )
    guess = np.concatenate([guesses[columns][level].ravel() for columns, level in looked])
    score = TableDistances(workload, guess)
    moved = score.sensitivity(curator.relation).under(curator.relation.neighbours)
    assert moved is not None
    law = Noise("gaussian", root_up(moved * moved * score.candidates / (2 * price)))
    noisy = curator.measure(score, law).astype(np.float64) / ERROR_STEPS
    sampling = np.array([sampling_distance(guesses[columns][level], variance) for columns, level in looked])
    found: dict[Columns, dict[int, float]] = {}
    for (columns, level), signal in zip(looked, signals(noisy, law.scale / ERROR_STEPS, sampling).tolist()):
        found.setdefault(columns, {})[level] = signal
    return {columns: increments(list(guesses[columns]), found[columns]) for columns in found}


def choose_measurements(
    curator: Doors,
    model: Model,
    guesses: Mapping[Columns, Mapping[int, Floats]],
    strengths: Mapping[Columns, Mapping[int, float]],
    weights: Mapping[Columns, float],
    price: float,
) -> dict[Columns, Choice]:
    """Which tables are measured, at which level and how precisely, for this price in all."""
    sigmas = sigma_grid(price, unit_cost(curator.relation))
    options = []
    for columns, by_level in strengths.items():
        found = gains(guesses[columns], by_level, model.total, sigmas)
        options.append(
            [
                Option(level, residual_cost(guesses[columns][level].shape, curator.relation), weights[columns] * gain)
                for level, gain in found.items()
            ]
        )
    chosen = choose(options, price, sigmas)
    names = list(strengths)
    return {names[place]: choice for place, choice in chosen.items()}


def measure_residuals(
    curator: Doors, tables: Tables, wanted: Mapping[Columns, tuple[int, float]], price: Fraction
) -> dict[Columns, Measurement]:
    """Residuals of some tables, each at a level and with about this σ, for exactly this price in all."""
    if not wanted:
        return {}
    residuals = [tables.residual(columns, level) for columns, (level, _) in wanted.items()]
    precisions = [1 / sigma**2 for _, sigma in wanted.values()]
    scales = residual_scales(residuals, precisions, price, relation=curator.relation)
    noisy = curator.measure_residuals(residuals, scales)
    return {
        columns: Measurement(level, values.reshape(residual.shape), scale / residual.cells)
        for (columns, (level, _)), residual, scale, values in zip(wanted.items(), residuals, scales, noisy)
    }
