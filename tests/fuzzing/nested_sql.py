"""Every word that the parser knows, nested in itself, and long texts of one piece: read or refused with bounded work.

`python -m tests.fuzzing.nested_sql --count 20000 --seed 1` prints how many were read, refused and broken, and the most
work that one took; without `--count` it goes through every word, wrapper and depth. Work is the number of calls of
functions, of Python and of C, by the parser and by us. A case that takes too many is stopped, so that none hangs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import product
from random import Random
from types import FrameType
from typing import Any

from sqlglot.dialects.duckdb import DuckDB

from conspectus.data.schema import Schema
from conspectus.queries.language.from_select import read_select
from conspectus.queries.language.from_sql import parse

SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "columns": {
            "a": {"type": "boolean"},
            "b": {"type": "integer", "min": 0, "max": 9, "missing": True},
            "d": {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "width": "month"},
        },
    }
)
MOST_CALLS, CALLS_A_SIGN = 3_000_000, 150
"""Calls that a text may take, and how many more for each of its signs: a second or two of one processor."""
LONGEST = 20_000
"""The signs of the longest text: as many as the service takes."""
WRAPPERS = (
    *(("{}(", ")"), ("{}[", "]"), ("{} ", ""), ("{}<", ">"), ("({}(", "))"), ("CAST({}(", ") AS {})")),
    *(("CASE WHEN {}(", ") THEN a END"), ("{}(b, ", ")"), ("{}(1, 2, ", ")"), ("(b {} ", ")"), ("b {} (", ")")),
    *(("{{'x': {}(", ")}}"), ("[{}(", ")]"), ("list_transform([1], x -> {}(", "))"), ("INTERVAL {}(", ") DAY")),
    *(("NOT {} ", ""), ("-{}(", ")"), ("~{} ", ""), ("{}::", ""), ("(", ")::{}"), ("{}(/* {} */ ", ")")),
    *(("{}(DISTINCT ", " ORDER BY 1)"), ("{}(", ") OVER (PARTITION BY 1)"), ("{}(a) FILTER (WHERE ", ")")),
    *(("(SELECT {} ", ")"), ("{} (SELECT ", ")"), ("{}.", ""), ("{}(x := ", ")"), ("{} '", "'"), ("{}(* ", ")")),
)
PIECES = (
    *("(", "[", "{", "((a", "/*", "*/", "--\n", "'", '"', "$$", "$a$", "$a", "a.", "a OR ", "a AND NOT ", "b = 1 OR "),
    *(
        "1,",
        "-",
        "- ",
        "~",
        "NOT ",
        "+",
        "b::INT::",
        "::INT",
        "[1]",
        "[1",
        ".1",
        "1e",
        "0x",
        "{{",
        "{%",
        "\\",
        "\n",
        "é",
    ),
    *("CASE WHEN a THEN ", "WHEN a THEN 1 ", "b BETWEEN 1 AND ", "b IN (1) AND ", "INTERVAL 1 DAY + ", "x -> ", ";"),
    *(
        "a, ",
        "COUNT(*), ",
        "a = ",
        "b < ",
        "'a' ",
        "b COLLATE x ",
        "a IS NULL = ",
        "DATE '2020-01-01', ",
        "1;",
        "@",
        "?",
    ),
    *(
        "UNION SELECT 1 ",
        "JOIN t ",
        ", LATERAL t",
        "DATE ",
        "INT[",
        "STRUCT(a ",
        "b + ",
        "b || ",
        "b -> ",
        "b ^ ",
        "b ** ",
    ),
)
DOORS: dict[str, Callable[[str], object]] = {
    "condition": lambda text: parse(SCHEMA, text),
    "where": lambda text: read_select(SCHEMA, f"SELECT COUNT(*) FROM t WHERE {text}"),
    "output": lambda text: read_select(SCHEMA, f"SELECT {text}, COUNT(*) FROM t GROUP BY 1"),
    "measure": lambda text: read_select(SCHEMA, f"SELECT b, SUM({text}) FROM t GROUP BY b HAVING {text}"),
    "statement": lambda text: read_select(SCHEMA, text),
}


class TooMuchWork(BaseException):
    """No Exception, so that nothing takes it for an error of its own."""


@cache
def words() -> tuple[str, ...]:
    """All that the parser has a rule for, by its own tables."""
    parser = DuckDB.Parser
    tables = (DuckDB.Tokenizer.KEYWORDS, parser.FUNCTIONS, parser.FUNCTION_PARSERS, parser.NO_PAREN_FUNCTION_PARSERS)
    return tuple(sorted({word for table in tables for word in table if word} | {"f", "a", "b", "1", "'x'", "(a)"}))


Case = tuple[str, str, int | str, int]
"""A door, a word and a wrapper of it with a depth; or a piece, and what comes after as many of it as there is room."""


@cache
def cases() -> tuple[Case, ...]:
    """Every word in every wrapper, as a condition and at another door; and every piece at every door."""
    nested: list[Case] = []
    for number, (word, wrapper) in enumerate(product(words(), range(len(WRAPPERS)))):
        nested.append(("condition", word, wrapper, 20))
        nested.append((("where", "output", "measure")[number % 3], word, wrapper, (7, 20, 40, 40)[number % 4]))
    flat = product(DOORS, PIECES, ("", "a", "1", "b = 1", "') = 1"))
    return (*nested, *((door, piece, end, 0) for door, piece, end in flat))


def text_of(word: str, wrapper: int | str, depth: int) -> str:
    """The text of a case."""
    if isinstance(wrapper, str):
        return word * ((LONGEST - len(wrapper)) // len(word)) + wrapper
    first, last = (part.replace("{}", word).replace("{{", "{").replace("}}", "}") for part in WRAPPERS[wrapper])
    return first * depth + "b" + last * depth


def work_of(read: Callable[[], object], most: int) -> int:
    """How many calls it takes; raises `TooMuchWork` at one too many."""
    calls = 0

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1
            if calls > most:
                raise TooMuchWork

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        read()
    finally:
        sys.setprofile(before)
    return calls


def judged(door: str, text: str) -> tuple[str, str]:
    """ "read", "refused" or "broken", and what was said."""
    most = MOST_CALLS + CALLS_A_SIGN * len(text)
    try:
        work_of(lambda: DOORS[door](text), most)
    except TooMuchWork:
        return "broken", f"it takes more than {most:,} calls"
    except ValueError as problem:
        ours = type(problem).__module__.startswith("conspectus.")
        return ("refused" if ours else "broken"), f"{type(problem).__name__}: {problem}"
    except Exception as problem:
        return "broken", f"{type(problem).__name__}: {problem}"
    return "read", ""


def run(seed: int, count: int | None = None, part: int = 0, parts: int = 1) -> Counter[str]:
    """Judge so many of the cases, or one part of all of them, and print what breaks."""
    chosen = cases()[part::parts] if count is None else Random(seed).sample(cases(), count)
    counts: Counter[str] = Counter()
    for door, word, wrapper, depth in chosen:
        text = text_of(word, wrapper, depth)
        started = time.process_time()
        verdict, said = judged(door, text)
        took = time.process_time() - started
        counts[verdict] += 1
        counts["milliseconds of the longest"] = max(counts["milliseconds of the longest"], round(1_000 * took))
        if verdict == "broken":
            print(f"{door} {word!r} {wrapper!r} {depth}: {said[:200]}\n    {text[:100]!r}", flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    counts = run(asked.seed, asked.count)
    print(", ".join(f"{name} {number:,}" for name, number in counts.items()))
    return 1 if counts["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
