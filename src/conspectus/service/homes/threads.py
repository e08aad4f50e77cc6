"""Work in threads: a bounded number at a time, with a bounded number that waits; and an end that waits for none.

A question may take long to read, and whoever sent it may be gone by then. It holds up neither the event loop, in which
everybody is answered, nor the end of the process.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from conspectus.service.refusing import busy

T = TypeVar("T")


class Queue:
    """Threads, and whoever waits for one of them."""

    def __init__(self, *, working: int, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=working)
        self._most = working + waiting
        self._inside = 0
        self._begun: set[Future[Any]] = set()

    async def run(self, work: Callable[..., T], *args: Any, **keywords: Any) -> T:
        """The result of the work; refused at once where too many wait."""
        if self._inside >= self._most:
            raise busy()
        self._inside += 1
        try:
            future = self._pool.submit(functools.partial(work, *args, **keywords))
            self._begun.add(future)
            future.add_done_callback(self._begun.discard)
            return await asyncio.wrap_future(future)
        finally:
            self._inside -= 1

    def close(self) -> None:
        """Begin nothing more. What a thread is busy with is not waited for: nobody will be told of it."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def at_work(self) -> bool:
        """Whether a thread is busy."""
        return any(not future.done() for future in tuple(self._begun))


def end_soon(seconds: float = 1.0) -> None:
    """End this process by then, whatever its threads do: Python itself would wait for every one of them.

    To be called when all is written that has to be, as the last thing that a process does.
    """
    last = threading.Timer(seconds, _end)
    last.daemon = True  # where no thread is busy the process ends before, in the usual way
    last.start()


def _end() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)
