"""Sums, means, variances and covariances put to a session: its questions are their parts, and the rest follows.

A session answers linear queries, and a moment is computed from few of them (`queries/blocks/moments.py`): two for a
mean, whatever the number of values of its column. Each part is a question like any other: answered once, kept, and free
when it is asked again.
"""

from __future__ import annotations

import numpy as np

from conspectus.data.domain import Domain
from conspectus.data.schema import Schema
from conspectus.mechanisms.bounds import Margin
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.moments import Moment
from conspectus.queries.workload import Workload
from conspectus.releases.numbers_from_parts import with_rest
from conspectus.synopses.moment_estimates import MomentEstimate, estimate_boxed, estimate_noisy
from conspectus.synopses.noisy_vectors import NoisyVector
from conspectus.synopses.synopsis import Total

from .given_answer import Given
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


def from_parts(domain: Domain, moment: Moment, found: list[Given], total: Total, confidence: float) -> MomentEstimate:
    """A moment from what the session said of its parts."""
    known = total.value if total.exact and moment.complete(domain) else None
    counts = np.array([given.count for given in found])
    margins = [given.margin for given in found if given.margin is not None]
    laws = [law for margin in margins if (law := law_of(margin)) is not None]
    if len(laws) == len(found):
        listed = tuple((Noise(law.kind, law.scale * grid), grid) for law, grid in laws)
        vector = NoisyVector(counts, np.eye(len(counts)), listed)
        vector = vector if known is None else with_rest(vector, known)
        return estimate_noisy(moment, vector, confidence, total.value + total.margin((1 + confidence) / 2))
    each = 1 - (1 - confidence) / len(found)
    return estimate_boxed(moment, [given.estimate(each, total) for given in found], known)


def law_of(margin: Margin) -> tuple[Noise, int] | None:
    """The law of a count that was measured with one noise, and its grid; None for any other."""
    plain = margin.offset == 0 and margin.summed is None and not margin.mixed
    one = plain and len(margin.noises) == 1 and margin.noises[0][1] == 1
    return (margin.noises[0][0], margin.grid) if one else None
