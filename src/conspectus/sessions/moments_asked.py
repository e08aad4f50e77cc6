"""Sums, means, variances and covariances put to a session: its questions are their parts, and the rest follows.

A session answers linear queries, and a moment is computed from few of them (`queries/blocks/moments.py`): two for a
mean, whatever the number of values of its column. Each part is a question like any other: answered once, kept, and free
when it is asked again.
"""

from __future__ import annotations

from conspectus.data.schema import Schema
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.moments import Moment
from conspectus.queries.workload import Workload
from conspectus.synopses.synopsis import Total

from .questions import Question, canonical


def moment_of(question: str | Workload) -> Moment | None:
    """The moment that a workload asks for; None where it asks for something else, or for more."""
    if not isinstance(question, Workload) or len(question) != 1:
        return None
    asked = question.query(0)
    return asked if isinstance(asked, Moment) else None


def part_questions(schema: Schema, moment: Moment, total: Total) -> list[Question]:
    """The questions that a moment is computed from; where the number of rows is public, the last one is left out."""
    domain = schema.domain
    parts = moment.parts(domain, total_known=total.exact)
    return [canonical(schema, Workload(domain, (LinearQueries.of(domain, [part]),))) for part in parts]
