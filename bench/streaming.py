"""Large files: 50 million rows of Parquet in bounded memory, and 5 million rows of CSV that many rounds ask about.

`python -m bench streaming` measures both, `python -m bench.streaming passes` the second alone.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

import conspectus as cs
from bench import markdown, record

ROWS = 50_000_000
GROUP = 1_000_000
SIZES = (2, 3, 5, 8, 10, 12, 16, 20, 30, 50)
CSV_ROWS = 5_000_000
CSV_SIZES = (2, 2, 2, 2, 2, 2, 2, 4, 20, 24)
QUERIES = 10_000


def make(path: Path, rows: int = ROWS) -> None:
    """Ten integer columns with some dependence, a million rows at a time."""
    rng = np.random.default_rng(1)
    fields = pa.schema([(f"c{size}", pa.int16()) for size in SIZES])
    with pq.ParquetWriter(path, fields) as writer:
        for _ in range(rows // GROUP):
            hidden = rng.random(GROUP)
            columns = [pa.array(((0.7 * hidden + 0.3 * rng.random(GROUP)) * size).astype(np.int16)) for size in SIZES]
            writer.write_table(pa.table(columns, schema=fields))


def main() -> None:
    marginals()
    passes()


def passes() -> None:
    """How often a CSV file is read, and how long that takes, also where a mechanism asks again in every round."""
    columns = {f"c{at}": {"type": "integer", "min": 0, "max": size - 1} for at, size in enumerate(CSV_SIZES)}
    schema = cs.Schema.from_dict({"name": "made", "columns": columns})
    workload = cs.random_conjunctions(schema, 3, QUERIES, public_seed=1)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.csv"
        make_csv(path)
        for mechanism in ("gaussian", "mwem"):
            begun, cpu = time.perf_counter(), _cpu()
            with cs.open_table(path, schema) as table:
                read = _watched(table)
                cs.release(table, workload, epsilon=1.0, delta=1e-9, mechanism=mechanism)
            seconds = f"{time.perf_counter() - begun:.1f}", f"{_cpu() - cpu:.1f}"
            lines.append([f"`{mechanism}`", str(len(read)), *seconds])
    note = (
        f"{QUERIES:,} random conjunctions of three literals on {CSV_ROWS:,} rows of ten columns in a CSV file, "
        "ε = 1, δ = 1e-9. The first pass puts the codes of the rows aside; every later question is counted from these."
    )
    heads = ["mechanism", "passes over the file", "seconds", "of them processor seconds"]
    record("passes", "Passes over a file", markdown(heads, lines) + "\n\n" + note, "python -m bench.streaming passes")


def make_csv(path: Path) -> None:
    """Ten integer columns with some dependence, half a million rows at a time."""
    rng = np.random.default_rng(1)
    fields = pa.schema([(f"c{at}", pa.int16()) for at in range(len(CSV_SIZES))])
    step = CSV_ROWS // 10
    with pc.CSVWriter(path, fields) as writer:
        for _ in range(10):
            hidden = rng.random(step)
            columns = [((0.7 * hidden + 0.3 * rng.random(step)) * size).astype(np.int16) for size in CSV_SIZES]
            writer.write_table(pa.table([pa.array(column) for column in columns], schema=fields))


def _watched(table: Any) -> list[None]:
    """A list that grows with each pass over the source of a table."""
    begun: list[None] = []
    begin = table._origin.relation
    object.__setattr__(table._origin, "relation", lambda *columns: begun.append(None) or begin(*columns))
    return begun


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def marginals() -> None:
    columns = {f"c{size}": {"type": "integer", "min": 0, "max": size - 1} for size in SIZES}
    schema = cs.Schema.from_dict({"name": "made", "columns": columns})
    workload = cs.marginals(schema, 2)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.parquet"
        for rows in (ROWS // 10, ROWS):
            make(path, rows)
            seconds, peak, rise = _release(path, schema, workload)
            size = path.stat().st_size
            lines.append(
                [f"{rows:,}", f"{size / 2**20:,.0f} MiB", f"{seconds:.1f}", f"{peak:,.0f} MiB", f"{rise:,.0f} MiB"]
            )
    heads = ["rows", "file", "seconds", "peak memory of the process", "of which above the start"]
    note = (
        f"All {len(workload.blocks)} two-way marginals ({len(workload):,} cells) of ten integer columns with "
        f"{min(SIZES)} to {max(SIZES)} values, `gaussian` at ε = 1, δ = 1e-9; each size in its own process. In 8-byte "
        f"codes the larger table would take {ROWS * len(SIZES) * 8 / 2**30:.1f} GiB."
    )
    record("streaming", "Streaming a large file", markdown(heads, lines) + "\n\n" + note, "python -m bench streaming")


def _release(path: Path, schema: cs.Schema, workload: cs.Workload) -> tuple[float, float, float]:
    """Release in a child, so that its peak memory is its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        cs.release(cs.open_table(path, schema), workload, epsilon=1.0, delta=1e-9, mechanism="gaussian")
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        os.write(writer, f"{seconds} {peak / 1024} {(peak - before) / 1024}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    seconds, peak, rise = (float(word) for word in os.read(reader, 1000).split())
    return seconds, peak, rise


if __name__ == "__main__":
    passes() if sys.argv[1:] == ["passes"] else main()
