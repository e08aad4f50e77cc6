"""What to expect of a session: typical errors, measured, beside what the theorem proves.

The constants say how many hits a rule needs in practice, and how wrong its guesses are then. Nothing is promised by
them: they choose the default number of hits and the default threshold, and they are shown as typical errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from conspectus.data.records.field import P
from conspectus.mechanisms.bounds import FAILURE
from conspectus.mechanisms.mechanism import Claim, ErrorBound, expected_maximum, expected_size
from conspectus.mechanisms.online_mechanism import SessionProblem
from conspectus.mechanisms.typical.expectations import (
    ONLINE_FEWEST_HITS,
    ONLINE_HITS_PER_NAT,
    ONLINE_LARGEST_SHARE,
    ONLINE_MEDIAN_ERROR,
    ONLINE_MULTIPLICATIVE_ERROR,
    ONLINE_NOISE_LARGEST,
    ONLINE_NOISE_MEAN,
    ONLINE_PASSED_MEAN,
    ONLINE_PERCEPTRON_ERROR,
    ONLINE_PRIMED_HITS,
    ONLINE_RECORDS_MEAN,
    ONLINE_SPARSE_HITS,
    ONLINE_VARIES,
)
from conspectus.mechanisms.update_rules.update_counts import finest_net, net_size

from .parameters import OnlinePlan
from .theorem import CITES, book_level
from .widths import CONFIDENCE, Primed, typical_shares


class Typical(NamedTuple):
    """The hits that a rule needs in practice, and about how wrong its guess is then, in counts."""

    hits: int
    guess_error: float


def primed(expected: Primed, questions: int) -> Typical:
    """A guess that was fitted to marginals is left with few surprises."""
    return Typical(ONLINE_PRIMED_HITS, expected.largest_error(questions))


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
    expected: tuple[float, float],
    printed: Callable[[float], float],
) -> Claim:
    """What a session of this plan claims: with the largest and the mean error to expect, in counts.

    `printed` is the rule's T(α) as the book has it.
    """
    rows, sparse = plan.rows, plan.sparse
    one = sparse.passed().counts_at(CONFIDENCE)
    near = f"{one / rows:.3g} of the rows" if problem.rows else f"{one:.0f} rows"
    notes = [
        f"at most {sparse.hits:,} of {problem.questions:,} questions are surprises that are paid for",
        f"a guessed answer is within {near} of the truth with probability {CONFIDENCE:g}, while there are hits left",
    ]
    bound = None
    if plan.level is not None:
        passed = sparse.passed(problem.questions).counts_at(1 - FAILURE)
        value = max(passed, sparse.measured_half_width(1 - FAILURE)) / rows
        bound = ErrorBound(value=value, theorem=CITES[0])
        level = book_level(problem, rows, printed)
        said = "nothing" if level is None or level >= 1 / 3 else f"3α = {3 * level:.3g}"
        notes.append(f"the book's own constants, with its measured answers counted, promise {said}")
    largest = min(expected[0], rows)
    mean = min(expected[1], largest)
    # Of what theorems plan, and of multiplicative weights that begin with nothing, nobody knows how far it varies.
    known = plan.level is None and (name != "pmw" or plan.priming is not None)
    return Claim(
        mechanism=name,
        expected_max=largest,
        expected_mean=mean,
        bound=bound,
        memory=memory,
        citations=citations,
        notes=tuple(notes),
        expected_width=plan.width,
        answered=1 - sparse.alarmed(problem.questions, plan.guess_error, sparse.hits) if plan.level is None else None,
        expected_within=ONLINE_VARIES.get(name) if known else None,
    )


def expected_errors(problem: SessionProblem, plan: OnlinePlan) -> tuple[float, float]:
    """The largest and the mean error of the answers, in counts."""
    if plan.priming is None:
        return _learned_from_hits(problem, plan, plan.sparse.threshold)
    expected = plan.priming.expected(plan.rows)
    deviations = [expected.deviation(width) for width in expected.widths]
    mean = sum(deviations) / len(deviations) * math.sqrt(2 / math.pi)
    return max(plan.guess_error, max(deviations) * math.sqrt(2 * math.log(2 * problem.questions))), mean


def sparse_errors(problem: SessionProblem, plan: OnlinePlan) -> tuple[float, float]:
    """The same of questions that list few records each.

    The guess knows nothing of records that were not asked about: where more questions hold more rows than the threshold
    than there are hits, the rest stay unknown. How many rows records of an unbounded universe have, nobody knows.
    """
    domain, sparse = problem.workload.domain, plan.sparse
    if domain.sizes == (P,):
        largest, _ = _learned_from_hits(problem, plan, sparse.threshold)
        return largest, ONLINE_RECORDS_MEAN * largest
    shares = typical_shares(domain)
    seen = sum(share * plan.rows > sparse.threshold for share in shares) / len(shares) * problem.questions
    return _learned_from_hits(problem, plan, sparse.threshold if seen <= sparse.hits else plan.rows)


def _learned_from_hits(problem: SessionProblem, plan: OnlinePlan, passed: float) -> tuple[float, float]:
    """The same of a guess that learns through its hits alone, where errors up to `passed` counts stay.

    No error is larger than what a question holds; and the noise of what was measured goes into later guesses.
    """
    shares, law = typical_shares(problem.workload.domain), plan.sparse.law
    largest = min(passed, ONLINE_LARGEST_SHARE * plan.rows)
    mean = min(ONLINE_PASSED_MEAN * passed, sum(shares) / len(shares) * plan.rows)
    noise = ONLINE_NOISE_LARGEST * expected_maximum(law, plan.sparse.hits)
    return math.hypot(largest, noise), math.hypot(mean, ONLINE_NOISE_MEAN * expected_size(law))
