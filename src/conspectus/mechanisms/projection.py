"""Noise on every answer, then the nearest answers that some table could have: the book's Algorithm 18.

All queries are measured at once and the noisy vector is projected onto n·conv{columns of A}, the answers of all
weighted tables of n rows. The projection is a histogram, so it answers everything and makes synthetic rows.

Privacy: composes one measurement of the whole workload, the row total and the certificate; the rest post-processes.
Accuracy: see `projection.proof.md`; Theorem 12.8 with its constant re-derived for the noise that really runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from conspectus.curator.curator import Curator
from conspectus.privacy.events import Event, Noise
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks.marginal import Marginal
from conspectus.synopses.fitting.least_squares import fit_least_squares
from conspectus.synopses.fitting.max_entropy import fit_histogram
from conspectus.synopses.noisy_answers import NoisyAnswers

from .histograms import outcome
from .interactions import Interactions, deviation
from .iterative import Candidates, measurements, unmeasured
from .mechanism import Claim, ErrorBound, Outcome, Problem, Refusal, SettingError, expected_size, no_histogram
from .total import find_total

FAILURE = 0.05
MOST_LISTED = 20_000
REFITS = 3
"""How often the fit is solved again at most, where the ridge hid an interaction that stands out of its noise."""

CITES = ("Dwork & Roth 2014, Algorithm 18 and Theorem 12.8 (constant re-derived)", "Nikolov, Talwar & Zhang 2013")


@dataclass(frozen=True, kw_only=True)
class Projection:
    """`norm` says what "nearest" means: "entropy" (maximum entropy within the noise) or the book's "euclidean".

    `certificate` is the share of the budget that buys a private bound on the maximum error.
    """

    norm: str = "entropy"
    certificate: float = 0.03
    evaluations: int = 400

    name: ClassVar[str] = "projection"

    def __post_init__(self) -> None:
        if self.norm not in ("entropy", "euclidean"):
            raise SettingError('norm is "entropy" or "euclidean"')
        if not 0 <= self.certificate < 1 or self.evaluations < 1:
            raise SettingError("certificate lies in [0, 1), evaluations at 1 or above")

    def _law(self, problem: Problem, left: Fraction) -> Noise:
        return problem.law(problem.sensitivity(problem.workload.distinct()), left)

    def claim(self, problem: Problem, plan: Claim) -> Claim:
        return plan

    def plan(self, problem: Problem) -> Claim | Refusal:
        asked = problem.workload.distinct()
        refused = no_histogram(problem)
        if refused is not None:
            return Refusal(mechanism=self.name, reason=refused)
        listed = len(asked) - sum(len(block) for block in asked.blocks if isinstance(block, Marginal))
        if listed > MOST_LISTED:
            reason = f"it fits {listed:,} single queries one by one (limit {MOST_LISTED:,}): ask for whole marginals"
            return Refusal(mechanism=self.name, reason=reason)
        law = self._law(problem, problem.cap * (1 - Fraction(self.certificate)))
        mean, largest = self._expected(problem, law)
        bound = None
        # A single question is fitted with its complement and so weighs twice: the bound needs equal weights.
        alike = listed in (0, len(asked))
        if problem.rows and problem.total_is_public and self.norm == "euclidean" and alike:
            value = rms_bound(law, problem.rows, reach(problem), len(asked), problem.cells) / problem.rows
            bound = ErrorBound(value=value, statistic="rms", probability=1 - FAILURE, theorem=CITES[0])
        return Claim(
            mechanism=self.name,
            expected_max=largest,
            expected_mean=mean,
            bound=bound,
            memory=8 * 14 * problem.cells + 64 * len(asked),
            citations=CITES,
            notes=(
                f"{law.kind} noise of scale {law.scale:.4g} counts before the projection",
                "the proved bound is for the exact projection: the release says how near to it the solver came",
            )[: 1 + (bound is not None)],
        )

    def _expected(self, problem: Problem, law: Noise) -> tuple[float, float]:
        """Typical errors, mean and largest, in counts."""
        asked = problem.workload.distinct()
        interactions = Interactions.of(asked)
        if interactions is not None:
            noise = deviation(law)
            if problem.rows and self.norm == "entropy":
                errors = interactions.fitted(noise / problem.rows)
                return errors.mean * problem.rows, errors.largest * problem.rows
            # Least squares, of which only the possible answers take more away: a little too much is expected.
            errors = interactions.least_squares(noise)
            return errors.mean, errors.largest
        # The part of the noise that lies in the space of possible answers stays, of which non-negativity removes about
        # another third on real tables.
        dimensions = min(problem.cells, len(asked), degrees(problem))
        mean = 0.65 * expected_size(law) * math.sqrt(dimensions / len(asked))
        largest = mean * math.sqrt(math.pi / 2) * math.sqrt(2 * math.log(2 * len(asked))) * 1.15
        # Where single questions are many they bound one another: the theorem's shape, measured. Of a pure budget each
        # of those that one row satisfies gets its part.
        parts = max(1, min(2 * reach(problem), len(asked) - 1))
        hidden = 0.85 * unmeasured(problem, Candidates.of(asked), parts)
        if 0 < hidden < largest:
            return mean * hidden / largest, hidden
        return mean, largest

    def declare(self, problem: Problem, plan: Claim) -> Sequence[Event] | None:
        return None

    def release(self, curator: Curator, problem: Problem, plan: Claim) -> Outcome:
        asked = problem.workload.distinct()
        curator.count_ahead(asked)
        total, left = find_total(curator, problem)
        price = problem.cap * Fraction(self.certificate)
        law = self._law(problem, left - price)
        noisy = curator.measure(asked, law).astype(float)
        held = asked.domain.project(problem.held)
        measured = list(measurements(asked, problem.held, noisy, law, total.divisor))
        parameters: dict[str, object] = {"norm": self.norm, "noise": law.kind, "scale": law.scale}
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
            price=price,
            parameters=parameters,
            measured=NoisyAnswers(asked.domain, asked, noisy, (law,), total),
        )


def reach(problem: Problem) -> int:
    """How many queries of the workload one record can satisfy: the largest squared length of a column of A."""
    return problem.workload.distinct().sensitivity(Relation(Neighbours.ADD_REMOVE)).l2_squared


def degrees(problem: Problem) -> int:
    """The dimension of the space that the questions span: one per interaction of columns that a marginal holds, and at
    most one for each single question."""
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


def rms_bound(law: Noise, rows: int, reach: int, queries: int, cells: int, failure: float = FAILURE) -> float:
    """√(2·n·w/k) in counts, where w bounds |⟨column of A, noise⟩| over all records; see `projection.proof.md`."""
    if law.kind == "gaussian":
        width = law.scale * math.sqrt(2 * reach * math.log(2 * cells / failure))
    else:
        spread = law.scale * max(math.sqrt(reach), math.sqrt(math.log(2 * cells / failure)))
        width = spread * math.sqrt(8 * math.log(2 * cells / failure))
    return math.sqrt(2 * rows * width / queries)
