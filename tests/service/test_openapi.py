"""What the service says of itself, held against what it does: schemathesis makes requests from its OpenAPI."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conspectus.service.analysts import Analysts

from .conftest import Service, add_session

pytest.importorskip("schemathesis", reason="needs schemathesis: pip install 'conspectus[dev]'")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.mark.parametrize(
    ("phases", "examples"), [("fuzzing", 3), pytest.param("coverage,fuzzing", 300, marks=pytest.mark.audit)]
)
def test_requests_made_from_the_description(
    folder: Path, served: Callable[..., Service], phases: str, examples: int
) -> None:
    """Of every address, with a token: no server error, no status, type or body that is not described, no overspending.

    The session has the name of the release, so that one name is served under both addresses.
    """
    add_session(folder, "people", priming=0.25, order=1, hits=20, threshold=0.02)
    token = Analysts(folder).add("ada")
    service = served(folder, "--log", "error")
    service.wait(sessions=True)
    settings = folder.parent / "schemathesis.toml"
    settings.write_text('[parameters]\nname = "people"\n', encoding="utf-8")
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(settings), "--no-color"),
        *("run", f"{service.address}/openapi.json", "--header", f"Authorization: Bearer {token}", "--checks", CHECKS),
        *("--phases", phases, "--max-examples", str(examples), "--seed", "1", "--continue-on-failure"),
        *("--suppress-health-check", "all", "--generation-database", "none", "--warnings", "off"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=folder.parent, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    print(done.stdout[-800:])
    before = service.call("/sessions/people", token=token)[1]
    status, answer = service.call("/sessions/people/ask", {"where": "smoker AND ill AND age >= 42"}, token=token)
    about = service.call("/sessions/people", token=token)[1]
    assert status == 200  # the session is as sound as before
    assert about["spent"] == pytest.approx(before["spent"] + answer["cost"])
    assert about["spent"] <= about["total"] * (1 + 1e-12)
    assert service.stop() == 0
    assert token not in service.log.read_text()
