"""One Spark job: run in a thread of its own and watched by another, so that the caller's thread can be stopped.

Ctrl-C reaches the main thread wherever it is. In the middle of a call to Spark it would break the thread's connection,
and neither the call's error nor the cancelling after it could be trusted. So the caller's thread only waits.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any

from conspectus.data.fold import Tell
from conspectus.data.sources.origin import SourceError

CANNOT = "the Spark frame cannot be read to its end: check that its files are complete"
_LOOK = 0.2  # seconds between two looks at the job


def collected(frame: Any, tell: Tell | None) -> list[Any]:
    """The lines of a frame, which one job makes.

    Args:
        frame: The frame of lines.
        tell: Told how many tasks of the job are done; an error that it raises ends the job.

    Returns:
        The lines.

    Raises:
        SourceError: The job failed.
    """
    from pyspark import InheritableThread

    context = frame.sparkSession.sparkContext
    group = f"conspectus-{os.urandom(8).hex()}"  # found, and cancelled, by its name, whoever else uses the session
    found: list[list[Any]] = []
    seen = [(0, 0)]
    given_up = threading.Event()

    def run() -> None:
        with suppress(Exception):  # what Spark says may quote rows; without lines it has failed
            context.setJobGroup(group, "conspectus", interruptOnCancel=True)
            found.append(frame.collect())

    def watch() -> None:
        while job.is_alive():
            with suppress(Exception):  # a look that fails is made again
                if given_up.is_set():  # a job that was not there yet is cancelled when it is
                    context.cancelJobGroup(group)
                else:
                    seen[0] = _tasks(context, group)
            job.join(_LOOK)
        with suppress(Exception):
            seen[0] = _tasks(context, group)

    job = InheritableThread(target=run, daemon=True)
    job.start()
    watcher = InheritableThread(target=watch, daemon=True)
    watcher.start()
    told = 0
    try:
        while watcher.is_alive():
            watcher.join(_LOOK)
            done, total = seen[0]
            if tell is not None and told < done:
                told = done
                tell(done, total)
    finally:
        given_up.set()
        watcher.join()
    if not found:
        raise SourceError(CANNOT)
    return found[0]


def _tasks(context: Any, group: str) -> tuple[int, int]:
    """How many tasks of a group of jobs are done, and how many there are."""
    tracker = context.statusTracker()
    done = total = 0
    for number in tracker.getJobIdsForGroup(group):
        found = tracker.getJobInfo(number)
        for stage in () if found is None else found.stageIds:
            known = tracker.getStageInfo(stage)
            done += 0 if known is None else known.numCompletedTasks
            total += 0 if known is None else known.numTasks
    return done, total
