"""The event loop of the service's processes: uvloop, which is faster, and Python's own where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

new_event_loop: Callable[[], asyncio.AbstractEventLoop] | None
try:
    from uvloop import new_event_loop
except ModuleNotFoundError:
    new_event_loop = None


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run a process until its work is done."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)
