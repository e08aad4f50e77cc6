"""`ledger init`, `ledger show`, `ledger study` and `ledger retire`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import conspectus as cs
from conspectus.server_address import is_server

from . import options, printing
from .outputs import destination, kind_of
from .prompt import agreed

if TYPE_CHECKING:
    from conspectus.privacy.ledger.ledger import Ledger

LedgerPlace = Annotated[
    str, typer.Argument(metavar="L", help="The ledger's file, or postgresql://user@host/database?ledger=NAME.")
]


def init(
    path: LedgerPlace,
    schema: options.SchemaFile,
    epsilon: options.Epsilon = None,
    delta: options.Delta = 0.0,
    rho: options.Rho = None,
    neighbours: options.Neighbours = None,
    aside: Annotated[
        float,
        typer.Option(
            "--aside",
            metavar="SHARE",
            help="The share of δ set aside for published keys, which have a δ of their own, as in 0.5.",
            rich_help_panel=options.BUDGET,
        ),
    ] = 0.0,
    role: Annotated[
        str | None,
        typer.Option("--role", metavar="ROLE", help="In a database: who may use it, to read lines and to add some."),
    ] = None,
) -> None:
    """Make a ledger: a cap on everything that is ever released about one table."""
    from conspectus.privacy.guarantee import Budget
    from conspectus.releases.planning import neighbours_of

    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    declared = cs.Schema.load(schema)
    made = cs.Ledger.create(
        path,
        budget=budget,
        neighbours=neighbours_of(neighbours, declared),
        unit=str(declared.unit),
        schema_fingerprint=declared.fingerprint,
        table=declared.name,
        aside=aside,
        role=role,
    )
    printing.line(f'Made {made.path if is_server(path) else path}, the ledger of "{declared.name}".')
    printing.facts([("it keeps", str(made.guarantee()))])


def named_ledger(ledger: str | None, study: str, by: str) -> Ledger | None:
    """The ledger that a command names, in the name of a study and a person."""
    if ledger is None:
        if study or by:
            raise options.OptionError("--study and --by are written into a ledger: give --ledger, too")
        return None
    return cs.Ledger.open(ledger).for_study(study, by=by)


def show(
    path: LedgerPlace,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE.svg", help="Draw what was spent over time, as a picture of its own."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show what was spent under a ledger, by what and for which studies, how fast, and what is left."""
    from conspectus.report.burn_picture import burn_picture

    ledger = cs.Ledger.open(path)
    if picture is not None:
        kind_of(picture, (".svg",))
        with destination(picture, inputs=[path]) as part:
            part.write_text(burn_picture(ledger.burn_rate(), table=ledger.table, alone=True) + "\n", encoding="utf-8")
    if as_json:
        printing.as_json(ledger_json(ledger))
    else:
        show_ledger(ledger)


def study(
    path: LedgerPlace,
    name: Annotated[str, typer.Argument(metavar="STUDY", help="What releases name it by, with --study.")],
    purpose: Annotated[str, typer.Option("--purpose", metavar="TEXT", help="What it is for, in a sentence.")],
    epsilon: options.Epsilon = None,
    delta: options.Delta = 0.0,
    rho: options.Rho = None,
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="Who declares it.")] = "",
) -> None:
    """Declare a study under a ledger: what it is for, and the most that it may spend.

    From the first study on every release under the ledger names one. Declared again, the newest cap counts.
    """
    from conspectus.privacy.guarantee import Budget, printed

    ledger = cs.Ledger.open(path)
    budget = None if epsilon is None and rho is None else Budget(epsilon=epsilon, delta=delta, rho=rho)
    made = ledger.declare_study(name, purpose=purpose, budget=budget, by=by)
    printing.line(f'Declared the study "{made.name}" under the ledger of "{ledger.table}".')
    spent = f"{_sign(ledger)} = {printed(float(made.spent), 6)}"
    printing.facts([("its cap", _study_cap(ledger, made)), ("spent", spent)])


def retire(
    path: LedgerPlace,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for whoever reads it later.")],
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="Who retires it.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether this is meant.")] = False,
) -> None:
    """Close a ledger for good: nothing more is released about its table, and nothing undoes that."""
    ledger = cs.Ledger.open(path)
    if not yes and not agreed(f'Retire the ledger of "{ledger.table}" for good?'):
        raise options.OptionError("nothing was retired, as nobody said yes: answer y, or give --yes")
    ledger.retire(reason, by=by)
    printing.line(f'Retired the ledger of "{ledger.table}": nothing more is released under it.')


def show_ledger(ledger: Any) -> None:
    """A ledger as a few facts and a table of its releases."""
    from conspectus.privacy.guarantee import printed

    sign = _sign(ledger)
    spending = ledger.spending()
    cap, spent = float(ledger.cap), float(spending.price)
    of_delta = left_of_delta = ""
    if ledger.delta_cap:
        aside, gone = float(ledger.delta_cap), float(spending.delta)
        of_delta = f", and δ = {printed(gone, 6)} of {aside:.6g} set aside for published keys ({gone / aside:.1%})"
        left_of_delta = f", δ = {float(ledger.delta_cap - spending.delta):.6g}"
    printing.line(f'The ledger of "{ledger.table}"')
    printing.facts(
        [
            ("keeps", str(ledger.guarantee())),
            ("spent", f"{sign} = {printed(spent, 6)} of {cap:.6g} ({spent / cap:.1%}){of_delta}"),
            ("left", _left(ledger, spending, left_of_delta)),
            ("burn rate", str(ledger.burn_rate())),
        ]
    )
    with_delta = bool(ledger.delta_cap)
    lines = ledger.to_arrow().to_pylist()
    asked = [name for name in ("study", "by") if any(line[name] for line in lines)]
    rows = [
        (
            line["made"],
            line["label"],
            printed(line["price"], 6),
            *((printed(line["delta"], 6),) if with_delta else ()),
            f"{line['acts']:,}",
            *(line[name] for name in asked),
            "settled" if line["settled"] else "open",
        )
        for line in lines
    ]
    if rows:
        titles = ("when (UTC)", "release", sign, *(("δ",) if with_delta else ()), "acts", *asked, "")
        printing.table(titles, rows, right=tuple(range(2, len(titles) - 1 - len(asked))))
    studies = ledger.studies()
    if studies:
        printing.table(
            ("study", "purpose", f"{sign} spent", "cap"),
            [(one.name, one.purpose, printed(float(one.spent), 6), _study_cap(ledger, one)) for one in studies],
            right=(2, 3),
        )


def _left(ledger: Any, spending: Any, of_delta: str) -> str:
    if ledger.retired is not None:
        closed = ledger.retired
        said = f"nothing: it was retired on {closed.made.partition('T')[0]}"
        return f"{said}{f' by {closed.by}' if closed.by else ''}, because: {closed.retired}"
    left = f"{_sign(ledger)} = {float(ledger.cap - spending.price):.6g}{of_delta}"
    if ledger.currency == "pure":
        return left
    return f"{left}; a release at δ = {ledger.shown_delta:g} may ask for ε = {ledger.epsilon_remaining:g}"


def _sign(ledger: Any) -> str:
    return "ε" if ledger.currency == "pure" else "ρ"


def _study_cap(ledger: Any, study: Any) -> str:
    return "the ledger's" if study.cap is None else f"{_sign(ledger)} = {float(study.cap):.6g}"


def ledger_json(ledger: Any) -> dict[str, Any]:
    """A ledger for a program; prices are exact rationals as texts beside their floats."""
    spending, closed, rate = ledger.spending(), ledger.retired, ledger.burn_rate()
    return {
        "table": ledger.table,
        "unit": ledger.unit,
        "neighbours": ledger.neighbours,
        "currency": ledger.currency,
        "cap": float(ledger.cap),
        "spent": float(spending.price),
        "remaining": float(ledger.remaining),
        "epsilon_remaining": ledger.epsilon_remaining,
        "shown_delta": ledger.shown_delta,
        "delta_cap": float(ledger.delta_cap),
        "delta_spent": float(spending.delta),
        "delta_remaining": float(ledger.delta_remaining),
        "exact": {
            "cap": str(ledger.cap),
            "spent": str(spending.price),
            "delta_cap": str(ledger.delta_cap),
            "delta_spent": str(spending.delta),
        },
        "guarantee": str(ledger.guarantee()),
        "retired": None if closed is None else {"made": closed.made, "reason": closed.retired, "by": closed.by},
        "burn_rate": {
            "per_month": rate.per_month,
            "empty": None if rate.empty is None else rate.empty.date().isoformat(),
        },
        "studies": [
            {
                "name": study.name,
                "purpose": study.purpose,
                "cap": None if study.cap is None else float(study.cap),
                "spent": float(study.spent),
                "by": study.by,
            }
            for study in ledger.studies()
        ],
        "releases": ledger.to_arrow().to_pylist(),
    }
