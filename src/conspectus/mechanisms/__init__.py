"""The theorems, by the names that users type."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from conspectus.spelling import meant

from .mechanism import Mechanism, NoMechanism, SettingError
from .offline.additive import Gaussian, Laplace
from .offline.boosting import Boosting
from .offline.dual_query import DualQuery
from .offline.iterative_construction import IterativeConstruction
from .offline.mwem import Mwem
from .offline.net import NetMechanism
from .offline.projection import Projection
from .offline.small_db import SmallDb
from .offline.sparse_project import SparseProject
from .offline.stable_histogram import StableHistogram
from .online.median import Median
from .online.multiplicative_weights import Pmw
from .online.perceptron import Perceptron
from .online.sparse_weights import SparseMw
from .rule import Rule

OFFLINE: dict[str, type[Mechanism]] = {
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


ONLINE: dict[str, type[Rule]] = {kind.name: kind for kind in (Pmw, SparseMw, Median, Perceptron)}


def make(name: str, settings: Mapping[str, Any], *, also: Iterable[str] = ()) -> Mechanism:
    """The mechanism of this name with these settings; a misspelt one is answered with the right one.

    `also` are words that the caller knows itself, which a misspelt setting may have meant.
    """
    if name not in OFFLINE:
        live = ": it answers live sessions, see open_session" if name in ONLINE else meant(name, OFFLINE)
        raise NoMechanism(f'no mechanism is called "{name}"{live}; there are {", ".join(OFFLINE)}')
    return OFFLINE[name](**_checked(name, settings, settings_of(name), also))


def make_rule(name: str, settings: Mapping[str, Any], *, also: Iterable[str] = ()) -> Rule:
    """The online mechanism of this name with these settings, checked in the same way."""
    if name not in ONLINE:
        whole = ": it answers a whole workload, see release" if name in OFFLINE else meant(name, ONLINE)
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
                f'{name} has no setting "{setting}"{meant(setting, [*fields, *also])}; its settings: {known}'
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
