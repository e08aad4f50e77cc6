"""The door of the service and the studio: odd heads of requests are no faults, and bodies of strangers are not read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Route
from tests.fuzzing.http_requests import ODD_HEADERS, SHAPE
from tests.service.at_home import at_home, send
from tests.service.conftest import add_session

from conspectus.service.analysts import Analysts
from conspectus.service.application import Serving, application
from conspectus.service.gate import Gate
from conspectus.service.journal import Journal
from conspectus.service.studio import REST, Studio, studio_application

SECRET = "s" * 32
HOST = (b"host", b"localhost")
JSON = (b"content-type", b"application/json")
OWNER = (b"authorization", b"Bearer " + SECRET.encode())
OPEN = {"/", "/page/{file}"}
"""What a stranger gets of the studio: the page, which is empty without the secret."""
PART = b" " * (1 << 16)


@pytest.fixture
def studio(tmp_path: Path) -> Gate:
    (tmp_path / "uploads").mkdir()
    return studio_application(Studio(secret=SECRET, folder=tmp_path, uploads=tmp_path / "uploads"))


def routes(gate: Gate, **names: str) -> Iterator[tuple[str, str, str]]:
    """Every address of an application with each of its methods: as it is declared, and as it is asked for."""
    for route in gate.app.routes:  # type: ignore[attr-defined]
        assert isinstance(route, Route | APIRoute)
        for method in sorted(route.methods or ()):
            path = route.path
            for name in route.param_convertors:
                path = path.replace(f"{{{name}}}", names.get(name, "page.css"))
            yield route.path, method, path


async def endless(app: Any, method: str, path: str, *headers: tuple[bytes, bytes]) -> tuple[int, bytes, int]:
    """One request whose body does not end: the status, what is said, and how many bytes of it were taken."""
    taken, said = 0, []

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += len(PART)
        assert taken < 64 << 20
        return {"type": "http.request", "body": PART, "more_body": True}

    async def told(message: dict[str, Any]) -> None:
        said.append(message)

    facts = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": ""}
    where = {"path": path, "raw_path": path.encode(), "query_string": b"name=a.csv", "method": method}
    ends = {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "headers": [HOST, JSON, *headers]}
    await app({**facts, **where, **ends}, receive, told)
    return said[0]["status"], b"".join(part.get("body", b"") for part in said[1:]), taken


def test_strangers_are_refused_before_their_body_is_read(studio: Gate) -> None:
    asked = [*routes(studio), ("/moon", "POST", "/moon"), ("/file", "POST", "/file/"), ("/plan", "PUT", "/plan")]
    assert len(asked) > 10
    for declared, method, path in asked:
        for given in ((), ((b"authorization", b"Bearer "),), ((b"authorization", b"Bearer \xff"),)):
            status, said, taken = asyncio.run(endless(studio, method, path, *given))
            assert (status == 401) == (declared not in OPEN), (method, path, status)
            assert taken == 0, (method, path, taken)
            assert declared in OPEN or set(json.loads(said)) == SHAPE


def test_the_owner_sends_one_large_thing(studio: Gate, tmp_path: Path) -> None:
    """A body without end is taken up to the limit of its address, and that of the file alone is large."""
    for declared, method, path in routes(studio):
        if declared == "/file":
            continue
        status, _, taken = asyncio.run(endless(studio, method, path, OWNER))
        assert taken <= REST.body + len(PART), (method, path, taken)
        assert status == 413 or taken == 0, (method, path, status)
    rows = b"a,b\n" + b"1,2\n" * (1 << 19)
    status, _ = asyncio.run(send(studio, "POST", "/file", [HOST, OWNER], rows, "name=a.csv"))
    assert (status, (tmp_path / "uploads" / "a.csv").read_bytes()) == (200, rows)


def test_a_client_that_leaves_is_no_fault_and_leaves_the_file_as_it_was(
    studio: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[object] = []
    monkeypatch.setattr(Journal, "fault", lambda _, problem, **__: faults.append(problem))
    uploads = tmp_path / "uploads"
    assert asyncio.run(send(studio, "POST", "/file", [HOST, OWNER], b"a,b\n1,2\n", "name=a.csv"))[0] == 200
    for declared, method, path in routes(studio):
        if method == "POST":
            given = send(studio, method, path, [HOST, OWNER, JSON], b'{"a":', "name=a.csv", whole=False)
            status, said = asyncio.run(given)
            assert (status, set(json.loads(said))) == (400, SHAPE), declared
    assert not faults
    assert [(file.name, file.read_bytes()) for file in uploads.iterdir()] == [("a.csv", b"a,b\n1,2\n")]


BODIES = (
    *(
        b"",
        b"x",
        b"{",
        b"[" * 100_000,
        b'{"a":' * 5000,
        b"9" * 5000,
        b"\xff\xfe",
        b"nul\0",
        b"[]",
        b"null",
        b"3",
        b"NaN",
    ),
    *(b'{"name": "\\ud800"}', b'{"declared": {"name": "\\ud800", "columns": []}}', b'{"columns": 3}', b"{}"),
    *(b'{"name": "t", "columns": [3]}', b'{"name": "t", "columns": {"a": 3}}', b'{"name": "t", "columns": {"a": {}}}'),
    *(b'{"name": "t", "columns": [{"name": 3}]}', b'{"name": {}, "columns": {"a": {"type": "boolean"}}}'),
    b'{"name": "t", "columns": {"a": {"type": "number", "min": 0, "max": 1e308, "width": 1e-308}}}',
    *(b'{"name": "t", "columns": [{"name": ["a"], "type": "boolean"}]}', b'{"name": "t", "columns": [null, {}]}'),
)


@pytest.mark.parametrize("body", BODIES)
def test_bodies_that_are_none_are_refused_in_one_shape(studio: Gate, body: bytes) -> None:
    whole = {"declared": {"name": "t"}, "workload": {}, "rows": 5, "epsilons": [1.0]}
    for declared, method, path in routes(studio):
        if method != "POST":
            continue
        for sent in (body, json.dumps(whole).encode().replace(b'{"name": "t"}', body)):
            for query in ("", "name=a.csv", "name=%00.csv", f"name={'x' * 300}.csv", "name=%ff.csv", "name=..%2f.csv"):
                status, said = asyncio.run(send(studio, method, path, [HOST, OWNER, JSON], sent, query))
                assert status < 500, (path, sent, query, status, said)
                assert status < 400 or set(json.loads(said)) == SHAPE, (path, sent, query, status, said)
            assert declared != "/release" or status >= 400


def test_no_header_is_a_fault_of_the_studio(studio: Gate) -> None:
    async def ask() -> None:
        for _, method, path in routes(studio):
            for odd in ODD_HEADERS:
                for headers in ([HOST, OWNER, JSON, odd], [odd]):
                    status, said = await send(studio, method, path, headers, b"{}", "name=a.txt")
                    assert status < 500, (method, path, odd, status, said)

    asyncio.run(ask())


def test_no_header_is_a_fault_of_the_service(folder: Path) -> None:
    add_session(folder)
    token = (b"authorization", b"Bearer " + Analysts(folder).add("ada").encode())
    listed = list(routes(application(Serving(folder=folder, log="error")), name="people"))
    assert len(listed) > 20

    async def ask() -> None:
        async with at_home(folder) as living:
            for _, method, path in listed:
                name = "live" if path.startswith("/sessions") else "people"
                plain = [HOST, token, JSON]
                for odd in ODD_HEADERS:
                    status, said = await send(
                        living.app, method, path.replace("people", name), [*plain, odd], b'{"where": "ill"}', "by=age"
                    )
                    assert status < 500, (method, path, odd, status, said)
                    if odd[0] == b"origin" and odd[1] and b"//localhost" not in odd[1]:
                        assert status == 403, (method, path, odd, status)

    asyncio.run(ask())
