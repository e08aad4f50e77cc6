"""The web application: which address does what. Nothing here opens a table, a ledger or a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.types import ASGIApp

import conspectus
from conspectus.releases.answer import NEAREST
from conspectus.report import report_of

from . import describing, desk
from .analysts import Analysts
from .desk import Desk
from .gate import Gate, Limits, add_refusals
from .homes.switchboard import Switchboard
from .homes.threads import Queue
from .journal import Journal
from .metrics import Metrics
from .page_files import add_pages
from .refusing import Refused
from .session_routes import add_sessions
from .shelf import Shelf
from .wire import PROBLEMS, Answered, Listed, Question, Result, Select, TableBody

FileKind = Literal["json", "csv", "parquet", "arrow"]
Confidence = Annotated[float, Query(ge=NEAREST, le=1 - NEAREST)]
FILES: dict[int | str, dict[str, Any]] = {200: {"content": {kind: {} for kind in desk.KINDS.values()}}}
"""What may come in place of JSON, where a file was asked for."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """How a folder is served.

    Attributes:
        folder: The folder with releases and sessions.
        runtime: Where the homes of sessions listen and workers keep their counters; None where there are none.
        slot: Which worker this is.
        closed: Whether synopses too need a token.
        hosts: The names under which the service answers; none for any.
        limits: What one worker takes at once.
        log: From which level on the journal is written.
    """

    folder: Path
    runtime: Path | None = None
    slot: int = 0
    closed: bool = False
    hosts: frozenset[str] = frozenset()
    limits: Limits = field(default_factory=Limits)
    log: str = "info"


def application(serving: Serving) -> ASGIApp:
    """The whole service as one ASGI application."""
    limits, journal = serving.limits, Journal(f"worker-{serving.slot}", serving.log)
    metrics = Metrics(serving.runtime, serving.slot)
    counter = Desk(Shelf(serving.folder), Analysts(serving.folder), closed=serving.closed)
    looking, queue = (Queue(working=limits.working, waiting=limits.waiting) for _ in range(2))
    switchboard = Switchboard(serving.runtime)
    app = FastAPI(
        title="Conspectus",
        version=conspectus.__version__,
        description="Published synopses and live sessions of private tables, each answer with its interval.",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        responses=PROBLEMS,
    )
    add_refusals(app)
    _add_synopses(app, counter, looking, queue)
    add_sessions(app, counter, switchboard)
    add_pages(app, counter)

    @app.get("/health", tags=["operation"])
    async def health() -> dict[str, Any]:
        """Whether the service answers, and which sessions have a home that does."""
        homes = await switchboard.states()
        return {"ok": all(homes.values()), "version": conspectus.__version__, "sessions": len(homes)}

    @app.get("/metrics", tags=["operation"], response_class=PlainTextResponse)
    async def metric() -> PlainTextResponse:
        """Counters in the text format of Prometheus."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return Gate(app, hosts=serving.hosts, admit=lambda scope: limits, journal=journal, metrics=metrics)


def _add_synopses(app: FastAPI, counter: Desk, looking: Queue, queue: Queue) -> None:
    """Add what can be done with a release. To look it up has threads of its own, which no question keeps busy."""

    @app.get("/synopses", response_model=Listed, tags=["synopses"])
    async def synopses(request: Request) -> dict[str, Any]:
        """The published synopses that the asker may use."""
        found = await looking.run(counter.synopses, request)
        return {"synopses": [desk.summary(one) for one in found]}

    @app.get("/synopses/{name}", tags=["synopses"])
    async def synopsis(request: Request, name: str) -> dict[str, Any]:
        """What was published: its columns, its guarantee, what it can do."""
        one = await looking.run(counter.synopsis, request, name)
        return counter.remembered((name, one.stamp, "about"), partial(describing.about_release, one))

    @app.get("/synopses/{name}/schema", tags=["synopses"])
    async def schema(request: Request, name: str) -> dict[str, Any]:
        """The schema of the table, as the library reads it."""
        one = await looking.run(counter.synopsis, request, name)
        return one.release.schema.to_dict()

    @app.post("/synopses/{name}/ask", response_model=Answered, tags=["synopses"])
    async def ask(request: Request, name: str, question: Question) -> dict[str, Any]:
        """Answer one question, with an interval where there is an honest one. It costs nothing."""
        one = await looking.run(counter.synopsis, request, name)
        return await queue.run(desk.ask, one.release, question)

    @app.post("/synopses/{name}/query", response_model=Result, responses=FILES, tags=["synopses"])
    async def query(
        request: Request, name: str, select: Select, as_: Annotated[FileKind, Query(alias="as")] = "json"
    ) -> Any:
        """Answer a SELECT: for each aggregate x the columns x, x_low and x_high."""
        one = await looking.run(counter.synopsis, request, name)
        made = await queue.run(desk.query, one.release, select)
        if as_ != "json":
            return await _file(queue, made, as_, name)
        return desk.result_json(made)

    @app.get("/synopses/{name}/table", response_model=TableBody, responses=FILES, tags=["synopses"])
    async def table(
        request: Request,
        name: str,
        by: Annotated[list[str], Query(min_length=1, max_length=20)],
        confidence: Confidence = 0.95,
        as_: Annotated[FileKind, Query(alias="as")] = "json",
    ) -> Any:
        """A published table over some columns: whole counts with intervals, and a mark on cells too noisy to print."""
        one = await looking.run(counter.synopsis, request, name)
        if as_ != "json":
            return await _file(queue, await queue.run(desk.table, one.release, by, confidence), as_, f"{name}-table")
        make = partial(desk.shown_table, one.release, by, confidence)
        return await queue.run(counter.remembered, (name, one.stamp, tuple(by), confidence), make)

    @app.get("/synopses/{name}/rows", responses=FILES, tags=["synopses"])
    async def rows(
        request: Request,
        name: str,
        n: Annotated[int, Query(ge=0)] = 5,
        seed: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
        as_: Annotated[FileKind, Query(alias="as")] = "json",
    ) -> Any:
        """Synthetic rows in the table's own values; they are nobody's records."""
        one = await looking.run(counter.synopsis, request, name)
        if as_ == "json" and n > 1000:
            text = "JSON is for a look at up to 1,000 rows: ask for as=csv, parquet or arrow."
            raise Refused(status=422, error="too-many-rows", title="Too many rows", text=text)
        made = await queue.run(desk.rows, one.release, n, seed)
        if as_ != "json":
            return await _file(queue, made, as_, f"{name}-synthetic")
        lines = [[None if value is None else str(value) for value in line.values()] for line in made.to_pylist()]
        return {"columns": made.column_names, "rows": lines}

    @app.get("/synopses/{name}/report", tags=["synopses"], response_class=Response)
    async def report(request: Request, name: str) -> Response:
        """The page for an ethics board, as one HTML file without scripts."""
        one = await looking.run(counter.synopsis, request, name)
        text = await queue.run(
            counter.remembered, (name, one.stamp, "report"), partial(report_of, one.release, source=one.path)
        )
        policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
        return Response(text, media_type="text/html", headers={"content-security-policy": policy})

    @app.get("/synopses/{name}/file", tags=["synopses"], response_class=Response)
    async def file(request: Request, name: str) -> Response:
        """The release itself, as it was saved."""
        one = await looking.run(counter.synopsis, request, name)
        content = await queue.run(one.path.read_bytes)
        return Response(content, media_type="application/zip", headers=desk.attached(f"{name}.conspectus"))


async def _file(queue: Queue, made: Any, kind: str, name: str) -> Response:
    content = await queue.run(desk.written, made, kind)
    return Response(content, media_type=desk.KINDS[kind], headers=desk.attached(f"{name}.{kind}"))
