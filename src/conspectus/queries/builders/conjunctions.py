"""Conjunctions and how to ask for them: marginals, intervals, listed and random conjunctions under one roof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

from conspectus.data.code_sets import CodeSet, common, together
from conspectus.data.domain import Domain
from conspectus.queries.block import check_length
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

from .arguments import DeclaredColumn, DeclaredSchema, check_schema, listed, position
from .intervals import prefixes, ranges
from .marginals import marginal, marginals
from .random_conjunctions import random_conjunctions

__all__ = [
    "Between",
    "Conjunctions",
    "Intervals",
    "Marginal",
    "always",
    "between",
    "conjunctions",
    "marginal",
    "marginals",
    "prefixes",
    "random_conjunctions",
    "ranges",
]


@dataclass(frozen=True)
class Between:
    """Values from `low` to `high`, both included."""

    low: object
    high: object


def between(low: object, high: object) -> Between:
    """All values from `low` to `high`, both included, for use in `conjunctions`."""
    return Between(low, high)


_ROWS = "conjunctions are mappings from columns to values, given as a list such as [{'sex': 'female'}]"


def conjunctions(
    schema: DeclaredSchema, rows: Iterable[Mapping[str, object]] | Mapping[str, object], *, snap: bool = False
) -> Workload:
    """One query for each mapping from columns to a value, a list of values (any of them), or `between(low, high)`.

    None stands for a missing value; a single mapping is one query. `snap` widens an interval that cuts a bin to the
    whole bin.
    """
    check_schema(schema)
    predicates = []
    for row in [rows] if isinstance(rows, Mapping) else listed(rows, _ROWS):
        if not isinstance(row, Mapping):
            raise WorkloadError(f"{_ROWS}, not of {type(row).__name__}")
        box = []
        for name, value in row.items():
            at = position(schema, name)
            codes = _codes(schema.column(name), value, snap=snap)
            if len(codes) < schema.domain.sizes[at]:
                box.append((at, codes))
        possible = all(codes for _, codes in box)
        predicates.append(
            Predicate((tuple(Literal(at, codes) for at, codes in sorted(box, key=itemgetter(0))),) if possible else ())
        )
    check_length(len(predicates), "this list of conjunctions")
    return Workload(schema.domain, (Conjunctions.of(schema.domain, predicates),))


def _codes(column: DeclaredColumn, value: object, *, snap: bool) -> CodeSet:
    if isinstance(value, Between):
        return common(column.codes_where(">=", value.low, snap=snap), column.codes_where("<=", value.high, snap=snap))
    if isinstance(value, list | tuple | set | frozenset):
        return together(_codes(column, one, snap=snap) for one in value)
    return column.null_codes() if value is None else column.codes_where("=", value, snap=snap)


def always(domain: Domain) -> Workload:
    """The one question that is true on every row: how many are there?"""
    return Workload(domain, (Conjunctions.of(domain, [Predicate(((),))]),))
