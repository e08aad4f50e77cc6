"""A served folder: a small release that answers with intervals, a live session on a file, and somebody with a token."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.made import people

import conspectus as cs
from conspectus.sessions.opening import begin, session_problem

pytest.importorskip("fastapi", reason="the service needs fastapi: pip install 'conspectus[service]'")
pytest.importorskip("uvicorn", reason="the service needs uvicorn: pip install 'conspectus[service]'")

SCHEMA = """
name = "people"
neighbours = "replace"
[columns.region]
type = "categorical"
values = ["north", "east", "south", "west"]
[columns.age]
type = "integer"
min = 18
max = 89
width = 12
[columns.smoker]
type = "boolean"
[columns.ill]
type = "boolean"
"""


@pytest.fixture(scope="session")
def release() -> cs.Release:
    schema, table = people(2000)
    return cs.release(table, cs.marginals(schema, 2), epsilon=5.0, delta=1e-6, mechanism="projection")


@pytest.fixture
def folder(tmp_path: Path, release: cs.Release) -> Path:
    """A folder with one release, called people."""
    place = tmp_path / "shelf"
    place.mkdir(mode=0o700)
    release.save(place / "people.conspectus")
    return place


def add_session(folder: Path, name: str = "live", *, epsilon: float = 5.0, **settings: Any) -> Path:
    """A live session in the folder, over a made table that lies beside the folder."""
    import pyarrow.csv

    rows = 2000
    data, declared = folder.parent / "people.csv", folder.parent / "people.toml"
    if not data.exists():
        made = people_rows(rows)
        pyarrow.csv.write_csv(made, data)
        declared.write_text(SCHEMA, encoding="utf-8")
    path = folder / f"{name}.session"
    with cs.open_table(str(data), cs.Schema.load(declared)) as table:
        mechanism = cs.mechanisms.Pmw(**settings)
        from conspectus.privacy.guarantee import Budget

        problem = session_problem(
            table, Budget(epsilon=epsilon, delta=1e-6), mechanism, questions=1000, neighbours=None, rows=None
        )
        source = {"data": str(data), "schema": str(declared)}
        begin(table, problem, mechanism, path=path, source=source).close()
    return path


def people_rows(rows: int) -> Any:
    """The rows of `people`, as Arrow."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.Generator(np.random.PCG64(1))
    age = rng.integers(18, 90, rows)
    smoker = rng.random(rows) < np.where(age < 50, 0.35, 0.15)
    region = rng.choice(["north", "east", "south", "west"], rows, p=[0.4, 0.3, 0.2, 0.1])
    ill = rng.random(rows) < 0.05 + 0.2 * smoker + 0.002 * (age - 18)
    return pa.table({"region": region, "age": age, "smoker": smoker, "ill": ill})


@dataclass
class Service:
    """A running `conspectus serve`."""

    process: subprocess.Popen[str]
    address: str
    log: Path

    def call(
        self, path: str, body: Any = None, *, token: str | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """The status and the JSON of one request."""
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, content, headers or {})
        if body is not None:
            request.add_header("Content-Type", "application/json")
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                said = response.read()
                return response.status, json.loads(said) if said[:1] in b"{[" else said
        except urllib.error.HTTPError as problem:
            return problem.code, json.loads(problem.read())

    def children(self, module: str) -> list[int]:
        """The processes of this service that run a module."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    status = (entry / "stat").read_text()
                except OSError:
                    continue
                parent = int(status.rpartition(")")[2].split()[1])
                if parent == self.process.pid and any(word.endswith(f".{module}".encode()) for word in words[1:4]):
                    found.append(int(entry.name))
        return found

    def wait(self, *, sessions: bool = False) -> None:
        """Until the service answers, and with `sessions` until the homes do."""
        until = time.monotonic() + 600
        while time.monotonic() < until:
            try:
                status, said = self.call("/health")
                if status == 200 and (said["ok"] or not sessions):
                    return
            except (urllib.error.URLError, ConnectionError):
                pass
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(600)


def serve(folder: Path, *options: str) -> Service:
    """Start `conspectus serve` in a process of its own."""
    source = Path(__file__).parent.parent.parent / "src"
    log = folder.parent / "service.log"
    command = [sys.executable, "-m", "conspectus", "serve", str(folder), "--port", "0", *options]
    with log.open("a") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, "PYTHONPATH": str(source)}
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert " at http://" in line, (line, log.read_text())
    return Service(process, line.partition(" at ")[2].split()[0], log)


@pytest.fixture
def served() -> Iterator[Any]:
    """Starts services, and stops them at the end of the test."""
    running: list[Service] = []

    def start(folder: Path, *options: str) -> Service:
        running.append(serve(folder, *options))
        return running[-1]

    yield start
    for service in running:
        service.stop()
