"""Conspectus: private query release.

A table about people, questions about it and a privacy budget go in; a synopsis that is safe to publish comes out.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from .spelling import spelled

if TYPE_CHECKING:
    from .data.schema import Schema as Schema
    from .data.sources import open_pairs as open_pairs
    from .data.sources import open_table as open_table
    from .planning import plan as plan
    from .privacy.ledger import Ledger as Ledger
    from .queries.conjunctions import between as between
    from .queries.conjunctions import conjunctions as conjunctions
    from .queries.intervals import prefixes as prefixes
    from .queries.intervals import ranges as ranges
    from .queries.language import sql as sql
    from .queries.marginals import marginal as marginal
    from .queries.marginals import marginals as marginals
    from .queries.parities import parities as parities
    from .queries.query import Workload as Workload
    from .queries.random_conjunctions import random_conjunctions as random_conjunctions
    from .releases import Release as Release
    from .releases import load as load
    from .releasing import release as release

__version__ = "0.1.0"

# Loaded when first used: `conspectus --help` must not wait for compilers and databases.
_HOMES = {
    "Schema": "data.schema",
    "open_table": "data.sources",
    "open_pairs": "data.sources",
    "plan": "planning",
    "Ledger": "privacy.ledger",
    "release": "releasing",
    "Release": "releases",
    "load": "releases",
    "between": "queries.conjunctions",
    "conjunctions": "queries.conjunctions",
    "random_conjunctions": "queries.random_conjunctions",
    "marginal": "queries.marginals",
    "marginals": "queries.marginals",
    "ranges": "queries.intervals",
    "prefixes": "queries.intervals",
    "parities": "queries.parities",
    "sql": "queries.language",
    "Workload": "queries.query",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'conspectus' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if inspect.isfunction(value):
        value = spelled(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
