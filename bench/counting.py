"""Counting 500,000 random three-literal conjunctions on KDD Cup 99, against numpy and DuckDB, in one run.

The data folder comes from the environment variable CONSPECTUS_DATA and holds `kddcup99_10_percent.csv.gz` and
`kddcup99.columns.txt`. Encoding: protocol, service, flag and label take the values that occur; six flags are 0 and 1;
the rates take ten equal bins of [0, 1]; every other number takes ten bins with lower edges 0, 1, 4, 16, … 4^8.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from numpy.typing import NDArray

from bench import data_file, markdown, record
from conspectus.counting.counters import count
from conspectus.data.domain import Chunk, Domain, code_dtype
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.builders.random_conjunctions import random_conjunctions

QUERIES = 500_000
SAMPLE_BOOLEAN = 300
SAMPLE_PACKED = 5_000
SAMPLE_DUCKDB = 200
BATCHES = (1, 5, 10, 20, 100)
REPEATS = 3
SYMBOLIC = ("protocol_type", "service", "flag", "label")
FLAGS = ("land", "logged_in", "root_shell", "su_attempted", "is_host_login", "is_guest_login")


ENCODING = (
    "symbolic columns take the values that occur, flags 0 and 1, rates ten bins of equal width, other numbers ten bins "
    "that start at 0 and at the powers of four"
)


@dataclass(frozen=True)
class Table:
    """KDD Cup 99 as codes; a schema to the builders, which need no more than a domain."""

    domain: Domain
    columns: tuple[NDArray[np.unsignedinteger], ...]

    @property
    def rows(self) -> int:
        return len(self.columns[0])

    def chunks(self, rows: int = 1 << 17) -> Iterator[Chunk]:
        for start in range(0, self.rows, rows):
            part = tuple(column[start : start + rows] for column in self.columns)
            yield Chunk(part, len(part[0]))

    def column(self, name: str) -> None:
        raise LookupError(f"random conjunctions speak of codes, not of the values of {name}")


def load() -> Table:
    """Read and encode the file."""
    names = data_file("kddcup99.columns.txt").read_text().split()
    raw = pc.read_csv(data_file("kddcup99_10_percent.csv.gz"), read_options=pc.ReadOptions(column_names=names))
    sizes, columns = [], []
    for name in names:
        codes, size = encode(name, raw[name])
        sizes.append(size)
        columns.append(codes.astype(code_dtype(size)))
    return Table(Domain(tuple(names), tuple(sizes)), tuple(columns))


def encode(name: str, values: pa.ChunkedArray) -> tuple[NDArray[np.int64], int]:
    """The codes of one column and their number, as the module says."""
    if name in SYMBOLIC:
        coded = values.combine_chunks().dictionary_encode()
        return coded.indices.to_numpy().astype(np.int64), len(coded.dictionary)
    number = values.to_numpy().astype(np.float64)
    if name in FLAGS:
        return np.clip(number, 0, 1).astype(np.int64), 2
    if name.endswith("_rate"):
        return np.clip((number * 10).astype(np.int64), 0, 9), 10
    edges = np.concatenate([[1], 4.0 ** np.arange(1, 9)])
    return np.searchsorted(edges, number, side="right"), 10


def best(work: Callable[[], list[int]]) -> tuple[float, list[int]]:
    """The shortest of several passes after one that warms up: a peer is not charged for a busy machine."""
    found = work()
    spent = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return min(spent), found


def boolean_columns(table: Table, block: Conjunctions, sample: list[int]) -> tuple[float, list[int]]:
    """numpy on boolean columns made beforehand, one query at a time; only the counting is timed."""
    masks = _masks(table, block, sample)
    asked = [tuple(masks[term] for term in block.terms[query].tolist()) for query in sample]
    return best(lambda: [int(np.count_nonzero(a & b & c)) for a, b, c in asked])


def packed_words(table: Table, block: Conjunctions, sample: list[int]) -> tuple[float, list[int]]:
    """numpy on the same literals packed into 64-bit words, one query at a time; only the counting is timed."""
    pad = -table.rows % 64
    words = {
        term: np.packbits(np.pad(mask, (0, pad)), bitorder="little").view(np.uint64)
        for term, mask in _masks(table, block, sample).items()
    }
    asked = [tuple(words[term] for term in block.terms[query].tolist()) for query in sample]
    return best(lambda: [int(np.bitwise_count(a & b & c).sum()) for a, b, c in asked])


def _masks(table: Table, block: Conjunctions, sample: list[int]) -> dict[int, NDArray[np.bool_]]:
    masks = {}
    for term in {term for query in sample for term in block.terms[query].tolist()}:
        literal = block.literals[term]
        inside = np.zeros(table.domain.sizes[literal.column], dtype=bool)
        inside[list(literal.codes)] = True
        masks[term] = inside[table.columns[literal.column]]
    return masks


def in_duckdb(table: Table, block: Conjunctions, sample: list[int]) -> tuple[float, list[int]]:
    """DuckDB on a table of codes in memory, `count(*) FILTER (WHERE …)`, at the best of several batch sizes."""
    connection = duckdb.connect()
    connection.execute(f"SET threads TO {len(os.sched_getaffinity(0))}")
    codes = pa.table({f"c{i}": column for i, column in enumerate(table.columns)})
    connection.register("given", codes)
    connection.execute("CREATE TABLE codes AS SELECT * FROM given")
    filters = [f"count(*) FILTER (WHERE {_where(block, query)})" for query in sample]

    def run(batch: int) -> list[int]:
        found: list[int] = []
        for start in range(0, len(filters), batch):
            row = connection.execute(f"SELECT {', '.join(filters[start : start + batch])} FROM codes").fetchone()
            found += [int(value) for value in row or ()]
        return found

    tried = {batch: best(partial(run, batch)) for batch in BATCHES}
    chosen = min(tried, key=lambda batch: tried[batch][0])
    print(
        ", ".join(f"{n} at a time {1e3 * t / len(sample):.2f} ms" for n, (t, _) in tried.items()), "a query in DuckDB\n"
    )
    return tried[chosen]


def _where(block: Conjunctions, query: int) -> str:
    parts = []
    for term in block.terms[query].tolist():
        literal = block.literals[term]
        size = block.domain.sizes[literal.column]
        left = sorted(set(range(size)) - set(literal.codes))
        plain = len(literal.codes) == 1
        parts.append(f"c{literal.column} {'=' if plain else '<>'} {literal.codes[0] if plain else left[0]}")
    return " AND ".join(parts)


def main() -> None:
    table = load()
    start = time.perf_counter()
    workload = random_conjunctions(table, 3, QUERIES, 2014, negations=True)
    building = time.perf_counter() - start
    (block,) = workload.blocks
    assert isinstance(block, Conjunctions)
    count(workload[:1000], table.chunks())  # compiles, unless the compiled code is on disk already
    runs = []
    for _ in range(3):
        start = time.perf_counter()
        counts, rows = count(workload, table.chunks())
        runs.append(time.perf_counter() - start)
    ours = float(np.median(runs))
    sample = np.random.Generator(np.random.PCG64(7)).permutation(len(block)).tolist()
    peers = {
        "numpy, boolean columns, one query at a time": (boolean_columns, SAMPLE_BOOLEAN, 15),
        "numpy, packed words, one query at a time": (packed_words, SAMPLE_PACKED, 3),
        "DuckDB, count(*) FILTER, at its best batch": (in_duckdb, SAMPLE_DUCKDB, 100),
    }
    lines = [["Conspectus, planning and packing included", f"{QUERIES:,} (median of 3)", f"{ours:.2f}", "1", ""]]
    for name, (method, size, wanted) in peers.items():
        measured, found = method(table, block, sample[:size])
        assert found == counts[sample[:size]].tolist(), f"{name} counts differently"
        spent = measured / size * len(block)
        lines.append([name, f"{size:,}, scaled", f"{spent:.1f}", f"{spent / ours:.0f}", f"{wanted}"])
    heads = ["method", "queries measured", "seconds for all", "times ours", "wanted, at least"]
    threads = len(os.sched_getaffinity(0))
    note = (
        f"{QUERIES:,} conjunctions of 3 literals with negations, {rows:,} rows, {sum(table.domain.sizes)} literals "
        f"(each `=` or `<>`); {threads} threads; drawing the workload took {building:.2f} s. Peers: best of {REPEATS} "
        f"passes over a sample, scaled to all queries, their inputs made beforehand. Encoding: {ENCODING}."
    )
    title = "Counting conjunctions on KDD Cup 99"
    record("counting", title, markdown(heads, lines) + "\n\n" + note, "python -m bench counting")


if __name__ == "__main__":
    main()
