"""What queries need to know of a schema: its domain, and which codes a comparison means.

A schema satisfies these roles without knowing them; queries never import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conspectus.data.domain import Domain
from conspectus.data.records.field import P
from conspectus.data.schema import Schema
from conspectus.queries.sensitivity import WorkloadError
from conspectus.suggestions import closest
from conspectus.whole_numbers import MOST_SEED, whole


class UnknownColumn(WorkloadError, LookupError):
    """A query about a column that the schema does not have."""


def check_schema(schema: object) -> None:
    """Refuse anything that is no schema: the arguments may stand in the wrong order."""
    if not isinstance(getattr(schema, "domain", None), Domain) or not callable(getattr(schema, "column", None)):
        cure = ": take table.schema" if hasattr(schema, "schema") and hasattr(schema, "domain") else ""
        raise WorkloadError(
            f"a schema is needed here, as cs.Schema.load reads one, not a {type(schema).__name__}{cure}"
        )


def check_listable(schema: Schema, columns: Iterable[int]) -> None:
    """Refuse questions about every value of a column that holds records of any kind: nobody can list them."""
    for column in columns:
        if schema.domain.sizes[column] == P:
            name = schema.domain.names[column]
            raise WorkloadError(
                f"the column {name!r} holds records of any kind, and not all of them can be listed: "
                "ask about some, by their values or with cs.sparse"
            )


def told(value: object) -> str:
    """A value as it is shown in a message: written out where that is short."""
    if isinstance(value, int) and not whole(value, -MOST_SEED, MOST_SEED) and not isinstance(value, bool):
        return "a number of more than 18 digits"  # one of thousands cannot even be written
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"


def listed(given: Any, what: str) -> list[Any]:
    """The items of a list or another iterable; a single text, mapping or number is refused, with the form it takes."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        raise WorkloadError(f"{what}, not a {type(given).__name__}")
    return list(given)


def pairs_of(given: Any, what: str) -> list[tuple[Any, Any]]:
    """A list of pairs, each checked to be one."""
    found = listed(given, what)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in found):
        raise WorkloadError(f"{what}, and each of them has two parts")
    return [(first, second) for first, second in found]


def position(schema: Schema, name: str) -> int:
    """Where a column stands, or a refusal that names the closest one."""
    check_schema(schema)
    names = schema.domain.names
    if not isinstance(name, str):
        raise WorkloadError(f"a column is given by its name, a text, not by a {type(name).__name__}")
    if name in names:
        return names.index(name)
    raise UnknownColumn(f"there is no column {name!r} in the schema{_closest(name, names)}")


def positions(schema: Schema, names: Iterable[str]) -> tuple[int, ...]:
    """Where several columns stand, in the order given; each may be named once."""
    check_schema(schema)
    given = [names] if isinstance(names, str) else listed(names, "columns are given as a list of names")
    found = tuple(position(schema, name) for name in given)
    if len(set(found)) != len(found):
        raise WorkloadError("a column was named twice: name each column once")
    return found


def _closest(name: str, names: tuple[str, ...]) -> str:
    if (near := closest(name, names)) is not None:
        return f": did you mean {near!r}?"
    return f": its columns are {', '.join(names[:12])}" + (", …" if len(names) > 12 else "")
