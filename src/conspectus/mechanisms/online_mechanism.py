"""The online role: an `OnlineMechanism` opens an `OnlineRun`, which answers questions one at a time.

A run spends on the surprising questions alone. A session owns the run. It keeps every answer, so that no question is
put to the run twice, and calls it under a lock, so that the run never has two questions at once. What the run lets out
through `state` is public: guess, measurements and counters. A noisy threshold is a secret of the process that drew it,
and stands in no state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import pyarrow as pa

from conspectus.curator.curator import Curator
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.events import Event, ScaleError
from conspectus.queries.workload import Workload
from conspectus.synopses.estimate import Basis
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import Synopsis, Total

from .bounds import Margin
from .mechanism import Claim, NoMechanism, Planned, Problem, Refusal

State = tuple[dict[str, Any], dict[str, pa.Table]]
"""What a run has learned: JSON values and Arrow tables. Public, and enough to go on from."""


HandOver = Callable[[tuple[int, ...], int, Callable[[], None]], None]
"""Takes over the work of learning from a question that was measured, to be done by another thread.

It is told the columns of the question, how many columns at a time were known before (all tables of so many were bought
in advance, and the work leaves them as they are), and the work.
"""


@runtime_checkable
class RefitsAside(Protocol):
    """A run, or the guess of one, that can leave its refit to another thread."""

    def refit_aside(self, hand_over: HandOver) -> None:
        """Hand the refit over from now on, instead of doing it while a question is answered.

        Until it is done the guess is the one before. See `session.proof.md`, refit_aside, for why it may be.
        """


class BadState(ValueError):
    """A stored state that does not belong to the mechanism that should go on from it."""


class NoGuess(BudgetExceeded):
    """A question that the budget cannot answer any more, put to a mechanism that holds no guess."""


@dataclass(frozen=True, kw_only=True)
class SessionProblem(Problem):
    """The public facts of a session: a Problem whose workload is empty, since nobody knows what will be asked.

    Attributes:
        questions: How many different questions are prepared for.
        concentrated: Whether the acts of a session with a pure budget are debited in a ledger that counts ρ. Each must
            then have a price there too.
    """

    questions: int
    concentrated: bool = False

    @property
    def held(self) -> tuple[int, ...]:
        """All columns of the table: any of them may be asked about."""
        return tuple(range(len(self.workload.domain)))


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a run says to one question: a count, what it rests on, and its margin; None where no bound is honest."""

    count: float
    basis: Basis
    margin: Margin | None

    def __post_init__(self) -> None:
        if (self.margin is None) != (self.basis == "unguaranteed"):
            raise ValueError("an answer has a margin unless it is unguaranteed")


class OnlineRun(Protocol):
    """An online mechanism at work on one table.

    Every watch is opened by the first question that needs it, and through the curator, which debits it before its
    threshold is drawn: at the start, after a hit, and once in every process that goes on from a state.
    """

    @property
    def total(self) -> Total:
        """The number of rows that fractions are of."""

    @property
    def exhausted(self) -> bool:
        """Whether the next question that needs the table will be answered from the guess alone, unguaranteed."""

    def ask(self, query: Workload) -> Reply:
        """Answer a workload of one query, unguaranteed when it is exhausted.

        An act that the curator refuses (`BudgetExceeded`) was not done: the run is then exhausted for good.
        """

    def measure(self, query: Workload) -> Reply:
        """Buy the answer to a workload of one query outright, with the noise of the plan, and learn from it.

        Where earlier measurements decide the query, the answer is what they and the new one say together. Nothing is
        bought where the laws of the noises say that this would be no narrower than what is known.

        An act that the curator refuses (`BudgetExceeded`) was not done, and the run is as it was.
        """
        ...

    def known(self, query: Workload) -> Reply | None:
        """What earlier measurements say of a query by themselves, with their noise, and nothing spent; else None."""

    def guess(self, query: Workload) -> float:
        """The count that the guess gives, and nothing spent; `NoGuess` where there is none."""

    def acts_at_most(self, query: Workload, *, outright: bool = False, later: bool = False) -> tuple[Event, ...]:
        """The acts that `ask`, or `measure` where it is bought outright, may do at most for one query.

        Public facts decide: nothing is spent, and the table is not looked at. With `later` other questions come first,
        and may have surprised. What the budget does not pay for is among them, too.
        """
        ...

    def state(self) -> State:
        """What was learned so far. It changes only in a question that debited an act."""

    def adopt(self, state: State) -> None:
        """Go on from what another process learned since, with the watch that this process holds; `BadState` if not."""

    def synopsis(self) -> Synopsis: ...

    def measured(self) -> NoisyAnswers | None:
        """The noisy answers that were bought, where they can be published beside the synopsis."""


class OnlineMechanism(Protocol[Planned]):
    """The online role. Settings are the fields of a frozen dataclass, checked when it is made.

    What public facts decide is decided once, by `plan`; the claim describes that plan and the session carries it out.
    """

    name: ClassVar[str]

    def plan(self, problem: SessionProblem) -> Planned | Refusal:
        """Everything about the session that public facts decide, or why this mechanism cannot serve them."""

    def claim(self, problem: SessionProblem, plan: Planned) -> Claim:
        """What to expect of the session that was planned."""

    def open(self, curator: Curator, problem: SessionProblem, plan: Planned) -> OnlineRun:
        """Begin: buy what is bought in advance (the total, priming) and make the first guess."""

    def restore(self, curator: Curator, problem: SessionProblem, plan: Planned, state: State) -> OnlineRun:
        """Go on from a stored state in a new process: nothing is bought again; `BadState` if it is not one."""

    def settled(self, problem: SessionProblem, plan: Planned) -> OnlineMechanism[Planned]:
        """The same with every choice that the plan made and a state depends on: what a session's file holds."""
        ...

    def parameters(self, problem: SessionProblem, plan: Planned) -> dict[str, Any]:
        """What a report says about how it was run: JSON values, from public facts alone."""


@dataclass(frozen=True, kw_only=True)
class OnlineProposal:
    """An online mechanism that can serve a session, with its plan and what it claims of it."""

    mechanism: OnlineMechanism[Any]
    problem: SessionProblem
    plan: Any
    claim: Claim

    def open(self, curator: Curator) -> OnlineRun:
        """Begin."""
        return self.mechanism.open(curator, self.problem, self.plan)

    def restore(self, curator: Curator, state: State) -> OnlineRun:
        """Go on from a stored state."""
        return self.mechanism.restore(curator, self.problem, self.plan, state)

    def parameters(self) -> dict[str, Any]:
        """What a report says about how it was run."""
        return self.mechanism.parameters(self.problem, self.plan)


def plan_online(mechanism: OnlineMechanism[Any], problem: SessionProblem) -> Any | Refusal:
    """The plan of a mechanism, or why it has none: noise that cannot be drawn is a reason, too."""
    try:
        return mechanism.plan(problem)
    except ScaleError as why:
        return Refusal(mechanism=mechanism.name, reason=str(why))


def propose_online(mechanism: OnlineMechanism[Any], problem: SessionProblem, plan: Any | None = None) -> OnlineProposal:
    """Plan once, unless it was, and say what to expect.

    Raises:
        NoMechanism: the mechanism refuses the problem; the message says why.
    """
    plan = plan_online(mechanism, problem) if plan is None else plan
    if isinstance(plan, Refusal):
        raise NoMechanism(f"{mechanism.name} cannot serve this: {plan.reason}")
    settled, claim = mechanism.settled(problem, plan), mechanism.claim(problem, plan)
    claim = dataclasses.replace(claim, notes=(*claim.notes, *problem.assumed))
    return OnlineProposal(mechanism=settled, problem=problem, plan=plan, claim=claim)
