"""What the service writes down: one JSON object a line. No question, no answer, no token, no address is ever in it."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from datetime import UTC, datetime
from typing import Any

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Journal:
    """A log of events with their public fields, on the error stream."""

    def __init__(self, who: str, level: str = "info") -> None:
        self.who = who
        self._least = LEVELS[level]

    def say(self, event: str, level: str = "info", **fields: Any) -> None:
        """One line."""
        if LEVELS[level] >= self._least:
            now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
            line = {"time": now, "level": level, "from": self.who, "pid": os.getpid(), "event": event, **fields}
            # One write a line: several processes share the stream.
            sys.stderr.write(json.dumps(line, ensure_ascii=True, default=str) + "\n")
            sys.stderr.flush()

    def fault(self, error: BaseException, **fields: Any) -> None:
        """An error that is no refusal: its kind and where it came from. Its text may quote what was read, and is left
        out."""
        frames = traceback.extract_tb(error.__traceback__)
        where = [f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in frames[-4:]]
        self.say("fault", level="error", kind=type(error).__name__, where=where, **fields)


class Quiet(logging.Handler):
    """Other libraries' messages by their level and place alone: their texts may hold addresses."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.WARNING)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        where = f"{record.name}:{record.lineno}"
        self._journal.say("library", level="warning", where=where, severity=record.levelname.lower())


def take_over(journal: Journal) -> None:
    """Let nothing but the journal write to the log."""
    root = logging.getLogger()
    root.handlers[:] = [Quiet(journal)]
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
