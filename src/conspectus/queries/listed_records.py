"""The records of one query, listed when it is asked: their addresses and weights, however large the universe.

An address is linear in the codes of its record, modulo p: row-major numbers are, and so is the fingerprint of a tuple.
So the records of a box are one sum for the columns that it fixes and a few additions for those that it leaves open.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled
from conspectus.data.domain import Domain
from conspectus.data.records.field import Elements, P, reduced, times
from conspectus.data.records.fingerprints import tuple_powers
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.query import cells_of

from .addresses import exact
from .query import Box, Linear, Parity, Predicate, Sparse
from .sensitivity import WorkloadError
from .workload import Workload

Listed = tuple[Elements, NDArray[np.float64]]
"""Addresses of records and their weights in [0, 1]."""


@lru_cache(maxsize=64)
def address_form(domain: Domain) -> tuple[int, NDArray[np.uint64]]:
    """c and f with address = c + Σ f·code modulo p."""
    if len(domain) == 1 or exact(domain):
        strides = [math.prod(domain.sizes[place + 1 :]) for place in range(len(domain))]
        return 0, np.array(strides, dtype=np.uint64)
    return tuple_powers(len(domain))


def listed_records(query: Workload, most: int) -> Listed:
    """The records that a workload of one query gives weight to; refused where there are more than `most`."""
    (block,) = [block for block in query.blocks if len(block)]
    if isinstance(block, SparseQueries):
        if len(block.addresses) > most:
            raise WorkloadError(_too_many(len(block.addresses), most))
        return block.addresses, block.steps / block.grid
    asked = query.query(0)
    if not isinstance(asked, Predicate):
        names: dict[type, str] = {Sparse: "a list of records", Parity: "a parity", Linear: "a sum of values"}
        detail = names.get(type(asked), "a function of the whole table")
        raise WorkloadError(f"{detail} cannot be written out here: ask for conjunctions, or with cs.sparse")
    domain = query.domain
    size = sum(cells_of(box, domain.sizes) for box in asked.boxes)
    if size > most:
        raise WorkloadError(_too_many(size, most))
    held = supports(asked.boxes, domain)
    return held, np.ones(len(held))


def _too_many(size: int, most: int) -> str:
    shown = f"{size:,}" if size < 10**9 else "far more"
    return f"this question lists {shown} records (sparsity is {most:,}): fix more columns, or declare a larger sparsity"


def supports(boxes: Iterable[Box], domain: Domain) -> Elements:
    """The addresses of the records of some boxes, box by box."""
    return np.concatenate([np.zeros(0, dtype=np.uint64), *(_support(box, domain) for box in boxes)])


def _support(box: Box, domain: Domain) -> Elements:
    """The addresses of the records of a box."""
    constant, factors = address_form(domain)
    codes = np.zeros(len(domain), dtype=np.uint64)
    open_columns: dict[int, Any] = {column: range(size) for column, size in enumerate(domain.sizes) if size > 1}
    for literal in box:
        if len(literal.codes) == 1:
            codes[literal.column] = literal.codes[0]
            open_columns.pop(literal.column, None)
        else:
            open_columns[literal.column] = literal.codes
    found = np.array([_sum(np.uint64(constant), factors, codes)], dtype=np.uint64)
    for column, values in open_columns.items():
        shifts = _shifts(factors[column], np.array(values, dtype=np.uint64))
        found = (found[:, None] + shifts[None, :]).ravel()
        found = np.where(found >= np.uint64(P), found - np.uint64(P), found)
    return found


@compiled
def _sum(constant: Any, factors: Any, codes: Any) -> Any:
    total = constant
    for place in range(len(codes)):
        if codes[place]:
            total = reduced(total + times(factors[place], codes[place]))
    return total


@compiled
def _shifts(factor: Any, codes: Any) -> Any:
    found = np.empty(len(codes), dtype=np.uint64)
    for place in range(len(codes)):
        found[place] = times(factor, codes[place])
    return found
