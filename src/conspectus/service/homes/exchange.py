"""What travels between the processes of a service: lines, each with a number, so that answers may overtake each other.

A worker sends one JSON object a line. The home says the number, a status and a text of JSON, which the worker passes on
as it is.
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


def said_line(number: int, status: int, text: bytes) -> bytes:
    """An answer of a home."""
    return b"%d %d %b\n" % (number, status, text)


def read_said(line: bytes) -> tuple[int, int, bytes]:
    """The number, the status and the text of an answer."""
    number, status, text = line.split(b" ", 2)
    return int(number), int(status), text


class Lines(asyncio.Protocol):
    """One end of a connection: calls `take` with each line as it comes, and `lost` when there will be no more."""

    def __init__(self, take: Callable[[Lines, bytes], None], lost: Callable[[Lines], None]) -> None:
        self._take, self._lost = take, lost
        self._transport: asyncio.Transport | None = None
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, and does not say so

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            self.close()
        for line in lines:
            self._take(self, line)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost(self)

    def write(self, line: bytes) -> None:
        """Send a line; into nothing, once the connection is lost."""
        if self._transport is not None:
            self._transport.write(line)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()
