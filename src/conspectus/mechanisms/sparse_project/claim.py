"""What to expect of SparseProject: noise and distortion on a table of records that are as different as they can be."""

from __future__ import annotations

import math

import numpy as np

from conspectus.mechanisms.bounds import FAILURE
from conspectus.mechanisms.mechanism import Claim, Problem, expected_maximum, expected_size
from conspectus.mechanisms.total import of_fractions
from conspectus.mechanisms.typical.expectations import (
    SPARSE_PROJECT_FEW,
    SPARSE_PROJECT_SLOW,
)
from conspectus.privacy.events import Noise
from conspectus.privacy.noise_plus_shift import weighted_tail
from conspectus.synopses.random_projection import estimates_of, failure_of_moment, half_width, kept_by_hash

from .parameters import MOST_BY_DEFAULT, SparseProjectPlan, SparseProjectSettings
from .theorem import price_of_median, promise

CITES = ("Blum & Roth 2011, Algorithm 2", "Charikar, Chen & Farach-Colton 2002 (count-sketch)")

MANY = 1 << 12
"""Of so many noises the sum is about Gaussian."""


def claim_of(name: str, settings: SparseProjectSettings, problem: Problem, plan: SparseProjectPlan) -> Claim:
    projection, sigma, m = plan.projection, plan.sigma, plan.sparsity
    roots = np.concatenate([np.sqrt(np.diff(block.offsets)) for block in plan.queries])
    rows = problem.planned_rows
    median = plan.estimator == "median"
    dearer = price_of_median(projection.nonzeros) if median else 1
    met, most = _collisions(problem, plan)
    laplace = plan.law.kind == "laplace" and m < SPARSE_PROJECT_FEW and not median

    def like(moment: float) -> Noise:
        deviation = math.sqrt((sigma * sigma + moment) * dearer)
        return Noise("laplace", deviation / math.sqrt(2)) if laplace else Noise("gaussian", deviation)

    bound = None
    if problem.rows and problem.total_is_public:
        sparsity = float(np.mean(roots**2))
        bound = promise(projection, rows=rows, sigma=sigma, sparsity=sparsity, median=median, failure=settings.failure)
    claim = Claim(
        mechanism=name,
        expected_max=math.hypot(math.sqrt(m) * expected_maximum(like(0.0), len(problem.workload)), most),
        expected_mean=float(np.mean(roots)) * expected_size(like(met)),
        bound=bound,
        memory=32 * projection.size + 64 * sum(len(block.addresses) for block in plan.queries),
        citations=CITES,
        notes=tuple(_notes(settings, problem, plan)),
        expected_width=min(_width(problem, plan), rows),
    )
    return of_fractions(problem, claim)


def _collisions(problem: Problem, plan: SparseProjectPlan) -> tuple[float, float]:
    """The typical square, for each record that a query lists, of what other records add where they share a coordinate;
    and the most that they typically add to a query, in counts.

    On average over all hashes the square is 2F/T. Of records that are as different as they can be F is about n, and in
    a small universe of |X| records n²/|X|. But few records in many coordinates hardly ever meet: of m records any meets
    another with probability min(1, m|X|s/T), and in a median more than half of the s sections have to. Of all queries
    the worst is no worse than as many records of usual size as meet at all.
    """
    rows, universe, size = problem.planned_rows, problem.workload.domain.cells, plan.projection.size
    moment = 2 * max(rows, rows * rows / universe) / size
    sections = plan.projection.nonzeros
    each = min(1.0, min(universe, rows) * (1 if plan.projection.dense else sections) / size)
    if plan.estimator == "median":
        each = each ** (sections // 2 + 1)
    alike = expected_maximum(Noise("gaussian", math.sqrt(plan.sparsity * moment)), len(problem.workload))
    return moment * min(1.0, plan.sparsity * each), min(alike, rows * each / 2)


def _width(problem: Problem, plan: SparseProjectPlan) -> float:
    """How far the ends of the interval of a query of m records will typically be from its answer.

    It holds whatever collides, and so follows F, which is n²/|X| where all records are as frequent, and about n²·π²/6H²
    where they follow Zipf's law and the i-th has n/(i·H) rows: the middle of both, on a logarithmic scale. The bound on
    F that a release takes from its own coordinates is dearer by what the hash may hide.
    """
    rows, projection = problem.planned_rows, plan.projection
    records = min(problem.workload.domain.cells, rows)
    uneven = min(1.0, math.pi**2 / 6 / (math.log(records) + np.euler_gamma) ** 2)
    moment = math.sqrt(uneven / records) * rows * rows
    kept = kept_by_hash(projection.size, failure_of_moment(projection, FAILURE) * FAILURE)
    most = plan.sparsity * min(moment / kept if kept > 0 else math.inf, float(rows) ** 2)
    estimates = estimates_of(projection, plan.estimator)
    # Each record of the query has s coordinates of its own; the sum of many noises depends on their square alone.
    taken = plan.sparsity * projection.nonzeros // estimates
    terms = min(taken, MANY)
    unit = math.sqrt(taken / terms) * estimates / projection.nonzeros
    tail = weighted_tail(plan.law, np.ones(terms, dtype=np.int64), unit)
    usual = rows * plan.sparsity / max(records, plan.sparsity)
    return half_width(
        projection, plan.law, [tail] * estimates, norm=plan.sparsity, most=most, count=usual, confidence=1 - FAILURE
    )


def _notes(settings: SparseProjectSettings, problem: Problem, plan: SparseProjectPlan) -> list[str]:
    projection, s, median = plan.projection, plan.projection.nonzeros, plan.estimator == "median"
    form = "dense" if projection.dense else f"sparse, {s} non-zeros a record{', median' if median else ''}"
    noise = plan.sigma * math.sqrt(price_of_median(s) if median else 1)
    where = f" in {s // 2 + 1} of {s} sections" if median else ""
    notes = [
        f"{projection.size:,} coordinates ({form}), noise of deviation {noise:.4g}·√m counts for m records",
        f"answers any sparse query, not only these; heavy records that share a coordinate{where} add to the error",
    ]
    if settings.theorem and not problem.budget.pure:
        scale = "as much as the budget's ρ allows" if problem.budget.epsilon is None else "√(8T ln(1/δ))/ε a coordinate"
        notes.append(f"the paper's Laplace noise, {scale}: paper=False takes Gaussian noise where that is smaller")
    if projection.size >= SPARSE_PROJECT_SLOW:
        notes.append(f"noise is drawn exactly for each of {projection.size:,} coordinates, which takes a while")
    if settings.size is None and projection.size > MOST_BY_DEFAULT - s:
        notes.append(
            f"more than {MOST_BY_DEFAULT:,} coordinates, which is the most by default, would distort less: set size="
        )
    return notes
