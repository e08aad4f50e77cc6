"""Measurements in a process of their own, so that the peak memory is theirs."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from typing import Any


def measured(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `work` returns, computed in a child, with `peak`: the most memory that the child held, in MiB."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = work()
            found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            with os.fdopen(writer, "w") as pipe:
                json.dump(found, pipe)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if not text:
        raise SystemExit("a measurement failed: its process wrote nothing")
    return json.loads(text)
