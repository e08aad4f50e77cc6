"""Homes of sessions in this process, over real sockets, beside the application that forwards to them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import conspectus as cs
from conspectus.service.analysts import Analysts
from conspectus.service.application import Serving, application
from conspectus.service.homes.home import QUEUE, Home, Reception
from conspectus.service.homes.switchboard import HOMES
from conspectus.service.journal import Journal
from conspectus.service.shelf import sessions_of
from conspectus.sessions.session import Session


@dataclass
class Living:
    """An application, and the sessions that it forwards to."""

    app: Any
    homes: dict[str, Home]
    sessions: dict[str, Session]

    async def call(self, path: str, body: Any = None, *, token: str | None = None) -> tuple[int, Any]:
        """The status and the JSON of one request, without a network in between."""
        content = b"" if body is None else json.dumps(body).encode()
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        if token is not None:
            headers.append((b"authorization", f"Bearer {token}".encode()))
        status, said = await send(self.app, "GET" if body is None else "POST", path, headers, content)
        return status, json.loads(said) if said[:1] in (b"{", b"[") else said


async def send(
    app: Any,
    method: str,
    path: str,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
    query: str = "",
    *,
    whole: bool = True,
) -> tuple[int, bytes]:
    """One request to an application, or the beginning of one: the status and the body of its answer."""
    given = [{"type": "http.request", "body": body, "more_body": not whole}]
    said: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return given.pop(0) if given else {"type": "http.disconnect"}

    async def told(message: dict[str, Any]) -> None:
        said.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("utf-8", "replace"),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8765),
    }
    await app(scope, receive, told)
    return said[0]["status"], b"".join(part.get("body", b"") for part in said[1:])


@asynccontextmanager
async def at_home(folder: Path, *, queue: int = QUEUE, **serving: Any) -> AsyncIterator[Living]:
    """The sessions of a folder, each in its home, and the application."""
    runtime = folder.parent / "runtime"
    runtime.mkdir(exist_ok=True)
    journal = Journal("test", "error")
    hosted = sessions_of(folder)
    sockets = {one.name: f"h{number}.sock" for number, one in enumerate(hosted)}
    (runtime / HOMES).write_text(json.dumps(sockets), encoding="utf-8")
    homes, sessions, servers = {}, {}, []
    loop = asyncio.get_running_loop()
    for one in hosted:
        table = cs.open_table(one.data, cs.Schema.load(one.schema))
        session = cs.resume_session(one.path, table, ledger=one.ledger)
        home = Home(one.name, session, Analysts(folder), journal, queue=queue)
        reception = Reception(home, journal)
        servers.append(await loop.create_unix_server(reception.lines, path=str(runtime / sockets[one.name])))
        homes[one.name], sessions[one.name] = home, session
    app = application(Serving(folder=folder, runtime=runtime, log="error", hosts=frozenset({"localhost"}), **serving))
    try:
        yield Living(app, homes, sessions)
    finally:
        for server in servers:
            server.close()
        for home in homes.values():
            home.close()
