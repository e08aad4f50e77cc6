"""Rows past one machine: a table in Parquet, in PostgreSQL and in Spark, counted alike, in processor seconds.

`python -m bench far` measures all three tables below; `python -m bench.far postgres`, `… spark` and `… slopes` one of
them, each with `--rows`. The rows are made here: one block of a million, as often as it is needed, so that every exact
count is known. Each measurement is a process of its own, which counts a few rows first: compiling is not measured.

PostgreSQL and Java are needed for what bears their names. A table of 10^8 rows takes 5 GiB in PostgreSQL and half a
gibibyte in Parquet, in the folder for temporary files (TMPDIR).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from tests.servers.postgres_server import WHY_NOT, Server, binaries

import conspectus as cs
from bench import markdown, record
from conspectus.counting.counters import Counting

BLOCK = 1_000_000
FILES = 4
SIZES = (2, 3, 5, 8, 10, 12, 16, 20, 30, 50)
NAMES = tuple(f"c{size}" for size in SIZES)
CONJUNCTIONS = 500_000
EVERY = 5
"""Of so many marginals Spark SQL counts one: all of them would take longer than all the rest."""
POSTGRES_ROWS = (1_000_000, 5_000_000)
SPARK_ROWS = 30_000_000
MOST_BATCHES = 10_000_000
"""Rows of the largest frame that Spark hands over as batches: more would take longer than all the rest."""
SLOPE_ROWS = (1_000_000, 10_000_000, 100_000_000)
TICK = os.sysconf("SC_CLK_TCK")


def schema() -> cs.Schema:
    columns = {name: {"type": "integer", "min": 0, "max": size - 1} for name, size in zip(NAMES, SIZES)}
    return cs.Schema.from_dict({"name": "made", "columns": columns})


def block() -> pa.Table:
    """A million rows of ten integer columns with some dependence."""
    rng = np.random.default_rng(1)
    hidden = rng.random(BLOCK)
    return pa.table(
        {name: ((0.7 * hidden + 0.3 * rng.random(BLOCK)) * size).astype(np.int16) for name, size in zip(NAMES, SIZES)}
    )


def workload(asked: str) -> cs.Workload:
    if asked == "marginals":
        return cs.marginals(schema(), 2)
    if asked == "some marginals":
        every = cs.marginals(schema(), 2)
        return cs.Workload(every.domain, every.blocks[::EVERY])
    return cs.random_conjunctions(schema(), 4, CONJUNCTIONS, public_seed=2014)


def make_parquet(folder: Path, rows: int) -> Path:
    """A folder of a few Parquet files, all of one size."""
    made = block()
    place = folder / f"{rows}"
    place.mkdir()
    blocks = rows // BLOCK
    for number in range(min(FILES, blocks)):
        mine = blocks * (number + 1) // min(FILES, blocks) - blocks * number // min(FILES, blocks)
        with pq.ParquetWriter(place / f"{number}.parquet", made.schema) as writer:
            for _ in range(mine):
                writer.write_table(made)
    return place


def fill(server: Server, name: str, rows: int) -> None:
    """A table of the database with the same rows; the block goes in once, and the server copies it."""
    import psycopg

    text = io.BytesIO()
    pc.write_csv(block(), text, pc.WriteOptions(include_header=False))
    columns = ", ".join(f"{column} smallint" for column in NAMES)
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute(f"CREATE UNLOGGED TABLE block ({columns})")
        with connection.cursor().copy("COPY block FROM STDIN (FORMAT csv)") as copy:
            copy.write(text.getvalue())
        connection.execute(f"CREATE UNLOGGED TABLE {name} ({columns}) WITH (autovacuum_enabled = off)")
        for _ in range(rows // BLOCK):
            connection.execute(f"INSERT INTO {name} SELECT * FROM block")
        connection.execute("DROP TABLE block")
        connection.execute(f"VACUUM {name}")  # or the first pass would write hints into every page


@contextmanager
def database() -> Iterator[Server]:
    programs = binaries()
    if programs is None:
        raise SystemExit(WHY_NOT)
    with tempfile.TemporaryDirectory(prefix="conspectus-bench-") as folder:
        server = Server(Path(folder), programs)
        try:
            yield server
        finally:
            server.stop("immediate")


def cpu_of(first: int) -> float:
    """The processor seconds of a process, of its living descendants, and of those that it has waited for."""
    parents: dict[int, list[int]] = {}
    spent: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            words = (entry / "stat").read_text().rpartition(")")[2].split()
            parents.setdefault(int(words[1]), []).append(int(entry.name))
            spent[int(entry.name)] = sum(map(int, words[11:15]))
    total, waiting = 0, [first]
    while waiting:
        total += spent.get(here := waiting.pop(), 0)
        waiting += parents.get(here, [])
    return total / TICK


def measured(**settings: Any) -> dict[str, Any]:
    """One measurement in a process of its own."""
    words = [sys.executable, "-m", "bench.far", "one", json.dumps(settings)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(settings | found, file=sys.stderr, flush=True)
    return found


def one(source: str, rows: int, place: str, asked: str = "marginals", server: int = 0, insert: bool = False) -> None:
    """Count in this process, compare every count, and print what it took."""
    wanted = workload(asked)
    made = block()
    expected, _ = cs.open_table(made, schema()).fold(Counting(wanted))  # also loads what is compiled
    with _opened(source, place) as (given, options):
        if source.startswith("spark"):
            cs.open_table(given, schema()).fold(Counting(cs.marginals(schema(), 1)))  # starts its workers
        before, begun = cpu_of(os.getpid()), time.perf_counter()
        far = cpu_of(server) if server else 0.0
        if source == "spark-sql":
            found, seen = _grouped(given, wanted)
        else:
            with cs.open_table(given, schema(), **options) as table, _inserting(place if insert else ""):
                found, seen = table.fold(Counting(wanted))
        said = {
            "cpu": cpu_of(os.getpid()) - before,
            "server": cpu_of(server) - far if server else 0.0,
            "seconds": time.perf_counter() - begun,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "equal": bool(seen == rows and (np.asarray(found) == expected * (rows // BLOCK)).all()),
        }
    print(json.dumps(said))


@contextmanager
def _opened(source: str, place: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    if not source.startswith("spark"):
        yield place, {"table": "made"} if source == "postgres" else {}
        return
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    local = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    sizes = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    quiet = {"spark.ui.showConsoleProgress": "false", "spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}
    session = SparkSession.builder.master("local[2]").config(map={**local, **sizes, **quiet}).getOrCreate()
    frame = session.read.parquet(place)
    # A filter that leaves no row out: then rows that were read go through Spark, and back as Arrow batches.
    yield (frame.filter("c2 IS NOT NULL") if source == "spark-batches" else frame), {}
    session.stop()


def _grouped(frame: Any, wanted: cs.Workload) -> tuple[list[int], int]:
    """The same marginals by Spark SQL: one `groupBy().count()` for each."""
    found: list[int] = []
    seen = 0
    for marginal in wanted.blocks:
        names = [NAMES[column] for column in marginal.columns]
        counts = {tuple(row)[:-1]: row[-1] for row in frame.groupBy(*names).count().collect()}
        shape = [range(SIZES[column]) for column in marginal.columns]
        found += [counts.get((a, b), 0) for a in shape[0] for b in shape[1]]
        seen = sum(counts.values())
    return found, seen


@contextmanager
def _inserting(address: str) -> Iterator[None]:
    """Somebody who inserts rows, and commits, as long as the block runs."""
    if not address:
        yield
        return
    import psycopg

    done = threading.Event()
    begun = threading.Event()

    def insert() -> None:
        with psycopg.connect(address, autocommit=True) as connection:
            while not done.is_set():
                connection.execute(
                    f"INSERT INTO made SELECT {', '.join('0' for _ in NAMES)} FROM generate_series(1, 100)"
                )
                begun.set()

    writer = threading.Thread(target=insert)
    writer.start()
    begun.wait(60)
    try:
        yield
    finally:
        done.set()
        writer.join()


def postgres(sizes: tuple[int, ...] = POSTGRES_ROWS) -> None:
    lines = []
    for rows in sizes:
        with tempfile.TemporaryDirectory(prefix="conspectus-bench-") as folder, database() as server:
            near = measured(source="parquet", rows=rows, place=str(make_parquet(Path(folder), rows)))
            fill(server, "made", rows)
            first = int((server.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
            at: dict[str, Any] = {"source": "postgres", "rows": rows, "place": server.address, "server": first}
            still = measured(**at)
            moving = measured(**at, insert=True)
        for name, found in (
            ("Parquet", near),
            ("PostgreSQL", still),
            ("PostgreSQL, another client inserts", moving),
        ):
            lines.append(
                [f"{rows:,}", name, f"{found['cpu']:.2f}", f"{found['cpu'] / near['cpu']:.2f}"]
                + [f"{found['server']:.1f}" if found["server"] else "–", f"{found['memory']:,.0f} MiB"]
                + ["yes" if found["equal"] else "NO"]
            )
    heads = ["rows", "source", "processor seconds", "times Parquet", "of the server", "peak memory", "equal counts"]
    note = (
        f"45 two-way marginals ({len(workload('marginals')):,} cells) of ten smallint columns, one pass, each line a "
        "process of its own; its peak memory includes the package, and the last lines the client that inserts."
    )
    text = markdown(heads, lines) + "\n\n" + note
    record("far-postgres", "A table of PostgreSQL", text, "python -m bench.far postgres")


def spark(rows: int = SPARK_ROWS) -> None:
    runs = (
        ("marginals", "parquet"),
        ("marginals", "spark"),
        ("some marginals", "spark-sql"),
        ("conjunctions", "parquet"),
        ("conjunctions", "spark"),
        ("marginals", "spark-batches"),
    )
    with tempfile.TemporaryDirectory(prefix="conspectus-bench-") as folder:
        place = str(make_parquet(Path(folder), rows))
        found = {run: measured(source=run[1], rows=rows, place=place, asked=run[0]) for run in runs}
    groups = found["some marginals", "spark-sql"]["cpu"] * EVERY
    lines = []
    for (asked, source), each in found.items():
        scaled = asked == "some marginals"
        cpu = groups if scaled else each["cpu"]
        ratio = "–" if asked == "conjunctions" else f"{groups / cpu:.1f}"
        what = "500,000 conjunctions" if asked == "conjunctions" else "45 marginals"
        lines.append(
            [what, SOURCES[source], f"{cpu:.1f}{', scaled' if scaled else ''}", ratio]
            + ["yes" if each["equal"] else "NO"]
        )
    heads = ["asked", "source", "processor seconds", "Spark SQL takes, times", "equal counts"]
    note = (
        f"{rows:,} rows of ten integer columns in {FILES} Parquet files, Spark `local[2]`: seconds of driver, "
        "executors and their Python workers together, after a first job that starts them. Spark SQL runs one "
        f"`groupBy().count()` for each of {len(workload('some marginals').blocks)} of the 45 two-way marginals, and "
        f"its seconds are multiplied by {EVERY}. Conjunctions have four literals."
    )
    record("far-spark", "A Spark frame", markdown(heads, lines) + "\n\n" + note, "python -m bench.far spark")


SOURCES = {
    "parquet": "Parquet, without Spark",
    "postgres": "PostgreSQL",
    "spark": "Spark frame of plain Parquet files",
    "spark-batches": "Spark frame with a filter",
    "spark-sql": "Spark SQL's own `groupBy`",
}


def slopes(sizes: tuple[int, ...] = SLOPE_ROWS) -> None:
    taken: dict[str, list[dict[str, Any]]] = {"parquet": [], "postgres": [], "spark": [], "spark-batches": []}
    for rows in sizes:
        with tempfile.TemporaryDirectory(prefix="conspectus-bench-") as folder, database() as server:
            place = str(make_parquet(Path(folder), rows))
            for source in ("parquet", "spark", "spark-batches"):
                if source != "spark-batches" or rows <= MOST_BATCHES:
                    taken[source].append(measured(source=source, rows=rows, place=place))
            fill(server, "made", rows)
            first = int((server.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
            taken["postgres"].append(measured(source="postgres", rows=rows, place=server.address, server=first))
    lines = []
    for source, found in taken.items():
        cpu = [each["cpu"] + each["server"] for each in found]
        slope, start = np.polyfit(np.array(sizes[: len(cpu)]) / 1e6, cpu, 1)
        shown = [*(f"{each:.1f}" for each in cpu), *("–" for _ in sizes[len(cpu) :])]
        lines.append(
            [SOURCES[source], *shown, f"{slope:.2f}", f"{max(0.0, start):.1f}"]
            + [f"{found[0]['memory']:,.0f} MiB", f"{found[-1]['memory']:,.0f} MiB"]
            + ["yes" if all(each["equal"] for each in found) else "NO"]
        )
    heads = ["source", *(f"{rows / 1e6:,.0f} M rows" for rows in sizes), "a million rows more", "start"]
    heads += ["memory, fewest rows", "memory, most rows", "equal counts"]
    note = (
        "Processor seconds for 45 two-way marginals: all processes of Spark, and the server of PostgreSQL, included. "
        "The slope is that of a straight line through all sizes. Memory is the peak of our own process: with Spark the "
        "rows are in the workers' processes and the JVM's."
    )
    text = markdown(heads, lines) + "\n\n" + note
    record("far-slopes", "From a million rows to a hundred million", text, "python -m bench.far slopes")


def main() -> None:
    postgres()
    spark()
    slopes()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["postgres", "spark", "slopes", "one"])
    parser.add_argument("settings", nargs="?", help="of one measurement, in JSON")
    parser.add_argument("--rows", type=int, nargs="+", help=f"how many rows, in whole blocks of {BLOCK:,}")
    chosen = parser.parse_args()
    if chosen.what == "one":
        one(**json.loads(chosen.settings))
    elif chosen.what == "spark":
        spark(*(chosen.rows or [])[:1])
    else:
        {"postgres": postgres, "slopes": slopes}[chosen.what](*([tuple(chosen.rows)] if chosen.rows else []))
