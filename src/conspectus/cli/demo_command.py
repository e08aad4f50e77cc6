"""`demo`: the whole story on data that it makes. Every step runs the very command that it shows."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from . import printing
from .outputs import OutputError

Run = Callable[[Sequence[str]], int]
"""What runs one command and returns its exit code."""

QUESTION = "diagnosis = 'heart' AND smoker AND age BETWEEN 58 AND 77"
BUDGET = ("--epsilon", "1", "--delta", "1e-6")


def demo(
    context: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="Where to leave the files; a fresh one by default."),
    ] = None,
) -> None:
    """The whole story on data that it makes: from a table to answers that are safe to publish, in under a minute."""
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="conspectus-demo-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        occupied = any(folder.iterdir())
    except OSError as problem:
        raise OutputError(f"{folder} cannot be used ({problem.strerror}): name another folder") from None
    if occupied:
        raise OutputError(f"{folder} is not empty: name a folder that is new")
    with contextlib.chdir(folder):
        _story(Path.cwd(), context.obj)


def _story(folder: Path, run: Run) -> None:
    from .people import ROWS, write_people

    def command(*arguments: str) -> int:
        """Show a command and run it, as a shell would."""
        typed = (f'"{word}"' if "'" in word else shlex.quote(word) for word in arguments)
        printing.line()
        printing.line(f"$ conspectus {' '.join(typed)}")
        return run(arguments)

    _say(f"A hospital has a table of {ROWS:,} patients (made by this demo) and wants to publish answers about them.")
    people = write_people(Path())
    _say("First its owner declares the columns. A schema is public, and nothing in it comes from the rows.")
    command("schema", "check", "patients.toml")
    _say("A ledger caps all that will ever be released about this table.")
    command("ledger", "init", "patients.ledger", "--schema", "patients.toml", "--epsilon", "1.2", "--delta", "1e-6")
    _say("Which mechanism suits all marginals of three columns? A plan reads no row and spends nothing.")
    asked = ("--schema", "patients.toml", "--marginals", "3", *BUDGET)
    command("plan", "--rows", str(ROWS), *asked)
    _say("The release itself: the one step that touches the rows, through noise alone.")
    command("release", "patients.csv", *asked, "--ledger", "patients.ledger", "-o", "patients.conspectus")
    _say("Anyone may now ask the published file. Tables and synthetic rows come from it, too, and cost nothing more.")
    command("export", "patients.conspectus", "--table", "diagnosis,smoker", "-o", "table.csv")
    _show("table.csv", 6)
    command("synthesize", "patients.conspectus", "-n", "1000", "-o", "synthetic.csv")
    _show("synthetic.csv", 4)
    _say("An ethics board gets one page that says what was released and what it promises.")
    command("report", "patients.conspectus", "--ledger", "patients.ledger", "-o", "report.html")
    _say("The same release again would pass the cap, and is refused before anything is spent.")
    code = command("release", "patients.csv", *asked, "--ledger", "patients.ledger", "-o", "again.conspectus")
    printing.line(f"(exit code {code}: the budget says no)")
    command("ledger", "show", "patients.ledger")
    _say("At last, one private answer, its interval and the guarantee:")
    command("ask", "patients.conspectus", QUESTION)
    truth = _truth(people.to_pydict())
    _say(f"(The truth, known only because these people are made: {truth / people.num_rows:.4f}.) Files are in {folder}")


def _truth(people: dict[str, list[object]]) -> int:
    columns = (people[name] for name in ("diagnosis", "smoker", "age"))
    return sum(
        diagnosis == "heart" and bool(smoker) and isinstance(age, int) and 58 <= age <= 77
        for diagnosis, smoker, age in zip(*columns)
    )


def _say(text: str) -> None:
    printing.line()
    printing.paragraph(text)


def _show(path: str, lines: int) -> None:
    """The first lines of a file that a command wrote."""
    with open(path, encoding="utf-8") as text:
        for _ in range(lines):
            printing.line("  " + text.readline().rstrip())
    printing.line("  …")
