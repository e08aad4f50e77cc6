"""The theorems, by the names that users type."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from conspectus.mechanisms.boosting.mechanism import Boosting
from conspectus.mechanisms.dual_query.mechanism import DualQuery
from conspectus.mechanisms.online.median import Median
from conspectus.mechanisms.online.multiplicative_weights import Pmw
from conspectus.mechanisms.online.perceptron import Perceptron
from conspectus.mechanisms.online.sparse_weights import SparseMw
from conspectus.mechanisms.small_db.mechanism import SmallDb
from conspectus.mechanisms.small_db.net_mechanism import NetMechanism
from conspectus.mechanisms.sparse_project.mechanism import SparseProject
from conspectus.suggestions import did_you_mean

from .additive import Gaussian, Laplace
from .iterative_construction import IterativeConstruction
from .mechanism import Mechanism, NoMechanism, SettingError
from .mwem import Mwem
from .online_mechanism import OnlineMechanism
from .projection import Projection
from .stable_histogram import StableHistogram

OFFLINE: dict[str, type[Mechanism[Any]]] = {
    kind.name: kind
    for kind in (
        Laplace,
        Gaussian,
        Mwem,
        IterativeConstruction,
        Projection,
        Boosting,
        DualQuery,
        SmallDb,
        NetMechanism,
        SparseProject,
        StableHistogram,
    )
}


ONLINE: dict[str, type[OnlineMechanism]] = {kind.name: kind for kind in (Pmw, SparseMw, Median, Perceptron)}


def make(name: str, settings: Mapping[str, Any], *, also: Iterable[str] = ()) -> Mechanism[Any]:
    """The mechanism of this name with these settings; a misspelt one is answered with the right one.

    `also` are words that the caller knows itself, which a misspelt setting may have meant.
    """
    if name not in OFFLINE:
        live = ": it answers live sessions, see open_session" if name in ONLINE else did_you_mean(name, OFFLINE)
        raise NoMechanism(f'no mechanism is called "{name}"{live}; there are {", ".join(OFFLINE)}')
    return OFFLINE[name](**_checked(name, settings, settings_of(name), also))


def make_rule(name: str, settings: Mapping[str, Any], *, also: Iterable[str] = ()) -> OnlineMechanism:
    """The online mechanism of this name with these settings, checked in the same way."""
    if name not in ONLINE:
        whole = ": it answers a whole workload, see release" if name in OFFLINE else did_you_mean(name, ONLINE)
        raise NoMechanism(f'no online mechanism is called "{name}"{whole}; there are {", ".join(ONLINE)}')
    return ONLINE[name](**_checked(name, settings, settings_of(name), also))


def settings_of(name: str) -> dict[str, dataclasses.Field[Any]]:
    """The settings of a mechanism, by name."""
    kind: Any = OFFLINE[name] if name in OFFLINE else ONLINE[name]
    return {field.name: field for field in dataclasses.fields(kind)}


def _checked(
    name: str, settings: Mapping[str, Any], fields: Mapping[str, dataclasses.Field[Any]], also: Iterable[str]
) -> Mapping[str, Any]:
    for setting, value in settings.items():
        if setting not in fields:
            known = ", ".join(fields) or "none"
            raise SettingError(
                f'{name} has no setting "{setting}"{did_you_mean(setting, [*fields, *also])}; its settings: {known}'
            )
        if not _fits(value, str(fields[setting].type)):
            raise SettingError(f'the setting "{setting}" of {name} takes {fields[setting].type}, not {value!r}')
    return settings


def _fits(value: object, annotation: str) -> bool:
    kinds = {part.strip() for part in annotation.split("|")}
    if "object" in kinds:
        return True  # the mechanism says itself what it takes
    if isinstance(value, bool):
        return "bool" in kinds
    if isinstance(value, int):
        return bool(kinds & {"int", "float"})
    if "OwnGenerator" in kinds and callable(value) and not isinstance(value, type):
        return True
    return type(value).__name__ in kinds or (value is None and "None" in kinds)
