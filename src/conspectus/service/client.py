"""Far away: a release or a session that somebody serves, with the same calls and the same answers as one at hand."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa

from conspectus.data.schema import Schema
from conspectus.privacy.guarantee import Guarantee
from conspectus.queries.language import from_sql as language
from conspectus.queries.language.one_question import no_question
from conspectus.queries.workload import Workload
from conspectus.releases.answer import Answer, checked_confidence
from conspectus.releases.selects.query_result import QueryResult
from conspectus.releases.tables import named_columns
from conspectus.sessions.live_answer import LiveAnswer
from conspectus.suggestions import suggest_keywords
from conspectus.tabular import ResultTable

from .link import Link, ServiceError, read_arrow

Told = TypeVar("Told", bound=Answer)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@suggest_keywords
class _Remote:
    """What a served release and a served session have in common."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._about = link.get("")
        self.address = link.address
        self.schema = Schema.from_dict(link.get("/schema"))
        self.guarantee = _guarantee(self._about["guarantee"])
        self.mechanism = str(self._about["mechanism"])

    def query(self, select: str, *, confidence: float = 0.95, snap: bool = False) -> QueryResult:
        """The lines of a SELECT, as the release answers it, or from counts that the session is asked for.

        Args:
            select: One SELECT over the table.
            confidence: The probability with which each interval holds.
            snap: Whether a condition that cuts a bin is widened to the bin's edges.

        Returns:
            A table of results with `.to_arrow()`, `.to_pandas()` and `.to_polars()`; beside each number x its ends
            x_low and x_high; and what it cost.

        Raises:
            CannotQuery: The SELECT cannot be answered.
            ServiceError: The service cannot be reached, reads no such SELECT, or refuses: no token, a cap, a full
                queue.
        """
        body = {"sql": select, "confidence": checked_confidence(confidence), "snap": snap}
        return _result(self._link.send("POST", "/query?as=arrow", body))

    def close(self) -> None:
        """Let go of the connection. A session goes on."""
        self._link.close()

    def _put(self, kind: type[Told], path: str, question: str | Workload, confidence: float, snap: bool) -> Told:
        return _answer(kind, self._link.post(path, _question(self.schema, question, confidence, snap)))


@suggest_keywords
class RemoteRelease(_Remote):
    """A release that is served somewhere: made by `cs.connect`. Threads may share it.

    Attributes:
        address: Where it is served.
        schema: The schema of the table.
        guarantee: What the release promises to every unit of the table.
        mechanism: The name of the mechanism that made it.
    """

    def ask(self, question: str | Workload, *, confidence: float = 0.95, snap: bool = False) -> Answer:
        """Answer one question, as the release does.

        Args:
            question: A SQL predicate over the columns, or a workload of one query that a predicate can say.
            confidence: The probability, over the noise, with which the interval holds the truth.
            snap: Whether a predicate that cuts a bin is widened to the bin's edges.

        Returns:
            The fraction and its count, the interval, and what they rest on.

        Raises:
            CannotAnswer: The release does not hold what the question asks for.
            NotAPredicate: The question is not a predicate over the columns.
            ServiceError: The service cannot be reached, or refuses.
        """
        return self._put(Answer, "/ask", question, confidence, snap)

    def table(self, columns: Sequence[str] | str, *, confidence: float = 0.95) -> ResultTable:
        """A table to print, as the release makes it: whole counts with intervals, and a mark on noisy cells.

        Args:
            columns: The names of the columns, in the order in which the table has them; or a single name.
            confidence: The probability with which the interval of a cell holds.

        Returns:
            The columns by their labels, then `count`, `low`, `high` and `too_noisy`.

        Raises:
            CannotAnswer: The release does not hold these columns together.
            ServiceError: The service cannot be reached, or refuses.
        """
        checked_confidence(confidence)
        named = tuple(named_columns(columns))
        made = self._link.arrow("/table", {"by": list(named), "confidence": confidence})
        return ResultTable(made, named, (("count", "low", "high"),))

    def synthetic(self, rows: int, *, public_seed: int | None = None) -> pa.Table:
        """Synthetic rows in the schema's own values; they are nobody's records.

        Args:
            rows: How many rows to make.
            public_seed: A seed that makes the rows repeatable.

        Returns:
            One column for each of the schema's.

        Raises:
            CannotAnswer: The release holds no rows to draw.
            ServiceError: The service cannot be reached, or refuses.
        """
        asked = {"n": rows} | ({} if public_seed is None else {"seed": public_seed})
        return self._link.arrow("/rows", asked)


@suggest_keywords
class RemoteSession(_Remote):
    """A live session that is served somewhere: made by `cs.connect`. Threads may share it.

    Attributes:
        address: Where it is served.
        schema: The schema of the table.
        guarantee: What the session promises to every unit of the table.
        mechanism: The name of the online mechanism.
        currency: What `spent`, `remaining` and costs are counted in.
        questions: How many different questions it was opened for.
    """

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self.currency = str(self._about["currency"])
        self.questions = int(self._about["questions"])

    def ask(self, question: str | Workload, *, confidence: float = 0.95, snap: bool = False) -> LiveAnswer:
        """Answer one question, as the session does; one that was asked before gets the same answer for nothing.

        Args:
            question: A SQL predicate over the columns, or a workload of one query that a predicate can say.
            confidence: The probability, over the noise, with which the interval holds the truth.
            snap: Whether a predicate that cuts a bin is widened to the bin's edges.

        Returns:
            The answer, with what it cost and whether it was given before.

        Raises:
            NotAPredicate: The question is not a predicate over the columns.
            ServiceError: The service cannot be reached, or refuses: no token, a cap, a full queue.
        """
        return self._put(LiveAnswer, "/ask", question, confidence, snap)

    def measure(self, question: str | Workload, *, confidence: float = 0.95, snap: bool = False) -> LiveAnswer:
        """Buy the answer to one question outright.

        Args:
            question: A SQL predicate over the columns, or a workload of one query that a predicate can say.
            confidence: The probability, over the noise, with which the interval holds the truth.
            snap: Whether a predicate that cuts a bin is widened to the bin's edges.

        Returns:
            The measured answer, with what it cost and whether it was given before.

        Raises:
            BudgetExceeded: What is left of the budget does not pay for it.
            ServiceError: The service cannot be reached, or refuses.
        """
        return self._put(LiveAnswer, "/measure", question, confidence, snap)

    def quote(self, question: str | Workload, *, snap: bool = False) -> dict[str, Any]:
        """What a question, or a SELECT, would cost at most. Nothing is spent.

        Args:
            question: What `ask` or `query` takes.
            snap: Whether a condition that cuts a bin is widened to the bin's edges.

        Returns:
            `at_most` in the session's `currency`, `of` the whole budget, `affordable`, and `free_because`.

        Raises:
            NotAPredicate: The question is not a predicate over the columns.
            ServiceError: The service cannot be reached, or refuses.
        """
        return dict(self._link.post("/quote", _question(self.schema, question, 0.95, snap)))

    @property
    def spent(self) -> float:
        """What all analysts have spent in this session, in its currency."""
        return float(self._link.get("")["spent"])

    @property
    def remaining(self) -> float:
        """What is left of the session's budget, in its currency."""
        return float(self._link.get("")["remaining"])

    @property
    def asked(self) -> int:
        """How many different questions were answered."""
        return int(self._link.get("")["asked"])

    @property
    def exhausted(self) -> bool:
        """Whether the next new question will be answered without a guarantee."""
        return bool(self._link.get("")["exhausted"])


def connect(address: str, *, token: str | None = None, timeout: float = 60.0) -> RemoteRelease | RemoteSession:
    """Use a release or a session that `conspectus serve` serves, as if it were here.

    Args:
        address: The address of a synopsis, as in "http://127.0.0.1:8765/synopses/patients", or of a session,
            ".../sessions/NAME".
        token: What the owner gave you. Sessions need one; published synopses do unless they are open to all.
        timeout: How many seconds to wait for an answer.

    Returns:
        A `RemoteRelease` with `.ask`, `.table`, `.query`, `.synthetic` and `.guarantee`; or a `RemoteSession` with
        `.ask`, `.measure`, `.spent`, `.remaining` and `.guarantee`.

    Raises:
        ServiceError: The address is not of this kind, nobody answers there, or the name is not served to you.

    Example:
        >>> import conspectus as cs
        >>> cs.connect("https://example.org/patients")
        Traceback (most recent call last):
        ...
        conspectus.service.link.ServiceError: https://example.org/patients is no address of a synopsis or session: it
        ends in /synopses/NAME or /sessions/NAME
    """
    parts = urlsplit(address)
    place = parts.path.rstrip("/").split("/")
    web = parts.scheme in ("http", "https") and parts.hostname and not parts.query
    kind = place[-2] if len(place) > 2 else ""
    if not web or kind not in ("synopses", "sessions"):
        raise ServiceError(
            f"{address} is no address of a synopsis or session: it ends in /synopses/NAME or /sessions/NAME"
        )
    if token is not None and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        warnings.warn("this token travels over plain http, where others can read it: use https", stacklevel=2)
    link = Link(address.rstrip("/"), token, timeout)
    return RemoteRelease(link) if kind == "synopses" else RemoteSession(link)


def _question(schema: Schema, question: str | Workload, confidence: float, snap: bool) -> dict[str, Any]:
    checked_confidence(confidence)
    if isinstance(question, Workload):
        if len(question) != 1:
            raise language.NotAPredicate(f"ask takes one question at a time, not {len(question)}")
        question = language.to_sql(schema, question.query(0))
    if not isinstance(question, str):
        raise no_question(question)
    return {"where": question, "confidence": confidence, "snap": snap}


def _answer(kind: type[Told], told: dict[str, Any]) -> Told:
    fields = _known(kind, told)
    if not math.isfinite(fields["fraction"]):
        raise ServiceError("the service sent an answer that is no number")
    return kind(**{**fields, "notes": tuple(fields["notes"])})


def _known(kind: type[Answer | Guarantee], told: dict[str, Any]) -> dict[str, Any]:
    """What this version knows of what the service told."""
    return {name: value for name, value in told.items() if name in kind.__dataclass_fields__}


def _guarantee(told: dict[str, Any]) -> Guarantee:
    fields = _known(Guarantee, told)
    return Guarantee(**{**fields, "warnings": tuple(fields["warnings"])})


def _result(content: bytes) -> QueryResult:
    made = read_arrow(content)
    told = json.loads(made.schema.metadata[b"conspectus"])
    return QueryResult(
        made.replace_schema_metadata(None),
        tuple(told["labels"]),
        tuple((number, low, high) for number, low, high in told["measures"]),
        tuple(told["notes"]),
        told["confidence"],
        told["cost"],
    )
