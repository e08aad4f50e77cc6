"""`plan` and `release`."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import conspectus as cs
from conspectus.mechanisms.registry import OFFLINE, ONLINE
from conspectus.mechanisms.typical.expectations import ROWS_ASSUMED, UNKNOWN_ROWS

from . import options, printing
from .ledger_commands import named_ledger
from .outputs import check_name, destination
from .progress import shown

if TYPE_CHECKING:
    from conspectus.mechanisms.mechanism import Claim
    from conspectus.releases.planning import Plan
    from conspectus.releases.release import Release

AUTO = "auto"
MechanismName = Annotated[
    str,
    typer.Option("--mechanism", metavar="M", help=f"One of {', '.join(OFFLINE)}; or {AUTO}, for the plan's best."),
]


@options.grouped
def plan(
    questions: options.Questions,
    spending: options.Spending,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows", metavar="N", min=1, help=f"The number of rows to plan for, or {UNKNOWN_ROWS:,}; nothing is read."
        ),
    ] = None,
    schema: options.SchemaOrRecords = None,
    mechanism: MechanismName = AUTO,
    objective: options.Objective = None,
    setting: options.Settings = None,
    session: Annotated[
        int | None,
        typer.Option("--session", metavar="N", min=1, help="Plan a session of N questions, in place of a workload."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compare mechanisms before anything is spent: error and width, proved bound, memory, time, file, and why not."""
    settings = options.settings_of(setting or ())
    facts: dict[str, Any] = {"mechanism": mechanism, "neighbours": spending.neighbours, **spending.budget}
    made: Plan
    if session is None:
        options.check_mechanism(mechanism, (AUTO, *OFFLINE), ONLINE, command="session")
        declared = questions.schema(schema)
        facts["objective"] = objective
        made = cs.plan(declared, questions.workload(declared), rows=rows, **facts, **settings)
    else:
        options.check_mechanism(mechanism, (AUTO, *ONLINE), OFFLINE, command="release")
        if objective is not None:
            raise options.OptionError("--objective is for workloads: sessions are planned by their largest error")
        if questions.given or schema is None:
            raise options.OptionError("--session plans for questions that nobody knows: give --schema, and no workload")
        if rows is None:
            raise options.OptionError("--session plans for a number of rows: give --rows")
        made = cs.plan_session(cs.Schema.load(schema), rows=rows, questions=session, **facts, **settings)
    if as_json:
        printing.as_json(made.to_json())
    else:
        show_plan(made)


def show_plan(made: Plan) -> None:
    """A plan as a table, best first, and the refusals with their reasons."""
    from conspectus.releases.planning import format_error

    problem, whole = made.problem, made.problem.planned_denominator
    asked = getattr(problem, "questions", None)
    what = f"{len(problem.workload):,} queries" if asked is None else f"A session of {asked:,} questions"
    printing.line(f"{what} on {problem.planned_rows:,} rows, {problem.neighbours} neighbours")
    rows = ("seconds", "file", "synthetic rows") if asked is None else ()
    titles = ("mechanism", "expected max", "expected mean", "within", "interval ±", "proved max", "memory", *rows)
    printing.table(
        titles,
        [
            (
                claim.mechanism,
                format_error(claim.expected_max, whole),
                format_error(claim.expected_mean, whole),
                "–" if claim.expected_within is None else f"×{claim.expected_within:g}",
                "none" if claim.expected_width is None else format_error(claim.expected_width, whole),
                _proved(claim),
                _size(claim.memory),
                *((*_effort(made, claim), "yes" if made.gives_rows(claim) else "no") if rows else ()),
            )
            for claim in made.claims
        ],
        right=(1, 2, 3, 4, 5, 6, 7, 8) if rows else (1, 2, 3, 4, 5, 6),
    )
    told = [(claim.mechanism, [note for note in claim.notes if note != ROWS_ASSUMED]) for claim in made.claims]
    notes = [(name, "; ".join(said)) for name, said in told if said]
    notes += [(claim.mechanism, _answered(claim)) for claim in made.claims if claim.answered is not None]
    printing.facts([*notes, *((refusal.mechanism, f"no: {refusal.reason}") for refusal in made.refusals)])
    if made.claims:
        if problem.assumed:
            printing.line(ROWS_ASSUMED[:1].upper() + ROWS_ASSUMED[1:] + ".")
        if asked is None:
            first = "largest" if problem.objective == "max" else "mean"
            printing.line(f"The least expected {first} error comes first (objective {problem.objective}).")
            printing.paragraph(
                "Seconds of one processor, beyond the start, and the file are right within a factor of about three."
            )
        each = "releases" if asked is None else "sessions of conjunctions of one to four columns, or of listed records"
        printing.paragraph(f"Expected errors are right within the factor beside them in about nine of ten {each}.")
        printing.line(
            "Errors and intervals are fractions of the rows. Expected ones are typical; only proved ones are promised."
        )


def _answered(claim: Claim) -> str:
    """How sure it is that all declared questions are answered with a guarantee."""
    assert claim.answered is not None
    if claim.answered == 1:
        return "all declared questions are answered with a guarantee"
    sure = math.floor(1000 * claim.answered) / 1000
    return f"all declared questions are answered with a guarantee with probability {sure:g} if its guess is right"


def _proved(claim: Claim) -> str:
    if claim.bound is None:
        return "none"
    if claim.bound.vacuous:
        return f"vacuous ({claim.bound.value:.2g})"
    kind = "" if claim.bound.statistic == "max" else f" ({claim.bound.statistic})"
    return f"{claim.bound.value:.4f}{kind}"


def _effort(made: Plan, claim: Claim) -> tuple[str, str]:
    """How long a release takes, and how large its file is."""
    found = made.efforts.get(claim.mechanism)
    if found is None:
        return "unknown", "unknown"
    return f"{found.seconds:.1f}" if found.seconds >= 0.1 else "< 0.1", _size(found.file_bytes)


def _size(memory: int) -> str:
    size = float(memory)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.0f} GiB"


@options.grouped
def release(
    data: options.Data,
    out: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="Where to save, as in adult.conspectus.")],
    questions: options.Questions,
    spending: options.Spending,
    schema: options.SchemaOrRecords = None,
    mechanism: MechanismName = AUTO,
    objective: options.Objective = None,
    setting: options.Settings = None,
    ledger: options.TableLedger = None,
    study: options.StudyName = "",
    by: options.AskedBy = "",
    rows: options.DeclaredRows = None,
    within_bins: Annotated[
        float | None,
        typer.Option(
            "--within-bins",
            metavar="SHARE",
            help="The share of the budget, as in 0.1, for the mean and the spread of values inside bins.",
        ),
    ] = None,
    without_questions: Annotated[
        bool, typer.Option("--without-questions", help="Leave the questions out of the file, which then is smaller.")
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Answer a workload about a table under a budget, and save a synopsis that is safe to publish."""
    from conspectus.privacy.guarantee import Budget

    Budget(**spending.budget)  # refused before any file is opened
    options.check_mechanism(mechanism, (AUTO, *OFFLINE), ONLINE, command="session")
    able = [name for name, entry in OFFLINE.items() if entry.by_itself]
    if without_questions and mechanism not in able:
        named = ", or ".join(able)
        raise options.OptionError(
            f"--without-questions needs a synopsis that answers by itself: choose --mechanism {named}"
        )
    settings = options.settings_of(setting or ())
    check_name(out)
    declared = questions.schema(schema)
    asked = questions.workload(declared)
    inputs = (data, schema, ledger, *questions.files)
    book = named_ledger(ledger, study, by)
    with (
        cs.open_table(data, declared if schema is not None else None) as table,
        destination(out, inputs=inputs) as part,
        shown(quiet or as_json) as progress,
    ):
        made = cs.release(
            table,
            asked,
            mechanism=mechanism,
            objective=objective,
            within_bins=within_bins,
            ledger=book,
            rows=rows,
            progress=progress,
            **dataclasses.asdict(spending),
            **settings,
        )
        made.save(part, questions=not without_questions)
    if as_json:
        printing.as_json(release_json(made, out))
    else:
        show_release(made, out)


def show_release(made: Release, out: Path) -> None:
    """What was released, in words."""
    from conspectus.releases.planning import share

    printing.line(f"{_released(made)}.")
    pairs = [("guarantee", str(dataclasses.replace(made.guarantee, warnings=())))]
    claim, rows = made.claim, made.total.divisor
    if claim is not None:
        typical = (
            f"about {share(claim.expected_mean / rows)} of the rows on average, "
            f"{share(claim.expected_max / rows)} at worst"
        )
        pairs.append(("expected error", f"{typical} (typical, not promised)"))
        pairs += [("rows", note) for note in claim.notes if note == ROWS_ASSUMED]
        if claim.bound is not None and not claim.bound.vacuous:
            bound = claim.bound
            proved = f"at most {bound.value:.4f} with probability {bound.probability:g}, by {bound.theorem}"
            pairs.append(("proved error", proved))
    pairs.append(("certificate", printing.certificate_text(made)))
    pairs += [("warning", warning) for warning in made.guarantee.warnings]
    pairs.append(("saved", str(out)))
    printing.facts(pairs)
    if made.chooses:
        show_winners(made)


def _released(made: Release) -> str:
    """How many answers there are, and of how many questions."""
    asked = f"{made.questions:,} question{'s' if made.questions != 1 else ''}"
    if not made.chooses:
        return f"Released {made.answered:,} answer{'s' if made.answered != 1 else ''} with {made.mechanism}"
    found = len(made.winners)
    if not made.parameters["counts"]:
        return f"Released which {found:,} of {asked} {made.mechanism} found, without their counts"
    return f"Released {found:,} answer{'s' if found != 1 else ''} with {made.mechanism}, which looked at {asked}"


def show_winners(made: Release) -> None:
    """The questions with the largest counts, as a table, best first."""
    from conspectus.releases.answer import standing_notes
    from conspectus.releases.winners import found

    lines = [(str(place), one.question, one.counted, one.between) for place, one in enumerate(found(made, 0.95), 1)]
    printing.table(("", "question", "count", "95% interval"), lines, right=(0, 2))
    printing.notes(standing_notes(made.schema))


def release_json(made: Release, out: Path) -> dict[str, Any]:
    """What was released, for a program; the answers themselves are in the file."""
    claim, rows = made.claim, made.total.divisor
    return {
        "mechanism": made.mechanism,
        "queries": made.questions,
        "answered": made.answered,
        "guarantee": printing.guarantee_json(made.guarantee),
        "expected_max": None if claim is None else claim.expected_max / rows,
        "expected_mean": None if claim is None else claim.expected_mean / rows,
        "notes": [] if claim is None else list(claim.notes),
        "proved": None if claim is None or claim.bound is None else dataclasses.asdict(claim.bound),
        "certificate": printing.certificate_json(made),
        "parameters": dict(made.parameters),
        "warnings": list(made.guarantee.warnings),
        "saved": str(out),
    }
