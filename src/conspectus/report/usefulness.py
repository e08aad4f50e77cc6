"""What a release is good for: which tables are sharp, which are rough, and which are noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.builders.marginals import marginal
from conspectus.queries.sensitivity import WorkloadError
from conspectus.releases.moments_inside import moments_table
from conspectus.releases.release import Release
from conspectus.synopses.fitting.max_entropy import CannotFit
from conspectus.synopses.synopsis import CannotAnswer

from . import page

MOST_TABLES = 80
"""How many tables are looked at."""

MOST_NUMBERS = 500
"""How many sums and means are looked at."""

SHARP, ROUGH = 0.05, 0.5
"""The interval of a typical row's cell reaches so far from its count: below the first a table is sharp, beyond the
second it is noise."""

_MOST_NAMED = 8


def good_for(release: Release) -> str:
    """A few lines that say for what the release can be used."""
    if not release.counts_rows:
        return ""
    kinds: dict[str, list[str]] = {"sharp": [], "rough": [], "noise": [], "unknown": []}
    for columns in _tables(release):
        kinds[_kind(_reach(release, columns))].append(" × ".join(columns))
    words = {
        "sharp": f"Good to within {SHARP:.0%} of a count, for the cells that most people are in",
        "rough": "Good for orders of magnitude and comparisons of large groups",
        "noise": "Noise: do not use these tables cell by cell, sum them up first",
        "unknown": "Without an interval: nothing is promised about these",
    }
    said = [f"{words[kind]}: {_named(names)}." for kind, names in kinds.items() if names]
    said += _numbers(release)
    if not said:
        return ""
    return page.section(
        "What it is good for",
        page.bullets(said),
        page.paragraph(
            "A table is judged by the 95 % interval of the cell that an average row is in, as a share of its count: "
            "from the release alone.",
            "note",
        ),
    )


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


def _tables(release: Release) -> list[tuple[str, ...]]:
    """The marginals that were released, or else every column that can be asked about, unless numbers were released."""
    names = release.schema.domain.names
    asked = [b.columns for b in release.workload.blocks if isinstance(b, Marginal) and b.columns]
    alone = [] if release.counts.moments else [(c,) for c in release.workload.columns]
    chosen = list(dict.fromkeys(asked)) or alone
    return [tuple(names[c] for c in columns) for columns in chosen[:MOST_TABLES]]


def _reach(release: Release, columns: Sequence[str]) -> float | None:
    """How far the interval of the cell of an average row reaches, as a share of its count; None where it has none."""
    try:
        cells = marginal(release.schema, columns)
        low, high = release.synopsis.intervals(cells, 0.95, release.evidence)
        counts = np.maximum(release.synopsis.answer(cells), 0) * release.total.divisor
    except (CannotAnswer, CannotFit, WorkloadError):  # records of any kind cannot be listed
        return None
    if np.isnan(low).any() or counts.sum() <= 0:
        return None
    typical = float(np.square(counts).sum() / counts.sum())  # the mean count, over rows, of the cell that a row is in
    return float(np.mean(high - low)) / 2 / max(typical, 1.0)


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
