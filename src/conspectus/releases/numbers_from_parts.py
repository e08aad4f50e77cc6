"""Moments from a release: what its synopsis and its noisy answers say about the parts, as one answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from conspectus.data.schema import Schema
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.moments import Moment, Moments
from conspectus.queries.workload import Workload
from conspectus.synopses.evidence import Evidence
from conspectus.synopses.moment_estimates import (
    MomentEstimate,
    estimate_boxed,
    estimate_noisy,
    moment_value,
    reach_of_sum,
)
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.noisy_vectors import NoisyVector, noisy_vector
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.synopsis import Synopsis, Total
from conspectus.synopses.tree_counts import TreeCounts

from .answer import Answer, count_confidence, standing_notes, value_answer


def moment_answer(schema: Schema, synopsis: Synopsis, evidence: Evidence, moment: Moment, confidence: float) -> Answer:
    """One moment with its interval: from measured counts where they determine it, else from the synopsis."""
    found = moment_estimate(synopsis, evidence, moment, confidence)
    return value_answer(found, synopsis.total, confidence, middle_notes(schema, moment))


def moment_estimate(synopsis: Synopsis, evidence: Evidence, moment: Moment, confidence: float) -> MomentEstimate:
    """One moment with its interval, where a bin counts as its middle."""
    total, domain = synopsis.total, synopsis.domain
    vector = _vector(synopsis, evidence, moment)
    known = total.exact and moment.complete(domain)
    if vector is not None:
        rows = total.value + total.margin((1 + confidence) / 2)
        over_all = _over_all_rows(synopsis, evidence, moment, confidence)
        if over_all is not None and over_all[0] <= reach_of_sum(moment, vector, confidence, rows):
            return over_all[1]
        return estimate_noisy(moment, vector, confidence, rows)
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


def _over_all_rows(
    synopsis: Synopsis, evidence: Evidence, moment: Moment, confidence: float
) -> tuple[float, MomentEstimate] | None:
    """A sum over all rows as the public number of rows times their mean, behind how far it reaches; None if it is none.

    Which of the two is taken must not be which is narrower: near the end of what is possible an interval is cut, and is
    narrow just where noise has moved it away. How far they reach before that is public.
    """
    if moment.kind != "sum" or not synopsis.total.exact:
        return None
    rows, mean = synopsis.total.value, replace(moment, kind="mean")
    if not mean.complete(synopsis.domain):
        return None
    vector = _vector(synopsis, evidence, mean)
    if vector is None:
        return None
    found = estimate_noisy(mean, vector, confidence, rows)
    low, high = (None if end is None else end * rows for end in (found.low, found.high))
    made = MomentEstimate(value=found.value * rows, low=low, high=high, count=None, basis=found.basis)
    return reach_of_sum(mean, vector, confidence, rows), made


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
        if column.kind in ("integer", "number") and (column.lows != column.highs).any():  # type: ignore[attr-defined]
            said.append(f'each bin of "{column.name}" counts as its middle')
    return (*said, *standing_notes(schema))
