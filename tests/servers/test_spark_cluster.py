"""Executors in processes of their own: a task that is speculated counts once, and no log has a value."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import conspectus as cs

from .spark_cluster import LONG, SECRET

FILES = 4


@pytest.mark.audit
def test_a_task_that_is_speculated_counts_once_and_logs_hold_no_value(tmp_path: Path) -> None:
    pyspark = pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("no Java is installed, which Spark needs (on Debian: apt-get install default-jre-headless)")
    draw = np.random.Generator(np.random.PCG64(9))
    (tmp_path / "rows").mkdir()
    for part in range(FILES):
        size = 500 + part
        made = {
            "a": draw.integers(0, 6, size),
            "b": draw.integers(0, 2, size).astype(bool),
            "c": draw.choice(["x", "y", SECRET], size),
            "d": draw.integers(0, 2, size).astype(bool),
        }
        pq.write_table(pa.table(made), tmp_path / "rows" / f"{part}.parquet")
    here = Path(__file__)
    paths = os.pathsep.join(str(path) for path in (Path(cs.__file__).parents[1], here.parents[2], here.parents[1]))
    home = str(Path(pyspark.__file__).parent)
    own = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths, "SPARK_HOME": home}
    done = subprocess.run(
        [sys.executable, "-m", "tests.servers.spark_cluster", str(tmp_path)],
        env={**os.environ, **own, "SPARK_WORKER_DIR": str(tmp_path / "work")},
        cwd=here.parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    # The second attempt of the first partition ran beside the first one, which slept, and was the one that counted.
    assert "0-1-began" in found["marks"]
    assert found["seconds"] < LONG
    assert found["equal"]
    assert len(found["said"]) == 2
    logs = [file for file in (tmp_path / "work").rglob("std*") if file.is_file()]
    assert len(logs) >= 2
    assert any(file.stat().st_size for file in logs)
    for text in (done.stdout, done.stderr, *(file.read_text(errors="replace") for file in logs)):
        assert SECRET not in text
