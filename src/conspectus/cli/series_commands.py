"""`series open`, `series release`, `series show` and `series end`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import conspectus as cs
from conspectus.mechanisms.registry import OFFLINE, ONLINE

from . import options, printing
from .ledger_commands import named_ledger
from .outputs import check_name, destination
from .progress import shown
from .release_commands import AUTO, MechanismName, release_json, show_release

SeriesFile = Annotated[Path, typer.Argument(metavar="SERIES", help="The file of the series, as in visits.series.")]
SeriesLedger = Annotated[
    str | None, typer.Option("--ledger", metavar="L", help="The ledger of the series, where it was moved.")
]


@options.grouped
def open_(
    path: SeriesFile,
    periods: Annotated[
        str,
        typer.Option(
            "--periods", metavar="N|NAMES", help="How many releases, or their names: 2026-01,2026-02,2026-03."
        ),
    ],
    ledger: Annotated[str, typer.Option("--ledger", metavar="L", help="The ledger of this table.")],
    schema: options.SchemaFile,
    questions: options.Questions,
    spending: options.Spending,
    shares: Annotated[
        str | None,
        typer.Option("--shares", metavar="SIZES", help="How the budget is cut, as in 2,1,1; equal parts unless told."),
    ] = None,
    study: options.StudyName = "",
    by: options.AskedBy = "",
    mechanism: MechanismName = AUTO,
    objective: options.Objective = None,
    setting: options.Settings = None,
) -> None:
    """Plan releases of a table that grows, such as one a month, and reserve the budget of all of them."""
    options.check_mechanism(mechanism, (AUTO, *OFFLINE), ONLINE, command="session")
    declared = cs.Schema.load(schema)
    facts: dict[str, Any] = {"mechanism": mechanism, "neighbours": spending.neighbours, "objective": objective}
    series = cs.open_series(
        declared,
        questions.workload(declared),
        periods=int(periods.lstrip("0")[:9] or 0) if periods.isdecimal() else options.columns_of(periods),
        ledger=named_ledger(ledger, study, by) or ledger,
        path=path,
        shares=None if shares is None else _sizes(shares),
        **spending.budget,
        **facts,
        **options.settings_of(setting or ()),
    )
    printing.line(f'Planned {len(series.periods):,} releases of "{declared.name}" in {path}.')
    printing.facts([("all of them keep", str(series.guarantee)), ("first period", series.periods[0])])


def _sizes(text: str) -> list[float]:
    try:
        return [float(size) for size in text.split(",")]
    except ValueError:
        raise options.OptionError(f"--shares takes numbers, one for each period, as in 2,1,1, not {text!r}") from None


def release(
    path: SeriesFile,
    data: options.Data,
    out: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="Where to save, as in march.conspectus.")],
    period: Annotated[
        str | None, typer.Option("--period", metavar="P", help="The period, to be sure; the next one by default.")
    ] = None,
    skip: Annotated[bool, typer.Option("--skip", help="Leave out the periods before it for good.")] = False,
    rows: options.DeclaredRows = None,
    ledger: SeriesLedger = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Release the next period of a series, from the table as it is now, and save it."""
    check_name(out)
    series = cs.resume_series(path, ledger=ledger)
    with (
        cs.open_table(data, series.schema) as table,
        destination(out, inputs=(path, data, ledger)) as part,
        shown(quiet or as_json) as progress,
    ):
        made = series.release(table, period, skip=skip, rows=rows, progress=progress)
        made.save(part)
    if as_json:
        printing.as_json(release_json(made, out))
        return
    parameters = made.parameters
    printing.line(f"Period {parameters['period']}, {parameters['place']} of {parameters['periods']}.")
    show_release(made, out)


def show(path: SeriesFile, ledger: SeriesLedger = None, as_json: options.Json = False) -> None:
    """Show which periods of a series were released, and what each may spend."""
    series = cs.resume_series(path, ledger=ledger)
    lines = series.to_arrow().to_pylist()
    if as_json:
        kept = printing.guarantee_json(series.guarantee)
        printing.as_json({"periods": lines, "next": series.next, "ended": series.ended, "guarantee": kept})
        return
    sign = "ε" if series.budget_of(series.periods[0]).rho is None else "ρ"
    printing.line(repr(series).strip("<>"))
    printing.facts([("all of them keep", str(series.guarantee)), ("next", series.next or "none")])
    rows = [(one["period"], one["state"], one["when"] or "", f"{one['share']:.6g}", str(one["acts"])) for one in lines]
    printing.table(("period", "", "when (UTC)", sign, "acts"), rows, right=(3, 4))


def end(path: SeriesFile, ledger: SeriesLedger = None) -> None:
    """End a series for good: what its other periods would have spent goes back to the ledger."""
    series = cs.resume_series(path, ledger=ledger)
    series.end()
    printing.line(f"Ended: {repr(series).strip('<>')}. What was not spent is back in the ledger.")
