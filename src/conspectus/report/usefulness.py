"""What a release is good for: which tables are sharp, which are rough, and which are noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.moments import Moment
from conspectus.queries.builders.marginals import marginal
from conspectus.queries.query import Sparse
from conspectus.queries.sensitivity import WorkloadError
from conspectus.releases.moments_inside import moments_table
from conspectus.releases.release import Release
from conspectus.releases.winners import question_words
from conspectus.synopses.fitting.max_entropy import CannotFit
from conspectus.synopses.synopsis import CannotAnswer

from . import page

MOST_TABLES = 80
"""How many tables are looked at."""

MOST_NUMBERS = 500
"""How many sums and means are looked at."""

MOST_QUESTIONS = 2000
"""How many single questions are asked."""

SHARP, ROUGH = 0.05, 0.5
"""The interval of a typical row's cell reaches so far from its count: below the first a table is sharp, beyond the
second it is noise."""

_MOST_NAMED = 8

Columns = tuple[int, ...]


def good_for(release: Release) -> str:
    """A few lines that say for what the release can be used."""
    if not release.counts_rows:
        return ""
    kinds: dict[str, list[str]] = {"sharp": [], "rough": [], "noise": [], "unknown": []}
    judged = {columns: _reach(release, columns) for columns in _tables(release)}
    questions, covered = _questions(release, judged)
    for columns, reach in judged.items():
        if reach is not None or columns not in covered:
            kinds[_kind(reach)].append(" × ".join(release.schema.domain.names[c] for c in columns))
    words = {
        "sharp": f"Good to within {SHARP:.0%} of a count, for the cells that most people are in",
        "rough": "Good for orders of magnitude and comparisons of large groups",
        "noise": "Noise: do not use these tables cell by cell, sum them up first",
        "unknown": "Without an interval: nothing is promised about these",
    }
    said = [f"{words[kind]}: {_named(names)}." for kind, names in kinds.items() if names]
    said += questions + _numbers(release)
    if not said:
        return ""
    return page.section(
        "What it is good for",
        page.bullets(said),
        page.paragraph(
            "A table is judged by the 95 % interval of the cell that an average row is in, as a share of its count, "
            "and a single question by its own: from the release alone.",
            "note",
        ),
    )


def _questions(release: Release, judged: dict[Columns, float | None]) -> tuple[list[str], set[Columns]]:
    """Of released questions that no table tells of: which of them say something, and of which tables they tell.

    A table that cannot be judged as a whole may have cells that were measured, and a column single questions. Where
    there are too many questions to ask, nothing is said of the tables that they are about.
    """
    workload, covered, left = release.workload, set[Columns](), MOST_QUESTIONS
    kinds: dict[str, dict[str, None]] = {"sharp": {}, "rough": {}, "noise": {}, "unknown": {}}
    for block, start in zip(workload.blocks, workload.offsets):
        if isinstance(block, Marginal) and judged.get(block.columns) is not None:
            continue
        places = start + np.flatnonzero(np.isfinite(release.answers[start : start + len(block)]))
        if len(places) > left:
            covered |= {columns for columns in judged if set(columns) <= set(block.columns)}
        for place in places[:left].tolist():
            query, reach = workload.query(place), _reach_of_one(release, place)
            if reach is None:
                continue
            read = set(block.columns if isinstance(query, Sparse) else query.columns)
            covered |= {columns for columns in judged if set(columns) <= read}
            if not isinstance(query, Moment):
                kinds[_kind(reach)][question_words(release.schema, query, place)] = None
        left -= min(left, len(places))
    words = {
        "sharp": f"Single questions that are good to within {SHARP:.0%} of their answers",
        "rough": "Single questions that are good for orders of magnitude",
        "noise": "Single questions whose answers are noise: do not use them",
    }
    return [f"{words[kind]}: {_named(list(names))}." for kind, names in kinds.items() if names], covered


def _reach_of_one(release: Release, place: int) -> float | None:
    """How far the interval of a released question reaches, as a share of its answer; None where it has none."""
    try:
        answer = release.ask(release.workload[place : place + 1])
    except (CannotAnswer, CannotFit):
        return None
    if answer.low is None or answer.high is None:
        return None
    size = abs(answer.fraction if answer.value is None else answer.value)
    return (answer.high - answer.low) / 2 / max(size, 1 / release.total.divisor)


def _numbers(release: Release) -> list[str]:
    """Of sums, means, variances and covariances that were released: which of them say something."""
    if not release.counts.moments:
        return []
    kinds: dict[str, dict[str, None]] = {"sharp": {}, "rough": {}, "noise": {}, "unknown": {}}
    for line in moments_table(release.counts, 0.95).to_pylist()[:MOST_NUMBERS]:
        known = None not in (line["low"], line["high"])
        reach = (line["high"] - line["low"]) / 2 / max(abs(line["value"]), 1e-9) if known else None
        kinds[_kind(reach)][f"{line['number']} ({line['rows']})"] = None
    words = {
        "sharp": f"Numbers that are good to within {SHARP:.0%} of themselves",
        "rough": "Numbers that are good for comparisons of large differences",
        "noise": "Numbers that are noise: do not use them",
        "unknown": "Numbers without an interval: nothing is promised about these",
    }
    return [f"{words[kind]}: {_named(list(names))}." for kind, names in kinds.items() if names]


def _kind(reach: float | None) -> str:
    return "unknown" if reach is None else "sharp" if reach <= SHARP else "rough" if reach <= ROUGH else "noise"


def _tables(release: Release) -> list[Columns]:
    """The marginals that were released, or else every column that can be asked about, unless numbers were released."""
    asked = [b.columns for b in release.workload.blocks if isinstance(b, Marginal) and b.columns]
    alone: list[Columns] = [] if release.counts.moments else [(c,) for c in release.workload.columns]
    return (list(dict.fromkeys(asked)) or alone)[:MOST_TABLES]


def _reach(release: Release, columns: Columns) -> float | None:
    """How far the interval of the cell of an average row reaches, as a share of its count; None where that is not known
    of all cells together."""
    try:
        cells = marginal(release.schema, [release.schema.domain.names[c] for c in columns])
        low, high = release.synopsis.intervals(cells, 0.95, release.evidence)
        counts = np.maximum(release.synopsis.answer(cells), 0) * release.total.divisor
    except (CannotAnswer, CannotFit, WorkloadError):  # records of any kind cannot be listed
        return None
    if np.isnan(low).any():
        return None
    if counts.sum() <= 0:
        return math.inf
    typical = float(np.square(counts).sum() / counts.sum())  # the mean count, over rows, of the cell that a row is in
    return float(np.mean(high - low)) / 2 / max(typical, 1.0)


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
