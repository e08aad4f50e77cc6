"""One Spark job: run beside this thread, which watches it, tells how far it is, and cancels it when it is given up."""

from __future__ import annotations

import os
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

    def run() -> None:
        with suppress(Exception):  # what Spark says may quote rows; without lines it has failed
            context.setJobGroup(group, "conspectus", interruptOnCancel=True)
            found.append(frame.collect())

    job = InheritableThread(target=run, daemon=True)
    job.start()
    told = 0
    try:
        while job.is_alive():
            job.join(_LOOK)
            done, total = _tasks(context, group)
            if tell is not None and told < done:
                told = done
                tell(done, total)
    finally:
        while job.is_alive():  # given up: a job that was not there yet is cancelled when it is
            context.cancelJobGroup(group)
            job.join(_LOOK)
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
