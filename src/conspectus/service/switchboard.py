"""From a web worker to the homes of sessions: one connection each, many questions at a time."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from pathlib import Path
from typing import Any

from .home import LONGEST_LINE
from .refusing import Refused

HOMES = "homes.json"
_PATIENCE = 60.0
"""Seconds that an answer may take; it is kept by then, and asking again is free."""
_RECONNECT = 5.0


class Line:
    """A connection to one home, made when it is first needed and again when it broke."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()

    async def call(self, op: str, **told: Any) -> Any:
        """What the home answers; refused as it refuses."""
        writer = await self._connected()
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            writer.write(json.dumps({"id": number, "op": op, **told}).encode() + b"\n")
            await writer.drain()
            said = await asyncio.wait_for(answer, _PATIENCE)
        except (ConnectionError, TimeoutError):
            raise _away() from None
        finally:
            self._waiting.pop(number, None)
        if "refused" in said:
            body = said["refused"]
            refused = Refused.from_json(int(body["status"]), body)
            refused.wait = body["wait"]
            raise refused
        return said["answer"]

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._connecting:
            if self._writer is not None:
                return self._writer
            until = time.monotonic() + _RECONNECT
            while True:
                try:
                    reader, writer = await asyncio.open_unix_connection(str(self._socket), limit=LONGEST_LINE)
                    break
                except OSError:
                    if time.monotonic() > until:
                        raise _away() from None
                    await asyncio.sleep(0.05)
            self._writer = writer
            self._reading = asyncio.create_task(self._read(reader))
            return writer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                said = json.loads(line)
                waiting = self._waiting.get(said["id"])
                if waiting is not None and not waiting.done():
                    waiting.set_result(said)
        except (ConnectionError, ValueError):
            pass
        finally:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionResetError())


class Switchboard:
    """The homes of a service, by the names of their sessions."""

    def __init__(self, runtime: Path | None) -> None:
        self._runtime = runtime
        self._lines: dict[str, Line] = {}

    def names(self) -> list[str]:
        """The sessions that are served."""
        return sorted(self._sockets())

    def line(self, name: str) -> Line | None:
        """The line to a session's home."""
        if name not in self._lines:
            sockets = self._sockets()
            if name not in sockets or self._runtime is None:
                return None
            self._lines[name] = Line(self._runtime / sockets[name])
        return self._lines[name]

    async def states(self) -> dict[str, bool]:
        """Which homes can be reached."""
        found = {}
        for name, socket in self._sockets().items():
            assert self._runtime is not None
            try:
                _, writer = await asyncio.open_unix_connection(str(self._runtime / socket))
                writer.close()
                found[name] = True
            except OSError:
                found[name] = False
        return found

    def _sockets(self) -> dict[str, str]:
        if self._runtime is None or not (self._runtime / HOMES).is_file():
            return {}
        told = json.loads((self._runtime / HOMES).read_text(encoding="utf-8"))
        return {str(name): str(socket) for name, socket in told.items()}


def _away() -> Refused:
    return Refused(
        status=503,
        error="away",
        title="The session is starting again",
        text="Ask again in a moment. If your question was answered meanwhile, its answer is kept, and asking is free.",
        wait=2,
    )
