"""Random SELECTs put to a release and to DuckDB over the same rows: equal where they are answered, or refused by us.

`python -m tests.fuzzing.answered_selects --count 20000 --seed 1` prints how many were answered as DuckDB does, how many
refused by one of our errors, how many DuckDB did not take, and how many were wrong. With a privacy loss of ten million
no noise is drawn in practice, so that numbers have to be equal to the last digits, and intervals to hold them. Every
eighth is put to the exact counts of a session, too. Every fourth has words left out or exchanged, and is held to its
intervals alone.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import math
import re
import sys
from collections import Counter
from fractions import Fraction
from functools import cached_property
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from tests.fuzzing.select_grammar import SIDES, Case, Grammar, Number

import conspectus as cs
from conspectus.queries.language.from_select import read_select
from conspectus.queries.query import Predicate
from conspectus.releases.selects.query_result import QueryResult
from conspectus.releases.selects.selecting import answer_select
from conspectus.sessions.given_answer import Given
from conspectus.sessions.questions import Question
from conspectus.sessions.selects import AskedCounts

ROWS = 1500
SCHEMA = cs.Schema.from_dict(
    {
        "name": "people",
        "columns": {
            "age": {"type": "integer", "min": -8, "max": 7, "missing": True},
            "s": {"type": "boolean", "missing": True},
            "g": {"type": "categorical", "values": ["f", "m", "A", "a"], "missing": True},
            "grade": {"type": "integer", "min": 0, "max": 3},
            "pay": {"type": "number", "edges": [0, 10, 20, 50]},
            "since": {"type": "date", "min": "2020-01-01", "max": "2021-12-31", "width": "month"},
        },
    }
)
Line = tuple[Any, ...]
_WORD = re.compile(r"""\d+\.\d+|\w+|'[^']*'|"[^"]*"|<>|<=|>=|::|//|[^\w\s]""")


_FRAME = frozenset(("SELECT", "FROM", "people", "AS", "CASE", "WHEN", "THEN", "END", "BY", "(", ")", ","))
"""Words without which a text is no SELECT at all: damage spares them."""


def rows() -> pa.Table:
    """A table with missing values, numbers below zero, and texts that differ in capitals alone."""
    random = Random(7)
    first = datetime.date(2020, 1, 1)
    ages = [None if random.random() < 0.2 else min(max(round(random.gauss(-1, 4)), -8), 7) for _ in range(ROWS)]
    return pa.table(
        {
            "age": ages,
            "s": [random.choice((True, False, False, None)) for _ in range(ROWS)],
            "g": [random.choice(("f", "f", "f", "m", "A", "A", "a", None)) for _ in range(ROWS)],
            "grade": [random.choice((0, 1, 1, 2, 3)) for _ in range(ROWS)],
            "pay": [random.uniform(0, 50) for _ in range(ROWS)],
            "since": [first + datetime.timedelta(days=random.randrange(731)) for _ in range(ROWS)],
        }
    )


class Bench:
    """The table, opened by both sides."""

    def __init__(self) -> None:
        self.table = rows()
        workload = cs.marginal(SCHEMA, SIDES["numbers"])
        workload += cs.marginal(SCHEMA, SIDES["bins"]) + cs.marginal(SCHEMA, SIDES["dates"])
        self.release = cs.release(cs.open_table(self.table, SCHEMA), workload, epsilon=1e7, mechanism="laplace")
        self.judge = duckdb.connect()
        self.judge.execute("SET threads = 1")
        self.judge.register("people", self.table)
        self._counts: dict[str, float] = {}

    @cached_property
    def codes(self) -> list[np.ndarray[Any, Any]]:
        return [np.asarray(column.encode(self.table[column.name])) for column in SCHEMA.columns]

    def _answered(self, text: str) -> QueryResult | tuple[str, str]:
        """The result of a SELECT, or how it was refused."""
        try:
            return self.release.query(text)
        except (ValueError, LookupError) as problem:
            ours = type(problem).__module__.startswith("conspectus.")
            return ("refused" if ours else "wrong"), f"{type(problem).__name__}: {problem}"
        except Exception as problem:
            return "wrong", f"{type(problem).__name__}: {problem}"

    def damaged(self, text: str) -> tuple[str, str]:
        """The verdict on a text of which nobody knows what it asks: intervals have to hold what DuckDB finds."""
        result = self._answered(text)
        if isinstance(result, tuple):
            return result
        try:
            found = self.judge.execute(text)
            names = [column[0] for column in found.description]
            theirs = [dict(zip(names, _plain(line))) for line in found.fetchall()]
        except duckdb.Error as problem:
            return "unbound", str(problem)
        known = [name for name, *_ in result.measures if names.count(name) == 1]
        if any(names.count(label) != 1 for label in result.labels) or not known:
            return "unbound", "the columns have other names"
        told = {tuple(line[label] for label in result.labels): line for line in theirs}
        mine = [dict(zip(result.column_names, _plain(tuple(line.values())))) for line in result.to_pylist()]
        if len(told) < len(theirs) or len({tuple(line[label] for label in result.labels) for line in mine}) < len(mine):
            return "unbound", "lines have no names of their own"
        for line in mine:
            true = told.get(tuple(line[label] for label in result.labels), {})
            for name in known:
                ends = (line[name], line[f"{name}_low"], line[f"{name}_high"])
                if true and (said := _differs((Number(text, name, loose=True),), ends, (true[name],))):
                    return "wrong", f"{line} {said} {true}"
        return "answered", ""

    def judged(self, case: Case, *, asked: bool) -> tuple[str, str]:
        """ "answered", "refused", "unbound" or "wrong", and what was said."""
        result = self._answered(case.sql())
        if isinstance(result, tuple):
            return result
        try:
            full, theirs = (
                [_plain(line) for line in self.judge.execute(case.sql(theirs=True, lines=lines)).fetchall()]
                for lines in (False, True)
            )
            undecided = self.judge.execute(case.undecided().sql(theirs=True)).fetchall() if case.having else []
        except duckdb.Error as problem:
            return "unbound", str(problem)
        vague = {_plain(line)[: len(case.keys)] for line in undecided}
        found = self._compared(case, result, full, theirs, vague)
        if not found and asked:
            found = self._compared(case, self.session(case.sql()), full, theirs, vague)
        return ("wrong", found) if found else ("answered", "")

    def session(self, text: str) -> QueryResult:
        """The SELECT answered from counts that a session would ask for, without noise."""
        plan = read_select(SCHEMA, text)
        total = self.release.counts.total
        source = AskedCounts(SCHEMA, total, lambda question: _given(1.0), lambda question: False)
        answer_select(plan, source, 0.95)  # as a quote does, which knows no counts
        return answer_select(plan, AskedCounts(SCHEMA, total, self._given, lambda question: False), 0.95)

    def _given(self, question: Question) -> Given:
        if question.key not in self._counts:
            query = question.workload.query(0)
            assert isinstance(query, Predicate)
            held = np.zeros(ROWS, dtype=bool)
            for box in query.boxes:
                parts = [np.isin(self.codes[part.column], part.codes) for part in box]
                held |= np.logical_and.reduce(parts) if parts else True
            self._counts[question.key] = float(held.sum())
        return _given(self._counts[question.key])

    def _compared(
        self, case: Case, result: QueryResult, full: list[Line], theirs: list[Line], undecided: set[Line]
    ) -> str:
        """What is wrong with a result; nothing where it is right.

        Groups without rows have a line here, and none in a database; a number of no rows is not known there, and may
        be anything here, so that HAVING and ORDER BY are not compared where one is.
        """
        width = len(case.keys)
        names = [f"k{at}" for at in range(width)] + [number.name for number in case.numbers]
        names += [f"{number.name}{end}" for number in case.numbers for end in ("_low", "_high")]
        if missing := [name for name in names if name not in result.column_names]:
            return f"no columns {missing}"
        mine = [_plain(line) for line in zip(*(result[name].to_pylist() for name in names))]
        groups = {line[:width]: line for line in full}
        real = [line for line in mine if line[:width] in groups]
        for line in real:
            if said := _differs(case.numbers, line[width:], groups[line[:width]][width:]):
                return f"{line} {said} {groups[line[:width]]}"
        vague = undecided | {keys for keys, line in groups.items() if any(map(_unknown, line[width:]))}
        empty = len(groups) < len(read_select(SCHEMA, case.sql()).groups(SCHEMA.domain))
        shown, told = ([line[:width] for line in lines if line[:width] not in vague] for lines in (real, theirs))
        if case.limit:
            if empty or vague:
                return ""
            if len(mine) != len(theirs):
                return f"{len(mine)} lines, not {len(theirs)}"
            return f"{shown} are shown, not {told}" if case.order and shown != told else ""
        if sorted(shown, key=str) != sorted(told, key=str):
            return f"lines {shown}, not {told}"
        return f"in the order {shown}, not {told}" if case.order and shown != told else ""


def _given(count: float) -> Given:
    return Given(count=count, basis="unguaranteed", margin=None, price=Fraction(0))


def _plain(line: Line) -> Line:
    """Values that are equal where they mean the same: numbers as floats, times as dates."""

    def one(value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return value.date()
        return float(value) if isinstance(value, int | decimal.Decimal) and not isinstance(value, bool) else value

    return tuple(one(value) for value in line)


def _unknown(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _differs(numbers: tuple[Number, ...], mine: Line, theirs: Line) -> str:
    for at, (number, true) in enumerate(zip(numbers, theirs)):
        value, low, high = mine[at], mine[len(numbers) + 2 * at], mine[len(numbers) + 2 * at + 1]
        if _unknown(true):  # of no rows nothing is known, and here it may be anything
            continue
        if value is None:
            return f"{number.name} is not told, and is known in"
        slack: Any = datetime.timedelta(0)
        if isinstance(true, float):
            if not isinstance(value, float):
                return f"{number.name} is no number, but is one in"
            slack = 2e-6 * max(1.0, abs(true)) + (0.0 if number.digits is None else 10.0**-number.digits)
            if number.digits is not None and abs(value * 10**number.digits - round(value * 10**number.digits)) > 1e-4:
                return f"{number.name} is not rounded, unlike"
            if not number.loose and abs(value - true) > slack:
                return f"{number.name} is {value}, not as in"
        elif type(value) is not type(true):
            return f"{number.name} is of another type than in"
        if low is not None and not low - slack <= true <= high + slack:
            return f"{number.name} lies outside of its interval in"
    return ""


def case_of(seed: int, number: int) -> Case:
    """The case of a number."""
    return Grammar(Random(f"{seed}:{number}")).case()


def _class(word: str) -> tuple[bool, ...]:
    """What a word can be exchanged for: words in capitals, names, numbers, texts or signs."""
    return word[0].isdigit(), word.isupper(), word.isidentifier(), word[0] in "'\""


def damage_of(seed: int, number: int) -> str:
    """The text of a case with words left out or exchanged with words like them of another case."""
    random = Random(f"{seed}:{number}:damage")
    words, others = (_WORD.findall(case_of(seed, at).sql()) for at in (number, random.randrange(number + 1)))
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.choice([at for at, word in enumerate(words) if word not in _FRAME])
        alike = [word for word in others if _class(word) == _class(words[at]) and word not in _FRAME] or [words[at]]
        words[at : at + 1] = random.choice(([], *[[random.choice(alike)]] * 9))
    return " ".join(words)


def run(seed: int, count: int, *, verbose: bool = False) -> Counter[str]:
    """Judge the first cases of a seed, and print what is wrong."""
    bench, counts = Bench(), Counter[str]()
    reasons: Counter[str] = Counter()
    for number in range(count):
        case, damaged = case_of(seed, number), damage_of(seed, number) if number % 4 == 1 else ""
        verdict, said = bench.damaged(damaged) if damaged else bench.judged(case, asked=number % 8 == 0)
        counts[verdict] += 1
        reasons[f"{verdict}: {said[:110]}"] += verdict != "answered"
        if verdict == "wrong":
            print(f"{number}: {said[:400]}\n    {damaged or case.sql()}", flush=True)
    if verbose:
        for reason, times in reasons.most_common(60):
            print(f"{times:6d}  {reason}")
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    asked = parser.parse_args()
    counts = run(asked.seed, asked.count, verbose=asked.verbose)
    total = " ".join(f"{name} {counts[name]:,}" for name in ("answered", "refused", "unbound", "wrong"))
    print(f"seed {asked.seed}: generated {counts.total():,} {total}")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
