"""Published synopses over HTTP: the same answers as the library's, one shape of refusal, nothing told to strangers."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.fuzzing.http_requests import folder_in, fuzz

import conspectus as cs

from .conftest import SCHEMA

pytest.importorskip("httpx")
from starlette.testclient import TestClient

from conspectus.service.analysts import AnalystError, Analysts
from conspectus.service.application import Serving, application
from conspectus.service.gate import Limits
from conspectus.service.shelf import FolderError, Shelf, sessions_of

PROBLEM = {"error", "title", "text", "at", "repairs", "spent"}


def client(folder: Path, **how: Any) -> TestClient:
    return TestClient(application(Serving(folder=folder, log="error", **how)), raise_server_exceptions=False)


def test_answers_are_the_librarys(folder: Path, release: cs.Release) -> None:
    web = client(folder)
    for where in ("smoker", "ill AND age >= 42", "region IN ('north', 'west')", "smoker AND ill AND age < 30"):
        said = web.post("/synopses/people/ask", json={"where": where, "confidence": 0.9}).json()
        answer = release.ask(where, confidence=0.9)
        for name in ("fraction", "count", "low", "high", "basis", "confidence"):
            assert said[name] == getattr(answer, name)
        assert (said["why"] is None) == (answer.low is not None)


def test_picked_codes_are_spelled_as_a_predicate(folder: Path, release: cs.Release) -> None:
    web = client(folder)
    said = web.post("/synopses/people/ask", json={"picks": {"age": [1, 2], "smoker": [1]}}).json()
    assert said["fraction"] == release.ask("age >= 30 AND age < 54 AND smoker").fraction
    assert release.ask(said["where"]).fraction == said["fraction"]
    assert web.post("/synopses/people/ask", json={"picks": {"age": [99]}}).status_code == 422
    assert web.post("/synopses/people/ask", json={"picks": {"wealth": [0]}}).json()["error"] == "unknown-column"
    assert web.post("/synopses/people/ask", json={"picks": {}, "where": "smoker"}).status_code == 422


def test_tables_rows_and_files(folder: Path, release: cs.Release) -> None:
    web = client(folder)
    shown = web.get("/synopses/people/table", params={"by": ["region", "ill"]}).json()
    made = release.table(["region", "ill"])
    assert [cell["count"] for cell in shown["cells"]] == made["count"].to_pylist()
    assert [cell["low"] for cell in shown["cells"]] == made["low"].to_pylist()
    assert shown["cells"][3]["codes"] == [1, 1]
    as_csv = web.get("/synopses/people/table", params={"by": ["region"], "as": "csv"})
    assert "attachment" in as_csv.headers["content-disposition"]
    assert pyarrow.csv.read_csv(io.BytesIO(as_csv.content)).num_rows == 4
    rows = web.get("/synopses/people/rows", params={"n": 300, "seed": 7, "as": "parquet"})
    assert pyarrow.parquet.read_table(io.BytesIO(rows.content)).equals(release.synthetic(300, public_seed=7))
    assert web.get("/synopses/people/file").content == (folder / "people.conspectus").read_bytes()
    assert "differential privacy" in web.get("/synopses/people/report").text
    assert len(web.get("/synopses/people/rows").json()["rows"]) == 5


def test_a_select(folder: Path, release: cs.Release) -> None:
    web = client(folder)
    select = "SELECT region, count(*) AS people FROM people WHERE smoker GROUP BY region"
    said = web.post("/synopses/people/query", json={"sql": select}).json()
    found = release.query(select)
    assert said["columns"] == ["region", "people", "people_low", "people_high"]
    assert [row[2] for row in said["rows"]] == found["people_low"].to_pylist()
    assert said["labels"] == ["region"]
    refused = web.post("/synopses/people/query", json={"sql": "SELECT * FROM people"})
    assert (refused.status_code, set(refused.json())) == (422, PROBLEM)


REFUSED = [
    ("age BETWEEN 20 AND 33", 422, "cuts-bin"),
    ("wealth > 3", 422, "unknown-column"),
    ("region = 'moon'", 422, "unknown-value"),
    ("region < 'north'", 422, "no-order"),
    ("SELECT 1; DROP TABLE people", 422, "not-a-question"),
    ("", 422, "not-a-question"),
    ("(" * 5000, 422, "not-a-question"),
]


@pytest.mark.parametrize(("where", "status", "error"), REFUSED)
def test_refusals_have_one_shape(folder: Path, where: str, status: int, error: str) -> None:
    said = client(folder).post("/synopses/people/ask", json={"where": where})
    assert (said.status_code, said.json()["error"]) == (status, error)
    assert set(said.json()) == PROBLEM
    assert said.json()["spent"] == 0


def test_a_cut_bin_comes_with_a_question_that_is_answered(folder: Path) -> None:
    web = client(folder)
    (repair,) = web.post("/synopses/people/ask", json={"where": "age BETWEEN 20 AND 33"}).json()["repairs"]
    assert web.post("/synopses/people/ask", json={"where": repair["where"]}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/synopses/nobody", 404),
        ("GET", "/nothing/here", 404),
        ("DELETE", "/synopses/people", 405),
        ("GET", "/synopses/people/table", 422),
        ("GET", "/synopses/people/table?by=moon", 422),
        ("GET", "/synopses/people/rows?n=-1", 422),
        ("GET", "/synopses/people/rows?n=99999999&as=csv", 422),
        ("GET", "/sessions", 401),
        ("GET", "/sessions/live", 401),
        ("GET", "/sessions/nobody", 401),
    ],
)
def test_every_refusal_has_the_same_shape(folder: Path, method: str, path: str, status: int) -> None:
    said = client(folder).request(method, path)
    assert said.status_code == status
    assert set(said.json()) == PROBLEM


def test_bodies_that_are_none(folder: Path) -> None:
    web = client(folder, limits=Limits(body=1000))
    for body in (b"{", b"[]", b'{"where": 3}', b'{"where": "ill", "x": 1}', b'{"where": "ill", "confidence": 1.0}'):
        said = web.post("/synopses/people/ask", content=body, headers={"content-type": "application/json"})
        assert said.status_code == 422
        assert set(said.json()) == PROBLEM
    huge = web.post("/synopses/people/ask", json={"where": "x" * 2000})
    assert (huge.status_code, huge.json()["error"]) == (413, "too-large")
    chunked = web.post("/synopses/people/ask", content=(b"x" * 500 for _ in range(9)))
    assert chunked.status_code == 413


def test_hosts_and_origins(folder: Path) -> None:
    web = client(folder, hosts=frozenset({"127.0.0.1", "localhost"}))
    assert web.get("/synopses", headers={"host": "localhost:8765"}).status_code == 200
    assert web.get("/synopses", headers={"host": "evil.example"}).status_code == 421
    same = {"host": "localhost:8765", "origin": "http://localhost:8765"}
    assert web.get("/synopses", headers=same).status_code == 200
    assert web.get("/synopses", headers={**same, "origin": "http://evil.example"}).status_code == 403
    asked = {"host": "localhost", "origin": "http://evil.example", "access-control-request-method": "POST"}
    preflight = web.options("/synopses/people/ask", headers=asked)
    assert preflight.status_code == 403
    assert not [name for name in preflight.headers if name.startswith("access-control")]


def test_tokens(folder: Path) -> None:
    analysts = Analysts(folder)
    ada, bob = analysts.add("ada"), analysts.add("bob", names=["other"])
    assert ada.encode() not in b"".join(path.read_bytes() for path in folder.iterdir())
    with pytest.raises(AnalystError, match="already"):
        analysts.add("ada")
    web = client(folder, closed=True)

    def look(token: str | None, path: str = "/synopses/people") -> int:
        return web.get(path, headers={} if token is None else {"authorization": f"Bearer {token}"}).status_code

    assert [look(None), look("cs_wrong"), look(ada)] == [401, 401, 200]
    unknown = web.get("/synopses/nobody", headers={"authorization": f"Bearer {bob}"})
    others = web.get("/synopses/people", headers={"authorization": f"Bearer {bob}"})
    assert (unknown.status_code, unknown.json()) == (others.status_code, others.json()) == (404, unknown.json())
    assert web.get("/synopses", headers={"authorization": f"Bearer {bob}"}).json() == {"synopses": []}
    assert web.get(f"/synopses/people?token={ada}").status_code == 401  # a token is never read from an address
    assert web.get("/synopses/people", headers={"authorization": f"Basic {ada}"}).status_code == 401
    analysts.revoke("ada")
    assert look(ada) == 401


def test_the_log_holds_no_question_no_answer_no_token(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    token = Analysts(folder).add("ada")
    web = TestClient(application(Serving(folder=folder, log="debug")), raise_server_exceptions=False)
    said = web.post(
        "/synopses/people/ask?token=" + token, json={"where": "smoker"}, headers={"authorization": f"Bearer {token}"}
    )
    web.get(f"/{token}/people")
    web.get(f"/synopses/{token}")
    lines = capfd.readouterr().err
    assert [json.loads(line)["status"] for line in lines.splitlines()] == [200, 404, 404]
    assert json.loads(lines.splitlines()[0])["analyst"] == "ada"
    for secret in (token, "smoker", str(said.json()["fraction"])[:8], str(said.json()["count"])[:5]):
        assert secret not in lines


def test_every_answer_tells_browsers_to_load_nothing(folder: Path) -> None:
    web = client(folder)
    for path in ("/synopses", "/synopses/people/report", "/nothing"):
        headers = web.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert web.get("/synopses").headers["cache-control"] == "no-store"


def test_health_metrics_and_description(folder: Path) -> None:
    web = client(folder)
    assert web.get("/health").json()["ok"] is True
    web.get("/synopses/people")
    text = web.get("/metrics").text
    assert 'conspectus_requests_total{route="/synopses/{name}",status="200"} 1' in text
    described = web.get("/openapi.json").json()
    assert {"/synopses", "/synopses/{name}/ask", "/sessions/{name}/ask"} <= set(described["paths"])


def test_the_shelf_notices_files(folder: Path, release: cs.Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conspectus.service.shelf._LOOK_AGAIN", 0.0)
    shelf = Shelf(folder)
    assert [one.name for one in shelf.all()] == ["people"]
    release.save(folder / "second.conspectus")
    (folder / "broken.conspectus").write_bytes(b"PK\x03\x04 and nothing more")
    (folder / "notes.txt").write_text("x")
    assert [one.name for one in shelf.all()] == ["people", "second"]
    assert list(shelf.unreadable) == ["broken.conspectus"]
    (folder / "people.conspectus").unlink()
    assert shelf.find("people") is None
    with pytest.raises(FolderError, match="not a folder"):
        Shelf(folder / "second.conspectus")


def test_a_session_that_others_may_write_to_is_not_served(folder: Path) -> None:
    from .conftest import add_session

    path = add_session(folder)
    assert [one.name for one in sessions_of(folder)] == ["live"]
    path.chmod(0o666)
    with pytest.raises(FolderError, match="others may write"):
        sessions_of(folder)


def test_the_made_schema_is_the_shared_one(folder: Path, release: cs.Release, tmp_path: Path) -> None:
    (tmp_path / "people.toml").write_text(SCHEMA, encoding="utf-8")
    assert cs.Schema.load(tmp_path / "people.toml") == release.schema
    assert cs.Schema.from_dict(client(folder).get("/synopses/people/schema").json()) == release.schema


def test_random_requests_are_answered_or_refused(tmp_path: Path) -> None:
    """A few hundred; `make audit` sends 100,000."""
    statuses = asyncio.run(fuzz(folder_in(tmp_path), 400, 3))
    assert {200, 401, 404, 405, 422} <= set(statuses)
