"""The owner's studio: a file, its schema, a plan, a release, its report. For one person on this computer.

What is read from the rows is shown to the owner alone and says that it is not private. Whoever knows the secret in the
address that the command prints is taken for the owner, so the service listens at the loopback and nowhere else.
"""

from __future__ import annotations

import hmac
import os
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter
from starlette.types import Scope

from conspectus.data.schema import Schema
from conspectus.privacy.ledger.ledger import Ledger

from . import studio_work
from .gate import Gate, Limits, add_refusals, read_body
from .homes.threads import Queue
from .journal import Journal
from .metrics import Metrics
from .owner_draft import drafted
from .page_files import policy, served
from .refusing import Refused, no_token, refusal_of, unknown
from .schema_text import schema_text
from .studio_work import Job, Planned, Releasing

FILE = Limits(body=4 << 30, seconds=3600.0)
"""What the owner may send as the file, and how long that may take."""
REST = Limits(body=1 << 20, seconds=60.0)
"""What may be sent to any other address, such as a schema of many columns."""
FILES = ("page.css", "drawing.js", "studio.js")
_DECLARED, _PLANNED, _RELEASING = TypeAdapter(dict[str, Any]), TypeAdapter(Planned), TypeAdapter(Releasing)
HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


@dataclass
class Studio:
    """What one owner works on.

    Attributes:
        secret: What the page has to send with every request.
        folder: Where releases are written.
        data: The file, once there is one.
        ledger: The ledger of the table, if the owner keeps one.
        uploads: Where a file lies that was dropped onto the page.
        job: The release that is being made, or was made last.
    """

    secret: str
    folder: Path
    uploads: Path
    data: Path | None = None
    ledger: Path | None = None
    job: Job | None = None
    drafts: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    queue: Queue = field(default_factory=lambda: Queue(working=2, waiting=64))

    def draft(self) -> dict[str, Any]:
        """What the file looks like, read once; says that it is not private."""
        if self.data is None:
            return {"private": False, "file": None, "ledger": self._book()}
        try:
            key = (str(self.data), self.data.stat().st_mtime_ns)
        except OSError:
            raise Refused(status=422, error="no-file", title="The file is gone", text="Choose a file again.") from None
        if key not in self.drafts:
            self.drafts = {key: drafted(self.data)}
        return {**self.drafts[key], "ledger": self._book()}

    def _book(self) -> dict[str, Any] | None:
        return None if self.ledger is None else studio_work.ledger_json(Ledger.open(self.ledger))

    def start(self, wanted: Releasing) -> Job:
        """Begin a release, unless one is being made."""
        with self.lock:
            if self.job is not None and not self.job.over:
                raise Refused(status=409, error="busy", title="A release is being made", text="Wait until it is done.")
            if self.data is None:
                raise Refused(status=422, error="no-file", title="There is no file", text="Choose a file first.")
            self.job = Job(wanted, data=self.data, folder=self.folder, ledger=self.ledger)
        threading.Thread(target=self.job.run, daemon=True).start()
        return self.job


def studio_application(studio: Studio) -> Gate:
    """The studio as one ASGI application: whoever does not know the secret gets the page, which is empty without it."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    queue = studio.queue
    add_refusals(app)

    async def refused(request: Request, error: Exception) -> Response:
        told = refusal_of(error)
        return JSONResponse(told.to_json(), status_code=told.status)

    for kind in (ValueError, LookupError):
        app.add_exception_handler(kind, refused)

    def admit(scope: Scope) -> Limits:
        if scope["path"] != "/" and not scope["path"].startswith("/page/"):
            given = dict(scope["headers"]).get(b"authorization", b"").removeprefix(b"Bearer ")
            if not hmac.compare_digest(given, studio.secret.encode()):
                raise no_token()
        return FILE if scope["path"] == "/file" else REST

    @app.get("/")
    async def page() -> Response:
        return served("studio.html", headers={"content-security-policy": policy("studio.js", "drawing.js")})

    @app.get("/page/{file}")
    async def file(file: str) -> Response:
        if file not in FILES:
            raise unknown("file")
        return served(file)

    @app.get("/draft")
    async def draft() -> Any:
        return await queue.run(studio.draft)

    @app.post("/file")
    async def upload(request: Request, name: str) -> Any:
        plain = Path(name).name
        if not plain.lower().endswith((".csv", ".csv.gz", ".parquet")):
            text = "Choose a file that ends in .csv, .csv.gz or .parquet."
            raise Refused(status=422, error="file", title="This file cannot be read here", text=text)
        place, spare = studio.uploads / plain, None
        try:
            # Under a name of its own until it is whole: the file before it may be in use, and this one may be cut off.
            handle, spare = tempfile.mkstemp(prefix=".", suffix=".part", dir=studio.uploads)
            with open(handle, "wb") as sink:
                async for part in request.stream():
                    sink.write(part)
            os.replace(spare, place)
        except (OSError, ValueError) as problem:  # a name that is none here, or a disk that is full
            text = f"It cannot be kept here ({getattr(problem, 'strerror', None) or 'its name is none'})."
            raise Refused(status=422, error="file", title="This file cannot be read here", text=text) from None
        finally:
            if spare is not None:
                Path(spare).unlink(missing_ok=True)
        studio.data = place
        return await queue.run(studio.draft)

    @app.post("/schema")
    async def schema(request: Request) -> Any:
        return await queue.run(studio_work.checked_schema, await read_body(request, _DECLARED))

    @app.post("/plan")
    async def plan(request: Request) -> Any:
        return await queue.run(studio_work.plan, await read_body(request, _PLANNED))

    @app.post("/release")
    async def release(request: Request) -> Any:
        job = await queue.run(studio.start, await read_body(request, _RELEASING))
        return job.standing()

    @app.get("/job")
    async def standing() -> Any:
        if studio.job is None:
            raise unknown("release")
        return studio.job.standing()

    @app.get("/made/{file}")
    async def made(file: str) -> Response:
        if studio.job is None or file not in studio.job.made:
            raise unknown("file")
        try:
            content = studio.job.made[file].read_bytes()
        except OSError:  # its owner has moved it
            raise unknown("file") from None
        return Response(content, media_type="application/octet-stream")

    @app.post("/text")
    async def text(request: Request) -> Response:
        declared = await read_body(request, _DECLARED)
        found = await queue.run(lambda: schema_text(Schema.from_dict(declared)))
        return Response(found, media_type="application/toml")

    return Gate(app, hosts=HOSTS, admit=admit, journal=Journal("studio", "warning"), metrics=Metrics())
