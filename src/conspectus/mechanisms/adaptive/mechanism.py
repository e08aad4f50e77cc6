"""Planned measurements of columns, pairs and triples, and one mixture of products that is fitted to all of them.

    1. every column with noise; values that do not stand out of it are put together
    2. how far every pair is from independence, with noise: one number a pair and level of coarseness
    3. a plan: which pairs, at which level, how precisely, so that what is left of the budget lowers the error most
    4. the residuals of these pairs with noise
    5. every pair as a table: maximum entropy, with ridges whose strength comes from 2
    6. pairs made better by one another: through third columns, and by mixtures fitted to all other pairs
    7. triples, from their pairs; where the budget is large, 2 to 5 for triples as well
    8. mixtures of products with all of these tables, nearly, from several starts; together they are one mixture

No paper has it as a whole. The select-measure-fit design is that of McKenna, Mullins, Sheldon & Miklau (AIM, 2022); the
residuals are those of Xiao, He, Zhang & Kifer (2023). In place of a loop that selects one table after another, all
are scored once and measured by one plan; in place of a graphical model, each pair is fitted by itself.

Privacy: composes the row total, the residuals of columns, one or two measurements of distances, and one or two of
residuals of pairs and triples.
Steps 1 to 4 are all that spend (`measuring`), each a fixed share of the budget; what they ask depends on earlier noisy
outputs alone. Accuracy: nothing is proved. Intervals are those of `reruns`, which post-process the mixture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from conspectus.curator.curator import Curator
from conspectus.curator.truth import Progress
from conspectus.mechanisms.mechanism import Claim, Mechanism, Outcome, Problem
from conspectus.mechanisms.settings import check_settings
from conspectus.mechanisms.simulation.measured_through import Doors
from conspectus.mechanisms.simulation.reruns import Asked, simulated_errors, where_they_work
from conspectus.privacy.gaussian_filter import GaussianTerms
from conspectus.synopses.fitting.mixture_fit import MixtureFit, together
from conspectus.synopses.intervals.simulated_errors import SimulatedErrors
from conspectus.synopses.mixture_answers import CoarseColumn
from conspectus.synopses.product_mixture import ProductMixture
from conspectus.synopses.synopsis import Total
from conspectus.whole_numbers import SEED, is_seed

from .bridges import through_third_columns
from .claim import claim_of
from .global_fit import MOST_STEPS, cross_fitted, fit_pairs, fit_triples
from .measuring import (
    MOST_CELLS,
    Tables,
    choose_measurements,
    first_total,
    measure_columns,
    measure_residuals,
    measure_strengths,
)
from .pair_fits import Model, Pair, in_parallel
from .pair_scores import nearest_scored
from .parameters import PAIR_LEVELS, TOTAL_SHARE, AdaptivePlan, Shares, plan_of, shares_of, unit_cost
from .triples import measure_triples, triple_tables

EVALUATIONS, EVALUATIONS_PRECISE = 40, 120
"""Of the function that a pair is fitted by: more where measurements are precise."""

COMPONENTS, COMPONENTS_PER_GROUP = 4000, 30
"""Products of the mixture: fewer where all columns together have few values."""

MOST_ENTRIES = 1_500_000
"""Of the matrix of products and groups: wide tables get fewer products. A step costs as much as these times all groups;
1,000 and 1,500 products in a fit are alike on Census-Income at ε = 1."""

FITS, FEWEST_COMPONENTS = 4, 750
"""The mixture is that of some mixtures, each fitted by itself from a start of its own, with so many products at least:
where each alone misses, they miss apart. Four of 1,000 products are 1 % nearer to the truth than one of 3,000 where
triples were measured, and 0.5 % nearer than one of 1,500 where not (columns of Diabetic and Census-Income, ε = 10 and
1)."""

COMPONENTS_OF_PAIRS = 3000
"""In one fit, where pairs are very precise and no triples were measured: there it is products that are missing. Census-
Income at ε = 10 is 0.0071 off with them, and 0.0080 with two fits of 1,000."""

PRECISE, VERY_PRECISE = 0.003, 0.001
"""Measurements are precise where triples are measured, or where columns alone would have less noise than this."""

STEPS, STEPS_PRECISE, STEPS_BEFORE_TRIPLES = 45, 100, 60
"""Of the last fit, to pairs and triples; more where triples were measured, and then fewer of that to pairs before it.
Chosen on fourteen columns of Diabetic and Census-Income at ε = 1 and 10."""

ROUNDS, ROUNDS_PRECISE = 4, 2
"""In which pairs are made better by one another: precise ones hardly are (Diabetic at ε = 10: 2 and 4 are alike)."""

MANY_PAIRS = 5000
"""More pairs than these take as few rounds, for the time: with 200 columns a release has 45 seconds of processor."""

FEWEST_ROWS = 100.0
_STEPS = 8


@dataclass(frozen=True, kw_only=True)
class Adaptive(Mechanism[AdaptivePlan]):
    """Columns, the pairs that depend, and where it pays triples, measured by one plan; then one mixture for all.

    Choose it for all marginals, and for rows, of ordinary tables: 5 to 100 columns of any kind, too many cells for a
    histogram. It answers every question about its columns, whether in the workload or not, and tables agree wherever
    they overlap. Declare columns of numbers and dates as such: their order is used.

    Args:
        components: How many products the mixture has; by default 4,000, and fewer for small or very wide tables.
        triples: Whether triples may be measured; by default they are where the budget is large enough.
        public_seed: Makes the fit repeatable, given what was measured; it protects nobody.
        intervals: Whether answers get intervals. They come from reruns of the whole pipeline on tables drawn from the
            fitted mixture: they take no budget, and about twice the time of the fit itself.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> columns = {"smoker": {"type": "boolean"}, "ill": {"type": "boolean"}, "old": {"type": "boolean"}}
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": columns})
        >>> data = pa.table({"smoker": [True, False] * 500, "ill": [True, False, False, False, False] * 200,
        ...                  "old": [True, False, False, True] * 250})
        >>> table = cs.open_table(data, schema)
        >>> release = cs.release(table, cs.marginals(schema, 2), epsilon=50, delta=1e-6, mechanism="adaptive",
        ...                      components=50)
        >>> answer = release.ask("smoker AND ill")
        >>> round(answer.fraction, 1), answer.basis, release.parameters["components"]
        (0.1, 'simulated', 50)
    """

    components: int | None = None
    triples: bool = True
    public_seed: int = 0
    intervals: bool = True

    name: ClassVar[str] = "adaptive"

    def __post_init__(self) -> None:
        known = self.components is None or (type(self.components) is int and 1 <= self.components <= 1 << 14)
        check_settings(
            (known, "components, the products of the mixture, lie between 1 and 16,384"),
            (type(self.triples) is bool, "triples is True or False"),
            (type(self.intervals) is bool, "intervals is True or False"),
            (is_seed(self.public_seed), SEED),
        )

    def plan(self, problem: Problem) -> AdaptivePlan:
        return plan_of(problem)

    def terms(self, problem: Problem, plan: AdaptivePlan) -> GaussianTerms | None:
        """All acts are Gaussian noise: they keep to a ρ and to a least noise that the plan fixes."""
        return plan.terms

    def claim(self, problem: Problem, plan: AdaptivePlan) -> Claim:
        components = self.components or COMPONENTS
        wider = plan.widened(problem)
        return claim_of(wider, plan, components=components, triples=self.triples, intervals=self.intervals)

    def release(self, curator: Curator, problem: Problem, plan: AdaptivePlan) -> Outcome:
        synopsis, parameters = self.fitted(curator, problem, plan)
        answers = synopsis.answer(problem.workload)
        warnings: tuple[str, ...] = ()
        if self.intervals:
            # From here on the curator is told how far the work is, and nothing else: reruns see what was released.
            rerun = partial(self._errors, synopsis, problem, plan, curator.report_progress)
            errors, warnings = where_they_work(rerun)
            synopsis = replace(synopsis, errors=errors)
        total = synopsis.total
        return Outcome(synopsis=synopsis, answers=answers, total=total, parameters=parameters, warnings=warnings)

    def _errors(
        self, released: ProductMixture, problem: Problem, plan: AdaptivePlan, progress: Progress
    ) -> SimulatedErrors | None:
        """How far answers are off, by reruns of all that is below on tables drawn from what was released."""

        def again(doors: Doors) -> ProductMixture:
            return self.fitted(doors, problem, plan)[0]

        if not released.total.rows:
            return None
        return simulated_errors(
            again,
            lambda rng: released.drawn(released.total.rows, rng),
            Asked.of(problem.workload.domain, plan.columns, problem.in_order),
            problem.relation,
            public_seed=self.public_seed,
            progress=progress,
        )

    def fitted(self, curator: Doors, problem: Problem, plan: AdaptivePlan) -> tuple[ProductMixture, dict[str, Any]]:
        """Measure through these doors, and fit: the mixture, and what a release says of it."""

        def told(step: int) -> None:
            curator.report_progress("steps", step, _STEPS)

        told(0)
        problem = plan.widened(problem)
        first = first_total(curator, problem, plan, problem.cap * TOTAL_SHARE)
        price = problem.cap * (1 if first.exact else 1 - TOTAL_SHARE)
        rows = max(first.value, FEWEST_ROWS)
        shares = shares_of(plan, problem.relation, float(price), rows, triples=self.triples)
        parts = _prices(price, shares)
        codings, total = measure_columns(curator, problem, plan, first, parts["columns"])
        exact = shares.triples > 0 or shares.noise < PRECISE
        model = Model(codings, total.divisor, EVALUATIONS_PRECISE if exact else EVALUATIONS)
        told(1)
        tables = Tables(problem, plan, model)
        _measure_pairs(curator, problem, plan, tables, model, shares, parts)
        told(3)
        through_third_columns(model)
        close = model.expected_distance()
        measured = measure_triples(
            curator, plan, tables, model, shares, price=parts["triples"], looks=parts["triple_scores"]
        )
        told(4)
        precise = bool(measured)
        few = precise or shares.noise < VERY_PRECISE or len(model.pairs) > MANY_PAIRS
        for turn in range(ROUNDS_PRECISE if few else ROUNDS) if model.pairs else ():
            cross_fitted(model, 60 if precise else 40, 100 * self.public_seed + turn)
        told(5)
        width = sum(coding.size for coding in codings)
        pairs_alone = not precise and shares.noise < VERY_PRECISE
        most = COMPONENTS_OF_PAIRS if pairs_alone else min(COMPONENTS, max(MOST_ENTRIES // width, 1))
        components = self.components or min(most, COMPONENTS_PER_GROUP * width)
        wanted = triple_tables(model, measured, self.public_seed, uniform=shares.uniform)
        told(6)
        several = 1 if pairs_alone else min(FITS, components // FEWEST_COMPONENTS)
        fits = max(1, several) if model.pairs else 0
        each = _each_step(len(wanted), 0.15 if precise else 0.1, 120 if precise else 60)

        def fitted(turn: int) -> MixtureFit:
            seed = 2 * (FITS * self.public_seed + turn)
            before = STEPS_BEFORE_TRIPLES if precise else MOST_STEPS
            share = (components + turn) // fits
            fit = fit_pairs(model, share, close, seed, most_steps=before, exact=exact)
            if not wanted:
                return fit
            steps = STEPS_PRECISE if precise else STEPS
            return fit_triples(model, fit, wanted, steps=steps, each_step=each, public_seed=seed, exact=precise)

        fit = together(in_parallel(fitted, range(fits))) if fits else _alone(model)
        told(8)
        synopsis = _synopsis(problem, plan, model, fit, total)
        parameters: dict[str, Any] = {
            "components": len(fit.weights),
            "triples": self.triples,
            "public_seed": self.public_seed,
            "intervals": self.intervals,
            "pairs_measured": sum(pair.measured is not None for pair in model.pairs.values()),
            "triples_measured": len(measured),
            "groups": [coding.size for coding in codings],
        }
        return synopsis, parameters


def _prices(price: Fraction, shares: Shares) -> dict[str, Fraction]:
    """What each step costs: exact fractions whose sum is the price."""
    parts = {
        name: price * Fraction(getattr(shares, name)) for name in ("columns", "scores", "triples", "triple_scores")
    }
    parts["pairs"] = price - sum(parts.values())
    return parts


def _measure_pairs(
    curator: Doors,
    problem: Problem,
    plan: AdaptivePlan,
    tables: Tables,
    model: Model,
    shares: Shares,
    parts: dict[str, Fraction],
) -> None:
    """Score the pairs, choose among them, measure, and fit each by itself."""
    levels = {columns: model.levels(columns, PAIR_LEVELS, MOST_CELLS) for columns in plan.pairs}
    levels = {columns: found for columns, found in levels.items() if found}
    if not levels:
        return
    guesses = {
        columns: {
            level: model.total * model.merged(model.independent(columns), columns, level) for level in levels[columns]
        }
        for columns in levels
    }
    scored = {columns: nearest_scored(found, shares.levels) for columns, found in levels.items()}
    variance = unit_cost(problem.relation) * len(levels) / (2 * float(problem.cap))
    strengths = measure_strengths(curator, tables, model, guesses, scored, price=parts["scores"], variance=variance)
    chosen = choose_measurements(curator, model, guesses, strengths, plan.pairs, float(parts["pairs"]))
    wanted = {columns: (choice.level, choice.sigma) for columns, choice in chosen.items()}
    measured = measure_residuals(curator, tables, wanted, parts["pairs"])
    for columns, found in levels.items():
        model.pairs[columns] = Pair(columns, found, strengths[columns], measured.get(columns))
        model.tables[columns] = model.independent(columns)
    fresh = [pair for pair in model.pairs.values() if pair.measured is not None]
    fits = in_parallel(lambda pair: model.fitted(pair, model.independent(pair.columns), pair.increments), fresh)
    model.tables |= {pair.columns: table for pair, table in zip(fresh, fits)}


def _each_step(many: int, share: float, most: int) -> int:
    """How many of the triples a step of the fit looks at."""
    return max(1, min(round(max(share * many, min(many, 8))), most))


def _alone(model: Model) -> MixtureFit:
    """Columns that have nothing to do with one another: one product."""
    law = np.concatenate([coding.law for coding in model.codings]).astype(np.float32)
    return MixtureFit(np.ones(1, dtype=np.float32), law[None, :], 0, math.nan)


def _synopsis(problem: Problem, plan: AdaptivePlan, model: Model, fit: MixtureFit, total: Total) -> ProductMixture:
    coarse = tuple(
        CoarseColumn(coding.groups.astype(np.int32), coding.shares)
        if coding.size < len(coding.groups) or not np.array_equal(coding.groups, np.arange(coding.size))
        else None
        for coding in model.codings
    )
    return ProductMixture.of_fit(problem.workload.domain, fit, total, columns=plan.columns, coarse=coarse)
