"""Mutated files of every kind through the commands: exit codes 0, 2, 3 and 4 alone, and nothing spent by a refusal.

`python -m tests.fuzzing.command_files --count 100000 --seed 1` prints how many files of each kind were accepted,
refused and stopped. A stop is any other exit code, a traceback, a ledger that a refusal changed, a CSV file that its
rows stopped, and more memory or time than a small file may take. Files are made and judged in a process of their own.
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
from pathlib import Path
from typing import IO

from tests.fuzzing.commands import Bench, kind_of

SECONDS = 90.0
MEMORY = 6 << 30


def _work(seed: int, first: int, last: int) -> None:
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        bench = Bench(Path(folder))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for number in range(first, last):
            _say(number, "begun", "")
            _say(number, *bench.judged(seed, number))


def _say(*line: object) -> None:
    print(json.dumps(line), file=sys.__stdout__, flush=True)


def run(seed: int, count: int, first: int = 0) -> Iterator[tuple[int, str, str]]:
    """The verdicts of files, in order. A worker that dies or hangs stops at its file, and another one goes on."""
    last = first + count
    while first < last:
        command = [sys.executable, "-m", __spec__.name, "--work", str(first), str(last), "--seed", str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1) as worker:
            assert worker.stdout is not None
            begun = None
            for number, verdict, said in _lines(worker.stdout):
                begun = number
                if verdict != "begun":
                    first, begun = number + 1, None
                    yield number, verdict, said
            worker.kill()
        if first < last:
            number = first if begun is None else begun
            yield number, "stopped", f"the process ended ({worker.returncode})"
            first = number + 1


def _lines(stream: IO[str]) -> Iterator[tuple[int, str, str]]:
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while selector.select(SECONDS) and (line := stream.readline()):
            yield tuple(json.loads(line))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--work", type=int, nargs=2)
    asked = parser.parse_args()
    if asked.work:
        _work(asked.seed, *asked.work)
        return 0
    counts: dict[str, Counter[str]] = {}
    started = time.monotonic()
    for number, verdict, said in run(asked.seed, asked.count, asked.first):
        counts.setdefault(kind_of(number), Counter())[verdict] += 1
        if verdict == "stopped":
            print(f"{number} ({kind_of(number)}): {said[:400]}", flush=True)
    for kind, found in sorted(counts.items()):
        print(f"{kind}: {found.total():,}, " + ", ".join(f"{name} {times:,}" for name, times in sorted(found.items())))
    total = sum((found for found in counts.values()), Counter[str]())
    print(
        f"seed {asked.seed}: {total.total():,} files, {total['accepted']:,} accepted, {total['refused']:,} refused, "
        f"{total['stopped']:,} stopped, in {time.monotonic() - started:.0f} s"
    )
    return 1 if total["stopped"] else 0


if __name__ == "__main__":
    sys.exit(main())
