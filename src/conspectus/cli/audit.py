"""`audit`: an empirical lower bound on ε for each door, against the claim."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from . import options, printing
from .progress import shown

PROJECT = tuple(f"project-{form}-laplace" for form in ("sparse-1", "sparse-2", "dense-3"))
PROJECT += tuple(f"project-{form}-gaussian" for form in ("sparse-2", "dense-3"))
KEYS = ("stable-keys-own", "stable-keys-counts")
MEASURE = ("measure-laplace", "measure-gaussian")
# A mechanism composes acts of these doors and touches the table in no other way: an audit of it is an audit of them.
DOORS: dict[str, tuple[str, ...]] = {
    "laplace": ("measure-laplace",),
    "gaussian": ("measure-gaussian",),
    "projection": MEASURE,
    "mwem": ("select", *MEASURE),
    "iterative": ("select", *MEASURE),
    "boosting": ("boosting", *MEASURE),
    "small-db": ("net-listed", "net-enumerated", "net-laminar", *MEASURE),
    "sparse-project": (*PROJECT, *MEASURE),
    "stable-histogram": (*KEYS, *MEASURE),
}


def audit(
    mechanism: Annotated[
        str | None,
        typer.Option("--mechanism", metavar="M", help="Audit the doors that this mechanism uses, or one door."),
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", min=1000, metavar="N", help="Plays on each of two tables.")
    ] = 20_000,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Attack every door on worst-case tables: the empirical ε stays below the claim, that of a broken twin does not."""
    doors: tuple[str | None, ...] = (None,) if mechanism is None else doors_of(mechanism)
    from conspectus import audit as auditing

    with shown(quiet or as_json) as progress:

        def tell(what: str) -> None:
            if progress is not None:
                progress(what, 0, None)

        results = [result for door in doors for result in auditing.run(door, trials, tell)]
    stands = all(result.passed and result.twin_caught for result in results)
    if as_json:
        found = [
            {**dataclasses.asdict(result), "passed": result.passed, "twin_caught": result.twin_caught}
            for result in results
        ]
        printing.as_json({"passed": stands, "alpha": auditing.ALPHA, "results": found})
    else:
        titles = ("door", "neighbours", "claimed ε", "ε at least", "broken twin", "ε at least", "")
        rows = [
            (
                result.name,
                result.neighbours,
                f"{result.claimed:.4g}",
                f"{result.lower_bound:.4g}",
                result.twin,
                f"{result.twin_bound:.4g}",
                "stands" if result.passed and result.twin_caught else "FAILS" if result.twin_caught else "NO POWER",
            )
            for result in results
        ]
        printing.table(titles, rows, right=(2, 3, 5))
        print(f"Each line errs with probability {auditing.ALPHA:g} at most.")
    if not stands:
        raise typer.Exit(1)


def doors_of(name: str) -> tuple[str, ...]:
    """The doors that a mechanism uses, or the one door of this name."""
    single = (*MEASURE, "select", "net", "boosting", "above-threshold", *PROJECT, *KEYS)
    doors = {door: (door,) for door in single}
    known = {**doors, **DOORS}
    if name not in known:
        raise options.OptionError(f'nothing to audit is called "{name}": choose among {", ".join(known)}')
    return known[name]
