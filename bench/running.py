"""Streams: the error of a running count as time goes on, beside counting every step alone; and how fast rows go in."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import conspectus as cs
from bench import markdown, record
from conspectus.privacy.noise import SystemSampler, discrete_laplace

LEVELS = (6, 10, 14, 20)
EVENTS, STEPS = 10_000_000, 50


def main() -> None:
    lines = [_line(levels) for levels in LEVELS]
    heads = ["steps", "rms error", "largest error", "95 % bound at one step", "each step alone, rms at the end"]
    heads.append("largest")
    seconds, size = _appended()
    note = (
        "One count, events replaced, ε = 1; errors in events, of one run each, drawn by the samplers of the package: "
        "over all steps of the stream (`horizon` known). The bound is Corollary 12.3 of the book for the noises that "
        "are in one output. *Each step alone* adds up counts that were published one by one with noise of scale 1.\n\n"
        f"{EVENTS:,} events in {STEPS} steps, two columns, 12 counts, kept in a file: {seconds:.1f} seconds of "
        f"processor time, or {60 * EVENTS / seconds:,.0f} events a minute; the file has {size / 1024:.0f} KiB."
    )
    record("running", "Counts that run on", f"{markdown(heads, lines)}\n\n{note}", "python -m bench running")


def _line(levels: int) -> list[str]:
    steps = 1 << levels
    scale, sampler = float(1 + levels), SystemSampler()
    errors = np.full(steps, int(discrete_laplace(np.zeros(1, dtype=np.int64), scale, sampler)[0]))
    for level in range(levels):
        drawn = discrete_laplace(np.zeros(steps >> level, dtype=np.int64), scale, sampler)
        errors += np.repeat(drawn, 1 << level)
    alone = np.cumsum(discrete_laplace(np.zeros(steps, dtype=np.int64), 1.0, sampler))
    terms = 1 + levels
    bound = max(math.sqrt(terms) * scale, scale * math.sqrt(math.log(40))) * math.sqrt(8 * math.log(40))
    shown = [np.sqrt(np.mean(errors**2.0)), np.abs(errors).max(), bound, math.sqrt(2.0 * steps), np.abs(alone).max()]
    return [f"{steps:,}", *(f"{number:,.0f}" for number in shown)]


def _appended() -> tuple[float, int]:
    rng = np.random.Generator(np.random.PCG64(2))
    columns = {"ill": {"type": "boolean"}, "age": {"type": "integer", "min": 0, "max": 9}}
    schema = cs.Schema.from_dict({"name": "visits", "columns": columns})
    each = EVENTS // STEPS
    rows = pa.table({"ill": rng.random(each) < 0.3, "age": rng.integers(0, 10, each)})
    asked = cs.marginals(schema, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.stream"
        with cs.open_stream(schema, asked, horizon=STEPS + 1, epsilon=1.0, path=path) as stream:
            stream.append(rows)  # compiles
            began = time.process_time()
            for _ in range(STEPS):
                stream.append(rows)
            spent = time.process_time() - began
        return spent, path.stat().st_size
