"""Live sessions at home: one process holds the watch, workers forward, and nothing is lost when any of them dies."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import conspectus as cs
from conspectus.service.analysts import Analysts
from conspectus.service.client import ServiceError

from .conftest import Service, add_session

QUESTIONS = [f"age >= {18 + 12 * low} AND region = '{region}'" for low in range(1, 6) for region in ("north", "east")]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_session_is_served_by_one_home(folder: Path, served: Callable[..., Service]) -> None:
    """Two workers, three clients at a time: one watch, one answer a question, the caps kept, a restart told."""
    path = add_session(folder, priming=0.0, hits=3)
    analysts = Analysts(folder)
    ada, bob = analysts.add("ada"), analysts.add("bob", questions=2)
    service = served(folder, "--workers", "2")
    service.wait(sessions=True)
    assert service.call("/sessions/live")[0] == 401
    assert service.call("/sessions", token=ada)[1] == {"sessions": [{"name": "live"}]}

    said: dict[str, set[float]] = {where: set() for where in QUESTIONS}

    def ask() -> None:
        for where in QUESTIONS:
            status, answer = service.call("/sessions/live/ask", {"where": where}, token=ada)
            assert status == 200, answer
            said[where].add(answer["fraction"])

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(answers) == 1 for answers in said.values())
    about = service.call("/sessions/live", token=ada)[1]
    assert about["asked"] == len(QUESTIONS)
    assert about["watches"] <= 4  # one, and one more after each of three hits
    assert about["spent"] + about["remaining"] == pytest.approx(about["total"])
    assert about["analyst"]["asked"] == len(QUESTIONS)

    # The same in other words costs nothing, and is not counted; the cap of another analyst holds.
    again = service.call("/sessions/live/ask", {"where": f"NOT (NOT ({QUESTIONS[0]}))"}, token=bob)[1]
    assert again["repeated"]
    assert again["fraction"] in said[QUESTIONS[0]]
    new = ["ill AND age < 30", "ill AND age < 42", "ill AND age < 54"]
    statuses = [service.call("/sessions/live/ask", {"where": where}, token=bob)[0] for where in new]
    assert statuses == [200, 200, 429]
    refused = service.call("/sessions/live/ask", {"where": "age < 20"}, token=ada)
    assert (refused[0], refused[1]["error"]) == (422, "cuts-bin")

    # A home that is killed comes back with every answer, and a worker that is killed is replaced.
    before = service.call("/sessions/live", token=ada)[1]
    for module in ("home", "worker"):
        os.kill(service.children(module)[0], signal.SIGKILL)
        until = time.monotonic() + 600
        while time.monotonic() < until:
            try:
                status, answer = service.call("/sessions/live/ask", {"where": QUESTIONS[3]}, token=ada)
            except OSError:
                status = 0
            if status == 200:
                break
            time.sleep(0.2)
        assert answer["repeated"]
        assert answer["fraction"] in said[QUESTIONS[3]]
    after = service.call("/sessions/live", token=ada)[1]
    assert (after["asked"], after["spent"]) == (before["asked"], before["spent"])

    learned = folder.parent / "learned.conspectus"
    learned.write_bytes(service.call("/sessions/live/release", token=ada)[1])
    assert cs.load(learned).questions == after["asked"]

    # The client has the session's own calls.
    remote = cs.connect(f"{service.address}/sessions/live", token=ada)
    assert remote.quote(QUESTIONS[0])["free_because"] == "repeated"
    regions = remote.query("SELECT region, count(*) AS people FROM people GROUP BY region")
    assert regions.column_names == ["region", "people", "people_low", "people_high"]
    assert service.call("/sessions/live", token=ada)[1]["asked"] == after["asked"] + regions.num_rows
    after = service.call("/sessions/live", token=ada)[1]
    assert remote.ask(QUESTIONS[0]).repeated
    assert remote.spent == after["spent"]
    with pytest.raises(ServiceError, match="token"):
        cs.connect(f"{service.address}/sessions/live", token="cs_wrong")
    remote.close()

    assert service.stop() == 0
    log = service.log.read_text()
    events = [json.loads(line)["event"] for line in log.splitlines() if line.startswith("{")]
    assert events[-1] == "closed"
    assert {"died", "opened", "serving"} <= set(events)
    assert ada not in log
    assert QUESTIONS[0] not in log

    # The file, its ledger and the answers agree.
    schema = cs.Schema.load(folder.parent / "people.toml")
    with cs.open_table(str(folder.parent / "people.csv"), schema) as table, cs.resume_session(path, table) as session:
        assert session.asked == after["asked"]
        assert session.spent == pytest.approx(after["spent"])
        for where, (fraction,) in said.items():
            assert session.ask(where).fraction == fraction


def test_the_client_answers_as_the_release_does(
    folder: Path, release: cs.Release, served: Callable[..., Service]
) -> None:
    service = served(folder)
    service.wait()
    remote = cs.connect(f"{service.address}/synopses/people")
    assert remote.guarantee == release.guarantee
    assert remote.schema == release.schema
    for where in ("smoker", "ill AND age >= 42"):
        assert remote.ask(where, confidence=0.9) == release.ask(where, confidence=0.9)
    question = cs.sql(release.schema, ["smoker AND ill"])
    assert remote.ask(question).fraction == release.ask(question).fraction
    assert remote.table(["region", "ill"]).equals(release.table(["region", "ill"]))
    select = "SELECT region, count(*) AS people, count(*) FILTER (WHERE ill) AS ill FROM people GROUP BY region"
    far, near = remote.query(select), release.query(select)
    assert far.equals(near)
    assert (far.labels, far.measures, far.notes, far.cost) == (near.labels, near.measures, near.notes, near.cost)
    assert remote.synthetic(50, public_seed=3).equals(release.synthetic(50, public_seed=3))
    for where in ("wealth = 3", "age BETWEEN 20 AND 33", "smoker AND", "region = 'moon'"):
        with pytest.raises(ValueError) as here:
            release.ask(where)
        with pytest.raises(type(here.value)):
            remote.ask(where)
    with pytest.raises(ValueError, match="nothing under this name"):
        cs.connect(f"{service.address}/synopses/nobody")
    remote.close()

    # A parent that is killed takes its children along, and the client says that nobody answers.
    (worker,) = service.children("worker")
    service.process.kill()
    service.process.wait()
    until = time.monotonic() + 600
    while Path(f"/proc/{worker}").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not Path(f"/proc/{worker}").exists()
    with pytest.raises(ValueError, match="does not answer"):
        remote.ask("smoker")
