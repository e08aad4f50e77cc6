"""The expressions that a source may use: each reads one row alone, and none can stop at a value.

An error of DuckDB that TRY turns into NULL stops nobody. Some functions raise errors of other kinds, or ask for memory
without bound, depending on the values that they meet; they are not listed here, or are listed under a condition that
the form of the query shows. What a query may not do is thus decided before any row is read.
"""

from __future__ import annotations

from typing import Any

from .origin import SourceError

_OPERATORS = "+ - * / // % ^ ** & | ~ << >> || ~~ !~~ ~~* !~~* ~~~ ^@ @ xor"
_NUMBERS = """abs ceil ceiling floor round trunc sign sqrt cbrt exp ln log log10 log2 pow power mod divide fdiv fmod add
subtract multiply greatest least isnan isinf isfinite even gcd lcm sin cos tan asin acos atan atan2 degrees
radians pi"""
_TEXTS = """upper ucase lower lcase trim ltrim rtrim length len strlen char_length character_length left right substring
substr replace reverse concat concat_ws contains starts_with ends_with prefix suffix position strpos instr split_part
regexp_matches regexp_full_match regexp_extract regexp_replace ascii chr unicode ord md5 sha1 sha256 hash translate
strip_accents"""
_DATES = """year month day hour minute second quarter century decade millisecond microsecond epoch epoch_ms epoch_us
date_part datepart date_trunc datetrunc date_diff datediff date_sub datesub monthname dayname last_day make_date
make_timestamp make_time strftime strptime try_strptime to_timestamp to_days to_months to_years to_hours to_minutes
to_seconds to_weeks dayofmonth"""
# These fail on any interval, whatever it is: their argument is read as a moment first.
_CALENDAR = frozenset(["week", "weekofyear", "weekday", "isodow", "dayofweek", "dayofyear", "isoyear", "yearweek"])
_CALENDAR_PARTS = _CALENDAR | {"dow", "doy", "year", "month", "day", "quarter", "century", "decade", "dayofmonth"}
_CLOCK_PARTS = frozenset(["hour", "minute", "second", "millisecond", "microsecond", "epoch"])
_ANY = "nullif if list_value list_contains row"

FUNCTIONS = _CALENDAR.union(*(names.split() for names in (_OPERATORS, _NUMBERS, _TEXTS, _DATES, _ANY)))
CLASSES = frozenset(
    ["COLUMN_REF", "CONSTANT", "FUNCTION", "COMPARISON", "CONJUNCTION", "OPERATOR", "CASE", "CAST", "BETWEEN"]
    + ["STAR", "COLLATE", "TYPE"]
)
OPERATORS = frozenset(
    ["OPERATOR_COALESCE", "OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "OPERATOR_TRY"]
    + ["COMPARE_IN", "COMPARE_NOT_IN"]
)
_PARTS = ("date_part", "datepart")
_GROWING = ("replace", "regexp_replace")  # they may write one text into another as often as it has signs


def refuse(thing: str) -> SourceError:
    """The refusal of a query that has something."""
    return SourceError(f"the SQL source has {thing}: leave it out, since a source must map each row by itself")


def attempted(part: dict[str, Any]) -> dict[str, Any]:
    """An expression that is NULL where it fails."""
    tried = {"class": "OPERATOR", "type": "OPERATOR_TRY", "alias": part.get("alias", ""), "children": [part]}
    part["alias"] = ""
    return tried


def check_function(part: dict[str, Any], known: frozenset[str]) -> None:
    """Refuse a call of a function that is not among the known ones, or that is safe in another form only."""
    name = part["function_name"].casefold()
    aggregate = part.get("filter") or part.get("distinct") or part.get("order_bys", {}).get("orders")
    if name not in FUNCTIONS & known or aggregate or part.get("schema") or part.get("catalog"):
        raise refuse(f"the function {name}")
    arguments = part.get("arguments", [])
    values = [argument["expression"] for argument in arguments]
    if any(argument.get("name") for argument in arguments):
        raise refuse(f"a named argument of {name}")
    if name in _GROWING and not all(value["class"] == "CONSTANT" for value in values[1:]):
        raise refuse(f"a {name} whose pattern or replacement is not written out")
    if name in _CALENDAR and len(values) == 1:
        arguments[0]["expression"] = _moment(values[0])
    if name in _PARTS:
        asked = str((values[0].get("literal") or {}).get("text", "")).casefold() if values else ""
        if asked not in _CALENDAR_PARTS | _CLOCK_PARTS or len(values) != 2:
            raise refuse(f"a {name} whose part is not written out, as in {name}('year', …)")
        if asked in _CALENDAR_PARTS:
            arguments[1]["expression"] = _moment(values[1])


def _moment(part: dict[str, Any]) -> dict[str, Any]:
    kind = {
        "class": "TYPE",
        "type": "TYPE",
        "alias": "",
        "catalog": "",
        "schema": "",
        "type_name": "TIMESTAMP",
        "children": [],
        "qualified_name": {"path": ["TIMESTAMP"]},
    }
    return {"class": "CAST", "type": "OPERATOR_CAST", "alias": "", "child": part, "try_cast": True, "type_expr": kind}
