"""Whether the private acts that a file lists can have drawn the noise that the file itself speaks of.

A file states its noise twice: its intervals are quantiles of a law, and its guarantee is the price of acts. If the two
could differ, a file would promise a small ε and narrow intervals at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from conspectus.curator.acts import relation_of, residual_act
from conspectus.data.schema import Schema
from conspectus.mechanisms.bounds import Certificate
from conspectus.privacy.events import Event, GaussianNoise, LaplaceNoise, MixedGaussianNoise, Noise, StableKeys
from conspectus.privacy.relation import Neighbours, Relation
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
    """Whether some noise of the synopses, of their totals, of the certificate or inside bins was drawn by none of the
    acts.

    Where a single act has drawn noise of a law, all that is published with this law is its own: it must allow for as
    much as one unit moves these questions together.
    """
    held = tuple(synopses)
    measured = [found for synopsis in held for found in synopsis.measurements()]
    if within is not None:
        _, asked = within.asked()
        measured.append((asked, within.law, asked.grid))
    laws = [law for _, law, _ in measured] + [synopsis.total.law for synopsis in held]
    if certificate is not None:
        laws += [certificate.law] if certificate.potential is None else [certificate.law, certificate.potential.law]
    if any(law is not None and not _drawn(law, events) for law in laws):
        return True
    keys = {(Fraction(noise.scale), least) for noise, least in filter(None, (s.published_at() for s in held))}
    if not keys <= {(event.scale, event.threshold) for event in events if isinstance(event, StableKeys)}:
        return True
    relation = relation_of(schema, neighbours, filtered=False)
    if any(isinstance(each, ResidualAnswers) and not _drew_residuals(each, events, relation) for each in held):
        return True
    for workload, law, grid in measured:
        acts = _drawn(law, events)
        if len(acts) == 1:
            finer = Fraction(grid, workload.grid)
            moved = workload.sensitivity(relation)
            if not _allows(acts[0], neighbours, l1=moved.l1 * finer, l2_squared=moved.l2_squared * finer**2):
                return True
    return False


def _drawn(law: Noise, events: Sequence[Event]) -> list[LaplaceNoise | GaussianNoise]:
    """The acts that drew noise of this law."""
    scale = Fraction(law.scale)
    if law.kind == "laplace":
        return [event for event in events if isinstance(event, LaplaceNoise) and event.scale == scale]
    return [event for event in events if isinstance(event, GaussianNoise) and event.sigma_squared == scale * scale]


def _drew_residuals(measured: ResidualAnswers, events: Sequence[Event], relation: Relation) -> bool:
    """Whether one act drew the noise of all these residuals, and allows for as much as one unit moves them."""
    needed = residual_act(measured.residuals, measured.scales, relation=relation)
    moved = needed.shift_squared.under(relation.neighbours)
    assert moved is not None
    bounds = (
        act.shift_squared.under(relation.neighbours)
        for act in events
        if isinstance(act, MixedGaussianNoise) and act.sigma_squared == needed.sigma_squared
    )
    return any(bound is not None and bound >= moved for bound in bounds)


def _allows(act: LaplaceNoise | GaussianNoise, neighbours: Neighbours, *, l1: Fraction, l2_squared: Fraction) -> bool:
    """Whether an act allows for moves of these norms."""
    bounds = [(act.l2_squared.under(neighbours), l2_squared)]
    if isinstance(act, LaplaceNoise):
        bounds.append((act.l1.under(neighbours), l1))
    return all(bound is not None and bound >= needed for bound, needed in bounds)
