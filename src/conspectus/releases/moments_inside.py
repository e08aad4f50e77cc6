"""Sums, means, variances and covariances of columns in bins, where it was bought how values lie inside them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.queries.blocks.moments import Moment, Moments
from conspectus.queries.formulas import all_of, any_box, literal, predicate
from conspectus.queries.language.select_plan import Measure
from conspectus.queries.language.to_sql import to_sql
from conspectus.queries.language.unanswerable import CannotQuery
from conspectus.queries.workload import Workload
from conspectus.synopses.moment_estimates import MomentEstimate
from conspectus.synopses.synopsis import CannotAnswer
from conspectus.tabular import ResultTable

from .answer import Answer, standing_notes, value_answer
from .numbers_from_parts import middle_notes, moment_answer, one_value_each
from .released_counts import ReleasedCounts
from .selects.selecting import measured_alone


def answer_moment(source: ReleasedCounts, moment: Moment, confidence: float) -> Answer:
    """A moment with its interval: of the values themselves where that was bought, else with bins by their middles.

    A moment that was not released by itself is the one that a SELECT finds, from the same cells: one question has one
    answer. Cells do not speak of bins by their middles, and parts are taken where cells have no interval.
    """
    inside = moment_inside(source, moment, confidence)
    if inside is not None:
        return inside
    if (said := source.moment_said(moment, 1 - confidence)) is not None:
        return value_answer(said, source.total, confidence, middle_notes(source.schema, moment))
    parts = partial(moment_answer, source.schema, source.synopsis, source.evidence, moment, confidence)
    cells = partial(_from_cells, source, moment, confidence)
    if not one_value_each(source.schema, moment):
        return parts()
    first, second = (parts, cells) if moment in source.moments else (cells, parts)
    found = first()
    if found is None or found.low is None:
        other = second()
        found = other if found is None or (other is not None and other.low is not None) else found
    assert found is not None
    return replace(found, notes=(*source.partial, *standing_notes(source.schema)))


def moment_inside(source: ReleasedCounts, moment: Moment, confidence: float) -> Answer | None:
    """A moment of the values themselves; None where nothing is known inside the bins, or the bins are not counted.

    Bins by their own are exact but for noise. Of groups by other columns the mean inside a bin is that of all its rows,
    and the interval counts that a group may lie anywhere in it.
    """
    if source.within is None or all(source.within.values(axis.column) is None for axis in moment.numbers):
        return None
    return _from_cells(source, moment, confidence)


def _from_cells(source: ReleasedCounts, moment: Moment, confidence: float) -> Answer | None:
    """A moment as a SELECT has it; None where the cells are not counted."""
    domain = source.schema.domain
    where = any_box(domain, moment.given.boxes)
    there = [literal(domain, axis.column, range(axis.values.size)) for axis in moment.numbers]
    columns = tuple(axis.column for axis in moment.numbers)
    measure = Measure(moment.kind, columns, all_of(domain, there))  # type: ignore[arg-type]
    try:
        found, notes = measured_alone(source, measure, where, 1 - confidence)
        rows = source.count(predicate(domain, all_of(domain, [where, *there])), 1 - confidence).value
    except (CannotAnswer, CannotQuery):
        return None
    if found.value is None or rows is None:
        return None
    counted = None if moment.kind == "sum" else rows
    inside = MomentEstimate(value=found.value, low=found.low, high=found.high, count=counted, basis=found.basis)
    return value_answer(inside, source.total, confidence, (*notes, *standing_notes(source.schema)))


def released_moments(workload: Workload) -> tuple[Moment, ...]:
    """The sums, means, variances and covariances of a workload."""
    return tuple(moment for block in workload.blocks if isinstance(block, Moments) for moment in block.functions)


def moments_table(source: ReleasedCounts, confidence: float) -> ResultTable:
    """All moments that were released by themselves: what they are of, over which rows, and their intervals.

    Args:
        source: The counts of a release.
        confidence: The probability with which each interval holds.

    Returns:
        Lines of `number`, `rows` as a predicate, `value`, `low`, `high`, and `over`, about how many rows that is.
    """
    names, found = source.schema.domain.names, []
    notes: dict[str, None] = {}
    for moment in source.moments:
        answer = answer_moment(source, moment, confidence)
        notes |= dict.fromkeys(answer.notes)
        what = " and ".join(names[axis.column] for axis in moment.numbers)
        over = None if answer.count is None else max(round(answer.count), 0)
        ends = {"value": answer.value, "low": answer.low, "high": answer.high}
        found.append(
            {"number": f"{moment.kind} of {what}", "rows": to_sql(source.schema, moment.given)} | ends | {"over": over}
        )
    kinds = (("number", pa.string()), ("rows", pa.string()), *((end, pa.float64()) for end in ("value", "low", "high")))
    made = pa.Table.from_pylist(found, schema=pa.schema([*kinds, ("over", pa.int64())]))
    return ResultTable(made, ("number", "rows"), (("value", "low", "high"),), tuple(notes))


def answers_inside(source: ReleasedCounts, workload: Workload, answers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The answers to a workload, where moments take what was bought about values inside bins."""
    found = answers.copy()
    for place, asked in enumerate(workload.queries()):
        if isinstance(asked, Moment):
            answer = moment_inside(source, asked, 0.95)
            found[place] = found[place] if answer is None else answer.value
    return found
