"""The Parquet files below a Spark frame: which ones there are, and what their folders say of their rows.

Spark decides that by all names together: the first folder that is called `k=1` hides the files that lie beside it. So
the file of one person would decide whether everybody else's rows are there. Here each file is judged by its own name,
and none is read twice, however often the frame names it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from pyarrow import fs

from conspectus.data.sources.many_files import ObjectFile, StoredFile, is_hidden, keys_of_folders, value_of_folder
from conspectus.data.sources.origin import SourceError

_SAME_STORE = {"s3a": "s3", "s3n": "s3"}
_STORES = frozenset({"file", "hdfs", "viewfs", "s3", "gs", "gcs", "abfs", "abfss"})
_PACKAGE = "org.apache.spark.sql.execution.datasources."
_LISTED, _CATALOGUED = f"{_PACKAGE}InMemoryFileIndex", f"{_PACKAGE}CatalogFileIndex"
_FILTERS = ("pathGlobFilter", "modifiedBefore", "modifiedAfter")
# Settings by which the same bytes mean something else to Spark than to our reader.
_MEANINGS = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "legacy",
    "spark.sql.parquet.int96RebaseModeInRead": "legacy",
    "spark.sql.parquet.int96TimestampConversion": "true",
}

Said = dict[str, str | None]
Files = tuple[tuple[str, str], ...]
"""The address of each file, and what its folders say of its rows, as JSON."""


class Place(NamedTuple):
    """Where a file or folder is. Spark spells one place in several ways; here each has one."""

    scheme: str
    authority: str
    path: str

    @classmethod
    def of(cls, path: Any) -> Place:
        """From a path of Hadoop's."""
        uri = path.toUri()
        scheme, authority = str(uri.getScheme() or "file").lower(), uri.getAuthority()
        return cls(_SAME_STORE.get(scheme, scheme), str(authority or ""), str(uri.getPath()).rstrip("/") or "/")

    @property
    def address(self) -> str:
        return f"{self.scheme}://{self.authority}{quote(self.path, errors='surrogateescape')}"


def opened(address: str) -> StoredFile:
    """The file at an address that `files_of` gave out."""
    if address.startswith("file://"):
        return Path(os.fsdecode(unquote_to_bytes(address.removeprefix("file://"))))
    return ObjectFile(*fs.FileSystem.from_uri(address))


def check_files(relation: Any) -> None:
    """Refuse what is not a plain set of Parquet files whose bytes mean the same to Spark and to our reader.

    Args:
        relation: The relation at the bottom of a plan, an object of Spark.

    Raises:
        SourceError: It is something else, chooses files by more than their places, or reads them in a way of its own.
    """
    plain = relation.getClass().getName() == f"{_PACKAGE}HadoopFsRelation" and (
        relation.fileFormat().getClass().getName() == f"{_PACKAGE}parquet.ParquetFileFormat"
        and relation.location().getClass().getName() in (_LISTED, _CATALOGUED)
    )
    if not plain:
        raise SourceError(
            "the Spark frame reads something else than plain Parquet files, where one row may decide how others are "
            "read: write the table to Parquet as it is, every row of it"
        )
    for option in _FILTERS:
        if _option(relation, option) is not None:
            raise SourceError(f"the Spark frame chooses its files by {option}: put a pattern into the path instead")
    settings = relation.sparkSession().conf()
    for name, value in _MEANINGS.items():
        found = settings.getOption(name)  # a version of Spark may not know it
        # Modes of calendars are also options of a single frame, under a shorter name.
        mode = _option(relation, name.rpartition(".")[2].removesuffix("InRead"))
        if (mode or "").lower() == value or (found.isDefined() and str(found.get()).lower() == value):
            raise SourceError(f"the Spark frame reads files in a way of its own: unset {name}")
    fields = json.loads(relation.schema().json())["fields"]
    if any("EXISTS_DEFAULT" in field.get("metadata", {}) for field in fields):
        raise SourceError(
            "the Spark frame reads a table with default values for columns that a file lacks: write it to Parquet as "
            "it is, every row of it"
        )
    for root in items(relation.location().rootPaths()):
        if Place.of(root).scheme not in _STORES:
            raise SourceError(
                "the Spark frame lies in a store that Arrow cannot read: copy its files to one of "
                f"{', '.join(sorted(_STORES))}"
            )


def files_of(relation: Any, jvm: Any, *, capitals: bool) -> Files:
    """The files of a relation that was checked, each once, in the order of their addresses.

    Guarantee: whether a file is among them, and what is said of its rows, depends on its own name and on what the frame
    was made of: paths, options, the partitions that a catalogue lists, and the names of partition columns.

    Args:
        relation: The relation at the bottom of a plan, an object of Spark.
        jvm: Where Spark runs.
        capitals: Whether names that differ in capitals alone are different.
    """
    found = _catalogued(relation, jvm) if is_catalogued(relation) else _named(relation, jvm, capitals)
    return tuple(sorted({place.address: json.dumps(said) for place, said in found}.items()))


def _named(relation: Any, jvm: Any, capitals: bool) -> Iterator[tuple[Place, Said]]:
    """The files at the places that a frame names: in them, and in folders below that are called like key=value."""
    same: Callable[[str], str] = str if capitals else str.lower
    keys = {same(str(name)): str(name) for name in relation.partitionSchema().fieldNames()}
    every = str(_option(relation, "recursiveFileLookup")).lower() == "true"
    given = _option(relation, "basePath")
    base = None if given is None else Place.of(jvm.org.apache.hadoop.fs.Path(given)).path.rstrip("/")
    # The outermost last: what its folders say stands, where places lie inside one another.
    for root in sorted(map(Place.of, items(relation.location().rootPaths())), reverse=True):
        above = "" if base is None or not f"{root.path}/".startswith(f"{base}/") else root.path.removeprefix(base)
        for place, inside in _below(root):
            folders = inside.split("/")[:-1]
            if every or not folders or "=" in folders[0]:
                said = keys_of_folders(f"{above}/{inside}")
                yield place, {keys[same(key)]: value for key, value in said.items() if same(key) in keys}


def _catalogued(relation: Any, jvm: Any) -> Iterator[tuple[Place, Said]]:
    """The files in the folders that a catalogue lists, each with the values that it lists."""
    catalogue = relation.sparkSession().sessionState().catalog()
    try:
        table = relation.location().table().identifier()
        listed = items(catalogue.listPartitions(table, jvm.scala.Option.empty()))
    except Exception:  # what Spark says may quote values
        raise SourceError("the catalogue does not list the table of the Spark frame: check that it is there") from None
    for each in listed:
        said = {str(pair._1()): value_of_folder(str(pair._2())) for pair in items(each.spec().toSeq())}
        root = Place.of(jvm.org.apache.hadoop.fs.Path(each.location()))
        yield from ((place, said) for place, inside in _below(root, may_lack=True) if "/" not in inside)


def is_catalogued(relation: Any) -> bool:
    """Whether a catalogue lists the partitions of a table, and declares the types of their columns."""
    return str(relation.location().getClass().getName()) == _CATALOGUED


def is_given(relation: Any, name: str) -> bool:
    """Whether whoever read the files gave the type of a column: Spark keeps that inside, and nowhere else."""
    try:
        kind = relation.location().getClass().getSuperclass()
        field = next(each for each in kind.getDeclaredFields() if str(each.getName()).endswith("userSpecifiedSchema"))
        field.setAccessible(True)
        given = field.get(relation.location())
        return bool(given.isDefined()) and name in list(given.get().fieldNames())
    except Exception:  # another version of Spark: nobody knows
        return False


def _below(root: Place, *, may_lack: bool = False) -> list[tuple[Place, str]]:
    """Every file at a place or below it that is neither hidden nor empty, and where it is below it."""
    try:
        listed = _listed_here(Path(root.path)) if root.scheme == "file" else _listed_in_store(root)
    except Exception as why:  # what a store says may quote keys
        if may_lack and isinstance(why, FileNotFoundError):
            return []
        raise SourceError(
            "the files of the Spark frame cannot be listed: check that they are there, and that the keys of their "
            "store are where its own tools look for them"
        ) from None
    named = [(inside, (inside or root.path.rpartition("/")[2]).split("/")) for inside, size in listed if size]
    shown = [inside for inside, names in named if not any(map(is_hidden, names))]
    return [(root._replace(path=f"{root.path.rstrip('/')}/{inside}".rstrip("/")), inside) for inside in shown]


def _listed_here(path: Path) -> list[tuple[str, int]]:
    """Where files are below a path of this machine, and their lengths; names may be any bytes."""
    if not path.is_dir():
        return [("", path.stat().st_size)]
    return [(str(each.relative_to(path)), each.stat().st_size) for each in path.rglob("*") if each.is_file()]


def _listed_in_store(root: Place) -> list[tuple[str, int]]:
    store, place = fs.FileSystem.from_uri(root.address)
    if store.get_file_info(place).type == fs.FileType.File:
        return [("", store.get_file_info(place).size)]
    start = place.rstrip("/") + "/"
    listed = store.get_file_info(fs.FileSelector(place, recursive=True))
    return [(each.path.removeprefix(start), each.size) for each in listed if each.type == fs.FileType.File]


def _option(relation: Any, name: str) -> str | None:
    """An option that the frame was read with; Spark writes their names in any capitals."""
    for pair in items(relation.options().toSeq()):
        if str(pair._1()).lower() == name.lower():
            return str(pair._2())
    return None


def items(found: Any) -> list[Any]:
    """What a sequence of Scala holds."""
    return [found.apply(place) for place in range(found.size())]
