"""A session on a table of any number of cells: the online loop with a mixture of products as its guess.

OnlineIC, the book's Algorithm 11 (`online/loop.py`), with another guess. A share of the budget first buys what
`adaptive` buys of columns, pairs and triples, and the mixture that is fitted to it is D⁰. Every question is then
watched, as in private multiplicative weights; a surprise is measured, and the mixture takes it in by a few more steps
of its fit (`mixture_guess`).

Privacy: composes the row total, the acts of `adaptive` and the loop; guess and fit post-process what these let out.
Accuracy: a guess that no watch objected to is within the loop's margin. No number of updates is proved to suffice, so
a session may run out of hits; from then on its answers are unguaranteed, and say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar

from conspectus.curator.curator import Curator
from conspectus.data.records.field import P
from conspectus.mechanisms.adaptive.mechanism import Adaptive
from conspectus.mechanisms.adaptive.parameters import refuse_columns
from conspectus.mechanisms.mechanism import CannotServe, Claim, Problem
from conspectus.mechanisms.online.claim import Typical
from conspectus.mechanisms.online.loop import OnlineConstruction
from conspectus.mechanisms.online.mechanism import OnlineIC
from conspectus.mechanisms.online.parameters import OnlinePlan
from conspectus.mechanisms.online.priming import Priming
from conspectus.mechanisms.online.theorem import CITES
from conspectus.mechanisms.online.widths import typical_shares
from conspectus.mechanisms.online_mechanism import SessionProblem, State
from conspectus.mechanisms.settings import SHARE, check_settings, is_share
from conspectus.mechanisms.total import left_after_total
from conspectus.mechanisms.typical.expectations import ONLINE_MIXTURE_HITS, ONLINE_MIXTURE_MEAN
from conspectus.privacy.guarantee import Budget
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.synopses.product_mixture import ProductMixture
from conspectus.synopses.synopsis import Total

from .mixture_guess import MixtureGuess, stored_mixture, with_mixture

PRIMING = 0.5
MOST_TRIPLES = 3000
"""Up to so many triples of columns, all of them are asked of `adaptive`; from more columns it learns pairs."""


@dataclass(frozen=True, kw_only=True)
class LiveMixture(OnlineIC):
    """Sessions on tables of 5 to 400 columns, however many cells they have together; needs a δ above 0, or a ρ.

    It begins with a mixture of products that is fitted to columns, pairs and triples, bought with a share of the
    budget. It answers any predicate from that, watches how wrong it is, and learns from each surprise.

    Args:
        priming: The share of the budget that is spent before the first question, above 0 and below 1.
        components: How many products the mixture has; as `adaptive` chooses unless given.
        hits: How many surprises are paid for.
        threshold: A guess that is wrong by more than this fraction of the rows is a surprise.
        measuring: The share of a hit's price that buys its measured answer, between 0 and 1. The rest finds the hit.
        theorem: Always False: no theorem says how often a mixture can be surprised.

    Example:
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> columns = {"ill": {"type": "boolean"}, "smoker": {"type": "boolean"}}
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": columns})
        >>> table = cs.open_table(pa.table({"ill": [True, False] * 5000, "smoker": [True, False] * 5000}), schema)
        >>> live = cs.mechanisms.LiveMixture(components=50)
        >>> with cs.open_session(table, epsilon=5.0, delta=1e-6, questions=100, mechanism=live) as session:
        ...     answer = session.ask("ill AND smoker")
        >>> abs(answer.fraction - 0.5) < 0.1
        True
    """

    priming: float = PRIMING
    components: int | None = None

    name: ClassVar[str] = "live-mixture"
    citations: ClassVar[tuple[str, ...]] = CITES

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(
            (is_share(self.priming), f"priming {SHARE}"),
            (not self.theorem, "there is no theorem for a mixture: leave theorem out"),
        )
        _adaptive(self)  # refuses components that it cannot have

    def refuses(self, problem: SessionProblem) -> str | None:
        if problem.currency == "pure":
            return "it buys its first guess with Gaussian noise: allow a delta above 0, or use pmw or laplace"
        if problem.workload.domain.sizes == (P,):
            return "it learns how columns hang together, and records of any kind have none: use sparse-mw"
        try:
            refuse_columns(len(problem.workload.domain))  # before all their pairs are written down
            _adaptive(self).plan(self._first(problem))
        except (CannotServe, WorkloadError) as unfit:
            return str(unfit)
        return None

    def memory(self, problem: SessionProblem) -> int:
        return self._expected(problem, problem.planned_rows).memory

    def updates(self, problem: SessionProblem, alpha: float) -> float:
        return float("inf")

    def typical(self, problem: SessionProblem, rows: float, priming: Priming | None) -> Typical:
        return Typical(ONLINE_MIXTURE_HITS, self._expected(problem, rows).expected_max)

    def start(self, problem: SessionProblem, total: Total, alpha: float | None) -> MixtureGuess:
        raise NotImplementedError("a mixture begins with what was bought for it: see begin")

    def _first(self, problem: SessionProblem, rows: int | None = None) -> Problem:
        """What is released before the first question: all pairs and triples, for a share of the budget."""
        domain = problem.workload.domain
        many = len(domain)
        order = 3 if many * (many - 1) * (many - 2) // 6 <= MOST_TRIPLES else 2
        sets = combinations(range(many), min(order, many))
        return Problem(
            workload=Workload(domain, tuple(Marginal(domain, columns) for columns in sets)),
            budget=Budget(rho=float(left_after_total(problem) * Fraction(self.priming))),
            relation=problem.relation,
            rows=problem.rows if rows is None else rows,
            ledgered=problem.ledgered,
            in_order=problem.in_order,
        )

    def _expected(self, problem: SessionProblem, rows: float | None) -> Claim:
        """What to expect of the first guess."""
        first = self._first(problem, None if rows is None else max(round(rows), 1))
        return _adaptive(self).claim(first, _adaptive(self).plan(first))

    def _plan_for(self, problem: SessionProblem, rows: float) -> OnlinePlan:
        left = left_after_total(problem) - Fraction(self._first(problem).budget.rho or 0.0)
        return self._plan_with(problem, left, rows, None)

    def expected(self, problem: SessionProblem, plan: OnlinePlan) -> tuple[float, float]:
        shares = typical_shares(problem.workload.domain)
        largest = self._expected(problem, plan.rows).expected_max
        return largest, ONLINE_MIXTURE_MEAN * largest * sum(map(math.sqrt, shares)) / len(shares)

    def claim(self, problem: SessionProblem, plan: OnlinePlan) -> Claim:
        note = f"{self.priming:.0%} of the budget is spent before the first question, on columns, pairs and triples"
        claim = super().claim(problem, plan)
        return replace(claim, notes=(*claim.notes, note))

    def begin(
        self, curator: Curator, problem: SessionProblem, plan: OnlinePlan, total: Total, state: State | None
    ) -> MixtureRun:
        domain = problem.workload.domain
        if state is None:
            mechanism, first = _adaptive(self), self._first(problem)
            outcome = mechanism.release(curator, first, mechanism.plan(first))
            assert isinstance(outcome.synopsis, ProductMixture)
            mixture = replace(outcome.synopsis, total=total)
        else:
            mixture = replace(stored_mixture(state, domain), total=total)
        return MixtureRun(curator, problem, plan=plan.sparse, guess=MixtureGuess(mixture, total), total=total)

    def parameters(self, problem: SessionProblem, plan: OnlinePlan) -> dict[str, Any]:
        own: Mapping[str, Any] = {"priming": self.priming, "components": self.components}
        return {**own, **super().parameters(problem, plan)}


class MixtureRun(OnlineConstruction):
    """The online loop, with a state that holds the first guess: what was bought for it is not kept one by one."""

    _guess: MixtureGuess

    def state(self) -> State:
        return with_mixture(super().state(), self._guess.first)


def _adaptive(settings: LiveMixture) -> Adaptive:
    return Adaptive(components=settings.components, intervals=False)
