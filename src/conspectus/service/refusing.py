"""What is said instead of an answer: one shape for every refusal, and nothing of an error that is not our own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from conspectus.data.columns.column import CutsBin, NotOrdered, UnknownValue
from conspectus.data.schema import Schema
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.queries.builders.arguments import UnknownColumn
from conspectus.queries.language import from_sql as language
from conspectus.queries.language.unanswerable import CannotQuery
from conspectus.releases.answer import ConfidenceError
from conspectus.sessions.store import SessionError
from conspectus.synopses.synopsis import CannotAnswer

NOTHING = "Nothing was spent."


@dataclass(frozen=True, kw_only=True)
class Repair:
    """A question to ask instead."""

    label: str
    where: str


@dataclass(kw_only=True, eq=False)
class Refused(Exception):
    """A request that is not answered.

    Attributes:
        status: The HTTP status.
        error: What it is, for a program.
        title: What it is, for people.
        text: Why, and what to do instead.
        at: Where in the question, as two positions; None where that is not known.
        repairs: Questions to ask instead.
        wait: After how many seconds to try again; None where that would not help.
    """

    status: int
    error: str
    title: str
    text: str
    at: tuple[int, int] | None = None
    repairs: tuple[Repair, ...] = field(default=())
    wait: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The body of the answer."""
        return {
            "error": self.error,
            "title": self.title,
            "text": self.text,
            "at": None if self.at is None else list(self.at),
            "repairs": [vars(repair) for repair in self.repairs],
            "spent": 0,  # always
        }

    @classmethod
    def from_json(cls, status: int, body: Any) -> Refused:
        """The inverse, for whoever forwards one or is sent one; what is not of this shape is a plain failure."""
        said = body if isinstance(body, dict) else {}
        return cls(
            status=status,
            error=str(said.get("error", "failed")),
            title=str(said.get("title", "Not answered")),
            text=str(said.get("text", f"The service said {status} and gave no reason.")),
            at=(int(said["at"][0]), int(said["at"][1])) if said.get("at") else None,
            repairs=tuple(Repair(label=one["label"], where=one["where"]) for one in said.get("repairs", ())),
        )


def unknown(what: str = "name") -> Refused:
    """The same for a name that does not exist, and for one that the asker has no right to."""
    return Refused(
        status=404,
        error="unknown",
        title="There is nothing under this name",
        text=f"No such {what} is served to you: look at the list of what is, or ask its owner for a token.",
    )


def no_token() -> Refused:
    return Refused(
        status=401,
        error="token",
        title="A token is needed",
        text="Send the token that the owner gave you in the header Authorization: Bearer …",
    )


def busy() -> Refused:
    return Refused(
        status=503,
        error="busy",
        title="Too many questions at once",
        text=f"The queue is full. {NOTHING} Ask again in a moment.",
        wait=1,
    )


def internal() -> Refused:
    return Refused(
        status=500,
        error="internal",
        title="The service failed",
        text="This is a fault of the service and not of the question; its log names the place.",
    )


KINDS: tuple[tuple[type[Exception], int, str, str], ...] = (
    (CutsBin, 422, "cuts-bin", "This range cuts a bin"),
    (UnknownColumn, 422, "unknown-column", "There is no such column"),
    (UnknownValue, 422, "unknown-value", "There is no such value"),
    (NotOrdered, 422, "no-order", "This column has no order"),
    (CannotQuery, 422, "not-a-select", "This SELECT is not served"),
    (language.NotAPredicate, 422, "not-a-question", "This is not a question that is served"),
    (ConfidenceError, 422, "confidence", "This is no confidence"),
    (CannotAnswer, 422, "not-held", "This was not published"),
    (BudgetExceeded, 409, "budget", "The budget does not pay for this"),
    (SessionError, 409, "session", "The session cannot go on"),
)
"""What is raised here, and by whoever is far away: its class, the status, its name and its title."""


def refusal_of(error: Exception, *, schema: Schema | None = None, where: str | None = None) -> Refused:
    """An error of the library in the one shape; of any other nothing is told, since it may quote what was read."""
    if isinstance(error, Refused):
        return error
    ours = any(kind.__module__.split(".")[0] == "conspectus" for kind in type(error).__mro__)
    for kind, status, code, title in KINDS:
        if isinstance(error, kind):
            repairs = _repairs(schema, where) if kind is CutsBin else ()
            return Refused(status=status, error=code, title=title, text=_sentence(str(error)), repairs=repairs)
    if ours and isinstance(error, ValueError | LookupError):
        return Refused(status=422, error="bad-question", title="Not answered", text=_sentence(str(error)))
    if isinstance(error, MemoryError):
        return Refused(
            status=422,
            error="too-large",
            title="This is too large",
            text="It needs more memory than there is: ask for less.",
        )
    return internal()


def _repairs(schema: Schema | None, where: str | None) -> tuple[Repair, ...]:
    """The same question over whole bins."""
    if schema is None or where is None:
        return ()
    try:
        words = language.read(schema, where, snap=True).words
    except (ValueError, LookupError):
        return ()
    return (Repair(label="Ask for the whole bins", where=words),)


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")
