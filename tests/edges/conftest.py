"""A small made table on disk, a release of it, and a way to run commands without leaving the process."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from conspectus.cli import run

SCHEMA = """
name = "small"
[unit]
kind = "row"
[columns.sex]
type = "categorical"
values = ["f", "m"]
[columns.age]
type = "integer"
min = 0
max = 39
width = 10
[columns.ill]
type = "boolean"
[columns."a, b"]
type = "categorical"
values = ["x", "y", "z"]
other = true
"""
ROWS = [
    {"sex": "fm"[i % 2], "age": (7 * i) % 40, "ill": str(i % 5 == 0).lower(), "a, b": "xyzw"[(i // 3) % 4]}
    for i in range(240)
]


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]


def write_table(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: object) -> Said:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return call


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small.csv and small.toml, which is the current one."""
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "small.csv", ROWS)
    (tmp_path / "small.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


RELEASE = ("release", "small.csv", "--schema", "small.toml")


@pytest.fixture
def released(place: Path, command: Command) -> Path:
    """A release with so large an epsilon that its answers are the truth: 2-way marginals by Laplace noise."""
    budget = ("--epsilon", "1e6", "--mechanism", "laplace")
    said = command(*RELEASE, "--marginals", 2, *budget, "-o", "small.conspectus", "--quiet")
    assert (said.code, said.err) == (0, "")
    return place / "small.conspectus"
