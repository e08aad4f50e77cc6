"""What a home promises, seen from the application: caps, the queue, what a restart cost, and one watch for all."""

from __future__ import annotations

import asyncio
import fcntl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import conspectus as cs
from conspectus.service.analysts import Analysts
from conspectus.service.wire import LiveAnswered, Problem

from .at_home import Living, at_home, send
from .conftest import Service, add_session

QUESTIONS = [f"age >= {18 + 12 * low} AND region = '{region}'" for low in range(1, 6) for region in ("north", "east")]
ASK = "/sessions/live/ask"


def test_an_answer_and_a_refusal_are_as_they_are_described(folder: Path) -> None:
    """The bodies are passed on as texts: nothing but this compares them with their models."""
    add_session(folder)
    token = Analysts(folder).add("ada")

    async def main(living: Living) -> None:
        for path in (ASK, ASK, "/sessions/live/measure"):
            status, said = await living.call(path, {"where": "smoker AND ill"}, token=token)
            assert status == 200
            assert set(said) == set(LiveAnswered.model_fields)
            LiveAnswered.model_validate(said)
        bad = ({"where": "age < 20"}, {"where": "x"}, {"what": 1}, {"where": 3}, {}, [], {"where": "ill", "picks": {}})
        for body in bad:
            status, said = await living.call(ASK, body, token=token)
            assert status == 422
            assert set(said) == set(Problem.model_fields)
        plain = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]
        for kind, content, expected in (
            (b"application/json; charset=utf-8", b'{"where": "ill"}', 200),
            (b"text/plain", b'{"where": "ill"}', 422),
            (b"application/json", b'{"where": "ill"', 422),
            (b"application/json", b"\xff\xfe", 422),
        ):
            status, _ = await send(living.app, "POST", ASK, [*plain, (b"content-type", kind)], content)
            assert status == expected, kind

    _run(folder, main)


def test_the_share_of_an_analyst_holds_whoever_asks_at_once(folder: Path) -> None:
    """Twenty questions at the same time: what they took together stays within the share."""
    add_session(folder, priming=0.0, hits=6, threshold=0.001)
    analysts = Analysts(folder)
    token, other = analysts.add("ada", share=0.4), analysts.add("bob")

    async def main(living: Living) -> None:
        wheres = [f"{where} AND {also}" for where in QUESTIONS for also in ("ill", "smoker")]
        said = await asyncio.gather(*(living.call(ASK, {"where": where}, token=token) for where in wheres))
        about = (await living.call("/sessions/live", token=token))[1]
        refused = [body for status, body in said if status == 429]
        taken = sum(body["cost"] for status, body in said if status == 200)
        assert refused
        assert all(body["error"] == "share" for body in refused)
        assert 0 < taken <= 0.4 * about["total"]
        assert analysts.spent("ada", "live") == pytest.approx(taken)
        assert about["spent"] == pytest.approx(taken)  # and nobody else asked
        asked = next(where for where, (status, _) in zip(wheres, said) if status == 200)
        assert (await living.call(ASK, {"where": asked}, token=token))[1]["repeated"]
        assert (await living.call(ASK, {"where": "smoker AND region = 'west'"}, token=other))[0] == 200

    _run(folder, main)


def test_a_full_queue_says_503_and_spends_nothing(folder: Path) -> None:
    add_session(folder)
    analysts = Analysts(folder)
    token = analysts.add("ada", questions=100)

    async def main(living: Living) -> None:
        first = (await living.call(ASK, {"where": QUESTIONS[0]}, token=token))[1]
        spent, held = living.sessions["live"].spent, threading.Event()
        home = living.homes["live"]
        busy = asyncio.ensure_future(home._line.turn(lambda: held.wait(1200)))
        calls = [asyncio.ensure_future(living.call(ASK, {"where": where}, token=token)) for where in QUESTIONS[1:]]
        until = time.monotonic() + 600
        while sum(call.done() for call in calls) < len(calls) - 2 and time.monotonic() < until:
            await asyncio.sleep(0.05)
        done, waiting = await asyncio.wait(calls, timeout=0.5)
        assert len(waiting) == 2  # the queue has three places, and one is taken
        for call in done:
            status, said = call.result()
            assert (status, said["error"], said["spent"]) == (503, "busy", 0)
        # What was asked before is found before the queue, and the same question twice takes one place.
        status, again = await living.call(ASK, {"where": f"NOT NOT ({QUESTIONS[0]})"}, token=token)
        assert (status, again["repeated"], again["fraction"]) == (200, True, first["fraction"])
        asked = analysts.all()[0].asked
        held.set()
        await busy
        answers = [await call for call in waiting]
        assert [status for status, _ in answers] == [200, 200]
        cost = sum(said["cost"] for _, said in answers)
        assert living.sessions["live"].spent == pytest.approx(spent + cost)
        assert (asked, analysts.all()[0].asked) == (1, 3)  # whoever was told to come again was not counted

    _run(folder, main, queue=3)


def test_an_answer_that_was_given_waits_for_no_other_process(folder: Path) -> None:
    """Somebody else holds the session's lock: new questions wait for it, repeated ones do not."""
    path = add_session(folder)
    token = Analysts(folder).add("ada")

    async def main(living: Living) -> None:
        first = (await living.call(ASK, {"where": QUESTIONS[0]}, token=token))[1]
        with path.with_name(path.name + ".lock").open("a") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            new = asyncio.ensure_future(living.call(ASK, {"where": QUESTIONS[1]}, token=token))
            await asyncio.sleep(0.1)
            status, again = await asyncio.wait_for(living.call(ASK, {"where": QUESTIONS[0]}, token=token), 600)
            assert (status, again["repeated"], again["fraction"]) == (200, True, first["fraction"])
            assert not new.done()
        assert (await asyncio.wait_for(new, 60))[0] == 200

    _run(folder, main)


def test_a_question_of_many_at_once_is_put_once(folder: Path) -> None:
    add_session(folder, priming=0.0, hits=3)
    token = Analysts(folder).add("ada")

    async def main(living: Living) -> None:
        spelled = ["smoker AND ill", "ill AND smoker", "NOT (NOT smoker OR NOT ill)"] * 5
        said = await asyncio.gather(*(living.call(ASK, {"where": where}, token=token) for where in spelled))
        assert {status for status, _ in said} == {200}
        assert len({body["fraction"] for _, body in said}) == 1
        assert sum(not body["repeated"] for _, body in said) == 1
        assert living.sessions["live"].asked == 1

    _run(folder, main)


@pytest.mark.parametrize("cap", [{"questions": 0}, {"share": 0.0}], ids=["questions", "share"])
@pytest.mark.parametrize("path", [ASK, "/sessions/live/measure"], ids=["ask", "measure"])
def test_nobody_is_refused_by_the_cap_of_another(folder: Path, cap: dict[str, float], path: str) -> None:
    """First somebody who may not, then all ask the same at once. The others are answered once, and one of them pays."""
    add_session(folder, priming=0.0, hits=3, threshold=0.001)
    analysts = Analysts(folder)
    names = ("poor", "poorer", "ada", "also", "bob")
    tokens = [analysts.add(name, **({} if name in ("ada", "bob") else cap)) for name in names]

    async def main(living: Living) -> None:
        session = living.sessions["live"]
        first = await living.call(path, {"where": "smoker AND ill"}, token=tokens[0])
        said = await asyncio.gather(*(living.call(path, {"where": "smoker AND ill"}, token=token) for token in tokens))
        by_name = dict(zip(names, said))
        assert first[0] == 429
        assert {by_name[name][0] for name in ("ada", "bob")} == {200}, said
        # Others without means are refused by their own cap, or come after somebody who may ask, as an hour later.
        answers = [body for status, body in said if status == 200]
        assert len({body["fraction"] for body in answers}) == 1
        asked = {analyst.name: analyst.asked for analyst in analysts.all()}
        payer = next(name for name in ("ada", "bob") if asked[name])
        assert asked[payer] == session.asked == 1
        assert not any(asked[name] for name in ("ada", "bob") if name != payer)
        assert analysts.spent(payer, "live") == pytest.approx(session.spent)
        assert by_name[payer][1]["cost"] == pytest.approx(session.spent)
        assert not any(analysts.spent(name, "live") for name in names if name != payer)
        # What was answered is nobody's any more.
        again = [await living.call(path, {"where": "ill AND smoker"}, token=token) for token in tokens]
        assert {(status, body["fraction"]) for status, body in again} == {(200, answers[0]["fraction"])}
        assert living.homes["live"]._asking == {}

    _run(folder, main)


def test_everybody_who_may_not_ask_is_told_of_their_own_cap(folder: Path) -> None:
    add_session(folder, priming=0.0, hits=3)
    analysts = Analysts(folder)
    tokens = [analysts.add(f"a{most}", questions=most) for most in (0, 1, 2)]

    async def main(living: Living) -> None:
        for where in QUESTIONS[:2]:
            await living.call(ASK, {"where": where}, token=tokens[2])
        await living.call(ASK, {"where": QUESTIONS[2]}, token=tokens[1])
        asked = {"where": QUESTIONS[3]}
        said = await asyncio.gather(*(living.call(ASK, asked, token=token) for token in tokens))
        assert [status for status, _ in said] == [429] * 3
        assert [f"made for {most} new" in body["text"] for most, (_, body) in enumerate(said)] == [True] * 3
        assert living.sessions["live"].asked == 3

    _run(folder, main)


def test_what_is_not_new_and_buys_nothing_takes_none_of_an_analysts_questions(folder: Path) -> None:
    """Marginals bought in advance are narrower than what is left would buy: `measure` returns what is there."""
    add_session(folder, priming=0.99)
    analysts = Analysts(folder)
    token = analysts.add("ada", questions=1)

    async def main(living: Living) -> None:
        for repeated in (False, True, True):
            status, said = await living.call("/sessions/live/measure", {"where": "ill"}, token=token)
            assert (status, said["cost"], said["repeated"]) == (200, 0.0, repeated)
        assert [one.asked for one in analysts.all()] == [1]
        status, said = await living.call("/sessions/live/measure", {"where": "smoker"}, token=token)
        assert (status, said["error"]) == (429, "questions")

    _run(folder, main)


def test_a_restart_says_what_it_cost(folder: Path) -> None:
    """A watch that was open dies with its process. The next new question pays for another, and that is told."""
    add_session(folder, priming=0.0, hits=3, threshold=0.5)
    token = Analysts(folder).add("ada")

    async def ask(living: Living) -> tuple[float, float | None]:
        number = living.sessions["live"].asked
        said = (await living.call(ASK, {"where": QUESTIONS[number]}, token=token))[1]
        return said["cost"], (await living.call("/sessions/live", token=token))[1]["restart_cost"]

    opened, told = _run(folder, ask)
    assert (opened > 0, told) == (True, 0.0)  # the first watch of all: nothing was lost
    again, told = _run(folder, ask)
    assert again == pytest.approx(opened)
    assert told == pytest.approx(opened)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_four_web_workers_and_one_watch(folder: Path, served: Callable[..., Service]) -> None:
    """Guesses alone, asked by twelve clients at a time of four workers: one watch is paid, and nothing else."""
    add_session(folder, priming=0.0, hits=3, threshold=0.9)
    token = Analysts(folder).add("ada")
    service = served(folder, "--workers", "4")
    service.wait(sessions=True)
    assert len(service.children("worker")) == 4
    assert len(service.children("home")) == 1
    costs: list[float] = []

    def ask() -> None:
        for where in QUESTIONS:
            status, said = service.call(ASK, {"where": where}, token=token)
            assert status == 200, said
            costs.append(said["cost"])

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    about = service.call("/sessions/live", token=token)[1]
    assert len(costs) == 12 * len(QUESTIONS)
    assert sum(cost > 0 for cost in costs) == 1
    assert (about["watches"], about["asked"]) == (1, len(QUESTIONS))
    assert about["spent"] == pytest.approx(sum(costs))
    assert about["by_kind"] == {"watches": pytest.approx(sum(costs)), "measurements": 0}
    assert service.stop() == 0


def _run(folder: Path, main: Callable[[Living], object], *, queue: int = 256) -> object:
    async def run() -> object:
        async with at_home(folder, queue=queue) as living:
            return await main(living)  # type: ignore[misc]

    return asyncio.run(run())


def test_the_schema_is_the_made_one(folder: Path) -> None:
    add_session(folder)
    token = Analysts(folder).add("ada")

    async def main(living: Living) -> None:
        said = (await living.call("/sessions/live/schema", token=token))[1]
        assert cs.Schema.from_dict(said) == cs.Schema.load(folder.parent / "people.toml")

    _run(folder, main)
