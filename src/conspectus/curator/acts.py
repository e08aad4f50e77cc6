"""What each door would do, as an event that can be priced before anything is drawn: functions of public facts alone.

A mechanism plans with these, and the curator debits them: the plan and the debit are the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, TypeVar

from conspectus.data.schema import Schema
from conspectus.privacy import exponential
from conspectus.privacy.accounting import scale_up
from conspectus.privacy.events import (
    ByRelation,
    Event,
    ExponentialDraws,
    FurtherHit,
    GaussianNoise,
    LaplaceNoise,
    MixedGaussianNoise,
    Noise,
    NoisyMaxima,
    StableKeys,
    StableValue,
    ThresholdWatch,
    check_scale,
)
from conspectus.privacy.relation import Neighbours, Relation, RelationError
from conspectus.queries.blocks.residual import Residual, joint_shift
from conspectus.queries.proved_kinds import proved
from conspectus.queries.workload import Workload

from .laminar import LaminarDatabases
from .nets import ListedNet, SmallDatabases
from .scores import ERROR_STEPS, SCORES, LargestCounts, Score
from .stable_statistics import STABLE, StableStatistic

Net = ListedNet | SmallDatabases | LaminarDatabases
NETS: tuple[type[Net], ...] = (ListedNet, SmallDatabases, LaminarDatabases)
"""Ranges to select from that need not be listed; closed, as the list of scores is."""
Known = TypeVar("Known", bound="Score | Net")
Rule = Literal["exponential", "permute-and-flip", "noisy-max"]
"""How a candidate is chosen: by the exponential mechanism, or as the largest score with one- or two-sided noise."""


def relation_of(schema: Schema, neighbours: Neighbours, *, filtered: bool) -> Relation:
    """Who are neighbours of a table of this schema, where `filtered` says that some rows may have been dropped.

    A unit that may lose rows holds between none and max_rows of them, and the number of rows is then private.
    """
    unit = schema.unit
    relation = Relation(neighbours, unit.max_rows, unit.one_row_per_unit and not filtered)
    if not relation.replace and unit.users is not None:
        raise RelationError(
            "users= makes the number of users public, and add-remove hides it: leave users out, or take replace"
        )
    return relation


def measurement(what: Workload | Score, law: Noise, *, relation: Relation) -> Event:
    """The act of measuring a workload or a listed score with this noise; a function of public facts alone."""
    check_scale(law.scale)
    if isinstance(what, Workload):
        asked = proved(what)
        both = [asked.sensitivity(relation.under(each)) for each in Neighbours]
        norms = zip(*((moved.l1, moved.l2_squared, moved.linf) for moved in both))
        l1, l2_squared, linf = (ByRelation(replace=Fraction(a), add_remove=Fraction(b)) for a, b in norms)
    else:
        linf = listed(what).sensitivity(relation)
        l1 = linf.mapped(lambda step: step * what.candidates)
        l2_squared = linf.mapped(lambda step: step * step * what.candidates)
    scale = Fraction(law.scale)
    if law.kind == "laplace":
        return LaplaceNoise(l1=l1, l2_squared=l2_squared, linf=linf, scale=scale)
    return GaussianNoise(l2_squared=l2_squared, sigma_squared=scale * scale)


def residual_act(residuals: Sequence[Residual], scales: Sequence[float], *, relation: Relation) -> MixedGaussianNoise:
    """The act of measuring residuals together, each with noise of a scale in steps of its own 1/N."""
    if any(type(residual) is not Residual for residual in residuals):
        raise TypeError("a residual of another kind could understate how far one unit moves it")
    if (
        not residuals
        or len(scales) != len(residuals)
        or any(residual.domain != residuals[0].domain for residual in residuals)
    ):
        raise ValueError("residuals of one table are measured, each with a scale of its own")
    for scale in scales:
        check_scale(scale)
    squares = [Fraction(scale) ** 2 for scale in scales]
    precisions = [Fraction(residual.cells**2) / square for residual, square in zip(residuals, squares)]
    moved = ByRelation.of(relation, lambda each: joint_shift(residuals, precisions, each))
    return MixedGaussianNoise(shift_squared=moved, sigma_squared=min(squares))


def residual_scales(
    residuals: Sequence[Residual], precisions: Sequence[float], price: Fraction, *, relation: Relation
) -> tuple[float, ...]:
    """The scales, in steps of each residual's 1/N, at which measuring residuals together costs at most `price` in ρ.

    The variances of the noise are inverse to `precisions`, which are numbers above 0 and matter up to a factor. The
    noise of a residual has a deviation of scale/N counts before it is projected.
    """
    whole = joint_shift(residuals, [Fraction(precision) for precision in precisions], relation)
    times = math.sqrt(float(whole / (2 * price)))
    while True:
        scales = tuple(r.cells * times / math.sqrt(p) for r, p in zip(residuals, precisions))
        moved = residual_act(residuals, scales, relation=relation).shift_squared.under(relation.neighbours)
        if moved is not None and moved <= 2 * price:
            return scales
        times *= 1 + 2.0**-40


def keys_act(scale: float, threshold: int, *, max_rows: int) -> StableKeys:
    """The act of publishing keys; a function of public facts alone."""
    check_scale(scale)
    l1 = ByRelation(replace=Fraction(2 * max_rows), add_remove=Fraction(max_rows))
    return StableKeys(l1=l1, rows=max_rows, scale=Fraction(scale), threshold=threshold)


def stable_act(
    what: StableStatistic, scale: float, threshold: int, noise: float | None, *, relation: Relation
) -> StableValue:
    """The act of publishing a value where it is stable; `noise` is the scale of Laplace noise on the value itself."""
    if type(what) not in STABLE:
        raise TypeError("this value is not on the list of those whose distance is proved")
    if (noise is None) != (what.spread == 0):
        raise ValueError("a value that one unit may move is published with noise, and any other without")
    for each in (scale,) if noise is None else (scale, noise):
        check_scale(each)
    own = Fraction(0) if noise is None else what.spread / Fraction(noise)
    return StableValue(
        moved=what.moved(relation),
        scale=Fraction(scale),
        threshold=threshold,
        epsilon=ByRelation(replace=own, add_remove=own),
    )


def spread_of(score: Score | Net, relation: Relation) -> ByRelation:
    """The length of the interval in which one unit moves the scores of all candidates; None where there is no bound.

    In general one score may rise and another fall, each by the sensitivity: twice that.
    """
    listed(score, (*SCORES, *NETS))
    if isinstance(score, LargestCounts):
        return score.spread(relation)
    return score.sensitivity(relation).mapped(lambda moved: 2 * moved)


def selection(
    score: Score | Net, epsilon: Fraction, *, relation: Relation, rule: Rule = "exponential", draws: int = 1
) -> tuple[ExponentialDraws | NoisyMaxima, Fraction]:
    """The act of drawing candidates by a rule, each with this epsilon, and the rate of the draws, from public facts.

    The largest of noisy scores is that of noise of the scale 1/rate, which is a float.
    """
    moved = spread_of(score, relation)
    here = moved.under(relation.neighbours)
    if here is None:
        raise ValueError("a selection needs a score with a known sensitivity")
    if here == 0:
        # Nobody moves this score: any rate will do, and costs no more than its rounding. It is that of a single step.
        here = Fraction(2)
    if rule == "exponential":
        rate = selection_rate(here / 2, epsilon)
        return ExponentialDraws(range=moved.mapped(lambda each: selection_range(each / 2, rate)), draws=draws), rate
    rate = epsilon / here if rule == "permute-and-flip" else 1 / Fraction(scale_up(here / epsilon))
    if rule == "noisy-max":
        check_scale(float(1 / rate))
    return NoisyMaxima(epsilon=moved.mapped(lambda each: rate * each), draws=draws), rate


def selection_rate(sensitivity: Fraction, epsilon: Fraction) -> Fraction:
    """The rate at which `select` draws, with probability ∝ exp(rate·score), for a range of epsilon."""
    if epsilon <= exponential.slack():
        raise ValueError("a selection needs a budget above its rounding")
    return (epsilon - exponential.slack()) / (2 * sensitivity)


def selection_range(sensitivity: Fraction, rate: Fraction) -> Fraction:
    """The range to ask `select` for, so that candidates are drawn with probability ∝ exp(rate·score), exactly."""
    return 2 * rate * sensitivity + exponential.slack()


def watch_scales(epsilon: Fraction, share: Fraction, *, relation: Relation) -> tuple[float, float]:
    """The scales of the noise on the threshold of a watch and on each error, in steps of an error."""
    if not 0 < share < 1 or epsilon <= 0:
        raise ValueError("a watch splits an epsilon above 0 in two parts")
    moved = Fraction(ERROR_STEPS * relation.max_rows)
    scales = scale_up(moved / (share * epsilon)), scale_up(2 * moved / ((1 - share) * epsilon))
    for scale in scales:
        check_scale(scale)
    return scales


def watch_act(epsilon: Fraction) -> ThresholdWatch:
    return ThresholdWatch(epsilon=ByRelation(replace=epsilon, add_remove=epsilon))


def further_act(epsilon: Fraction) -> FurtherHit:
    return FurtherHit(epsilon=ByRelation(replace=epsilon, add_remove=epsilon))


def listed(score: Known, known: tuple[type[Score | Net], ...] = SCORES) -> Known:
    """The score, if it is on a closed list: a stranger could understate how far one unit moves it."""
    if type(score) not in known:
        raise TypeError("this score is not on the list of proved ones")
    proved(score.workload)
    return score
