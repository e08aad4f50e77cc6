"""SparseProject's settings, and the plan that public facts make of them: T, s, r, the noise and the estimator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from conspectus.mechanisms.bounds import FAILURE
from conspectus.mechanisms.mechanism import CannotServe, Problem, root_up
from conspectus.mechanisms.settings import SHARE, check_settings, is_share
from conspectus.mechanisms.total import bought_from
from conspectus.privacy.accounting import calibrate_laplace, scale_up
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import variance_of
from conspectus.queries.blocks.sparse_projection import MOST_COORDINATES, MOST_INDEPENDENCE, SparseProjection
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.builders.sparse import written_out
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.synopses.random_projection import (
    LEAST_INDEPENDENCE,
    MOST_LISTED,
    MOST_SECTIONS,
    Estimator,
    has_median,
    section_failure,
)
from conspectus.whole_numbers import MOST, MOST_SEED, SEED

from .theorem import price_of_median, theorem_independence, theorem_scale, theorem_size

LEAST_BY_DEFAULT, MOST_BY_DEFAULT = 1 << 10, 1 << 22
"""Between these the default number of coordinates lies: more take longer to draw than they are worth."""

MOST_CELLS, MOST_QUERIES = 1 << 20, 1 << 13
"""Predicates over a larger universe, or more of them, are written out only on request: by cs.sparse."""

SECTIONS = (1, 3, 5)
"""The s among which the default chooses."""


@dataclass(frozen=True, kw_only=True)
class SparseProjectSettings:
    """The settings of `SparseProject`, where each is explained, and what they must keep."""

    size: int | None = None
    nonzeros: int | None = None
    independence: int | None = None
    sparsity: int | None = None
    form: str = "auto"
    noise: str = "auto"
    estimator: str = "auto"
    failure: float = FAILURE
    paper: bool = False
    public_seed: int | None = None

    def __post_init__(self) -> None:
        kinds = self.form in ("auto", "sparse", "dense") and self.noise in ("auto", "laplace", "gaussian")
        given = self.size or self.nonzeros or self.form == "sparse" or self.noise == "gaussian"
        size, sections = MOST_COORDINATES if self.size is None else self.size, self.nonzeros or SECTIONS[-1]
        mean = self.estimator != "median"
        check_settings(
            (kinds, 'form is "auto", "sparse" or "dense", and noise "auto", "laplace" or "gaussian"'),
            (1 <= size <= MOST_COORDINATES, f"size lies between 1 and {MOST_COORDINATES:,} coordinates"),
            (
                self.independence is None or 1 <= self.independence <= MOST_INDEPENDENCE,
                f"independence lies between 1 and {MOST_INDEPENDENCE:,}",
            ),
            (
                self.nonzeros is None or 1 <= self.nonzeros <= MOST_COORDINATES,
                f"nonzeros lie between 1 and {MOST_COORDINATES:,}",
            ),
            (self.sparsity is None or 1 <= self.sparsity <= MOST, f"sparsity lies between 1 and {MOST:,} records"),
            (is_share(self.failure), f"failure, a probability, {SHARE}"),
            (self.public_seed is None or 0 <= self.public_seed <= MOST_SEED, SEED),
            (
                not (self.theorem and given),
                "paper=True takes size, form and noise from the paper: leave them and nonzeros out",
            ),
            (
                (self.nonzeros or 1) <= size,
                "non-zeros need as many coordinates, one in each section: choose a larger size, or fewer nonzeros",
            ),
            (self.estimator in ("auto", "mean", "median"), 'estimator is "auto", "mean" or "median"'),
            (
                mean or not (self.theorem or self.form == "dense"),
                "the dense form has no sections to take a median of: leave estimator out",
            ),
            (
                mean or sections in range(3, MOST_SECTIONS + 1, 2),
                f"a median needs an odd number of nonzeros between 3 and {MOST_SECTIONS}",
            ),
            (
                mean or size >= 2 * sections,
                "a median needs at least two coordinates in each section: choose a larger size",
            ),
            (
                self.form != "dense" or self.nonzeros is None,
                "the dense form has a non-zero at every coordinate: leave nonzeros out",
            ),
        )

    @property
    def theorem(self) -> bool:
        """Whether T, r and the noise are the paper's."""
        return self.paper


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseProjectPlan:
    """The projection, but for the seed of its hash, and the noise on it; how answers are taken from its sections.

    `total_law` is the noise on the number of rows where it has to be bought, `queries` the questions as lists of
    records, `sparsity` the m to be ready for, and `sigma` the deviation of the noise on the count of one record.
    """

    projection: SparseProjection
    law: Noise
    total_law: Noise | None
    estimator: Estimator
    queries: tuple[SparseQueries, ...]
    sparsity: int
    sigma: float


def plan_of(settings: SparseProjectSettings, problem: Problem) -> SparseProjectPlan:
    """The plan, or `CannotServe`."""
    queries = listed(problem.workload)
    if queries is None:
        raise CannotServe(
            "it answers questions that list their records: ask with cs.sparse, which also writes predicates out"
        )
    if problem.budget.pure and settings.noise == "gaussian":
        raise CannotServe("Gaussian noise is never pure: allow a delta above 0, or take noise='laplace'")
    m = max([1, settings.sparsity or 1, *(block.sparsity for block in queries)])
    if settings.theorem:
        if problem.rows is None:
            raise CannotServe("the paper's number of coordinates depends on the number of rows: declare it with rows=")
        size = theorem_size(problem.rows, m, len(problem.workload))
        if size > MOST_COORDINATES:
            raise CannotServe(
                f"the paper's theorem asks for {size:.2g} coordinates (limit {MOST_COORDINATES:,}): "
                "leave paper out, and set size= if you like"
            )
    projection = _projection(settings, problem, m)
    total_law, law = _laws(settings, problem, projection.nonzeros)
    return SparseProjectPlan(
        projection=projection,
        law=law,
        total_law=total_law,
        estimator="median" if settings.estimator != "mean" and has_median(projection) else "mean",
        queries=queries,
        sparsity=m,
        sigma=_deviation(settings, problem, projection.nonzeros),
    )


@lru_cache(maxsize=8)
def listed(workload: Workload) -> tuple[SparseQueries, ...] | None:
    """The questions as lists of records: predicates over a small universe are written out; None for what is neither."""
    found: list[SparseQueries] = []
    for block in workload.blocks:
        if isinstance(block, SparseQueries):
            found.append(block)
            continue
        if workload.domain.cells * len(workload.blocks) > MOST_CELLS or len(workload) > MOST_QUERIES:
            return None
        try:
            # What the synopsis would refuse to write out when it answers is refused now, before anything is spent.
            found.append(written_out(Workload(workload.domain, (block,)), MOST_LISTED))
        except WorkloadError:
            return None
    return tuple(found)


def _projection(settings: SparseProjectSettings, problem: Problem, m: int) -> SparseProjection:
    """T, s and r. The seed of the hash is chosen by the release."""
    k = len(problem.workload)
    s = settings.nonzeros or _sections(settings, problem, m)
    size = theorem_size(problem.rows or 1, m, k) if settings.theorem else _size(settings, problem, s, m)
    dense = settings.theorem or settings.form == "dense"
    dense = dense or (settings.form == "auto" and _dense_is_better(settings, problem, size, m))
    s = size if dense else s
    size = max(size // s, 1) * s
    r = settings.independence or (theorem_independence(size, k) if dense else LEAST_INDEPENDENCE)
    return SparseProjection(problem.workload.domain, size, s, min(r, MOST_INDEPENDENCE), 0)


def _size(settings: SparseProjectSettings, problem: Problem, s: int, m: int) -> int:
    """T: by default it keeps the worst distortion of an estimate, m·n·s/T, below its noise.

    The noise is σ√m for the mean of the sections, and σ√(ms) for one of them, which is what a median is made of.

    T stops at m·D·s/p. There the D different records of a table, at most its rows and the universe's, leave those of a
    question alone in a section, except with the probability p that the section may fail with. Beyond there is nothing
    to gain, however small the noise is.
    """
    if settings.size is not None:
        return settings.size
    rows = problem.planned_rows
    estimates = s if settings.estimator != "mean" and s % 2 == 1 else 1
    needed = math.sqrt(m) * rows * s / (_deviation(settings, problem, s) * math.sqrt(estimates))
    alone = m * min(rows, problem.workload.domain.cells) * s / section_failure(estimates, settings.failure)
    return LEAST_BY_DEFAULT * math.ceil(min(max(needed, 1), alone, MOST_BY_DEFAULT) / LEAST_BY_DEFAULT)


def _sections(settings: SparseProjectSettings, problem: Problem, m: int) -> int:
    """s: by default what claims the smallest error of an answer about m records at the failure level, on any table.

    A section may fail with the probability p for which a majority of s sections fails with `failure`. Its noise is as
    claimed. The distortion, whose mean square is at most 2m·n²·s/T whatever the n rows are, is bounded by Chebyshev.
    """
    if settings.estimator == "mean" or settings.form == "dense" or settings.theorem:
        return 1
    rows = problem.planned_rows
    normal = math.sqrt(2 * math.log(2 / settings.failure))

    def claimed(s: int) -> float:
        noise = normal * _deviation(settings, problem, s) * math.sqrt(m * price_of_median(s))
        allowed = _size(settings, problem, s, m) * section_failure(s, settings.failure)
        return noise + rows * math.sqrt(2 * m * s / allowed)

    fits = [s for s in SECTIONS if s == 1 or settings.size is None or 2 * s <= settings.size]
    return min(fits[1:] if settings.estimator == "median" else fits, key=claimed)


def _dense_is_better(settings: SparseProjectSettings, problem: Problem, size: int, m: int) -> bool:
    """Noise and worst distortion of the two forms: the sparse one's is m·n·s/T, the dense one's n·√(2m/T)."""
    if settings.nonzeros is not None or settings.estimator == "median":
        return False
    rows = problem.planned_rows
    noise = [_deviation(settings, problem, s) * math.sqrt(m) for s in (size, 1)]
    distortion = [rows * math.sqrt(2 * m / size), rows * min(m / size, math.sqrt(2 * m / size))]
    return noise[0] + distortion[0] < noise[1] + distortion[1]


def _laws(settings: SparseProjectSettings, problem: Problem, nonzeros: int) -> tuple[Noise | None, Noise]:
    """The noise on the number of rows, where it has to be bought, and on each coordinate, in counts.

    All acts are pure, or all are concentrated: whichever makes less noise. A budget with a δ that no ledger adds up may
    be spent in either way, since all acts are known before the first draw. The sensitivity of a projection depends on
    its s alone. The paper's own noise, where there is a δ, costs about a quarter of the ρ that the budget has.
    """
    like = SparseProjection(problem.workload.domain, nonzeros, nonzeros, 1, 0)
    moved = problem.sensitivity(Workload(like.domain, (like,)))
    budget = problem.budget
    plans: list[tuple[Noise | None, Noise]] = []
    only_laplace = budget.pure or not (problem.ledgered or settings.theorem)
    if budget.epsilon is not None and settings.noise != "gaussian" and only_laplace:
        total, left = bought_from(problem, "laplace", Fraction(budget.epsilon))
        scale = scale_up(moved.l1 / left)
        if problem.total_is_public and not budget.pure:
            norms = (Fraction(moved.l1), Fraction(moved.l2_squared), Fraction(moved.linf))
            scale = scale_up(calibrate_laplace(*norms, budget))
        plans.append((total, Noise("laplace", scale)))
    if not budget.pure:
        total, left = bought_from(problem, "gaussian", problem.cap)
        scale = root_up(moved.l2_squared / (2 * left))
        if settings.theorem and budget.epsilon is not None:
            scale = max(scale, scale_up(theorem_scale(moved.l2_squared, budget.epsilon, budget.delta)))
        wanted = "laplace" if settings.theorem else settings.noise
        kinds = ("gaussian", "laplace") if wanted == "auto" else (wanted,)
        plans += [(total, Noise("laplace" if kind == "laplace" else "gaussian", scale)) for kind in kinds]
    return min(plans, key=lambda plan: variance_of(plan[1]))


def _deviation(settings: SparseProjectSettings, problem: Problem, nonzeros: int) -> float:
    """σ: the deviation of the noise on the count of one record, in counts, as if it were not of whole numbers.

    Where nearly all draws are 0 the deviation of the discrete law is much smaller. But it says nothing of what T is
    worth, and the claims of other mechanisms are of the scale, too.
    """
    law = _laws(settings, problem, nonzeros)[1]
    return law.scale * math.sqrt((2 if law.kind == "laplace" else 1) / nonzeros)
