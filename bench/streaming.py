"""50 million made rows in a Parquet file through all 2-way marginals of ten columns, in bounded memory."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import conspectus as cs
from bench import markdown, record

ROWS = 50_000_000
GROUP = 1_000_000
SIZES = (2, 3, 5, 8, 10, 12, 16, 20, 30, 50)


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
    main()
