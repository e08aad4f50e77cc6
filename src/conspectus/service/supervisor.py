"""The parent of the service: binds the address, starts homes and workers, and starts again what died.

It answers no request and opens no table. Its children hold the other end of a pipe, and end when it ends, however that
happens.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from conspectus.real_path import real_path

from .gate import Limits
from .homes.home import QUEUE
from .homes.switchboard import HOMES
from .journal import Journal
from .shelf import FolderError, Shelf, sessions_of

WORKER, HOME = "conspectus.service.worker", "conspectus.service.homes.home"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TICK = 0.05
_GRACE = 12.0
"""Seconds that workers have to end, and then homes: together less than a system waits for a service."""
_CALM = 30.0
"""Seconds after which a child that died is no longer thought to die at once."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the owner asked for.

    Attributes:
        folder: The folder with releases and sessions.
        host: The address to listen at: this machine alone, unless told.
        port: The port; 0 for any that is free.
        workers: How many web workers answer requests.
        closed: Whether synopses too need a token.
        names: Host names under which the service is reached besides, by a reverse proxy.
        log: From which level on the journal is written.
        queue: How many questions may wait for a session.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8765
    workers: int = 1
    closed: bool = False
    names: tuple[str, ...] = ()
    log: str = "info"
    queue: int = QUEUE


@dataclass
class _Child:
    """A process that is kept alive: how it is started, and how often it died of late."""

    what: str
    module: str
    argument: dict[str, Any]
    inherited: tuple[int, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0
    again: float = 0.0

    def start(self) -> None:
        command = [sys.executable, "-m", self.module]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=self.inherited, start_new_session=True)
        assert self.process.stdin is not None
        # By the pipe, and not on the command line: the address of a ledger may hold a password.
        with suppress(BrokenPipeError):  # it died at once, which is seen at the next look
            self.process.stdin.write(json.dumps(self.argument).encode() + b"\n")
            self.process.stdin.flush()
        self.started = time.monotonic()


class Supervisor:
    """One service."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._journal = Journal("parent", plan.log)
        shelf = Shelf(plan.folder)
        self.published = [one.name for one in shelf.all()]
        for file, problem in shelf.unreadable.items():
            self._journal.say("unreadable", level="warning", file=file, problem=problem)
        self.hosted = sessions_of(plan.folder)
        twice = {one.name for one in self.hosted if [other.name for other in self.hosted].count(one.name) > 1}
        if twice:
            raise FolderError(f"two sessions are called {sorted(twice)[0]}: give one of the files another name")
        if not self.published and not self.hosted:
            raise FolderError(f"{plan.folder} holds no release and no session: put a .conspectus file into it")
        self._socket = listening_at(plan.host, plan.port)
        self._runtime = Path(tempfile.mkdtemp(prefix="conspectus-"))
        self._stopping = False
        self._children = [*self._homes(), *self._workers()]

    @property
    def address(self) -> str:
        """Where the service is reached from this machine."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self) -> None:
        """Serve until somebody says stop (SIGTERM, SIGINT); requests that are being answered are finished."""
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        self._journal.say("serving", address=self.address, synopses=len(self.published), sessions=len(self.hosted))
        try:
            for child in self._children:
                child.start()
            while not self._stopping:
                self._look()
                time.sleep(_TICK)
        finally:
            self._end()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _look(self) -> None:
        now = time.monotonic()
        for child in self._children:
            code = None if child.process is None else child.process.poll()
            if code is not None:
                child.deaths = child.deaths + 1 if now - child.started < _CALM else 1
                # The first death is made good at once; whatever dies again and again is given ever more time.
                child.again = now + (0.0 if child.deaths == 1 else min(30.0, 0.1 * 2**child.deaths))
                self._journal.say("died", level="warning", what=child.what, code=code, deaths=child.deaths)
                child.process = None
            if child.process is None and now >= child.again:
                child.start()

    def _end(self) -> None:
        self._socket.close()
        self._journal.say("closing")
        # Workers first, so that questions they have passed on are still answered; each kind has its own time, so that
        # a worker that is busy takes none from a home.
        for kind in (WORKER, HOME):
            running = [one.process for one in self._children if one.module == kind and one.process is not None]
            for process in running:
                if process.stdin is not None:
                    process.stdin.close()
            until = time.monotonic() + _GRACE
            for process in running:
                _wait(process, until)
        shutil.rmtree(self._runtime, ignore_errors=True)
        self._journal.say("closed")

    def _homes(self) -> list[_Child]:
        sockets = {hosted.name: f"h{number}.sock" for number, hosted in enumerate(self.hosted)}
        (self._runtime / HOMES).write_text(json.dumps(sockets), encoding="utf-8")
        plain = [{name: str(value) for name, value in dataclasses.asdict(one).items()} for one in self.hosted]
        for one in plain:
            self._journal.say("session", name=one["name"], data=_shown(one["data"]), ledger=_shown(one["ledger"]))
        return [
            _Child(
                what=f"home of {one['name']}",
                module=HOME,
                argument={
                    "hosted": one,
                    "folder": str(real_path(self._plan.folder, FolderError)),
                    "socket": str(self._runtime / sockets[one["name"]]),
                    "log": self._plan.log,
                    "queue": self._plan.queue,
                },
            )
            for one in plain
        ]

    def _workers(self) -> list[_Child]:
        plan = self._plan
        hosts = {*LOOPBACK, "[::1]", *plan.names} | ({plan.host} if plan.host not in ("0.0.0.0", "::") else set())
        return [
            _Child(
                what=f"worker {slot}",
                module=WORKER,
                argument={
                    "fd": self._socket.fileno(),
                    "folder": str(real_path(plan.folder, FolderError)),
                    "runtime": str(self._runtime),
                    "slot": slot,
                    "closed": plan.closed,
                    "hosts": sorted(name.casefold() for name in hosts),
                    "limits": dataclasses.asdict(Limits()),
                    "log": plan.log,
                },
                inherited=(self._socket.fileno(),),
            )
            for slot in range(plan.workers)
        ]


def _shown(place: str) -> str:
    """Where something is, for the log: a path, and of anything else nothing, since an address may hold a password."""
    return place if Path(place).exists() else "a SELECT or a database"


def listening_at(host: str, port: int) -> socket.socket:
    """A socket that takes connections, which children inherit."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as problem:
        listening.close()
        raise FolderError(f"{host}:{port} cannot be listened at ({problem.strerror}): choose another --port") from None
    listening.listen(512)
    listening.set_inheritable(True)
    return listening


def _wait(process: subprocess.Popen[bytes], until: float) -> None:
    try:
        process.wait(max(0.1, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
