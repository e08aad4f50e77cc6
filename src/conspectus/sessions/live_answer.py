"""An answer of a session, and how it is made from what the session's file holds."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from conspectus.mechanisms.bounds import Margin
from conspectus.mechanisms.online_mechanism import OnlineRun, Reply
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.queries.query import Predicate, TableFunction
from conspectus.queries.workload import Workload
from conspectus.releases.answer import Answer, answer_of, count_confidence
from conspectus.releases.released_counts import as_counted, counted
from conspectus.synopses.synopsis import Total, checked_noise

from .given_answer import Given
from .questions import Question


@dataclass(frozen=True, kw_only=True)
class LiveAnswer(Answer):
    """An answer of a session.

    Attributes:
        cost: What it took from the budget, in the session's currency.
        repeated: Whether it was given before. It is then the same answer, and costs nothing.
    """

    cost: float
    repeated: bool


def reply_by_schema(question: Workload, total: Total) -> Reply | None:
    """All rows or none, where the schema says so of every row: nothing is spent. None for every other question."""
    query = question.query(0)
    if not isinstance(query, Predicate) or query.decided is None:
        return None
    if not query.decided:
        return Reply(count=0.0, basis="measured", margin=Margin())
    noise = None if total.exact else (checked_noise(total.kind, total.scale), total.terms, total.averaged)
    return Reply(count=total.value, basis="measured", margin=Margin(summed=noise))


def reply_of(run: OnlineRun, query: Workload, *, over: bool) -> Reply:
    """What a run says to a question; where nothing more is bought, what measurements tell, or else its guess."""
    if not over:
        with suppress(BudgetExceeded):
            return run.ask(query)
    known = run.known(query)
    return Reply(count=float(run.guess(query)), basis="unguaranteed", margin=None) if known is None else known


def shown(given: Given, asked: Question, total: Total, *, confidence: float, repeated: bool) -> LiveAnswer:
    """The answer at a confidence, as the release of the session has it."""
    query = asked.workload.query(0)
    estimate = given.estimate(count_confidence(total, confidence), total)
    estimate = as_counted(estimate, query, total, lambda _: counted(given.estimate(confidence, total), total))
    told = {**vars(answer_of(estimate, total, confidence, query)), "question": asked.words, "notes": asked.notes}
    if isinstance(query, TableFunction) and not query.counts_rows:
        told["count"] = None  # its share is of the rows, and no number of them
    return LiveAnswer(**told, cost=0.0 if repeated else float(given.price), repeated=repeated)
