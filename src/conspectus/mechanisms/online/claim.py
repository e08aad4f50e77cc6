"""What to expect of a session: typical errors, measured, beside what the theorem proves.

The constants say how many hits a rule needs in practice, and how wrong its guesses are then. Nothing is promised by
them: they choose the default number of hits and the default threshold, and they are shown as typical errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from conspectus.mechanisms.expectations import (
    ONLINE_FEWEST_HITS,
    ONLINE_HITS_PER_NAT,
    ONLINE_MAX_OF_TYPICAL,
    ONLINE_MEAN_OF_TYPICAL,
    ONLINE_MEDIAN_ERROR,
    ONLINE_MULTIPLICATIVE_ERROR,
    ONLINE_PERCEPTRON_ERROR,
    ONLINE_PRIMED_ERROR,
    ONLINE_PRIMED_HITS,
    ONLINE_SPARSE_HITS,
)
from conspectus.mechanisms.mechanism import Claim, ErrorBound
from conspectus.mechanisms.online_mechanism import SessionProblem
from conspectus.mechanisms.sparse_vector import FAILURE
from conspectus.privacy.events import Noise

from .parameters import OnlinePlan
from .theorem import CITES, book_level, finest_net, net_size


class Typical(NamedTuple):
    """The hits that a rule needs in practice, and about how wrong its guess is then, in counts."""

    hits: int
    guess_error: float


def primed(law: Noise) -> Typical:
    """A guess that was fitted to marginals with this noise is left with few surprises."""
    return Typical(ONLINE_PRIMED_HITS, law.scale * ONLINE_PRIMED_ERROR)


def multiplicative(problem: SessionProblem, rows: float, hits: int | None) -> Typical:
    """Multiplicative weights from the uniform histogram: all that it knows it learns through its hits."""
    return _learning(problem, rows * ONLINE_MULTIPLICATIVE_ERROR, hits)


def perceptron(problem: SessionProblem, rows: float, hits: int | None) -> Typical:
    """The perceptron learns about as fast as multiplicative weights, and stays a little worse."""
    return _learning(problem, rows * ONLINE_PERCEPTRON_ERROR, hits)


def _learning(problem: SessionProblem, scale: float, hits: int | None) -> Typical:
    nats = math.log(problem.cells)
    usual = max(ONLINE_FEWEST_HITS, round(ONLINE_HITS_PER_NAT * nats))
    return Typical(usual, scale * math.sqrt(nats / (hits or usual)))


def sparse() -> Typical:
    """Lists of few records hold few rows: hardly a surprise is to be expected of them."""
    return Typical(ONLINE_SPARSE_HITS, 0.0)


def median_of_net(problem: SessionProblem, rows: float) -> Typical:
    """A net is halved until one database is left, which is as far from the table as the net is coarse."""
    finest = finest_net(problem.cells)
    return Typical(math.ceil(math.log2(net_size(problem.cells, finest))), rows * problem.cells / (4 * finest))


def median_of_sample(rows: float, databases: int) -> Typical:
    """A sample is halved until one database is left, and none needs to be near the table."""
    return Typical(math.ceil(math.log2(databases)), ONLINE_MEDIAN_ERROR * rows)


def claim_of(
    problem: SessionProblem,
    plan: OnlinePlan,
    *,
    name: str,
    citations: tuple[str, ...],
    memory: int,
    printed: Callable[[float], float],
) -> Claim:
    """What a session of this plan claims; `printed` is the rule's T(α) as the book has it."""
    rows, sparse = plan.rows, plan.sparse
    passed = sparse.passed(problem.questions).counts_at(1 - FAILURE)
    near = f"{passed / rows:.3g} of the rows" if problem.rows else f"{passed:.0f} rows"
    notes = [
        f"at most {sparse.hits:,} of {problem.questions:,} questions are paid for",
        f"an answer is within {near} of the truth while there are hits left",
    ]
    bound = None
    if plan.level is not None:
        value = max(passed, sparse.measured_half_width(1 - FAILURE)) / rows
        bound = ErrorBound(value=value, statistic="max", probability=1 - FAILURE, theorem=CITES[0])
        level = book_level(problem, rows, printed)
        said = "nothing" if level is None or level >= 1 / 3 else f"3α = {3 * level:.3g}"
        notes.append(f"the book's own constants, with its measured answers counted, promise {said}")
    return Claim(
        mechanism=name,
        expected_max=ONLINE_MAX_OF_TYPICAL * plan.guess_error,
        expected_mean=ONLINE_MEAN_OF_TYPICAL * plan.guess_error,
        bound=bound,
        memory=memory,
        citations=citations,
        notes=tuple(notes),
    )
