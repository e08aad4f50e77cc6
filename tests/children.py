"""Children that do one thing and write what they did, until they end or are killed; benchmarks use them too."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from itertools import islice


def child(act: Callable[[int], None]) -> tuple[int, int]:
    """(process, where it writes) of a child that does one thing and never returns."""
    read, write = os.pipe()
    process = os.fork()
    if not process:
        code = 1
        try:
            os.close(read)
            act(write)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    return process, read


def killed(act: Callable[[int], None], rng: random.Random, *, lines: int, longest: float) -> list[str]:
    """What a child wrote before it was killed: a random moment after a random number of lines, or before any."""
    process, read = child(act)
    with os.fdopen(read) as written:
        said = list(islice(written, rng.randrange(lines)))
        time.sleep(rng.uniform(0, longest))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        said += written
    return said
