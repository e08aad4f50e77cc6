"""Machine code from Python, and the processors to run it on: the one place that knows numba's settings.

`parallel=True` is never used: its run-time layers crash after a fork and under threads. Kernels release the
interpreter's lock, and threads of ours run them.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any, TypeVar, cast, overload

from threadpoolctl import ThreadpoolController

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
        return functools.partial(compiled, inline=inline)

    def make() -> Any:
        from numba import njit

        inlined = "always" if inline else "never"
        try:
            return njit(nogil=True, cache=True, inline=inlined)(function)
        except RuntimeError:  # numba: "cannot cache function: no locator available"
            return njit(nogil=True, inline=inlined)(function)

    return _Kernel(function, make)


def at_once(kernel: Function, /) -> Function:
    """A kernel for little work: as Python where nobody has compiled it yet. Its numbers are the same."""
    return cast(Function, kernel._function) if isinstance(kernel, _Kernel) and kernel._made is None else kernel


def intrinsic(function: Callable[..., Any], /) -> Any:
    """A function that writes machine code itself, for kernels to call."""

    def make() -> Any:
        from numba import extending

        return extending.intrinsic(function)

    return _Kernel(function, make)


class _Kernel:
    """A function that is handed to numba when it is first called.

    Importing numba takes half a second, and whoever asks a published file for one number calls no kernel.
    """

    _lock = threading.RLock()

    def __init__(self, function: Callable[..., Any], make: Callable[[], Any]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._make = function, make
        self._made: Any = None

    def __call__(self, *args: Any) -> Any:
        return (self._made or self.made())(*args)

    def made(self) -> Any:
        """What numba makes of the function and of the kernels that it calls, which numba finds under their names."""
        with self._lock:
            if self._made is None:
                made, names = self._make(), self._function.__globals__
                for name in _names(self._function.__code__):
                    if isinstance(kernel := names.get(name), _Kernel):
                        names[name] = made if kernel is self else kernel.made()
                self._made = made
            return self._made


def _names(code: CodeType) -> Iterator[str]:
    """The global names that a function speaks of, and those inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def processors() -> int:
    """The processors that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Products of matrices on the calling thread alone, while this lasts.

    Products of small matrices lose more by handing out work than they gain, the more so on a busy machine. And sums
    then have one order, whatever number of processors there is. The limit is the process's: whoever has threads that
    make products enters it before they start.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _libraries() -> ThreadpoolController:
    """The libraries that make products, looked for once: that takes milliseconds."""
    return ThreadpoolController()
