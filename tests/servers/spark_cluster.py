"""A Spark cluster of two hosts on one machine: a master, and a worker at each of two loopback addresses.

In `local[2]` there is one process: no task is speculated, since a copy must run on another host, and there is no log of
an executor. Here executors are processes with logs of their own. Run as a program, this does what `test_spark_cluster`
asks about and prints it as one line of JSON: a process holds one Spark session, and other tests have theirs.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import conspectus as cs
from conspectus.counting.counters import Counting
from conspectus.data.fold import RowCount
from conspectus.data.sources import SourceError

SECRET = "floccinaucinihilipilification"
LOUD = "honorificabilitudinitatibus"
"""What a task of Spark's own says when it fails: the logs that are searched for the secret do hold such words."""
HOSTS = ("127.0.0.2", "127.0.0.3")
PARTS = 4
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.minTaskRuntime": "50ms",
}
SCHEMA = cs.Schema.from_dict(
    {
        "name": "made",
        "columns": {
            "a": {"type": "integer", "min": 0, "max": 5},
            "c": {"type": "categorical", "values": ["x", "y", "z"], "other": True},
        },
    }
)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The address of a master with a worker on each host; executors log below a folder."""
    import pyspark

    home = Path(pyspark.__file__).parent
    os.environ |= {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "PYSPARK_PYTHON": sys.executable}
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.nio", "sun.nio.ch")]
    java = ["java", "-Xmx256m", *opened, "-cp", f"{home}/jars/*"]
    address = f"spark://127.0.0.1:{(port := free_port())}"
    deploy = "org.apache.spark.deploy"
    processes = []

    def start(name: str, *command: str) -> None:
        with (folder / f"{name}.log").open("w") as log:
            processes.append(
                subprocess.Popen([*java, *command], stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            )

    try:
        start("master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        for host in HOSTS:
            terms = ("--host", host, "--cores", "1", "--memory", "600m", "--webui-port", "0")
            start(host, f"{deploy}.worker.Worker", *terms, "--work-dir", str(folder / f"work-{host}"), address)
        yield address
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)


class _Marked(RowCount):
    """Counts rows, and leaves a mark for each attempt at a partition that is begun."""

    columns = (0,)

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def mark(self) -> tuple[int, int]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        here = (context.partitionId(), context.attemptNumber())
        (Path(self._folder) / f"begun-{here[0]}-{here[1]}").touch()
        return here


class _Slow(_Marked):
    """The first attempt at partition 1 waits until a copy of it has begun, and a moment more: both count it."""

    def add(self, chunk: Any) -> None:
        part, attempt = self.mark()
        if (part, attempt) == (1, 0):
            until = time.monotonic() + 60
            while time.monotonic() < until and not (Path(self._folder) / "begun-1-1").exists():
                time.sleep(0.01)
        elif part == 1:
            time.sleep(0.5)
        super().add(chunk)


class _KillsExecutor(_Marked):
    """The first attempt at partition 2 kills the executor that runs it: the process of Java above its Python.

    What the executor had shuffled is lost with it, so that the whole stage begins anew, and attempts with it.
    """

    def add(self, chunk: Any) -> None:
        part, _ = self.mark()
        dead = Path(self._folder) / "killed"
        if part == 2 and not dead.exists():
            dead.touch()
            daemon = os.getppid()
            above = int(Path(f"/proc/{daemon}/stat").read_text().rsplit(")", 1)[1].split()[1])
            os.kill(above, signal.SIGKILL)
            time.sleep(60)
        super().add(chunk)


class _Fails(_Marked):
    columns = (1,)

    def add(self, chunk: Any) -> None:
        self.mark()
        raise ValueError(f"found {SECRET}")


def _loud(_: Any) -> Iterator[Any]:
    raise ValueError(LOUD)
    yield


def main(folder: Path) -> None:
    from pyspark.sql import SparkSession

    draw = np.random.Generator(np.random.PCG64(1))
    rows = pa.table({"a": draw.integers(0, 6, 2000), "c": draw.choice(["x", "y", "w", SECRET], 2000)})
    (folder / "rows").mkdir()
    for part in range(PARTS):
        pq.write_table(rows.slice(part * 500, 500), folder / "rows" / f"{part}.parquet")
    with cluster(folder) as address:
        local = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
        quiet = {"spark.ui.showConsoleProgress": "false", "spark.executor.memory": "512m"}
        settings = {**local, **quiet, **SPECULATION, "spark.sql.shuffle.partitions": str(PARTS)}
        session = SparkSession.builder.master(address).config(map=settings).getOrCreate()
        frame = session.read.parquet(str(folder / "rows"))
        said: dict[str, Any] = {"rows": rows.num_rows}

        def marks(kind: type[_Marked], source: Any) -> tuple[Any, list[str]]:
            place = folder / kind.__name__
            place.mkdir()
            try:
                found: Any = cs.open_table(source, SCHEMA).fold(kind(str(place)))
            except SourceError as problem:
                found = str(problem)
            return found, sorted(path.name for path in place.iterdir())

        said["slow"] = marks(_Slow, frame.repartition(PARTS))
        said["killed"] = marks(_KillsExecutor, frame.repartition(PARTS))
        said["failed"] = marks(_Fails, frame.repartition(PARTS))
        workload = cs.marginals(SCHEMA, 2)
        near = cs.open_table(rows, SCHEMA).fold(Counting(workload))[0]
        said["exact"] = all(
            bool((cs.open_table(source, SCHEMA).fold(Counting(workload))[0] == near).all())
            for source in (frame, frame.repartition(PARTS))
        )
        try:
            session.sparkContext.parallelize(range(PARTS), PARTS).mapPartitions(_loud).collect()
        except Exception:
            said["loud"] = True
        session.stop()
    print(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
