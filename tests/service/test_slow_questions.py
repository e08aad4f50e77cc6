"""Questions that take long to read: others are answered meanwhile, and the end of a process waits for none of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.service.at_home import at_home
from tests.service.conftest import add_session

from conspectus.service.analysts import Analysts
from conspectus.service.homes import home
from conspectus.service.homes.threads import Queue
from conspectus.service.refusing import Refused
from conspectus.sessions import answered

SLOW = "ill AND ill"


@pytest.mark.parametrize("path", ["ask", "measure", "quote"])
def test_a_slow_question_holds_up_nobody(folder: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Somebody asks what takes long to read, and hangs up; others are answered, and its own answer comes in the end."""
    add_session(folder)
    token = Analysts(folder).add("ada")
    begun, go, read = threading.Event(), threading.Event(), answered.canonical

    def slowly(schema, question, *, snap=False):
        if question == SLOW:
            begun.set()
            assert go.wait(60)
        return read(schema, question, snap=snap)

    monkeypatch.setattr(answered, "canonical", slowly)

    async def ask() -> None:
        async with at_home(folder) as living:
            status, first = await living.call("/sessions/live/ask", {"where": "smoker"}, token=token)
            assert status == 200
            slow = asyncio.create_task(living.call(f"/sessions/live/{path}", {"where": SLOW}, token=token))
            gone = asyncio.create_task(living.call(f"/sessions/live/{path}", {"where": SLOW}, token=token))
            try:
                assert await asyncio.to_thread(begun.wait, 60)
                gone.cancel()
                status, again = await living.call("/sessions/live/ask", {"where": "smoker"}, token=token)
                assert (status, again["fraction"], again["repeated"]) == (200, first["fraction"], True)
                for asked in ({"where": "age >= 42"}, {"picks": {"region": [0]}}):
                    status, other = await living.call("/sessions/live/ask", asked, token=token)
                    assert (status, other["repeated"]) == (200, False)
                assert (await living.call("/sessions/live", token=token))[0] == 200
                assert not slow.done()
            finally:
                go.set()
            status, told = await slow
            assert status == 200, told
            status, same = await living.call("/sessions/live/ask", {"where": "ill"}, token=token)
            assert same["repeated"] == (path != "quote")
            assert path == "quote" or same["fraction"] == told["fraction"]

    asyncio.run(ask())


@pytest.mark.parametrize(("path", "word"), [("query", "sql"), ("quote", "where")])
def test_a_slow_select_holds_up_nobody(folder: Path, monkeypatch: pytest.MonkeyPatch, path: str, word: str) -> None:
    add_session(folder)
    token = Analysts(folder).add("ada")
    begun, go, read = threading.Event(), threading.Event(), home.read_select

    def slowly(schema, select, *, snap=False):
        begun.set()
        assert go.wait(60)
        return read(schema, select, snap=snap)

    monkeypatch.setattr(home, "read_select", slowly)
    select = {word: "SELECT COUNT(*) AS n FROM people WHERE ill"}

    async def ask() -> None:
        async with at_home(folder) as living:
            slow = asyncio.create_task(living.call(f"/sessions/live/{path}", select, token=token))
            try:
                assert await asyncio.to_thread(begun.wait, 60)
                assert (await living.call("/sessions/live/ask", {"where": "smoker"}, token=token))[0] == 200
                assert not slow.done()
            finally:
                go.set()
            status, told = await slow
            assert status == 200, told

    asyncio.run(ask())


def test_only_so_many_wait_to_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_session(folder)
    token = Analysts(folder).add("ada")
    go, read = threading.Event(), answered.canonical
    monkeypatch.setattr(answered, "canonical", lambda *given, **more: go.wait(60) and read(*given, **more))

    async def ask() -> None:
        async with at_home(folder, queue=2) as living:
            asked = [
                asyncio.create_task(
                    living.call("/sessions/live/ask", {"where": f"age >= {18 + 12 * turn}"}, token=token)
                )
                for turn in range(6)
            ]
            await asyncio.sleep(0.5)
            status, told = await living.call("/sessions/live/ask", {"where": "ill"}, token=token)
            go.set()
            assert (status, told["error"]) == (503, "busy")
            await asyncio.gather(*asked)

    asyncio.run(ask())


def test_releases_are_listed_while_all_threads_are_busy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr("conspectus.service.desk.ask", lambda release, question: go.wait(60) and {})

    async def ask() -> None:
        async with at_home(folder) as living:
            busy = [asyncio.create_task(living.call("/synopses/people/ask", {"where": "ill"})) for _ in range(8)]
            await asyncio.sleep(0.3)
            try:
                for path in ("/synopses", "/synopses/people", "/health"):
                    assert (await asyncio.wait_for(living.call(path), 30))[0] == 200
            finally:
                go.set()
            await asyncio.gather(*busy)

    asyncio.run(ask())


def test_a_queue_that_is_full_refuses_and_one_that_is_closed_begins_nothing() -> None:
    go = threading.Event()

    async def ask() -> None:
        queue = Queue(working=1, waiting=1)
        assert not queue.at_work
        first, second = (asyncio.create_task(queue.run(go.wait, 60)) for _ in range(2))
        await asyncio.sleep(0.1)
        assert queue.at_work
        with pytest.raises(Refused):
            await queue.run(int)
        queue.close()
        go.set()
        assert await first
        with pytest.raises(asyncio.CancelledError):
            await second

    asyncio.run(ask())


ENDING = """
import asyncio, sys, time
from conspectus.service.homes.threads import Queue, end_soon

async def main():
    queue = Queue(working=1, waiting=1)
    task = asyncio.create_task(queue.run({work}))
    await asyncio.sleep(0.1)
    task.cancel()
    queue.close()

asyncio.run(main())
end_soon()
print("said", end="")
"""


@pytest.mark.parametrize("work", ["time.sleep, 600", "lambda: [0 for _ in iter(int, 1) if False]", "int"])
def test_a_process_ends_whatever_its_threads_do(work: str) -> None:
    command = [sys.executable, "-c", ENDING.replace("{work}", work)]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "said"), done.stderr
    assert time.monotonic() - began < 60
