"""Which questions are the same: a question in one form for each meaning, and a key to find its answer by."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from conspectus.data.domain import Domain
from conspectus.data.schema import Schema
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.moments import Moment
from conspectus.queries.blocks.statistic import Statistic, Statistics
from conspectus.queries.canonical_query import canonical_query
from conspectus.queries.language.one_question import one_question
from conspectus.queries.proved_kinds import proved
from conspectus.queries.query import Linear, Predicate, Query, TableFunction
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import MIXED, Workload
from conspectus.releases.answer import standing_notes


@dataclass(frozen=True, eq=False)
class Question:
    """A workload of one query in its canonical form, as a text, and its key: equal for questions that mean the same.

    `words` is the question that is answered as a predicate, None for a workload; `notes` is what to say besides.
    """

    workload: Workload
    text: str
    key: str
    words: str | None = None
    notes: tuple[str, ...] = ()


def canonical(schema: Schema, question: str | Workload, *, snap: bool = False) -> Question:
    """The question in its one form: a predicate as the disjoint boxes of its meaning, whoever spelled it."""
    if isinstance(question, Workload) and proved(question).domain != schema.domain:
        raise WorkloadError(MIXED)
    asked, words, notes = one_question(schema, question, snap=snap)
    if words is None:
        asked = _normal(asked)
    notes = (*notes, *standing_notes(schema))
    text = json.dumps([block.to_json() for block in asked.blocks], separators=(",", ":"), sort_keys=True)
    return Question(asked, text, hashlib.sha256(text.encode()).hexdigest(), words, notes)


def stored(domain: Domain, blocks: list[object]) -> Workload:
    """Questions from the JSON values of their texts, one after the other."""
    return Workload.from_json({**Workload(domain, ()).to_json(), "blocks": blocks})


def _normal(question: Workload) -> Workload:
    domain = question.domain
    query: Query = question.query(0)
    (block,) = [block for block in question.blocks if len(block)]
    if isinstance(block, Conjunctions) and isinstance(query, Predicate) and len(query.boxes) == 1:
        return Workload(domain, (block,))
    if isinstance(query, Moment):
        raise WorkloadError("a sum, mean, variance or covariance is answered by ask(…), from its parts")
    if isinstance(query, Statistic):
        return Workload(domain, (Statistics(domain, (query,)),))
    if isinstance(query, TableFunction):
        raise WorkloadError(
            "a session answers counts of records and functions whose sensitivity is proved, and this one's was "
            "declared: release it instead"
        )
    meaning = canonical_query(domain, query)
    if isinstance(meaning, Linear):
        return Workload(domain, (LinearQueries.of(domain, [meaning]),))
    if not isinstance(meaning, Predicate):
        return question[0] if len(question.blocks) == 1 else question
    return Workload(domain, (Conjunctions.of(domain, [meaning]),))
