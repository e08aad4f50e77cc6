"""The types of all values in a query, which must be on a closed list: no value of these stops an expression.

DuckDB's own binder says what type each expression has, of no rows at all: the types follow from the query and from the
declared types of the columns, which are public. Between other types there are casts that fail outside any TRY.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .origin import SourceError
from .sql_functions import MOMENTS, arguments_of, refuse, refuse_type
from .sql_growth import children

Bind = Callable[[dict[str, Any]], Sequence[str]]

_LISTS = frozenset(["list_contains", "contains"])  # the only functions that read a list
_ALLOWED = re.compile(
    r"BOOLEAN|U?(TINY|SMALL|BIG)INT|U?INTEGER|HUGEINT|FLOAT|DOUBLE|DECIMAL\(\d+,\s*\d+\)|VARCHAR|BLOB|DATE|TIME|INTERVAL"
    r'|TIMESTAMP( WITH TIME ZONE)?|"?NULL"?'
)
_CLOCK = re.compile(r'DATE|TIME|INTERVAL|TIMESTAMP( WITH TIME ZONE)?|"?NULL"?')
_MOMENTS = re.compile(r'DATE|TIMESTAMP( WITH TIME ZONE)?|"?NULL"?')


def check_types(levels: Iterable[dict[str, Any]], bind: Bind) -> None:
    """Refuse SELECTs that have a value of a type beyond the list; `bind` gives the types of the columns of a tree."""
    for node in levels:
        tops = [part for item in node["select_list"] for part in _tops(item)]
        tops += [node["where_clause"]] if node["where_clause"] is not None else []
        found: list[dict[str, Any]] = []
        for top in tops:
            _gather(top, found)
        if not found:
            continue
        alone = [{**part, "alias": ""} for part in found]
        statement = {"node": {**node, "select_list": [*node["select_list"], *alone]}, "named_param_map": []}
        types = bind({"error": False, "statements": [statement]})[-len(found) :]
        of = {id(part): kind for part, kind in zip(found, types)}
        for part in found:
            _check(part, of)


def allowed(kind: str) -> bool:
    """Whether a type, as DuckDB spells it, is on the list."""
    return _ALLOWED.fullmatch(kind) is not None


def _tops(item: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry["value"] for entry in item.get("replace_list", ())] if item["class"] == "STAR" else [item]


def _gather(part: dict[str, Any], found: list[dict[str, Any]]) -> None:
    found.append(part)
    for child in children(part):
        _gather(child, found)


def _check(part: dict[str, Any], of: dict[int, str]) -> None:
    name = str(part.get("function_name", "")).casefold()
    kind = of[id(part)]
    if name == "list_value":
        if not kind.endswith("[]") or not allowed(kind.removesuffix("[]")):
            raise refuse_type(kind)
    elif not allowed(kind):
        raise refuse_type(kind)
    parts = list(children(part))
    for place, child in enumerate(parts):
        if str(child.get("function_name", "")).casefold() == "list_value" and not (name in _LISTS and place == 0):
            raise refuse("a list that is not the first argument of list_contains")
    if name in MOMENTS:
        for value in arguments_of(part)[1:]:
            if value.get("class") != "CONSTANT" and not _MOMENTS.fullmatch(of[id(value)]):
                raise refuse(f"a {name} of something that is no date and no timestamp")
    # Of a number it makes a moment, which may lie beyond the calendar, and then it cannot be written as a text.
    if name == "epoch_ms" and not all(_CLOCK.fullmatch(of[id(value)]) for value in parts):
        raise SourceError("the SQL source has an epoch_ms of a number: write to_timestamp(number / 1000)")
