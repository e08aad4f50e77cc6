"""`ledger init` and `ledger show`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from conspectus.server_address import is_server

from . import options, printing

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
    import conspectus as cs
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
    print(f'Made {made.path if is_server(path) else path}, the ledger of "{declared.name}".')
    printing.facts([("it keeps", str(made.guarantee()))])


def show(path: LedgerPlace, as_json: options.Json = False) -> None:
    """Show what was spent under a ledger, by what, and what is left."""
    import conspectus as cs

    ledger = cs.Ledger.open(path)
    if as_json:
        printing.as_json(ledger_json(ledger))
    else:
        show_ledger(ledger)


def show_ledger(ledger: Any) -> None:
    """A ledger as a few facts and a table of its releases."""
    sign = "ε" if ledger.currency == "pure" else "ρ"
    spending = ledger.spending()
    cap, spent = float(ledger.cap), float(spending.price)
    of_delta = left_of_delta = ""
    if ledger.delta_cap:
        aside, gone = float(ledger.delta_cap), float(spending.delta)
        of_delta = f", and δ = {gone:.6g} of {aside:.6g} set aside for published keys ({gone / aside:.1%})"
        left_of_delta = f", δ = {float(ledger.delta_cap - spending.delta):.6g}"
    print(f'The ledger of "{ledger.table}"')
    printing.facts(
        [
            ("keeps", str(ledger.guarantee())),
            ("spent", f"{sign} = {spent:.6g} of {cap:.6g} ({spent / cap:.1%}){of_delta}"),
            ("left", f"{sign} = {float(ledger.cap - spending.price):.6g}{left_of_delta}{_in_epsilon(ledger)}"),
        ]
    )
    with_delta = bool(ledger.delta_cap)
    rows = [
        (
            line["made"],
            line["label"],
            f"{line['price']:.6g}",
            *((f"{line['delta']:.6g}",) if with_delta else ()),
            f"{line['acts']:,}",
            "settled" if line["settled"] else "open",
        )
        for line in releases_of(ledger)
    ]
    if rows:
        titles = ("when (UTC)", "release", sign, *(("δ",) if with_delta else ()), "acts", "")
        printing.table(titles, rows, right=tuple(range(2, len(titles) - 1)))


def _in_epsilon(ledger: Any) -> str:
    """What is left of ρ, as people ask for it."""
    if ledger.currency == "pure":
        return ""
    return f"; a release at δ = {ledger.shown_delta:g} may ask for ε = {ledger.epsilon_remaining:g}"


def releases_of(ledger: Any) -> list[dict[str, Any]]:
    """One line for every reservation: what it costs, its acts, and whether it was settled."""
    lines: list[dict[str, Any]] = ledger.to_arrow().to_pylist()
    return lines


def ledger_json(ledger: Any) -> dict[str, Any]:
    """A ledger for a program; prices are exact rationals as texts beside their floats."""
    spending = ledger.spending()
    return {
        "table": ledger.table,
        "unit": ledger.unit,
        "neighbours": ledger.neighbours,
        "currency": ledger.currency,
        "cap": float(ledger.cap),
        "spent": float(spending.price),
        "remaining": float(ledger.cap - spending.price),
        "epsilon_remaining": ledger.epsilon_remaining,
        "shown_delta": ledger.shown_delta,
        "delta_cap": float(ledger.delta_cap),
        "delta_spent": float(spending.delta),
        "delta_remaining": float(ledger.delta_cap - spending.delta),
        "exact": {
            "cap": str(ledger.cap),
            "spent": str(spending.price),
            "delta_cap": str(ledger.delta_cap),
            "delta_spent": str(spending.delta),
        },
        "guarantee": str(ledger.guarantee()),
        "releases": releases_of(ledger),
    }
