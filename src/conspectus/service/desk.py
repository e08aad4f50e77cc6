"""The desk of the service: who is asking, what they may use, and the published synopses."""

from __future__ import annotations

import io
import json
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa
from starlette.requests import Request

from conspectus.releases.release import Release
from conspectus.releases.selects.query_result import QueryResult
from conspectus.synopses.synopsis import CannotAnswer
from conspectus.tabular import write_table

from . import describing
from .analysts import Analyst, Analysts
from .refusing import Refused, no_token, refusal_of, unknown
from .shelf import Published, Shelf
from .wire import Question, Select

T = TypeVar("T")
MOST_ROWS = 1_000_000
"""Synthetic rows in one request. They cost nothing but time and memory, so whoever needs more asks again."""
KINDS = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
}
RESULT = b"conspectus"
"""Where an Arrow table of results keeps what must be said of it."""
_KEPT = 256


class Desk:
    """What all requests share. With `closed`, synopses too are for those who have a token."""

    def __init__(self, shelf: Shelf, analysts: Analysts, *, closed: bool) -> None:
        self.shelf, self.analysts, self.closed = shelf, analysts, closed
        self._pages: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = Lock()

    def analyst(self, request: Request, *, needed: bool) -> Analyst | None:
        """Who asks. A token that is not known is refused everywhere, and where one is needed, so is none."""
        given = request.headers.get("authorization")
        if given is None:
            if needed:
                raise no_token()
            return None
        scheme, _, token = given.partition(" ")
        found = self.analysts.find(token.strip()) if scheme.casefold() == "bearer" else None
        if found is None:
            raise no_token()
        request.state.analyst = found.name
        return found

    def synopses(self, request: Request) -> list[Published]:
        """The releases that the asker may use."""
        who = self.analyst(request, needed=self.closed)
        return [one for one in self.shelf.all() if who is None or who.may(one.name)]

    def synopsis(self, request: Request, name: str) -> Published:
        """One of them; a name that is not there and one that is not theirs are refused alike."""
        who = self.analyst(request, needed=self.closed)
        found = self.shelf.find(name) if who is None or who.may(name) else None
        if found is None:
            raise unknown("synopsis")
        return found

    def remembered(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Something that follows from a published file alone, made once."""
        with self._lock:
            if key in self._pages:
                self._pages.move_to_end(key)
                return self._pages[key]  # type: ignore[no-any-return]
        made = make()
        with self._lock:
            self._pages[key] = made
            while len(self._pages) > _KEPT:
                self._pages.popitem(last=False)
        return made


def summary(published: Published) -> dict[str, Any]:
    """One line of the list."""
    release = published.release
    told = {"table": release.schema.name, "guarantee": str(release.guarantee)}
    return {**describing.in_short(published), **told}


def ask(release: Release, question: Question) -> dict[str, Any]:
    """One answer of a release."""
    where = question.where
    try:
        where = describing.spelled(release.schema, where, question.picks)
        answer = release.ask(where, confidence=question.confidence, snap=question.snap)
        why = describing.why_none(release, answer.question or where) if answer.low is None else None
        return describing.answered(release.schema, answer, where, why=why)
    except (ValueError, LookupError) as error:
        raise refusal_of(error, schema=release.schema, where=where) from error


def query(release: Release, select: Select) -> pa.Table:
    """The lines of a SELECT, with what must be said of them in the table's metadata."""
    try:
        return told_of(release.query(select.sql, confidence=select.confidence, snap=select.snap))
    except (ValueError, LookupError) as error:
        raise refusal_of(error) from error


def told_of(found: QueryResult) -> pa.Table:
    """A result as one Arrow table: which columns are labels and which are numbers with their ends, notes, the cost."""
    told = {
        "labels": found.labels,
        "measures": found.measures,
        "notes": found.notes,
        "confidence": found.confidence,
        "cost": found.cost,
    }
    return found.to_arrow().replace_schema_metadata({RESULT: json.dumps(told).encode()})


def result_json(made: pa.Table) -> dict[str, Any]:
    """The same as JSON: dates and the like as texts."""
    lines = [[_plain(value) for value in line.values()] for line in made.to_pylist()]
    return {"columns": made.column_names, "rows": lines, **json.loads(made.schema.metadata[RESULT])}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | None) else str(value)


def rows(release: Release, number: int, public_seed: int | None) -> pa.Table:
    """Synthetic rows; users of pairs as pairs."""
    if not 0 <= number <= MOST_ROWS:
        raise Refused(
            status=422,
            error="too-many-rows",
            title="Too many rows at once",
            text=f"Ask for {MOST_ROWS:,} at most, several times with different seeds where more are needed.",
        )
    make = release.synthetic_pairs if release.schema.unit.kind == "pairs" else release.synthetic
    try:
        return make(number, public_seed=public_seed)
    except CannotAnswer as error:
        raise refusal_of(error) from error


def table(release: Release, by: Sequence[str], confidence: float) -> pa.Table:
    """A published table, as the library makes it."""
    try:
        return release.table(list(by), confidence=confidence).to_arrow()
    except (ValueError, LookupError) as error:
        raise refusal_of(error) from error


def shown_table(release: Release, by: Sequence[str], confidence: float) -> dict[str, Any]:
    """A published table by the codes of its cells."""
    try:
        return describing.table_json(release, by, confidence)
    except (ValueError, LookupError) as error:
        raise refusal_of(error) from error


def written(made: pa.Table, kind: str) -> bytes:
    """A table as a file: CSV, Parquet, or an Arrow stream."""
    sink = io.BytesIO()
    if kind == "arrow":
        with pa.ipc.new_stream(sink, made.schema) as writer:
            writer.write_table(made)
    else:
        write_table(made, sink, f".{kind}")
    return sink.getvalue()


def attached(name: str) -> dict[str, str]:
    """The headers of a file that a browser saves under this name."""
    return {"content-disposition": f'attachment; filename="{name}"'}
