"""A growing table that is released again in every period, with one person in it all the time.

Each release alone says little about the person; all of them together are what the shares of a series are cut for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from conspectus.data.schema import Schema
from conspectus.mechanisms.mechanism import Problem
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.noise import SystemSampler, discrete_laplace
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.language.from_sql import sql
from conspectus.releases.series_terms import SeriesTerms

from .plays import Experiment

SCHEMA = Schema.from_dict({"name": "audit", "columns": {"ill": {"type": "boolean"}}})
ASKED = sql(SCHEMA, ["ill"])
PERIODS, WHOLE = 4, Budget(epsilon=1.0)


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """Four periods, in each of which the person is counted."""
    terms = SeriesTerms.of(
        SCHEMA,
        ASKED,
        periods=PERIODS,
        shares=None,
        budget=WHOLE,
        neighbours=neighbours,
        mechanism="laplace",
        objective=None,
        settings={},
    )
    shares = [_scale(neighbours, terms.budget_of(period)) for period in terms.periods]
    yield Experiment(
        name="series",
        neighbours=neighbours,
        views=partial(_seen, shares),
        claim=(1.0, 0.0),
        twin="the whole budget for every period",
        twin_views=partial(_seen, [_scale(neighbours, WHOLE)] * PERIODS),
    )


def _scale(neighbours: Neighbours, budget: Budget) -> float:
    """The noise of one release under a budget."""
    problem = Problem(workload=ASKED, budget=budget, relation=Relation(neighbours, 1, True))
    return problem.law(problem.sensitivity(ASKED), problem.cap).scale


def _seen(scales: list[float], side: int, plays: int) -> NDArray[np.float64]:
    """The sum of the releases of all periods, of a count that grows and holds the person from the first one on."""
    seen = np.zeros(plays)
    for period, scale in enumerate(scales):
        counts = np.full(plays, 10 * period + side, dtype=np.int64)
        seen += discrete_laplace(counts, scale, SystemSampler())
    return seen
