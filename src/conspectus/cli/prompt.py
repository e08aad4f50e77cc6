"""What is typed at a prompt, question by question; or what comes through a pipe, one question a line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

from conspectus.plain_text import plain

from . import printing

HELP = ("help", "?", "\\h", "\\?")
END = ("exit", "quit", "\\q")
MOST_COLUMNS = 40


def questions(name: str, said: Sequence[str], *, selects: bool = False) -> Iterator[str]:
    """The questions that are put.

    At a terminal `help` and `?` are answered here, and `exit`, `quit` and Ctrl-D end it. A SELECT may go over several
    lines there, until one that ends in a semicolon, or an empty one. Through a pipe each line is a question, without
    empty lines and # comments.

    Args:
        name: What is asked about; it stands in the prompt.
        said: The lines that `help` says.
        selects: Whether SELECTs are asked for, and not predicates.

    Returns:
        The questions, one by one, as they are typed.
    """
    if not sys.stdin.isatty():
        for line in sys.stdin:
            text = line.strip()
            if text and not text.startswith("#"):
                yield text
        return
    with suppress(ImportError):
        import readline  # noqa: F401 (typed lines can be edited, and come back)
    with suppress(EOFError):
        while (text := _typed(name, selects=selects)) not in END:
            if text in HELP:
                for line in said:
                    printing.line(line)
            elif text:
                yield text
        return
    printing.line()


def _typed(name: str, *, selects: bool) -> str:
    """One question, or a word for the prompt itself; a SELECT over as many lines as it takes."""
    name = plain(name)
    text = input(f"{name}> ").strip()
    while selects and text.casefold().startswith(("select", "with")) and not text.endswith(";"):
        more = input(f"{'':{len(name)}}| ").strip()
        if not more:
            break
        text += f"\n{more}"
    word = text.rstrip(";").strip().casefold()
    return word if word in (*HELP, *END) else text


def agreed(question: str) -> bool:
    """Whether someone says yes to it; no is what anything else means."""
    try:
        return input(f"{plain(question)} [y/N] ").strip().casefold() in ("y", "yes")
    except EOFError:
        return False


def listed(columns: list[tuple[str, str]]) -> str:
    """Columns and their types, for `help`."""
    told = ", ".join(f'"{name}" ({kind})' for name, kind in columns[:MOST_COLUMNS])
    return told + (f" and {len(columns) - MOST_COLUMNS:,} more" if len(columns) > MOST_COLUMNS else "")
