"""What all tests have in common."""

from __future__ import annotations

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """Some tests press Ctrl-C, which a shell lets its background jobs ignore: their passes would then never end."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
