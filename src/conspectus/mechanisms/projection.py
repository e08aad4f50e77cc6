"""Noise on every answer, then the nearest answers that some table could have: the book's Algorithm 18.

    1. ỹ = A·x + noise: all questions at once, each with the same noise
    2. ŷ = the point of n·conv{columns of A} that is nearest to ỹ
    output ŷ

A has a line for each question and a column for each record; n·conv{columns} holds the answers of all weighted tables of
n rows. So ŷ comes with a histogram, which answers everything and makes synthetic rows. ỹ is `noisy`, drawn by the
curator; step 2 is `fit_least_squares`, or `fit_histogram`: nearest in the norm of the noise, by a ridge that follows ỹ.

Marginals overlap: all 3-way ones of 16 columns measure each column 105 times. Where it is expected to be better, step 1
measures instead each part that they have in common once, with a precision of its own (`planned_residuals`). Sums of
parts are the answers, and step 2 is the same.

Privacy: composes one measurement of the workload or of its residuals, the row total and the certificate; the rest
post-processes.
Accuracy: see `projection.proof.md`; Theorem 12.8 with its constant re-derived for the noise that really runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.acts import measurement
from conspectus.curator.curator import Curator
from conspectus.curator.truth import Progress
from conspectus.privacy.events import Event, Noise
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.privacy.tails import deviation_of, sum_quantile
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.least_squares import fit_least_squares
from conspectus.synopses.fitting.max_entropy import fit_histogram, fit_residuals
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.intervals.simulated_errors import SimulatedErrors
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.synopsis import Total
from conspectus.whole_numbers import MOST_TURNS

from .bounds import FAILURE
from .certificate import certificate_acts
from .histograms import outcome
from .iterative import Candidates, measurements, unmeasured
from .mechanism import (
    CannotServe,
    Claim,
    ErrorBound,
    Mechanism,
    Outcome,
    Problem,
    expected_size,
    in_counts,
    no_histogram,
    refuse_for,
)
from .planned_residuals import PlannedResiduals, plan_residuals
from .settings import SHARE, check_settings, is_share
from .sharper_budgets import sharpened
from .simulation.measured_through import Doors
from .simulation.reruns import Asked, simulated_errors, where_they_work
from .total import bought_total_law, find_total, left_after_total, of_fractions, total_act
from .typical.expectations import PROJECTION_LARGEST, PROJECTION_MEAN, PROJECTION_UNMEASURED
from .typical.interactions import Interactions
from .typical.question_facts import dimensions, kept_noise, left_by_fit

MOST_LISTED = 20_000
MOST_PLANNED = 1 << 20
"""The largest histogram that residuals are measured for."""
NORMAL = 1.96
MANY = 32
"""From so many single questions on they bound one another: below, each keeps its noise."""
REFITS = 3
"""How often the fit is solved again at most, where the ridge hid an interaction that stands out of its noise."""

Fitted = tuple[NDArray[np.float64], Total, NoisyAnswers | ResidualAnswers, dict[str, object]]
"""The weights of a histogram, the total, what was measured, and what a release says of it."""

CITES = ("Dwork & Roth 2014, Algorithm 18 and Theorem 12.8 (constant re-derived)", "Nikolov, Talwar & Zhang 2013")


@dataclass(frozen=True, kw_only=True, eq=False)
class ProjectionPlan:
    """The questions, and the noise on each of them; or the residuals that are measured in their place.

    `problem` is the one that was planned for: its budget may be larger than the conversion of ρ allows."""

    problem: Problem
    asked: Workload
    law: Noise
    residuals: PlannedResiduals | None = None


@dataclass(frozen=True, kw_only=True)
class Projection(Mechanism[ProjectionPlan]):
    """Noise on every answer, then the nearest histogram: what no table could answer is noise, and goes.

    Choose it for all marginals of a few columns: it is accurate, quick, and its answers have intervals. It keeps one
    weight for each cell of the columns asked about.

    Args:
        theorem: Take the projection of Theorem 12.8, which is the Euclidean one, with its bound on the root mean square
            error. The bound is for the exact projection; `parameters["distance"]` says how near the solver came.
            Refused where there is no bound, or where it says nothing.
        measure: "answers" puts the same noise on every answer. "residuals" measures the parts that marginals have in
            common once each, with planned precisions. Left out, what is expected to be more accurate is taken;
            residuals need marginals alone, a delta above 0 or a rho, and the norm "entropy".
        norm: What "nearest" means. "entropy", the default: maximum entropy within the noise, the more accurate one.
            "euclidean": the book's.
        certificate: The share of the budget that buys a bound on the largest error; 0 for none.
        evaluations: How long the fit may take, in evaluations of its objective.
        intervals: "proved", by the law of the noise; or "simulated", by reruns on tables drawn from the histogram:
            often far narrower, as they know what the fit took away, and not proved.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> columns = {"smoker": {"type": "boolean"}, "ill": {"type": "boolean"}}
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": columns})
        >>> data = pa.table({"smoker": [True, False] * 500, "ill": [True, False, False, False, False] * 200})
        >>> table = cs.open_table(data, schema)
        >>> release = cs.release(table, cs.marginals(schema, 2), epsilon=50, delta=1e-6, mechanism="projection")
        >>> round(release.ask("smoker AND ill").fraction, 1), release.parameters["norm"]
        (0.1, 'entropy')
        >>> proved = cs.release(table, cs.marginals(schema, 2), epsilon=50, mechanism="projection", theorem=True)
        >>> proved.claim.bound.statistic, proved.claim.bound.value < 0.1
        ('rms', True)
    """

    theorem: bool = False
    measure: str | None = None
    norm: str | None = None
    certificate: float = 0.03
    evaluations: int = 400
    intervals: str = "proved"

    name: ClassVar[str] = "projection"

    def __post_init__(self) -> None:
        check_settings(
            (self.norm in (None, "entropy", "euclidean"), 'norm is "entropy" or "euclidean"'),
            (self.measure in (None, "answers", "residuals"), 'measure is "answers" or "residuals"'),
            (self.intervals in ("proved", "simulated"), 'intervals are "proved" or "simulated"'),
            (
                self.measure != "residuals" or (self.norm != "euclidean" and not self.theorem),
                'residuals are measured for the norm "entropy", without theorem=True',
            ),
            (
                is_share(self.certificate, or_nothing=True) and 1 <= self.evaluations <= MOST_TURNS,
                f"certificate is 0 or {SHARE}, and evaluations between 1 and {MOST_TURNS:,}",
            ),
            (
                not (self.theorem and self.norm == "entropy"),
                "Theorem 12.8 is about the Euclidean projection: with theorem=True leave norm out",
            ),
        )
        if self.norm is None:
            object.__setattr__(self, "norm", "euclidean" if self.theorem else "entropy")

    def plan(self, problem: Problem) -> ProjectionPlan:
        refuse_for(no_histogram(problem))
        first = self._planned(problem)
        wider = sharpened(problem, lambda wider: self.declare(problem, self._planned(wider, like=first)))
        return first if wider is problem else self._planned(wider, like=first)

    def declare(self, problem: Problem, plan: ProjectionPlan) -> Sequence[Event] | None:
        """The acts in order: the total, the answers or their residuals, and the certificate."""
        if problem.currency == "pure":
            return None
        wider = plan.problem
        acts = [total_act(wider, bought_total_law(wider))]
        if plan.residuals is not None:
            acts.append(plan.residuals.act(wider))
        else:
            acts.append(measurement(plan.asked, plan.law, relation=problem.relation))
        return (*acts, *certificate_acts(wider, self.certificate))

    def _planned(self, problem: Problem, like: ProjectionPlan | None = None) -> ProjectionPlan:
        """The plan for the budget of a problem; `like` is the plan for another budget, whose choices are kept."""
        asked = problem.workload.distinct()
        listed = _listed(asked)
        if listed > MOST_LISTED:
            raise CannotServe(
                f"it fits {listed:,} single queries one by one (limit {MOST_LISTED:,}): ask for whole marginals"
            )
        price = left_after_total(problem, self.certificate)
        certificate_acts(problem, self.certificate)  # or refused, before anything is spent
        law = problem.law(problem.sensitivity(asked), price)
        plan = ProjectionPlan(problem=problem, asked=asked, law=law)
        if like is not None:
            parts = None if like.residuals is None else plan_residuals(problem, asked, price)
            return replace(plan, residuals=parts)
        if self.norm == "entropy" and self.measure != "answers" and problem.cells <= MOST_PLANNED:
            planned = replace(plan, residuals=plan_residuals(problem, asked, price))
            better = self.measure == "residuals" or self._better(problem, planned, plan)
            plan = planned if planned.residuals is not None and better else plan
        if self.measure == "residuals" and plan.residuals is None:
            needs = f"several marginals of at most {MOST_PLANNED:,} cells together, and a delta above 0 or a rho"
            raise CannotServe(f"residuals are measured for {needs}: leave measure out")
        if self.theorem:
            bound = self._bound(problem, plan)
            if bound is None:
                needs = "replaced rows, a public number of rows, and marginals alone or no marginals at all"
                raise CannotServe(f"Theorem 12.8 is for {needs}: leave theorem=True out")
            if bound.vacuous:
                said = f"promises an error of {bound.value:.3g} here, which says nothing"
                raise CannotServe(f"Theorem 12.8 {said}: leave theorem=True out")
        return plan

    def claim(self, problem: Problem, plan: ProjectionPlan) -> Claim:
        problem = plan.problem
        bound = self._bound(problem, plan)
        mean, largest = self._expected(problem, plan)
        claim = Claim(
            mechanism=self.name,
            expected_max=largest,
            expected_mean=mean,
            bound=bound,
            memory=8 * 14 * problem.cells + 64 * len(plan.asked),
            citations=CITES,
            notes=(
                self._note(plan),
                "the proved bound is for the exact projection: the release says how near to it the solver came",
            )[: 1 + (bound is not None)],
            expected_width=self._width(problem, plan),
        )
        return of_fractions(problem, claim)

    def release(self, curator: Curator, problem: Problem, plan: ProjectionPlan) -> Outcome:
        weights, total, measured, parameters = self._fitted(curator, plan)
        # For reruns the curator is told how far the work is, and nothing else: they see the histogram alone.
        made = Histogram(problem.workload.domain, weights, total, plan.problem.held)
        simulated = self.intervals == "simulated" and total.rows > 0
        rerun = partial(self._errors, made, plan, curator.report_progress)
        errors, warnings = where_they_work(rerun) if simulated else (None, ())
        return outcome(
            curator,
            plan.problem,
            weights=weights,
            total=total,
            certificate=self.certificate,
            parameters=parameters,
            measured=measured,
            errors=errors,
            warnings=warnings,
        )

    def _errors(self, made: Histogram, plan: ProjectionPlan, progress: Progress) -> SimulatedErrors | None:
        """How far answers are off, by reruns of the fit on tables drawn from it."""

        def again(doors: Doors) -> Histogram:
            weights, total, _, _ = self._fitted(doors, plan)
            return replace(made, weights=weights, total=total)

        rows, relation = made.total.rows, plan.problem.relation
        asked = Asked.of(made.domain, made.known_columns, plan.problem.in_order)
        drawn = partial(made.drawn, rows)
        return simulated_errors(again, drawn, asked, relation, public_seed=0, progress=progress)

    def _fitted(self, curator: Doors, plan: ProjectionPlan) -> Fitted:
        """Measure through these doors, and fit."""
        problem, asked, law = plan.problem, plan.asked, plan.law
        parts = () if plan.residuals is None else plan.residuals.residuals
        curator.count_ahead(asked + Workload(asked.domain, tuple(residual.table for residual in parts)))
        total = find_total(curator, problem)
        if plan.residuals is not None:
            return self._of_residuals(curator, problem, plan.residuals, total)
        noisy = curator.measure(asked, law) / asked.grid
        held = asked.domain.project(problem.held)
        nearly = in_counts(law, asked.grid)
        measured = list(measurements(asked, problem.held, noisy, nearly, total.divisor))
        parameters: dict[str, object] = {"norm": self.norm, "noise": law.kind, "scale": nearly.scale}
        if self.norm == "entropy":
            fitted = partial(fit_histogram, refits=REFITS, adapt=True, heavy_tails=law.kind == "laplace")
            fit = fitted(held, measured, total.divisor, steps=self.evaluations)
            weights, parameters = fit.weights, parameters | {"converged": fit.converged, "gradient": fit.gradient}
        else:
            nearest = fit_least_squares(held, measured, total.divisor, steps=self.evaluations)
            weights = nearest.weights
            parameters |= {"converged": nearest.converged, "distance": nearest.distance}
        return weights, total, NoisyAnswers(asked.domain, asked, noisy, (law,), total), parameters

    def _of_residuals(self, curator: Doors, problem: Problem, plan: PlannedResiduals, total: Total) -> Fitted:
        """The same with residuals in the place of answers."""
        parts = curator.measure_residuals(plan.residuals, plan.scales)
        columns = tuple(residual.columns for residual in plan.residuals)
        measured = ResidualAnswers(problem.workload.domain, columns, plan.scales, np.concatenate(parts), total)
        held = problem.workload.domain.project(problem.held)
        places = [tuple(problem.held.index(c) for c in each) for each in columns]
        # A deviation far below a step of the lattice is as good as none, and would outweigh all others.
        spread = [max(deviation_of(Noise("gaussian", s)), s) / r.cells for r, s in zip(plan.residuals, plan.scales)]
        listed = list(zip(places, parts, spread))
        fit = fit_residuals(held, listed, total.divisor, steps=self.evaluations, refits=REFITS, adapt=True)
        parameters = {"norm": self.norm, "noise": "gaussian", "measure": "residuals", "residuals": len(parts)}
        return fit.weights, total, measured, {**parameters, "converged": fit.converged, "gradient": fit.gradient}

    def _better(self, problem: Problem, planned: ProjectionPlan, plain: ProjectionPlan) -> bool:
        """Whether residuals are expected to serve better: on average, which is what whole marginals are judged by."""
        if planned.residuals is None:
            return False
        return self._expected(problem, planned)[0] < self._expected(problem, plain)[0]

    def _note(self, plan: ProjectionPlan) -> str:
        law, parts = plan.law, plan.residuals
        if parts is None:
            return f"{law.kind} noise of scale {law.scale / plan.asked.grid:.4g} counts before the projection"
        noise = f"noise of {min(parts.deviations.values()):.4g} to {max(parts.deviations.values()):.4g} counts"
        return f"{len(parts.residuals):,} parts that the marginals have in common, measured once each with {noise}"

    def _width(self, problem: Problem, plan: ProjectionPlan) -> float:
        """About how far the ends of a 95 % interval lie from an answer: those of all measurements together."""
        interactions = Interactions.of(plan.asked)
        alone = sum_quantile(plan.law.kind, plan.law.scale, 1, 1 - FAILURE) / plan.asked.grid
        if interactions is None:
            return alone
        if plan.residuals is None:
            errors = interactions.least_squares(deviation_of(in_counts(plan.law, plan.asked.grid)))
            return min(alone, NORMAL * errors.typical)
        return NORMAL * interactions.planned(plan.residuals.deviations, fitted=False).typical

    def _bound(self, problem: Problem, plan: ProjectionPlan) -> ErrorBound | None:
        """Theorem 12.8, where it applies."""
        asked = plan.asked
        # A single question is fitted with its complement and so weighs twice: the bound needs equal weights.
        alike = _listed(asked) in (0, len(asked))
        if not problem.rows or not problem.total_is_public or self.norm != "euclidean" or not alike:
            return None
        law = in_counts(plan.law, asked.grid)
        value = rms_bound(law, problem.rows, max_satisfied(asked), len(asked), problem.cells) / problem.rows
        return ErrorBound(value=value, statistic="rms", theorem=CITES[0])

    def _expected(self, problem: Problem, plan: ProjectionPlan) -> tuple[float, float]:
        """Typical errors, mean and largest, in counts."""
        asked, law = plan.asked, in_counts(plan.law, plan.asked.grid)
        interactions, rows = Interactions.of(asked), problem.planned_rows
        if interactions is not None and plan.residuals is not None:
            spread = {columns: each / rows for columns, each in plan.residuals.deviations.items()}
            errors = interactions.planned(spread)
            return errors.mean * rows, max(errors.largest * rows, left_by_fit(problem.cells))
        if interactions is not None:
            noise = deviation_of(law)
            if self.norm == "entropy":
                errors = interactions.fitted(noise / rows, kind=law.kind)
                return errors.mean * rows, max(errors.largest * rows, left_by_fit(problem.cells))
            # Least squares, of which only the possible answers take more away: a little too much is expected.
            errors = interactions.least_squares(noise, kind=law.kind)
            return errors.mean, errors.largest
        # The noise in the space of possible answers stays, but for what non-negativity removes.
        spanned = min(len(asked), dimensions(problem.workload))
        mean = kept_noise(PROJECTION_MEAN, len(asked)) * expected_size(law) * math.sqrt(spanned / len(asked))
        largest = mean * math.sqrt(math.pi / 2) * math.sqrt(2 * math.log(2 * len(asked))) * PROJECTION_LARGEST
        # Where single questions are many they bound one another: the theorem's shape. Of a pure budget each of those
        # that one row satisfies gets its part.
        parts = max(1, min(2 * max_satisfied(asked), len(asked) - 1))
        hidden = PROJECTION_UNMEASURED * unmeasured(problem, Candidates.of(asked), parts)
        if 0 < hidden < largest and len(asked) >= MANY:
            return mean * hidden / largest, hidden
        return mean, largest


def _listed(asked: Workload) -> int:
    """How many questions are no cells of marginals."""
    return len(asked) - sum(len(block) for block in asked.blocks if isinstance(block, Marginal))


def max_satisfied(asked: Workload) -> int:
    """How many queries one record can satisfy: the largest squared length of a column of A, rounded up."""
    return -(-asked.sensitivity(Relation(Neighbours.ADD_REMOVE)).l2_squared // asked.grid**2)


def rms_bound(law: Noise, rows: int, satisfied: int, queries: int, cells: int) -> float:
    """√(2·n·w/k) in counts, where w bounds |⟨column of A, noise⟩| over all records; see `projection.proof.md`."""
    log = math.log(2 * cells / FAILURE)
    if law.kind == "gaussian":
        width = law.scale * math.sqrt(2 * satisfied * log)
    else:
        width = law.scale * max(math.sqrt(satisfied), math.sqrt(log)) * math.sqrt(8 * log)
    return math.sqrt(2 * rows * width / queries)
