"""The addresses of live sessions. Each needs a token, and is answered by the session's home."""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter

from . import desk
from .analysts import Analyst
from .desk import Desk
from .gate import read_body
from .homes.switchboard import Line, Switchboard
from .refusing import unknown
from .wire import ListedSessions, LiveAnswered, Question, Quoted, Result, Select

ResultKind = Literal["json", "arrow"]
ARROW: dict[int | str, dict[str, Any]] = {200: {"content": {desk.KINDS["arrow"]: {}}}}
LIVE: dict[int | str, dict[str, Any]] = {200: {"model": LiveAnswered}}
QUESTION = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Question"}}},
    }
}
"""The body of a question, for the description alone: the framework takes as long to read one as to answer it."""
_QUESTION = TypeAdapter(Question)


def add_sessions(app: FastAPI, counter: Desk, switchboard: Switchboard) -> None:
    """Add what can be done with a live session: look, ask, query, measure, quote, and take what it has learned."""

    def found(request: Request, name: str) -> tuple[Line, Analyst]:
        who = counter.analyst(request, needed=True)
        line = switchboard.line(name) if who is not None and who.may(name) else None
        if line is None or who is None:
            raise unknown("session")
        return line, who

    async def put(op: str, request: Request, name: str) -> Response:
        line, who = found(request, name)
        question = await _question(request)
        text = await line.text(op, **question.model_dump(), analyst=_caps(who))
        return Response(text, media_type="application/json")

    @app.get("/sessions", response_model=ListedSessions, tags=["sessions"])
    async def sessions(request: Request) -> dict[str, Any]:
        """The live sessions that the asker may use."""
        who = counter.analyst(request, needed=True)
        return {"sessions": [{"name": name} for name in switchboard.names() if who is not None and who.may(name)]}

    @app.get("/sessions/{name}", tags=["sessions"])
    async def session(request: Request, name: str) -> dict[str, Any]:
        """What the session promises, what it has spent, and what was asked last."""
        line, who = found(request, name)
        about: dict[str, Any] = await line.call("about")
        return {**about, "history": await line.call("history"), "analyst": _caps(who)}

    @app.get("/sessions/{name}/schema", tags=["sessions"])
    async def schema(request: Request, name: str) -> Any:
        """The schema of the table, as the library reads it."""
        line, _ = found(request, name)
        return await line.call("schema")

    @app.post("/sessions/{name}/ask", responses=LIVE, openapi_extra=QUESTION, tags=["sessions"])
    async def ask(request: Request, name: str) -> Response:
        """Answer one question. One that was asked before, in whatever words, gets the same answer and costs nothing."""
        return await put("ask", request, name)

    @app.post("/sessions/{name}/measure", responses=LIVE, openapi_extra=QUESTION, tags=["sessions"])
    async def measure(request: Request, name: str) -> Response:
        """Buy the answer to one question outright."""
        return await put("measure", request, name)

    @app.post("/sessions/{name}/query", response_model=Result, responses=ARROW, tags=["sessions"])
    async def query(
        request: Request, name: str, select: Select, as_: Annotated[ResultKind, Query(alias="as")] = "json"
    ) -> Any:
        """Answer a SELECT from counts that the session is asked for; counts that were asked before cost nothing."""
        line, who = found(request, name)
        told = await line.call("query", **select.model_dump(), analyst=_caps(who))
        content = base64.b64decode(told["arrow"])
        if as_ == "arrow":
            return Response(content, media_type=desk.KINDS["arrow"])
        return desk.result_json(pa.ipc.open_stream(content).read_all())

    @app.post("/sessions/{name}/quote", response_model=Quoted, tags=["sessions"])
    async def quote(request: Request, name: str, question: Question) -> Any:
        """What a question would cost at most. Nothing is spent, and nothing but public facts is looked at."""
        line, _ = found(request, name)
        return await line.call("quote", **question.model_dump())

    @app.get("/sessions/{name}/release", tags=["sessions"], response_class=Response)
    async def release(request: Request, name: str) -> Response:
        """What the session has learned, as the file of a release. Nothing is spent."""
        line, _ = found(request, name)
        handle, path = tempfile.mkstemp(suffix=".conspectus")
        os.close(handle)
        try:
            await line.call("release", to=path)
            content = Path(path).read_bytes()
        finally:
            Path(path).unlink(missing_ok=True)
        return Response(content, media_type="application/zip", headers=desk.attached(f"{name}.conspectus"))


def _caps(who: Analyst) -> dict[str, Any]:
    return {"name": who.name, "questions": who.questions, "share": who.share, "asked": who.asked}


async def _question(request: Request) -> Question:
    """The question in the body, refused as the framework refuses bodies."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/json":
        problem = {"type": "content_type", "loc": ("body",), "msg": "Send JSON, with Content-Type: application/json"}
        raise RequestValidationError([problem])
    return await read_body(request, _QUESTION)
