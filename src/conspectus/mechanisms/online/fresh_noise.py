"""Fresh noise for every new question: the session without a guess, and the best one for few questions.

The Laplace mechanism of the book (Theorem 3.6), and its Gaussian counterpart, put to work online: the budget is cut
into as many equal parts as questions are declared, and each part buys one answer.

    let σ be the noise at which one count costs 1/k of the budget      `OnlineLaplace.plan`
    for each query f_i, i = 1, …, k:
        output f_i(x) + noise(σ)                                        `FreshNoise.ask`

No question is compared with anything, so none is a surprise: all k are answered, each with the same interval, whoever
asks in whichever process. The noise grows with k (Laplace), or with √k (Gaussian), where that of the online loop grows
with its logarithm. So few questions are answered better like this, and many worse.

Privacy: composes the row total and one measurement a question, each with its own debit.
Accuracy: the exact tail of one noise; for all k together the union bound of Theorem 3.8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from conspectus.curator.acts import measurement
from conspectus.curator.curator import Curator
from conspectus.mechanisms.bounds import FAILURE, margin_around
from conspectus.mechanisms.mechanism import (
    Claim,
    ErrorBound,
    Refusal,
    expected_maximum,
    expected_size,
    maximum_bound,
    root_up,
)
from conspectus.mechanisms.online_mechanism import NoGuess, Reply, SessionProblem, State
from conspectus.mechanisms.sums_of_noise import half_width
from conspectus.mechanisms.total import find_total, left_after_total
from conspectus.mechanisms.typical.expectations import ONLINE_VARIES
from conspectus.privacy.events import Event, Noise
from conspectus.queries.workload import Workload
from conspectus.synopses.measured_sums import NoisySum
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import Total

from .learned import Learned, read_state

SPENT = (
    "the budget of this session is spent, and it holds no guess: ask again what was asked before, or open another "
    "session"
)


class FreshNoise:
    """The run: one measurement a question."""

    def __init__(self, curator: Curator, problem: SessionProblem, law: Noise, total: Total) -> None:
        curator.hold_in_memory()
        self.total = total
        self._curator = curator
        self._problem = problem
        self._learned = Learned(problem, total, law)

    @property
    def exhausted(self) -> bool:
        return len(self._learned) >= self._problem.questions

    def ask(self, query: Workload) -> Reply:
        return self.measure(query)

    def measure(self, query: Workload) -> Reply:
        noisy = float(self._curator.measure(query, self._learned.law_of(query))[0]) / query.grid
        self._learned.add(query, noisy)
        return Reply(count=noisy, basis="measured", margin=self._learned.margin_of(query))

    def acts_at_most(self, query: Workload, *, outright: bool = False, later: bool = False) -> tuple[Event, ...]:
        return (measurement(query, self._learned.law_of(query), relation=self._problem.relation),)

    def known(self, query: Workload) -> Reply | None:
        """What the measured answers add up to, where they do."""
        found = self._learned.answers().find(query.query(0))
        if not isinstance(found, NoisySum):
            return None
        return Reply(count=found.count, basis="measured", margin=margin_around(found))

    def guess(self, query: Workload) -> float:
        """There is none beyond what is known."""
        raise NoGuess(SPENT)

    def synopsis(self) -> NoisyAnswers:
        return self._learned.answers()

    def measured(self) -> None:
        """Nothing: the synopsis is what was measured."""

    def state(self) -> State:
        return self._learned.state(asked=len(self._learned), hits=0)

    def adopt(self, state: State) -> None:
        for query, count in self._learned.beyond(read_state(state, self._problem)):
            self._learned.add(query, count)


class _Fresh:
    """What both laws share."""

    name: ClassVar[str]
    citations: ClassVar[tuple[str, ...]]

    def settled(self, problem: SessionProblem, plan: Noise) -> Any:
        return self

    def claim(self, problem: SessionProblem, plan: Noise) -> Claim:
        questions = problem.questions
        bound = None
        if problem.rows and problem.total_is_public:
            worst = maximum_bound(plan, questions, FAILURE) / problem.rows
            bound = ErrorBound(value=worst, theorem=self.citations[0])
        return Claim(
            mechanism=self.name,
            expected_max=expected_maximum(plan, questions),
            expected_mean=expected_size(plan),
            bound=bound,
            memory=200 * questions,
            citations=self.citations,
            notes=(f"{plan.kind} noise of scale {plan.scale:.4g} counts on each of {questions:,} answers",),
            expected_width=half_width(plan),
            answered=1.0,
            expected_within=ONLINE_VARIES[self.name],
        )

    def open(self, curator: Curator, problem: SessionProblem, plan: Noise) -> FreshNoise:
        return FreshNoise(curator, problem, plan, find_total(curator, problem))

    def restore(self, curator: Curator, problem: SessionProblem, plan: Noise, state: State) -> FreshNoise:
        run = FreshNoise(curator, problem, plan, read_state(state, problem).total)
        run.adopt(state)
        return run

    def parameters(self, problem: SessionProblem, plan: Noise) -> dict[str, Any]:
        return {"noise": plan.kind, "scale": plan.scale}


@dataclass(frozen=True, kw_only=True)
class OnlineLaplace(_Fresh):
    """Fresh Laplace noise for every new question of a session. It has no settings.

    Choose it for few questions, or for questions that have nothing to do with each other. Every answer is measured, and
    all that were declared are answered. It holds no guess: what comes after them is refused.

    Example:
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True] * 400 + [False] * 600}), schema)
        >>> with cs.open_session(table, epsilon=1.0, questions=10, mechanism=cs.mechanisms.OnlineLaplace()) as session:
        ...     answer = session.ask("ill")
        >>> answer.basis, round(answer.cost, 6)
        ('measured', 0.1)
    """

    name: ClassVar[str] = "laplace"
    citations: ClassVar[tuple[str, ...]] = ("Dwork & Roth 2014, Theorem 3.8 (discrete tail)",)

    def plan(self, problem: SessionProblem) -> Noise:
        """The noise at which one answer costs its part of the budget."""
        price = left_after_total(problem) / problem.questions
        if problem.currency == "pure":
            return problem.law_of_one(problem.max_rows, price)
        return Noise("laplace", root_up(problem.max_rows**2 / (2 * price)))


@dataclass(frozen=True, kw_only=True)
class OnlineGaussian(_Fresh):
    """Fresh Gaussian noise for every new question of a session; needs a δ above 0, or a ρ. It has no settings.

    As `OnlineLaplace`, with noise that grows with the square root of the number of questions.

    Example:
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True] * 400 + [False] * 600}), schema)
        >>> with cs.open_session(table, rho=0.5, questions=10, mechanism=cs.mechanisms.OnlineGaussian()) as session:
        ...     answer = session.ask("ill")
        >>> answer.basis, round(answer.cost, 6)
        ('measured', 0.05)
    """

    name: ClassVar[str] = "gaussian"
    citations: ClassVar[tuple[str, ...]] = ("sub-Gaussian tail and union bound (Canonne, Kamath & Steinke 2020)",)

    def plan(self, problem: SessionProblem) -> Noise | Refusal:
        """The noise at which one answer costs its part of the budget."""
        if problem.budget.pure:
            reason = "Gaussian noise is never pure: allow a delta above 0, or use laplace"
            return Refusal(mechanism=self.name, reason=reason)
        return problem.law_of_one(problem.max_rows, left_after_total(problem) / problem.questions)
