"""Whether the private acts that a file lists can have drawn the noise that the file itself speaks of.

A file states its noise twice: its intervals are quantiles of a law, and its guarantee is the price of acts. If the two
could differ, a file would promise a small ε and narrow intervals at once. A file may hold many synopses, as an ensemble
does, and each of them might fit the same act: so all of them are held against all acts together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from conspectus.curator.acts import relation_of, residual_act
from conspectus.data.schema import Schema
from conspectus.mechanisms.bounds import Certificate
from conspectus.privacy.events import Event, GaussianNoise, LaplaceNoise, MixedGaussianNoise, Noise, StableKeys
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.workload import Workload
from conspectus.synopses.median_ensemble import MedianEnsemble
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.synopsis import Synopsis

from .within_bins import WithinBins


def contradicted(
    schema: Schema,
    neighbours: Neighbours,
    events: Sequence[Event],
    synopses: Iterable[Synopsis],
    certificate: Certificate | None,
    within: WithinBins | None = None,
) -> bool:
    """Whether some noise of the synopses, of their members and totals, of the certificate or inside bins was drawn by
    none of the acts, or all of it together by more than the acts.

    All that is published with noise of one law was drawn by the acts of this law. So these must allow, added up, for as
    much as one unit moves all these questions together: what it would have cost to draw it is then no more than what
    they cost.
    """
    held = tuple(_every(synopses))
    measured = [found for synopsis in held for found in synopsis.measurements()]
    if within is not None:
        _, asked = within.asked()
        measured.append((asked, within.law, asked.grid))
    laws = [law for _, law, _ in measured] + [synopsis.total.law for synopsis in held]
    if certificate is not None:
        laws += [certificate.law] if certificate.potential is None else [certificate.law, certificate.potential.law]
    if any(law is not None and not _drawn(law, events) for law in laws):
        return True
    if any(isinstance(each, MedianEnsemble) and _other_totals(each) for each in held):
        return True
    keys = Counter((Fraction(noise.scale), least) for noise, least in filter(None, (s.published_at() for s in held)))
    if not keys <= Counter((event.scale, event.threshold) for event in events if isinstance(event, StableKeys)):
        return True
    relation = relation_of(schema, neighbours, filtered=False)
    if not _drew_residuals([each for each in held if isinstance(each, ResidualAnswers)], events, relation):
        return True
    return any(
        not _allow(_drawn(law, events), neighbours, *_moved([m for m in measured if m[1] == law], relation))
        for law in {law for _, law, _ in measured}
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


def _moved(measured: Sequence[tuple[Workload, Noise, int]], relation: Relation) -> tuple[Fraction, Fraction]:
    """How far one unit moves all that was measured, in steps: in L1, and squared in L2."""
    l1, l2_squared = Fraction(0), Fraction(0)
    for grid in {grid for _, _, grid in measured}:
        parts = [workload for workload, _, steps in measured if steps == grid]
        together = Workload(parts[0].domain, tuple(block for part in parts for block in part.blocks))
        moved, finer = together.sensitivity(relation), Fraction(grid, together.grid)
        l1, l2_squared = l1 + moved.l1 * finer, l2_squared + moved.l2_squared * finer**2
    return l1, l2_squared


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
    acts: Sequence[LaplaceNoise | GaussianNoise], neighbours: Neighbours, l1: Fraction, l2_squared: Fraction
) -> bool:
    """Whether acts of one law allow, together, for moves of these norms."""
    bounds = [([act.l2_squared.under(neighbours) for act in acts], l2_squared)]
    if all(isinstance(act, LaplaceNoise) for act in acts):
        bounds.append(([act.l1.under(neighbours) for act in acts if isinstance(act, LaplaceNoise)], l1))
    return all(sum((each for each in found if each is not None), Fraction(0)) >= needed for found, needed in bounds)
