"""Runs a function of somebody else's on some rows, in a process of its own that is ended after it.

What it raises, prints or leaves in memory ends with the process, and so does what never ends by itself. All that comes
back is a few whole numbers. A copy of this process is made for each run, so that every run begins from the same state:
nothing that one run leaves in memory is there when the next one begins.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from conspectus.queries.blocks.subsample_results import Function

_WORDS = 2_000
"""Letters of what a failure says, where it may be told."""

_LONGEST_WAIT = 1e6
"""Seconds that are waited for at once: the system takes no more than about twice as many."""

Steps = Callable[[Any], Sequence[int]]
"""From what a function returned to whole numbers; it may raise."""


def run_apart(
    function: Function, rows: NDArray[np.int64], steps: Steps, count: int, *, seconds: float
) -> tuple[int, ...] | None:
    """The `count` whole numbers that a function finds on some rows; None if it failed, or did not end in time.

    Why it failed is not told: that may depend on the rows.
    """
    told = _run(function, rows, steps, count, seconds)
    return told if isinstance(told, tuple) else None


def rehearse(function: Function, rows: NDArray[np.int64], steps: Steps, count: int, *, seconds: float) -> str | None:
    """Why a function fails on rows that are nobody's, or None if it does not fail. For made rows alone."""
    told = _run(function, rows, steps, count, seconds)
    return None if isinstance(told, tuple) else told


def _run(
    function: Function, rows: NDArray[np.int64], steps: Steps, count: int, seconds: float
) -> tuple[int, ...] | str:
    """The numbers, or why there are none."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that other threads are not copied is known
        child = os.fork()
    if child == 0:
        _work(function, rows, steps, count, read, write)
    os.close(write)
    try:
        return _told(read, count, seconds)
    finally:
        os.close(read)
        # Whatever the function started is in the child's group, and goes with it.
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _work(function: Function, rows: NDArray[np.int64], steps: Steps, count: int, read: int, write: int) -> NoReturn:
    """In the child: run, tell, and end without any of the parent's farewells."""
    try:
        os.setsid()
        os.close(read)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        # In a notebook these are no files, and what is written to them still arrives.
        sys.stdin = sys.stdout = sys.stderr = os.fdopen(nothing, "r+")
        logging.disable()
        seen = rows.view()
        seen.flags.writeable = False
        try:
            found = [int(step) for step in steps(function(seen))]
            message = b"+" + struct.pack(f"<{count}q", *found)
        except BaseException as problem:  # whatever foreign code raises is told to the parent, which tells nobody
            message = b"-" + f"{type(problem).__name__}: {problem}".encode("utf-8", "replace")[:_WORDS]
        os.write(write, message)
    finally:
        os._exit(0)


def _told(read: int, count: int, seconds: float) -> tuple[int, ...] | str:
    """What the child wrote before the time was over: all of its numbers, or the words of a failure up to their end."""
    held, most = b"", 1 + 8 * count
    end = time.monotonic() + seconds
    waiting = select.poll()
    waiting.register(read, select.POLLIN | select.POLLHUP)
    while True:
        left = end - time.monotonic()
        ready = waiting.poll(1000 * min(max(0.0, left), _LONGEST_WAIT))
        if not ready and left > _LONGEST_WAIT:
            continue
        more = os.read(read, max(_WORDS, most)) if ready else b""
        held += more
        if held[:1] == b"+" and len(held) >= most:
            return struct.unpack(f"<{count}q", held[1:most])
        if not more:
            if held[:1] == b"-":
                return held[1:].decode("utf-8", "replace")
            return "it ended its process" if ready else f"it did not end within {seconds:g} seconds"
