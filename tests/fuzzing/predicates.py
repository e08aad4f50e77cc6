"""Random predicates for `cs.sql` and `ask`: each is read, or refused by one of our own errors, and quickly.

`python -m tests.fuzzing.predicates --count 20000 --seed 1` prints how many were read, refused and escaped.
Half are made from a grammar of what is served and what lies beside it, half are such texts with signs changed.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections import Counter
from random import Random

from conspectus.data.schema import Schema
from conspectus.queries.language.from_sql import parse, to_sql

SLOW = 20.0
SCHEMA = Schema.from_dict(
    {
        "name": "ward",
        "columns": {
            "sex": {"type": "categorical", "values": ["Male", "Fe'male"], "other": True},
            "age": {"type": "integer", "min": 20, "max": 45, "width": 10, "missing": True},
            "kids": {"type": "integer", "min": 0, "max": 2, "missing": True},
            "income": {"type": "number", "edges": [0, 1.5, 25]},
            "in bed": {"type": "boolean", "missing": True},
            "seen": {
                "type": "date",
                "min": datetime.date(2020, 1, 1),
                "max": datetime.date(2020, 3, 31),
                "width": "month",
            },
        },
    }
)
_NAMES = [
    "sex",
    "age",
    "kids",
    "income",
    '"in bed"',
    "seen",
    "SEX",
    '"Age"',
    "nothing",
    "w.age",
    '"a""b"',
    "é",
    "_",
    "t.*",
]
_VALUES = [
    "'Male'",
    "'Fe''male'",
    "20",
    "30",
    "-1",
    "1.5",
    "1e400",
    "-1e400",
    "1e-400",
    "9" * 50,
    "0x1F",
    "NULL",
    "TRUE",
]
_VALUES += [
    "'2020-02-01'",
    "DATE '2020-02-01'",
    "DATE '9999-99-99'",
    "DATE 'x'",
    "''",
    "'\U0001f600'",
    "'\x00'",
    "'nan'",
]
_VALUES += [
    "TIMESTAMP '2020-01-01 10:00:00'",
    "'infinity'",
    ".5",
    "5.",
    "1_000",
    "$1",
    "?",
    ":a",
    "@a",
    "'20'",
    "b'1'",
    "x'ff'",
]
_VALUES += [
    "INTERVAL 1 DAY",
    "ARRAY[1]",
    "[1, 2]",
    "{'a': 1}",
    "(1, 2)",
    "(SELECT 1)",
    "+5",
    "- - 5",
    "~5",
    "٣",
    "NaN",
    "inf",
]
_FITTING = {
    "sex": ["'Male'", "'Fe''male'", "NULL"],
    "age": ["20", "30", "40", "'30'", "NULL"],
    "kids": ["0", "1", "2", "1.0", "NULL"],
    "income": ["0", "1.5", "25", "0.0"],
    '"in bed"': ["TRUE", "FALSE", "'true'"],
    "seen": ["'2020-02-01'", "DATE '2020-02-01'", "DATE '2020-03-01'"],
}
_SIGNS = [
    "=",
    "<>",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "==",
    "<=>",
    "~",
    "LIKE",
    "IS",
    "IS NOT",
    "IN",
    "||",
    "IS DISTINCT FROM",
]
_BESIDE = [
    *(
        "age BETWEEN SYMMETRIC 45 AND 20",
        "age IN ()",
        "age = ANY (1)",
        "CASE WHEN age = 1 THEN TRUE END",
        "age::INT = 3",
    ),
    *(
        "SELECT 1",
        "age = 1; DROP TABLE t",
        "age = 1 --",
        "/* */",
        "age = 1 /*",
        "EXISTS (SELECT 1)",
        "count(*) > 1",
        "*",
    ),
    *(
        "age = 20 AS b",
        "age = 20, kids = 1",
        "age COLLATE x = 1",
        "age IN (SELECT 1)",
        "upper(sex) = 'A'",
        "age[1] = 1",
    ),
    *(
        "INSERT INTO t VALUES (1)",
        "PIVOT t ON a",
        "age = 1 ORDER BY 1",
        "lambda x: x",
        "x -> 1",
        "age IS TRUE",
        "seen IS 1",
    ),
    *(
        "NOT",
        "AND",
        "(",
        ")",
        "''",
        '""',
        "age =",
        "= age",
        "age age",
        "1 = 1",
        "TRUE",
        "NULL",
        "age IN (NULL, 20, '30')",
    ),
    *(
        "FROM t",
        "WITH a AS (SELECT 1) SELECT 1",
        "age NOT BETWEEN 1 AND NULL",
        "XOR",
        "age = 1 XOR age = 2",
        "age ^ 2 = 1",
    ),
]
_SCRAPS = [
    *"'\"();,.*/-+=<>!%$@#?:[]{}\\`|&^~ \n\t\x00é\u202e\U0001f600",
    "--",
    "/*",
    "*/",
    "''",
    "NULL",
    "AND",
    "NOT ",
    "((",
    "{{",
    "{%",
]


def text_of(seed: int, number: int) -> str:
    """The text of a number."""
    random = Random(f"{seed}:{number}")
    text = _made(random, random.choice((0, 1, 1, 2, 2, 3, 4, 6)))
    if number % 2:
        for _ in range(random.choice((1, 1, 2, 3, 8))):
            place = random.randrange(len(text) + 1)
            end = min(len(text), place + random.choice((0, 0, 1, 1, 5)))
            scrap = random.choice(_SCRAPS) if random.random() < 0.8 else chr(random.randrange(0x110000))
            text = text[:place] + (scrap if random.random() < 0.7 else "") + text[end:]
    if random.random() < 0.01:
        times = random.choice((50, 400, 3000))
        text = random.choice(
            (
                "(" * times + text + ")" * times,
                "NOT " * times + text,
                f" {random.choice(('AND', 'OR'))} ".join([text] * times),
            )
        )
    return text


def _made(random: Random, depth: int) -> str:
    if depth <= 0 and random.random() < 0.9:
        name = random.choice(list(_FITTING))
        value, other = random.choice(_FITTING[name]), random.choice(_FITTING[name])
        ordered = _SIGNS[:2] if name in ("sex", '"in bed"') else _SIGNS[:7]
        return random.choice(
            (
                f"{name} {random.choice(ordered)} {value}",
                f"{value} {random.choice(ordered[:2])} {name}",
                f"{name} {random.choice(('', 'NOT '))}IN ({value}, {other})",
                f"{name} IS {random.choice(('', 'NOT '))}NULL",
                random.choice(('"in bed"', "TRUE", "FALSE", "NULL", f"({name} = {value})")),
            )
        )
    if depth <= 0:
        name, value = random.choice(_NAMES), random.choice(_VALUES)
        return random.choice(
            (
                f"{name} {random.choice(_SIGNS)} {value}",
                f"{name} {random.choice(_SIGNS[:7])} {value}",
                f"{name} {random.choice(_SIGNS[:7])} {value}",
                f"{value} {random.choice(_SIGNS[:7])} {name}",
                f"{name} {random.choice(('', 'NOT '))}BETWEEN {value} AND {random.choice(_VALUES)}",
                f"{name} {random.choice(('', 'NOT '))}IN ({value}, {random.choice(_VALUES)})",
                f"{name} IS {random.choice(('', 'NOT '))}{random.choice(('NULL', 'TRUE', 'FALSE', 'UNKNOWN'))}",
                name,
                random.choice(_BESIDE),
            )
        )
    left = _made(random, depth - 1)
    if random.random() < 0.25:
        return f"NOT ({left})"
    return f"({left}) {random.choice(('AND', 'OR'))} ({_made(random, depth - 1 - random.randrange(2))})"


def judged(text: str) -> tuple[str, str]:
    """ "read", "refused" or "escaped", and what was said."""
    started = time.process_time()
    try:
        query = parse(SCHEMA, text)
        if parse(SCHEMA, to_sql(SCHEMA, query)) != query:
            return "escaped", "it does not come back from its own SQL"
        found = "read", ""
    except ValueError as problem:
        ours = type(problem).__module__.startswith("conspectus.")
        found = ("refused" if ours else "escaped"), f"{type(problem).__name__}: {problem}"
    except Exception as problem:
        found = "escaped", f"{type(problem).__name__}: {problem}"
    return found if time.process_time() - started < SLOW else ("escaped", "it took too long")


def run(seed: int, count: int) -> Counter[str]:
    """Judge the first texts of a seed and print what escapes."""
    counts: Counter[str] = Counter()
    for number in range(count):
        verdict, said = judged(text_of(seed, number))
        counts[verdict] += 1
        if verdict == "escaped":
            print(f"{number}: {said[:200]}\n    {text_of(seed, number)[:300]!r}", flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    counts = run(asked.seed, asked.count)
    total = " ".join(f"{name} {counts[name]:,}" for name in ("read", "refused", "escaped"))
    print(f"seed {asked.seed}: generated {counts.total():,} {total}")
    return 1 if counts["escaped"] else 0


if __name__ == "__main__":
    sys.exit(main())
