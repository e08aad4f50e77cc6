"""Mutated files of every kind through the commands: exit codes 0, 2, 3 and 4 alone, and nothing spent by a refusal.

`python -m tests.fuzzing.command_files --count 100000 --seed 1` prints how many files of each kind were accepted,
refused and stopped. A stop is any other exit code, a traceback, a ledger that a refusal changed, a CSV file that its
rows stopped, and more memory or time than a small file may take. Files are made and judged in a process of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.fuzzing.commands import Bench, kind_of

SECONDS = 300.0
MEMORY = 12 << 30
SHIFT = 10_000
"""Files that one worker judges: what libraries keep of their threads adds up in its address space."""


def _work(seed: int, first: int, last: int, later: bool) -> None:
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        bench = Bench(Path(folder), later=later)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for number in range(first, min(last, first + SHIFT)):
            _say(number, "begun", "")
            _say(number, *bench.judged(seed, number))


def _say(*line: object) -> None:
    print(json.dumps(line), file=sys.__stdout__, flush=True)


def run(seed: int, count: int, first: int = 0, *, later: bool = False) -> Iterator[tuple[int, str, str]]:
    """The verdicts of files, in order. A worker that dies or hangs stops at its file, and another one goes on."""
    last = first + count
    while first < last:
        command = [sys.executable, "-m", __spec__.name, "--work", str(first), str(last), "--seed", str(seed)]
        command += ["--later"] if later else []
        begun, stopped = first, True
        with subprocess.Popen(command, stdout=subprocess.PIPE) as worker:
            assert worker.stdout is not None
            for number, verdict, said in _lines(worker.stdout.fileno()):
                begun, stopped = number, verdict == "begun"
                if not stopped:
                    first = number + 1
                    yield number, verdict, said
            worker.kill()
        if stopped:
            yield begun, "stopped", f"the process ended ({worker.returncode})"
            first = begun + 1


def _lines(descriptor: int) -> Iterator[tuple[int, str, str]]:
    """The lines of a worker, until it ends or takes too long for the next one."""
    held = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while selector.select(SECONDS) and (data := os.read(descriptor, 1 << 16)):
            *lines, held = (held + data).split(b"\n")
            for line in lines:
                yield tuple(json.loads(line))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--work", type=int, nargs=2)
    parser.add_argument("--later", action="store_true", help="files of the kinds that came later")
    asked = parser.parse_args()
    if asked.work:
        _work(asked.seed, *asked.work, asked.later)
        return 0
    counts: dict[str, Counter[str]] = {}
    started = time.monotonic()
    for number, verdict, said in run(asked.seed, asked.count, asked.first, later=asked.later):
        kind = kind_of(number, later=asked.later)
        counts.setdefault(kind, Counter())[verdict] += 1
        if verdict == "stopped":
            print(f"{number} ({kind}): {said[:400]}", flush=True)
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
