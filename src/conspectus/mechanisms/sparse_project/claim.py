"""What to expect of SparseProject: noise and distortion on a table of records that are as different as they can be."""

from __future__ import annotations

import math

import numpy as np

from conspectus.mechanisms.expectations import (
    SPARSE_PROJECT_FEW,
    SPARSE_PROJECT_SLOW,
)
from conspectus.mechanisms.mechanism import Claim, Problem, expected_maximum, expected_size
from conspectus.mechanisms.sums_of_noise import half_width
from conspectus.mechanisms.total import of_fractions
from conspectus.privacy.events import Noise

from .parameters import MOST_BY_DEFAULT, SparseProjectPlan, SparseProjectSettings
from .theorem import price_of_median, promise

CITES = ("Blum & Roth 2011, Algorithm 2", "Charikar, Chen & Farach-Colton 2002 (count-sketch)")


def claim_of(name: str, settings: SparseProjectSettings, problem: Problem, plan: SparseProjectPlan) -> Claim:
    projection, sigma, m = plan.projection, plan.sigma, plan.sparsity
    roots = np.concatenate([np.sqrt(np.diff(block.offsets)) for block in plan.queries])
    rows = problem.planned_rows
    # Of records that are as different as they can be F is about n, and in a small universe n²/|X|.
    moment = max(rows, rows * rows / problem.workload.domain.cells)
    median = plan.estimator == "median"
    dearer = price_of_median(projection.nonzeros) if median else 1
    deviation = math.sqrt((sigma * sigma + 2 * moment / projection.size) * dearer)
    if plan.law.kind == "laplace" and m < SPARSE_PROJECT_FEW and not median:
        like = Noise("laplace", deviation / math.sqrt(2))
    else:
        like = Noise("gaussian", deviation)
    bound = None
    if problem.rows and problem.total_is_public:
        sparsity = float(np.mean(roots**2))
        bound = promise(projection, rows=rows, sigma=sigma, sparsity=sparsity, median=median, failure=settings.failure)
    claim = Claim(
        mechanism=name,
        expected_max=math.sqrt(m) * expected_maximum(like, len(problem.workload)),
        expected_mean=float(np.mean(roots)) * expected_size(like),
        bound=bound,
        memory=32 * projection.size + 64 * sum(len(block.addresses) for block in plan.queries),
        citations=CITES,
        notes=tuple(_notes(settings, problem, plan)),
        expected_width=math.sqrt(m) * half_width(like),
    )
    return of_fractions(problem, claim)


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
