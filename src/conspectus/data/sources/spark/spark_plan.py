"""Whether a Spark frame maps each row by itself: its plan, against closed lists.

A join, a limit or an aggregate lets one person change the rows of others; a function that Spark does not know may do
anything; an expression that fails on a value stops the job and puts that value into a log. So a plan is read before
anything runs, and what is not listed here is refused. The plan is that which Spark has analysed and not yet optimised:
what it says is what was written.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from typing import Any

from conspectus.data.sources.origin import SourceError

from .scan import scan_of

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_RELATIONS = ("org.apache.spark.sql.execution.datasources.LogicalRelation",)
# The order of rows and their partitions mean nothing here, so that sorting and repartitioning are harmless.
_NODES = frozenset(["Project", "Filter", "SubqueryAlias", "View", "Repartition", "RepartitionByExpression", "Sort"])
_FILTERS = frozenset({"Filter"})
_MOVES = frozenset({"Repartition", "RepartitionByExpression", "Sort"})
_IN_MEMORY = frozenset({"LocalRelation", "LogicalRDD"})  # one or the other, by how large the rows are together
# Expressions over one row that give a value, or nothing, for every value.
_ALLOWED = frozenset(
    ["AttributeReference", "Alias", "Literal", "EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"]
    + ["LessThan", "LessThanOrEqual", "And", "Or", "Not", "In", "IsNull", "IsNotNull", "CaseWhen", "If", "Coalesce"]
    + ["Upper", "Lower", "StringTrim", "StringTrimLeft", "StringTrimRight", "Length", "SortOrder"]
)
_WHOLE = {"byte": 2, "short": 4, "integer": 9, "long": 18}
"""Types of whole numbers, and how many digits each surely holds."""

_WIDER = {
    "byte": frozenset({"short", "integer", "long", "float", "double"}),
    "short": frozenset({"integer", "long", "float", "double"}),
    "integer": frozenset({"long", "double"}),
    "float": frozenset({"double"}),
}
"""Casts that no number stops or changes: Spark writes them where a filter compares a small type with a constant."""
_CURE = "leave it out, since a source must map each row by itself"


class Plan:
    """What the plan of a frame says: whether rows are left out, whether they move between partitions, whether
    names that differ in capitals alone are different, and how our own reader finds the rows in files."""

    def __init__(self, frame: Any) -> None:
        analysed = frame._jdf.queryExecution().analyzed()
        self.filtered = self.moves = False
        self.capitals = str(frame.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "true"
        relations = 0
        for node, inside in _nodes(json.loads(analysed.toJSON())):
            name = str(node["class"])
            if name in _RELATIONS:
                relations += 1
                continue
            short = name.removeprefix(_LOGICAL)
            if name.startswith(_EXPRESSIONS):
                _check_expression(node, inside)
            elif not name.startswith(_LOGICAL) or short not in _NODES:
                step = name.rpartition(".")[2]
                if step in _IN_MEMORY:
                    raise SourceError(
                        "the Spark frame is made of rows in memory, which cannot be examined: open those rows "
                        "themselves (Arrow, pandas or polars), or write the frame to Parquet"
                    )
                raise SourceError(f"the Spark frame has a step ({step}) that may mix rows: {_CURE}")
            else:
                self.filtered |= short in _FILTERS
                self.moves |= short in _MOVES
        if relations != 1:
            raise SourceError("the Spark frame reads no table, or more than one: it has to map each row of one table")
        self.scan = scan_of(analysed, frame.sparkSession._jvm, capitals=self.capitals)


def _nodes(written: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every step and every expression of a plan, as Spark writes it, and what comes next: its first child, if it has
    any."""
    waiting = [written]
    while waiting:
        found = waiting.pop()
        if isinstance(found, list):
            for node, after in zip(found, [*found[1:], None]):
                if isinstance(node, dict) and "class" in node:
                    yield node, after if isinstance(after, dict) else {}
                    waiting.extend(node.values())
                else:
                    waiting.append(node)
        elif isinstance(found, dict):
            if "class" in found:
                yield found, {}
            waiting.extend(found.values())


def _check_expression(node: dict[str, Any], inside: dict[str, Any]) -> None:
    name = str(node["class"]).removeprefix(_EXPRESSIONS)
    if name == "Cast":
        of = str(inside.get("class")).removeprefix(_EXPRESSIONS)
        given = str(inside.get("dataType"))
        wider = str(node.get("dataType")) in (given, *_WIDER.get(given, ()))
        if of == "AttributeReference" and wider:
            return  # of a column to its own type, or to one that holds all of its numbers
        if of == "Literal":
            if wider or _sure(inside.get("value"), given, str(node.get("dataType"))):
                return
            # Spark may leave it for the first row that needs it, and stop there; and "now" is another value each time.
            raise SourceError(
                "the Spark frame casts a constant to a type that may not hold it: write the constant as a value of "
                "that type, as in DATE '2020-01-31'"
            )
        raise SourceError(
            "the Spark frame casts a column, which may stop at a value and write it into a log: leave the column as it "
            "is, since a schema reads any type"
        )
    if name not in _ALLOWED:
        raise SourceError(
            f"the Spark frame has an expression ({name}) that may look beyond a row or stop at a value: {_CURE}"
        )


def _sure(value: Any, given: str, wanted: str) -> bool:
    """Whether a constant, as a plan writes it, surely is a value of another type, and always the same one."""
    if value is None or wanted == "string" or (given == "date" and wanted.startswith("timestamp")):
        return True
    text = str(value)
    if wanted in _WHOLE or wanted.startswith("decimal"):
        digits = _WHOLE.get(wanted) or _digits(wanted)
        return re.fullmatch(rf"[+-]?\d{{1,{digits}}}", text) is not None if digits else False
    if wanted in ("double", "float"):
        return re.fullmatch(r"[+-]?\d{1,30}(\.\d{1,30})?", text) is not None
    if given != "string":
        return False
    if wanted == "boolean":
        return text in ("true", "false")
    try:
        if wanted == "date":
            return re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None and bool(datetime.date.fromisoformat(text))
        form = r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{3}|\.\d{6})?)?"
        moment = wanted.startswith("timestamp") and re.fullmatch(form, text) is not None
        return moment and bool(datetime.datetime.fromisoformat(text))
    except ValueError:
        return False


def _digits(wanted: str) -> int:
    """How many digits a decimal type has before its point."""
    found = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", wanted)
    return int(found[1]) - int(found[2]) if found else 0
