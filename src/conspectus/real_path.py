"""The one name of a file: absolute, and without links.

The danger is a name that leads nowhere: a loop of links, a name with a NUL in it, a working directory that is gone.
Python then raises errors of its own kinds, others in each version, and whoever typed the name is told of a fault of
ours. So every name is resolved here, and what cannot be is refused by an error of the room that asked.
"""

from __future__ import annotations

import os
from pathlib import Path


def real_path(path: str | Path, refused: type[ValueError]) -> Path:
    """The file that a name leads to, whether or not it exists; refused where the name leads nowhere."""
    try:
        found = Path(path).resolve()
        loop = found.is_symlink()  # later versions of Python leave a loop of links as it is
    except (OSError, RuntimeError, ValueError):
        loop = True
    if loop:
        raise refused(f"{path} leads nowhere, such as along a loop of links: name another file")
    return found


def as_text(name: str) -> str:
    """The name of a file as a text may hold it: a system takes any bytes for one, and what is not UTF-8 is replaced."""
    return os.fsencode(name).decode("utf-8", "replace")
