"""Many files as one table: folders, patterns and hive partitions, here or in an object store.

A folder holds the rows of one table in files of one kind, CSV or Parquet. A folder inside it that is called `year=2024`
says what the column `year` holds in all rows below it, as text: that is the value of these rows, and it is read as
such, whatever other folders are called. How many files there are, and which rows lie together, means nothing: every row
is read by itself, and all of them in one pass.

A file may have a type of its own for a column. Whoever wrote it may have guessed that type from the values: of integers
a missing one makes floats, and where nobody has a value there is no type, or no such column at all. So one person may
decide what the file says of everybody else in it. Each file is read as what it is, and what it says is only how its
values are written: a column that it lacks is one in which nobody has a value, and a file that has none of the columns,
or nothing at all in it, holds rows in which nobody has any.
"""

from __future__ import annotations

import fnmatch
import glob
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol, cast
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from conspectus.data.columns.arrays import TEXT, mended
from conspectus.data.columns.values import Nulls, canonical_texts, distinct_of, numbers
from conspectus.server_address import is_store, name_of

from .batches import cut
from .delimited import SUFFIXES as CSV
from .delimited import Delimited, is_delimited, read_header, unknown_names
from .lines import Tally
from .origin import Connection, Origin, SourceError, guarded
from .parquet import SUFFIXES as PARQUET
from .parquet import Parquet, check_twins, read_footer

_SYSTEMS = {
    "s3": "S3FileSystem",
    "gs": "GcsFileSystem",
    "gcs": "GcsFileSystem",
    "abfs": "AzureFileSystem",
    "abfss": "AzureFileSystem",
    "hdfs": "HadoopFileSystem",
}
_MARKS = "*?["
_KEY = re.compile(r"([^=/]+)=([^/]*)")
_ROWS = 1 << 16
_TEXTS = pa.dictionary(pa.int32(), TEXT)
_AHEAD = 1 << 20  # bytes that are fetched from a store at a time
_NOTHING = "__HIVE_DEFAULT_PARTITION__"


class StoredFile(Protocol):
    """A file here or elsewhere; a path is one."""

    @property
    def name(self) -> str: ...

    def open(self, mode: Any = "rb", /) -> Any: ...


@dataclass(frozen=True)
class ObjectFile:
    """A file in an object store."""

    store: Any
    place: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.place).name

    def open(self, mode: str = "rb", /) -> IO[bytes]:
        return cast(IO[bytes], io.BufferedReader(self.store.open_input_file(self.place), _AHEAD))


@dataclass(frozen=True)
class Part:
    """One file, and what its folders say of all its rows."""

    file: Delimited | Parquet
    keys: dict[str, str | None]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, those that its folders give last."""
        own = self.file.header if isinstance(self.file, Delimited) else self.file.names
        return (*own, *(key for key in self.keys if key not in own))

    def columns(self, wanted: Sequence[str]) -> Iterator[tuple[list[pa.Array], int]]:
        """One pass over some columns in the types that this file has for them, with the number of rows."""
        # A folder's word stands for the value, as in other engines: the files were written under it.
        inside = {name: self.names.index(name) for name in wanted if name in self.names and name not in self.keys}
        if isinstance(self.file, Parquet) and not self.file.names:
            return  # a footer without columns states no rows
        for batch in self.file.reader(sorted(set(inside.values())) or [0]):
            rows = batch.num_rows
            yield (
                [
                    _settled(batch.column(f"c{inside[name]}"))
                    if name in inside
                    else pa.repeat(pa.scalar(self.keys.get(name), TEXT), rows)
                    for name in wanted
                ],
                rows,
            )


@dataclass(frozen=True)
class Parts:
    """Files that hold the rows of one table, each in types of its own."""

    files: tuple[Part, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, in the order in which they appear; an empty first line names none."""
        return tuple(dict.fromkeys(name for part in self.files for name in part.names if part.names != ("",)))

    def batches(self, positions: Sequence[int], rows: int) -> Iterator[pa.RecordBatch]:
        """One pass over the columns at some positions, at most so many rows at a time, file by file as each is."""
        for part in self.files:
            for columns, count in part.columns([self.names[position] for position in positions]):
                held = columns or [pa.nulls(count)]
                names = [f"c{position}" for position in positions] or ["c"]
                yield from cut(pa.RecordBatch.from_arrays(held, names=names), rows)

    def texts(self, positions: Sequence[int], numeric: Collection[str] = ()) -> pa.RecordBatchReader:
        """One pass over the canonical texts of the columns at some positions, named c0, c1, …, but over the numbers
        that the values of the `numeric` columns stand for.

        Guarantee: the text and the number of a value depend on that value alone, and on no type.
        """
        read = [_numbered if self.names[position] in numeric else _written for position in positions]
        types = [pa.float64() if each is _numbered else _TEXTS for each in read]
        kind = pa.schema([(f"c{position}", type_) for position, type_ in zip(positions, types)])
        found = (
            pa.RecordBatch.from_arrays([each(column) for each, column in zip(read, batch.columns)], schema=kind)
            for batch in self.batches(positions, _ROWS)
        )
        return pa.RecordBatchReader.from_batches(kind, found)


def _settled(column: pa.Array) -> pa.Array:
    """A column of a file as a pass hands it out; the texts of a CSV file have been mended."""
    return pc.cast(column, TEXT) if pa.types.is_string(column.type) else column


def _numbered(column: pa.Array) -> pa.Array:
    found, valid = numbers(column, Nulls())
    return pa.array(found.astype(np.float64), mask=None if valid is None else ~valid)


def _written(column: pa.Array) -> pa.Array:
    """A dictionary of canonical texts: written out for every row, one long text might ask for any memory."""
    distinct, places = distinct_of(column, mended=True)
    indices = pa.array(places.astype(np.int32), mask=places == len(distinct))
    return pa.DictionaryArray.from_arrays(indices, canonical_texts(distinct))


def is_many(source: str | Path) -> bool:
    """Whether a place is a folder, a pattern, or in an object store."""
    return is_store(source) or Path(source).is_dir() or (not Path(source).exists() and _pattern(str(source)))


def open_many(source: str | Path, wanted: Collection[str] | None, *, memory_limit: str | None = None) -> Origin:
    """All files of a folder, a pattern or an address, as one table; without `wanted`, whatever columns there are.

    A file that lacks a wanted column, or all of them, is read as one in which nobody has a value for it: whether there
    is such a file may be decided by a single row. Refused is what no file has.

    Guarantee: the codes of a row, its id and its fingerprint depend on that row alone: not on the type that its file
    gives a column, not on which file it is in, and not on what the other files are.
    """
    what, found = _files(source)
    kinds = {is_delimited(Path(file.name)) for file, _ in found}
    if len(kinds) > 1:
        raise SourceError(f"{what} holds CSV and Parquet files: name those of one kind, as in folder/*.parquet")
    with guarded(what):
        files = _opened([file for file, _ in found], wanted, what)
        parts = Parts(tuple(Part(file, keys) for (_, keys), file in zip(found, files)))
    if not (set(parts.names) if wanted is None else set(wanted) & set(parts.names)):
        raise SourceError(
            f"{what} holds no file with any of the columns of the schema: check the path, and that CSV files start "
            "with a line that names their columns"
        )
    connection = Connection(memory_limit=memory_limit)

    def relation(columns: Collection[str]) -> Any:
        positions = [position for position in range(len(parts.names)) if f"c{position}" in columns]
        return connection.cursor().from_arrow(parts.texts(positions or [0]))

    def batches(columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        return parts.batches([int(column.removeprefix("c")) for column in columns], rows)

    counted = [part.file.rows for part in parts.files if isinstance(part.file, Parquet)]
    lines = [part.file for part in parts.files if isinstance(part.file, Delimited)]

    def tally() -> Tally:
        return sum((file.tally() for file in lines), Tally())

    return Origin(
        connection,
        relation,
        {name: f"c{place}" for place, name in enumerate(parts.names)},
        tally=tally if lines else None,
        rows=None if lines else sum(counted),
        batches=batches,
    )


def matching_parquet(pattern: Path) -> Parts:
    """The Parquet files here that a pattern matches, without what their folders say."""
    what = f'"{pattern.name}"'
    paths = sorted(path for path in map(Path, glob.glob(str(pattern), recursive=True)) if path.is_file())
    if not paths:
        raise SourceError(f"there is no file {what}: check the path")
    return Parts(tuple(Part(read_footer(path, what), {}) for path in paths))


def _opened(files: Sequence[StoredFile], wanted: Collection[str] | None, what: str) -> Iterator[Delimited | Parquet]:
    for file in files:
        if is_delimited(Path(file.name)):
            yield read_header(file, unknown_names(file) if wanted is None else wanted, among_others=True)
        else:
            footer = read_footer(file, what)
            check_twins(footer.names, footer.names if wanted is None else wanted, what)
            yield footer


def _files(source: str | Path) -> tuple[str, list[tuple[StoredFile, dict[str, str | None]]]]:
    """What to call a place, and its files in the order of their names."""
    if is_store(source):
        what, places, store = _in_store(str(source))
        # Each with its place in all of the store, for what its folders say, and its place below the address.
        files: list[tuple[StoredFile, str, str]] = [(ObjectFile(store, at), at, inside) for at, inside in places]
    else:
        path = Path(source).absolute()
        what = f'"{path.name}"'
        if path.is_dir():
            # Links are followed once.
            paths = sorted(each for each in path.rglob("*") if each.is_file())
            files = [(each, inside := str(each.relative_to(path)), inside) for each in paths]
        else:
            paths = sorted(each for each in map(Path, glob.glob(str(path), recursive=True)) if each.is_file())
            files = [(each, str(each), each.name) for each in paths]
    found = [(file, keys_of_folders(place)) for file, place, inside in files if _is_data(inside)]
    if not found:
        endings = ", ".join((*CSV, *PARQUET))
        raise SourceError(f"there is no file in {what} that ends in {endings}: check the path")
    return what, found


def _is_data(inside: str) -> bool:
    """Whether a file below a folder holds rows of it: what other programs put beside the data is passed over."""
    parts = PurePosixPath(inside).parts
    return not any(map(is_hidden, parts)) and parts[-1].casefold().endswith((*CSV, *PARQUET))


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name, or below it, is none of the table's, as in other engines."""
    unfinished = name.startswith(".") or name.endswith("._COPYING_")
    return unfinished or (name.startswith("_") and "=" not in name)


def keys_of_folders(place: str) -> dict[str, str | None]:
    """What the folders of a file say: `year=2024` that its column year holds 2024.

    Names may be any bytes, as values may: those that are no UTF-8 are unreadable, and stay apart from one another.
    """
    keys: dict[str, str | None] = {}
    for part in PurePosixPath(place).parts[:-1]:
        if said := _KEY.fullmatch(part):
            key, value = (unquote(each, errors="surrogateescape") for each in said.groups())
            keys[mended(key)] = value_of_folder(value)
    return keys


def value_of_folder(said: str) -> str | None:
    """The value that a folder or a catalogue names, or None where it names none."""
    return None if said == _NOTHING else mended(said)


def _in_store(address: str) -> tuple[str, list[tuple[str, str]], Any]:
    """The files at an address of an object store, and where they are below it: one, all below it, or all that match."""
    what = f'"{name_of(address)}"'
    scheme = address.partition("://")[0].casefold()
    cure = "check the address, and that the keys of the store are where its own tools look for them"
    if scheme == "hdfs":
        cure = (
            "check the address, and that Hadoop's own libraries are installed, with JAVA_HOME and HADOOP_HOME set and "
            "CLASSPATH as `hadoop classpath --glob` prints it"
        )
    if not _has(_SYSTEMS[scheme]):
        raise SourceError(
            f"{what} lies in a store that the installed pyarrow was built without ({_SYSTEMS[scheme]}): install a "
            "build that has it, as with pip install --force-reinstall pyarrow on Linux or macOS, or mount the store as "
            "a folder"
        )
    try:
        # Options of an address may hold keys: nothing of what the library says is shown.
        fixed, pattern = _fixed(address)
        store, root = fs.FileSystem.from_uri(fixed)
        if pattern is None and store.get_file_info(root).type == fs.FileType.File:
            return what, [(root, PurePosixPath(root).name)], store
        listed = store.get_file_info(fs.FileSelector(root, recursive=True))
        places = sorted(each.path for each in listed if each.type == fs.FileType.File)
    except Exception:
        raise SourceError(f"{what} cannot be found in its store: {cure}") from None
    start = root.rstrip("/")
    found = [(place, place.removeprefix(start).strip("/")) for place in places]
    if pattern is not None:
        found = [
            (place, PurePosixPath(inside).name)
            for place, inside in found
            if _matches(inside.split("/"), pattern.split("/"))
        ]
    return what, found, store


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a place matches a pattern, as in a folder: a * stays within one name, and ** is any folders."""
    if not parts or not pattern:
        return not parts and not pattern
    if pattern[0] == "**" and len(pattern) > 1:
        return _matches(parts, pattern[1:]) or _matches(parts[1:], pattern)
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _has(system: str) -> bool:
    """Whether Arrow was built with a file system: one that is missing raises when it is asked for."""
    try:
        getattr(fs, system, None)
    except ImportError:
        return False
    return True


def _fixed(address: str) -> tuple[str, str | None]:
    """An address up to its first pattern, and the pattern; what stands behind ? are options."""
    scheme, _, rest = address.partition("://")
    place, mark, options = rest.partition("?")
    if "*" not in place and "[" not in place:
        return address, None
    parts = place.split("/")
    first = next(at for at, part in enumerate(parts) if "*" in part or "[" in part)
    return f"{scheme}://{'/'.join(parts[:first])}{mark}{options}", "/".join(parts[first:])


def _pattern(place: str) -> bool:
    return any(mark in place for mark in _MARKS)
