"""Theorem 6.1 with all of its parameters, for the noise that really runs.

η = 1/3 throughout, β = 0.05/T. The book's statements with their errata applied:

* T is the least number with (1 − 4η²)^(T/2)·|Q| < 1 (the proof of Claim 6.3 gives this; ln|Q|/η² is printed), with
  the rate as rounded, marks rounded down, and an η that is less by what the floor of the rng draws amiss.
* k ≥ 2(ln(1/γ) + m)/(1 − 2η) draws, where e^m synopses are possible (Lemma 6.5, m in nats).
* Arbitrary questions are served by brute force alone (Theorem 6.6): one unit moves them by so many steps of their grid,
  and values finer than the grid of errors are rounded down before they are compared.
* The noise of a sample is that of its exact price, where the book prints two different scales (Theorem 6.6) and one
  without its factor 2 (Theorem 6.8); all noises are within a half of λ except with probability β/2 or β/3.
* What the linear program's solver may miss the least deviation by is a part of λ.
* n' rows drawn from a histogram are within α of it on the sample, with n' = ln(6·|S|/β)/2α² (Hoeffding).
* μ follows from the exact price of the draws, round by round, where (6.7) charges the last round's range for all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from conspectus.curator.scores import ERROR_STEPS, LOG_WEIGHT_STEPS, ROUNDED
from conspectus.mechanisms.bounds import FAILURE
from conspectus.mechanisms.mechanism import Problem, maximum_bound
from conspectus.mechanisms.settings import SettingError
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.sensitivity import Sensitivity
from conspectus.synopses.fitting.least_deviation import SOLVER

from .generators import few_tables, log_number_of_tables
from .reweighting import DrawPlan, plan_sampling, rate_of, rounds_as_drawn

EDGE = 1 / 3
CITES = ("Dwork & Roth 2014, Theorem 6.1 (errata applied)", "Dwork, Rothblum & Vadhan 2010, Theorem IV.1")
_DEVIATIONS = tuple(0.0005 * 1.3**step for step in range(28))
_MOST_DRAWS = 1 << 24
GENERATORS = ("brute", "syntheticizer")
"""Those of which a theorem is known: 6.6, for all questions, and 6.8, for counts."""


def check_left_out(settings: Mapping[str, object]) -> None:
    """Refuse what the theorem fixes, or has no use for; `settings` are those that were set."""
    generator = settings.get("generator")
    if generator is not None and generator not in GENERATORS:
        known = " or ".join(GENERATORS)
        raise SettingError(f"Theorem 6.1 has no such generator: with theorem=True take {known}, or leave generator out")
    if settings.get("aggregate") not in (None, "median"):
        raise SettingError("Theorem 6.1 is about the median: with theorem=True leave aggregate out")
    others = [name for name in settings if name not in ("generator", "aggregate")]
    if others:
        said = others[0] if len(others) == 1 else f"{', '.join(others[:-1])} and {others[-1]}"
        them = "it" if len(others) == 1 else "them"
        raise SettingError(f"theorem=True sets {said} itself, or has no use for {them}: leave {them} out")


@dataclass(frozen=True, kw_only=True)
class TheoremParameters:
    """Everything that Theorem 6.1 fixes, and the maximum error that it then promises.

    `rounds` is T, `draws` is k, `failure` what may go wrong in one part of a round. `rows` is the size of the tables
    that the generator chooses from: all tables of n rows, or subsamples of n' rows.
    """

    generator: str
    rounds: int
    draws: int
    failure: float
    rows: int
    sampling: DrawPlan

    @property
    def counts(self) -> float:
        """λ + μ in counts, and what rounding adds: half a grid step for answers, one for values of a finer grid."""
        return self.sampling.inaccurate + ROUNDED / ERROR_STEPS


def theorem_parameters(problem: Problem, price: Fraction, generator: str | None = None) -> TheoremParameters | None:
    """The parameters with the smallest promised error: brute force where that is possible, or subsamples of counts.

    Args:
        problem: The public facts.
        price: What draws and measurements may cost together.
        generator: "brute" or "syntheticizer" to have that one; None for the better one.

    Returns:
        The parameters; None where the theorem promises nothing.
    """
    rows = problem.rows
    if not rows:
        return None
    deviations: list[float | None] = []
    if problem.counting and generator in (None, "syntheticizer"):
        deviations += _DEVIATIONS
    if few_tables(problem) and generator in (None, "brute"):
        deviations.append(None)
    options = [_parameters(problem, price, rows=rows, deviation=deviation) for deviation in deviations]
    found = [option for option in options if option is not None]
    return min(found, key=lambda option: option.counts) if found else None


def _parameters(problem: Problem, price: Fraction, *, rows: int, deviation: float | None) -> TheoremParameters | None:
    asked = problem.workload.distinct()
    queries = len(asked)
    rate = round(LOG_WEIGHT_STEPS * rate_of(EDGE))
    rounds = rounds_as_drawn(queries, EDGE, rate)
    failure = FAILURE / rounds
    size = rows if deviation is None else math.ceil(math.log(6 * queries / failure) / (2 * deviation**2))
    parts = 2 if deviation is None else 3
    # ln of the number of synopses: at most n ln|X|, and less since the order of rows does not matter.
    length = log_number_of_tables(problem.cells, size)
    draws = math.ceil(2 * (math.log(parts / failure) + length) / (1 - 2 * EDGE))
    if draws > _MOST_DRAWS:
        return None
    measuring = price / 2 / rounds
    noise = max(
        maximum_bound(problem.law(_most_moved(problem, draws, grid), measuring), min(draws, queries), failure / parts)
        / grid
        for grid in {block.grid for block in asked.blocks}
    )
    lam = 2 * noise + (0.0 if deviation is None else (deviation + SOLVER) * rows)
    sampling = plan_sampling(
        problem,
        rates=(rate,) * rounds,
        draws=(draws,) * (rounds - 1),
        lam=(math.ceil(lam * ERROR_STEPS) + (1 if problem.counting else math.ceil(ROUNDED))) / ERROR_STEPS,
        price=price / 2,
    )
    if sampling is None:
        return None
    return TheoremParameters(
        generator="brute" if deviation is None else "syntheticizer",
        rounds=rounds,
        draws=draws,
        failure=failure / parts,
        rows=size,
        sampling=sampling,
    )


def _most_moved(problem: Problem, draws: int, grid: int) -> Sensitivity:
    """How far one unit moves any sample of so many questions, at most, in steps of the grid of that sample.

    The bound of a whole workload is one for its samples only where it adds up over marginals: the closed forms of other
    blocks are sharper than what a part of them is charged.
    """
    asked = problem.workload.distinct()
    count = min(draws, len(asked))
    step = math.ceil(grid * asked.linf(problem.relation))
    if all(isinstance(block, Marginal) for block in asked.blocks):
        every = problem.sensitivity(asked)
        l1, squared = min(every.l1, step * count), min(every.l2_squared, step * step * count)
        return Sensitivity(l1=l1, l2_squared=squared, linf=step)
    return Sensitivity(l1=step * count, l2_squared=step * step * count, linf=step)
