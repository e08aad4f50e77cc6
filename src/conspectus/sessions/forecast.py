"""What to expect of a session before it is opened: claims of the online mechanisms, and the choice among them.

Public facts alone decide: no row is read, and nothing is spent.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conspectus.curator.acts import relation_of
from conspectus.data.records.field import P
from conspectus.data.schema import Schema
from conspectus.mechanisms.choosing import make_online
from conspectus.mechanisms.mechanism import MAX_CELLS, Claim, ProblemError, Refusal
from conspectus.mechanisms.online_mechanism import (
    OnlineMechanism,
    OnlineProposal,
    SessionProblem,
    plan_online,
    propose_online,
)
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.relation import Relation
from conspectus.queries.builders.arguments import told
from conspectus.queries.workload import Workload
from conspectus.releases.planning import Plan, check_rows, format_error, neighbours_of, nobody_serves
from conspectus.whole_numbers import MOST, whole

AUTO = "auto"
FACTS = ("epsilon", "delta", "rho", "mechanism", "questions", "neighbours", "rows")
FEWER = (10_000, 5_000, 2_000, 1_000, 500, 200, 100, 50, 20, 10)
WIDE, WIDER = "live-mixture", 2
"""On tables too wide for a histogram this mechanism is taken, unless its intervals are more than so many times as wide
as others."""
USEFUL = 0.05
"""An interval is useful if its ends are no farther from the answer than this share of the rows."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SessionPlan(Plan):
    """What mechanisms say about a session before anything is spent. Made by `cs.plan_session`.

    Attributes:
        problem: The public facts that were planned for, with the number of questions.
        claims: What each mechanism that can serve the session claims; the one that a session takes comes first, which
            has the narrowest expected interval, or on wide tables one that is up to twice as wide.
        refusals: Why the others cannot serve it.
    """

    problem: SessionProblem

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values, as that of a release, with the number of questions."""
        said = super().to_json()
        for claim in said["claims"]:
            for name in ("synthetic_rows", "seconds", "file_bytes"):  # what a session is asked decides them
                del claim[name]
        del said["queries"]
        return {**said, "questions": self.problem.questions}


def plan_session(
    schema: Schema,
    *,
    rows: int,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    mechanism: str | OnlineMechanism[Any] = AUTO,
    questions: int | None = None,
    neighbours: str | None = None,
    **settings: Any,
) -> SessionPlan:
    """Compare online mechanisms before a session is opened: how wide its intervals will be, and how sure its answers.

    No row is read and nothing is spent: all that is used is public.

    Args:
        schema: The schema of the table.
        rows: The number of rows to plan for.
        epsilon: The privacy loss ε of the whole session. Give this or `rho`.
        delta: The failure probability δ; 0 is a pure guarantee.
        rho: The concentrated privacy loss ρ, in place of ε; a `delta` then says at which δ it is shown as an ε.
        mechanism: "auto" for those that a session chooses among, a name, or an object of `cs.mechanisms`.
        questions: How many different questions to prepare for; None for as many as `cs.open_session` would.
        neighbours: "replace" or "add-remove": what one person may change. None means the schema's, else "replace".
        **settings: Settings of the mechanism named.

    Returns:
        A `SessionPlan`: `.claims`, the one that a session takes first, `.refusals`, and `.best`. A claim's
        `expected_width` is in counts; `answered` is at least how likely all questions are answered with a guarantee.

    Raises:
        BudgetError: the budget is none.
        ProblemError: `questions` or `rows` is not a positive number.
        NoMechanism: there is no such mechanism. One that refuses is no error here, and stands in `.refusals`.
        SettingError: the mechanism has no such setting, or the value is out of range.

    Example:
        >>> import conspectus as cs
        >>> columns = {name: {"type": "boolean"} for name in "abcdefgh"}
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": columns})
        >>> few = cs.plan_session(schema, rows=20_000, epsilon=1.0, questions=20)
        >>> few.best.mechanism, few.best.expected_width, few.best.answered
        ('laplace', 60.0, 1.0)
        >>> cs.plan_session(schema, rows=20_000, epsilon=1.0, questions=100_000).best.mechanism
        'pmw'
    """
    check_rows(rows)
    chosen = asked_for(mechanism, settings, keywords=FACTS)
    relation = relation_of(schema, neighbours_of(neighbours, schema), filtered=False)
    problem = problem_for(
        schema, Budget(epsilon=epsilon, delta=delta, rho=rho), relation=relation, rows=rows, questions=1
    )
    problem = prepared(problem, chosen, questions)
    proposals, refusals = ranked(problem, chosen)
    return SessionPlan(problem=problem, claims=tuple(item.claim for item in proposals), refusals=tuple(refusals))


def problem_for(
    schema: Schema, budget: Budget, *, relation: Relation, rows: int | None, questions: int
) -> SessionProblem:
    """The public facts of a session."""
    return SessionProblem(
        workload=Workload(schema.domain, ()),
        budget=budget,
        relation=relation,
        rows=rows,
        in_order=tuple(column.regular if column.ordered else 0 for column in schema.columns),
        ledgered=True,
        questions=questions,
    )


def asked_for(
    mechanism: str | OnlineMechanism[Any], settings: Mapping[str, Any], *, keywords: tuple[str, ...]
) -> OnlineMechanism[Any] | None:
    """The mechanism that was asked for; None where the plan chooses. Settings without a name are those of `pmw`."""
    if mechanism == AUTO and not settings:
        return None
    return make_online("pmw" if mechanism == AUTO else mechanism, settings, also=keywords)


def prepared(problem: SessionProblem, chosen: OnlineMechanism[Any] | None, questions: int | None) -> SessionProblem:
    """The problem for so many questions.

    Unless told, 10,000; where the plan chooses the mechanism, too, the most of a list with which intervals are still
    useful. On a small table, or with a small budget, thousands of questions would leave no answer that says anything.
    """
    if questions is not None:
        if not whole(questions):
            raise ProblemError(
                f"questions, the number of questions, is a positive integer, at most {MOST:,}, not {told(questions)}"
            )
        return dataclasses.replace(problem, questions=questions)
    usual = dataclasses.replace(problem, questions=FEWER[0])
    if chosen is not None or not problem.rows:
        return usual
    for number in FEWER:
        found = dataclasses.replace(problem, questions=number)
        proposals, _ = ranked(found, chosen)
        if not proposals:
            return usual
        if width_of(proposals[0].claim) <= USEFUL * problem.rows:
            break
    return found


def ranked(problem: SessionProblem, chosen: OnlineMechanism[Any] | None) -> tuple[list[OnlineProposal], list[Refusal]]:
    """What the mechanism asked for proposes; without one all that a session chooses among, the narrowest first."""
    proposals, refusals = [], []
    for mechanism in _candidates(problem) if chosen is None else (chosen,):
        plan = plan_online(mechanism, problem)
        if isinstance(plan, Refusal):
            refusals.append(plan)
        else:
            proposals.append(propose_online(mechanism, problem, plan))
    return _ordered(proposals), refusals


def _ordered(proposals: list[OnlineProposal]) -> list[OnlineProposal]:
    """The narrowest intervals first; but a mixture before all whose intervals are not narrower than half of its own.

    What the watch proves of a mixture is far from how right it is: the errors to expect are several times smaller than
    those of noise on every question.
    """
    narrowest = min((width_of(proposal.claim) for proposal in proposals), default=0.0)

    def place(proposal: OnlineProposal) -> tuple[bool, float]:
        width = width_of(proposal.claim)
        return not (proposal.mechanism.name == WIDE and width <= WIDER * narrowest), width

    return sorted(proposals, key=place)


def best_of(problem: SessionProblem, chosen: OnlineMechanism[Any] | None) -> OnlineProposal:
    """The proposal that a session is opened with.

    Raises:
        NoMechanism: all refuse; the message says why.
    """
    proposals, refusals = ranked(problem, chosen)
    if not proposals:
        raise nobody_serves(refusals, named=chosen is not None)
    return proposals[0]


def _candidates(problem: SessionProblem) -> list[OnlineMechanism[Any]]:
    """A guess of the whole table, or noise on every question; of records that nobody could list, weights on some.

    The guess is a histogram while that has few enough cells, and from there on a mixture.
    """
    domain = problem.workload.domain
    guess = "sparse-mw" if domain.sizes == (P,) else "pmw" if domain.cells <= MAX_CELLS else WIDE
    return [make_online(name, {}) for name in (guess, "gaussian", "laplace")]


def width_of(claim: Claim) -> float:
    """The expected width, infinite where no interval is to be expected."""
    return math.inf if claim.expected_width is None else claim.expected_width


def in_words(claim: Claim, problem: SessionProblem) -> str:
    """What a session will be like, in a sentence: shown when it is opened."""
    wide = format_error(width_of(claim), problem.rows)
    of_rows = " of the rows" if problem.rows else ""
    sure = "" if claim.answered is None else f"; all {problem.questions:,} questions are answered with a guarantee"
    if claim.answered is not None and claim.answered < 1:
        sure += f" with probability {math.floor(1000 * claim.answered) / 1000:g} or more, where its guess is right"
    return f"answers within about ±{wide}{of_rows}{sure}"
