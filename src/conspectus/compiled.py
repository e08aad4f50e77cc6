"""Machine code from Python, and the processors to run it on: the one place that knows numba's settings.

`parallel=True` is never used: its run-time layers crash after a fork and under threads. Kernels release the
interpreter's lock, and threads of ours run them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, overload

from numba import njit
from threadpoolctl import threadpool_limits

Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def compiled(function: Function, /) -> Function: ...


@overload
def compiled(*, inline: bool) -> Callable[[Function], Function]: ...


def compiled(function: Any = None, /, *, inline: bool = False) -> Any:
    """Machine code at the first call, kept on disk where that is possible; runs without the interpreter's lock.

    A read-only installation without a home directory has nowhere to keep it. The function is then compiled anew in
    every process: slower to start, and the same otherwise. `inline=True` writes the code into every caller.
    """
    if function is None:
        return partial(compiled, inline=inline)
    inlined = "always" if inline else "never"
    try:
        return njit(nogil=True, cache=True, inline=inlined)(function)
    except RuntimeError:  # numba: "cannot cache function: no locator available"
        return njit(nogil=True, inline=inlined)(function)


def processors() -> int:
    """The processors that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Products of matrices on the calling thread alone, while this lasts.

    Products of small matrices lose more by handing out work than they gain, the more so on a busy machine. And sums
    then have one order, whatever number of processors there is.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        yield
