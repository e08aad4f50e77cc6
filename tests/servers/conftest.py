"""One database server and one Spark session for all tests of a process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import conspectus as cs

from .postgres_server import Server, running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running() as made:
        yield made


@pytest.fixture(scope="session")
def session() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("no Java is installed, which Spark needs (on Debian: apt-get install default-jre-headless)")
    from pyspark.sql import SparkSession

    here = Path(__file__)
    paths = os.pathsep.join(str(path) for path in (Path(cs.__file__).parents[1], here.parents[2], here.parents[1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", paths)
        local = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
        quiet = {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}
        builder = SparkSession.builder.master("local[2,3]").config(map={**local, **quiet})
        made = builder.getOrCreate()
        yield made
        made.stop()
