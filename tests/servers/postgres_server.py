"""A PostgreSQL server of the tests' own, in a folder of its own, run by a user without rights."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

WHY_NOT = "no PostgreSQL server is installed (on Debian: apt-get install postgresql)"


def binaries() -> Path | None:
    """The folder with the programs of the newest server that is installed."""
    folders = [*glob.glob("/usr/lib/postgresql/*/bin"), *glob.glob("/usr/local/opt/postgresql*/bin")]
    found = shutil.which("initdb")
    folders += [str(Path(found).parent)] if found else []
    able = [Path(folder) for folder in folders if (Path(folder) / "initdb").exists()]
    return max(able, key=lambda folder: folder.parent.name, default=None)


class Server:
    """A running server. `address` leads to its one database as the superuser `owner`."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self._programs = folder, programs
        self._data = folder / "data"
        # The server refuses to run as root.
        self._as = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}
        if self._as:
            shutil.chown(folder, "nobody", "nogroup")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "-D", self._data, "-A", "trust", "-U", "owner", "-E", "UTF8", "--no-locale", "--no-sync")
        self.start()

    @property
    def address(self) -> str:
        return f"postgresql://owner:not-to-be-seen@127.0.0.1:{self.port}/postgres"

    def start(self, **settings: str) -> None:
        """Start it, with some settings."""
        told = {"port": str(self.port), "listen_addresses": "127.0.0.1", "unix_socket_directories": str(self.folder)}
        words = " ".join(f"-c {name}={value}" for name, value in {**told, "max_connections": "120", **settings}.items())
        self._run("pg_ctl", "-D", self._data, "-o", words, "-l", self.folder / "log", "-w", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it, and wait."""
        self._run("pg_ctl", "-D", self._data, "-m", mode, "-w", "stop")

    def kill(self) -> None:
        """Kill it without a word, as a loss of power would, and start it again."""
        first = int((self._data / "postmaster.pid").read_text().splitlines()[0])
        os.kill(first, signal.SIGKILL)
        for _ in range(200):
            try:
                self.start()
                return
            except subprocess.CalledProcessError:  # children of the old one are still there
                time.sleep(0.05)
        raise RuntimeError("the server does not come back")

    def log(self) -> str:
        """Everything that it has written down."""
        return (self.folder / "log").read_text(errors="replace")

    def run(self, *statements: str, user: str = "owner") -> list[tuple[Any, ...]]:
        """Run statements one by one; the rows of the last."""
        import psycopg

        found: list[tuple[Any, ...]] = []
        address = f"postgresql://{user}@127.0.0.1:{self.port}/postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
                found = cursor.fetchall() if cursor.description else []
        return found

    def _run(self, program: str, *words: object) -> None:
        subprocess.run(
            [str(self._programs / program), *map(str, words)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            **self._as,
        )


@contextmanager
def running() -> Iterator[Server]:
    """A server for as long as the block runs; the test is skipped where none is installed."""
    programs = binaries()
    if programs is None:
        pytest.skip(WHY_NOT)
    pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="conspectus-server-"))
    server = Server(folder, programs)
    try:
        yield server
    finally:
        server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)
