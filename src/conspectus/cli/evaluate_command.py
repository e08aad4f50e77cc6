"""`evaluate`: how far a release is from its table. For the owner of the table alone, and NOT PRIVATE."""

from __future__ import annotations

import math
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
class Placed:
    """One question that was found to have one of the largest counts. NOT PRIVATE."""

    question: str
    answered: float | None
    true: float
    largest: float


@dataclass(frozen=True)
class Choice:
    """Whether the questions that were found are those with the largest counts. NOT PRIVATE.

    `right` of them are: none that was left out has a larger count. `short` is by how much one of them, at worst, is
    below the largest count of its place; it was `promised`, with a `probability`, that this is not more.
    """

    winners: tuple[Placed, ...]
    right: int
    short: float
    promised: float
    probability: float


@dataclass(frozen=True)
class Evaluation:
    """What a release got right and wrong: exact errors, for the owner alone. NOT PRIVATE.

    Errors are those of the questions that were answered; None where none was.
    """

    rows: int
    questions: int
    answered: int
    mean: float | None
    largest: float | None
    within: float | None
    gamma: float
    intervals: int
    covered: float | None
    parts: tuple[Part, ...]
    worst: tuple[Miss, ...]
    of: str = "the rows"
    choice: Choice | None = None


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
    places = np.flatnonzero(~np.isnan(errors))
    known = errors[places]
    looked = places[np.unique(np.linspace(0, max(len(places) - 1, 0), min(len(places), MOST_ASKED)).astype(int))]
    kept = [_holds(release, place, float(true[place]), confidence) for place in looked.tolist()]
    held = [one for one in kept if one is not None]
    order = places[np.argsort(-known, kind="stable")[:worst]]
    return Evaluation(
        rows=rows,
        questions=len(workload),
        answered=len(places),
        mean=float(known.mean()) if len(known) else None,
        largest=float(known.max()) if len(known) else None,
        within=float(np.quantile(known, 1 - gamma)) if len(known) else None,
        gamma=gamma,
        intervals=len(held),
        covered=sum(held) / len(held) if held else None,
        parts=tuple(_parts(release, errors)),
        worst=tuple(
            Miss(_words(release, place), float(answered[place]), float(counts[place]), float(errors[place]))
            for place in order.tolist()
        ),
        of="the rows" if counted.all() else "what is possible",
        choice=_choice(release, answered, counts) if release.chooses else None,
    )


def _choice(release: Release, answered: Any, counts: Any) -> Choice:
    """The questions that were found beside the largest counts; equal questions count once, as they were looked at."""
    import numpy as np

    from conspectus.releases.winners import PROBABILITY

    same = release.workload.positions_in(release.workload.distinct())
    best = np.sort(counts[np.unique(same, return_index=True)[1]])[::-1][: len(release.winners)].tolist()
    winners = tuple(
        Placed(
            _words(release, place),
            None if np.isnan(answered[place]) else float(answered[place]),
            float(counts[place]),
            largest,
        )
        for place, largest in zip(release.winners, best)
    )
    return Choice(
        winners=winners,
        right=sum(one.true >= best[-1] for one in winners),
        short=max(0.0, *(one.largest - one.true for one in winners)),
        promised=release.parameters["within"],
        probability=PROBABILITY,
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
    import numpy as np

    workload, names = release.workload, release.schema.domain.names
    found = []
    for block, start, end in zip(workload.blocks, workload.offsets, workload.offsets[1:]):
        here = errors[start:end][~np.isnan(errors[start:end])]
        if len(here):
            read = ", ".join(names[c] for c in block.columns) or "the total"
            found.append(Part(read, len(here), float(here.mean()), float(here.max())))
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
    printing.line(NOT_PRIVATE)
    covered = "no answer has an interval"
    if found.covered is not None:
        covered = f"{found.covered:.1%} of {found.intervals:,} intervals of {confidence:.0%} hold the truth"
    some = f"; {found.answered:,} of them answered" if found.answered != found.questions else ""
    facts = [("questions", f"{found.questions:,}, about {found.rows:,} rows{some}")]
    if found.mean is not None:
        facts += [
            ("error", f"{found.mean:.5f} of {found.of} on average, {found.largest:.5f} at worst"),
            ("all but", f"{found.gamma:.0%} of the {'answers' if some else 'questions'} are within {found.within:.5f}"),
            ("intervals", covered),
        ]
    if found.choice is not None:
        printing.facts([*facts, *_choice_facts(found.choice)])
        _show_choice(found.choice)
        return
    printing.facts(facts)
    parts = [(p.columns, f"{p.questions:,}", f"{p.mean:.5f}", f"{p.largest:.5f}") for p in found.parts[:20]]
    printing.table(("columns", "questions", "mean error", "largest"), parts, right=(1, 2, 3))
    if found.worst:
        digits = 0 if found.of == "the rows" else 3
        lines = [
            (m.question, f"{m.answered:,.{max(digits, 1)}f}", f"{m.true:,.{digits}f}", f"{m.error:.5f}")
            for m in found.worst
        ]
        printing.table(("the worst questions", "answered", "true", "error"), lines, right=(1, 2, 3))


def _choice_facts(choice: Choice) -> list[tuple[str, str]]:
    kept = "which holds" if choice.short <= choice.promised else "which does not hold"
    return [
        ("winners", f"{choice.right:,} of {len(choice.winners):,} are truly among the largest {len(choice.winners):,}"),
        (
            "promise",
            f"at most {math.ceil(10 * choice.promised) / 10:,.1f} below the largest count of their place, with "
            f"probability {choice.probability:g}: {kept}, at worst they are {choice.short:,.0f} below",
        ),
    ]


def _show_choice(choice: Choice) -> None:
    lines = [
        (one.question, "not bought" if one.answered is None else f"{one.answered:,.1f}")
        + (f"{one.true:,.0f}", f"{one.largest:,.0f}")
        for one in choice.winners
    ]
    printing.table(("the winners", "answered", "true", "largest of its place"), lines, right=(1, 2, 3))
