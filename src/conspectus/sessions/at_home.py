"""For a process that holds a session for many others: questions that it has read already, and refits done aside."""

from __future__ import annotations

from collections.abc import Callable

from conspectus.mechanisms.online_mechanism import HandOver
from conspectus.queries.language.select_plan import Select
from conspectus.releases.answer import checked_confidence
from conspectus.releases.selects.query_result import QueryResult

from .live_answer import LiveAnswer
from .questions import Question
from .quote import Quote
from .session import Session


def put(session: Session, asked: Question, *, confidence: float, outright: bool = False) -> LiveAnswer:
    """Ask a question that was read before, or buy its answer outright: as `session.ask` and `session.measure`."""
    checked_confidence(confidence)
    return session._measured(asked, confidence) if outright else session._asked(asked, confidence)


def put_select(session: Session, plan: Select, *, confidence: float, check: Callable[[Quote], None]) -> QueryResult:
    """Answer a SELECT that was read before, as `session.query`; `check` may refuse it by what it would cost at most."""
    checked_confidence(confidence)
    return session._selected(plan, confidence, check)


def quote_select(session: Session, plan: Select) -> Quote:
    """What a SELECT that was read before would cost at most, as `session.quote`."""
    return session._quoted_select(plan)


def free(session: Session) -> bool:
    """Whether no other process holds the session at this moment, so that a question need not wait for one."""
    return session._store.free()


def refit_aside(session: Session, hand_over: HandOver) -> None:
    """Leave the refits of the session's guess to somebody else, so that no other question waits for them.

    After a surprise `hand_over` is called, while the session is held, with the columns of the question, how many of
    them at a time were known before, and the work, which another thread does then. Until it is done questions are
    compared with the guess before it. Nothing else changes: `session.proof.md` says why. Mechanisms that do not refit
    take no notice.
    """
    with session._lock:
        session._hand_over = hand_over
        session._aside()
