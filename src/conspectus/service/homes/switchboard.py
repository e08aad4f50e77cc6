"""From a web worker to the homes of sessions: one connection each, many questions at a time."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from pathlib import Path
from typing import Any

from conspectus.service.refusing import Refused

from .exchange import Replies, asked_line

HOMES = "homes.json"
_PATIENCE = 60.0
"""Seconds that an answer may take; it is kept by then, and asking again is free."""
_RECONNECT = 5.0


class Line:
    """A connection to one home, made when it is first needed and again when it broke."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[tuple[int, bytes]]] = {}
        self._home: Replies | None = None
        self._connecting = asyncio.Lock()

    async def call(self, op: str, **told: Any) -> Any:
        """What the home answers; refused as it refuses."""
        return json.loads(await self.text(op, **told))

    async def text(self, op: str, **told: Any) -> bytes:
        """The same as it came: a text of JSON, to be passed on."""
        home = self._home or await self._connected()
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        answer: asyncio.Future[tuple[int, bytes]] = loop.create_future()
        self._waiting[number] = answer
        late = loop.call_later(_PATIENCE, _give_up, answer)
        try:
            home.write(asked_line(number, op, told))
            status, text = await answer
        except (ConnectionError, TimeoutError):
            raise _away() from None
        finally:
            late.cancel()
            self._waiting.pop(number, None)
        if status != 200:
            body = json.loads(text)
            refused = Refused.from_json(status, body)
            refused.wait = body["wait"]
            raise refused
        return text

    async def _connected(self) -> Replies:
        async with self._connecting:
            if self._home is not None:
                return self._home
            until, loop = time.monotonic() + _RECONNECT, asyncio.get_running_loop()
            while True:
                try:
                    _, home = await loop.create_unix_connection(
                        lambda: Replies(self._take, self._lost), str(self._socket)
                    )
                    break
                except OSError:
                    if time.monotonic() > until:
                        raise _away() from None
                    await asyncio.sleep(0.05)
            self._home = home
            return home

    def _take(self, number: int, status: int, text: bytes) -> None:
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result((status, text))

    def _lost(self, home: Replies) -> None:
        if self._home in (None, home):
            self._home = None
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionResetError())


def _give_up(answer: asyncio.Future[tuple[int, bytes]]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


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
