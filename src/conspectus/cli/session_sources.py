"""What a session may open when it goes on: what its owner names, or has seen and agreed to."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from conspectus.plain_text import plain
from conspectus.real_path import real_path

from . import printing
from .options import OptionError
from .prompt import agreed


@dataclass(frozen=True)
class Sources:
    """The table, the schema and the ledger of a session."""

    data: str
    schema: Path
    ledger: str


def sources_of(path: Path, data: str | None, schema: Path | None, ledger: str | None, *, option: str) -> Sources:
    """What the command names; its own ledger beside the session's file; and else what the file says, once agreed to.

    A session's file may come from anybody, and whatever it names is opened with the rights of whoever asks: another
    table, or a ledger whose budget is still whole. So its word is shown, and counts when a person at the terminal says
    yes; a program has to name everything. `option` is how the command spells the table.
    """
    from conspectus.sessions import opening as live

    terms = live.terms_of(path)
    file = real_path(path, OptionError)
    beside = file.with_name(file.name + live.SIDECAR)
    if ledger is None and beside.is_file():
        ledger = str(beside)
    said = {option: terms.source.get("data"), "--schema ": terms.source.get("schema"), "--ledger ": terms.ledger}
    for name, given in ((option, data), ("--schema ", schema), ("--ledger ", ledger)):
        if given is not None:
            del said[name]
    if None in said.values():
        raise OptionError(f"{path} does not know where its table is: give the data, --schema and --ledger")
    words = " ".join(f"{name}{shlex.quote(plain(str(value)))}" for name, value in said.items())
    if said and not _agreed(path, words):
        raise OptionError(
            f"the file of a session does not decide what is opened: read what it says, and name it yourself: {words}"
        )
    return Sources(
        str(said.get(option) if data is None else data),
        Path(str(said.get("--schema "))) if schema is None else schema,
        str(said.get("--ledger ")) if ledger is None else ledger,
    )


def _agreed(path: Path, words: str) -> bool:
    """Ask whoever sits at the terminal; nobody else is asked."""
    if not sys.stdin.isatty():
        return False
    printing.line(f"{path} would open: {words}")
    return agreed("Open this?")
