"""From what a caller asked for, a name with settings or an object, to a mechanism. A misspelt word is answered."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, cast

from conspectus.queries.builders.arguments import told
from conspectus.suggestions import did_you_mean

from .mechanism import Mechanism, NoMechanism
from .online_mechanism import OnlineMechanism
from .registry import OFFLINE, ONLINE, Entry
from .settings import SettingError


def make(asked: str | Mechanism[Any], settings: Mapping[str, Any], *, also: Iterable[str] = ()) -> Mechanism[Any]:
    """The mechanism that a release asked for.

    Args:
        asked: A name of `OFFLINE`, or an object of one of its classes.
        settings: What the caller gave as keywords; with an object there are none.
        also: Words that the caller knows itself, which a misspelt setting may have meant.

    Raises:
        NoMechanism: there is no such mechanism, or it answers sessions.
        SettingError: it has no such setting, or the value is of another type or out of range.
    """
    return cast("Mechanism[Any]", _made(asked, settings, also, OFFLINE, ONLINE))


def make_online(
    asked: str | OnlineMechanism[Any], settings: Mapping[str, Any], *, also: Iterable[str] = ()
) -> OnlineMechanism[Any]:
    """The mechanism that a session asked for: the same, of `ONLINE`."""
    return cast("OnlineMechanism[Any]", _made(asked, settings, also, ONLINE, OFFLINE))


def settings_of(name: str, entries: Mapping[str, Entry] = OFFLINE) -> dict[str, dataclasses.Field[Any]]:
    """The settings of a mechanism, by name: of one that releases a workload, or of one of these."""
    return {field.name: field for field in dataclasses.fields(entries[name].load())}


def given_settings(mechanism: object) -> dict[str, Any]:
    """The settings of an object that are not the default ones: with its name, enough to make it again."""
    fields = dataclasses.fields(mechanism)  # type: ignore[arg-type]
    values = {field.name: getattr(mechanism, field.name) for field in fields}
    return {field.name: values[field.name] for field in fields if values[field.name] != field.default}


def _made(
    asked: object,
    settings: Mapping[str, Any],
    also: Iterable[str],
    here: Mapping[str, Entry],
    elsewhere: Mapping[str, Entry],
) -> Any:
    online = here is ONLINE
    right = "it answers a whole workload, see release" if online else "it answers live sessions, see open_session"
    if not isinstance(asked, str):
        return _checked_object(asked, settings, here, elsewhere, right)
    if asked not in here:
        hint = f": {right}" if asked in elsewhere else did_you_mean(asked, here)
        what = "online mechanism" if online else "mechanism"
        raise NoMechanism(f'no {what} is called "{asked}"{hint}; there are {", ".join(here)}')
    return here[asked].load()(**_checked(asked, settings, also, here))


def _checked_object(
    asked: Any, settings: Mapping[str, Any], here: Mapping[str, Entry], elsewhere: Mapping[str, Entry], right: str
) -> Any:
    """An object of a registered class, as it is.

    The list of classes is closed. A stranger's class could not overspend, since the curator prices and debits every act
    by itself. But it would run beside the curator, in the same process, where nothing keeps Python code from reaching
    the rows; its claims and bounds would be printed as if we had proved them; and no file could name it for somebody
    who resumes the session elsewhere. Whoever wants one says so: by a line in the registry.
    """
    kind = asked if isinstance(asked, type) else type(asked)
    name = _name_of(kind, here)
    if name is None and _name_of(kind, elsewhere) is not None:
        raise NoMechanism(f"{kind.__name__} is no mechanism for this call: {right}; here there are {_kinds(here)}")
    if name is None:
        raise NoMechanism(
            f"no mechanism is a {kind.__name__}: give a name, or an object of cs.mechanisms: {_kinds(here)}"
        )
    if isinstance(asked, type):
        raise SettingError(f"{kind.__name__} is a class: make an object of it, as in mechanism={kind.__name__}()")
    if settings:
        word = next(iter(settings))
        raise SettingError(
            f'"{word}" was given beside an object: settings go into the object, as in {kind.__name__}({word}=…)'
        )
    _checked(name, {field.name: getattr(asked, field.name) for field in dataclasses.fields(asked)}, (), here)
    return asked


def _kinds(entries: Mapping[str, Entry]) -> str:
    return ", ".join(entry.kind for entry in entries.values())


def _name_of(kind: type, entries: Mapping[str, Entry]) -> str | None:
    """The name of a registered class; None for any other class, a subclass too. Imports only what has its name."""
    return next((name for name, entry in entries.items() if entry.kind == kind.__name__ and entry.load() is kind), None)


def _checked(
    name: str, settings: Mapping[str, Any], also: Iterable[str], here: Mapping[str, Entry]
) -> Mapping[str, Any]:
    fields = settings_of(name, here)
    for setting, value in settings.items():
        if setting not in fields:
            known = ", ".join(fields) or "none"
            raise SettingError(
                f'{name} has no setting "{setting}"{did_you_mean(setting, [*fields, *also])}; its settings: {known}'
            )
        taken = fields[setting].type
        annotation = taken.__name__ if isinstance(taken, type) else str(taken)
        if not _fits(value, annotation):
            raise SettingError(f'the setting "{setting}" of {name} takes {annotation}, not {told(value)}')
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
