"""The closed list of scores of the truth.

A score is a deterministic integer function of the exact counts and of public numbers, on a grid of `ERROR_STEPS` steps
to a count. The public part (the guess) is rounded to the grid *before* it meets the counts, so a score moves by whole
grid steps and its sensitivity needs no rounding allowance. Why each is Lipschitz is written in `scores.proof.md`;
nothing that is not on this list may be selected by or measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from conspectus.privacy.events import ByRelation
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.grouped_marginal import GroupedMarginal
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload

ERROR_STEPS = 16
"""Grid steps to one count: a power of two, fine against any noise that is worth adding."""

ROUNDED = 1.5
"""By how many grid steps an error may be off: a guess is rounded to the nearest step, a value of a finer grid down."""

LOG_WEIGHT_STEPS = 1 << 20
"""Steps to one in boosting's rates and marks: a weight is exp of a whole number of 1/STEPS²."""

_FARTHEST = 2.0**50
WIDEST = 1 << 40
"""The largest μ, λ and sum of rates of a reweighting: products with LOG_WEIGHT_STEPS stay within 64 bits."""

MOST_DISTANT, FARTHEST_GUESS = 1 << 20, 1 << 40
"""The cells of a table whose distance is scored, and the largest guess in grid steps: sums of them stay below 2⁶¹."""

MOST_ROWS, FASTEST = 1 << 31, 1 << 30
"""The largest total and sum of rates of DualQuery's payoffs, and the largest count that they read: 2⁶² at most."""


def steps_of(values: NDArray[np.int64], grid: int) -> NDArray[np.int64]:
    """Values of a workload with `grid` steps to a count as whole grid steps, rounded down where its grid is finer."""
    return values * (ERROR_STEPS // grid) if grid <= ERROR_STEPS else values // (grid // ERROR_STEPS)


def error_sensitivity(workload: Workload, relation: Relation) -> ByRelation:
    """How many grid steps one unit moves any single query of a workload."""
    return ByRelation.of(relation, lambda each: math.ceil(ERROR_STEPS * workload.linf(each)))


def to_grid(counts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Public numbers in counts, rounded to whole grid steps; what is not a number becomes 0."""
    steps = np.nan_to_num(counts, nan=0.0, posinf=_FARTHEST, neginf=-_FARTHEST) * ERROR_STEPS
    return np.rint(np.clip(steps, -_FARTHEST, _FARTHEST)).astype(np.int64)


def error_of(count: int, grid: int, guess: float) -> int:
    """The error of one query, exactly as `WorstErrors` scores it: |count − guess| in grid steps; `count` is in its own.

    Guarantee: that of `WorstErrors`, of which it is the case of a single query.
    """
    steps = count * ERROR_STEPS if grid == 1 else int(steps_of(np.array([count], dtype=np.int64), grid)[0])
    near = 0.0 if math.isnan(guess) else min(max(guess * ERROR_STEPS, -_FARTHEST), _FARTHEST)
    return abs(steps - round(near))


@dataclass(frozen=True, eq=False)
class WorstErrors:
    """For each group of consecutive queries, max |count − guess| over the group.

    Guarantee: one unit moves every score by at most as much as it moves any query, in whole grid steps: by m counts
    for counting queries and units of at most m rows.
    """

    workload: Workload
    guess: NDArray[np.float64]
    starts: NDArray[np.int64]
    _guess: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.guess.shape != (len(self.workload),):
            raise ValueError("a guess needs one number for each query of its workload")
        starts = self.starts
        if not len(starts) or starts[0] != 0 or np.any(np.diff(starts) <= 0) or starts[-1] >= len(self.workload):
            raise ValueError("groups of queries start at 0 and follow one another")
        object.__setattr__(self, "_guess", to_grid(self.guess))

    @property
    def candidates(self) -> int:
        return len(self.starts)

    def of(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.maximum.reduceat(np.abs(steps_of(counts, self.workload.grid) - self._guess), self.starts)

    def sensitivity(self, relation: Relation) -> ByRelation:
        return error_sensitivity(self.workload, relation)


@dataclass(frozen=True, eq=False)
class Reweighting:
    """Boosting's log-weights of groups of consecutive queries: −Σ_j α_j·a_j, in steps of `LOG_WEIGHT_STEPS` squared.

    A group's error under the j-th guess is its worst one, d_j. It is well answered (a_j = 1) up to λ, badly
    (a_j = −1) from λ + μ on, and a_j falls linearly in between. `lam` is λ and `mu` is μ, in grid steps, guesses in
    counts; each α_j and a_j is a whole number of 1/`LOG_WEIGHT_STEPS`.

    Guarantee: one unit that moves any query by at most Δ grid steps (16·m for counting queries and m rows) moves every
    score by at most ⌈2·Δ·LOG_WEIGHT_STEPS/μ⌉ steps for each step of each α_j.
    """

    workload: Workload
    starts: NDArray[np.int64]
    lam: int
    mu: int
    guesses: tuple[NDArray[np.float64], ...] = ()
    rates: tuple[int, ...] = ()
    _errors_of: tuple[WorstErrors, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.rates) != len(self.guesses) or any(rate < 0 for rate in self.rates):
            raise ValueError("each guess has its rate, zero or more")
        if any(type(number) is not int for number in (self.lam, self.mu, *self.rates)):
            raise TypeError("lam, mu and rates are integers: a fraction of a step has no proof")
        if not 0 < self.mu <= WIDEST or not 0 <= self.lam <= WIDEST or sum(self.rates) > WIDEST:
            raise ValueError("lam, mu and the sum of the rates are whole numbers that stay below 2**40")
        found = tuple(WorstErrors(self.workload, guess, self.starts) for guess in self.guesses)
        object.__setattr__(self, "_errors_of", found)

    @property
    def candidates(self) -> int:
        return len(self.starts)

    def joined(self, guess: NDArray[np.float64], rate: int) -> Reweighting:
        """The same with one more guess."""
        later = ((*self.guesses, guess), (*self.rates, rate))
        return Reweighting(self.workload, self.starts, self.lam, self.mu, *later)

    def of(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.zeros(self.candidates, dtype=np.int64)
        for errors, rate in zip(self._errors_of, self.rates):
            # To clip first is to clip last, since ±1 are whole steps, and it keeps the product within 64 bits.
            left = np.clip(self.mu - 2 * (errors.of(counts) - self.lam), -self.mu, self.mu)
            found -= rate * (left * LOG_WEIGHT_STEPS // self.mu)
        return found

    def sensitivity(self, relation: Relation) -> ByRelation:
        step = error_sensitivity(self.workload, relation)
        return step.mapped(lambda moved: reweighting_sensitivity(self.rates, self.mu, int(moved)))


def reweighting_sensitivity(rates: Sequence[int], mu: int, step: int) -> Fraction:
    """How far one unit that moves any query by `step` grid steps moves a reweighting's score, whatever the guesses."""
    return Fraction(sum(rates) * -(-2 * step * LOG_WEIGHT_STEPS // mu))


def potential_sensitivity(rates: Sequence[int], mu: int, step: int) -> Fraction:
    """How far such a unit moves ln Z of a reweighting."""
    return Fraction(-(-reweighting_sensitivity(rates, mu, step) // LOG_WEIGHT_STEPS) + 1)


@dataclass(frozen=True, eq=False)
class LogPotential:
    """ln Z = ln Σ exp(log-weight) over the groups of a reweighting, one number, in whole steps of 1/`LOG_WEIGHT_STEPS`.

    Guarantee: one unit moves it by at most as much as it moves any log-weight, rounded up to a step, and one step more.
    """

    reweighting: Reweighting

    def __post_init__(self) -> None:
        if type(self.reweighting) is not Reweighting:
            raise TypeError("a potential is that of a reweighting, and of no other score")

    @property
    def workload(self) -> Workload:
        return self.reweighting.workload

    @property
    def candidates(self) -> int:
        return 1

    def of(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        steps = self.reweighting.of(counts)
        top = int(steps.max())
        mass = float(np.exp((steps - top) / LOG_WEIGHT_STEPS**2).sum())
        return np.array([np.floor((top / LOG_WEIGHT_STEPS**2 + np.log(mass)) * LOG_WEIGHT_STEPS)]).astype(np.int64)

    def sensitivity(self, relation: Relation) -> ByRelation:
        weights = self.reweighting
        step = error_sensitivity(weights.workload, relation)
        return step.mapped(lambda moved: potential_sensitivity(weights.rates, weights.mu, int(moved)))


@dataclass(frozen=True, eq=False)
class DualPayoffs:
    """DualQuery's log-weights of every query q, then of every negation q̄: Σ_τ η_τ·(q(D) − q(x_τ)) for rows x_τ.

    In steps of 1/(`total`·`LOG_WEIGHT_STEPS`) they are ±(rate·c_q − total·played_q): `rate` is Σ_τ η_τ, `played` Σ_τ
    η_τ·q(x_τ), in whole steps of 1/`LOG_WEIGHT_STEPS`, and `total` the number of rows that fractions are of, public or
    paid for. The negation's payoff is the query's with the other sign. A query that the rows satisfy too rarely has a
    large payoff, so a best response to what is drawn *satisfies* as much of it as it can.

    Guarantee: one unit of at most m rows moves every score by at most rate·m steps, under both relations.
    """

    workload: Workload
    total: int
    rate: int
    played: NDArray[np.int64]

    def __post_init__(self) -> None:
        if type(self.total) is not int or type(self.rate) is not int:
            raise TypeError("the total and the rate are integers: a fraction of a step has no proof")
        if not 1 <= self.total <= MOST_ROWS or not 0 <= self.rate <= FASTEST:
            raise ValueError("the total lies between 1 and 2**31, the rate between 0 and 2**30")
        if not self.workload.counting:
            raise ValueError("payoffs are of counting queries, each 0 or 1 on a row")
        if self.played.shape != (len(self.workload),) or self.played.dtype != np.int64:
            raise ValueError("what was played is one 64-bit integer for each query of the workload")
        if self.played.size and not 0 <= int(self.played.min()) <= int(self.played.max()) <= self.rate:
            raise ValueError("what was played lies between nothing and all of the rate")

    @property
    def candidates(self) -> int:
        return 2 * len(self.workload)

    def of(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.empty(self.candidates, dtype=np.int64)
        payoffs, negated = np.split(found, 2)
        np.minimum(counts, MOST_ROWS, out=payoffs)
        payoffs *= self.rate
        payoffs -= self.total * self.played
        np.negative(payoffs, out=negated)
        return found

    def sensitivity(self, relation: Relation) -> ByRelation:
        step = Fraction(self.rate * relation.max_rows)
        return ByRelation(replace=step, add_remove=step)


@dataclass(frozen=True, eq=False)
class TableDistances:
    """For each marginal of a workload, the L1 distance Σ |count − guess| over its cells.

    Guarantee: one unit of at most m rows moves every score by at most m counts, 16·m steps, under add-remove, and by
    twice that under replace.
    """

    workload: Workload
    guess: NDArray[np.float64]
    _guess: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tables = self.workload.blocks
        if not tables or any(type(table) not in (Marginal, GroupedMarginal) for table in tables):
            raise ValueError("distances are those of marginals, of codes or of groups of them")
        if self.guess.shape != (len(self.workload),):
            raise ValueError("a guess needs one number for each query of its workload")
        if max(map(len, tables)) > MOST_DISTANT:
            raise ValueError(f"a table whose distance is scored has at most {MOST_DISTANT:,} cells")
        object.__setattr__(self, "_guess", np.clip(to_grid(self.guess), -FARTHEST_GUESS, FARTHEST_GUESS))

    @property
    def candidates(self) -> int:
        return len(self.workload.blocks)

    def of(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        apart = np.abs(steps_of(counts, self.workload.grid) - self._guess)
        return np.add.reduceat(apart, np.array(self.workload.offsets[:-1], dtype=np.int64))

    def sensitivity(self, relation: Relation) -> ByRelation:
        return ByRelation.of(
            relation, lambda each: ERROR_STEPS * max(table.sensitivity(each).l1 for table in self.workload.blocks)
        )


@dataclass(frozen=True, eq=False)
class LargestCounts:
    """The counts themselves, in grid steps: the largest are sought.

    Guarantee: one unit moves every score by at most as much as it moves any query, in whole grid steps; and where
    every query counts rows and a unit is added or removed, it moves all of them in the same direction.
    """

    workload: Workload

    @property
    def candidates(self) -> int:
        return len(self.workload)

    def of(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return steps_of(counts, self.workload.grid)

    def sensitivity(self, relation: Relation) -> ByRelation:
        return error_sensitivity(self.workload, relation)

    def spread(self, relation: Relation) -> ByRelation:
        """The length of the interval in which one unit moves all scores: half of what it is in general, if monotone."""
        moved = self.sensitivity(relation)
        assert moved.replace is not None
        assert moved.add_remove is not None
        monotone = self.workload.counting
        return ByRelation(replace=2 * moved.replace, add_remove=moved.add_remove * (1 if monotone else 2))


@dataclass(frozen=True, eq=False)
class MiddleRanks:
    """For counts over an ordered list, how far each position is from the median: minus twice the ranks in between.

    It is 0 at the median, and elsewhere minus what more than a half lies on the one side, doubled.

    Guarantee: one unit moves every score by at most as much as it moves all counts together, in L1.
    """

    workload: Workload

    def __post_init__(self) -> None:
        if self.workload.grid != 1:
            raise ValueError("ranks are those of whole counts")

    @property
    def candidates(self) -> int:
        return len(self.workload)

    def of(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        upto, total = counts.cumsum(), counts.sum()
        below, above = 2 * (upto - counts) - total, total - 2 * upto
        found: NDArray[np.int64] = -np.maximum(np.maximum(below, above), 0)
        return found

    def sensitivity(self, relation: Relation) -> ByRelation:
        return ByRelation.of(relation, lambda each: self.workload.sensitivity(each).l1)


Score = WorstErrors | Reweighting | LogPotential | DualPayoffs | TableDistances | LargestCounts | MiddleRanks
SCORES: tuple[type[Score], ...] = (
    WorstErrors,
    Reweighting,
    LogPotential,
    DualPayoffs,
    TableDistances,
    LargestCounts,
    MiddleRanks,
)
"""The list is closed: the curator refuses any other type, subclasses included."""


def worst_error(workload: Workload, guess: NDArray[np.float64]) -> WorstErrors:
    """The maximum error of a whole workload, as a score with a single candidate."""
    return WorstErrors(workload, guess, np.zeros(1, dtype=np.int64))


def query_errors(workload: Workload, guess: NDArray[np.float64]) -> WorstErrors:
    """The error of every single query, each a candidate of its own."""
    return WorstErrors(workload, guess, np.arange(len(workload), dtype=np.int64))
