"""OnlineMW, private multiplicative weights: the online loop with a histogram over all cells as its guess.

The book's Algorithm 6, OnlineMW via NumericSparse (x, {f_i}, ε, δ, α, β). It is OnlineIC (`loop.py`) with U = MW:

    let c = 4 ln|X|/α², and T = 2α for the α that the noise allows    `theorem.theorem_plan`; c = ln|X|/2α² here
    start NumericSparse(x, {f'_i}, T, c, ε, δ), which says E_i        `sparse_vector.NumericSparse`
    let t = 0, and x⁰_i = 1/|X| for all cells i                       `Pmw.start`
    for each query f_i:                                               `loop.OnlineConstruction.ask`
        let f'_{2i−1} = f_i(·) − f_i(xᵗ), f'_{2i} = f_i(xᵗ) − f_i(·)
        if E_{2i−1} = ⊥ and E_{2i} = ⊥: a_i = f_i(xᵗ)                 `DenseGuess.of`
        else: a_i = f_i(xᵗ) + E_{2i−1}, or f_i(xᵗ) − E_{2i}
              xᵗ⁺¹ = MW(xᵗ, f_i, a_i), t ← t + 1                      `DenseGuess.learn`

Its Algorithm 5, MW(xᵗ, f_t, v_t) with η = α/2 (here 4α, which needs an eighth of the updates):

    let r_t = f_t if v_t < f_t(xᵗ), else 1 − f_t
    x̂_i = exp(−η·r_t[i])·xᵗ_i, then xᵗ⁺¹_i = x̂_i / Σ_j x̂_j           `iterative.MultiplicativeWeights.update`

    book   here                                         book   here
    xᵗ     `DenseGuess`, as fractions                   |X|    `SessionProblem.cells`
    η      `MultiplicativeWeights.rate`                 v_t    the measured count, as a fraction

With `theorem` it is that algorithm. Free parameters change two things. A step is as long as it takes to meet the
measured answer (`FullStep`). And unless `priming` is 0, a share of the budget first buys all marginals of a low order
(`priming.py`): the session starts from the maximum-entropy histogram that agrees with them, and each measured surprise
refits it to everything measured so far.

Privacy: composes the row total, one measurement of the priming marginals, and the loop; the rest post-processes.
Accuracy: with `theorem` every answer is within 3α (`theorem.py`). The refit has no such count of updates; its answers
are as good as the loop's margins say, as long as there are hits left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from conspectus.counting.single_query import SingleQueryCounts
from conspectus.curator.curator import Curator
from conspectus.mechanisms.iterative import (
    MultiplicativeWeights,
    Refit,
    Step,
    book_updates,
    multiplicative_rate,
    multiplicative_updates,
)
from conspectus.mechanisms.online_mechanism import HandOver, SessionProblem, State
from conspectus.mechanisms.settings import SHARE, check_settings, is_share
from conspectus.mechanisms.total import left_after_total
from conspectus.privacy.events import Noise
from conspectus.queries.workload import Workload
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.synopsis import Total
from conspectus.whole_numbers import MOST

from . import claim, theorem
from .loop import OnlineConstruction, on_cells
from .mechanism import OnlineIC
from .parameters import OnlinePlan
from .priming import Priming, plan_priming, possible_orders, priming_of

PRIMING = Fraction(1, 2)
"""The share of the budget that buys marginals first where nobody knows the number of rows."""
SHARES = tuple(Fraction(part, 8) for part in range(1, 8))
"""The shares of the budget among which a plan chooses."""
EVALUATIONS, RIDGE = 200, 1.0
"""Of each refit: how often its objective is evaluated at most, and how strong its ridge is."""


class FullStep(MultiplicativeWeights):
    """The same step, as long as it takes to meet the measured answer: η = logit(answer) − logit(guess).

    A fixed η proves the number of updates and wastes most of them. Answers are kept a noise away from 0 and 1.
    """

    def update(self, step: Step, total: float) -> None:
        near = min(step.law.scale / total, 0.25)
        answer, guess = (np.clip(counts / total, near, 1 - near) for counts in (step.noisy, step.guessed))
        self.rate = float(abs(np.log(answer / (1 - answer)) - np.log(guess / (1 - guess)))[0])
        super().update(step, total)


class DenseGuess:
    """A histogram over all columns, stepped or refitted, that answers single queries from marginals it keeps."""

    def __init__(
        self, rule: MultiplicativeWeights | Refit, problem: SessionProblem, total: Total, *, known: int = 0
    ) -> None:
        self._domain = problem.workload.domain
        self._rule = rule
        self._total = total
        self._cells = SingleQueryCounts(self._domain, rule.weights)
        self._known = known
        self._hand_over: HandOver | None = None

    def refit_aside(self, hand_over: HandOver) -> None:
        """Only a refit is handed over: the theorems count steps, each from the guess that was a surprise."""
        if isinstance(self._rule, Refit):
            self._hand_over = hand_over

    def of(self, query: Workload) -> float:
        return min(max(float(self._cells.of(on_cells(query))), 0.0), 1.0)

    def learn(self, query: Workload, noisy: float, law: Noise) -> None:
        guessed = np.array([self.of(query) * self._total.divisor])
        step = Step(query, np.array([noisy]), guessed, law)
        if self._hand_over is not None and isinstance(self._rule, Refit):
            self._rule.take_in(step, self._total.divisor)
            self._hand_over(query.columns, self._known, self._refit)
            return
        self._rule.update(step, self._total.divisor)
        self._cells = SingleQueryCounts(self._domain, self._rule.weights)

    def learn_together(self, answers: Sequence[tuple[Workload, float]], law: Noise) -> None:
        """One refit to all of them, where there is a refit: it ends where one after each of them would have ended.

        A session that goes on after a hundred surprises would otherwise begin with a hundred refits.
        """
        if self._hand_over is not None or not isinstance(self._rule, Refit):
            for query, noisy in answers:
                self.learn(query, noisy, law)
        elif answers:
            for query, noisy in answers:
                self._rule.take_in(Step(query, np.array([noisy]), np.array([noisy]), law), self._total.divisor)
            self._refit(min(len(answers), 5))

    def _refit(self, times: int = 1) -> None:
        """Fit everything that was taken in; questions are answered by the former table until the new one is whole.

        It may take as long as so many fits.
        """
        assert isinstance(self._rule, Refit)
        self._rule.solve(self._total.divisor, times * self._rule.evaluations)
        self._cells = SingleQueryCounts(self._domain, self._rule.weights)

    def synopsis(self) -> Histogram:
        return Histogram(self._domain, self._rule.weights, self._total)


@dataclass(frozen=True, kw_only=True)
class Pmw(OnlineIC):
    """Private multiplicative weights, for sessions on tables of up to 2²⁴ cells.

    It keeps a histogram over all columns, and so answers any predicate. Primed, as it is unless told otherwise, it
    knows every low marginal before the first question, and few questions surprise it.

    Args:
        priming: The share of the budget that buys marginals first, from 0 to below 1. With 0 it is the book's
            algorithm, with steps that meet the measured answers. Unless given, a share and an order with which the
            narrowest intervals are to be expected.
        order: The number of columns of these marginals. With a share alone, the highest of 3, 2 and 1 that is not too
            noisy.
        hits: How many surprises are paid for.
        threshold: A guess that is wrong by more than this fraction of the rows is a surprise.
        measuring: The share of a hit's price that buys its measured answer, between 0 and 1. The rest finds the hit.
        theorem: Take everything from the book's Theorems 4.13 to 4.15, without priming. Needs a public number of rows.

    Example:
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True] * 400 + [False] * 600}), schema)
        >>> with cs.open_session(table, epsilon=5.0, mechanism=cs.mechanisms.Pmw(priming=0.25)) as session:
        ...     answer = session.ask("ill")
        >>> answer.basis, abs(answer.fraction - 0.4) < 0.1
        ('measured', True)
    """

    priming: float | None = None
    order: int | None = None

    name: ClassVar[str] = "pmw"
    citations: ClassVar[tuple[str, ...]] = (*theorem.CITES, "Hardt & Rothblum 2010")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(
            (
                (not self.priming or is_share(self.priming)) and (self.order is None or 1 <= self.order <= MOST),
                f"priming is 0 or {SHARE}, and order between 1 and {MOST:,}",
            ),
            (not (self.theorem and self.priming), "the theorem knows no priming: leave one of them out"),
        )

    def memory(self, problem: SessionProblem) -> int:
        return 8 * 14 * problem.cells

    def updates(self, problem: SessionProblem, alpha: float) -> float:
        return multiplicative_updates(alpha, problem.cells)

    def printed_updates(self, problem: SessionProblem, alpha: float) -> float:
        return book_updates(alpha, problem.cells)

    def typical(self, problem: SessionProblem, rows: float, priming: Priming | None) -> claim.Typical:
        if priming is None:
            return claim.multiplicative(problem, rows, self.hits)
        return claim.primed(priming.expected(rows), problem.questions)

    def primings(self, problem: SessionProblem, left: Fraction, rows: float) -> Iterator[Priming | None]:
        given = PRIMING if self.priming is None and not problem.rows else self.priming
        if given == 0:
            yield None
        elif given is not None:
            yield plan_priming(problem, left * Fraction(given), order=self.order, rows=rows)
        else:
            for order in possible_orders(problem, self.order):
                yield from (priming_of(problem, left * share, order) for share in SHARES)

    def settled(self, problem: SessionProblem, plan: OnlinePlan) -> Self:
        """With the share and, where the number of rows was known, the order: a state holds these marginals."""
        priming = plan.priming
        if priming is None:
            return self
        left = left_after_total(problem)
        return replace(self, priming=float(priming.price / left), order=priming.order if problem.rows else self.order)

    def start(self, problem: SessionProblem, total: Total, alpha: float | None) -> DenseGuess:
        domain, held = problem.workload.domain, problem.held
        if alpha is None:
            return DenseGuess(FullStep(domain, held), problem, total)
        return DenseGuess(MultiplicativeWeights(domain, held, multiplicative_rate(alpha)), problem, total)

    def begin(
        self, curator: Curator, problem: SessionProblem, plan: OnlinePlan, total: Total, state: State | None
    ) -> OnlineConstruction:
        priming = plan.priming
        if priming is None:
            return super().begin(curator, problem, plan, total, state)
        primed = priming.buy(curator, total) if state is None else priming.stored(state, total)
        rule = Refit(problem.workload.domain, problem.held, evaluations=EVALUATIONS, ridge=RIDGE)
        rule.update(Step(priming.workload, primed.counts, primed.counts, priming.law), total.divisor)
        guess = DenseGuess(rule, problem, total, known=priming.order)
        return OnlineConstruction(curator, problem, plan=plan.sparse, guess=guess, total=total, primed=primed)

    def parameters(self, problem: SessionProblem, plan: OnlinePlan) -> dict[str, Any]:
        share = 0.0 if plan.priming is None else float(plan.priming.price / left_after_total(problem))
        return {"priming": share, **super().parameters(problem, plan)}
