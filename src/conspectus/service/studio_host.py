"""Runs the studio in this process, at the loopback, until its owner stops it."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from conspectus.privacy.ledger.ledger import Ledger

from .homes.threads import end_soon
from .journal import Journal, take_over
from .shelf import FolderError, checked_folder
from .studio import Studio, studio_application
from .supervisor import listening_at
from .worker import Impatient, web_server


class Uploads(Impatient):
    """The same for the owner alone, who may send a file: the gate counts its bytes."""

    longest = sys.maxsize


def run_studio(
    *, data: Path | None, folder: Path, ledger: Path | None, port: int, ready: Callable[[str], None]
) -> None:
    """Serve the studio. `ready` is told the address, with the secret in its fragment, which no browser sends."""
    if data is not None and not data.is_file():
        raise FolderError(f"there is no file {data}: name a .csv, .csv.gz or .parquet file, or drop one onto the page")
    if ledger is not None:
        Ledger.open(ledger)  # refused before the page is shown
    secret = base64.urlsafe_b64encode(os.urandom(24)).decode()
    take_over(Journal("studio", "warning"))
    with tempfile.TemporaryDirectory(prefix="conspectus-studio-") as uploads:
        studio = Studio(secret=secret, folder=checked_folder(folder), uploads=Path(uploads), data=data, ledger=ledger)
        listening = listening_at("127.0.0.1", port)
        server = web_server(studio_application(studio), Uploads, timeout_graceful_shutdown=2)

        async def serve() -> None:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, lambda: setattr(server, "should_exit", True))
            ready(f"http://127.0.0.1:{listening.getsockname()[1]}/#{secret}")
            await server.serve(sockets=[listening])

        asyncio.run(serve())
        studio.queue.close()
    if studio.queue.at_work:
        end_soon()  # a plan that takes long, and nobody waits for it
