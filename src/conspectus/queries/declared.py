"""What queries need to know of a schema: its domain, and which codes a comparison means.

A schema satisfies these roles without knowing them; queries never import it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Protocol

from conspectus.data.domain import Domain
from conspectus.data.runs import CodeSet

from .query import WorkloadError


class UnknownColumn(WorkloadError, LookupError):
    """A query about a column that the schema does not have."""


class DeclaredColumn(Protocol):
    """One column: ordinary codes first, then those of other and missing values."""

    @property
    def size(self) -> int: ...

    @property
    def ordered(self) -> bool: ...

    @property
    def regular(self) -> int: ...

    @property
    def labels(self) -> tuple[str, ...]: ...

    def codes_where(self, op: str, literal: object, *, snap: bool = False) -> CodeSet: ...

    def find(self, value: object) -> int | None: ...

    def null_codes(self) -> tuple[int, ...]: ...


class DeclaredSchema(Protocol):
    """A domain whose columns have names and values."""

    @property
    def domain(self) -> Domain: ...

    def column(self, name: str) -> DeclaredColumn: ...


def position(schema: DeclaredSchema, name: str) -> int:
    """Where a column stands, or a refusal that names the closest one."""
    names = schema.domain.names
    if name in names:
        return names.index(name)
    raise UnknownColumn(f"there is no column {name!r} in the schema{_closest(name, names)}")


def positions(schema: DeclaredSchema, names: Iterable[str]) -> tuple[int, ...]:
    """Where several columns stand, in the order given; each may be named once."""
    found = tuple(position(schema, name) for name in ([names] if isinstance(names, str) else names))
    if len(set(found)) != len(found):
        raise WorkloadError("a column was named twice: name each column once")
    return found


def _closest(name: str, names: tuple[str, ...]) -> str:
    folded = {known.casefold(): known for known in names}
    close = difflib.get_close_matches(str(name).casefold(), folded, n=1, cutoff=0.5)
    if close:
        return f": did you mean {folded[close[0]]!r}?"
    return f": its columns are {', '.join(names[:12])}" + (", …" if len(names) > 12 else "")
