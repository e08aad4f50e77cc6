"""Which questions are the same: a question in one form for each meaning, and a key to find its answer by."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from itertools import product

import numpy as np

from conspectus.data.domain import Domain
from conspectus.data.schema import Schema
from conspectus.queries import language
from conspectus.queries.addresses import exact
from conspectus.queries.formulas import all_of, any_of, literal, predicate, union
from conspectus.queries.predicates import Conjunctions
from conspectus.queries.query import (
    MIXED,
    Literal,
    Parity,
    Predicate,
    Query,
    Sparse,
    TableFunction,
    Workload,
    WorkloadError,
)

_WIDEST_PARITY = 6
"""Parities of more columns are not written as predicates: their boxes double with every column."""

_MOST_LISTED, _WIDEST_COLUMN = 64, 1 << 16
"""Lists of more records, or of columns with more values, stay lists: the boxes of their meaning take long to find."""


@dataclass(frozen=True, eq=False)
class Question:
    """A workload of one query in its canonical form, as a text, and its key: equal for questions that mean the same."""

    workload: Workload
    text: str
    key: str


def canonical(schema: Schema, question: str | Workload, *, snap: bool = False) -> Question:
    """The question in its one form: a predicate as the disjoint boxes of its meaning, whoever spelled it."""
    if isinstance(question, str):
        asked = language.sql(schema, [question], snap=snap)
    elif isinstance(question, Workload):
        if question.domain != schema.domain:
            raise WorkloadError(MIXED)
        if len(question) != 1:
            raise language.NotAPredicate(f"ask takes one question at a time, not {len(question)}")
        asked = _normal(question)
    else:
        raise language.NotAPredicate("ask takes a predicate as a text, or a workload of one query")
    text = json.dumps([block.to_json() for block in asked.blocks], separators=(",", ":"), sort_keys=True)
    return Question(asked, text, hashlib.sha256(text.encode()).hexdigest())


def stored(domain: Domain, blocks: list[object]) -> Workload:
    """Questions from the JSON values of their texts, one after the other."""
    return Workload.from_json({**Workload(domain, ()).to_json(), "blocks": blocks})


def _normal(question: Workload) -> Workload:
    domain = question.domain
    query: Query = question.query(0)
    (block,) = [block for block in question.blocks if len(block)]
    if isinstance(block, Conjunctions) and isinstance(query, Predicate) and len(query.boxes) == 1:
        return Workload(domain, (block,))
    if isinstance(query, TableFunction):
        raise WorkloadError(
            "a session answers counts of records, and this is a function of the whole table: release it instead"
        )
    if isinstance(query, Parity) and len(query.columns) <= _WIDEST_PARITY:
        query = _boxes_of(domain, query)
    if isinstance(query, Sparse) and _few_whole(domain, query):
        query = _cells_of(domain, query)
    if not isinstance(query, Predicate):
        return question[0] if len(question.blocks) == 1 else question
    # The boxes of a listed predicate need not be those that its meaning alone would give.
    meaning = query if len(query.boxes) == 1 else union(domain, query.boxes)
    return Workload(domain, (Conjunctions.of(domain, [meaning]),))


def _boxes_of(domain: Domain, parity: Parity) -> Predicate:
    even = [codes for codes in product((0, 1), repeat=len(parity.columns)) if sum(codes) % 2 == 0]
    wholes = [
        all_of(domain, [literal(domain, column, (code,)) for column, code in zip(parity.columns, codes)])
        for codes in even
    ]
    return predicate(domain, any_of(domain, wholes))


def _few_whole(domain: Domain, listed: Sparse) -> bool:
    """Whether a list of records, each with the weight 1, is short enough to be written as a predicate."""
    plain = all(steps == listed.grid for steps in listed.steps)
    return plain and len(listed.addresses) <= _MOST_LISTED and exact(domain) and max(domain.sizes) <= _WIDEST_COLUMN


def _cells_of(domain: Domain, listed: Sparse) -> Predicate:
    codes = np.unravel_index(np.array(listed.addresses, dtype=np.int64), domain.sizes)
    records = np.stack(codes, axis=1).tolist()
    return union(domain, [tuple(Literal(column, (code,)) for column, code in enumerate(record)) for record in records])
