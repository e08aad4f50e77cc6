"""Who waits for a session: one at a time, in order, only so many, and some for a refit."""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
import time

import pytest

from conspectus.service.homes.event_loop import run_loop
from conspectus.service.homes.line_up import LineUp
from conspectus.service.refusing import Refused


def _no_fault(problem: BaseException) -> None:
    raise AssertionError(problem)


def test_short_and_long_work_take_turns() -> None:
    """Short work is done by the loop's own thread, and never while long work is."""
    inside, threads, order = threading.Lock(), [], []

    def work(number: int) -> int:
        assert inside.acquire(blocking=False)
        threads.append(threading.get_ident())
        time.sleep(0.01)
        order.append(number)
        inside.release()
        if number == 5:
            raise LookupError
        return number

    async def main() -> list[object]:
        line = LineUp(100, _no_fault)
        turns = [line.turn(functools.partial(work, number), short=lambda n=number: n % 3 > 0) for number in range(9)]
        found = await asyncio.gather(*turns, return_exceptions=True)
        line.close()
        return found

    found = asyncio.run(main())
    assert order == list(range(9))
    assert [found[number] for number in range(9) if number != 5] == [0, 1, 2, 3, 4, 6, 7, 8]
    assert isinstance(found[5], LookupError)
    here = [thread == threading.get_ident() for thread in threads]
    assert here == [number % 3 > 0 for number in range(9)]


def test_one_at_a_time_in_order_and_only_so_many() -> None:
    running, most, order = 0, 0, []
    gate = threading.Event()

    def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        gate.wait(1200)
        order.append(number)
        running -= 1
        return number

    async def main() -> None:
        line = LineUp(4, _no_fault)
        turns = [asyncio.ensure_future(line.turn(lambda n=number: work(n))) for number in range(4)]  # type: ignore[misc]
        await asyncio.sleep(0)
        assert line.full
        with pytest.raises(Refused) as refused:
            await line.turn(lambda: 0)
        assert (refused.value.status, refused.value.error, refused.value.wait) == (503, "busy", 1)
        gate.set()
        assert await asyncio.gather(*turns) == [0, 1, 2, 3]
        assert not line.full
        line.close()

    asyncio.run(main())
    assert most == 1
    assert order == [0, 1, 2, 3]


@pytest.mark.parametrize("short", [False, True])
def test_whoever_names_a_column_of_a_surprise_waits_for_the_refit(short: bool) -> None:
    done: list[str] = []
    fitted = threading.Event()

    async def main() -> None:
        line = LineUp(10, _no_fault)

        def surprise() -> None:
            line.hand_over((1, 2), 0, lambda: (fitted.wait(1200), done.append("refit"))[0] and None)  # type: ignore[arg-type]
            done.append("surprise")

        turns = [
            asyncio.ensure_future(line.turn(surprise, (1, 2), short=lambda: short)),
            asyncio.ensure_future(line.turn(lambda: done.append("same column"), (0, 2), short=lambda: short)),
            asyncio.ensure_future(line.turn(lambda: done.append("another column"), (0, 3), short=lambda: short)),
            asyncio.ensure_future(line.turn(lambda: done.append("no column"), short=lambda: short)),
        ]
        until = time.monotonic() + 600
        while "no column" not in done and time.monotonic() < until:
            await asyncio.sleep(0.01)
        assert done == ["surprise", "another column", "no column"]
        fitted.set()
        await asyncio.gather(*turns)
        line.close()

    asyncio.run(main())
    assert done == ["surprise", "another column", "no column", "refit", "same column"]


@pytest.mark.parametrize(("known", "columns", "waits"), [(1, (1, 4), False), (1, (1, 2), True), (2, (1, 2, 5), False)])
def test_only_questions_close_to_the_surprise_wait(known: int, columns: tuple[int, ...], waits: bool) -> None:
    """Close are those with more columns in common than were known at a time."""
    fitted = threading.Event()

    async def main() -> bool:
        line = LineUp(10, _no_fault)

        def refit() -> None:
            fitted.wait(1200)

        await line.turn(lambda: line.hand_over((1, 2, 3), known, refit), (1, 2, 3), short=lambda: True)
        asked = asyncio.ensure_future(line.turn(lambda: 7, columns, short=lambda: True))
        # Who does not wait may be slow all the same on a busy machine; who waits is seen to for a moment.
        await asyncio.wait([asked], timeout=0.02 if waits else 600)
        waited = not asked.done()
        fitted.set()
        assert await asked == 7
        line.close()
        return waited

    assert asyncio.run(main()) == waits


def test_a_refit_that_fails_is_told_and_holds_nobody_up() -> None:
    faults: list[BaseException] = []

    async def main() -> None:
        line = LineUp(10, faults.append)

        def fail() -> None:
            raise MemoryError

        await line.turn(lambda: line.hand_over((0,), 0, fail), (0,))
        assert await line.turn(lambda: 7, (0,)) == 7
        with pytest.raises(ZeroDivisionError):
            await line.turn(lambda: 1 // 0)
        assert await line.turn(lambda: 8) == 8
        line.close()

    asyncio.run(main())
    assert [type(fault) for fault in faults] == [MemoryError]


def test_what_a_process_holds_from_the_start_is_not_looked_at_again() -> None:
    """A full collection of garbage would stop every answer for a tenth of a second, several times a minute."""
    held: list[int] = []

    async def look() -> None:
        held.append(gc.get_freeze_count())

    run_loop(look())
    assert held[0] > 10_000
    assert gc.get_freeze_count() == 0
