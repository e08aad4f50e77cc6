"""SparseProject: one noisy random projection of the table answers every sparse query, over any universe.

Blum and Roth 2011, Algorithm 2, in two forms. The dense form is the paper's: a sign for every record and coordinate by
an r-wise independent hash. The sparse form (a count-sketch, or a sparse Johnson–Lindenstrauss matrix) has s signs for
each record, one in each of s disjoint sections: it costs s operations a record instead of T, and the same accuracy.
Answers are the mean or the median of what the sections say; the median forgets the sections that a heavy record spoilt.

Privacy: composes one measurement, of the projection, and the row total. It holds for every T, r and hash.
Accuracy: with F = Σ count², w the weights of a query and noise of deviation σ on a projection whose columns have norm
1, the mean of the sections is unbiased and the mean square of its error at most V = ‖w‖²·(σ² + 2F/T): noise σ√m for an
m-sparse query, and distortion. A section by itself has at most s·V. If the median is off by e, so are (s + 1)/2
sections, by e or more: its mean square is at most 2s²V/(s + 1) on any table, and about 1.4·V for s = 5 where errors are
Gaussian.
A record of any weight spoils a section with probability at most m·s/T, and the median only if a majority is spoilt: a
median is worth its noise where answers must seldom be wrong. At a failure level of 0.05 it is not, on any table: with
s = 5 sections each may fail with 0.19, and the bound on their distortion is √(5/0.19) against √(1/0.05) for one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from conspectus.curator.acts import measurement
from conspectus.curator.curator import Curator
from conspectus.mechanisms.mechanism import (
    Claim,
    ErrorBound,
    Outcome,
    Problem,
    Refusal,
    SettingError,
    expected_maximum,
    expected_size,
    root_up,
)
from conspectus.mechanisms.total import SHARE
from conspectus.privacy.accounting import calibrate_laplace, scale_up
from conspectus.privacy.events import Event, Noise, RowTotal
from conspectus.queries.blocks.sparse_projection import MOST_COORDINATES, MOST_INDEPENDENCE, Projection
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.builders.conjunctions import always
from conspectus.queries.builders.sparse import written_out
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.synopses.random_projection import (
    LEAST_INDEPENDENCE,
    MOST_SECTIONS,
    Estimator,
    RandomProjection,
    has_median,
    section_failure,
)
from conspectus.synopses.synopsis import Total, public_sampler, variance_of

FAILURE = 0.05
LEAST, MOST = 1 << 10, 1 << 22
"""Between these the default number of coordinates lies: more take longer to draw than they are worth."""

SLOW = 1 << 19
"""Coordinates whose noise takes more than a few seconds to draw."""

MOST_CELLS, MOST_QUERIES = 1 << 20, 1 << 13
"""Predicates over a larger universe, or more of them, are written out only on request: by cs.sparse."""

FEW = 4

UNDECLARED = 1 << 16
"""Coordinates by default where the number of rows is private and not declared, and the rows then thought of."""

SECTIONS = (1, 3, 5)
"""The s among which the default chooses."""


@dataclass(frozen=True, kw_only=True)
class SparseProject:
    """`size` is T, `nonzeros` s, `independence` r, `sparsity` the m to be ready for (by default the workload's).

    `failure` is the share of answers that may be worse than claimed: a small one makes the default prefer a median of
    several sections. `form` is "auto", "sparse" or "dense"; `noise` is "auto", "laplace" or "gaussian"; `estimator` is
    "auto", "mean" or "median" (of an odd number of non-zeros); `paper` takes T and r from the paper's theorem, and its
    Laplace noise, which spends ε alone wherever the budget has one; `public_seed` fixes the hash, which is fresh
    otherwise and published either way.
    """

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

    name: ClassVar[str] = "sparse-project"

    def __post_init__(self) -> None:
        if self.form not in ("auto", "sparse", "dense") or self.noise not in ("auto", "laplace", "gaussian"):
            raise SettingError('form is "auto", "sparse" or "dense", and noise "auto", "laplace" or "gaussian"')
        if self.size is not None and not 1 <= self.size <= MOST_COORDINATES:
            raise SettingError(f"size lies between 1 and {MOST_COORDINATES:,} coordinates")
        if self.independence is not None and not 1 <= self.independence <= MOST_INDEPENDENCE:
            raise SettingError(f"independence lies between 1 and {MOST_INDEPENDENCE:,}")
        for name in ("nonzeros", "sparsity"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise SettingError(f"{name} must be at least 1")
        if not 0 < self.failure < 1:
            raise SettingError("failure is a probability between 0 and 1")
        if self.public_seed is not None and not 0 <= self.public_seed < 1 << 64:
            raise SettingError("public_seed is a whole number below 2**64")
        if self.paper and (self.size or self.nonzeros or self.form == "sparse" or self.noise == "gaussian"):
            raise SettingError("paper=True takes size, form and noise from the paper: leave them and nonzeros out")
        if self.size is not None and self.nonzeros is not None and self.nonzeros > self.size:
            raise SettingError(
                f"{self.nonzeros:,} non-zeros need as many coordinates, one in each section: choose a larger size, or "
                "fewer nonzeros"
            )
        if self.estimator not in ("auto", "mean", "median"):
            raise SettingError('estimator is "auto", "mean" or "median"')
        if self.estimator == "median" and (self.paper or self.form == "dense"):
            raise SettingError("the dense form has no sections to take a median of: leave estimator out")
        if self.estimator == "median" and (self.nonzeros or SECTIONS[-1]) not in range(3, MOST_SECTIONS + 1, 2):
            raise SettingError(f"a median needs an odd number of nonzeros between 3 and {MOST_SECTIONS}")
        if self.estimator == "median" and self.size is not None and self.size < 2 * (self.nonzeros or SECTIONS[-1]):
            raise SettingError("a median needs at least two coordinates in each section: choose a larger size")
        if self.form == "dense" and self.nonzeros is not None:
            raise SettingError("the dense form has a non-zero at every coordinate: leave nonzeros out")

    def shape(self, problem: Problem, public_seed: int = 0) -> Projection:
        """The projection, from public facts alone."""
        m, k = self._sparsity(problem), len(problem.workload)
        s = self.nonzeros or self._sections(problem, m)
        size = paper_size(problem.rows or 1, m, k) if self.paper else self._size(problem, s, m)
        dense = self.paper or self.form == "dense" or (self.form == "auto" and self._dense_is_better(problem, size, m))
        s = size if dense else s
        size = max(size // s, 1) * s
        r = self.independence or (paper_independence(size, k) if self.paper or dense else LEAST_INDEPENDENCE)
        return Projection(problem.workload.domain, size, s, min(r, MOST_INDEPENDENCE), public_seed)

    def estimate(self, projection: Projection) -> Estimator:
        """How answers are taken from the sections: by their median where there is one, unless the mean is asked for."""
        return "median" if self.estimator != "mean" and has_median(projection) else "mean"

    def _size(self, problem: Problem, s: int, m: int) -> int:
        """T: by default it keeps the worst distortion of an estimate, m·n·s/T, below its noise. That is σ√m for the
        mean of the sections, and σ√(ms) for one of them, which is what a median is made of.

        It stops at T = m·D·s/p, where the D different records of a table, at most its rows and the universe's, leave
        those of a question alone in a section except with the probability p that it may fail with: there is nothing to
        gain beyond, however small the noise is."""
        if self.size is not None:
            return self.size
        if problem.rows is None:
            return UNDECLARED
        estimates = s if self.estimator != "mean" and s % 2 == 1 else 1
        needed = math.sqrt(m) * problem.rows * s / (self.deviation(problem, s) * math.sqrt(estimates))
        alone = m * min(problem.rows, problem.workload.domain.cells) * s / section_failure(estimates, self.failure)
        return LEAST * math.ceil(min(max(needed, 1), alone, MOST) / LEAST)

    def _sections(self, problem: Problem, m: int) -> int:
        """s by default: what claims the smallest error of an answer about m records at the failure level, on any table.

        A section fails with probability p at most if a majority of s does with `failure`. Its noise is as claimed, and
        the distortion, whose mean square is at most 2m·n²·s/T whatever the n rows are, is bounded by Chebyshev.
        """
        if self.estimator == "mean" or self.form == "dense" or self.paper:
            return 1
        rows = UNDECLARED if problem.rows is None else problem.rows
        normal = math.sqrt(2 * math.log(2 / self.failure))

        def claimed(s: int) -> float:
            noise = normal * self.deviation(problem, s) * math.sqrt(m * price_of_median(s))
            allowed = self._size(problem, s, m) * section_failure(s, self.failure)
            return noise + rows * math.sqrt(2 * m * s / allowed)

        fits = [s for s in SECTIONS if s == 1 or self.size is None or 2 * s <= self.size]
        return min(fits[1:] if self.estimator == "median" else fits, key=claimed)

    def _dense_is_better(self, problem: Problem, size: int, m: int) -> bool:
        """Noise and worst distortion of the two forms: the sparse one's is m·n·s/T, the dense one's n·√(2m/T)."""
        if self.nonzeros is not None or self.estimator == "median":
            return False
        rows = problem.rows or 0
        noise = [self.deviation(problem, s) * math.sqrt(m) for s in (size, 1)]
        distortion = [rows * math.sqrt(2 * m / size), rows * min(m / size, math.sqrt(2 * m / size))]
        return noise[0] + distortion[0] < noise[1] + distortion[1]

    def _sparsity(self, problem: Problem) -> int:
        """The largest m of the workload, or the larger one that was asked for."""
        return max([1, self.sparsity or 1, *(block.sparsity for block in asked(problem.workload) or ())])

    def laws(self, problem: Problem, projection: Projection) -> tuple[Noise | None, Noise]:
        """The noise on the number of rows, where it has to be bought, and on each coordinate, in counts.

        Of the plans that fit the budget the one with the least noise: all acts pure, or all concentrated; a budget with
        a δ that no ledger adds up may be spent in either way, since all acts are known before the first draw.
        """
        moved = problem.sensitivity(Workload(projection.domain, (projection,)))
        budget, whole = problem.budget, Fraction(1) if problem.total_is_public else 1 - SHARE
        plans: list[tuple[Noise | None, Noise]] = []
        if budget.epsilon is not None and self.noise != "gaussian" and (budget.pure or not problem.ledgered):
            epsilon = Fraction(budget.epsilon)
            total = Noise("laplace", scale_up(problem.max_rows / (epsilon * SHARE)))
            scale = scale_up(moved.l1 / (epsilon * whole))
            if problem.total_is_public and not budget.pure and not self.paper:
                norms = (Fraction(moved.l1), Fraction(moved.l2_squared), Fraction(moved.linf))
                scale = scale_up(calibrate_laplace(*norms, budget))
            plans.append((total, Noise("laplace", scale)))
        if not budget.pure and not (self.paper and plans):
            scale = root_up(Fraction(moved.l2_squared) / (2 * problem.cap * whole))
            total = Noise("gaussian", root_up(problem.max_rows**2 / (2 * problem.cap * SHARE)))
            wanted = "laplace" if self.paper else self.noise
            kinds = ("gaussian", "laplace") if wanted == "auto" else (wanted,)
            plans += [(total, Noise("laplace" if kind == "laplace" else "gaussian", scale)) for kind in kinds]
        bought, law = min(plans, key=lambda plan: variance_of(plan[1]))
        return (None if problem.total_is_public else bought), law

    def deviation(self, problem: Problem, nonzeros: int) -> float:
        """σ: the deviation of the noise on a single record's count, in counts, were it not of whole numbers.

        Where nearly all draws are 0 that of the discrete law is much smaller, and says nothing of what T is worth; the
        claims of other mechanisms are of the scale too."""
        like = Projection(problem.workload.domain, nonzeros, nonzeros, 1, 0)
        law = self.laws(problem, like)[1]
        return law.scale * math.sqrt((2 if law.kind == "laplace" else 1) / nonzeros)

    def _refusal(self, problem: Problem) -> str | None:
        if asked(problem.workload) is None:
            return "it answers questions that list their records: ask with cs.sparse, which also writes predicates out"
        if problem.budget.pure and self.noise == "gaussian":
            return "Gaussian noise is never pure: allow a delta above 0, or take noise='laplace'"
        if self.paper:
            if problem.rows is None:
                return "the paper's number of coordinates depends on the number of rows: declare it with rows="
            size = paper_size(problem.rows, self._sparsity(problem), len(problem.workload))
            if size > MOST_COORDINATES:
                return (
                    f"the paper's theorem asks for {size:.2g} coordinates (limit {MOST_COORDINATES:,}): "
                    "leave paper out, and set size= if you like"
                )
        return None

    def claim(self, problem: Problem, plan: Claim) -> Claim:
        return plan

    def plan(self, problem: Problem) -> Claim | Refusal:
        if (reason := self._refusal(problem)) is not None:
            return Refusal(mechanism=self.name, reason=reason)
        m, k = self._sparsity(problem), len(problem.workload)
        projection = self.shape(problem)
        sigma = self.deviation(problem, projection.nonzeros)
        blocks = asked(problem.workload) or ()
        roots = np.concatenate([np.sqrt(np.diff(block.offsets)) for block in blocks])
        rows = problem.rows or 0
        # A table of records that are as different as they can be: F is about n, and in a small universe n²/|X|.
        crowd = max(rows, rows * rows / problem.workload.domain.cells)
        s, median = projection.nonzeros, self.estimate(projection) == "median"
        spread = math.sqrt((sigma * sigma + 2 * crowd / projection.size) * (price_of_median(s) if median else 1))
        # A sum of a few noises has their law's tail; one of many, and a median, about a Gaussian's.
        kind = self.laws(problem, projection)[1].kind if m < FEW and not median else "gaussian"
        like = Noise("laplace", spread / math.sqrt(2)) if kind == "laplace" else Noise("gaussian", spread)
        bound = None
        if rows and problem.total_is_public and projection.independence >= LEAST_INDEPENDENCE:
            square = float(np.mean(roots**2)) * (sigma**2 + 2 * rows * rows / projection.size) / self.failure
            square *= 2 * s * s / (s + 1) if median else 1  # a majority of the sections is off by as much
            bound = ErrorBound(
                value=math.sqrt(square) / rows,
                statistic="rms",
                probability=1 - self.failure,
                theorem="second moments of the projection and the noise, Markov's inequality",
            )
        form = "dense" if projection.dense else f"sparse, {s} non-zeros a record{', median' if median else ''}"
        noise = sigma * math.sqrt(price_of_median(s) if median else 1)
        where = f" in {s // 2 + 1} of {s} sections" if median else ""
        notes = [
            f"{projection.size:,} coordinates ({form}), noise of deviation {noise:.4g}·√m counts for m records",
            f"answers any sparse query, not only these; heavy records that share a coordinate{where} add to the error",
        ]
        if self.paper and not problem.budget.pure:
            spent = "in ε alone" if problem.budget.epsilon is not None and not problem.ledgered else "at its price in ρ"
            notes.append(f"the paper's Laplace noise, {spent}: paper=False may use delta, and Gaussian noise")
        if projection.size >= SLOW:
            notes.append(f"noise is drawn exactly for each of {projection.size:,} coordinates, which takes a while")
        if self.size is None and projection.size > MOST - s:
            notes.append(f"more than {MOST:,} coordinates, which is the most by default, would distort less: set size=")
        return Claim(
            mechanism=self.name,
            expected_max=math.sqrt(m) * expected_maximum(like, k),
            expected_mean=float(np.mean(roots)) * expected_size(like),
            bound=bound,
            memory=32 * projection.size + 64 * sum(len(block.addresses) for block in blocks),
            citations=("Blum & Roth 2011, Algorithm 2", "Charikar, Chen & Farach-Colton 2002 (count-sketch)"),
            notes=tuple(notes),
        )

    def declare(self, problem: Problem, plan: Claim) -> Sequence[Event]:
        projection = self.shape(problem)
        bought, law = self.laws(problem, projection)
        facts = {"relation": problem.relation}
        first = RowTotal() if bought is None else measurement(always(projection.domain), bought, **facts)
        return first, measurement(Workload(projection.domain, (projection,)), law, **facts)

    def release(self, curator: Curator, problem: Problem, plan: Claim) -> Outcome:
        seed = self.public_seed
        if seed is None:
            seed = int(public_sampler(None).integers(1 << 63))
        projection = self.shape(problem, seed)
        bought, law = self.laws(problem, projection)
        if bought is None:
            total = Total(value=float(curator.rows()), exact=True)
        else:
            noisy = float(curator.measure(always(projection.domain), bought)[0])
            total = Total(value=noisy, exact=False, kind=bought.kind, scale=bought.scale, terms=1)
        values = curator.measure(Workload(projection.domain, (projection,)), law)
        estimator = self.estimate(projection)
        synopsis = RandomProjection(problem.workload.domain, projection, values, law, total, estimator)
        parameters = {**projection.to_json(), "estimator": estimator, "noise": law.kind, "scale": law.scale}
        return Outcome(synopsis=synopsis, answers=synopsis.answer(problem.workload), total=total, parameters=parameters)


def price_of_median(s: int) -> float:
    """The variance of the median of s independent Gaussian errors over that of their mean, to within 3 %: 1 for s = 1,
    and π/2 in the limit."""
    return math.pi * s / (2 * s + math.pi - 2)


@lru_cache(maxsize=8)
def asked(workload: Workload) -> tuple[SparseQueries, ...] | None:
    """The questions as lists of records: predicates over a small universe are written out; None for what is neither."""
    listed: list[SparseQueries] = []
    for block in workload.blocks:
        if isinstance(block, SparseQueries):
            listed.append(block)
            continue
        if workload.domain.cells * len(workload.blocks) > MOST_CELLS or len(workload) > MOST_QUERIES:
            return None
        try:
            listed.append(written_out(Workload(workload.domain, (block,))))
        except WorkloadError:
            return None
    return tuple(listed)


def paper_size(rows: int, m: int, k: int) -> int:
    """T = 4·64²·ς⁻²·ln(1/τ) with ς = 2√m/(m + n²) and τ = β/4k, as Theorem 4.9's proof needs (Algorithm 2 prints a T
    that is 2√m times larger)."""
    return math.ceil(4 * 64**2 * (m + rows * rows) ** 2 / (4 * m) * math.log(4 * k / FAILURE))


def paper_independence(size: int, k: int) -> int:
    """An even r of at least 2·log₂(2kT/β), for which the union bound of Lemma 4.6 holds (base 2, as Corollary 4.7
    needs), and that is at least the 2·ln(1/τ) of Theorem 4.1."""
    return 2 * math.ceil(math.log2(2 * k * size / FAILURE))
