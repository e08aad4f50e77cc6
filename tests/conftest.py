"""What all tests have in common."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")  # how long an example takes on a busy machine is no test


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """Some tests press Ctrl-C, which a shell lets its background jobs ignore: their passes would then never end."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
