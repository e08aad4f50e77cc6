"""A reader that goes away, or a stream that was never open, changes nothing of what a command does.

A release whose progress nobody reads is drawn, paid for and saved; a ledger that somebody agreed to retire is retired.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.edges.conftest import Command

import conspectus as cs
from conspectus.cli.exit_codes import BAD_INPUT, BUG

RELEASE = ("release", "small.csv", "--schema", "small.toml", "--marginals", "2", "--epsilon", "1", "--delta", "1e-6")
LONG = ("--mechanism", "dual-query", "--set", "rounds=20", "--ledger", "small.ledger", "-o", "out.conspectus")

Listening = Callable[..., subprocess.CompletedProcess[str]]
RUN = (sys.executable, "-m", "conspectus")


def broken(stream: str, *command: str, said: str = "") -> subprocess.CompletedProcess[str]:
    """The command, with a pipe for this stream from which nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writing}
    try:
        return subprocess.run([*RUN, *command], input=said, text=True, check=False, timeout=300, **streams)
    finally:
        os.close(writing)


def closed(stream: str, *command: str, said: str = "") -> subprocess.CompletedProcess[str]:
    """The command, with a stream that was closed before it began."""
    number = {"stdin": 0, "stdout": 1, "stderr": 2}[stream]
    shell = ["sh", "-c", f'exec "$@" {number}>&-', "sh", *RUN, *command]
    return subprocess.run(shell, input=said, text=True, capture_output=True, check=False, timeout=300)


@pytest.fixture
def ledger(place: Path, command: Command) -> Path:
    budget = ("--epsilon", "3", "--delta", "1e-5")
    assert command("ledger", "init", "small.ledger", "--schema", "small.toml", *budget).code == 0
    return place / "small.ledger"


def retired(ledger: Path) -> bool:
    return cs.Ledger.open(ledger).burn_rate().retired is not None


@pytest.mark.parametrize("way", [broken, closed])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_release_is_saved_that_nobody_hears_of(way: Listening, stream: str, ledger: Path) -> None:
    assert way(stream, *RELEASE, *LONG).returncode == 0
    assert cs.load("out.conspectus").answered
    assert cs.Ledger.open(ledger).to_arrow()["settled"].to_pylist() == [True]


@pytest.mark.parametrize("way", [broken, closed])
def test_what_was_agreed_to_is_done_though_nobody_hears_of_it(way: Listening, ledger: Path) -> None:
    assert way("stdout", "ledger", "retire", str(ledger), "--reason", "done", said="y\n").returncode == 0
    assert retired(ledger)


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_nothing_is_refused_or_agreed_to_because_a_stream_is_closed(stream: str, ledger: Path) -> None:
    assert closed(stream, "ledger", "retire", str(ledger), "--reason", "done", said="n\n").returncode == BAD_INPUT
    assert not retired(ledger)
    assert closed(stream, "plan", "--schema", "small.toml", "--marginals", "1", "--epsilon", "1").returncode == 0


def test_what_is_said_aside_is_in_no_file(ledger: Path) -> None:
    tomllib.loads(closed("stderr", "schema", "draft", "small.csv").stdout)
    assert closed("stderr", *RELEASE, *LONG, "--no-such-option").stdout == ""


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_no_file_takes_the_place_of_a_closed_stream(stream: str, tmp_path: Path) -> None:
    """Neither here nor in a process that is started: whatever is said would be written into that file."""
    (tmp_path / "child.py").write_text("print(min(open('child.py').fileno() for _ in '1'), file=open('said', 'w'))")
    code = "import subprocess, sys, conspectus.cli as cli; cli._streams(); open('code').close()"
    code += "; sys.exit(subprocess.run([sys.executable, 'child.py']).returncode)"
    (tmp_path / "code").write_text(code)
    number = {"stdin": 0, "stdout": 1, "stderr": 2}[stream]
    shell = ["sh", "-c", f'exec "$@" {number}>&-', "sh", sys.executable, "-c", code]
    assert subprocess.run(shell, cwd=tmp_path, check=False).returncode == 0
    assert int((tmp_path / "said").read_text()) > 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
def test_a_full_disk_is_named(ledger: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*RUN, "schema", "check", "small.toml"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, "No space left" in done.stderr) == (BUG, True)


def test_a_reader_of_a_long_result_may_leave(ledger: Path) -> None:
    assert broken("stdout", "--help").returncode == 0
    assert broken("stdout", "schema", "check", "small.toml").returncode == 0
    assert broken("stdout", "release", "--no-such-option").returncode == 2
