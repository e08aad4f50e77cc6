"""The page for people: static files, served with a policy that lets a browser load nothing else."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from fastapi import FastAPI, Request, Response

from conspectus.plain_text import escape

from .desk import Desk

KINDS = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


@cache
def page_file(name: str) -> str:
    """The text of one of the page's files."""
    return (files("conspectus.service") / "pages" / name).read_text(encoding="utf-8")


def policy(*names: str) -> str:
    """What a browser may load for a page: these files of ours by their digests, and answers from the same origin."""
    digests = {name: base64.b64encode(hashlib.sha256(page_file(name).encode()).digest()).decode() for name in names}
    scripts = " ".join(f"'sha256-{digest}'" for name, digest in digests.items() if name.endswith(".js"))
    return (
        f"default-src 'none'; script-src 'self' {scripts}; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def served(name: str, *, headers: dict[str, str] | None = None) -> Response:
    """A file of the page as an answer."""
    kind = KINDS[name.rpartition(".")[2]]
    return Response(page_file(name), media_type=kind, headers={"cache-control": "no-cache", **(headers or {})})


def add_pages(app: FastAPI, counter: Desk) -> None:
    """Add the analyst's page at /, with its style and its scripts."""

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        shown = [] if counter.closed else counter.shelf.all()
        plain = "".join(
            f'<li>{escape(one.release.schema.name)}: <a href="/synopses/{one.name}/report">promise and tables</a>, '
            f'<a href="/synopses/{one.name}/file">file</a>, '
            f'<a href="/synopses/{one.name}/rows?n=1000&amp;as=csv">synthetic rows</a></li>'
            for one in shown
        )
        text = page_file("analyst.html").replace("<!-- without scripts -->", f"<ul>{plain}</ul>")
        headers = {"content-security-policy": policy("analyst.js", "drawing.js"), "cache-control": "no-cache"}
        return Response(text, media_type=KINDS["html"], headers=headers)

    @app.get("/page/{file}", include_in_schema=False)
    async def file(file: str) -> Response:
        if file not in ("page.css", "analyst.js", "drawing.js"):
            return Response(status_code=404)
        return served(file)
