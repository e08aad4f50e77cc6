"""SparseProject: one noisy random projection of the table answers every sparse query, over any universe.

Blum and Roth 2011:

    Algorithm 2  SparseProject(D, ε, δ, β, m, k)
      τ ← β/4k;  T ← 4·64²·ln(1/τ)·(m^{3/2}/2 + n⁴/(2√m) + √m·n²);  σ ← ε/√(8 ln(1/δ))
      f ← a hash of a 2·log(kT/2β)-wise independent family, to ±1/√T;  A[i, x] = f at coordinate i and record x
      for i = 1 … T:
          u_i ← Σ_{x: D[x] > 0} D[x]·A[i, x]
          ν_i ← Lap(1/σ)
      output D_r = (u + ν, f)
    and a query Q is answered by ⟨Q̂, u + ν⟩/n with Q̂[i] = Σ_{x: Q(x) > 0} Q(x)·A[i, x]

| paper | code | where |
| --- | --- | --- |
| T | `projection.size` | `theorem.theorem_size` with `paper=True`; else `parameters` |
| 2·log(kT/2β), r | `projection.independence` | `theorem.theorem_independence` likewise |
| f, A | `projection` | `queries.blocks.sparse_projection`; its entries are ±1, and answers are divided for it |
| u | `projection.add` | there; called by `counting`, since it reads the table |
| ν, 1/σ | `plan.law` | drawn by `curator.measure`; `parameters` calibrates it to the sensitivity of u |
| u + ν | `values` | `release` |
| D_r, Q̂ | `RandomProjection` | `synopses.random_projection`, which also answers queries |
| m, k | `plan.sparsity`, `len(problem.workload)` | |

Two forms. The dense one is the paper's: a sign for every record and coordinate. The sparse one (a count-sketch, or a
sparse Johnson–Lindenstrauss matrix) has s signs for each record (`projection.nonzeros`), one in each of s disjoint
sections. It costs s operations a record instead of T, and is as accurate. Answers are the mean or the median of what
the sections say; the median forgets the sections that a heavy record spoilt.

Privacy: composes one measurement, of the projection, and the row total. It holds for every T, r and hash.
Accuracy: second moments (`theorem`), for any T and s; the paper's own theorem with paper=True.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from conspectus.curator.acts import measurement
from conspectus.curator.curator import Curator
from conspectus.mechanisms.mechanism import Claim, Mechanism, Outcome, Problem
from conspectus.mechanisms.total import take_total, total_act
from conspectus.privacy.events import Event
from conspectus.queries.workload import Workload
from conspectus.synopses.random_projection import RandomProjection
from conspectus.synopses.synopsis import public_sampler

from .claim import claim_of
from .parameters import SparseProjectPlan, SparseProjectSettings, plan_of


@dataclass(frozen=True, kw_only=True)
class SparseProject(SparseProjectSettings, Mechanism[SparseProjectPlan]):
    """A small noisy vector that answers any question about a few listed records, whatever records there may be.

    Choose it for tables of records of any kind (`cs.open_records`) where not all questions are known in advance: a
    release answers every other sparse question, too. For a fixed list of few questions compare with `laplace`; to learn
    which records there are, choose `stable-histogram`.

    Args:
        size: T, the number of coordinates. By default as many as keep distortion below the noise.
        nonzeros: s, the coordinates of one record, one in each of as many sections.
        independence: r, how independent the hash is. Bounds and intervals need at least 4.
        sparsity: m, the most records of a question to be ready for. By default the workload's.
        form: "sparse", "dense" (the paper's) or "auto".
        noise: "laplace", "gaussian" (needs a delta) or "auto".
        estimator: How an answer is taken from the sections: "mean", "median" (of an odd number) or "auto".
        failure: The share of answers that may be worse than claimed. A small one makes the default prefer a median.
        paper: Takes T, r and the Laplace noise from Algorithm 2 and its theorem (Theorem 4.9): of scale
            √(8T ln(1/δ))/ε on sums of signs, or T/ε where δ is 0. The theorem asks for more coordinates than can be
            held on all but tiny tables.
        public_seed: Fixes the hash, which is fresh otherwise, and published either way.

    Example:
        >>> import conspectus as cs
        >>> table = cs.open_records(["ann", "ann", "bob", "eve"] * 500)
        >>> asked = cs.sparse([["ann", "eve"]])
        >>> release = cs.release(table, asked, epsilon=1, delta=1e-6, mechanism="sparse-project", size=1 << 16)
        >>> bool(abs(release.answers[0] - 0.75) < 0.1)
        True
        >>> release.parameters["size"]
        65536
    """

    name: ClassVar[str] = "sparse-project"
    answers_of_a_table: ClassVar[bool] = False

    def plan(self, problem: Problem) -> SparseProjectPlan:
        """T, s, r, the noise and the estimator."""
        return plan_of(self, problem)

    def claim(self, problem: Problem, plan: SparseProjectPlan) -> Claim:
        return claim_of(self.name, self, problem, plan)

    def declare(self, problem: Problem, plan: SparseProjectPlan) -> Sequence[Event]:
        measured = Workload(plan.projection.domain, (plan.projection,))
        return total_act(problem, plan.total_law), measurement(measured, plan.law, relation=problem.relation)

    def release(self, curator: Curator, problem: Problem, plan: SparseProjectPlan) -> Outcome:
        """Algorithm 2: choose the hash, project, add noise."""
        seed = self.public_seed
        if seed is None:
            seed = int(public_sampler(None).integers(1 << 63))
        domain, law, estimator = problem.workload.domain, plan.law, plan.estimator
        projection = replace(plan.projection, public_seed=seed)  # f
        total = take_total(curator, problem, plan.total_law)
        values = curator.measure(Workload(domain, (projection,)), law)  # u + ν
        synopsis = RandomProjection(domain, projection, values, law, total, estimator)
        return Outcome(
            synopsis=synopsis,
            answers=synopsis.answer(problem.workload),
            total=total,
            parameters={**projection.to_json(), "estimator": estimator, "noise": law.kind, "scale": law.scale},
        )
