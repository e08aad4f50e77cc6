"""What is typed at a command line: refused where it is no text.

A system hands over bytes. Those that are not UTF-8 reach Python as halves of signs, which no file and no page can hold:
a command would end in an internal error once it writes them, after its work was done and paid for. The name of a file
may be of any bytes, and is left as it is.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .options import OptionError

PLACES = ("data", "ledger", "path", "words")
"""What is a text and may be the name of a file, or begin with one."""


def checked(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which refuses what is no text before it does anything."""
    names = list(inspect.signature(command).parameters)

    @functools.wraps(command)
    def careful(*values: Any, **given: Any) -> None:
        for name, value in (*zip(names, values), *given.items()):
            for one in value if isinstance(value, list | tuple) else [value]:
                _check(name, one)
        command(*values, **given)

    return careful


def _check(name: str, value: object) -> None:
    if not isinstance(value, str | Path):
        return
    if "\0" in str(value):
        raise OptionError(f"what was typed for {name} holds a NUL, which no file and no text may")
    if isinstance(value, str) and name not in PLACES and not _is_text(value):
        raise OptionError(
            f"what was typed for {name} is not UTF-8 text: type it anew, or mend the encoding of the script"
        )


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
