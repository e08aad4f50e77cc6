"""Who waits for a session: one at a time, in order, and only so many.

Short work, such as one question, is done by the thread of the event loop itself: to hand a millisecond's work to
another thread and back takes longer than the work, while both want the interpreter. Long work, such as a SELECT, has a
thread.

A question that is close to the last surprise waits until the guess has learned from that: its answer may be a good
guess by then, and a surprise costs budget. Close is one that has more columns in common with it than were known at a
time before: the refit leaves tables of fewer columns as they are. Others go on with the guess as it is.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from conspectus.service.refusing import busy

T = TypeVar("T")


@dataclass(eq=False)
class _Turn:
    """Somebody who waits: what to do, which columns it is about (None for none in particular), whether it is short
    when its turn comes, and who is told."""

    call: Callable[[], Any]
    columns: frozenset[int] | None
    short: Callable[[], bool]
    done: asyncio.Future[Any]


class LineUp:
    """Work on a session, piece by piece, and refits in a thread of their own."""

    def __init__(self, most: int, fault: Callable[[BaseException], None]) -> None:
        self._most, self._fault = most, fault
        self._waiting: deque[_Turn] = deque()
        self._refitting: list[tuple[frozenset[int], int]] = []
        self._busy = False
        self._one, self._aside = ThreadPoolExecutor(max_workers=1), ThreadPoolExecutor(max_workers=1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    @property
    def full(self) -> bool:
        """Whether the next one is told to come again."""
        return len(self._waiting) + self._busy >= self._most

    async def turn(
        self, call: Callable[[], T], columns: Iterable[int] | None = None, *, short: Callable[[], bool] = lambda: False
    ) -> T:
        """The result of a piece of work, once it was done; refused at once where too many wait."""
        if self.full:
            raise busy()
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        done: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append(_Turn(call, None if columns is None else frozenset(columns), short, done))
        self._next()
        return await done

    def hand_over(self, columns: tuple[int, ...], known: int, work: Callable[[], None]) -> None:
        """Take over a refit from the thread of the session, which has its answer then and goes on."""
        assert self._loop is not None
        if threading.get_ident() == self._thread:
            self._refit((frozenset(columns), known), work)
            return
        with suppress(RuntimeError):  # the home is closing: whoever resumes the session learns from its file
            # It arrives before the end of the turn does, so nobody who has to wait for it is let in before.
            self._loop.call_soon_threadsafe(self._refit, (frozenset(columns), known), work)

    def _refit(self, surprise: tuple[frozenset[int], int], work: Callable[[], None]) -> None:
        assert self._loop is not None
        self._refitting.append(surprise)

        def learned(done: asyncio.Future[None]) -> None:
            self._refitting.remove(surprise)
            problem = None if done.cancelled() else done.exception()
            if problem is not None:
                self._fault(problem)  # the guess is the one before, and the measured answer was given
            self._next()

        asyncio.ensure_future(self._loop.run_in_executor(self._aside, work)).add_done_callback(learned)

    def _next(self) -> None:
        if self._busy or self._loop is None:
            return
        for place, turn in enumerate(self._waiting):
            if not self._close(turn.columns):
                del self._waiting[place]
                break
        else:
            return
        self._busy = True
        if turn.short():
            ended: asyncio.Future[Any] = self._loop.create_future()
            try:
                ended.set_result(turn.call())
            except Exception as problem:
                ended.set_exception(problem)
            self._end(turn, ended)
        else:
            work = asyncio.ensure_future(self._loop.run_in_executor(self._one, turn.call))
            work.add_done_callback(lambda done: self._end(turn, done))

    def _close(self, columns: frozenset[int] | None) -> bool:
        """Whether a question is close to a surprise that is being learned from."""
        return columns is not None and any(len(columns & those) > known for those, known in self._refitting)

    def _end(self, turn: _Turn, done: asyncio.Future[Any]) -> None:
        assert self._loop is not None
        self._busy = False
        _pass_on(done, turn.done)
        if self._waiting:
            self._loop.call_soon(self._next)  # after whatever else has come meanwhile

    def close(self) -> None:
        """Finish what is being done; what waits is told to come again."""
        for turn in self._waiting:
            if not turn.done.done():
                turn.done.set_exception(busy())
        self._waiting.clear()
        self._one.shutdown(wait=True, cancel_futures=True)
        self._aside.shutdown(wait=True, cancel_futures=True)


def _pass_on(done: asyncio.Future[Any], waiting: asyncio.Future[Any]) -> None:
    if waiting.done():  # whoever waited went away
        return
    if done.cancelled():
        waiting.cancel()
        return
    problem = done.exception()
    if problem is not None:
        waiting.set_exception(problem)
    else:
        waiting.set_result(done.result())
