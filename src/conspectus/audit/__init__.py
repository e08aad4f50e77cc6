"""An empirical lower bound on ε for each door and for their composition, on worst-case neighbouring tables.

A bound above the claim refutes the claim. An audit can only refute; so each case has a twin that is broken on purpose,
and an audit that does not refute the twin has no power and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conspectus.privacy.relation import Neighbours

from . import (
    choices,
    composition_game,
    distances_audit,
    doors,
    gaussian_game,
    keys_and_projections,
    ledgers,
    local_audit,
    net_draws_audit,
    numbers_audit,
    oracle_audit,
    residuals_audit,
    series_audit,
    stability_audit,
    streams_audit,
    watches,
)
from .plays import ALPHA as ALPHA
from .plays import AuditResult as AuditResult
from .plays import Experiment as Experiment
from .plays import lower_bound as lower_bound

ROOMS = (
    doors,
    choices,
    numbers_audit,
    watches,
    net_draws_audit,
    keys_and_projections,
    residuals_audit,
    distances_audit,
    composition_game,
    gaussian_game,
    ledgers,
    local_audit,
    streams_audit,
    series_audit,
    oracle_audit,
    stability_audit,
)


def cases() -> Iterator[Experiment]:
    """Everything that can be audited, under both relations."""
    for room in ROOMS:
        for neighbours in Neighbours:
            yield from room.cases(neighbours)


def audit(case: Experiment, trials: int) -> AuditResult:
    """Attack one case and its twin with this many plays on each of two tables."""
    return case.judge(trials)


def run(
    door: str | None = None, trials: int = 20_000, progress: Callable[[str], None] | None = None
) -> Iterator[AuditResult]:
    """Audit everything, or what has a name that starts with `door`; each result comes as soon as it is found."""
    for case in cases():
        if door is None or case.name.startswith(door):
            if progress is not None:
                progress(f"{case.name}, {case.neighbours}")
            yield audit(case, trials * case.effort)
