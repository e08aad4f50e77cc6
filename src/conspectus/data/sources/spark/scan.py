"""The files below a Spark frame, read by our own reader, with Spark's steps on top.

Files of one table may differ in types, or lack a column, for one person's sake, and Spark's own reader stops at some of
them. So wherever a frame rests on Parquet files, Spark only names the files. A column of the frame that is one of the
files, under whatever name, becomes codes as soon as it is read, by the types of its file alone. What filters and other
expressions compute with is handed to Spark in the types of the frame, and the same steps run on that.
"""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from conspectus.data.sources.origin import SourceError

from .typed_values import arrow_type

_SAME_STORE = {"s3a": "s3", "s3n": "s3"}
_STORES = frozenset({"file", "hdfs", "viewfs", "s3", "gs", "gcs", "abfs", "abfss"})
_NAMES_ALONE = frozenset({"SubqueryAlias", "View"})


@dataclass(frozen=True)
class Scan:
    """What a frame makes of Parquet files.

    Attributes:
        files: The address of each, and what its folders say of its rows, as JSON.
        origins: For each column of the frame the column of the files that it is; None where Spark computes it.
        inputs: The columns of the files that steps compute with: place in the relation, name, type in JSON, in SQL.
    """

    files: tuple[tuple[str, str], ...]
    origins: tuple[str | None, ...]
    inputs: tuple[tuple[int, str, str, str], ...]


def scan_of(analysed: Any, jvm: Any) -> Scan | None:
    """How to read the files of an analysed plan that was accepted; None where Spark has to read them itself.

    Raises:
        SourceError: The table fills columns that a file lacks, or an expression reads lists and the like.
    """
    *steps, leaf = _chain(analysed)
    relation = leaf.relation()
    fields = json.loads(relation.schema().json())["fields"]
    if any("EXISTS_DEFAULT" in field.get("metadata", {}) for field in fields):
        raise SourceError(
            "the Spark frame reads a table with default values for columns that a file lacks: write it to Parquet as "
            "it is, every row of it"
        )
    same, used = _uses(steps)
    columns = _items(leaf.output())
    at = {_id(column): place for place, column in enumerate(columns)}

    def origin(number: int) -> int | None:
        while number in same:
            number = same[number]
        return at.get(number)

    inputs = []
    for place in sorted({place for number in used if (place := origin(number)) is not None}):
        kind = json.loads(columns[place].dataType().json())
        if not isinstance(kind, str) or arrow_type(kind) is None:
            raise SourceError(
                f'the Spark frame computes with the column "{columns[place].name()}", whose type no filter reads here: '
                "leave that out"
            )
        inputs.append((place, str(columns[place].name()), kind, str(columns[place].dataType().sql())))
    # After all that refuses: whether there are files is no fact of the plan.
    files = _files(relation, jvm)
    if files is None:
        return None
    found = [origin(_id(column)) for column in _items(analysed.output())]
    names = tuple(None if place is None else str(columns[place].name()) for place in found)
    return Scan(files, names, tuple(inputs))


def over(frame: Any, scan: Scan, rows: Any) -> Any:
    """The steps of a frame over rows that were read here.

    Args:
        frame: The frame.
        scan: What it makes of its files.
        rows: A frame of the inputs, in their order, and of further columns, which pass through all steps.

    Returns:
        A frame of the columns of the frame, named o0, o1, …, and the further ones.
    """
    jvm, session = frame.sparkSession._jvm, frame.sparkSession
    expressions, logical = (
        jvm.org.apache.spark.sql.catalyst.expressions,
        jvm.org.apache.spark.sql.catalyst.plans.logical,
    )
    *steps, leaf = _chain(frame._jdf.queryExecution().analyzed())
    plan = rows._jdf.queryExecution().analyzed()
    read = _items(plan.output())
    further = read[len(scan.inputs) :]
    given = {place: column for (place, *_), column in zip(scan.inputs, read)}
    empty, nothing = _sequence(jvm, []), jvm.scala.Option.empty()
    # The numbers of the file's columns stay, by which all steps know them; what no step computes with is left empty.
    columns = [
        expressions.Alias(
            given.get(place, expressions.Literal(None, old.dataType())), old.name(), old.exprId(), empty, nothing, empty
        )
        for place, old in enumerate(_items(leaf.output()))
    ]
    plan = logical.Project(_sequence(jvm, [*columns, *further]), plan)
    for step in reversed(steps):
        kind = _kind(step)
        if kind == "Project":
            plan = logical.Project(_sequence(jvm, [*_items(step.projectList()), *further]), plan)
        elif kind not in _NAMES_ALONE:
            plan = step.withNewChildren(_sequence(jvm, [plan]))
    made = reduce(getattr, str(frame._jdf.getClass().getName()).split("."), jvm)
    found = type(frame)(made.ofRows(frame._jdf.sparkSession(), plan), session)
    return found.toDF(*places(frame), *rows.columns[len(scan.inputs) :])


def places(frame: Any) -> list[str]:
    """Names for the columns of a frame that are never ambiguous."""
    return [f"o{place}" for place in range(len(frame.columns))]


def _chain(plan: Any) -> list[Any]:
    """The steps of a plan, from the last one down to its only relation."""
    found = [plan]
    while below := _items(found[-1].children()):
        found.append(below[0])
    return found


def _uses(steps: Sequence[Any]) -> tuple[dict[int, int], list[int]]:
    """Which columns are others under a new name, and which ones are computed with, by their numbers."""
    same: dict[int, int] = {}
    used: list[int] = []
    for step in steps:
        kind = _kind(step)
        if kind == "Project":
            for item in _items(step.projectList()):
                if _kind(item) == "Alias" and _kind(item.child()) == "AttributeReference":
                    same[_id(item)] = _id(item.child())
                elif _kind(item) != "AttributeReference":
                    used += map(_id, _items(item.references().toSeq()))
        elif kind not in _NAMES_ALONE:
            used += map(_id, _items(step.references().toSeq()))
    return same, used


def _files(relation: Any, jvm: Any) -> tuple[tuple[str, str], ...] | None:
    """The files of a relation, and what Spark knows of their folders; None where our reader does not know the store."""
    roots = sorted(str(path.toUri().getPath()).rstrip("/") + "/" for path in _items(relation.location().rootPaths()))
    if any(after.startswith(before) for before, after in pairwise(roots)):
        raise SourceError("the Spark frame reads a folder or a file twice, and with it every row: name each once")
    keys = list(relation.partitionSchema().fieldNames())
    if not keys:
        found = [(str(address), "{}") for address in relation.inputFiles()]
    else:
        found = []
        nothing = _sequence(jvm, [])
        for folder in _items(relation.location().listFiles(nothing, nothing)):
            row = folder.values()
            said = {key: None if row.isNullAt(at) else str(row.getString(at)) for at, key in enumerate(keys)}
            found += [(str(file.getPath().toUri().toString()), json.dumps(said)) for file in _items(folder.files())]
    read = [(_address(address), said) for address, said in found]
    if not read or any(address.partition(":")[0] not in _STORES for address, _ in read):
        return None
    return tuple(read)


def _address(address: str) -> str:
    scheme, colon, rest = address.partition(":")
    return _SAME_STORE.get(scheme, scheme) + colon + quote(rest, safe=string.punctuation)


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _sequence(jvm: Any, items: list[Any]) -> Any:
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq(items)


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _id(column: Any) -> int:
    return int(column.exprId().id())
