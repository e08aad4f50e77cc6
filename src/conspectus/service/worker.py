"""One web worker: takes connections from the parent's socket, and ends with the parent."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .application import Serving, application
from .gate import Limits
from .homes.event_loop import run_loop
from .homes.exchange import first_line
from .homes.threads import end_soon
from .journal import Journal, take_over

HEAD_SECONDS = 10.0
LONGEST_HEAD = 32 << 10
LONGEST_REQUEST = 1 << 20
"""Bytes of a whole request on the wire. The gate counts those of its body; chunks and trailers have others besides."""
MOST_CONNECTIONS = 1_000
_GRACE = 10


class Impatient(HttpToolsProtocol):
    """HTTP that hangs up on clients who send the head of a request drop by drop or without end, and on one connection
    too many."""

    longest = LONGEST_REQUEST
    _slow: asyncio.TimerHandle | None = None
    _came = 0  # bytes since the last whole request
    _inside = False  # the head of a request is whole, and the rest of it is awaited

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.close()
            return
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._came += len(data)
        super().data_received(data)
        if self._came > (self.longest if self._inside else LONGEST_HEAD) and not self.transport.is_closing():
            self.send_400_response("The request is too long.")
        elif self._came and not self._inside:
            self._wait()  # a part of a head came, and the rest of it is awaited

    def on_headers_complete(self) -> None:
        self._inside = True
        self._forget()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._inside, self._came = False, 0
        self._forget()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._slow is None:
            self._slow = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._hang_up)

    def _forget(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _hang_up(self) -> None:
        self._slow = None
        idle = self.cycle is None or self.cycle.response_complete
        if idle and not self.transport.is_closing():
            self.transport.close()


def web_server(app: ASGIApp, protocol: type[Impatient], **more: Any) -> uvicorn.Server:
    """A server that writes no log of its own, and names itself to nobody."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            **more,
        )
    )


async def serve(app: ASGIApp, slot: int, listening: socket.socket, journal: Journal) -> None:
    """Answer requests until the parent goes away or says so; those that are being answered are finished first."""
    server = web_server(
        app,
        Impatient,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=_GRACE,
    )

    def parent_spoke() -> None:
        if not os.read(sys.stdin.fileno(), 1):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            server.should_exit = True

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), parent_spoke)
    journal.say("worker", slot=slot, standing="ready")
    await server.serve(sockets=[listening])
    journal.say("worker", slot=slot, standing="closed")


def main() -> None:
    """The entry point of the process: everything that the owner decided comes as one line of JSON."""
    given = first_line()
    serving = Serving(
        folder=Path(given["folder"]),
        runtime=Path(given["runtime"]),
        slot=given["slot"],
        closed=given["closed"],
        hosts=frozenset(given["hosts"]),
        limits=Limits(**given["limits"]),
        log=given["log"],
    )
    journal = Journal(f"worker-{serving.slot}", serving.log)
    take_over(journal)
    listening = socket.socket(fileno=given["fd"])
    run_loop(serve(application(serving), serving.slot, listening, journal))
    end_soon()


if __name__ == "__main__":
    main()
