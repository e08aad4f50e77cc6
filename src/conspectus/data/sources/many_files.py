"""Many files as one table: folders, patterns and hive partitions, here or in an object store.

A folder holds the rows of one table in files of one kind, CSV or Parquet, with the same columns. A folder inside it
that is called `year=2024` says what the column `year` holds in all rows below it, as text: that is the value of these
rows, and it is read as such, whatever other folders are called. How many files there are, and which rows lie together,
means nothing: every row is read by itself, and all of them in one pass.
"""

from __future__ import annotations

import fnmatch
import glob
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol, cast
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from conspectus.data.columns.arrays import TEXT

from .delimited import SUFFIXES as CSV
from .delimited import Delimited, is_delimited, read_header, unknown_names
from .lines import Tally
from .origin import Connection, Origin, SourceError, guarded
from .parquet import SUFFIXES as PARQUET
from .parquet import Parquet, check_twins, read_footers

_SYSTEMS = {
    "s3": "S3FileSystem",
    "gs": "GcsFileSystem",
    "gcs": "GcsFileSystem",
    "abfs": "AzureFileSystem",
    "abfss": "AzureFileSystem",
    "hdfs": "HadoopFileSystem",
}
STORES = tuple(f"{scheme}://" for scheme in _SYSTEMS)
_MARKS = "*?["
_KEY = re.compile(r"([^=/]+)=([^/]*)")
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
class _Part:
    """One file, and what its folders say of all its rows."""

    file: Delimited | Parquet
    keys: dict[str, str | None]

    @property
    def names(self) -> tuple[str, ...]:
        return self.file.header if isinstance(self.file, Delimited) else self.file.names


def is_store(source: object) -> bool:
    """Whether a text is an address in an object store."""
    return isinstance(source, str) and source.casefold().startswith(STORES)


def is_many(source: str | Path) -> bool:
    """Whether a place is a folder, a pattern, or in an object store."""
    return is_store(source) or Path(source).is_dir() or (not Path(source).exists() and _pattern(str(source)))


def open_many(source: str | Path, wanted: Collection[str] | None, *, memory_limit: str | None = None) -> Origin:
    """All files of a folder, a pattern or an address, as one table; without `wanted`, all columns of the first."""
    what, found = _files(source)
    kinds = {is_delimited(Path(file.name)) for file, _ in found}
    if len(kinds) > 1:
        raise SourceError(f"{what} holds CSV and Parquet files: name those of one kind, as in folder/*.parquet")
    with guarded(what):
        parts = [_Part(each, keys) for (_, keys), each in zip(found, _opened([f for f, _ in found], wanted, what))]
    names = (*parts[0].names, *(key for key in parts[0].keys if key not in parts[0].names))
    if any(set(part.names) | set(part.keys) != set(names) for part in parts):
        raise SourceError(f"{what} holds files with other columns than the first one's: write them alike")
    if wanted is not None:
        check_twins(parts[0].names, wanted, what)
    # A folder's word stands for the value, as in other engines: the files were written under it.
    kinds_of = _types(parts, names, what)
    connection = Connection(memory_limit=memory_limit)

    def reader(positions: Sequence[int]) -> pa.RecordBatchReader:
        places = list(positions) or [0]
        schema = pa.schema([(f"c{place}", kinds_of[place]) for place in places])

        def batches() -> Iterator[pa.RecordBatch]:
            for part in parts:
                yield from _batches(part, [names[place] for place in places], schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def relation(columns: Collection[str]) -> Any:
        return connection.cursor().from_arrow(reader([p for p in range(len(names)) if f"c{p}" in columns]))

    counted = [part.file.rows for part in parts if isinstance(part.file, Parquet)]
    lines = [part.file for part in parts if isinstance(part.file, Delimited)]

    def tally() -> Tally:
        return sum((file.tally() for file in lines), Tally())

    return Origin(
        connection,
        relation,
        {name: f"c{place}" for place, name in enumerate(names)},
        tally=tally if lines else None,
        rows=None if lines else sum(counted),
    )


def _opened(files: Sequence[StoredFile], wanted: Collection[str] | None, what: str) -> Iterator[Delimited | Parquet]:
    for file in files:
        if is_delimited(Path(file.name)):
            yield read_header(file, unknown_names(file) if wanted is None else wanted)
        else:
            yield read_footers([file], what)


def _types(parts: Sequence[_Part], names: Sequence[str], what: str) -> list[pa.DataType]:
    """The type in which each column is read: that of all files."""
    found = []
    for name in names:
        # A file in which nobody has a value has no type for it: one person's file must not decide for the others.
        kinds = {_kind(part, name) for part in parts} - {pa.null()}
        if len(kinds) > 1:
            raise SourceError(f'column "{name}" has several types in the files of {what}: write them alike')
        found.append(kinds.pop() if kinds else pa.null())
    return found


def _kind(part: _Part, name: str) -> pa.DataType:
    if name in part.keys:
        return TEXT
    if isinstance(part.file, Delimited):
        return pa.string()
    return part.file.reader([part.file.names.index(name)]).schema.types[0]


def _batches(part: _Part, wanted: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    inside = {name: part.names.index(name) for name in wanted if name not in part.keys}
    for batch in part.file.reader(sorted(inside.values()) or [0]):
        columns = [
            _typed(batch.column(f"c{inside[name]}"), schema.types[place])
            if name in inside
            else pa.repeat(pa.scalar(part.keys[name], TEXT), batch.num_rows)
            for place, name in enumerate(wanted)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.nulls(len(column), kind) if pa.types.is_null(column.type) else column


def _files(source: str | Path) -> tuple[str, list[tuple[StoredFile, dict[str, str | None]]]]:
    """What to call a place, and its files in the order of their names."""
    if is_store(source):
        what, places, store = _in_store(str(source))
        files: list[tuple[StoredFile, str]] = [(ObjectFile(store, place), place) for place in places]
    else:
        path = Path(source).absolute()
        what = f'"{path.name}"'
        if path.is_dir():
            # Links are followed once, and what other programs put beside the data is passed over.
            paths = sorted(each for each in path.rglob("*") if each.is_file())
            files = [(each, str(each.relative_to(path))) for each in paths]
        else:
            paths = sorted(each for each in map(Path, glob.glob(str(path), recursive=True)) if each.is_file())
            files = [(each, str(each)) for each in paths]
    found = [(file, _keys(place)) for file, place in files if _is_data(place)]
    if not found:
        endings = ", ".join((*CSV, *PARQUET))
        raise SourceError(f"there is no file in {what} that ends in {endings}: check the path")
    return what, found


def _is_data(place: str) -> bool:
    parts = PurePosixPath(place).parts
    hidden = any(part[:1] in ("_", ".") and "=" not in part for part in parts[-1:])
    return not hidden and parts[-1].casefold().endswith((*CSV, *PARQUET))


def _keys(place: str) -> dict[str, str | None]:
    """What the folders of a file say: `year=2024` that its column year holds 2024."""
    keys: dict[str, str | None] = {}
    for part in PurePosixPath(place).parts[:-1]:
        if said := _KEY.fullmatch(part):
            keys[said[1]] = None if said[2] == _NOTHING else unquote(said[2])
    return keys


def _in_store(address: str) -> tuple[str, list[str], Any]:
    """The files at an address of an object store: one, all below it, or all that match it."""
    what = f'"{PurePosixPath(address.partition("?")[0]).name or "the store"}"'
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
            return what, [root], store
        inside = store.get_file_info(fs.FileSelector(root, recursive=True))
        places = sorted(each.path for each in inside if each.type == fs.FileType.File)
    except Exception:
        raise SourceError(f"{what} cannot be found in its store: {cure}") from None
    if pattern is not None:
        places = [place for place in places if fnmatch.fnmatchcase(place, f"{root.rstrip('/')}/{pattern}")]
    return what, places, store


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
