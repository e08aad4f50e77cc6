"""The files below a Spark frame, read by our own reader, with Spark's steps on top.

Files of one table may differ in types, or lack a column, for one person's sake, and Spark's own reader stops at some of
them. So Spark only says where the files are. A column of the frame that is one of the files, under whatever name,
becomes codes as soon as it is read, by the types of its file alone. What filters and other expressions compute with is
handed to Spark in the types of the frame, and the same steps run on that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from conspectus.data.sources.origin import SourceError

from .frame_files import Files, check_files, files_of, is_catalogued, is_given, items
from .typed_values import arrow_type

_KEYS = frozenset({"boolean", "byte", "short", "integer", "long", "string", "date"})
_NAMES_ALONE = frozenset({"SubqueryAlias", "View"})


@dataclass(frozen=True)
class Scan:
    """What a frame makes of Parquet files.

    Attributes:
        files: The address of each, and what its folders say of its rows, as JSON.
        origins: For each column of the frame the column of the files that it is; None where Spark computes it.
        inputs: The columns of the files that steps compute with: place in the relation, name, type in JSON, in SQL.
    """

    files: Files
    origins: tuple[str | None, ...]
    inputs: tuple[tuple[int, str, str, str], ...]


def scan_of(analysed: Any, jvm: Any, *, capitals: bool) -> Scan:
    """How to read the files of an analysed plan whose steps were accepted.

    Args:
        analysed: The plan, an object of Spark.
        jvm: Where Spark runs.
        capitals: Whether names that differ in capitals alone are different.

    Raises:
        SourceError: Its files are no plain Parquet files, or an expression reads lists, a guessed type and the like.
    """
    *steps, leaf = _chain(analysed)
    relation = leaf.relation()
    check_files(relation)
    same, used = _uses(steps)
    columns = items(leaf.output())
    if len(columns) != len(relation.schema().fieldNames()):
        raise SourceError("the Spark frame reads facts about its files (_metadata), and not its rows: leave them out")
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
        _check_key(relation, str(columns[place].name()), kind)
        inputs.append((place, str(columns[place].name()), kind, str(columns[place].dataType().sql())))
    found = [origin(_id(column)) for column in items(analysed.output())]
    names = tuple(None if place is None else str(columns[place].name()) for place in found)
    return Scan(files_of(relation, jvm, capitals=capitals), names, tuple(inputs))


def _check_key(relation: Any, name: str, kind: str) -> None:
    """Refuse to compute with the names of folders, unless their type was given: one folder would change a guessed one.

    A moment in the name of a folder has no place, and a number beyond the whole ones several texts.
    """
    if name not in list(relation.partitionSchema().fieldNames()):
        return
    if not (is_catalogued(relation) or is_given(relation, name)):
        raise SourceError(
            f'the Spark frame computes with the column "{name}", whose type Spark guesses from the names of folders: '
            "one folder changes how others are read, so give the types with spark.read.schema"
        )
    if kind not in _KEYS and not kind.startswith("decimal"):
        raise SourceError(
            f'the Spark frame computes with the column "{name}", of type {kind}, which the names of folders do not say '
            "in one way: leave that out"
        )


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
    read = items(plan.output())
    further = read[len(scan.inputs) :]
    given = {place: column for (place, *_), column in zip(scan.inputs, read)}
    empty, nothing = _sequence(jvm, []), jvm.scala.Option.empty()
    # The numbers of the file's columns stay, by which all steps know them; what no step computes with is left empty.
    columns = [
        expressions.Alias(
            given.get(place, expressions.Literal(None, old.dataType())), old.name(), old.exprId(), empty, nothing, empty
        )
        for place, old in enumerate(items(leaf.output()))
    ]
    plan = logical.Project(_sequence(jvm, [*columns, *further]), plan)
    for step in reversed(steps):
        kind = _kind(step)
        if kind == "Project":
            plan = logical.Project(_sequence(jvm, [*items(step.projectList()), *further]), plan)
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
    while below := items(found[-1].children()):
        found.append(below[0])
    return found


def _uses(steps: Sequence[Any]) -> tuple[dict[int, int], list[int]]:
    """Which columns are others under a new name, and which ones are computed with, by their numbers."""
    same: dict[int, int] = {}
    used: list[int] = []
    for step in steps:
        kind = _kind(step)
        if kind == "Project":
            for item in items(step.projectList()):
                if _kind(item) == "Alias" and _kind(item.child()) == "AttributeReference":
                    same[_id(item)] = _id(item.child())
                elif _kind(item) != "AttributeReference":
                    used += map(_id, items(item.references().toSeq()))
        elif kind not in _NAMES_ALONE:
            used += map(_id, items(step.references().toSeq()))
    return same, used


def _sequence(jvm: Any, items: list[Any]) -> Any:
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq(items)


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _id(column: Any) -> int:
    return int(column.exprId().id())
