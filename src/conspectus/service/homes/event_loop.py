"""The event loop of the service's processes: uvloop, which is faster, and Python's own where there is none."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

new_event_loop: Callable[[], asyncio.AbstractEventLoop] | None
try:
    from uvloop import new_event_loop
except ModuleNotFoundError:
    new_event_loop = None


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run a process until its work is done.

    All that the process holds by now it holds to its end. The garbage collector does not look at that again: a look at
    every object of the imported modules takes a tenth of a second, in which nobody is answered.
    """
    gc.collect()
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(main)
    finally:
        gc.unfreeze()  # or libraries find at the end of the process that something of theirs was never let go
