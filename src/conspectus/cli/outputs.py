"""Files that a command writes: checked before any work, whole or not at all, and never over an input."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from conspectus.real_path import real_path


class OutputError(ValueError):
    """A place where the output cannot or must not be written."""


def kind_of(path: Path, kinds: Iterable[str]) -> str:
    """The ending of a file name, which decides its format."""
    name = path.name.casefold()
    if found := next((kind for kind in kinds if name.endswith(kind) and name != kind), None):
        return found
    raise OutputError(f"{path.name} has no ending that is written here: name a file that ends in {' or '.join(kinds)}")


# A release is one zip file under any name, but a name that promises a table or a page would mislead.
_MISLEADING = (".csv", ".csv.gz", ".tsv", ".parquet", ".pq", ".json", ".html", ".toml", ".sqlite", ".db")


def check_name(path: Path) -> None:
    """Refuse a name that promises another kind of file than that of a release."""
    if path.name.casefold().endswith(_MISLEADING):
        raise OutputError(
            f"{path.name} is no name for a release, which is one file of its own kind: try {path.stem}.conspectus"
        )


@contextmanager
def destination(path: Path, *, inputs: Iterable[Path | str | None] = ()) -> Iterator[Path]:
    """A temporary file beside the destination, which takes its name when the block has ended well.

    It is made at once: a place that cannot be written to is refused before anything is read or spent.
    """
    final = real_path(path, OutputError)
    if final.is_dir():
        raise OutputError(f"{path} is a folder: name a file in it")
    if final.exists() and not final.is_file():
        raise OutputError(f"{path} is no ordinary file: name a file")
    for given in inputs:
        if given is not None and _same(final, given):
            raise OutputError(f"{path} is an input of this command: write the output elsewhere")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{final.name}.", suffix=".part", dir=final.parent)
    except OSError as problem:
        raise OutputError(
            f"{path} cannot be written ({problem.strerror}): name a folder that exists and is yours"
        ) from None
    os.close(handle)
    part = Path(name)
    try:
        yield part
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        os.replace(part, final)
    finally:
        part.unlink(missing_ok=True)


def _same(final: Path, given: Path | str) -> bool:
    try:
        return final.samefile(given)
    except (OSError, ValueError):  # it does not exist, or is a SELECT and no path
        return False
