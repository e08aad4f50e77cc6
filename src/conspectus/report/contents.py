"""The chapters about what was released: columns, pictures of the marginals, and how accurate the answers are."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from conspectus.privacy.guarantee import printed
from conspectus.queries.blocks.marginal import Marginal
from conspectus.releases.answer import standing_notes
from conspectus.releases.moments_inside import moments_table
from conspectus.releases.planning import share
from conspectus.releases.release import Release
from conspectus.synopses.fitting.max_entropy import CannotFit
from conspectus.synopses.fitting.rounding import CannotRound
from conspectus.synopses.synopsis import CannotAnswer

from . import associations, page
from .associations import association
from .pictures import MOST_BARS, MOST_SIDE, Bar, bars, heat_map

MOST_COLUMNS = 20
MOST_PAIRS = 66
MOST_VALUES = 8
MOST_RECORDS = 40
MOST_LISTED = 500
CONSISTENT = (
    "Counts are fitted to all answers together: they are whole, never negative, and agree with each other. Single "
    "answers are the plain noisy ones, and differ from them within the noise."
)
SIMULATED = (
    "Where the law of the noise does not contradict them, intervals are simulated: the mechanism was run again on "
    "tables drawn from this release, and its errors there, somewhat widened, are taken for its errors here."
)


def schema(release: Release) -> str:
    """The columns as they are published."""
    declared = release.schema
    rows = []
    for column in declared.columns[:MOST_LISTED]:
        labels = column.labels
        shown = ", ".join(labels[:MOST_VALUES])
        if len(labels) > MOST_VALUES:
            shown += f", … {labels[-1]}"
        rows.append((column.name, column.kind, f"{column.size:,}", shown))
    if (more := len(declared.columns) - MOST_LISTED) > 0:
        rows.append(("…", f"and {more:,} more", "", ""))
    widths = Counter(len(block.columns) for block in release.workload.blocks if isinstance(block, Marginal))
    marginals = ", ".join(_marginals(times, width) for width, times in sorted(widths.items()))
    loose = len(release.workload) - sum(len(b) for b in release.workload.blocks if isinstance(b, Marginal))
    single = f"{loose:,} single question{'s' if loose != 1 else ''}" if loose else ""
    asked = " and ".join(part for part in (marginals, single) if part)
    if release.left_out:
        asked = "the file does not list their questions, and answers others as well"
    return page.section(
        "What was released",
        page.paragraph(
            f"{_answers(release)}: {asked}. A unit of privacy is {_unit(release)}. "
            f"{''.join(f'{page.sentence(note)} ' for note in standing_notes(release.schema))}The columns and "
            "their values were declared by the owner of the table and are published with the release:"
        ),
        page.table(("column", "type", "values", "which"), rows, numbers=(2,)),
    )


def _answers(release: Release) -> str:
    """How many answers there are, or what was looked at where a few were found."""
    if release.chooses:
        return f"The largest counts among {release.questions:,} question{'s' if release.questions != 1 else ''}"
    return f"{release.answered:,} answer{'s' if release.answered != 1 else ''}"


def _rounded_up(fraction: float) -> str:
    """With four digits, never below what it is."""
    return f"{math.ceil(fraction * 10**4 - 1e-8) / 10**4:.4f}"


def _marginals(times: int, width: int) -> str:
    many = f"all cells of {times:,} marginals" if times > 1 else "all cells of one marginal"
    return f"{many} of {width} column{'s' if width > 1 else ''}"


def _unit(release: Release) -> str:
    unit = release.schema.unit
    return "one row" if unit.kind == "row" else f"everything that shares one {unit}"


def _typical(factor: float | None) -> str:
    """What an expected error is worth that is right within this factor."""
    within = "" if factor is None else f", right within ×{factor:g} in about nine of ten releases"
    return f"typical of the mechanism{within}; not promised"


def accuracy(release: Release) -> str:
    """Expected, proved and certified error, kept apart."""
    claim, held, rows = release.claim, release.certificate, release.total.divisor
    lines = []
    if claim is not None:
        mean, worst = claim.expected_mean / rows, claim.expected_max / rows
        lines.append(
            ("expected", f"{share(mean)} on average, {share(worst)} at worst", _typical(claim.expected_within))
        )
        if claim.bound is not None:
            bound = claim.bound
            worth = "which says nothing here" if bound.vacuous else f"with probability {bound.probability:g}"
            lines.append(
                (
                    "proved beforehand",
                    f"{bound.statistic} error at most {printed(bound.value, 4)}",
                    f"{worth}; {bound.theorem}",
                )
            )
    if held is not None:
        lines.append(
            (
                "certified afterwards",
                "nothing" if held.vacuous else f"maximum error at most {_rounded_up(held.bound)}",
                "for so few rows or so small a budget, its noise is larger than any error can be"
                if held.vacuous
                else f"except with probability {held.failure_probability:g}; measured privately, for {held.scope}",
            )
        )
    if held is not None and held.potential is not None:
        potential = held.potential
        size = f"{potential.inaccurate:,.0f} rows" if held.slip else f"{potential.inaccurate / rows:.4f}"
        within = f"every error at most {size}"
        lines.append(
            (
                "by boosting's weights",
                within if potential.holds else f"{within}: not proved",
                f"ln Z is at most {potential.upper:.2f}, and below 0 proves it, "
                f"except with probability {potential.failure_probability:g}; for {potential.scope}",
            )
        )
    if release.synopsis.all_measured and release.answered:
        lines.append(("intervals", "exact for every measured answer", "from the law of the noise that was added"))
    if release.synopsis.simulated_columns:
        lines.append(("intervals", "simulated, for answers and tables", SIMULATED))
    if release.counts_rows and (reach := release.synopsis.printed_within()) is not None:
        size = f"{_rounded_up(reach / rows)}" if release.total.exact else f"{math.ceil(reach):,} rows"
        sense = "with probability 0.95, for every count of the measured marginals; proved of the tables as they are"
        lines.append(("printed tables", f"maximum error at most {size}", sense))
    return page.section(
        "How accurate it is",
        page.paragraph(
            "Errors are fractions of the rows: 0.01 is one row in a hundred."
            if release.counts_rows
            else "Errors are on the scale of the functions, whose values lie between 0 and 1."
        ),
        page.table(("", "error", "in what sense"), lines),
    )


def pictures(release: Release) -> str:
    """One picture for each column, and the pairs of columns that hang together most."""
    figures = [_column(release, name) for name in release.schema.domain.names[:MOST_COLUMNS]]
    drawn = [figure for figure in figures if figure]
    left_out = len(release.schema.columns) - len(drawn)
    notes = [
        "Bars are published counts, whiskers their 95 % intervals. Pale bars, and pale cells without a number, are too "
        "noisy to print as numbers.",
        *([CONSISTENT] if release.synopsis.all_measured else []),
    ]
    if left_out:
        notes.append(f"{left_out:,} column{'s are' if left_out > 1 else ' is'} not drawn.")
    numbers = _numbers(release) if release.counts.moments else ""
    if not drawn:
        nothing = page.paragraph("This release holds no marginals that could be drawn.")
        return numbers or page.section("Pictures", nothing)
    pairs = [_pair(release, first, second) for first, second in _tied(release)]
    together = associations.matrix(release)
    if release.synopsis.simulated_columns:
        notes.append(SIMULATED)
    if together:
        notes.append(associations.NOTE)
    shown = page.section(
        "Pictures of the answers",
        page.paragraph(" ".join(notes), "note"),
        together,
        "".join(pairs),
        f'<div class="pictures">{"".join(drawn)}</div>',
    )
    return shown + numbers


def _numbers(release: Release) -> str:
    """The released sums, means, variances and covariances as pictures, and as a table."""
    made = moments_table(release.counts, 0.95)
    lines = made.to_pylist()[:MOST_LISTED]
    figures = []
    for number, group in itertools.groupby(lines, key=lambda line: line["number"]):
        drawn = [_number_bar(line) for line in group]
        if all(min(bar.count, bar.count if bar.low is None else bar.low) >= 0 for bar in drawn):
            figures.append(page.figure(number, bars(drawn, title=f"The {number}, by rows")))
    cells = [(line["number"], line["rows"], *(_short(line[end]) for end in ("value", "low", "high"))) for line in lines]
    return page.section(
        "Numbers that were released",
        page.paragraph("Whiskers and ends are 95 % intervals. " + " ".join(map(page.sentence, made.notes)), "note"),
        f'<div class="pictures">{"".join(figures)}</div>' if figures else "",
        page.table(("number", "of the rows with", "value", "at least", "at most"), cells, numbers=(2, 3, 4)),
    )


def _number_bar(line: dict[str, Any]) -> Bar:
    value, low, high = line["value"], line["low"], line["high"]
    noisy = low is None or high is None or high - low > abs(value)
    return Bar(label=line["rows"], count=value, low=low, high=high, noisy=noisy, words=_short(value))


def _short(value: float | None) -> str:
    return "none" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _column(release: Release, name: str) -> str:
    column = release.schema.column(name)
    if release.synopsis.listed() is not None:
        return _records(release, name)
    if column.size > MOST_BARS:
        return ""
    try:
        made = release.table([name]).to_pydict()
    except (CannotAnswer, CannotFit, CannotRound):
        return ""
    shown = _bars(made, list(column.labels))
    return page.figure(name, bars(shown, title=f"Counts of {name}", standing=column.ordered and len(shown) > 6))


def _records(release: Release, name: str) -> str:
    """The published records with the highest counts."""
    made = release.table([name])
    highest = np.argsort(-made["count"].to_numpy(), kind="stable")[:MOST_RECORDS]
    first = made.take(highest).to_pydict()
    if not first[name]:
        return ""
    labels = [value if isinstance(value, str) else "missing" if value is None else repr(value) for value in first[name]]
    shown = _bars(first, labels)
    more = made.num_rows - len(shown)
    title = f"{name}: {len(shown)} published records" + (f", and {more:,} with lower counts" if more else "")
    return page.figure(title, bars(shown, title=f"Counts of {name}"))


def _bars(made: dict[str, list[Any]], labels: list[str]) -> list[Bar]:
    """The lines of a printed table, with these labels."""
    counts = zip(labels, made["count"], made["low"], made["high"], made["too_noisy"])
    return [Bar(label=label, count=n, low=low, high=high, noisy=noisy) for label, n, low, high, noisy in counts]


def _tied(release: Release) -> list[tuple[str, str]]:
    """Two pairs of columns that depend on each other most, as the synopsis shows it; post-processing alone."""
    found: list[tuple[float, tuple[str, str]]] = []
    for first, second in itertools.islice(_pairs(release), MOST_PAIRS):
        if (tied := association(release, first, second)) is not None:
            found.append((tied, (first, second)))
    best = sorted(found, key=lambda item: -item[0])[:2]
    return [pair for _, pair in best]


def _pairs(release: Release) -> Iterator[tuple[str, str]]:
    """Pairs of columns that a released marginal covers and a page can hold."""
    names, sizes = release.schema.domain.names, release.schema.domain.sizes
    covered = {
        pair
        for block in release.workload.blocks
        if isinstance(block, Marginal)
        for pair in itertools.combinations(sorted(block.columns), 2)
    }
    for first, second in sorted(covered):
        if max(sizes[first], sizes[second]) <= MOST_SIDE:
            yield names[first], names[second]


def _pair(release: Release, first: str, second: str) -> str:
    sizes = release.schema.column(first).size, release.schema.column(second).size
    if sizes[1] < sizes[0] and sizes[0] > 8:
        first, second = second, first
    try:
        made = release.table([first, second]).to_pydict()
    except (CannotAnswer, CannotFit, CannotRound):
        return ""
    rows, columns = release.schema.column(first).labels, release.schema.column(second).labels
    labels = [f"{row}, {column}" for row in rows for column in columns]
    drawn = _bars(made, labels)
    cells = [drawn[start : start + len(columns)] for start in range(0, len(drawn), len(columns))]
    title = f"{first} (down) by {second} (across)"
    return page.figure(title, heat_map(cells, rows=rows, columns=columns, title=title), wide=True)
