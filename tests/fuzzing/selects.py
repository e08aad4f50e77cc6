"""Random SELECTs over extreme values: what is accepted reads every row, what is refused is so by its form.

`python -m tests.fuzzing.selects --count 20000 --seed 1` prints how many were generated, accepted, refused and stopped.
Cases run in a process of their own, with bounded memory and a time limit for each, so that a crash is counted too.
"""

from __future__ import annotations

import argparse
import json
import resource
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import IO, Any

from tests.fuzzing.extremes import DATES, ROWS, owned, write
from tests.fuzzing.grammar import Grammar

from conspectus.data.columns.kinds import Boolean, Categorical, Date, Integer, Number
from conspectus.data.schema import Schema, Unit
from conspectus.data.sources import SourceError, open_table, sql
from conspectus.data.sources.origin import Connection

SECONDS = 300.0
MEMORY = 12 << 30
_COLUMNS = (
    Integer("x", 0, 99, missing=True),
    Number("x", (0.0, 1.0, 100.0), missing=True),
    Categorical("x", ("a", "7", "é"), missing=True),
    Boolean("x", missing=True),
    Date("x", *DATES, missing=True),
)


@dataclass(frozen=True)
class Case:
    """One SELECT and how its table is declared. `{t}` stands for the table."""

    query: str
    column: int
    identified: bool
    place: str  # "parquet", "csv" or "owned"

    @property
    def schema(self) -> Schema:
        unit = Unit("id", "k", max_rows=2) if self.identified else Unit()
        return Schema("t", (_COLUMNS[self.column],), unit)


def case_of(seed: int, number: int) -> Case:
    """The case of a number: the same in every process."""
    random = Random(f"{seed}:{number}")
    place = random.choice(("parquet", "parquet", "parquet", "owned", "csv"))
    grammar = Grammar(random, owned=place == "owned", wild=random.choice((0.0, 0.0, 0.02, 0.1)))
    shape = random.choice(
        ("column", "column", "column", "filter", "filter", "id", "id", "inside", "with", "alias", "replace")
    )
    whole = grammar.expression()
    forms = {
        "column": f"SELECT {whole} AS x FROM {{t}}",
        "filter": f"SELECT i8 AS x FROM {{t}} WHERE {whole if random.random() < 0.3 else grammar.expression('bool')}",
        "id": f"SELECT i8 AS x, {whole} AS k FROM {{t}}",
        "inside": f"SELECT {grammar.expression()} AS x FROM (SELECT *, {whole} AS y FROM {{t}}) WHERE y IS NOT NULL",
        "with": f"WITH q AS (SELECT {whole} AS y, * FROM {{t}}) SELECT coalesce(y::VARCHAR, s) AS x FROM q",
        "alias": f"SELECT {whole} AS y, y || y AS w, CASE WHEN {grammar.expression('bool')} THEN w END AS x FROM {{t}}",
        "replace": f"SELECT * REPLACE ({whole} AS i8), s AS x FROM {{t}} ORDER BY {grammar.expression()}",
    }
    return Case(forms[shape], random.randrange(len(_COLUMNS)), shape == "id", place)


class Bench:
    """The extreme table and its plain neighbour, made once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        write(folder)
        self._owned = {name: owned(folder, extreme=name == "extreme") for name in ("extreme", "plain")}

    def source(self, case: Case, name: str) -> Any:
        """What is opened: a relation of the owner's connection, or a SELECT over a file."""
        if case.place == "owned":
            return self._owned[name].sql(case.query.format(t="t"))
        return case.query.replace("{t}", f"'{self._folder}/{name}.{case.place}'")

    def verdict(self, case: Case, name: str) -> tuple[str, str]:
        """ "accepted", "refused", "unbound" or "stopped" on one of the tables, and what was said."""
        try:
            source = self.source(case, name)
        except Exception as problem:  # the owner's own connection does not take it: it never comes to us
            return "unbound", type(problem).__name__
        try:
            table = open_table(source, case.schema)
        except SourceError as problem:
            return "refused", str(problem).replace(f"{name}.", "*.")
        except BaseException as problem:
            return "stopped", f"opening: {type(problem).__name__}: {problem}"
        try:
            with table:
                rows = sum(chunk.rows for chunk in table.chunks())
                if not table.filtered and rows not in (3, ROWS):
                    return "stopped", f"{rows} rows"
        except BaseException as problem:
            return "stopped", f"reading: {type(problem).__name__}: {problem}"
        return "accepted", ""

    def judged(self, case: Case, *, both: bool) -> tuple[str, str]:
        """The verdict on the extreme table; a stop where the plain neighbour has another one."""
        found = self.verdict(case, "extreme")
        if both and found[0] != "stopped" and (plain := self.verdict(case, "plain")) != found:
            return "stopped", f"neighbours differ: {found} and {plain}"
        return found


class Shared(Connection):
    """A connection on one thread that all cases share: a case is small, and many of them run."""

    def __init__(self) -> None:
        super().__init__()
        self.cursor().execute("SET threads = 1")

    def close(self) -> None:
        """The next case goes on with it."""


@cache
def shared(*, memory_limit: str | None = None) -> Shared:
    """The one connection."""
    return Shared()


def _work(seed: int, first: int, last: int) -> None:
    sql.Connection = shared  # type: ignore[assignment, misc]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for number in range(first, last):
            print(json.dumps([number, "begun", ""]), flush=True)
            found = bench.judged(case_of(seed, number), both=number % 4 == 0)
            print(json.dumps([number, *found]), flush=True)


def run(seed: int, count: int, first: int = 0) -> Iterator[tuple[int, str, str]]:
    """The verdicts of cases, in order. A worker that dies or hangs stops at its case, and another one goes on."""
    last = first + count
    while first < last:
        command = [sys.executable, "-m", "tests.fuzzing.selects", "--work", str(first), str(last), "--seed", str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1) as worker:
            assert worker.stdout is not None
            begun = None
            for number, verdict, said in _lines(worker):
                begun = number
                if verdict != "begun":
                    first, begun = number + 1, None
                    yield number, verdict, said
            worker.kill()
        if first < last:
            number = first if begun is None else begun
            yield number, "stopped", f"the process ended ({worker.returncode})"
            first = number + 1


def _lines(worker: subprocess.Popen[str]) -> Iterator[tuple[int, str, str]]:
    assert worker.stdout is not None
    while _ready(worker.stdout) and (line := worker.stdout.readline()):
        yield tuple(json.loads(line))


def _ready(stream: IO[str]) -> bool:
    """Whether a line comes before the time of a case is over."""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return bool(selector.select(SECONDS))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--work", type=int, nargs=2)
    parser.add_argument("--verbose", action="store_true")
    asked = parser.parse_args()
    if asked.work:
        _work(asked.seed, *asked.work)
        return 0
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    started = time.monotonic()
    for number, verdict, said in run(asked.seed, asked.count, asked.first):
        counts[verdict] += 1
        if verdict == "stopped":
            print(f"{number}: {said[:300]}\n    {case_of(asked.seed, number)}", flush=True)
        if verdict == "refused":
            reasons[said] += 1
        if asked.verbose and counts.total() % 500 == 0:
            print(dict(counts), f"{time.monotonic() - started:.0f} s", flush=True)
    if asked.verbose:
        for reason, times in reasons.most_common(40):
            print(f"{times:6d}  {reason[:200]}")
    total = " ".join(f"{name} {counts[name]:,}" for name in ("accepted", "refused", "unbound", "stopped"))
    print(f"seed {asked.seed}: generated {counts.total():,} {total} in {time.monotonic() - started:.0f} s")
    return 1 if counts["stopped"] else 0


if __name__ == "__main__":
    sys.exit(main())
