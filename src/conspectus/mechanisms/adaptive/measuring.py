"""What is bought: columns, distances of pairs and triples, and their residuals. The only steps that spend."""

from __future__ import annotations

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
from .parameters import AdaptivePlan, residual_cost, root_of, unit_cost
from .smoothing import Floats

Columns = TypeVar("Columns", bound=tuple[int, ...])

MOST_CELLS = 1 << 18
"""The largest table that is measured; larger ones are looked at on a coarser level."""


def first_total(curator: Doors, problem: Problem, plan: AdaptivePlan, price: Fraction) -> Total:
    """The number of rows: as it is where it is public, else with noise for this price."""
    law = None
    if not problem.total_is_public:
        law = wide(plan, problem.law(problem.sensitivity(always(problem.workload.domain)), price))
    return take_total(curator, problem, law)


def wide(plan: AdaptivePlan, law: Noise) -> Noise:
    """A law of noise, as wide as the terms of the plan ask for."""
    return law if law.scale >= plan.narrowest else Noise(law.kind, plan.narrowest)


def measure_columns(
    curator: Doors, problem: Problem, plan: AdaptivePlan, first: Total, price: Fraction
) -> tuple[list[Coding], Total]:
    """Every column with noise, as it is modelled, and the number of rows.

    Columns are measured as residuals, which cost less than their tables; what that saves buys the number of rows, where
    it is private. Columns of more values get more of the price, by the root of their number.
    """
    domain = problem.workload.domain
    curator.count_ahead(Workload(domain, tuple(Marginal(domain, (column,)) for column in plan.columns)))
    told = [(column, size) for column, size in zip(plan.columns, plan.sizes) if size > 1]
    total = first
    if not first.exact:
        share = _share_of_total([size for _, size in told], plan, float(price), unit_cost(curator.relation))
        every = always(domain)
        law = wide(plan, problem.law(problem.sensitivity(every), price * share))
        total = _together(first, float(curator.measure(every, law)[0]), law.scale)
        price = price * (1 - share)
    if not told:
        return [code_column(np.ones(1), 0.0, total.divisor, 0) for _ in plan.sizes], total
    residuals = [Residual(domain, (column,)) for column, _ in told]
    precisions = [float(root_of(size)) for _, size in told]
    scales = [
        max(scale, plan.narrowest) for scale in residual_scales(residuals, precisions, price, relation=curator.relation)
    ]
    noisy = curator.measure_residuals(residuals, scales)
    found = {column: (values, scale / len(values)) for (column, _), values, scale in zip(told, noisy, scales)}
    codings = []
    for column, size, in_order in zip(plan.columns, plan.sizes, plan.in_order):
        residual, deviation = found.get(column, (np.zeros(1), 0.0))
        counts = residual + total.divisor / size
        codings.append(code_column(counts, deviation, total.divisor, in_order, plan.most_groups))
    return codings, total


def _share_of_total(sizes: Sequence[int], plan: AdaptivePlan, price: float, cost: float) -> Fraction:
    """The share of the price of columns that residuals save: Σ√n/n over Σ√n. No more of it is taken than what noise of
    the narrowest kind costs."""
    roots = sum(root_of(size) for size in sizes)
    saved = sum(root_of(size) / size for size in sizes) / roots if roots else 1.0
    most = cost / (2 * price * plan.narrowest**2) if plan.narrowest else 1.0
    return Fraction(min(saved, most))


def _together(first: Total, value: float, scale: float) -> Total:
    """The number of rows from two looks: the mean of least variance."""
    weights = 1 / first.scale**2, 1 / scale**2
    mean = (weights[0] * first.value + weights[1] * value) / sum(weights)
    # Its noise is no larger than that of the better look alone, which is a law that was drawn.
    return Total(value=mean, exact=False, kind="gaussian", scale=min(first.scale, scale), terms=1)


class Tables:
    """Tables of some columns of a model at a level, as questions to the curator."""

    def __init__(self, problem: Problem, plan: AdaptivePlan, model: Model) -> None:
        self._domain = problem.workload.domain
        self.plan = plan
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
        return Residual(self._domain, tuple(self.plan.columns[place] for place in columns), groups)

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
    law = wide(tables.plan, Noise("gaussian", root_up(moved * moved * score.candidates / (2 * price))))
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
    """Residuals of some tables, each at a level and with about this σ, for this price in all, at most."""
    if not wanted:
        return {}
    residuals = [tables.residual(columns, level) for columns, (level, _) in wanted.items()]
    precisions = [1 / sigma**2 for _, sigma in wanted.values()]
    scales = [
        max(scale, tables.plan.narrowest)
        for scale in residual_scales(residuals, precisions, price, relation=curator.relation)
    ]
    noisy = curator.measure_residuals(residuals, scales)
    return {
        columns: Measurement(level, values.reshape(residual.shape), scale / residual.cells)
        for (columns, (level, _)), residual, scale, values in zip(wanted.items(), residuals, scales, noisy)
    }
