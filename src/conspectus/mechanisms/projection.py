"""Noise on every answer, then the nearest answers that some table could have: the book's Algorithm 18.

    1. ỹ = A·x + noise: all questions at once, each with the same noise
    2. ŷ = the point of n·conv{columns of A} that is nearest to ỹ
    output ŷ

A has a line for each question and a column for each record; n·conv{columns} holds the answers of all weighted tables of
n rows. So ŷ comes with a histogram, which answers everything and makes synthetic rows. ỹ is `noisy`, drawn by the
curator; step 2 is `fit_histogram` (nearest in the norm of the noise, with a ridge) or `fit_least_squares`.

Privacy: composes one measurement of the whole workload, the row total and the certificate; the rest post-processes.
Accuracy: see `projection.proof.md`; Theorem 12.8 with its constant re-derived for the noise that really runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from conspectus.curator.curator import Curator
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.privacy.tails import deviation_of, sum_quantile
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.least_squares import fit_least_squares
from conspectus.synopses.fitting.max_entropy import fit_histogram
from conspectus.synopses.noisy_answers import NoisyAnswers

from .bounds import FAILURE
from .expectations import PROJECTION_LARGEST, PROJECTION_MEAN, PROJECTION_UNMEASURED
from .histograms import outcome
from .interactions import Interactions
from .iterative import Candidates, measurements, unmeasured
from .mechanism import (
    CannotServe,
    Claim,
    ErrorBound,
    Mechanism,
    Outcome,
    Problem,
    check_settings,
    expected_size,
    in_counts,
    kept_noise,
    no_histogram,
    refuse_for,
)
from .total import find_total, left_after_total, of_fractions

MOST_LISTED = 20_000
MANY = 32
"""From so many single questions on they bound one another: below, each keeps its noise."""
REFITS = 3
"""How often the fit is solved again at most, where the ridge hid an interaction that stands out of its noise."""

CITES = ("Dwork & Roth 2014, Algorithm 18 and Theorem 12.8 (constant re-derived)", "Nikolov, Talwar & Zhang 2013")


@dataclass(frozen=True, kw_only=True, eq=False)
class ProjectionPlan:
    """The questions, and the noise on each of them."""

    asked: Workload
    law: Noise


@dataclass(frozen=True, kw_only=True)
class Projection(Mechanism[ProjectionPlan]):
    """Noise on every answer, then the nearest histogram: what no table could answer is noise, and goes.

    Choose it for all marginals of a few columns: it is accurate, quick, and its answers have intervals. It keeps one
    weight for each cell of the columns asked about.

    Args:
        theorem: Take the projection of Theorem 12.8, which is the Euclidean one, with its bound on the root mean square
            error. The bound is for the exact projection; `parameters["distance"]` says how near the solver came.
            Refused where there is no bound, or where it says nothing.
        norm: What "nearest" means. "entropy", the default: maximum entropy within the noise, the more accurate one.
            "euclidean": the book's.
        certificate: The share of the budget that buys a bound on the largest error; 0 for none.
        evaluations: How long the fit may take, in evaluations of its objective.

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
    norm: str | None = None
    certificate: float = 0.03
    evaluations: int = 400

    name: ClassVar[str] = "projection"

    def __post_init__(self) -> None:
        check_settings(
            (self.norm in (None, "entropy", "euclidean"), 'norm is "entropy" or "euclidean"'),
            (
                0 <= self.certificate < 1 and self.evaluations >= 1,
                "certificate lies in [0, 1), evaluations at 1 or above",
            ),
            (
                not (self.theorem and self.norm == "entropy"),
                "Theorem 12.8 is about the Euclidean projection: with theorem=True leave norm out",
            ),
        )
        if self.norm is None:
            object.__setattr__(self, "norm", "euclidean" if self.theorem else "entropy")

    def plan(self, problem: Problem) -> ProjectionPlan:
        asked = problem.workload.distinct()
        refuse_for(no_histogram(problem))
        listed = _listed(asked)
        if listed > MOST_LISTED:
            raise CannotServe(
                f"it fits {listed:,} single queries one by one (limit {MOST_LISTED:,}): ask for whole marginals"
            )
        law = problem.law(problem.sensitivity(asked), left_after_total(problem, self.certificate))
        plan = ProjectionPlan(asked=asked, law=law)
        if self.theorem:
            bound = self._bound(problem, plan)
            if bound is None:
                needs = "replaced rows, a public number of rows, and marginals alone or no marginals at all"
                raise CannotServe(f"Theorem 12.8 is for {needs}: leave theorem=True out")
            if bound.vacuous:
                said = f"Theorem 12.8 promises an error of {bound.value:.3g} here, which says nothing"
                raise CannotServe(f"{said}: leave theorem=True out")
        return plan

    def claim(self, problem: Problem, plan: ProjectionPlan) -> Claim:
        law, bound = plan.law, self._bound(problem, plan)
        mean, largest = self._expected(problem, plan)
        claim = Claim(
            mechanism=self.name,
            expected_max=largest,
            expected_mean=mean,
            bound=bound,
            memory=8 * 14 * problem.cells + 64 * len(plan.asked),
            citations=CITES,
            notes=(
                f"{law.kind} noise of scale {law.scale / plan.asked.grid:.4g} counts before the projection",
                "the proved bound is for the exact projection: the release says how near to it the solver came",
            )[: 1 + (bound is not None)],
            expected_width=sum_quantile(law.kind, law.scale, 1, 1 - FAILURE) / plan.asked.grid,
        )
        return of_fractions(problem, claim)

    def release(self, curator: Curator, problem: Problem, plan: ProjectionPlan) -> Outcome:
        asked, law = plan.asked, plan.law
        curator.count_ahead(asked)
        total = find_total(curator, problem)
        noisy = curator.measure(asked, law) / asked.grid
        held = asked.domain.project(problem.held)
        nearly = in_counts(law, asked.grid)
        measured = list(measurements(asked, problem.held, noisy, nearly, total.divisor))
        parameters: dict[str, object] = {"norm": self.norm, "noise": law.kind, "scale": nearly.scale}
        if self.norm == "entropy":
            fit = fit_histogram(held, measured, total.divisor, steps=self.evaluations, refits=REFITS)
            weights = fit.weights
            parameters |= {"converged": fit.converged, "gradient": fit.gradient}
        else:
            nearest = fit_least_squares(held, measured, total.divisor, steps=self.evaluations)
            weights = nearest.weights
            parameters |= {"converged": nearest.converged, "distance": nearest.distance}
        return outcome(
            curator,
            problem,
            weights=weights,
            total=total,
            certificate=self.certificate,
            parameters=parameters,
            measured=NoisyAnswers(asked.domain, asked, noisy, (law,), total),
        )

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
        interactions = Interactions.of(asked)
        if interactions is not None:
            noise = deviation_of(law)
            if problem.rows and self.norm == "entropy":
                errors = interactions.fitted(noise / problem.rows)
                return errors.mean * problem.rows, errors.largest * problem.rows
            # Least squares, of which only the possible answers take more away: a little too much is expected.
            errors = interactions.least_squares(noise)
            return errors.mean, errors.largest
        # The noise in the space of possible answers stays, but for what non-negativity removes.
        dimensions = min(problem.cells, len(asked), degrees(problem))
        mean = kept_noise(PROJECTION_MEAN, len(asked)) * expected_size(law) * math.sqrt(dimensions / len(asked))
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


def degrees(problem: Problem) -> int:
    """The dimension of the space that the questions span: that of each interaction that a marginal holds, once, and one
    for each single question, at most."""
    interactions: set[tuple[int, ...]] = set()
    sizes = problem.workload.domain.sizes
    single = 0
    for block in problem.workload.blocks:
        if isinstance(block, Marginal) and len(block.columns) <= 8:
            interactions |= subsets(tuple(sorted(block.columns)))
        else:
            single += len(block)
    return single + sum(math.prod(sizes[c] - 1 for c in columns) for columns in interactions)


def subsets(columns: tuple[int, ...]) -> set[tuple[int, ...]]:
    """All subsets of some columns, the empty one included."""
    found: set[tuple[int, ...]] = {()}
    for column in columns:
        found |= {(*kept, column) for kept in found}
    return found


def rms_bound(law: Noise, rows: int, satisfied: int, queries: int, cells: int) -> float:
    """√(2·n·w/k) in counts, where w bounds |⟨column of A, noise⟩| over all records; see `projection.proof.md`."""
    log = math.log(2 * cells / FAILURE)
    if law.kind == "gaussian":
        width = law.scale * math.sqrt(2 * satisfied * log)
    else:
        width = law.scale * max(math.sqrt(satisfied), math.sqrt(log)) * math.sqrt(8 * log)
    return math.sqrt(2 * rows * width / queries)
