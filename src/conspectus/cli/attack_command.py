"""`attack`: reconstruction and membership on made tables, beside the bound on any attacker."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conspectus.mechanisms.registry import OFFLINE, ONLINE

from . import options, printing
from .outputs import destination, kind_of
from .progress import shown

if TYPE_CHECKING:
    from conspectus.attacks import AttackResult


def attack(
    mechanism: Annotated[
        list[str] | None,
        typer.Option("--mechanism", metavar="M", help="Who releases; repeatable. Five of them unless told."),
    ] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option("--epsilon", metavar="E", help="The ε to try; repeatable. 0.1 to 1,000.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--attack", metavar="A", help="differencing, exhaustive, linear or membership; repeatable. All unless told."
        ),
    ] = None,
    delta: Annotated[float, typer.Option("--delta", metavar="D", help="The δ of every release but laplace's.")] = 1e-6,
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Tables that are made for each line.")] = 4,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Where the made tables come from.")] = 0,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT", help="Where to draw the picture, as in attacks.svg.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Attack releases of tables that it makes: what reconstruction and membership inference get right at each ε, beside
    what the promise allows to any attacker. No table of yours is read."""
    for name in mechanism or ():
        options.check_mechanism(name, tuple(OFFLINE), ONLINE, command="session")
    from conspectus import attacks
    from conspectus.attacks.contest import EPSILONS, MECHANISMS
    from conspectus.attacks.targets import TARGETS

    if out is not None:
        kind_of(out, (".svg",))
    with shown(quiet or as_json) as progress:
        wanted = attacks.run(
            mechanism or MECHANISMS,
            epsilons=epsilon or EPSILONS,
            attacks=kind or tuple(TARGETS),
            delta=delta,
            runs=runs,
            public_seed=seed,
            progress=progress,
        )
        results = list(wanted)
    if out is not None:
        with destination(out) as part:
            part.write_text(attacks.picture(results), encoding="utf-8")
    if as_json:
        printing.as_json({"results": [dataclasses.asdict(result) for result in results]})
    else:
        _show(results)
        if out is not None:
            printing.line(f"Drew the picture to {out}.")


def _show(results: list[AttackResult]) -> None:
    """A line for each mechanism and attack, a column for each ε, and the bound below."""
    epsilons = list(dict.fromkeys(result.epsilon for result in results))
    lines = list(dict.fromkeys((result.attack, result.mechanism) for result in results))
    found = {(result.attack, result.mechanism, result.epsilon): result for result in results}
    rows = [
        (attack, mechanism, *(_share(found[attack, mechanism, epsilon].success) for epsilon in epsilons))
        for attack, mechanism in lines
    ]
    loosest = {e: max(result.bound for result in results if result.epsilon == e) for e in epsilons}
    rows.append(("any attacker", "at most", *(_share(loosest[e]) for e in epsilons)))
    titles = ("attack", "against", *(f"ε = {epsilon:g}" for epsilon in epsilons))
    printing.table(titles, rows, right=tuple(range(2, len(titles))))
    refused = {result.mechanism: result.reason for result in results if result.reason}
    printing.facts(list(refused.items()))
    printing.paragraph(
        "Shares of right guesses about people's secrets, which are fair coins: who knows nothing gets 50 %. By chance "
        "a share may pass the bound: it is of a few hundred guesses at most."
    )


def _share(success: float | None) -> str:
    return "refused" if success is None else f"{100 * success:.1f} %"
