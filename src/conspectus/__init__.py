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
    from .data.sources import open_records as open_records
    from .data.sources import open_table as open_table
    from .live import open_session as open_session
    from .live import resume_session as resume_session
    from .mechanisms.own_generator import NoisySample as NoisySample
    from .mechanisms.own_generator import OwnGenerator as OwnGenerator
    from .planning import plan as plan
    from .privacy import composition as composition
    from .privacy.ledger import Ledger as Ledger
    from .public_nets import net as net
    from .queries.conjunctions import between as between
    from .queries.conjunctions import conjunctions as conjunctions
    from .queries.intervals import prefixes as prefixes
    from .queries.intervals import ranges as ranges
    from .queries.language import sql as sql
    from .queries.low_sensitivity import unsafe_functions as unsafe_functions
    from .queries.marginals import marginal as marginal
    from .queries.marginals import marginals as marginals
    from .queries.parities import parities as parities
    from .queries.query import Workload as Workload
    from .queries.random_conjunctions import random_conjunctions as random_conjunctions
    from .queries.supports import overlap as overlap
    from .queries.supports import sparse as sparse
    from .queries.supports import sparse_arrays as sparse_arrays
    from .queries.table_functions import independence_distances as independence_distances
    from .queries.table_functions import independence_gaps as independence_gaps
    from .queries.table_functions import interval_balances as interval_balances
    from .queries.table_functions import kolmogorov_distances as kolmogorov_distances
    from .queries.table_functions import mode_shares as mode_shares
    from .queries.table_functions import quantile_shares as quantile_shares
    from .queries.table_functions import satisfied_shares as satisfied_shares
    from .queries.table_functions import truncated_means as truncated_means
    from .releases import Release as Release
    from .releases import load as load
    from .releasing import release as release

__version__ = "0.1.0"

# Loaded when first used: `conspectus --help` must not wait for compilers and databases.
_HOMES = {
    "Schema": "data.schema",
    "open_records": "data.sources",
    "open_table": "data.sources",
    "open_pairs": "data.sources",
    "NoisySample": "mechanisms.own_generator",
    "OwnGenerator": "mechanisms.own_generator",
    "plan": "planning",
    "Ledger": "privacy.ledger",
    "net": "public_nets",
    "release": "releasing",
    "Release": "releases",
    "load": "releases",
    "open_session": "live",
    "resume_session": "live",
    "between": "queries.conjunctions",
    "conjunctions": "queries.conjunctions",
    "random_conjunctions": "queries.random_conjunctions",
    "marginal": "queries.marginals",
    "marginals": "queries.marginals",
    "ranges": "queries.intervals",
    "prefixes": "queries.intervals",
    "parities": "queries.parities",
    "sql": "queries.language",
    "unsafe_functions": "queries.low_sensitivity",
    "independence_distances": "queries.table_functions",
    "independence_gaps": "queries.table_functions",
    "interval_balances": "queries.table_functions",
    "kolmogorov_distances": "queries.table_functions",
    "mode_shares": "queries.table_functions",
    "quantile_shares": "queries.table_functions",
    "satisfied_shares": "queries.table_functions",
    "truncated_means": "queries.table_functions",
    "sparse": "queries.supports",
    "sparse_arrays": "queries.supports",
    "overlap": "queries.supports",
    "Workload": "queries.query",
}
_MODULES = {"composition": "privacy.composition"}
__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{_MODULES[name]}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'conspectus' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if inspect.isfunction(value):
        value = spelled(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
