"""`value`: one value of a column."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

import conspectus as cs

from . import options, printing
from .ledger_commands import named_ledger
from .outputs import check_name, destination


@options.grouped
def value(
    data: options.Data,
    spending: options.Spending,
    schema: Annotated[Path, typer.Option("--schema", metavar="S", help="The schema file of the table.")],
    mode: Annotated[str | None, typer.Option("--mode", metavar="COLUMN", help="Its most common value.")] = None,
    median: Annotated[str | None, typer.Option("--median", metavar="COLUMN", help="Its median.")] = None,
    scale: Annotated[
        str | None, typer.Option("--interquartile-range", metavar="COLUMN", help="How wide its middle half is.")
    ] = None,
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism",
            metavar="M",
            help="auto; exponential; for a mode permute-and-flip or noisy-max; stable, for the exact value or nothing; "
            "for a median propose-test-release.",
        ),
    ] = "auto",
    within: Annotated[
        int | None,
        typer.Option("--within", metavar="N", min=1, help="For propose-test-release: how far a median may move."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT", help="Save it, for `conspectus report` and cs.load_value."),
    ] = None,
    ledger: options.TableLedger = None,
    study: options.StudyName = "",
    by: options.AskedBy = "",
    as_json: options.Json = False,
) -> None:
    """Release one value of a column under a budget: its mode, its median or its interquartile range."""
    from conspectus.privacy.guarantee import Budget

    Budget(**spending.budget)  # refused before any file is opened
    declared = cs.Schema.load(schema)
    makers = {"mode": cs.column_mode, "median": cs.column_median, "interquartile-range": cs.interquartile_range}
    given = {name: column for name, column in zip(makers, (mode, median, scale)) if column is not None}
    if len(given) != 1:
        raise options.OptionError("name one column, with --mode, --median or --interquartile-range")
    [(kind, column)] = given.items()
    wanted = makers[kind](declared, column)
    book = named_ledger(ledger, study, by)
    kept: AbstractContextManager[Path | None] = nullcontext()
    if output is not None:
        check_name(output)
        kept = destination(output, inputs=[data, schema, ledger])
    with cs.open_table(data, declared) as table, kept as place:
        facts = dataclasses.asdict(spending)
        made = cs.release_value(table, wanted, mechanism=mechanism, within=within, ledger=book, **facts)
        if place is not None:
            made.save(place)
    if as_json:
        printing.as_json(made.to_dict())
        return
    if output is not None:
        printing.line(f"Saved to {output}.")
    [found] = made.values
    printing.line(f"The {kind} of {found}")
    pairs = [("by", made.mechanism), ("guarantee", str(dataclasses.replace(made.guarantee, warnings=())))]
    pairs += [("note", note) for note in (found.note, *made.notes) if note and found.value is not None]
    pairs += [("warning", warning) for warning in made.guarantee.warnings]
    printing.facts(pairs)
