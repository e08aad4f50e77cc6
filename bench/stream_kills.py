"""A stream under `kill -9`: ten million events, two hundred kills at random moments, and what is found afterwards."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import struct
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

import conspectus as cs
from bench import markdown, record
from conspectus.privacy.guarantee import Budget

EVENTS, KILLS, BATCH, LONGEST = 10_000_000, 200, 20_000, 0.15
FORK = multiprocessing.get_context("fork")
SHOWN = struct.Struct("<qd")
SCHEMA = cs.Schema.from_dict({"name": "visits", "columns": {"ill": {"type": "boolean"}}})


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.stream"
        cap = Budget(epsilon=2e6)
        bound = {"neighbours": "replace", "unit": "row", "schema_fingerprint": SCHEMA.fingerprint, "table": "visits"}
        ledger = cs.Ledger.create(path.with_suffix(".ledger"), budget=cap, **bound)
        # At a huge ε the noise is 0 but for a chance of e^-47,000 each: whatever is lost or counted twice shows.
        asked = cs.sql(SCHEMA, ["ill"])
        cs.open_stream(SCHEMA, asked, horizon=1 << 20, epsilon=1e6, ledger=ledger, path=path).close()
        with cs.open_stream(SCHEMA, asked, horizon=1, epsilon=1.0) as other:
            other.append(_rows())  # loads machine code, so that kills come while rows are counted
        clock, cpu = time.monotonic(), _cpu()
        shown = _killed(path)
        with cs.resume_stream(path) as stream:
            while stream.steps * BATCH < EVENTS:
                stream.append(_rows())
            steps = stream.steps
        seconds, spent = time.monotonic() - clock, _cpu() - cpu
        found = _found(path, ledger, shown, steps)
    heads = ["events", "kills", "on the clock", "of the processors", *found]
    line = [f"{steps * BATCH:,}", str(KILLS), f"{seconds:.0f} s", f"{spent:.0f} s", *map(str, found.values())]
    note = (
        f"Steps of {BATCH:,} events, one count, a stream in a file with a ledger. Each process goes on with the stream "
        f"and appends until `kill -9`, up to {LONGEST} s after it began. What it was shown before, {len(shown):,} "
        "outputs in all, it told its parent. At the end every output is compared with what it must be, since the ε is "
        f"so large that there is no noise. The clock includes the restarts; {os.cpu_count()} processors, nothing else "
        "running."
    )
    title = "A stream that is killed"
    record("stream-kills", title, f"{markdown(heads, [line])}\n\n{note}", "python -m bench stream_kills")


def _rows() -> pa.Table:
    return pa.table({"ill": np.ones(BATCH, dtype=bool)})


def _killed(path: Path) -> list[tuple[int, float]]:
    """The steps that processes were shown, with their counts, before each was killed at a random moment."""
    rng, shown = np.random.Generator(np.random.PCG64(11)), []
    for _ in range(KILLS):
        reader, writer = os.pipe()
        ready = FORK.Event()
        child = FORK.Process(target=_until_killed, args=(path, ready, writer))
        child.start()
        os.close(writer)
        assert ready.wait(60)
        time.sleep(float(rng.uniform(0.0, LONGEST)))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        with os.fdopen(reader, "rb") as pipe:
            told = pipe.read()
        shown += SHOWN.iter_unpack(told[: len(told) // SHOWN.size * SHOWN.size])
    return shown


def _until_killed(path: Path, ready, writer: int) -> None:
    rows = _rows()
    with cs.resume_stream(path) as stream:
        ready.set()
        while True:
            stream.append(rows)
            os.write(writer, SHOWN.pack(stream.steps, stream.value(0).count))


def _found(path: Path, ledger: cs.Ledger, shown: list[tuple[int, float]], steps: int) -> dict[str, int]:
    """How often it went wrong: steps that are not what arrived, outputs that are not what was shown, second draws."""
    with cs.resume_stream(path) as stream:
        now = [stream.range(0, 0, step + 1).count for step in range(stream.steps)]
    said = [entry.label.split() for entry in ledger.entries() if entry.kind == "debit" and entry.event is None]
    done: set[str] = set()
    again = 0
    for word, step, *_ in said:
        again += word == "begun" and step in done
        done |= {step} if word == "done" else set()
    twice = sum(times - 1 for times in Counter(step for word, step, *_ in said if word == "done").values())
    return {
        "steps lost or counted twice": sum(count != (place + 1) * BATCH for place, count in enumerate(now)),
        "outputs changed after they were shown": sum(
            step > len(now) or now[step - 1] != count for step, count in shown
        ),
        "steps drawn for again": again + twice + abs(steps - len(done)),
    }


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
