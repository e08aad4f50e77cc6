"""`sql`: SELECTs put to a release, or to a live session; typed one by one where none is given."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import conspectus as cs

from . import options, printing
from .exit_codes import BAD_INPUT, explain
from .prompt import listed, questions
from .session_commands import resumed
from .session_sources import sources_of

MOST_LINES = 100
"""How many lines of a result are printed, unless --lines says so."""

if TYPE_CHECKING:
    from conspectus.data.schema import Schema
    from conspectus.releases.selects.query_result import QueryResult
    from conspectus.sessions.quote import Quote


def sql(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar='[OUT] ["SELECT …"] …', help="A release, and SELECTs over its table; without one they are typed."
        ),
    ] = None,
    confidence: options.Confidence = 0.95,
    snap: options.Snap = False,
    session: Annotated[
        Path | None,
        typer.Option("--session", metavar="FILE", help="Ask this session, in place of OUT: new counts may spend."),
    ] = None,
    data: options.SessionData = None,
    schema: options.SchemaToo = None,
    ledger: options.SessionLedger = None,
    quote: Annotated[
        bool, typer.Option("--quote", help="Say what the session would take at most, and spend nothing.")
    ] = False,
    most: Annotated[
        int, typer.Option("--lines", metavar="N", min=0, help="How many lines of a result to print; 0 for all.")
    ] = MOST_LINES,
    as_json: options.Json = False,
) -> None:
    """Answer SELECTs, each number with its interval: from a release, which spends nothing, or from a live session.

    SELECT job, COUNT(*), AVG(balance), MEDIAN(age) FROM clients WHERE owner GROUP BY job ORDER BY 3 DESC LIMIT 5
    """
    given = list(words or ())
    if session is None and not given:
        raise options.OptionError("name a release, and a SELECT over its table; or --session FILE")
    out = None if session is not None else given.pop(0)
    if session is None and (data is not None or schema is not None or ledger is not None or quote):
        raise options.OptionError("--data, --schema, --ledger and --quote belong to --session: a release costs nothing")
    from conspectus.releases.answer import checked_confidence

    checked_confidence(confidence)
    with _asked(out, session, data, schema, ledger, quote=quote, confidence=confidence, snap=snap) as (told, put):
        if not given and sys.stdin.isatty() and not as_json:
            printing.line(f"Type SELECTs over {told.name}, each ended by a semicolon or an empty line; help says more.")
        texts = given or questions(told.name, _help(told), selects=True)
        failed = _answered(texts, put, as_json=as_json, single=len(given) == 1, most=most or None)
    if failed and not (sys.stdin.isatty() and not given):
        raise typer.Exit(BAD_INPUT)


@contextmanager
def _asked(
    out: str | None,
    session: Path | None,
    data: str | None,
    schema: Path | None,
    ledger: str | None,
    *,
    quote: bool,
    confidence: float,
    snap: bool,
) -> Iterator[tuple[Schema, Callable[[str], QueryResult | Quote]]]:
    """The table, and what answers a SELECT over it, as long as the block goes on."""
    if session is None:
        release = cs.load(str(out))
        yield release.schema, lambda text: release.query(text, confidence=confidence, snap=snap)
        return
    opened = sources_of(session, data, schema, ledger, option="--data ")
    with resumed(session, opened, progress=None) as live:
        if quote:
            yield live.schema, lambda text: live.quote(text, snap=snap)
        else:
            yield live.schema, lambda text: live.query(text, confidence=confidence, snap=snap)


def _help(told: Schema) -> Sequence[str]:
    """What `help` says at the prompt."""
    first = told.columns[0].name
    return (
        f'A SELECT over "{told.name}", ended by a semicolon or an empty line, as in',
        f'  SELECT "{first}", COUNT(*) FROM "{told.name}" GROUP BY "{first}" ORDER BY 2 DESC LIMIT 5;',
        f"The columns: {listed([(column.name, column.kind) for column in told.columns])}.",
        "Names with spaces or hyphens go into double quotes, texts into single ones.",
        "help, or ?: this text. exit, quit or Ctrl-D: the end.",
    )


def _answered(
    texts: Sequence[str] | Iterator[str],
    put: Callable[[str], QueryResult | Quote],
    *,
    as_json: bool,
    single: bool,
    most: int | None,
) -> bool:
    """Answer one SELECT after the other; whether some could not be. A single one that is refused is the error."""
    failed = False
    for text in texts:
        try:
            found = put(text)
        except (ValueError, LookupError) as problem:
            code, refusal = explain(problem)
            if single or code != BAD_INPUT:
                raise
            failed = True
            if as_json:
                printing.as_json({"query": text, "error": refusal}, indent=None)
            else:
                printing.line(f"  {refusal}")
            continue
        if as_json:
            printing.as_json({"query": text, **_json(found)})
        else:
            _print(found, most)
    return failed


def _print(found: QueryResult | Quote, most: int | None) -> None:
    """A result up to so many lines, or a quote."""
    from conspectus.releases.selects.query_result import QueryResult
    from conspectus.tabular import text_lines

    if not isinstance(found, QueryResult):
        printing.line(str(found))
        return
    for line in text_lines(found.arrow, found.labels, most):
        printing.line(line)
    for note in found.notes:
        printing.line(note)
    if most is not None and len(found) > most:
        printing.line(f"{most:,} of {len(found):,} lines are printed: --lines 0 prints all")


def _json(found: Any) -> dict[str, Any]:
    """A result or a quote for a program."""
    if hasattr(found, "to_arrow"):
        told = {"lines": found.to_arrow().to_pylist(), "notes": list(found.notes), "confidence": found.confidence}
        return {**told, "cost": found.cost}
    return {**vars(found), "text": str(found)}
