"""What all tests have in common."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings
from tests import lines_run

WATCHED = lines_run.watch() if os.environ.get("LINES_RUN") else None
"""The lines that `make test` asks about; before any test module imports them."""

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")  # how long an example takes on a busy machine is no test


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """Some tests press Ctrl-C, which a shell lets its background jobs ignore: their passes would then never end."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What is loaded now stays; the garbage collector need not look through all of it again and again."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    gc.unfreeze()  # libraries look for what is left at the end
    if WATCHED is not None:
        WATCHED.write(session.config.rootpath / f".coverage.{os.getpid()}")
