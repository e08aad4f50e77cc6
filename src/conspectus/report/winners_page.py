"""The chapter about the largest counts: which questions have them, and how far from the largest they may be."""

from __future__ import annotations

import math

from conspectus.releases.answer import standing_notes
from conspectus.releases.release import Release
from conspectus.releases.tables import TOO_NOISY
from conspectus.releases.winners import PROBABILITY, Winner, found

from . import page
from .contents import MOST_LISTED
from .pictures import Bar, bars


def winners(release: Release) -> str:
    """The questions that were found, in the order in which they were, with counts and intervals where these exist."""
    known = found(release, 0.95)
    lines = [(str(place), one.question, one.counted, one.between) for place, one in enumerate(known[:MOST_LISTED], 1)]
    if (more := len(known) - len(lines)) > 0:
        lines.append(("…", f"and {more:,} more", "", ""))
    within = f"{math.ceil(10 * release.parameters['within']) / 10:,.1f}"
    promised = (
        f"With probability {PROBABILITY:g} the count of each is at most {within} below the largest one of its place: "
        "the first below the largest, the second below the second largest, and so on."
    )
    notes = [page.sentence(note) for note in standing_notes(release.schema)]
    if release.parameters["counts"]:
        notes.insert(0, "Counts were measured afresh, once the questions had been found; whiskers are their intervals.")
    return page.section(
        "The largest counts",
        page.paragraph(promised),
        _picture(known),
        page.table(("place", "question", "count", "95 % interval"), lines, numbers=(0, 2)),
        page.paragraph(" ".join(notes), "note") if notes else "",
    )


def _picture(known: list[Winner]) -> str:
    """The counts as bars; nothing where there are none, or noise took one below zero."""
    drawn = [
        Bar(label=one.question, count=one.count, low=one.low, high=one.high, noisy=_noisy(one))
        for one in known
        if one.count is not None
    ]
    if any(min(bar.count, bar.count if bar.low is None else bar.low) < 0 for bar in drawn):
        return ""
    return page.figure("Counts of the questions that were found", bars(drawn, title="The largest counts"), wide=True)


def _noisy(one: Winner) -> bool:
    """Whether the interval is wide beside the count, as in printed tables."""
    if one.count is None or one.low is None or one.high is None:
        return True
    return one.high - one.low > 2 * TOO_NOISY * max(one.count, 1.0)
