"""How far long work is: a bar on a terminal, plain lines elsewhere, on the error stream, never about the table."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import printing

Progress = Callable[[str, int, int | None], None]


@contextmanager
def shown(quiet: bool) -> Iterator[Progress | None]:
    """What to tell of progress: (what is done, how far, of how much)."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar() as tell:
            yield tell
    else:
        yield _lines()


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            far = f"{what} {done:,} of {total:,}" if total else what
            bar.update(tasks[what], completed=done, total=total, description=far)

        yield tell


def _lines() -> Progress:
    """One line when a stage begins and one at every quarter of it, where its length is known."""
    said: dict[str, int] = {}
    lock = threading.Lock()

    def tell(what: str, done: int, total: int | None) -> None:
        quarter = 4 * done // total if total else 0
        with lock:
            if said.get(what, -1) < quarter:
                said[what] = quarter
                share = f" {25 * quarter} % ({done:,} of {total:,})" if quarter else " …"
                printing.line(f"{what}{share}", aside=True)

    return tell
