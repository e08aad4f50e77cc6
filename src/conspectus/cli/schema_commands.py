"""`schema draft` and `schema check`: for the owner of the data, and NOT PRIVATE."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

import conspectus as cs

from . import options, printing
from .outputs import destination, kind_of

NOT_PRIVATE = "NOT PRIVATE: this was read from the data; it is for the owner of the table alone"


def draft(
    data: options.Data,
    pairs: Annotated[
        str | None, typer.Option("--pairs", metavar="USER,ITEM", help="DATA holds pairs: the names of its two columns.")
    ] = None,
    null: Annotated[
        list[str] | None, typer.Option("--null", metavar="TEXT", help="A text that means missing; repeatable.")
    ] = None,
    bins: Annotated[
        int | None, typer.Option("--bins", metavar="N", min=2, help="The most bins of a column of numbers.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="A file that ends in .toml, in place of printing."),
    ] = None,
) -> None:
    """Draft a schema from the data, to edit before use. NOT PRIVATE: its values come from the data."""
    from conspectus.data.sources.drafting import NO_HEADER, draft_pairs
    from conspectus.data.sources.drafting import draft as drafted

    if output is not None:
        kind_of(output, (".toml",))
    if pairs is None:
        text = drafted(data, nulls=null or (), bins=bins)
    elif null or bins:
        raise options.OptionError("--null and --bins are for columns of values: leave them out with --pairs")
    else:
        names = options.columns_of(pairs)
        if len(names) != 2:
            raise options.OptionError("--pairs takes two names of columns, as in --pairs user,item")
        text = draft_pairs(data, *names)
    printing.line(NOT_PRIVATE, aside=True)
    if NO_HEADER[0] in text.partition("\n")[0]:
        printing.line(f"Warning: {'; '.join(NO_HEADER)}.", aside=True)
    if output is None:
        printing.as_toml(text)
        return
    with destination(output, inputs=[data]) as part:
        part.write_text(text, encoding="utf-8")
    remains = "replace what is not public knowledge, then remove the line draft = true"
    printing.line(f"Wrote a draft to {output}: {remains}.")


def check(
    schema: Annotated[Path, typer.Argument(metavar="schema.toml", help="The schema file.")],
    data: Annotated[str | None, typer.Argument(metavar="[DATA]", help="A table to hold against it.")] = None,
    as_json: options.Json = False,
) -> None:
    """Check a schema file, and with DATA count what would be clamped or recoded. NOT PRIVATE with DATA."""
    from conspectus.data.domain import in_words

    declared = cs.Schema.load(schema)
    if data is None:
        if as_json:
            every = declared.domain.cells
            printing.as_json({**declared.to_dict(), "cells": every if every < 10**300 else in_words(every)})
            return
        size = f"{len(declared.columns)} columns, {in_words(declared.domain.cells)} cells"
        printing.line(f'"{declared.name}": {size}, unit: {declared.unit}')
        rows = [(column.name, column.kind, f"{column.size:,}", _some(column.labels)) for column in declared.columns]
        printing.table(("column", "type", "codes", "values"), rows, right=(2,))
        return
    from conspectus.data.sources import drafting as owner

    counts = owner.check(declared, data)
    lines, unit = owner.check_lines(declared, data), owner.check_unit(declared, data)
    if as_json:
        found = {"private": False, "columns": [dataclasses.asdict(count) for count in counts]}
        beyond = None if unit is None else {**dataclasses.asdict(unit), "dropped": unit.dropped}
        printing.as_json({**found, "lines": None if lines is None else dataclasses.asdict(lines), "unit": beyond})
        return
    printing.line(NOT_PRIVATE)
    cells = [(c.name, f"{c.rows:,}", f"{c.clamped:,}", f"{c.recoded:,}", f"{c.missing:,}") for c in counts]
    printing.table(("column", "rows", "clamped", "recoded", "missing"), cells, right=(1, 2, 3, 4))
    if lines is not None and (lines.odd_quotes or lines.wrong_fields or lines.too_long):
        printing.line(str(lines))
    if unit is not None:
        printing.paragraph(str(unit))


def _some(labels: tuple[str, ...]) -> str:
    shown = ", ".join(labels[:5])
    return shown if len(labels) <= 5 else f"{shown}, … {labels[-1]}"
