"""`ask`, `export`, `synthesize` and `report`: everything that reads a release and touches no table again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import conspectus as cs

from . import options, printing
from .asking import exit_with, said_to, show
from .outputs import destination, kind_of
from .session_commands import ask_session
from .session_sources import sources_of

if TYPE_CHECKING:
    from conspectus.releases.release import Release
    from conspectus.stability.value_release import ValueRelease
    from conspectus.tabular import ResultTable

TABLES = (".csv", ".parquet")

Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="A file that ends in .csv or .parquet.")]


def ask(
    words: Annotated[
        list[str],
        typer.Argument(metavar='OUT "predicate" …', help="A release, and predicates: age >= 30 AND sex = 'Female'."),
    ],
    confidence: options.Confidence = 0.95,
    snap: options.Snap = False,
    session: Annotated[
        Path | None,
        typer.Option("--session", metavar="FILE", help="Ask this session, in place of OUT: new questions may spend."),
    ] = None,
    data: options.SessionData = None,
    schema: options.SchemaToo = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Buy each answer of the session outright, at the price of a surprise.")
    ] = False,
    ledger: options.SessionLedger = None,
    as_json: options.Json = False,
) -> None:
    """Answer predicates, each with its interval and what it rests on: from a release, which spends nothing, or from a
    live session. Of several, each is answered or refused by itself; the exit code is 2 if one was refused."""
    if session is not None:
        opened = sources_of(session, data, schema, ledger, option="--data ")
        ask_session(session, words, opened, confidence=confidence, snap=snap, measure=measure, as_json=as_json)
        return
    out, *predicates = words
    if not predicates:
        raise options.OptionError("write at least one predicate after the release, as in age >= 30 AND sex = 'Female'")
    if data is not None or schema is not None or ledger is not None or measure:
        raise options.OptionError(
            "--data, --schema, --ledger and --measure belong to --session: a release has no table"
        )
    from conspectus.releases.answer import checked_confidence, standing_notes

    release = cs.load(out)
    checked_confidence(confidence)
    said = said_to(predicates, lambda predicate: release.ask(predicate, confidence=confidence, snap=snap))
    if as_json:
        printing.as_json(
            {"answers": [one.json for one in said], "guarantee": printing.guarantee_json(release.guarantee)}
        )
    else:
        show(said, standing=standing_notes(release.schema))
        printing.line(f"Under {release.guarantee}.")
    exit_with(said)


def export(
    out: options.Stored,
    output: Output,
    table: Annotated[
        str | None, typer.Option("--table", metavar="COLUMNS", help="The columns: sex,age, or a JSON list.")
    ] = None,
    confidence: options.Confidence = 0.95,
    as_json: options.Json = False,
) -> None:
    """Publish a table of a release: integer counts with intervals, and a mark on cells too noisy to print; without
    COLUMNS the sums, means, variances and covariances that were released, or the winners of top, with theirs."""
    from conspectus.releases.answer import checked_confidence
    from conspectus.releases.moments_inside import moments_table
    from conspectus.releases.winners import winners_table
    from conspectus.tabular import write_table

    kind = kind_of(output, TABLES)
    with destination(output, inputs=[out]) as part:
        release = cs.load(out)
        if table is not None:
            made = _cells(release, options.columns_of(table), confidence)
        elif release.chooses:
            made = winners_table(release, checked_confidence(confidence))
        elif release.counts.moments:
            made = moments_table(release.counts, checked_confidence(confidence))
        else:
            raise options.OptionError("name the columns of a table: --table sex,age")
        write_table(made.to_arrow(), part, kind)
    if table is None:
        what = "winner" if release.chooses else "number"
        if as_json:
            printing.as_json({f"{what}s": made.num_rows, "notes": list(made.notes), "saved": str(output)})
            return
        bought = not release.chooses or release.parameters["counts"]
        ends = "with intervals" if bought else "without counts, which were not bought,"
        printing.line(f"Wrote {made.num_rows:,} {what}{'s' if made.num_rows != 1 else ''} {ends} to {output}.")
        printing.notes(made.notes)
        return
    noisy = sum(made["too_noisy"].to_pylist())
    if as_json:
        notes = {"notes": list(made.notes)}
        printing.as_json({"cells": made.num_rows, "too_noisy": noisy, **notes, "saved": str(output)})
    else:
        printing.line(f"Wrote {made.num_rows:,} cells to {output}, {noisy:,} of them marked as too noisy to print.")
        printing.notes(made.notes)


def _cells(release: Release, columns: list[str], confidence: float) -> ResultTable:
    """A table of a release; where winners alone have counts, the refusal says how to get these."""
    from conspectus.synopses.synopsis import CannotAnswer

    try:
        return release.table(columns, confidence=confidence)
    except CannotAnswer as problem:
        if not release.chooses:
            raise
        raise CannotAnswer(f"{problem}. Without --table the winners are written") from problem


def synthesize(
    out: options.Stored,
    rows: Annotated[int, typer.Option("-n", "--rows", metavar="ROWS", min=0, help="How many rows to make.")],
    output: Output,
    public_seed: Annotated[
        int | None, typer.Option("--public-seed", min=0, metavar="SEED", help="Make the same rows again.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Make synthetic rows in the schema's own values; they are nobody's records. Users of pairs come as pairs."""
    from conspectus.releases.answer import standing_notes
    from conspectus.tabular import write_table

    kind = kind_of(output, TABLES)
    with destination(output, inputs=[out]) as part:
        release = cs.load(out)
        paired = release.schema.unit.kind == "pairs"
        made = (release.synthetic_pairs if paired else release.synthetic)(rows, public_seed=public_seed)
        write_table(made, part, kind)
    notes = standing_notes(release.schema)
    if as_json:
        facts = {"rows": made.num_rows, "columns": made.column_names, "notes": list(notes)}
        printing.as_json({**facts, "saved": str(output)})
        return
    what = f"{rows:,} synthetic users as {made.num_rows:,} pairs" if paired else f"{made.num_rows:,} synthetic rows"
    printing.line(f"Wrote {what} to {output}.")
    printing.notes(notes)


def report(
    out: options.Stored,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="A file that ends in .html.")],
    ledger: Annotated[
        str | None, typer.Option("--ledger", metavar="L", help="Show what this ledger says, too.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="WHO", help="Who answers for the release.")] = None,
    purpose: Annotated[str | None, typer.Option("--purpose", metavar="TEXT", help="What the release is for.")] = None,
) -> None:
    """Write one HTML page for an ethics board: what was released, under what guarantee, in words and pictures."""
    from conspectus.releases.release_file import HoldsValues
    from conspectus.report import write_report

    kind_of(output, (".html", ".htm"))
    with destination(output, inputs=[out, ledger]) as part:
        kept = None if ledger is None else cs.Ledger.open(ledger)
        made: Release | ValueRelease
        try:
            made = cs.load(out)
        except HoldsValues:
            made = cs.load_value(out)
        write_report(made, part, ledger=kept, source=out, owner=owner, purpose=purpose)
    printing.line(f"Wrote the report to {output}.")
