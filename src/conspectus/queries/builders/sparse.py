"""How sparse queries are asked: weights of records, lists of records, arrays, and predicates written out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import RECORDS, Domain, in_words
from conspectus.data.records.field import Elements, P
from conspectus.data.records.fingerprints import fingerprints
from conspectus.data.schema import Schema
from conspectus.queries.addresses import addresses
from conspectus.queries.block import check_length
from conspectus.queries.blocks.sparse_queries import MOST_ENTRIES, SparseQueries
from conspectus.queries.listed_records import supports
from conspectus.queries.ordering import starts_of
from conspectus.queries.query import WEIGHT_STEPS, Predicate, cells_of
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

from .arguments import check_schema, listed

_ARRAYS = (pa.Array, pa.ChunkedArray, np.ndarray)


def sparse(mappings: Iterable[Any] | Workload, schema: Schema | None = None) -> Workload:
    """One query per mapping from record to weight in [0, 1]; the answer is Σ weight·count / n.

    Weights are rounded to the nearest 1/65,536, and those above 0 never to 0; intervals allow for it.

    Args:
        mappings: the queries. In place of a mapping a list, a set or an array of records gives each the weight 1. For
            `open_records` a record is any value; with a schema it is a tuple of values in the order of its columns, or
            a mapping from column to value. A workload of conjunctions or other predicates is written out, each as the
            list of all records that satisfy it: 2^k of them for a conjunction on all but k two-valued columns.
        schema: the declaration of the table; None for records of any kind.

    Returns:
        A workload with one query for each mapping.

    Raises:
        WorkloadError: a weight is not in [0, 1], a record is none of the table, or the records are too many.

    Example:
        >>> len(cs.sparse([{"10.0.0.1": 1.0, "10.0.0.2": 0.5}, ["10.0.0.3"]]))
        2
        >>> len(cs.sparse([[("female", 35, True, "none")]], schema))
        1
    """
    if isinstance(mappings, Workload):
        return _workload(written_out(mappings))
    queries = listed(mappings, "sparse takes a list of mappings, one for each query (write [mapping] for a single one)")
    check_length(len(queries), "this workload")
    for query in queries:
        if not isinstance(query, (Mapping, list, set, frozenset, *_ARRAYS)):
            raise WorkloadError(
                f"a sparse query is a mapping from record to weight, or a list of records, not a {type(query).__name__}"
            )
    weights = [
        _weights(_values(query)) if isinstance(query, Mapping) else np.full(len(query), WEIGHT_STEPS, dtype=np.uint32)
        for query in queries
    ]
    steps = np.concatenate([np.zeros(0, dtype=np.uint32), *weights])
    offsets = starts_of([len(query) for query in queries])
    return _workload(SparseQueries.build(_domain(schema), offsets, _located(queries, schema), steps))


def overlap(records: Any, schema: Schema | None = None) -> Workload:
    """How many rows are among these records? One query, as in "who of this study is in the table".

    Args:
        records: the records, a list or an array; one that is listed twice counts once.
        schema: the declaration of the table; None for records of any kind.

    Returns:
        A workload of one query.

    Raises:
        WorkloadError: what was given is no list of records of the table.

    Example:
        >>> len(cs.overlap(["ada@example.org", "grace@example.org"]))
        1
    """
    if not isinstance(records, _ARRAYS) or getattr(records, "ndim", 1) == 0:
        records = listed(records, "overlap takes a list of records (write [record] for a single one)")
    return sparse([records], schema)


def sparse_arrays(
    records: Any,
    offsets: Sequence[int] | NDArray[Any],
    *,
    weights: Sequence[float] | NDArray[Any] | None = None,
    schema: Schema | None = None,
) -> Workload:
    """Sparse queries from arrays: query i has the records from `offsets[i]` up to `offsets[i + 1]`.

    Args:
        records: an array of values, or with a schema a matrix of codes, one row for each record.
        offsets: where each query starts, from 0 on, and at the end the number of records.
        weights: the weight of each record, in [0, 1]; 1 by default.
        schema: the declaration of the table; None for records of any kind.

    Returns:
        A workload with one query for each pair of neighbouring offsets.

    Raises:
        WorkloadError: the arrays do not fit together, or hold what a record or a weight cannot be.

    Example:
        >>> len(cs.sparse_arrays(["a", "b", "c"], [0, 1, 3], weights=[1.0, 0.5, 0.5]))
        2
    """
    domain = _domain(schema)
    starts = _numbers(offsets, "offsets are whole numbers: where each query starts, and the end")
    if not isinstance(records, _ARRAYS) or getattr(records, "ndim", 1) == 0:
        records = listed(records, "records are an array or a list of values")
    if schema is not None and not _is_records(domain):
        matrix = f"records are a matrix of codes with {len(domain)} columns, one for each of the schema"
        codes = _numbers(records, matrix)
        if codes.ndim != 2 or codes.shape[1] != len(domain) or codes.dtype.kind not in "iu":
            raise WorkloadError(matrix)
        if codes.size and ((codes < 0).any() or (codes.max(axis=0) >= np.array(domain.sizes)).any()):
            raise WorkloadError("a record has a code that its column does not have")
        held = addresses(domain, list(codes.T), len(codes))
    else:
        held = fingerprints(records)
    ends = starts.ndim == 1 and starts.dtype.kind in "iu" and len(starts) and starts[0] == 0 and starts[-1] == len(held)
    if not ends or (starts[1:] < starts[:-1]).any():
        raise WorkloadError("offsets run from 0 up to the number of records: where each query starts, and the end")
    steps = np.full(len(held), WEIGHT_STEPS, dtype=np.uint32)
    if weights is not None:
        steps = _weights(weights)
        if steps.shape != held.shape:
            raise WorkloadError("give one weight for each record")
    return _workload(SparseQueries.build(domain, starts.astype(np.int64), held, steps))


def _workload(block: SparseQueries) -> Workload:
    return Workload(block.domain, (block,))


def _domain(schema: Schema | None) -> Domain:
    if schema is not None:
        check_schema(schema)
    return RECORDS if schema is None else schema.domain


def _is_records(domain: Domain) -> bool:
    """Whether a table is one column of records of any kind."""
    return domain.sizes == (P,)


def _values(query: Mapping[Any, Any]) -> NDArray[np.float64] | list[Any]:
    """The weights of one query, at once where they are all numbers."""
    try:
        return np.fromiter(query.values(), dtype=np.float64, count=len(query))
    except (TypeError, ValueError):
        return list(query.values())


def _numbers(given: Any, what: str) -> NDArray[Any]:
    """An array of numbers from whatever was given; anything else is refused, with what it should be."""
    try:
        found = np.asarray(given)
    except (TypeError, ValueError):
        raise WorkloadError(what) from None
    if found.size and found.dtype.kind not in "iuf":
        raise WorkloadError(what)
    return found


def for_records(workload: Workload, domain: Domain) -> Workload:
    """The same questions about records, for a table that calls its one column of records by another name."""
    blocks = [block for block in workload.blocks if isinstance(block, SparseQueries)]
    alike = _is_records(domain) and _is_records(workload.domain)
    if workload.domain == domain or len(blocks) < len(workload.blocks) or not alike:
        return workload
    return Workload(domain, tuple(replace(block, domain=domain) for block in blocks))


def _weights(given: Any) -> NDArray[np.uint32]:
    weights = _numbers(given, "the weights of a sparse query are numbers in [0, 1]").astype(np.float64)
    if not ((weights >= 0) & (weights <= 1)).all():
        raise WorkloadError("the weights of a sparse query lie in [0, 1]: divide them by the largest")
    return np.maximum(np.rint(weights * WEIGHT_STEPS), weights > 0).astype(np.uint32)


def _located(queries: Sequence[Any], schema: Schema | None) -> Elements:
    """The addresses of all records of all queries, in order."""
    domain = _domain(schema)
    if schema is None or _is_records(domain):
        if any(isinstance(query, _ARRAYS) for query in queries):
            parts = [fingerprints(q if isinstance(q, _ARRAYS) else list(q)) for q in queries]
            return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)
        return fingerprints(list(chain.from_iterable(queries)))
    plain = (query.to_pylist() if isinstance(query, pa.Array | pa.ChunkedArray) else query for query in queries)
    records = [_tuple(record, domain) for query in plain for record in query]
    columns = [_codes(schema, position, [record[position] for record in records]) for position in range(len(domain))]
    return addresses(domain, columns, len(records))


def _tuple(record: Any, domain: Domain) -> tuple[Any, ...]:
    if isinstance(record, Mapping):
        record = tuple(record.items())
    if isinstance(record, frozenset):
        record = tuple(record)
    if not isinstance(record, tuple | list | np.ndarray) or len(record) != len(domain):
        raise WorkloadError(f"a record is a tuple of {len(domain)} values, in the order of the schema's columns")
    named = all(isinstance(pair, tuple) and len(pair) == 2 and pair[0] in domain.names for pair in record)
    if named and len({pair[0] for pair in record}) == len(domain):
        values = dict(record)
        return tuple(values[name] for name in domain.names)
    return tuple(record)


def _codes(schema: Schema, position: int, values: Sequence[Any]) -> NDArray[np.uint64]:
    """The codes of values of one column; an unknown value is a mistake, and may be told: queries are public."""
    name = schema.domain.names[position]
    column = schema.column(name)
    known: dict[Any, int] = {}
    for value in _distinct(values, name):
        found = column.find(value) if value is not None else None
        if found is not None and column.ordered:
            column.codes_where("=", value, snap=True)  # refuses what lies outside, which a table would clamp
        nulls = column.null_codes()
        if found is None and value is None and nulls:
            found = nulls[0]
        if found is None:
            raise WorkloadError(f"{value!r} is no value of the column {name!r}: write one that the schema lists")
        known[value] = found
    return np.fromiter((known[value] for value in values), dtype=np.uint64, count=len(values))


def _distinct(values: Sequence[Any], name: str) -> set[Any]:
    try:
        return set(values)
    except TypeError:
        raise WorkloadError(f"a value of the column {name!r} is a text, a number, a truth or a date, no list") from None


def written_out(workload: Workload, most: int = MOST_ENTRIES) -> SparseQueries:
    """Predicates as lists of the records that satisfy them, at most this many in all."""
    domain = workload.domain
    predicates = [query for query in workload.queries() if isinstance(query, Predicate)]
    if len(predicates) < len(workload):
        raise WorkloadError("only conjunctions and other predicates can be written out as lists of records")
    sizes = [sum(cells_of(box, domain.sizes) for box in query.boxes) for query in predicates]
    if (total := sum(sizes)) > most:
        raise WorkloadError(f"written out, these questions list {in_words(total)} records (at most {most:,} can be)")
    held = supports((box for query in predicates for box in query.boxes), domain)
    return SparseQueries.build(domain, starts_of(sizes), held, np.full(len(held), WEIGHT_STEPS, dtype=np.uint32))
