"""What travels between the processes of a service: questions and replies with numbers, so that these may overtake.

A worker sends one JSON object a line. The home says the number, a status and how many bytes follow, and then these: a
text of JSON, which the worker passes on as it is. A question is as short as a request is, and a line without end hangs
up. A reply may be of any length, such as a SELECT with long labels: it was paid for, and to hang up on it would end the
requests of everybody who waits at the same connection.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any, cast

LONGEST_LINE = 1 << 22


def first_line() -> dict[str, Any]:
    """What the parent says first, by the pipe that it holds: a command line would show it to everybody."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(sys.stdin.fileno(), 1)
        if not part:
            raise SystemExit
        line += part
    told: dict[str, Any] = json.loads(line)
    return told


def as_text(value: Any) -> bytes:
    """JSON in one line."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def asked_line(number: int, op: str, told: dict[str, Any]) -> bytes:
    """A question of a worker."""
    return as_text({"id": number, "op": op, **told}) + b"\n"


def said(number: int, status: int, text: bytes) -> bytes:
    """A reply of a home."""
    return b"%d %d %d\n%b" % (number, status, len(text), text)


class _End(asyncio.Protocol):
    """One end of a connection: says by `lost` when nothing more will come."""

    def __init__(self, lost: Callable[[Any], None]) -> None:
        self._lost = lost
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, and does not say so

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost(self)

    def write(self, data: bytes) -> None:
        """Send something; into nothing, once the connection is lost."""
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


class Lines(_End):
    """The end of a home: calls `take` with each line as it comes."""

    def __init__(self, take: Callable[[Lines, bytes], None], lost: Callable[[Lines], None]) -> None:
        super().__init__(lost)
        self._take = take
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            self.close()
        for line in lines:
            self._take(self, line)


class Replies(_End):
    """The end of a worker: calls `take` with the number, the status and the text of each reply, once it is whole."""

    def __init__(self, take: Callable[[int, int, bytes], None], lost: Callable[[Replies], None]) -> None:
        super().__init__(lost)
        self._take = take
        self._held = bytearray()
        self._head: tuple[int, int, int] | None = None

    def data_received(self, data: bytes) -> None:
        self._held += data
        while self._head is not None or (end := self._held.find(b"\n")) >= 0:
            if self._head is None:
                first, second, third = self._held[:end].split()
                self._head = int(first), int(second), int(third)
                del self._held[: end + 1]
            number, status, size = self._head
            if len(self._held) < size:
                return
            text = bytes(self._held[:size])
            del self._held[:size]
            self._head = None
            self._take(number, status, text)
