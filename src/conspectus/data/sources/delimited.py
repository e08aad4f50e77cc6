"""CSV files, read so that no row decides how another one is read.

Each line after the header is read by itself, by the rule that `lines` states: **one line, one row**. Nothing is guessed
from the rows: every field is text, and the separator and the number of fields come from the header line, which is
public. The header line follows the same rule, and is refused where its quotation marks or its line ends are not plain.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from .lines import LONGEST, Tally, read_rows, split
from .origin import Connection, Origin, SourceError

SEPARATORS = (",", ";", "\t", "|")
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_DAMAGE = (OSError, EOFError, zlib.error)


def is_delimited(path: Path) -> bool:
    """Whether the name of a file says that it is a CSV file."""
    return path.name.casefold().endswith(SUFFIXES)


@dataclass(frozen=True)
class Delimited:
    """A CSV file whose header line has been read; it lies at a path, or in an object store."""

    path: Any
    separator: str
    header: tuple[str, ...]

    def reader(self, positions: Sequence[int] | None = None) -> pa.RecordBatchReader:
        """One pass over the columns at some positions, or over all, as texts named c0, c1, …"""
        places = range(len(self.header)) if positions is None else positions
        kind = pa.schema([(f"c{position}", pa.string()) for position in places])

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                with _open(self.path) as raw:
                    for rows in read_rows(raw, self.separator, len(self.header)):
                        yield pa.RecordBatch.from_arrays([rows.column(position) for position in places], schema=kind)
            except _DAMAGE:
                raise pa.ArrowInvalid("damaged") from None

        return pa.RecordBatchReader.from_batches(kind, ahead(batches()))

    def tally(self) -> Tally:
        """How many lines are odd. NOT PRIVATE: exact counts, for the owner alone."""
        try:
            with _open(self.path) as raw:
                return sum((rows.tally for rows in read_rows(raw, self.separator, len(self.header))), Tally())
        except _DAMAGE:
            raise SourceError(f'"{self.path.name}" cannot be read to its end: check that it is complete') from None


def open_delimited(path: Path, wanted: Collection[str], *, memory_limit: str | None = None) -> Origin:
    """A CSV file with a header line that names the wanted columns."""
    file = read_header(path, wanted)
    connection = Connection(memory_limit=memory_limit)
    names = {name: f"c{position}" for position, name in enumerate(file.header)}

    def relation(columns: Collection[str]) -> object:
        positions = [position for position in range(len(file.header)) if f"c{position}" in columns]
        return connection.cursor().from_arrow(file.reader(positions or [0]))

    return Origin(connection, relation, names, tally=file.tally)


def read_header(path: Any, wanted: Collection[str], *, among_others: bool = False) -> Delimited:
    """A file by its first line: its separator is the one that finds the most wanted names.

    What the first line says is shown only once it has proved to be a header by naming at least one wanted column. One
    file among others may name none: in it nobody has a value.
    """
    line = _first_line(path)
    tried = [(separator, *_names(line, separator)) for separator in SEPARATORS]
    separator, names, plain = max(tried, key=lambda each: len(set(each[1]) & set(wanted)))
    found = set(names) & set(wanted)
    if among_others and not found and b"\r" not in line:
        separator, names, _ = max(tried, key=lambda each: len(each[1]))
        return Delimited(path, separator, tuple(names))
    twice = next((name for name in wanted if names.count(name) > 1), None)
    rules = (
        (b"\r" in line, "has carriage returns within its header line: save it with line feeds as line ends"),
        (
            not found,
            "does not start with a header line that names the columns of the schema: "
            "write the names of its columns into a first line",
        ),
        (
            not plain,
            "has a quotation mark in its header line that encloses no whole name: write each name plainly, in one line",
        ),
        (twice is not None, f'has two columns "{twice}": rename one of them'),
    )
    for wrong, sentence in rules:
        if wrong:
            raise SourceError(f'"{path.name}" {sentence}')
    return Delimited(path, separator, tuple(names))


def open_unknown(path: Path) -> Origin:
    """A CSV file for an owner who has no schema yet: the separator is the one that splits its first line the most."""
    header = unknown_names(path)
    return open_delimited(path, [name for name in header if header.count(name) == 1])


def unknown_names(path: Any) -> list[str]:
    """The names in the first line of a CSV file without a schema."""
    line = _first_line(path)
    return max((_names(line, separator)[0] for separator in SEPARATORS), key=len)


def ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, of which the next one is read while the last one is used."""
    with ThreadPoolExecutor(1) as worker:
        coming = worker.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = worker.submit(next, batches, None)
            yield batch


def _names(line: bytes, separator: str) -> tuple[list[str], bool]:
    fields, plain = split(line, separator)
    return [field.strip() for field in fields], plain


def _first_line(path: Any) -> bytes:
    try:
        with _open(path) as raw:
            line = raw.readline(LONGEST)
    except _DAMAGE as problem:
        reason = getattr(problem, "strerror", None) or "damaged"
        raise SourceError(f'"{path.name}" cannot be read ({reason}): check the file') from None
    return line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")


def _open(path: Any) -> IO[bytes]:
    if path.name.casefold().endswith(".gz"):
        return cast(IO[bytes], gzip.open(path if isinstance(path, Path) else path.open(), "rb"))
    return cast(IO[bytes], path.open("rb"))
