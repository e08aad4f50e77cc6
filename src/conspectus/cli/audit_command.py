"""`audit`: an empirical lower bound on ε for each door, against the claim."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from conspectus.suggestions import did_you_mean

from . import options, printing

if TYPE_CHECKING:
    from conspectus.audit import AuditResult

TITLES = ("door", "neighbours", "claims ε", "at least", "twin's ε", "at least", "verdict", "the broken twin")
LINE = "{:<21} {:<10}  {:>8} {:>8}  {:>8} {:>8}  {:<8}  {}"

PROJECT = tuple(f"project-{form}-laplace" for form in ("sparse-1", "sparse-2", "dense-3"))
PROJECT += tuple(f"project-{form}-gaussian" for form in ("sparse-2", "dense-3"))
WATCHES = ("watch-one-threshold", "watch-restarted", "watch-ended", "watch-released")
KEYS = ("stable-keys-own", "stable-keys-counts", "stable-records-collision", "stable-records-tail")
MEASURE = ("measure-laplace", "measure-gaussian")
# A mechanism composes acts of these doors and touches the table in no other way: an audit of it is an audit of them.
DOORS: dict[str, tuple[str, ...]] = {
    "laplace": ("measure-laplace",),
    "gaussian": ("measure-gaussian",),
    "projection": MEASURE,
    "mwem": ("select", *MEASURE),
    "iterative": ("select", *MEASURE),
    "boosting": ("boosting", "functions", *MEASURE),
    "dual-query": ("dual-query", *MEASURE),
    "small-db": ("net-listed", "net-enumerated", "net-laminar", *MEASURE),
    "net": ("net-listed", "net-public", *MEASURE),
    "sparse-project": (*PROJECT, *MEASURE),
    "stable-histogram": (*KEYS, *MEASURE),
    # Online rules: watches over guesses, and a fresh measurement for each hit.
    "pmw": ("above-threshold", *WATCHES, *MEASURE),
    "sparse-mw": ("above-threshold", *WATCHES, *MEASURE),
    "median": ("above-threshold", *WATCHES, *MEASURE),
    "perceptron": ("above-threshold", *WATCHES, *MEASURE),
}


def audit(
    mechanism: Annotated[
        str | None,
        typer.Option("--mechanism", metavar="M", help="The doors of this mechanism, one door, or composition."),
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", min=1000, metavar="N", help="Plays on each of two tables.")
    ] = 20_000,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Attack every door, and their composition, on worst-case tables: the empirical ε stays below the claim, that of a
    broken twin does not. Each line is printed as soon as it is found."""
    doors: tuple[str | None, ...] = (None,) if mechanism is None else doors_of(mechanism)
    from conspectus import audit as auditing

    if not as_json:
        print(LINE.format(*TITLES), flush=True)
    results: list[AuditResult] = []
    for door in doors:
        for result in auditing.run(door, trials, None if quiet or as_json else _tell):
            if not as_json:
                _clear()
                print(_line(result), flush=True)
            results.append(result)
    stands = all(result.passed and result.twin_caught for result in results)
    if as_json:
        found = [
            {**dataclasses.asdict(result), "passed": result.passed, "twin_caught": result.twin_caught}
            for result in results
        ]
        printing.as_json({"passed": stands, "alpha": auditing.ALPHA, "results": found})
    else:
        print(f"Each line errs with probability {auditing.ALPHA:g} at most.")
    if not stands:
        raise typer.Exit(1)


def _line(result: AuditResult) -> str:
    verdict = "stands" if result.passed and result.twin_caught else "FAILS" if result.twin_caught else "NO POWER"
    claims = (result.claimed, result.claimed if result.twin_claimed is None else result.twin_claimed)
    numbers = (claims[0], result.lower_bound, claims[1], result.twin_bound)
    shown = (f"{number:.4g}" for number in numbers)
    return LINE.format(result.name, result.neighbours, *shown, verdict, result.twin)


def _tell(what: str) -> None:
    """What is being attacked, on a line that the result takes over; nothing where nobody looks."""
    if sys.stderr.isatty():
        print(f"{what} …", end="\r", file=sys.stderr, flush=True)


def _clear() -> None:
    if sys.stderr.isatty():
        print("\x1b[2K", end="\r", file=sys.stderr, flush=True)


def doors_of(name: str) -> tuple[str, ...]:
    """The doors that a mechanism uses, or the one door of this name."""
    others = ("select", "net", "boosting", "dual-query", "above-threshold", "watch", "project")
    keys = ("stable-keys", "stable-records", *KEYS)
    doors = {door: (door,) for door in (*MEASURE, "functions", *others, *WATCHES, *PROJECT, *keys, "composition")}
    known = {**doors, **DOORS}
    if name not in known:
        right = did_you_mean(name, known)
        raise options.OptionError(f'nothing to audit is called "{name}"{right}; choose among {", ".join(known)}')
    return known[name]
