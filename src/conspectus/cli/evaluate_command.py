"""`evaluate`: how far a release is from its table. For the owner of the table alone, and NOT PRIVATE."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

import conspectus as cs

from . import options, printing
from .schema_commands import NOT_PRIVATE

if TYPE_CHECKING:
    from conspectus.releases.release import Release

MOST_ASKED = 2_000
"""How many intervals are looked at, evenly over the workload."""


@dataclass(frozen=True)
class Part:
    """The errors of one marginal, of the single questions, or of numbers such as means: as shares of what is possible,
    which for counts is all rows, and for a mean the range of its column. NOT PRIVATE."""

    columns: str
    questions: int
    mean: float
    largest: float


@dataclass(frozen=True)
class Miss:
    """One question with a large error. NOT PRIVATE."""

    question: str
    answered: float
    true: float
    error: float


@dataclass(frozen=True)
class Evaluation:
    """What a release got right and wrong: exact errors, for the owner alone. NOT PRIVATE."""

    rows: int
    questions: int
    mean: float
    largest: float
    within: float
    gamma: float
    intervals: int
    covered: float | None
    parts: tuple[Part, ...]
    worst: tuple[Miss, ...]
    of: str = "the rows"


def evaluate(
    out: options.Stored,
    data: options.Data,
    gamma: Annotated[
        float, typer.Option("--gamma", metavar="G", min=0.0, max=1.0, help="All but this share of questions.")
    ] = 0.05,
    confidence: options.Confidence = 0.95,
    worst: Annotated[int, typer.Option("--worst", metavar="N", min=0, help="How many of the worst to show.")] = 10,
    as_json: options.Json = False,
) -> None:
    """Compare a release with its table: errors by marginal, the worst ones, how often intervals hold. NOT PRIVATE:
    what is printed is exact, and for the owner of the table alone."""
    from conspectus.releases.answer import checked_confidence

    checked_confidence(confidence)
    release = cs.load(out)
    with cs.open_table(data, release.schema) as table:
        found = evaluated(release, table, gamma=gamma, confidence=confidence, worst=worst)
    if as_json:
        printing.as_json({"private": False, **asdict(found)})
    else:
        _show(found, confidence)


def evaluated(release: Release, table: Any, *, gamma: float, confidence: float, worst: int) -> Evaluation:
    """The exact errors of a release. NOT PRIVATE."""
    import numpy as np

    from conspectus.curator.truth import Truth
    from conspectus.queries.blocks.moments import Moment
    from conspectus.queries.query import Parity, Predicate
    from conspectus.releases.numbers_from_parts import derived_answers
    from conspectus.synopses.synopsis import Total

    workload = release.workload
    if release.left_out:
        raise options.OptionError("this release lists no questions to compare: save it with them")
    queries = list(workload.queries())
    if not release.counts_rows or not all(isinstance(q, Predicate | Parity | Moment) for q in queries):
        raise options.OptionError(
            "evaluate compares counts of rows, sums, means, variances and covariances with the table: this release "
            "answers other questions, too, for which conspectus ask gives intervals"
        )
    truth = Truth.of(table)
    rows = max(truth.rows(), 1)
    measured = workload.measured(total_known=True)
    shares = truth.counts(measured) / (measured.grid * rows)
    true = derived_answers(workload, shares, Total(value=float(rows), exact=True))
    possible = np.array([_possible(query, rows) for query in queries])
    counted = np.array([not isinstance(query, Moment) for query in queries])
    counts = np.where(counted, true * rows, true)
    answered = np.where(counted, release.answers * release.total.divisor, release.answers)
    errors = np.abs(answered - counts) / possible
    asked = np.unique(np.linspace(0, len(workload) - 1, min(len(workload), MOST_ASKED)).astype(int))
    held = [_holds(release, place, float(true[place]), confidence) for place in asked.tolist()]
    known = [one for one in held if one is not None]
    order = np.argsort(-errors, kind="stable")[:worst]
    return Evaluation(
        rows=rows,
        questions=len(workload),
        mean=float(errors.mean()),
        largest=float(errors.max()),
        within=float(np.quantile(errors, 1 - gamma)),
        gamma=gamma,
        intervals=len(known),
        covered=sum(known) / len(known) if known else None,
        parts=tuple(_parts(release, errors)),
        worst=tuple(
            Miss(_words(release, place), float(answered[place]), float(counts[place]), float(errors[place]))
            for place in order.tolist()
        ),
        of="the rows" if counted.all() else "what is possible",
    )


def _possible(query: Any, rows: int) -> float:
    """How far two answers to a query can be apart: all rows, or the range of a mean, a sum and the like."""
    from conspectus.queries.blocks.moments import Moment
    from conspectus.synopses.moment_estimates import range_of

    if not isinstance(query, Moment):
        return float(rows)
    if query.kind == "sum":
        low, high = (rows * end for end in (min(query.numbers[0].low, 0.0), max(query.numbers[0].high, 0.0)))
    else:
        low, high = range_of(query)
    return max(high - low, 1e-300)


def _holds(release: Release, place: int, true: float, confidence: float) -> bool | None:
    answer = release.ask(release.workload[place], confidence=confidence)
    if answer.value is not None and release.within is not None:
        return None  # of the values inside bins, which are not those that are compared here
    return None if answer.low is None or answer.high is None else bool(answer.low <= true <= answer.high)


def _parts(release: Release, errors: Any) -> list[Part]:
    """The errors of each block, the worst first."""
    workload, names = release.workload, release.schema.domain.names
    found = []
    for block, start, end in zip(workload.blocks, workload.offsets, workload.offsets[1:]):
        if end > start:
            here = errors[start:end]
            read = ", ".join(names[c] for c in block.columns) or "the total"
            found.append(Part(read, end - start, float(here.mean()), float(here.max())))
    return sorted(found, key=lambda part: -part.largest)


def _words(release: Release, place: int) -> str:
    from conspectus.queries.blocks.moments import Moment
    from conspectus.queries.language.to_sql import to_sql

    asked = release.workload.query(place)
    if isinstance(asked, Moment):
        what = " and ".join(release.schema.domain.names[axis.column] for axis in asked.numbers)
        return f"{asked.kind} of {what} where {to_sql(release.schema, asked.given)}"
    try:
        return to_sql(release.schema, asked)
    except ValueError:
        return f"question {place}"


def _show(found: Evaluation, confidence: float) -> None:
    print(NOT_PRIVATE)
    covered = "no answer has an interval"
    if found.covered is not None:
        covered = f"{found.covered:.1%} of {found.intervals:,} intervals of {confidence:.0%} hold the truth"
    printing.facts(
        [
            ("questions", f"{found.questions:,}, about {found.rows:,} rows"),
            ("error", f"{found.mean:.5f} of {found.of} on average, {found.largest:.5f} at worst"),
            ("all but", f"{found.gamma:.0%} of the questions are within {found.within:.5f}"),
            ("intervals", covered),
        ]
    )
    parts = [(p.columns, f"{p.questions:,}", f"{p.mean:.5f}", f"{p.largest:.5f}") for p in found.parts[:20]]
    printing.table(("columns", "questions", "mean error", "largest"), parts, right=(1, 2, 3))
    if found.worst:
        digits = 0 if found.of == "the rows" else 3
        lines = [
            (m.question, f"{m.answered:,.{max(digits, 1)}f}", f"{m.true:,.{digits}f}", f"{m.error:.5f}")
            for m in found.worst
        ]
        printing.table(("the worst questions", "answered", "true", "error"), lines, right=(1, 2, 3))
