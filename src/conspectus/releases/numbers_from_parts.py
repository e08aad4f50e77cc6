"""Moments from a release: what its synopsis and its noisy answers say about the parts, as one answer."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.data.schema import Schema
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.moments import Moment, Moments
from conspectus.queries.workload import Workload
from conspectus.synopses.evidence import Evidence
from conspectus.synopses.moment_estimates import (
    MomentEstimate,
    deviation,
    estimate_boxed,
    estimate_noisy,
    moment_value,
    range_of,
)
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.noisy_vectors import NoisyVector, noisy_vector
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.synopsis import Synopsis, Total
from conspectus.synopses.tree_counts import TreeCounts

from .answer import Answer, count_confidence, standing_notes, value_answer
from .cells.cell_estimates import Interval


def moment_answer(schema: Schema, synopsis: Synopsis, evidence: Evidence, moment: Moment, confidence: float) -> Answer:
    """One moment with its interval: from measured counts where they determine it, else from the synopsis."""
    found = moment_estimate(synopsis, evidence, moment, confidence)
    return value_answer(found, synopsis.total, confidence, middle_notes(schema, moment))


def moment_estimate(synopsis: Synopsis, evidence: Evidence, moment: Moment, confidence: float) -> MomentEstimate:
    """One moment with its interval, where a bin counts as its middle."""
    total = synopsis.total
    vector = _vector(synopsis, evidence, moment)
    twin = over_all_rows(moment, synopsis.domain, total)
    other = None if twin is None else _vector(synopsis, evidence, twin)
    if (
        twin is not None
        and other is not None
        and (vector is None or deviation(twin, other) < deviation(moment, vector))
    ):
        return _times(estimate_noisy(twin, other, confidence, total.value), moment, total.value)
    if vector is not None:
        return estimate_noisy(moment, vector, confidence, total.value + total.margin((1 + confidence) / 2))
    found = _boxed(synopsis, evidence, moment, confidence)
    if found.low is not None or twin is None:
        return found
    same = _boxed(synopsis, evidence, twin, confidence)  # which of both a bound covers is public
    return found if same.low is None else _times(same, moment, total.value)


def _boxed(synopsis: Synopsis, evidence: Evidence, moment: Moment, confidence: float) -> MomentEstimate:
    """One moment from what the synopsis says of its parts."""
    total, domain = synopsis.total, synopsis.domain
    known = total.exact and moment.complete(domain) and not synopsis.partial
    parts = moment.parts(domain, total_known=known)
    # A bound on all released answers holds for the parts together; intervals of their own share what may go wrong.
    each = confidence if evidence.bound is not None else 1 - (1 - confidence) / len(parts)
    each = count_confidence(total, each)
    questions = (Workload(domain, (LinearQueries.of(domain, [part]),)) for part in parts)
    estimates = [synopsis.estimate(asked, each, evidence) for asked in questions]
    return estimate_boxed(moment, estimates, total.value if known else None)


def _vector(synopsis: Synopsis, evidence: Evidence, moment: Moment) -> NoisyVector | None:
    """The parts of a moment as they were measured; None where they were not."""
    if isinstance(synopsis, TreeCounts):
        return synopsis.vector(moment.parts(synopsis.domain))
    measured = synopsis if isinstance(synopsis, NoisyAnswers) else evidence.measured
    if not isinstance(measured, NoisyAnswers | ResidualAnswers):
        return None
    return part_vector(measured, synopsis.total, moment)


def over_all_rows(moment: Moment, domain: Domain, total: Total) -> Moment | None:
    """The mean that a sum over all rows is the number of rows times, or the sum that a mean is; None without one.

    Either may have been measured. The narrower of two intervals that each hold in 95 % of all cases holds in fewer, if
    the noise decides which it is: and the ends of a mean are cut to the range of its column, so that its width says how
    the noise went. So the one of less deviation is taken, which follows from weights and laws alone: whatever the noise
    is, it is the same one, and holds as often as it does by itself.
    """
    if moment.kind not in ("sum", "mean") or not total.exact or total.value <= 0:
        return None
    mean = replace(moment, kind="mean")
    if not mean.complete(domain):
        return None
    return mean if moment.kind == "sum" else replace(moment, kind="sum")


def _times(found: MomentEstimate, moment: Moment, rows: float) -> MomentEstimate:
    """A sum over all rows from their mean, or a mean from their sum, cut to the range of its column."""
    factor, ends = (rows, (-math.inf, math.inf)) if moment.kind == "sum" else (1 / rows, range_of(moment))
    told = Interval(value=found.value, low=found.low, high=found.high, basis=found.basis).scaled(factor).cut(*ends)
    assert told.value is not None
    count = None if moment.kind == "sum" else rows
    return MomentEstimate(value=told.value, low=told.low, high=told.high, count=count, basis=told.basis)


def part_vector(measured: NoisyAnswers | ResidualAnswers, total: Total, moment: Moment) -> NoisyVector | None:
    """The parts of a moment from measured counts; where the total is public, the last one is what is left of it."""
    domain, known = measured.domain, total.exact and moment.complete(measured.domain)
    if isinstance(measured, ResidualAnswers):
        return measured.vector(moment.parts(domain))
    vector = noisy_vector(measured, moment.parts(domain))
    if not known:
        return vector
    if vector is not None:
        return adding_up(vector, total.value)
    fewer = noisy_vector(measured, moment.parts(domain, total_known=True))
    return None if fewer is None else with_rest(fewer, total.value)


def adding_up(vector: NoisyVector, rows: float) -> NoisyVector:
    """Counts that are moved, each by its share of the noise of all, so that they add up to a public number of rows."""
    spread = vector.covariance.sum(axis=1)
    if not spread.sum() > 0:
        return vector
    shares, known = spread / spread.sum(), len(vector.counts)
    return vector.extended(np.eye(known) - np.outer(shares, np.ones(known)), shares * rows)


def with_rest(vector: NoisyVector, rows: float) -> NoisyVector:
    """Counts, and behind them what is left of a public number of rows."""
    known = len(vector.counts)
    lines = np.vstack([np.eye(known), -np.ones((1, known))])
    return vector.extended(lines, np.append(np.zeros(known), rows))


def derived_answers(workload: Workload, shares: NDArray[np.float64], total: Total) -> NDArray[np.float64]:
    """The answers to a workload from the shares of what was measured for it: moments in their own units."""
    known = total.exact
    found: list[NDArray[np.float64]] = []
    at = 0
    for block in workload.blocks:
        if not isinstance(block, Moments):
            found.append(shares[at : at + len(block)])
            at += len(block)
            continue
        for moment in block.functions:
            parts = len(moment.parts(workload.domain, total_known=known))
            counts = shares[at : at + parts] * total.divisor
            at += parts
            if known and moment.complete(workload.domain):
                counts = np.append(counts, total.value - counts.sum())
            found.append(np.array([moment_value(moment, counts)]))
    return np.concatenate(found) if found else np.zeros(0)


def one_value_each(schema: Schema, moment: Moment) -> bool:
    """Whether each code of the columns of a moment stands for one number, and not for a bin of several."""
    columns = [schema.columns[axis.column] for axis in moment.numbers]
    return all(getattr(column, "one_value_each", column.kind == "boolean") for column in columns)


def middle_notes(schema: Schema, moment: Moment) -> tuple[str, ...]:
    """What must be said of the values: bins count as their middles, and values outside the range are clamped."""
    said = []
    for axis in moment.numbers:
        column = schema.columns[axis.column]
        if column.kind in ("integer", "number") and not column.one_value_each:  # type: ignore[attr-defined]
            said.append(f'each bin of "{column.name}" counts as its middle')
    return (*said, *standing_notes(schema))
