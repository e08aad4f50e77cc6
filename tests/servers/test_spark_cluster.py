"""On a cluster of two hosts: copies of a task count once, a lost executor too, and no log holds a value."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import conspectus as cs

from .spark_cluster import HOSTS, LOUD, PARTS, SECRET


@pytest.mark.audit
def test_a_cluster_of_two_hosts_counts_each_row_once_and_logs_no_value(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("no Java is installed, which Spark needs (on Debian: apt-get install default-jre-headless)")
    here = Path(__file__)
    paths = os.pathsep.join(str(path) for path in (Path(cs.__file__).parents[1], here.parents[2]))
    command = [sys.executable, "-m", "tests.servers.spark_cluster", str(tmp_path)]
    where = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, cwd=here.parents[2], env=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])

    # Speculation: partition 1 was begun on both hosts at once, and one of the two was taken.
    found, marks = said["slow"]
    assert found == said["rows"]
    assert {"begun-1-0", "begun-1-1"} <= set(marks)

    # A whole executor is lost in the middle of partition 2.
    found, marks = said["killed"]
    assert found == said["rows"]
    assert "killed" in marks

    assert said["exact"] is True

    # What fails inside an executor says nothing here, in the driver's log, or in the logs of the two executors' hosts.
    found, marks = said["failed"]
    assert "cannot be read" in found
    assert len({mark.split("-")[1] for mark in marks}) == PARTS
    assert said["loud"] is True
    logs = {host: list((tmp_path / f"work-{host}").rglob("std*")) for host in HOSTS}
    for host, files in logs.items():
        text = "".join(file.read_text(errors="replace") for file in files)
        assert "Running task" in text, host
        assert SECRET not in text, host
    assert any(LOUD in file.read_text(errors="replace") for files in logs.values() for file in files)
    daemons = "".join(log.read_text(errors="replace") for log in tmp_path.glob("*.log"))
    assert LOUD in done.stderr
    assert SECRET not in done.stdout + done.stderr + daemons
