"""Conspectus: private query release.

A table about people, questions about it and a privacy budget go in; a synopsis that is safe to publish comes out.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from .suggestions import suggest_keyword

if TYPE_CHECKING:
    from conspectus.data.schema import Schema as Schema
    from conspectus.data.sources import open_pairs as open_pairs
    from conspectus.data.sources import open_records as open_records
    from conspectus.data.sources import open_table as open_table
    from conspectus.mechanisms.boosting.own_generator import NoisySample as NoisySample
    from conspectus.mechanisms.boosting.own_generator import OwnGenerator as OwnGenerator
    from conspectus.privacy.ledger.ledger import Ledger as Ledger
    from conspectus.queries.builders.conjunctions import between as between
    from conspectus.queries.builders.conjunctions import conjunctions as conjunctions
    from conspectus.queries.builders.functions import unsafe_functions as unsafe_functions
    from conspectus.queries.builders.intervals import prefixes as prefixes
    from conspectus.queries.builders.intervals import ranges as ranges
    from conspectus.queries.builders.marginals import marginal as marginal
    from conspectus.queries.builders.marginals import marginals as marginals
    from conspectus.queries.builders.parities import parities as parities
    from conspectus.queries.builders.random_conjunctions import random_conjunctions as random_conjunctions
    from conspectus.queries.builders.sparse import overlap as overlap
    from conspectus.queries.builders.sparse import sparse as sparse
    from conspectus.queries.builders.sparse import sparse_arrays as sparse_arrays
    from conspectus.queries.builders.statistics import independence_distances as independence_distances
    from conspectus.queries.builders.statistics import independence_gaps as independence_gaps
    from conspectus.queries.builders.statistics import interval_balances as interval_balances
    from conspectus.queries.builders.statistics import kolmogorov_distances as kolmogorov_distances
    from conspectus.queries.builders.statistics import mode_shares as mode_shares
    from conspectus.queries.builders.statistics import quantile_shares as quantile_shares
    from conspectus.queries.builders.statistics import satisfied_shares as satisfied_shares
    from conspectus.queries.builders.statistics import truncated_means as truncated_means
    from conspectus.queries.language.from_sql import sql as sql
    from conspectus.queries.language.numbers import covariances as covariances
    from conspectus.queries.language.numbers import means as means
    from conspectus.queries.language.numbers import sums as sums
    from conspectus.queries.language.numbers import variances as variances
    from conspectus.queries.workload import Workload as Workload
    from conspectus.releases.learner import best as best
    from conspectus.releases.planning import plan as plan
    from conspectus.releases.private_bins import quantile_edges as quantile_edges
    from conspectus.releases.public_nets import net as net
    from conspectus.releases.release import Release as Release
    from conspectus.releases.release import load as load
    from conspectus.releases.run import release as release
    from conspectus.releases.series_opening import open_series as open_series
    from conspectus.releases.series_opening import resume_series as resume_series
    from conspectus.service.client import connect as connect
    from conspectus.sessions.forecast import plan_session as plan_session
    from conspectus.sessions.opening import open_session as open_session
    from conspectus.sessions.opening import resume_session as resume_session
    from conspectus.stability.aggregated import aggregated as aggregated
    from conspectus.stability.column_values import column_median as column_median
    from conspectus.stability.column_values import column_mode as column_mode
    from conspectus.stability.column_values import interquartile_range as interquartile_range
    from conspectus.stability.released_value import release_value as release_value
    from conspectus.stability.value_planning import plan_value as plan_value
    from conspectus.stability.value_release import load_value as load_value
    from conspectus.streams.stream import open_stream as open_stream
    from conspectus.streams.stream import resume_stream as resume_stream

    from . import attacks as attacks
    from . import local as local
    from . import mechanisms as mechanisms
    from .privacy import composition as composition

__version__ = "0.1.0"

# Loaded when first used: `conspectus --help` must not wait for compilers and databases.
_HOMES = {
    "Schema": "data.schema",
    "open_records": "data.sources",
    "open_table": "data.sources",
    "open_pairs": "data.sources",
    "NoisySample": "mechanisms.boosting.own_generator",
    "OwnGenerator": "mechanisms.boosting.own_generator",
    "best": "releases.learner",
    "plan": "releases.planning",
    "Ledger": "privacy.ledger.ledger",
    "net": "releases.public_nets",
    "quantile_edges": "releases.private_bins",
    "release": "releases.run",
    "open_series": "releases.series_opening",
    "resume_series": "releases.series_opening",
    "Release": "releases.release",
    "load": "releases.release",
    "open_session": "sessions.opening",
    "plan_session": "sessions.forecast",
    "aggregated": "stability.aggregated",
    "column_median": "stability.column_values",
    "column_mode": "stability.column_values",
    "interquartile_range": "stability.column_values",
    "load_value": "stability.value_release",
    "plan_value": "stability.value_planning",
    "release_value": "stability.released_value",
    "open_stream": "streams.stream",
    "resume_stream": "streams.stream",
    "resume_session": "sessions.opening",
    "connect": "service.client",
    "between": "queries.builders.conjunctions",
    "conjunctions": "queries.builders.conjunctions",
    "random_conjunctions": "queries.builders.random_conjunctions",
    "marginal": "queries.builders.marginals",
    "marginals": "queries.builders.marginals",
    "ranges": "queries.builders.intervals",
    "prefixes": "queries.builders.intervals",
    "parities": "queries.builders.parities",
    "sql": "queries.language.from_sql",
    "sums": "queries.language.numbers",
    "means": "queries.language.numbers",
    "variances": "queries.language.numbers",
    "covariances": "queries.language.numbers",
    "unsafe_functions": "queries.builders.functions",
    "independence_distances": "queries.builders.statistics",
    "independence_gaps": "queries.builders.statistics",
    "interval_balances": "queries.builders.statistics",
    "kolmogorov_distances": "queries.builders.statistics",
    "mode_shares": "queries.builders.statistics",
    "quantile_shares": "queries.builders.statistics",
    "satisfied_shares": "queries.builders.statistics",
    "truncated_means": "queries.builders.statistics",
    "sparse": "queries.builders.sparse",
    "sparse_arrays": "queries.builders.sparse",
    "overlap": "queries.builders.sparse",
    "Workload": "queries.workload",
}
_MODULES = {"attacks": "attacks", "composition": "privacy.composition", "local": "local", "mechanisms": "mechanisms"}
__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{_MODULES[name]}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'conspectus' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if inspect.isfunction(value):
        value = suggest_keyword(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
