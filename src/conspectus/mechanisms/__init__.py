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
from .offline.projection import Projection

OFFLINE: dict[str, type[Mechanism]] = {
    kind.name: kind for kind in (Laplace, Gaussian, Mwem, IterativeConstruction, Projection, Boosting, DualQuery)
}


def make(name: str, settings: Mapping[str, Any], *, also: Iterable[str] = ()) -> Mechanism:
    """The mechanism of this name with these settings; a misspelt one is answered with the right one.

    `also` are words that the caller knows itself, which a misspelt setting may have meant.
    """
    if name not in OFFLINE:
        raise NoMechanism(f'no mechanism is called "{name}"{meant(name, OFFLINE)}; there are {", ".join(OFFLINE)}')
    kind = OFFLINE[name]
    fields = settings_of(name)
    for setting, value in settings.items():
        if setting not in fields:
            known = ", ".join(fields) or "none"
            raise SettingError(
                f'{name} has no setting "{setting}"{meant(setting, [*fields, *also])}; its settings: {known}'
            )
        if not _fits(value, str(fields[setting].type)):
            raise SettingError(f'the setting "{setting}" of {name} takes {fields[setting].type}, not {value!r}')
    return kind(**settings)


def settings_of(name: str) -> dict[str, dataclasses.Field[Any]]:
    """The settings of a mechanism, by name."""
    return {field.name: field for field in dataclasses.fields(OFFLINE[name])}  # type: ignore[arg-type]


def _fits(value: object, annotation: str) -> bool:
    kinds = {part.strip() for part in annotation.split("|")}
    if isinstance(value, bool):
        return "bool" in kinds
    if isinstance(value, int):
        return bool(kinds & {"int", "float"})
    return type(value).__name__ in kinds or (value is None and "None" in kinds)
