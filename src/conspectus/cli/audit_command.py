"""`audit`: an empirical lower bound on ε for each door, against the claim."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from conspectus.mechanisms.registry import OFFLINE, ONLINE
from conspectus.suggestions import did_you_mean

from . import options, printing

if TYPE_CHECKING:
    from conspectus.audit import AuditResult

TITLES = ("door", "neighbours", "claims ε", "at least", "twin's ε", "at least", "verdict", "the broken twin")
COMPOSITION = "composition"
BESIDE = (COMPOSITION, "stream", "local")
"""What no mechanism of a release or session uses."""
LINE = "{:<21} {:<10}  {:>8} {:>8}  {:>8} {:>8}  {:<8}  {}"


def audit(
    mechanism: Annotated[
        str | None,
        typer.Option("--mechanism", metavar="M", help=f"The doors of this mechanism, one door, or {COMPOSITION}."),
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", min=1000, max=10**8, metavar="N", help="Plays on each of two tables.")
    ] = 20_000,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Attack every door, and their composition, on worst-case tables: the empirical ε stays below the claim, that of a
    broken twin does not. Each line is printed as soon as it is found."""
    doors: tuple[str | None, ...] = (None,) if mechanism is None else doors_of(mechanism)
    from conspectus import audit as auditing

    if not as_json:
        printing.line(LINE.format(*TITLES))
    results: list[AuditResult] = []
    for door in doors:
        for result in auditing.run(door, trials, None if quiet or as_json else _tell):
            if not as_json:
                printing.passing("")
                printing.line(_line(result))
            results.append(result)
    stands = all(result.passed and result.twin_caught for result in results)
    if as_json:
        found = [
            {**dataclasses.asdict(result), "passed": result.passed, "twin_caught": result.twin_caught}
            for result in results
        ]
        printing.as_json({"passed": stands, "alpha": auditing.ALPHA, "results": found})
    else:
        printing.line(f"Each line errs with probability {auditing.ALPHA:g} at most.")
    if not stands:
        raise typer.Exit(1)


def _line(result: AuditResult) -> str:
    verdict = "stands" if result.passed and result.twin_caught else "FAILS" if result.twin_caught else "NO POWER"
    claims = (result.claimed, result.claimed if result.twin_claimed is None else result.twin_claimed)
    numbers = (claims[0], result.lower_bound, claims[1], result.twin_bound)
    shown = (f"{number:.4g}" for number in numbers)
    return LINE.format(result.name, result.neighbours, *shown, verdict, result.twin)


def _tell(what: str) -> None:
    """What is being attacked, until its result takes over the line."""
    printing.passing(f"{what} …")


def doors_of(name: str) -> tuple[str, ...]:
    """The doors that a mechanism uses, the one door of this name, or all whose names begin with it."""
    mechanisms = {name: entry.doors for name, entry in (*OFFLINE.items(), *ONLINE.items())}
    doors = dict.fromkeys(door for used in mechanisms.values() for door in used)
    beginnings = ["-".join(door.split("-")[:words]) for door in doors for words in range(1, door.count("-") + 1)]
    shared = {begins: (begins,) for begins in dict.fromkeys(beginnings) if beginnings.count(begins) > 1}
    known = shared | {door: (door,) for door in (*doors, *BESIDE)} | mechanisms
    if name not in known:
        right = did_you_mean(name, known)
        raise options.OptionError(f'nothing to audit is called "{name}"{right}; choose among {", ".join(known)}')
    return known[name]
