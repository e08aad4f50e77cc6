"""Boosting for queries: Figure 6.1 of the book (Dwork, Rothblum and Vadhan 2010), in the function `boost`.

    Boosting for Queries (k, λ, η, ρ, μ, T)
      D_1 = uniform over Q
      for t = 1 … T:
        1. S_t = k questions drawn independently from D_t
           A_t = what the base synopsis generator makes of S_t; w.h.p. right on ½ + η of the mass of D_t
        2. for each q in Q, with the error d = |q(x) − A_t(q)|:
             a_t,q = 1 if d ≤ λ;  −1 if d > λ + μ;  1 − 2(d − λ)/μ in between
             u_t,q = exp(−α·Σ_{j≤t} a_j,q), where α = ½ ln((1 + 2η)/(1 − 2η))
        3. D_{t+1}[q] = u_t,q / Z_t, where Z_t = Σ_q u_t,q
      output A(q) = median{A_1(q), …, A_T(q)}

| symbol | here |
| --- | --- |
| Q, S_t | `plan.candidates`, `sample`: a marginal is one question, whose error is that of its worst cell |
| T, k | `plan.rounds`; `plan.first` in round 1, `plan.sampling.draws` in the later ones |
| λ, μ | `plan.sampling.lam`, `plan.sampling.mu`, in steps of 1/16 count |
| α | `plan.sampling.rates`: one for each round, equal or growing |
| η | nothing promises it in practice; `theorem.EDGE` = 1/3 with `theorem=True`; `reweighting.needed_edge` |
| ρ | `problem.error_sensitivity` |
| A_t | `synopsis`, made by a `Generator`: `generators.py`, `row_search.py`, `own_generator.py` |
| D_t, u, Z_t | `distribution`, a `Reweighting`: with step 2 in `curator/scores.py`, since it reads the table |
| drawing, step 3 | `Curator.select`, the exponential mechanism, which normalises; it reads the table |
| A | `MedianEnsemble`, where the median is weighted by the rates |

Privacy: composes k draws of the exponential mechanism a round (Lemma 6.4; the first round is uniform and free), one
measurement of the sample a round, the row total, and the certificates. Accuracy: Theorem 6.1 where `theorem=True`;
otherwise the edge of the generator is not promised, and the two certificates say what became of it. What differs from
the figure (blocks, growing rates, a history, the first sample) is proved in `mechanism.proof.md`.

`parameters.py` chooses the parameters, `theorem.py` takes them from the theorem, `claim.py` says what to expect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS, LOG_WEIGHT_STEPS, Reweighting
from conspectus.mechanisms.bounds import FAILURE, Certificate
from conspectus.mechanisms.certificate import certify, measure_potential, potential_law
from conspectus.mechanisms.mechanism import MAX_CELLS, Claim, Mechanism, Outcome, Problem
from conspectus.mechanisms.total import find_total
from conspectus.synopses.fitting.lbfgs import Vector
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.median_ensemble import MedianEnsemble, weighted_median
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import Total, public_sampler

from .claim import practical_claim, theorem_claim
from .first_sample import first_sample
from .generators import BruteForce, Generator, MaximumEntropy, Syntheticizer
from .own_generator import OwnRounds
from .parameters import BoostingPlan, BoostingSettings, plan_boosting
from .reweighting import needed_edge
from .row_search import RowSearch, public_rows

_POTENTIAL_SHARE = Fraction(1, 4)
"""The share of the certificates' price that buys ln Z."""


def boost(
    curator: Curator,
    problem: Problem,
    plan: BoostingPlan,
    generator: Generator,
    total: Total,
    *,
    public_seed: int | None = None,
) -> tuple[MedianEnsemble, Reweighting, Vector]:
    """Figure 6.1: the ensemble, the weights after the last round, and the ensemble's answers to all of Q."""
    asked, sampling = plan.candidates.workload, plan.sampling
    distribution = Reweighting(asked, plan.candidates.starts, sampling.lam, sampling.mu)  # D_1: no guess yet, uniform
    synopses: list[Histogram | Rows] = []
    answers: list[Vector] = []
    barred = np.zeros(0, dtype=np.int64)
    for t in range(plan.rounds):
        curator.report_progress("rounds", t, plan.rounds)
        # 1. Sample S_t from D_t, and make A_t of it.
        drawn = _draws(curator, plan, distribution, t, barred) if t else _first_draws(plan, public_seed)
        barred = _barred(plan, barred, drawn)
        sample = plan.candidates.take(drawn)
        made = generator.generate(curator, sample, price=plan.prices[t], last=t == plan.rounds - 1)
        synopsis = _synopsis(made, problem, plan, total, public_seed)
        # 2. Re-weight: the curator compares A_t(q) with q(x) when it next draws. 3. It normalises then, too.
        synopses.append(synopsis)
        answers.append(synopsis.answer(asked))
        distribution = distribution.joined(answers[-1] * total.divisor, sampling.rates[t])
    # A(q) = median{A_1(q), …, A_T(q)}
    ensemble = MedianEnsemble(asked.domain, tuple(synopses), sampling.rates, asked, total)
    return ensemble, distribution, weighted_median(np.stack(answers), sampling.rates)


def _draws(
    curator: Curator, plan: BoostingPlan, distribution: Reweighting, t: int, barred: NDArray[np.int64]
) -> NDArray[np.int64]:
    """S_t from D_t, by the exponential mechanism: independent draws as the theorem asks, or else k different ones."""
    sampling = plan.sampling
    again = None if plan.theorem else barred
    return curator.select(distribution, sampling.ranges[t - 1], draws=sampling.draws[t - 1], barred=again)


def _first_draws(plan: BoostingPlan, public_seed: int | None) -> NDArray[np.int64]:
    """S_1, chosen in public since D_1 is uniform: independently as the theorem asks, or else spread evenly."""
    if plan.theorem is None:
        return first_sample(plan.candidates, plan.first, public_seed=public_seed)
    return public_sampler(public_seed).integers(0, len(plan.candidates), plan.first)


def _barred(plan: BoostingPlan, barred: NDArray[np.int64], drawn: NDArray[np.int64]) -> NDArray[np.int64]:
    """What was drawn is in the history, and is not drawn again until too few others are left for a round."""
    barred = np.union1d(barred, drawn) if plan.history else barred
    enough = len(plan.candidates) - len(barred) >= max(plan.sampling.draws, default=0)
    return barred if enough else barred[:0]


def _synopsis(
    made: Vector | Rows | None, problem: Problem, plan: BoostingPlan, total: Total, public_seed: int | None
) -> Histogram | Rows:
    """A_t as a synopsis. A generator that failed costs accuracy, never privacy: something public stands in for it."""
    domain = problem.workload.domain
    if made is None and (plan.generator == "rows" or not problem.counting or problem.cells > MAX_CELLS):
        return public_rows(domain, total, public_sampler(public_seed))
    if made is None:
        made = np.full(problem.cells, 1 / problem.cells)
    return made if isinstance(made, Rows) else Histogram(domain, made, total, problem.held)


@dataclass(frozen=True, kw_only=True)
class Boosting(BoostingSettings, Mechanism[BoostingPlan]):
    """Boosting for queries: a few synopses, each made for what the ones before got wrong, and their weighted median.

    Choose it where questions are many and few of them can be measured, or where they are functions of the whole table
    (mode shares, distances from independence, your own), which no histogram mechanism serves. For marginals of few
    columns `projection` is as good and quicker. With `theorem=True` all parameters come from Theorem 6.1 and its bound
    is claimed. The theorem promises something for huge tables or budgets only; elsewhere it is refused.

    Args:
        theorem: Take every parameter from Theorem 6.1. Only `certificate`, `public_seed` and, between "brute" and
            "syntheticizer", `generator` can then be chosen.
        generator: Who makes a synopsis of a sample. "entropy", the default for counts: the maximum-entropy histogram.
            "rows", the default for functions: synthetic rows by local search. "syntheticizer": a linear program
            (Theorem 6.7). "brute": the first of all possible tables that fits (Theorem 6.6). Or a function of your
            own, an `OwnGenerator`.
        history: Let "entropy" and "rows" fit all measurements so far, not those of their round alone.
        rounds: T, the number of synopses, 200 at most; by default 7, 3 without a history, up to 16 for rows.
        first: Questions that the first round measures; by default enough to see every pair of columns several times.
        draws: k, questions that each later round draws; by default a third of the first round's in all.
        selection: The share of the budget that draws cost; a quarter by default, 0.6 for rows.
        growth: By how much the rates grow from round to round, from 1 to 4; later synopses then count for more.
        aggregate: "weighted", the default: the median weighted by the rates. "median": all rates are equal.
        certificate: The share of the budget that buys the two certificates; 0 for none.
        evaluations: How long each fit of "entropy" may take, in evaluations of its objective.
        ridge: How strongly "entropy" shrinks what its noise hides.
        public_seed: Fixes the public choices: the first round's questions and the coins of searches.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> rows = {"smoker": [True, False] * 500, "ill": ([True] + [False] * 4) * 200, "old": [True] * 1000}
        >>> columns = {name: {"type": "boolean"} for name in rows}
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": columns})
        >>> table = cs.open_table(pa.table(rows), schema)
        >>> workload = cs.marginals(schema, 2)
        >>> release = cs.release(table, workload, epsilon=50, delta=1e-6, mechanism="boosting", rounds=2)
        >>> release.parameters["rounds"], round(release.ask("smoker AND ill").fraction, 1)
        (2, 0.1)
    """

    name: ClassVar[str] = "boosting"

    def plan(self, problem: Problem) -> BoostingPlan:
        return plan_boosting(self, problem)

    def claim(self, problem: Problem, plan: BoostingPlan) -> Claim:
        if plan.theorem is not None:
            return theorem_claim(self.name, problem, plan, plan.theorem)
        return practical_claim(self.name, problem, plan, ridge=self.ridge)

    def release(self, curator: Curator, problem: Problem, plan: BoostingPlan) -> Outcome:
        curator.count_ahead(plan.candidates.workload)
        total = find_total(curator, problem)
        generator = self._generator(problem, plan, total)
        ensemble, weights, answers = boost(curator, problem, plan, generator, total, public_seed=self.public_seed)
        if len(answers) != len(problem.workload):
            answers = ensemble.answer(problem.workload)
        bound = _certificates(curator, problem, plan, weights, answers, total) if plan.certificate else None
        parameters = self._parameters(plan)
        if isinstance(generator, OwnRounds):
            parameters["failures"] = list(generator.failures)
        return Outcome(synopsis=ensemble, answers=answers, total=total, certificate=bound, parameters=parameters)

    def _generator(self, problem: Problem, plan: BoostingPlan, total: Total) -> Generator:
        """The base synopsis generator of one run; it may remember what its rounds measured."""
        if callable(self.generator):
            return OwnRounds(problem, total, self.generator, rounds=plan.rounds)
        if plan.generator == "rows":
            return RowSearch(problem, total, anchor=plan.anchor, history=self.history, public_seed=self.public_seed)
        if plan.generator == "entropy":
            return MaximumEntropy(
                problem, total.divisor, history=self.history, evaluations=self.evaluations, ridge=self.ridge
            )
        if plan.generator == "syntheticizer":
            rows = None if plan.theorem is None else plan.theorem.rows
            return Syntheticizer(problem, total.divisor, rows=rows, public_seed=self.public_seed)
        rows = total.rows if problem.workload.denominator is None else problem.rows or 0
        return BruteForce(problem, rows, failure=FAILURE if plan.theorem is None else plan.theorem.failure)

    def _parameters(self, plan: BoostingPlan) -> dict[str, Any]:
        """What a report shows; λ and μ are called near and gap there, as in files that were written before."""
        sampling = plan.sampling
        return {
            "rounds": plan.rounds,
            "first": plan.first,
            "draws": list(sampling.draws),
            "generator": plan.generator,
            "aggregate": self.aggregate,
            "near": sampling.lam / ERROR_STEPS,
            "gap": sampling.mu / ERROR_STEPS,
            "rates": [rate / LOG_WEIGHT_STEPS for rate in sampling.rates],
            "needed_edge": needed_edge(len(plan.candidates), sampling.rates),
            "certificate": self.certificate,
        }


def _certificates(
    curator: Curator, problem: Problem, plan: BoostingPlan, weights: Reweighting, answers: Vector, total: Total
) -> Certificate:
    """The largest error and ln Z, bought together; where ln Z would prove nothing its price buys a better maximum."""
    share = plan.certificate * _POTENTIAL_SHARE
    law = potential_law(problem, weights, share)
    price = plan.certificate if law is None else plan.certificate - share
    bound = certify(curator, problem, answers=answers, total=total, price=price)
    return bound if law is None else replace(bound, potential=measure_potential(curator, weights, law))
