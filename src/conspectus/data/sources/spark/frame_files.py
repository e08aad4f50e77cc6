"""The Parquet files below a Spark frame: which ones there are, and what their folders say of their rows.

Spark decides that by all names together: the first folder that is called `k=1` hides the files that lie beside it. So
the file of one person would decide whether everybody else's rows are there. Here each file is judged by its own name,
and none is read twice, however often the frame names it.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, unquote

from pyarrow import fs

from conspectus.data.sources.many_files import is_hidden, keys_of_folders, value_of_folder
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
}

Files = tuple[tuple[str, str], ...]
"""The address of each file, and what its folders say of its rows, as JSON."""


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
        if _address(root).partition(":")[0] not in _STORES:
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
    return tuple(sorted({address: json.dumps(said) for address, said in found}.items()))


def _named(relation: Any, jvm: Any, capitals: bool) -> Iterator[tuple[str, dict[str, str | None]]]:
    """The files at the places that a frame names: in them, and in folders below that are called like key=value."""
    same: Callable[[str], str] = str if capitals else str.lower
    keys = {same(str(name)) for name in relation.partitionSchema().fieldNames()}
    every = str(_option(relation, "recursiveFileLookup")).lower() == "true"
    given = _option(relation, "basePath")
    base = None if given is None else _address(jvm.org.apache.hadoop.fs.Path(given))
    # The outermost last: what its folders say stands, where places lie inside one another.
    for root in sorted(map(_address, items(relation.location().rootPaths())), reverse=True):
        above = unquote(root.removeprefix((base or root).rstrip("/")))
        for address, inside in _below(root):
            folders = inside.split("/")[:-1]
            if every or not folders or "=" in folders[0]:
                said = keys_of_folders(f"{above}/{inside}")
                yield address, {key: value for key, value in said.items() if same(key) in keys}


def _catalogued(relation: Any, jvm: Any) -> Iterator[tuple[str, dict[str, str | None]]]:
    """The files in the folders that a catalogue lists, each with the values that it lists."""
    catalogue = relation.sparkSession().sessionState().catalog()
    listed = catalogue.listPartitions(relation.location().table().identifier(), jvm.scala.Option.empty())
    for each in items(listed):
        said = {str(pair._1()): value_of_folder(str(pair._2())) for pair in items(each.spec().toSeq())}
        root = _address(jvm.org.apache.hadoop.fs.Path(each.location()))
        yield from ((address, said) for address, inside in _below(root, may_lack=True) if "/" not in inside)


def is_catalogued(relation: Any) -> bool:
    """Whether a catalogue lists the partitions of a table, and declares the types of their columns."""
    return str(relation.location().getClass().getName()) == _CATALOGUED


def _below(root: str, *, may_lack: bool = False) -> list[tuple[str, str]]:
    """Every file at an address or below it that is neither hidden nor empty, and its place below it."""
    try:
        store, place = fs.FileSystem.from_uri(root)
        if store.get_file_info(place).type == fs.FileType.File:
            return [(root, "")]
        listed = store.get_file_info(fs.FileSelector(place, allow_not_found=may_lack, recursive=True))
    except Exception:  # what a store says may quote keys
        raise SourceError(
            "the files of the Spark frame cannot be listed: check that they are there, and that the keys of their "
            "store are where its own tools look for them"
        ) from None
    start = place.rstrip("/") + "/"
    held = [each.path.removeprefix(start) for each in listed if each.type == fs.FileType.File and each.size != 0]
    shown = [inside for inside in held if not any(map(is_hidden, inside.split("/")))]
    return [(f"{root.rstrip('/')}/{quote(inside, safe='/=')}", inside) for inside in shown]


def _option(relation: Any, name: str) -> str | None:
    """An option that the frame was read with; Spark writes their names in any capitals."""
    for pair in items(relation.options().toSeq()):
        if str(pair._1()).lower() == name.lower():
            return str(pair._2())
    return None


def _address(path: Any) -> str:
    scheme, colon, rest = str(path.toUri().toString()).partition(":")
    return _SAME_STORE.get(scheme, scheme) + colon + quote(rest, safe=string.punctuation)


def items(found: Any) -> list[Any]:
    """What a sequence of Scala holds."""
    return [found.apply(place) for place in range(found.size())]
