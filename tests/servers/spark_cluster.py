"""A small Spark cluster of its own processes, for what a session in one process cannot do: speculation, and its logs.

`python -m tests.servers.spark_cluster FOLDER` runs it on Parquet files in FOLDER/rows and prints what happened as JSON.
Executors write their logs below FOLDER/work.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.laws.test_folds import BLOCKS, SCHEMA

import conspectus as cs
from conspectus.counting.counters import Counting
from conspectus.data.fold import Part, RowCount, Vectors
from conspectus.data.sources import SourceError
from conspectus.queries.workload import Workload

SECRET = "honorificabilitudinitatibus"
ASKED = Workload(SCHEMA.domain, BLOCKS["marginal"])
LONG = 25.0


def mark(folder: Path, word: str) -> None:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    (folder / f"{context.partitionId()}-{context.attemptNumber()}-{word}").touch()


class SleepsFirst(Counting):
    """Counts; the first attempt of the first partition sleeps so long that Spark starts a second one beside it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(ASKED)
        self._folder = folder

    def start(self, threads: int = 1, pool: Any = None) -> Part:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None:
            mark(self._folder, "began")
            if (context.partitionId(), context.attemptNumber()) == (0, 0):
                time.sleep(LONG)
                mark(self._folder, "slept")
        return super().start(threads, pool)


class Tells(RowCount):
    """Fails on a row, and says so in all ways that there are."""

    columns = (2,)

    def add(self, chunk: object) -> None:
        raise ValueError(f"found {SECRET}")

    def vectors(self) -> Vectors:
        return ()


def main(folder: Path) -> None:
    from pyspark.sql import SparkSession

    local = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    eager = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    quiet = {"spark.ui.showConsoleProgress": "false", "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]}
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]").config(map={**local, **eager, **quiet}).getOrCreate()
    )
    frame = session.read.parquet(str(folder / "rows"))
    marks = folder / "marks"
    marks.mkdir()
    begun = time.monotonic()
    found, rows = cs.open_table(frame, SCHEMA).fold(SleepsFirst(marks))
    seconds = time.monotonic() - begun
    expected, count = cs.open_table(pq.read_table(folder / "rows"), SCHEMA).fold(Counting(ASKED))
    said = []
    for source in (frame, frame.filter("a >= 0")):
        try:
            cs.open_table(source, SCHEMA).fold(Tells())
        except SourceError as error:
            said.append(str(error))
    session.stop()
    print(
        json.dumps(
            {
                "equal": bool(rows == count and (found == expected).all()),
                "seconds": seconds,
                "marks": sorted(each.name for each in marks.iterdir()),
                "said": said,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
