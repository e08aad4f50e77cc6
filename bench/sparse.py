"""Sparse queries over universes that nobody could list: error against m, beside published keys and noise on answers."""

from __future__ import annotations

import math
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import conspectus as cs
from bench import data_file, markdown, record
from conspectus.counting.counters import count
from conspectus.data.domain import RECORDS
from conspectus.data.records.fingerprints import fingerprints, tuples
from conspectus.data.sources import Table
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.query import WEIGHT_STEPS
from conspectus.queries.workload import Workload

QUERIES, MOST = 100_000, 1_000
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
EDGES = (1, 3, 10, 32, 100, 316, 1_001)
ROWS = 100_000
TIMED = (1_000, 10_000_000, 20_000_000, 40_000_000, 80_000_000)
TIMES = 3
STORED = (20_000, 2_000, 100)
"""Rows, questions and records of each, of the file whose length is measured."""

SHOWN = ("size", "nonzeros", "threshold", "keys", "scale")
COMPARED: dict[str, tuple[str, dict[str, int]]] = {
    "sparse-project": ("sparse-project", {}),
    "median of five": ("sparse-project", {"nonzeros": 5}),
    "stable-histogram": ("stable-histogram", {}),
    "laplace": ("laplace", {}),
    "gaussian": ("gaussian", {}),
}


def strings() -> tuple[Table, NDArray[np.str_]]:
    """10^5 rows of 64-bit strings: half of them different from all others, half repeated by a power law."""
    rng = np.random.default_rng(1)
    known = np.unique(rng.integers(0, 1 << 63, ROWS))
    ranks = np.minimum(rng.zipf(1.3, ROWS // 2), len(known)) - 1
    rows = np.concatenate([rng.permutation(known)[: ROWS - len(ranks)], known[ranks]])
    return cs.open_records(bits_of(rows)), bits_of(known)


def bits_of(numbers: NDArray[np.int64]) -> NDArray[np.str_]:
    """Numbers as strings of 64 bits."""
    return np.array([f"{number:064b}" for number in numbers.tolist()])


def pairs() -> tuple[Table, NDArray[np.int64]]:
    """The check-ins of Gowalla as (user, item) pairs, all different."""
    held = pq.read_table(data_file("gowalla_lightgcn.parquet"), columns=["user", "item"])
    codes = np.stack([held.column(name).to_numpy() for name in ("user", "item")], axis=1).astype(np.int64)
    return cs.open_records(held), codes[:, 0] << 32 | codes[:, 1]


def questions(known: NDArray[np.generic], rng: np.random.Generator) -> cs.Workload:
    """100,000 queries whose m is uniform in its logarithm; half of their records are in the table or its like."""
    m = np.floor(MOST ** rng.random(QUERIES) + 1e-9).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(m)])
    drawn = rng.integers(0, len(known), offsets[-1])
    there = rng.random(offsets[-1]) < 0.5
    if known.dtype.kind == "U":
        held = fingerprints(pa.array(known))[drawn]
        absent = fingerprints(pa.array(bits_of(rng.integers(0, 1 << 63, 1 << 17))))
        other = absent[rng.integers(0, len(absent), len(there))]
    else:
        made = rng.integers(0, 29_858, len(there)) << 32 | rng.integers(0, 40_981, len(there))
        held, other = (
            tuples([fingerprints(codes >> 32), fingerprints(codes & 0xFFFFFFFF)], len(codes))
            for codes in (known[drawn], made)
        )
    steps = np.full(len(there), WEIGHT_STEPS, dtype=np.uint32)
    block = SparseQueries.build(RECORDS, offsets, np.where(there, held, other), steps)
    return Workload(RECORDS, (block,))


def compare(name: str, table: Table, workload: cs.Workload) -> tuple[list[list[str]], str]:
    truth, rows = count(workload, table.chunks())
    if not truth.any():
        raise SystemExit("no question lists a record of the table: its fingerprints are not those of the questions")
    m = np.diff(workload.blocks[0].offsets)
    errors, notes = {}, []
    for label, (mechanism, settings) in COMPARED.items():
        start = time.perf_counter()
        release = cs.release(table, workload, mechanism=mechanism, **BUDGET, **settings)
        seconds = time.perf_counter() - start
        errors[label] = release.answers * rows - truth
        told = ", ".join(f"{key} {release.parameters[key]:,.4g}" for key in SHOWN if key in release.parameters)
        notes.append(f"{label} {seconds:.0f} s ({told})")
    lines = []
    for low, high in pairwise(EDGES):
        here = (m >= low) & (m < high)
        middle = math.sqrt(low * (high - 1))
        cells = [
            f"{np.median(np.abs(found[here])):,.1f} / {np.sqrt(np.mean(found[here] ** 2)):,.1f}"
            for found in errors.values()
        ]
        bound = math.sqrt(middle) * math.log(QUERIES) / BUDGET["epsilon"]
        span = f"{low} to {high - 1:,}"
        lines.append([name, span, f"{here.sum():,}", *cells, f"{bound:,.1f}"])
    sizes = np.log(m[m >= 3])
    slope = np.polyfit(sizes, np.log(np.abs(errors["sparse-project"][m >= 3]) + 0.5), 1)[0]
    largest = ", ".join(f"{kind} {np.abs(found).max():,.0f}" for kind, found in errors.items())
    told = f"{name}: n = {rows:,}; slope of log |error| in log m {slope:.2f} (√m: 0.5); largest errors {largest}; "
    return lines, told + "; ".join(notes) + "."


def speeds() -> list[list[str]]:
    rng = np.random.default_rng(3)
    lines = []
    table = cs.open_records(rng.permutation(1 << 40 | np.arange(ROWS)))
    one = cs.sparse([{1 << 40: 1}])
    start = time.perf_counter()
    cs.release(table, one, mechanism="sparse-project", form="dense", size=4096, **BUDGET)
    lines.append(["dense form, 10^5 different records, T = 4,096", f"{time.perf_counter() - start:.1f}", "60"])
    held = rng.integers(0, 1 << 62, max(TIMED))
    clock, processor = {rows: [] for rows in TIMED}, {rows: [] for rows in TIMED}
    for rows in TIMED * TIMES:  # in turn, so that a busy minute of the machine falls on all of them
        starts = time.perf_counter(), time.process_time()
        release = cs.release(
            cs.open_records(held[:rows]), one, mechanism="sparse-project", size=1 << 16, nonzeros=1, **BUDGET
        )
        clock[rows].append(time.perf_counter() - starts[0])
        processor[rows].append(time.process_time() - starts[1])
    del held
    for rows in TIMED:
        seconds, busy = min(clock[rows]), min(processor[rows])
        limit = "60" if rows == 10_000_000 else ""
        lines.append([f"sparse form, {rows:,} records, T = 65,536", f"{seconds:.2f} ({busy:.2f} of a core)", limit])
    # Noise on 65,536 coordinates costs the same for every table: what a thousand records take is taken off.
    fixed, *taken = (min(processor[rows]) for rows in TIMED)
    grown = np.polyfit(np.log(TIMED[1:]), np.log([busy - fixed for busy in taken]), 1)[0]
    each = (taken[-1] - fixed) / TIMED[-1]
    lines.append(["slope of log (seconds of a core, less those of 1,000 records) in log records", f"{grown:.2f}", "1"])
    lines.append([f"each record, of {TIMED[-1]:,}", f"{each * 1e9:.0f}e-9", ""])
    many = cs.sparse_arrays(rng.integers(0, 1 << 62, 100 * QUERIES), np.arange(0, 100 * QUERIES + 1, 100))
    start = time.perf_counter()
    release.synopsis.answer(many)
    lines.append(["10^5 queries of m = 100 answered from the sparse form", f"{time.perf_counter() - start:.1f}", "10"])
    lines.append(["bytes of the file per coordinate, of 65,536, one question", f"{stored(release):.2f}", "16"])
    return lines


def stored(release: cs.Release, *, questions: bool = True) -> float:
    """Bytes of the file for each coordinate."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sparse.conspectus"
        release.save(path, questions=questions)
        return path.stat().st_size / release.parameters["size"]


def sizes() -> list[list[str]]:
    """A file with many questions: as it comes, and without them."""
    rng = np.random.default_rng(4)
    rows, queries, m = STORED
    asked = cs.sparse_arrays(rng.integers(0, 1 << 62, queries * m), np.arange(0, queries * m + 1, m))
    release = cs.release(cs.open_records(rng.integers(0, 1 << 62, rows)), asked, mechanism="sparse-project", **BUDGET)
    what = f"bytes of the file per coordinate, of {release.parameters['size']:,}, {queries:,} questions of m = {m}"
    return [
        [f"{what}, all stored", f"{stored(release):.2f}", ""],
        [f"{what}, left out", f"{stored(release, questions=False):.2f}", "16"],
    ]


def publish(compared: list[tuple[list[list[str]], str]], times: list[list[str]]) -> None:
    heads = ["table", "m", "queries", *COMPARED, "√m·ln k/ε"]
    text = markdown(heads, [line for lines, _ in compared for line in lines]) + "\n\n"
    text += (
        f"Median / root mean square of the errors, in counts, of {QUERIES:,} sparse queries at ε = 1, δ = 1e-6, rows "
        "replaced. `sparse-project` as it comes has one non-zero a record: its two numbers part where the hash puts a "
        "heavy record on one of a query's, which some hashes do and others do not. The next column has the median of "
        "five blocks, which ignores heavy records and has more noise. m is uniform in its logarithm between 1 and "
        "1,000, and half of the records that a query lists are absent. The last column is the shape of the theorem's "
        "bound, at the geometric middle of the row.\n\n"
    )
    text += "\n\n".join(note for _, note in compared) + "\n\n"
    text += markdown(["what", "seconds or bytes", "at most"], times)
    text += f"\n\nOf {TIMES} runs in turn the fastest is shown for each number of records."
    record("sparse", "Sparse queries over unbounded universes", text, "python -m bench sparse")


def main() -> None:
    compared = []
    for name, made in (("64-bit strings", strings), ("user–item pairs", pairs)):
        table, known = made()
        compared.append(compare(name, table, questions(known, np.random.default_rng(2))))
    publish(compared, speeds() + sizes())


if __name__ == "__main__":
    main()
