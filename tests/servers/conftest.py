"""One server for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .postgres_server import Server, running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running() as made:
        yield made
