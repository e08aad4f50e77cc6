"""`ledger init` and `ledger show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import options, printing

LedgerFile = Annotated[Path, typer.Argument(metavar="L", help="The ledger's file.")]


def init(
    path: LedgerFile,
    schema: options.SchemaFile,
    epsilon: options.Epsilon = None,
    delta: options.Delta = 0.0,
    rho: options.Rho = None,
    neighbours: options.Neighbours = None,
) -> None:
    """Make a ledger: a cap on everything that is ever released about one table."""
    import conspectus as cs
    from conspectus.planning import relation_of
    from conspectus.privacy.guarantee import Budget

    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    declared = cs.Schema.load(schema)
    made = cs.Ledger.create(
        path,
        budget=budget,
        neighbours=relation_of(neighbours, declared),
        unit=str(declared.unit),
        schema_fingerprint=declared.fingerprint,
        table=declared.name,
    )
    print(f'Made {path}, the ledger of "{declared.name}".')
    printing.facts([("it keeps", str(made.guarantee()))])


def show(path: LedgerFile, as_json: options.Json = False) -> None:
    """Show what was spent under a ledger, by what, and what is left."""
    import conspectus as cs

    ledger = cs.Ledger.open(path)
    if as_json:
        printing.as_json(ledger_json(ledger))
        return
    show_ledger(ledger)


def show_ledger(ledger: Any) -> None:
    """A ledger as a few facts and a table of its releases."""
    sign = "ε" if ledger.currency == "pure" else "ρ"
    cap, spent = float(ledger.cap), float(ledger.spent)
    printing.heading(f'The ledger of "{ledger.table}"')
    printing.facts(
        [
            ("keeps", str(ledger.guarantee())),
            ("spent", f"{sign} = {spent:.6g} of {cap:.6g} ({spent / cap:.1%})"),
            ("left", f"{sign} = {float(ledger.remaining):.6g}"),
        ]
    )
    rows = [
        (
            line["made"],
            line["label"],
            f"{line['price']:.6g}",
            f"{line['acts']:,}",
            "settled" if line["settled"] else "open",
        )
        for line in releases_of(ledger)
    ]
    if rows:
        printing.table(("when (UTC)", "release", sign, "acts", ""), rows, right=(2, 3))


def releases_of(ledger: Any) -> list[dict[str, Any]]:
    """One line for every reservation: what it costs, its acts, and whether it was settled."""
    lines: dict[int, dict[str, Any]] = {}
    for entry in ledger.entries():
        if entry.kind == "reserve":
            lines[entry.number] = {
                "number": entry.number,
                "made": entry.made.replace("T", " ").removesuffix("+00:00"),
                "label": entry.label,
                "price": float(entry.price),
                "acts": 0,
                "settled": False,
            }
        elif entry.kind == "debit":
            lines[entry.reservation]["acts"] += 1
        else:
            lines[entry.reservation] |= {"settled": True, "price": float(entry.price)}
    return list(lines.values())


def ledger_json(ledger: Any) -> dict[str, Any]:
    """A ledger for a program; prices are exact rationals as texts beside their floats."""
    return {
        "table": ledger.table,
        "unit": ledger.unit,
        "neighbours": ledger.neighbours,
        "currency": ledger.currency,
        "cap": float(ledger.cap),
        "spent": float(ledger.spent),
        "remaining": float(ledger.remaining),
        "exact": {"cap": str(ledger.cap), "spent": str(ledger.spent)},
        "guarantee": str(ledger.guarantee()),
        "releases": releases_of(ledger),
    }
