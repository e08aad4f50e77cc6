"""Workloads from JSON: everything is checked, nothing is trusted.

A sensitivity is proved of what the builders make. So each block that is read is built again, and refused where the
builder would have written another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from conspectus.data.code_sets import of_runs
from conspectus.data.domain import Domain

from .block import MOST_QUERIES, Block, total_length
from .blocks.conjunction_list import Conjunctions
from .blocks.dyadic_tree import DyadicTree
from .blocks.interval_list import Intervals
from .blocks.linear_queries import read_linear
from .blocks.marginal import Marginal
from .blocks.moments import Moments, check_weighed, read_moments
from .blocks.parity_list import Parities, ParityList
from .blocks.sparse_queries import read_sparse
from .blocks.statistic import read_statistics
from .blocks.unsafe_functions import read_functions, told_apart
from .distinct import LISTINGS
from .formulas import MOST_BOXES
from .query import Literal
from .sensitivity import WorkloadError
from .stored_parts import REFUSAL, integers

_FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "marginal": {"columns": list},
    "ranges": {"column": int, "regular": int},
    "prefixes": {"column": int, "regular": int},
    "tree": {"column": int, "columns": list, "fanout": int},
    "parities": {"columns": list, "k": int},
    "parity-list": {"sets": list},
    "statistics": {"given": list, "classes": list, "functions": list},
    "unsafe-functions": {"whole": int, "functions": list},
    "linear": {"given": Mapping, "weightings": list, "which": list},
    "moments": {"given": Mapping, "numbers": list, "functions": list},
    "sparse": {"grid": int, "offsets": str, "addresses": str, "steps": (str, type(None))},
    "conjunctions": {"literals": list, "width": int, "terms": list, "starts": (list, type(None))},
}


def read_blocks(stored: object) -> tuple[Domain, tuple[Block, ...]]:
    """The table and the blocks of the workload in a JSON value, or a `WorkloadError` that says what is wrong."""
    fields = _mapping(stored, "it is no object")
    if fields.get("format") != "conspectus-workload" or fields.get("version") != 1:
        raise WorkloadError(REFUSAL + "its format is not conspectus-workload, version 1")
    names, sizes, blocks = (fields.get(name) for name in ("columns", "sizes", "blocks"))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise WorkloadError(REFUSAL + "columns must be a list of names")
    if not isinstance(blocks, list):
        raise WorkloadError(REFUSAL + "blocks must be a list")
    try:
        domain = Domain(tuple(names), tuple(_integers(sizes, "sizes").tolist()))
    except ValueError as problem:
        raise WorkloadError(f"{REFUSAL}{problem}") from problem
    read = total_length((_block(domain, block) for block in blocks), "this workload")
    check_weighed([block for block in read if isinstance(block, Moments)])
    return domain, told_apart(read)


def _block(domain: Domain, stored: object) -> Block:
    fields = _mapping(stored, "a block is no object")
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise WorkloadError(REFUSAL + "it has a block of an unknown kind")
    for name, expected in _FIELDS[kind].items():
        value = fields.get(name)
        if name not in fields or not isinstance(value, expected) or isinstance(value, bool):
            raise WorkloadError(f"{REFUSAL}a block of {kind} lacks a proper {name!r}")
    for name in ("columns", "sets"):
        for value in fields.get("sets", ()) if name == "sets" else [fields.get("columns", [])]:
            _integers(value, name)
    block = _READERS[kind](domain, fields)
    # What lists its questions is built again by taking all of them.
    rebuilt = block.take(np.arange(len(block))) if isinstance(block, LISTINGS) else block
    if rebuilt != block or block.to_json() != fields:
        raise WorkloadError(f"{REFUSAL}a block of {kind} is spelled in another way than it is written")
    return block


def _conjunctions(domain: Domain, fields: Mapping[str, Any]) -> Conjunctions:
    literals = tuple(_literal(domain, entry) for entry in fields["literals"])
    width, terms = fields["width"], _integers(fields["terms"], "terms")
    if width < 0 or width > len(domain) or (width == 0 and len(terms)) or (width and len(terms) % width):
        raise WorkloadError(REFUSAL + "its boxes do not have the stated width")
    if len(terms) and (terms.min() < -1 or terms.max() >= len(literals)):
        raise WorkloadError(REFUSAL + "a box speaks of a literal that is not there")
    starts = None if fields["starts"] is None else _integers(fields["starts"], "starts")
    if width == 0 and starts is None:
        raise WorkloadError(REFUSAL + "boxes without literals need the starts of their queries")
    boxes = len(terms) // width if width else int(starts[-1]) if starts is not None and len(starts) else 0
    if boxes > MOST_QUERIES or boxes < 0:
        raise WorkloadError(REFUSAL + "it has more boxes than memory allows")
    rows = terms.reshape(boxes, width).astype(np.int32)
    bounds = np.arange(boxes + 1, dtype=np.int64) if starts is None else starts
    if (np.diff(bounds) > MOST_BOXES).any():
        raise WorkloadError(f"{REFUSAL}a query has more than {MOST_BOXES} boxes")
    return Conjunctions(domain, literals, rows, bounds)


_READERS: dict[str, Callable[[Domain, Mapping[str, Any]], Block]] = {
    "marginal": lambda domain, stored: Marginal(domain, tuple(stored["columns"])),
    "ranges": lambda domain, stored: Intervals(domain, stored["column"], stored["regular"], False),
    "prefixes": lambda domain, stored: Intervals(domain, stored["column"], stored["regular"], True),
    "parities": lambda domain, stored: Parities(domain, tuple(stored["columns"]), stored["k"]),
    "parity-list": lambda domain, stored: ParityList(domain, tuple(map(tuple, stored["sets"]))),
    "tree": lambda domain, stored: DyadicTree(domain, stored["column"], tuple(stored["columns"]), stored["fanout"]),
    "statistics": read_statistics,
    "unsafe-functions": read_functions,
    "linear": lambda domain, stored: read_linear(domain, _block(domain, stored["given"]), stored),
    "moments": lambda domain, stored: read_moments(domain, _block(domain, stored["given"]), stored),
    "sparse": read_sparse,
    "conjunctions": _conjunctions,
}
"""How each kind of block is read back."""


def _literal(domain: Domain, entry: object) -> Literal:
    values = integers(entry, "literals must be lists of integers")
    if len(values) < 3 or len(values) % 2 == 0 or not 0 <= values[0] < len(domain):
        raise WorkloadError(REFUSAL + "a literal is a column and the first and last code of each run")
    column, size = values[0], domain.sizes[values[0]]
    runs: list[tuple[int, int]] = []
    for first, last in zip(values[1::2], values[2::2]):
        if not 0 <= first <= last < size or (runs and first <= runs[-1][1] + 1):
            raise WorkloadError(REFUSAL + "the codes of a literal are sorted runs inside its column")
        runs.append((first, last))
    return Literal(column, of_runs(runs))


def _mapping(stored: object, problem: str) -> Mapping[str, Any]:
    if not isinstance(stored, Mapping):
        raise WorkloadError(REFUSAL + problem)
    return stored


def _integers(values: object, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A list of JSON integers that fit into 64 bits."""
    return np.array(integers(values, f"{name} must be a list of integers of 64 bits"), dtype=np.int64)
