"""Ctrl-C, told from a `KeyboardInterrupt` that foreign code raised.

Objects in a frame and functions of the table run code of their own on private rows. What they raise must not get out:
that a run ended early would be an exact answer for free. But whoever sits at the keyboard may stop a run. Only the
system's signal is Ctrl-C, and the main thread alone receives it. Code that sends itself the signal, or ends the
process, is as far outside what can be promised as code that writes a file.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_watches: list[bool] = []
"""One for each `attentive` that runs in the main thread: whether Ctrl-C was pressed since it began."""


@contextmanager
def attentive() -> Iterator[None]:
    """While foreign code may run, note whether Ctrl-C is pressed. If it was, end with `KeyboardInterrupt`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        _watches[:] = [True] * len(_watches)
        if callable(before):
            before(number, frame)

    _watches.append(False)
    heard = callable(before)  # in the background of a shell the system ignores Ctrl-C, and Python never hears of it
    if heard:
        signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if heard:
            signal.signal(signal.SIGINT, before)
        if _watches.pop():
            raise KeyboardInterrupt from None  # an error that came of it, such as a broken connection, is not the news


def pressed() -> bool:
    """Whether a `KeyboardInterrupt` here is Ctrl-C. Where nobody watches it may be, and counts as such."""
    if threading.current_thread() is not threading.main_thread():
        return False
    return _watches[-1] if _watches else True
