"""`session`: ask, see, repeat; and the part of `ask` that puts its questions to a session."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import conspectus as cs
from conspectus.mechanisms.registry import OFFLINE, ONLINE
from conspectus.server_address import is_server, is_store, shown_of_store
from conspectus.server_address import shown as address_to_show

from . import options, printing
from .asking import Said, exit_with, said_to, show
from .exit_codes import explain
from .ledger_commands import named_ledger
from .progress import Progress, shown
from .prompt import listed, questions
from .release_commands import AUTO
from .session_sources import Sources, sources_of

if TYPE_CHECKING:
    from conspectus.privacy.ledger.ledger import Ledger
    from conspectus.sessions.live_answer import LiveAnswer
    from conspectus.sessions.session import Session


@options.grouped
def session(
    path: Annotated[Path, typer.Option("--path", metavar="FILE", help="The session's file; one that exists goes on.")],
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="The table, as for release.")] = None,
    schema: options.SchemaToo = None,
    *,
    spending: options.Spending,
    ledger: Annotated[
        str | None,
        typer.Option("--ledger", metavar="L", help="The ledger of this table; else one of its own beside FILE."),
    ] = None,
    study: options.StudyName = "",
    by: options.AskedBy = "",
    mechanism: Annotated[
        str | None,
        typer.Option("--mechanism", metavar="M", help=f"One of {', '.join(ONLINE)}; or {AUTO}, for the plan's best."),
    ] = None,
    setting: options.Settings = None,
    questions: Annotated[
        int | None,
        typer.Option(
            "--questions",
            metavar="N",
            min=1,
            help="How many different questions to prepare for; 10,000, or fewer on a small table, unless given.",
        ),
    ] = None,
    rows: options.DeclaredRows = None,
    confidence: options.Confidence = 0.95,
    snap: options.Snap = False,
    end: Annotated[
        bool, typer.Option("--end", help="End the session afterwards: what was not spent goes back to the ledger.")
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Ask questions one at a time: answers with their intervals, what each cost, and what is left.

    One predicate a line, from the keyboard or a pipe; an empty line or Ctrl-D ends. Safe to interrupt: every answer
    that was shown is kept, and the file can be resumed.
    """
    from conspectus.releases.answer import checked_confidence

    checked_confidence(confidence)
    opened = sources_of(path, data, schema, ledger, option="") if path.exists() else None
    with ExitStack() as stack:
        with shown(quiet or as_json) as progress:  # a bar while it is opened, and none between the questions
            told = {"mechanism": mechanism, "questions": questions, "neighbours": spending.neighbours, "rows": rows}
            if opened is not None:
                if study:
                    raise options.OptionError("--study is said when a session is opened: leave it out")
                _check_same_terms(path, told, setting or ())
                opening = resumed(path, opened, progress=progress, by=by)
            else:
                book = named_ledger(ledger, study, by)
                opening = _opened(path, data, schema, book, spending.budget, told, setting or (), progress=progress)
            live = stack.enter_context(opening)
        if any(getattr(live.budget, name) != value for name, value in spending.budget.items() if value):
            raise options.OptionError(
                "this session goes on under the budget that it was opened with: leave the budget out"
            )
        failed = _converse(live, confidence=confidence, snap=snap, as_json=as_json, ends=end)
        if end:
            live.end()
    if failed and not sys.stdin.isatty():
        raise typer.Exit(2)


def ask_session(
    path: Path,
    predicates: Sequence[str],
    opened: Sources,
    *,
    confidence: float,
    snap: bool,
    measure: bool,
    as_json: bool,
) -> None:
    """Put some predicates to a session, or buy their answers outright, and say what they cost."""
    from conspectus.releases.answer import checked_confidence, standing_notes
    from conspectus.sessions.store import SessionError

    checked_confidence(confidence)
    with resumed(path, opened, progress=None) as live:
        put = live.measure if measure else live.ask
        said = said_to(predicates, lambda text: put(text, confidence=confidence, snap=snap), SessionError)
        if as_json:
            kept = printing.guarantee_json(live.guarantee)
            printing.as_json({"answers": [one.json for one in said], **_standing(live), "guarantee": kept})
        else:
            show(said, lambda answer: _line(live, answer), standing=standing_notes(live.schema))
            printing.line(f"{_left(live)}. Under {live.guarantee}.")
    exit_with(said)


@contextmanager
def _opened(
    path: Path,
    data: str | None,
    schema: Path | None,
    book: Ledger | None,
    budget: dict[str, Any],
    told: dict[str, Any],
    setting: Sequence[str],
    *,
    progress: Progress | None,
) -> Iterator[Session]:
    from conspectus.curator.truth import Truth
    from conspectus.privacy.guarantee import Budget
    from conspectus.sessions import forecast
    from conspectus.sessions import opening as live

    allowed = Budget(**budget)  # refused before any file is opened
    if data is None or schema is None:
        raise options.OptionError(f"there is no session at {path}: to open one, give DATA, --schema and a budget")
    named = told.pop("mechanism") or AUTO
    options.check_mechanism(named, (AUTO, *ONLINE), OFFLINE, command="release")
    mechanism = forecast.asked_for(named, options.settings_of(setting), keywords=())
    # A SELECT stays as it is; a file is found again from any folder.
    if is_server(data):
        where = address_to_show(data)  # a file holds no password
    elif is_store(data):
        where = shown_of_store(data)  # nor a key
    else:
        where = str(Path(data).absolute()) if Path(data).exists() else data
    source = {"data": where, "schema": str(schema.absolute())}
    with cs.open_table(data, cs.Schema.load(schema)) as table:
        truth = Truth.of(table, progress)
        problem = live.session_problem(truth, allowed, mechanism, **told)
        with live.begin(truth, problem, mechanism, ledger=book, path=path, source=source, progress=progress) as opened:
            yield opened


@contextmanager
def resumed(path: Path, opened: Sources, *, progress: Progress | None, by: str = "") -> Iterator[Session]:
    """A session that goes on, and its table, until the block ends; `by` is who asks, if not who opened it."""
    book = cs.Ledger.open(opened.ledger).for_study(by=by) if by else opened.ledger
    with (
        cs.open_table(opened.data, cs.Schema.load(opened.schema)) as table,
        cs.resume_session(path, table, ledger=book, progress=progress) as live,
    ):
        yield live


def _check_same_terms(path: Path, told: dict[str, Any], setting: Sequence[str]) -> None:
    """Refuse options that a session which goes on would otherwise pass over in silence."""
    from conspectus.mechanisms.choosing import settings_of
    from conspectus.sessions import opening as live

    terms = live.terms_of(path)
    other = [name for name, value in told.items() if value not in (None, AUTO) and value != getattr(terms, name)]
    fields = settings_of(terms.mechanism, ONLINE) if terms.mechanism in ONLINE else {}
    known = {name: field.default for name, field in fields.items()} | live.settled_settings(terms)
    settings = options.settings_of(setting)
    other += [f"set {name}" for name, value in settings.items() if name not in known or known[name] != value]
    if other:
        raise options.OptionError(
            f"this session goes on as it was opened, with another --{other[0]}: leave it out, or open another session"
        )


def _converse(live: Session, *, confidence: float, snap: bool, as_json: bool, ends: bool) -> bool:
    """Answer line by line until there are no more; whether some line could not be answered."""
    from conspectus.sessions.store import SessionError

    failed = False
    if not as_json:
        printing.line(f"{live}.")
        printing.facts([("expects", live.expectation)])
        printing.facts([("keeps", str(dataclasses.replace(live.guarantee, warnings=())))])
        printing.facts([("warning", warning) for warning in live.guarantee.warnings])
        if sys.stdin.isatty():
            printing.line("Type predicates; help says how, and exit ends it.")
    try:
        for text in questions(live.schema.name, _help(live)):
            try:
                answer = live.ask(text, confidence=confidence, snap=snap)
            except SessionError:
                raise
            except (ValueError, LookupError) as problem:
                failed = True
                refused = Said(text, None, explain(problem)[1])
                if as_json:
                    printing.as_json(refused.json, indent=None)
                else:
                    printing.line(f"  {refused.refusal}")
                continue
            said = Said(text, answer)
            if as_json:
                printing.as_json({**said.json, **_standing(live)}, indent=None)
            else:
                if not sys.stdin.isatty() or said.heading != text:
                    printing.line(said.heading)
                printing.line(f"  {_line(live, answer)}")
    except KeyboardInterrupt:
        printing.line(aside=True)
    if not as_json:
        then = "and the session is ended" if ends else "which can be resumed"
        kept = "" if live.path is None else f" Every answer is in {live.path.name}, {then}."
        printing.line(f"{_left(live)}.{kept}")
    return failed


def _help(live: Session) -> Sequence[str]:
    """What `help` says at the prompt."""
    columns = [(column.name, column.kind) for column in live.schema.columns]
    return (
        "A predicate a line, as in age >= 30 AND sex = 'Female'; names with spaces or hyphens in double quotes.",
        f"The columns: {listed(columns)}.",
        "help, or ?: this text. exit, quit or Ctrl-D: the end.",
    )


def _line(live: Session, answer: LiveAnswer) -> str:
    from conspectus.privacy.guarantee import printed

    cost = f"cost {_sign(live)} {printed(answer.cost, 4)}" if answer.cost else "cost nothing"
    return f"{answer}; {'repeated' if answer.repeated else cost}"


def _sign(live: Session) -> str:
    return "ε" if live.currency == "epsilon" else "ρ"


def _left(live: Session) -> str:
    left = f"{_sign(live)} {live.remaining:.4g} of {live.spent + live.remaining:.4g} left"
    over = ", exhausted: nothing new is answered with a guarantee" if live.exhausted else ""
    return f"{live.counted:,} of {live.questions:,} questions, {left}{over}"


def _standing(live: Session) -> dict[str, Any]:
    told = ("currency", "spent", "remaining", "asked", "counted", "questions", "exhausted")
    expected = {"expected_width_counts": live.claim.expected_width, "answered_with_probability": live.claim.answered}
    return {**{name: getattr(live, name) for name in told}, **expected}
