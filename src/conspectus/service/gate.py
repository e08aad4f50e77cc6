"""The gate in front of every request: whose host, how large, how slow, how many; and one shape for what is refused."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .journal import Journal
from .metrics import Metrics
from .refusing import Refused, internal, unknown

T = TypeVar("T")
SEALED = b"default-src 'none'; frame-ancestors 'none'"
"""What a browser may load for an answer that is no page: nothing."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", SEALED),
    (b"cache-control", b"no-store"),
)
"""What every answer has, unless it says something else."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one worker takes at once.

    Attributes:
        body: Bytes of a request.
        seconds: How long a client may take to send it.
        working: Requests that are worked on at the same time.
        waiting: Requests that wait for their turn; the next one is told 503.
    """

    body: int = 64 << 10
    seconds: float = 10.0
    working: int = 4
    waiting: int = 256


class Gate:
    """Middleware around everything. Nothing gets in that is too large or too slow, and no fault gets out as it is.

    `admit` says by the head of a request alone how much of it may come, or refuses it: nothing of its body is read
    before.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: frozenset[str],
        admit: Callable[[Scope], Limits],
        journal: Journal,
        metrics: Metrics,
    ) -> None:
        self.app, self._hosts, self._admit = app, hosts, admit
        self._journal, self._metrics = journal, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # a WebSocket is closed by not being accepted
        began, status, started = time.perf_counter(), 0, False
        late: list[Refused] = []  # what the framework would tell in its own words
        self._metrics.in_progress += 1

        async def answer(message: Message) -> None:
            nonlocal status, started
            if late and not started:
                return
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                message["headers"] = _dressed(message["headers"])
            await send(message)

        try:
            await self.app(scope, _bounded(receive, self._check(scope), late), answer)
            if late and not started:
                raise late.pop()
        except (Refused, ClientDisconnect) as problem:
            late.clear()
            if not started:
                await _tell(problem if isinstance(problem, Refused) else _cut_off(), answer)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:
            self._journal.fault(error, route=_route(scope))
            if not started:
                await _tell(internal(), answer)
        finally:
            self._metrics.in_progress -= 1
            seconds = time.perf_counter() - began
            self._metrics.count(_route(scope), status, seconds)
            self._journal.say(
                "request",
                level="info" if status < 500 else "warning",
                method=scope["method"] if scope["method"] in _METHODS else "other",
                route=_route(scope),
                name=scope.get("path_params", {}).get("name") if status not in (401, 404) else None,
                status=status,
                ms=round(1000 * seconds, 2),
                analyst=scope.get("state", {}).get("analyst"),
            )

    def _check(self, scope: Scope) -> Limits:
        headers = {name: value for name, value in scope["headers"] if name in (b"host", b"origin", b"content-length")}
        host = headers.get(b"host", b"").decode("latin-1").casefold()
        if self._hosts and _bare(host) not in self._hosts:
            # A stranger's page can point its own name at this machine; its requests then come under that name.
            raise Refused(
                status=421,
                error="host",
                title="This name is not served here",
                text="The service answers under the names that it was started with: add this one with --name.",
            )
        origin = headers.get(b"origin", b"").decode("latin-1").casefold()
        if origin and _netloc(origin) != host:
            raise Refused(
                status=403,
                error="origin",
                title="Another origin",
                text="Pages of other origins may not ask here.",
            )
        limits = self._admit(scope)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > _DIGITS or int(length) > limits.body:
            raise _too_large(limits)
        return limits


def add_refusals(app: FastAPI) -> None:
    """One shape for everything that is refused, the framework's own refusals included."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        headers = {name.decode(): value.decode() for name, value in extra(error)}
        return JSONResponse(error.to_json(), status_code=error.status, headers=headers)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        said = Refused(status=422, error="request", title="The request is not one", text=f"{place}: {first['msg']}.")
        return JSONResponse(said.to_json(), status_code=422)

    async def other(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            said = unknown("address")
        elif error.status_code == 400:
            said = Refused(status=400, error="request", title="The request is not one", text="body: this is no JSON.")
        else:
            text = "The service has no such method at this address: /openapi.json describes what it has."
            said = Refused(status=error.status_code, error="request", title="Not served", text=text)
        return JSONResponse(said.to_json(), status_code=said.status, headers=error.headers)

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, other)


async def read_body(request: Request, kind: TypeAdapter[T]) -> T:
    """What the body says, refused as the framework refuses bodies; texts in it are texts, and no halves of signs."""
    try:
        return kind.validate_json(await request.body())
    except ValidationError as error:
        told = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in told]) from None


def _bounded(receive: Receive, limits: Limits, late: list[Refused]) -> Receive:
    """The same request, refused once it is too long, or took too long to arrive."""
    taken, whole = 0, False
    until = time.monotonic() + limits.seconds

    async def bounded() -> Message:
        nonlocal taken, whole
        if whole:
            return await receive()  # what comes now is that the client went away
        try:
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                message = await receive()
        except TimeoutError:
            text = "Send it again, at once."
            late.append(Refused(status=408, error="slow", title="The request came too slowly", text=text))
            raise late[0] from None
        if message["type"] == "http.disconnect":
            late.append(_cut_off())
        taken += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if taken > limits.body:
            late.append(_too_large(limits))
            raise late[0]
        return message

    return bounded


def _too_large(limits: Limits) -> Refused:
    text = f"A request has {limits.body:,} bytes at most: ask less at a time."
    return Refused(status=413, error="too-large", title="The request is too large", text=text)


def _cut_off() -> Refused:
    """Of a client that went away before its request was whole: told to nobody, and no fault of the service."""
    text = "It ended before all of it was there: send it again."
    return Refused(status=400, error="cut-off", title="The request is not whole", text=text)


async def _tell(refused: Refused, send: Send) -> None:
    body = json.dumps(refused.to_json(), ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close")] if refused.status in (401, 408, 413) else []
    await send({"type": "http.response.start", "status": refused.status, "headers": headers + extra(refused)})
    await send({"type": "http.response.body", "body": body})


def extra(refused: Refused) -> list[tuple[bytes, bytes]]:
    """The headers that belong to a refusal."""
    found = [] if refused.wait is None else [(b"retry-after", str(refused.wait).encode())]
    return found + ([(b"www-authenticate", b"Bearer")] if refused.status == 401 else [])


def _dressed(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    given = {name.lower() for name, _ in headers}
    return [*headers, *(pair for pair in HEADERS if pair[0] not in given)]


def _netloc(origin: str) -> str | None:
    """The host and port of an origin; None for what is no address, which is another origin than any."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _bare(host: str) -> str:
    """A host name without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


_DIGITS = 18
"""A longer number of bytes is too large, whatever it is: Python refuses to read thousands of digits."""
_METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH")


def _route(scope: Scope) -> str:
    """Which route was taken; the address itself may hold anything, and is not written down."""
    route = scope.get("route")
    return getattr(route, "path", "unknown")
