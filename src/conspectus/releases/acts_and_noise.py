"""Whether the private acts that a file lists can have drawn the noise that the file itself speaks of.

A file states its noise twice: its intervals are quantiles of a law, and its guarantee is the price of acts. If the two
could differ, a file would promise a small ε and narrow intervals at once. A file may hold many synopses, as an ensemble
does, and each of them might fit the same act: so all of them are held against all acts together, and with them the
noisy number of rows and the certificate. That some act has the same law is not enough: it could say that nobody moves
what it drew, and cost nothing. And a number of rows without any noise was drawn by no act: it has to be public.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from conspectus.curator.acts import keys_act, residual_act
from conspectus.curator.scores import (
    ERROR_STEPS,
    LOG_WEIGHT_STEPS,
    ROUNDED,
    error_sensitivity,
    potential_sensitivity,
)
from conspectus.mechanisms.bounds import Certificate, Potential
from conspectus.privacy.events import (
    Event,
    GaussianNoise,
    LaplaceNoise,
    MixedGaussianNoise,
    Noise,
    RowTotal,
    StableKeys,
)
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.block import Block
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.builders.conjunctions import always
from conspectus.queries.query import Predicate
from conspectus.queries.workload import Workload
from conspectus.synopses.measured_sums import paid_total, splits_rows
from conspectus.synopses.median_ensemble import MedianEnsemble
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.stream_answers import StreamAnswers
from conspectus.synopses.synopsis import BadSynopsis, Synopsis, Total
from conspectus.synopses.tree_counts import TreeCounts

from .within_bins import WithinBins


class _Moved(NamedTuple):
    """How far one unit moves numbers that were published with noise, in the steps of that noise."""

    l1: Fraction
    l2_squared: Fraction
    linf: Fraction


def contradicted(
    relation: Relation,
    events: Sequence[Event],
    synopses: Iterable[Synopsis],
    workload: Workload,
    certificate: Certificate | None,
    within: WithinBins | None = None,
) -> bool:
    """Whether some noise of the synopses, of their members and totals, of the certificate of the answers to `workload`
    or inside bins was drawn by none of the acts, or all of it together by more than the acts; or whether some number of
    rows is stated exactly that is not public.

    All that is published with noise of one law was drawn by the acts of this law. So these must allow, added up, for as
    much as one unit moves all these questions together: what it would have cost to draw it is then no more than what
    they cost.
    """
    held, neighbours = tuple(_every(synopses)), relation.neighbours
    measured = [found for synopsis in held for found in synopsis.measurements()]
    if within is not None:
        _, asked = within.asked()
        measured.append((asked, within.law, asked.grid))
    # A total is drawn once, and all that are equal share it; a sum of measured cells was drawn with them.
    for total in {each.total for each in held}:
        if total.law is not None and not any(_adds_up(each, total) for each in held):
            measured.append((always(workload.domain), total.law, total.averaged))
    if not all(_public(each, relation, events, workload) for each in held if each.total.exact):
        return True
    if any(isinstance(each, MedianEnsemble) and _other_totals(each) for each in held):
        return True
    if not _showed_keys([found for each in held if (found := each.published_at()) is not None], events, relation):
        return True
    if not _drew_residuals([each for each in held if isinstance(each, ResidualAnswers)], events, relation):
        return True
    single: list[tuple[Noise, Fraction]] = []
    if certificate is not None:
        single.append((certificate.law, _bound_of(error_sensitivity(workload, relation).under(neighbours))))
        if certificate.potential is not None:
            moved = _potential(certificate.potential, held[0], relation)
            if moved is None:
                return True
            single.append((certificate.potential.law, moved))
    return any(
        not _allow(
            _drawn(law, events),
            neighbours,
            [(block, grid) for asked, noise, grid in measured if noise == law for block in asked.blocks],
            [_Moved(moved, moved**2, moved) for noise, moved in single if noise == law],
            relation,
        )
        for law in {law for _, law, _ in measured} | {law for law, _ in single}
    )


def _every(synopses: Iterable[Synopsis]) -> Iterator[Synopsis]:
    """The synopses, and those that they are made of."""
    for synopsis in synopses:
        yield synopsis
        if isinstance(synopsis, MedianEnsemble):
            yield from _every(synopsis.members)


def _other_totals(ensemble: MedianEnsemble) -> bool:
    """Whether members have noisy totals of their own: one is drawn, and all of them share it."""
    return any(not member.total.exact and member.total != ensemble.total for member in ensemble.members)


def _public(synopsis: Synopsis, relation: Relation, events: Sequence[Event], workload: Workload) -> bool:
    """Whether the exact total of a synopsis is a number that may be told as it is.

    It is what a share of declared functions amounts to, or the number of rows where neighbours have equally many and
    it was used in the open: of a table that a filter went over it was not, and no act says so. The number of events of
    a stream is written down beside its one act.
    """
    if workload.denominator is not None:
        return synopsis.total.value == workload.denominator
    used = isinstance(synopsis, StreamAnswers) or any(isinstance(event, RowTotal) for event in events)
    return relation.total_is_public and used


def _adds_up(synopsis: Synopsis, total: Total) -> bool:
    """Whether a noisy total is the sum of cells that a synopsis publishes as they were measured, with the noise of
    just these."""
    for found in _sums(synopsis, total):
        near = math.isclose(found.value, total.value, rel_tol=1e-9, abs_tol=1e-6)
        if near and replace(found, value=total.value) == total:
            return True
    return False


def _sums(synopsis: Synopsis, total: Total) -> Iterator[Total]:
    """The totals that a synopsis has in what it measured with noise of this law."""
    kind, scale = total.kind, total.scale
    if kind is None:
        return
    if isinstance(synopsis, NoisyAnswers):
        if all(law == total.law for law in synopsis.noise):
            with suppress(BadSynopsis):
                yield paid_total(synopsis.workload, synopsis.counts, (kind, scale))
        asked = zip(synopsis.workload.blocks, synopsis.workload.offsets, synopsis.noise, synopsis.grids)
        for block, start, law, grid in asked:
            if law == total.law and len(block) == 1 and _counts_all(block):
                value = float(synopsis.counts[start])
                yield Total(value=value, exact=False, kind=kind, scale=scale, terms=1, averaged=grid)
            elif law == total.law and splits_rows(block):
                value = float(synopsis.counts[start] + synopsis.counts[start + 1])
                yield Total(value=value, exact=False, kind=kind, scale=scale, terms=2, averaged=grid)
    elif isinstance(synopsis, StreamAnswers):
        workload = synopsis.workload
        for block, start, end in zip(workload.blocks, workload.offsets, workload.offsets[1:]):
            if synopsis.law == total.law and _counts_all(block):
                value, terms = float(synopsis.counts[start:end].sum()), synopsis.terms * len(block)
                yield Total(value=value, exact=False, kind=kind, scale=scale, terms=terms, averaged=workload.grid)
    elif isinstance(synopsis, TreeCounts) and synopsis.noise == total.law:
        yield paid_total(Workload(synopsis.domain, (synopsis.tree,)), synopsis.counts, (kind, scale))


def _counts_all(block: Block) -> bool:
    """Whether the counts of a block add up to the number of all rows."""
    return isinstance(block, Marginal) or (len(block) == 1 and block.query(0) == Predicate(((),)))


def _bound_of(moved: Fraction | None) -> Fraction:
    assert moved is not None, "a query moves by a bounded number of steps"
    return moved


def _potential(potential: Potential, synopsis: Synopsis, relation: Relation) -> Fraction | None:
    """How far one unit moves ln Z of a run of boosting at least, in steps; None where it cannot be that of one.

    The rates of the run are the weights of its ensemble. They sum to ln|Q| or more, since ln Z is never below ln|Q|
    less their sum, and is measured only where it could be below 0. All that is known of λ and μ is their sum.
    """
    gap = math.floor(potential.inaccurate * ERROR_STEPS - ROUNDED)
    if not isinstance(synopsis, MedianEnsemble) or gap < 1:
        return None
    asked = synopsis.workload
    groups = sum(1 if isinstance(block, Marginal) else len(block) for block in asked.blocks)
    rates = max(sum(synopsis.weights), math.floor(math.log(max(groups, 1)) * LOG_WEIGHT_STEPS))
    step = _bound_of(error_sensitivity(asked, relation).under(relation.neighbours))
    return potential_sensitivity((rates,), gap, int(step))


def _moved(parts: Sequence[tuple[Block, int]], relation: Relation) -> tuple[Fraction, Fraction]:
    """How far one unit moves some blocks together, each in steps of its grid: in L1, and squared in L2."""
    l1, l2_squared = Fraction(0), Fraction(0)
    for grid in {grid for _, grid in parts}:
        blocks = tuple(block for block, steps in parts if steps == grid)
        together = Workload(blocks[0].domain, blocks)
        moved, finer = together.sensitivity(relation), Fraction(grid, together.grid)
        l1, l2_squared = l1 + moved.l1 * finer, l2_squared + moved.l2_squared * finer**2
    return l1, l2_squared


def _showed_keys(shown: Sequence[tuple[Noise, int]], events: Sequence[Event], relation: Relation) -> bool:
    """Whether each set of keys has an act of its own that published them, for units of as many rows."""
    free = [event for event in events if isinstance(event, StableKeys)]
    for noise, least in shown:
        act = keys_act(noise.scale, least, max_rows=relation.max_rows)
        needed = _bound_of(act.l1.under(relation.neighbours))
        able = [
            each
            for each in free
            if (each.scale, each.threshold) == (act.scale, act.threshold)
            and each.rows >= act.rows
            and (bound := each.l1.under(relation.neighbours)) is not None
            and bound >= needed
        ]
        if not able:
            return False
        free.remove(able[0])
    return True


def _drawn(law: Noise, events: Sequence[Event]) -> list[LaplaceNoise | GaussianNoise]:
    """The acts that drew noise of this law."""
    scale = Fraction(law.scale)
    if law.kind == "laplace":
        return [event for event in events if isinstance(event, LaplaceNoise) and event.scale == scale]
    return [event for event in events if isinstance(event, GaussianNoise) and event.sigma_squared == scale * scale]


def _drew_residuals(measured: Sequence[ResidualAnswers], events: Sequence[Event], relation: Relation) -> bool:
    """Whether each of these residuals has an act of its own that drew their noise, and allows for as much as one unit
    moves them."""
    free = [act for act in events if isinstance(act, MixedGaussianNoise)]
    needed = [residual_act(each.residuals, each.scales, relation=relation) for each in measured]
    # The one that is moved most chooses first, and takes the act that allows for the most.
    for act in sorted(needed, key=lambda each: _shift(each, relation), reverse=True):
        able = [each for each in free if each.sigma_squared == act.sigma_squared]
        best = max(able, key=lambda each: _shift(each, relation), default=None)
        if best is None or _shift(best, relation) < _shift(act, relation):
            return False
        free.remove(best)
    return True


def _shift(act: MixedGaussianNoise, relation: Relation) -> Fraction:
    """How far one unit moves what an act measures, squared, and −1 where that has no bound."""
    bound = act.shift_squared.under(relation.neighbours)
    return Fraction(-1) if bound is None else bound


def _allow(
    acts: Sequence[LaplaceNoise | GaussianNoise],
    neighbours: Neighbours,
    parts: Sequence[tuple[Block, int]],
    single: Sequence[_Moved],
    relation: Relation,
) -> bool:
    """Whether acts of one law allow, together, for moves of these blocks and single numbers.

    Laplace noise on numbers that move by little is cheaper than the same sum of moves in one number. So for every size,
    what has numbers that move as far was drawn by acts that say so.
    """
    if not acts:
        return False
    farthest = [Fraction(grid, block.grid) * block.sensitivity(relation).linf for block, grid in parts]
    for size in {*farthest, *(each.linf for each in single)}:
        large = [each for each in single if each.linf >= size]
        l1, l2_squared = _moved([part for part, moved in zip(parts, farthest) if moved >= size], relation)
        able = [act for act in acts if isinstance(act, GaussianNoise) or _of(act.linf.under(neighbours)) >= size]
        pure = [act for act in able if isinstance(act, LaplaceNoise)]
        squares = sum((_of(act.l2_squared.under(neighbours)) for act in able), Fraction(0))
        sums = sum((_of(act.l1.under(neighbours)) for act in pure), Fraction(0))
        if squares < l2_squared + sum(each.l2_squared for each in large):
            return False
        if len(pure) == len(able) and sums < l1 + sum(each.l1 for each in large):
            return False
    return True


def _of(bound: Fraction | None) -> Fraction:
    """A bound, and nothing where an act has none."""
    return Fraction(0) if bound is None else bound
