"""Clients of a service that cost next to nothing themselves: they run on the processors that they measure."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast
from urllib.parse import urlsplit

LATE = 60.0


class Client(asyncio.Protocol):
    """One connection that is kept, and one request at a time."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._transport: asyncio.Transport | None = None
        self._came = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    @classmethod
    async def at(cls, address: str, token: str) -> Client:
        """A client of the service at an address."""
        place = urlsplit(address)
        _, made = await asyncio.get_running_loop().create_connection(lambda: cls(token), place.hostname, place.port)
        return made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, and does not say so

    def data_received(self, data: bytes) -> None:
        self._came += data
        head, found, body = self._came.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) >= length and self._answer is not None and not self._answer.done():
            self._came = b""
            self._answer.set_result((int(head[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError())

    async def get(self, path: str) -> tuple[int, bytes]:
        """The status and the body of an address."""
        return await self._send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        """The status and the JSON of what is said to a question."""
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {self._token}\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        status, said = await self._send(head.encode() + content)
        return status, json.loads(said)

    async def _send(self, request: bytes) -> tuple[int, bytes]:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        async with asyncio.timeout(LATE):
            return await self._answer

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()
