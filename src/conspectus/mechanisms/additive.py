"""Noise on every answer: the baselines that every other mechanism has to beat, and the best for small workloads.

Privacy: composes a measurement of the whole workload with its joint sensitivity, and the row total: part of it, or an
act of its own.
Accuracy: Theorem 3.8 of the book with the exact tail of the discrete law, and the sub-Gaussian tail for Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from conspectus.curator.acts import measurement
from conspectus.curator.curator import Curator
from conspectus.privacy.accounting import calibrate_laplace, declared_fit, scale_up
from conspectus.privacy.events import Event, Noise, RowTotal
from conspectus.privacy.guarantee import Budget
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.builders.conjunctions import always
from conspectus.queries.workload import Workload
from conspectus.synopses.measured_sums import paid_total
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import Total

from .bounds import FAILURE
from .mechanism import (
    CannotServe,
    Claim,
    ErrorBound,
    Mechanism,
    Outcome,
    Problem,
    expected_maximum,
    expected_size,
    maximum_bound,
    root_up,
)
from .sharper_budgets import sharpened
from .sums_of_noise import half_width
from .total import SHARE, bought_total_law, in_units, take_total, total_act, with_total


@dataclass(frozen=True, kw_only=True)
class NoisePlan:
    """The noise on every answer, and where the total is private and bought by itself, the noise on it."""

    law: Noise
    total: Noise | None = None

    def asked(self, problem: Problem) -> Workload:
        """What is measured with the noise on answers."""
        return with_total(problem) if self.total is None else problem.workload.distinct()


def _claim(name: str, problem: Problem, plan: NoisePlan, citations: tuple[str, ...]) -> Claim:
    law = plan.law
    queries, grid = len(problem.workload), plan.asked(problem).grid
    bound = None
    # Where the total is noisy too, fractions carry its error as well: no bound is proved for them.
    if problem.denominator and (problem.total_is_public or problem.workload.denominator):
        worst = maximum_bound(law, queries, FAILURE) / grid / problem.denominator
        bound = ErrorBound(value=worst, theorem=citations[0])
    whole = bound is not None or problem.total_is_public or plan.total is not None
    kept, beside = (1.0, 0.0) if whole else _in_fractions(with_total(problem), law)
    return Claim(
        mechanism=name,
        expected_max=kept * expected_maximum(law, queries) / grid + beside / 2,
        expected_mean=kept * expected_size(law) / grid + beside / 4,
        bound=bound,
        memory=32 * queries,
        citations=citations,
        notes=(f"{law.kind} noise of scale {law.scale / grid:.4g} counts on each of {queries:,} answers",),
        expected_width=half_width(law) / grid + beside,
    )


def _in_fractions(measured: Workload, law: Noise) -> tuple[float, float]:
    """What dividing by a noisy total does: the part of an error that is left, and how far a total beside it is off.

    Cells of a marginal are divided by their own sum, which takes the noise of one cell of K away. Anything else is
    divided by a total that was measured beside it.
    """
    cells = [len(block) for block in measured.blocks if isinstance(block, Marginal)]
    return (
        (math.sqrt(1 - 1 / min(cells)), 0.0) if cells and min(cells) > 1 else (1.0, expected_size(law) / measured.grid)
    )


class _Additive(Mechanism[NoisePlan]):
    """Noise on the whole workload at once: what both kinds of noise do alike."""

    def declare(self, problem: Problem, plan: NoisePlan) -> Sequence[Event]:
        act = measurement(plan.asked(problem), plan.law, relation=problem.relation)
        if plan.total is not None:
            return total_act(problem, plan.total), act
        return (RowTotal(), act) if problem.total_is_public and not problem.workload.denominator else (act,)

    def release(self, curator: Curator, problem: Problem, plan: NoisePlan) -> Outcome:
        measured, law = plan.asked(problem), plan.law
        curator.count_ahead(measured)
        known = measured.denominator or (curator.rows() if curator.relation.total_is_public else None)
        total = None if plan.total is None else take_total(curator, problem, plan.total)
        noisy = curator.measure(measured, law) / measured.grid
        laws, grids = (law,) * len(measured.blocks), (measured.grid,) * len(measured.blocks)
        if total is not None and plan.total is not None:
            rows = always(measured.domain)
            measured, noisy = measured + rows, np.append(noisy, total.value)
            laws, grids = (*laws, plan.total), (*grids, rows.grid)
        elif known is None:
            total = paid_total(measured, noisy, law)
        else:
            total = Total(value=float(known), exact=True)
        synopsis = NoisyAnswers(problem.workload.domain, measured, noisy, laws, total, grids)
        parameters = {"noise": law.kind, "scale": law.scale / grids[0]}
        return Outcome(synopsis=synopsis, answers=synopsis.answer(problem.workload), total=total, parameters=parameters)


@dataclass(frozen=True, kw_only=True)
class Laplace(_Additive):
    """Discrete Laplace noise on every answer: pure, or with less noise where a δ is allowed. It has no settings.

    The noise is scaled to how far one person moves all the answers together. So it is the best for few questions, or
    for one marginal, and grows with the number of questions beyond that. Answers are the plain unbiased noisy
    fractions: they may be below 0, and need not add up.

    Example:
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True] * 400 + [False] * 600}), schema)
        >>> release = cs.release(table, cs.marginals(schema, 1), epsilon=2.0, mechanism=cs.mechanisms.Laplace())
        >>> release.parameters
        {'noise': 'laplace', 'scale': 1.0}
    """

    name: ClassVar[str] = "laplace"
    answers_of_a_table: ClassVar[bool] = False

    def plan(self, problem: Problem) -> NoisePlan:
        """The noise that the whole budget buys, on the whole workload at once."""
        together = NoisePlan(law=self._law(problem, with_total(problem), problem.budget))
        in_rho = problem.ledgered and not problem.budget.pure
        if problem.budget.epsilon is None or in_rho or not in_units(problem):
            return together
        apart = self._apart(problem, Fraction(problem.budget.epsilon))
        fits = declared_fit(self.declare(problem, apart), problem.budget, problem.neighbours)
        return apart if fits and apart.law.scale < together.law.scale else together

    def _law(self, problem: Problem, measured: Workload, budget: Budget) -> Noise:
        moved = problem.sensitivity(measured)
        if problem.ledgered and not budget.pure:
            return Noise("laplace", root_up(Fraction(max(moved.l2_squared, 1)) / (2 * problem.cap)))
        norms = (Fraction(moved.l1), Fraction(moved.l2_squared), Fraction(moved.linf))
        return Noise("laplace", scale_up(calibrate_laplace(*norms, budget)))

    def _apart(self, problem: Problem, epsilon: Fraction) -> NoisePlan:
        """The total for `SHARE` of ε and the answers for the rest, both pure: their ε add up."""
        rows = problem.sensitivity(always(problem.workload.domain))
        total = Noise("laplace", scale_up(Fraction(max(rows.l1, 1)) / (epsilon * SHARE)))
        # A hair less than what is left, for the last digits that were rounded.
        rest = Budget(epsilon=float(epsilon * (1 - SHARE)) * (1 - 1e-12))
        return NoisePlan(law=self._law(problem, problem.workload.distinct(), rest), total=total)

    def claim(self, problem: Problem, plan: NoisePlan) -> Claim:
        cites: tuple[str, ...] = ("Dwork & Roth 2014, Theorem 3.8 (discrete tail)", "Dwork & Roth 2014, Theorem 3.6")
        if not problem.budget.pure:
            cites += ("Kairouz, Oh & Viswanath 2015 (optimal composition)", "Bun & Steinke 2016 (zCDP)")
        return _claim(self.name, problem, plan, cites)


@dataclass(frozen=True, kw_only=True)
class Gaussian(_Additive):
    """Discrete Gaussian noise on every answer; needs a δ above 0, or a ρ. It has no settings.

    The noise grows with the square root of the number of questions, where that of `Laplace` grows with the number. It
    is never pure: a budget without δ is refused. Answers are the plain unbiased noisy fractions.

    Example:
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True] * 400 + [False] * 600}), schema)
        >>> release = cs.release(table, cs.marginals(schema, 1), rho=0.25, mechanism=cs.mechanisms.Gaussian())
        >>> release.parameters
        {'noise': 'gaussian', 'scale': 2.0}
    """

    name: ClassVar[str] = "gaussian"
    answers_of_a_table: ClassVar[bool] = False

    def plan(self, problem: Problem) -> NoisePlan:
        """The noise that the whole budget buys, on the whole workload at once."""
        if problem.budget.pure:
            raise CannotServe("Gaussian noise is never pure: allow a delta above 0, or use laplace")
        total = bought_total_law(problem) if in_units(problem) else None
        measured = NoisePlan(law=Noise("gaussian", 1.0), total=total).asked(problem)
        l2_squared = Fraction(max(problem.sensitivity(measured).l2_squared, 1))
        paid = Fraction(0) if total is None else problem.cap * SHARE

        def planned(wider: Problem) -> NoisePlan:
            return NoisePlan(law=Noise("gaussian", root_up(l2_squared / (2 * (wider.cap - paid)))), total=total)

        return planned(sharpened(problem, lambda wider: self.declare(problem, planned(wider))))

    def claim(self, problem: Problem, plan: NoisePlan) -> Claim:
        cites = (
            "sub-Gaussian tail and union bound (Canonne, Kamath & Steinke 2020)",
            "Bun & Steinke 2016 (zCDP); Canonne, Kamath & Steinke 2020, Proposition 12 (tight conversion)",
            "Dong, Roth & Su 2022 (Gaussian noise alone, composed exactly)",
        )
        return _claim(self.name, problem, plan, cites)
