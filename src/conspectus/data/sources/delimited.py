"""CSV files, read so that no row decides how another one is read.

Nothing is guessed from the rows: every field is text, the separator comes from the header line, a short line is filled
with missing values and surplus fields are dropped. Blank lines are no rows, an empty field is missing, and spaces
around a value do not count. The file must be well-formed in one respect: a quotation mark that opens a field is closed
again.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO, cast

from conspectus.data.sources.origin import Origin, SourceError, connect, quoted, text

SEPARATORS = (",", ";", "\t", "|")
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_LONGEST_HEADER = 1 << 24


def is_delimited(path: Path) -> bool:
    """Whether the name of a file says that it is a CSV file."""
    return path.name.casefold().endswith(SUFFIXES)


def open_delimited(path: Path, wanted: Collection[str], *, memory_limit: str | None = None) -> Origin:
    """A CSV file with a header line that names the wanted columns."""
    separator, header = read_header(path, wanted)
    readable, remove = as_utf8(path)
    connection, close = connect(memory_limit=memory_limit)
    query = f"SELECT * FROM {reader(readable, separator, len(header))}"

    def close_both() -> None:
        close()
        remove()

    names = {name: f"c{position}" for position, name in enumerate(header)}
    return Origin(lambda: connection.cursor().sql(query), names, close=close_both)


def reader(path: Path, separator: str, fields: int) -> str:
    """The DuckDB table function that reads a file as texts named c0, c1, …"""
    columns = ", ".join(f"'c{position}': 'VARCHAR'" for position in range(fields))
    return (
        f"read_csv({text(str(path))}, auto_detect = false, header = true, delim = {text(separator)}, quote = '\"', "
        f"escape = '\"', columns = {{{columns}}}, null_padding = true, strict_mode = false, parallel = false)"
    )


def named_reader(path: Path, wanted: Collection[str], types: dict[str, str]) -> str:
    """A SELECT of a file's columns under their own names, each of the type that the schema gives it, else text.

    Unreadable values become NULL. The types come from the schema, so no value changes how another one is read.
    """
    separator, header = read_header(path, wanted)
    columns = []
    for position, name in enumerate(header):
        field = f"trim(c{position}, ' ' || chr(9) || chr(13) || chr(10))"
        kind = types.get(name)
        columns.append(f"{f'TRY_CAST({field} AS {kind})' if kind else field} AS {quoted(name)}")
    return f"SELECT {', '.join(columns)} FROM {reader(path, separator, len(header))}"


def read_header(path: Path, wanted: Collection[str]) -> tuple[str, list[str]]:
    """The separator and the names of the first line: the separator that finds the most wanted names.

    What the first line says is shown only once it has proved to be a header by naming at least one wanted column.
    """
    try:
        with _open(path) as raw:
            start = raw.read(_LONGEST_HEADER)
    except (OSError, EOFError) as problem:
        reason = getattr(problem, "strerror", None) or "damaged"
        raise SourceError(f'"{path.name}" cannot be read ({reason}): check the file') from None
    best: tuple[int, str, list[str]] = (0, ",", [])
    lines = start.decode("utf-8-sig", errors="replace")
    for separator in SEPARATORS:
        try:
            fields = next(csv.reader(io.StringIO(lines, newline=""), delimiter=separator), [])
        except csv.Error:
            continue
        names = [field.strip() for field in fields]
        found = len(set(names) & set(wanted))
        if found > best[0]:
            best = (found, separator, names)
    found, separator, names = best
    if not found:
        raise SourceError(
            f'"{path.name}" does not start with a header line that names the columns of the schema: '
            "write the names of its columns into a first line"
        )
    if twice := next((name for name in wanted if names.count(name) > 1), None):
        raise SourceError(f'"{path.name}" has two columns "{twice}": rename one of them')
    return separator, names


def as_utf8(path: Path) -> tuple[Path, Callable[[], None]]:
    """The file itself when it is UTF-8, else a private copy in which each wrong byte reads as U+FFFD, and its removal.

    A value with U+FFFD is missing. Without the copy one wrong byte of one person would stop the release.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with _open(path) as raw:
            while block := raw.read(1 << 22):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        return path, lambda: None
    except UnicodeDecodeError:
        pass
    except (OSError, EOFError):
        raise SourceError(f'"{path.name}" cannot be read to its end: check that it is complete') from None
    folder = tempfile.TemporaryDirectory(prefix="conspectus-", ignore_cleanup_errors=True)
    copy = Path(folder.name) / "rows.csv"
    patient = codecs.getincrementaldecoder("utf-8")(errors="replace")
    with _open(path) as raw, copy.open("wb") as clean:
        while block := raw.read(1 << 22):
            clean.write(patient.decode(block).encode())
        clean.write(patient.decode(b"", final=True).encode())
    return copy, folder.cleanup


def _open(path: Path) -> IO[bytes]:
    if path.name.casefold().endswith(".gz"):
        return cast(IO[bytes], gzip.open(path, "rb"))
    return path.open("rb")


def open_unknown(path: Path) -> Origin:
    """A CSV file for an owner who has no schema yet: the separator is the one that splits its first line the most."""
    with _open(path) as raw:
        lines = raw.read(_LONGEST_HEADER).decode("utf-8-sig", errors="replace")
    header: list[str] = []
    for separator in SEPARATORS:
        names = [name.strip() for name in next(csv.reader(io.StringIO(lines, newline=""), delimiter=separator), [])]
        if len(names) > len(header):
            header = names
    return open_delimited(path, [name for name in header if header.count(name) == 1])
