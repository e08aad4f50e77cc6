"""The closed language of a source's expressions: each reads one row alone, and no value can stop it.

DuckDB turns some failures into NULL, inside TRY, and only these stop nobody. Other failures end the pass, and then the
exit code tells that somebody has the value that failed. So a source is written in a closed list: these functions, these
types to cast to, and arguments that are written out where a value in their place could fail, or cost time without
bound. All of it is decided by the text of the query, before any row is read.
"""

from __future__ import annotations

import re
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
_STEPS = frozenset(
    ["century", "decade", "year", "quarter", "month", "week", "day"]
    + ["hour", "minute", "second", "millisecond", "microsecond"]
)
_ANY = "nullif if list_value list_contains"

FUNCTIONS = _CALENDAR.union(*(names.split() for names in (_OPERATORS, _NUMBERS, _TEXTS, _DATES, _ANY)))
CLASSES = frozenset(
    ["COLUMN_REF", "CONSTANT", "FUNCTION", "COMPARISON", "CONJUNCTION", "OPERATOR", "CASE", "CAST", "BETWEEN", "STAR"]
)
OPERATORS = frozenset(
    ["OPERATOR_COALESCE", "OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "OPERATOR_TRY"]
    + ["COMPARE_IN", "COMPARE_NOT_IN"]
)
_CASTS = """boolean bool logical tinyint int1 smallint int2 short int16 integer int int4 int32 signed bigint int8 long
int64 hugeint int128 utinyint uint8 usmallint uint16 uinteger uint32 ubigint uint64 float real float4 double
float8 decimal numeric dec varchar text string char bpchar nvarchar date time timestamp datetime timestamp_us
timestamptz interval"""
CASTS = frozenset([*_CASTS.split(), "timestamp with time zone"])
"""The types that a source may cast to, by all their names."""

_PARTS = frozenset(["date_part", "datepart"])
MOMENTS = frozenset(["date_diff", "datediff", "date_sub", "datesub", "date_trunc", "datetrunc"])
"""Functions of whole steps between moments: of a time of day most steps fail."""

_PATTERNS = frozenset(["regexp_matches", "regexp_full_match", "regexp_extract", "regexp_replace"])
# From which argument on all of them are written out: they may grow a text, fail, or cost time without bound.
_WRITTEN = {
    **dict.fromkeys(_PATTERNS | {"replace", "translate", "trim", "ltrim", "rtrim", "strptime", "try_strptime"}, 1),
    **dict.fromkeys(["~~", "!~~", "~~*", "!~~*", "~~~"], 1),
}
_COUNTED = re.compile(r"\{(\d{1,9})(?:,(\d{0,9}))?\}")
_LONGEST_PATTERN = 1 << 12
_SIX = 6


def refuse(thing: str) -> SourceError:
    """The refusal of a query that has something."""
    return SourceError(f"the SQL source has {thing}: leave it out, since a source must map each row by itself")


def refuse_type(kind: str) -> SourceError:
    """The refusal of a type beyond the closed list."""
    return SourceError(
        f"the SQL source has values of the type {kind}, which a single value might stop: cast to BOOLEAN, INTEGER, "
        "BIGINT, DOUBLE, DECIMAL, VARCHAR, DATE, TIME or TIMESTAMP only"
    )


def attempted(part: dict[str, Any]) -> dict[str, Any]:
    """An expression that is NULL where it fails."""
    tried = {"class": "OPERATOR", "type": "OPERATOR_TRY", "alias": part.get("alias", ""), "children": [part]}
    part["alias"] = ""
    return tried


def arguments_of(part: dict[str, Any]) -> list[dict[str, Any]]:
    """The arguments of a call."""
    return [argument["expression"] for argument in part.get("arguments", [])]


def written(part: dict[str, Any]) -> str | None:
    """The text of a constant that is written out; None where it is none, or NULL."""
    literal = part.get("literal")
    if part.get("class") != "CONSTANT" or not isinstance(literal, dict) or literal.get("text") is None:
        return None
    return str(literal["text"])


def check_cast(part: dict[str, Any]) -> None:
    """Refuse a cast to a type beyond the closed list, and make any other one a try."""
    kind = part.get("type_expr")
    if not isinstance(kind, dict) or kind.get("class") != "TYPE":
        raise refuse("a cast to a type that is not written out")
    name = str(kind.get("type_name", ""))
    sizes = kind.get("children", [])
    if name.casefold() not in CASTS or kind.get("schema") or kind.get("catalog"):
        raise refuse_type(name)
    if len(sizes) > 2 or any(not (written(size) or "").isdigit() for size in sizes):
        raise refuse(f"a {name} whose size is not written out")
    part["try_cast"] = True  # one value that does not convert is missing and stops nobody


def check_function(part: dict[str, Any], known: frozenset[str]) -> None:
    """Refuse a call of a function that is not among the known ones, or that is safe in another form only."""
    name = part["function_name"].casefold()
    aggregate = part.get("filter") or part.get("distinct") or part.get("order_bys", {}).get("orders")
    if name not in FUNCTIONS & known or aggregate or part.get("schema") or part.get("catalog"):
        raise refuse(f"the function {name}")
    arguments = part.get("arguments", [])
    values = arguments_of(part)
    if any(argument.get("name") for argument in arguments):
        raise refuse(f"a named argument of {name}")
    if any(written(value) is None for value in values[_WRITTEN.get(name, len(values)) :]):
        raise refuse(f"a {name} whose pattern or replacement is not written out")
    if name in _PATTERNS and expanded(str(written(values[1])) if len(values) > 1 else "") > _LONGEST_PATTERN:
        raise refuse(f"a {name} whose pattern is too long")
    if name == "strftime" and all(written(value) is None for value in values):
        raise refuse("a strftime whose format is not written out")
    # A count of microseconds may lie beyond the calendar, and then it cannot be written as a text.
    if name == "make_timestamp" and len(values) != _SIX:
        raise refuse("a make_timestamp that is not of a year, a month, a day, an hour, a minute and a second")
    if name in MOMENTS and (not values or str(written(values[0])).casefold() not in _STEPS):
        raise refuse(f"a {name} whose step is not written out, as in {name}('day', …)")
    if name in _CALENDAR and len(values) == 1:
        arguments[0]["expression"] = tried_cast(values[0], "TIMESTAMP")
    if name in _PARTS:
        asked = str(written(values[0]) or "").casefold() if values else ""
        if asked not in _CALENDAR_PARTS | _CLOCK_PARTS or len(values) != 2:
            raise refuse(f"a {name} whose part is not written out, as in {name}('year', …)")
        if asked in _CALENDAR_PARTS:
            arguments[1]["expression"] = tried_cast(values[1], "TIMESTAMP")


def expanded(pattern: str) -> int:
    """How many signs a regular expression has once its counted repetitions are written out, or more."""
    if "\\Q" in pattern:
        return _LONGEST_PATTERN + 1
    sizes, last, place = [0], 0, 0
    while place < len(pattern):
        counted = _COUNTED.match(pattern, place)
        if pattern[place] == "(":
            sizes.append(0)
        elif pattern[place] == ")":
            last = sizes.pop() if len(sizes) > 1 else last
            sizes[-1] += last
        elif counted:
            times = max(int(number) for number in counted.groups("0") if number) or 1
            sizes[-1] += last * times
            last *= times
            place = counted.end() - 1
        else:
            end = _end_of_class(pattern, place) if pattern[place] == "[" else place + (pattern[place] == "\\")
            last, place = 1, end
            sizes[-1] += 1
        place += 1
    return sum(sizes) + len(pattern)


def _end_of_class(pattern: str, place: int) -> int:
    """Where a class of signs ends that begins at a place, as in [^]a-z]."""
    place += 2 if pattern[place + 1 : place + 2] == "^" else 1
    first = place
    while place < len(pattern) and (pattern[place] != "]" or place == first):
        if pattern.startswith("[:", place):
            place = max(place, pattern.find(":]", place) + 1)
        place += 2 if pattern[place : place + 1] == "\\" else 1
    return place


def tried_cast(part: dict[str, Any], name: str) -> dict[str, Any]:
    """An expression as a type, NULL where it is none of it."""
    kind = {
        **{"class": "TYPE", "type": "TYPE", "alias": "", "catalog": "", "schema": "", "type_name": name},
        **{"children": [], "qualified_name": {"path": [name]}},
    }
    return {"class": "CAST", "type": "OPERATOR_CAST", "alias": "", "child": part, "try_cast": True, "type_expr": kind}
