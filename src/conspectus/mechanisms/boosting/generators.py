"""Base synopsis generators: a sample of questions and a price become a histogram that answers them, and perhaps others.

A generator measures its sample through the curator, in one act, and fits a histogram to what came back. One that finds
none says so with None, and the public uniform histogram stands in for it: that costs accuracy, never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.data.domain import Domain, code_dtype
from conspectus.mechanisms.iterative import measurements
from conspectus.mechanisms.mechanism import Problem, in_counts, maximum_bound
from conspectus.privacy.events import Noise
from conspectus.queries.query import Query
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.lbfgs import Vector
from conspectus.synopses.fitting.least_deviation import least_deviation, question_matrix
from conspectus.synopses.fitting.max_entropy import Measurement, Potentials, fit_histogram
from conspectus.synopses.fitting.row_trials import block_values
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import Total, public_sampler

MOST_TABLES = 1 << 18
"""The most tables, about, that the brute force looks through."""

MOST_EVALUATED = 1 << 11
"""The most tables, about, on which the brute force evaluates functions."""

REFITS = 1
"""How often a histogram is fitted again, where the ridge shrank an interaction that stands out of its noise."""

MOST_ENTRIES = 1 << 20
"""The largest matrix of questions by cells that is given to the linear program."""


class Generator(Protocol):
    """From a sample of distinct questions, weights over the cells of the columns held, or synthetic rows; or None."""

    def generate(self, curator: Curator, sample: Workload, *, price: Fraction, last: bool) -> Vector | Rows | None: ...


def measured(curator: Curator, problem: Problem, sample: Workload, price: Fraction) -> tuple[Vector, Noise]:
    """The noisy values of a sample and the law of their noise, in steps: one act, which costs at most this price."""
    law = problem.law(problem.sensitivity(sample), price)
    return curator.measure(sample, law).astype(np.float64), law


def as_rows(domain: Domain, codes: NDArray[np.int64], total: Total) -> Rows:
    """Codes, row by row, as a synopsis."""
    return Rows(domain, tuple(codes[:, c].astype(code_dtype(size)) for c, size in enumerate(domain.sizes)), total)


@dataclass(eq=False)
class MaximumEntropy:
    """The maximum-entropy histogram of noisy answers; with `history`, of all answers that were ever measured.

    Given the transcript so far, a synopsis with a history is as fixed as one without, so the privacy of the next draw
    and the re-weighting are the same; Lemma 6.5 is about any synopsis that fits the fresh sample.
    """

    problem: Problem
    total: float
    history: bool
    evaluations: int
    ridge: float
    known: list[Measurement] = field(default_factory=list)
    potentials: Potentials | None = None

    def generate(self, curator: Curator, sample: Workload, *, price: Fraction, last: bool) -> Vector | None:
        noisy, law = measured(curator, self.problem, sample, price)
        if not self.history:
            self.known, self.potentials = [], None
        noisy, law = noisy / sample.grid, in_counts(law, sample.grid)
        self.known.extend(measurements(sample, self.problem.held, noisy, law, self.total))
        fit = fit_histogram(
            sample.domain.project(self.problem.held),
            self.known,
            self.total,
            start=self.potentials,
            steps=self.evaluations * (4 if last else 1),
            ridge=self.ridge,
            refits=REFITS,
            heavy_tails=law.kind == "laplace",
        )
        self.potentials = fit.potentials
        return fit.weights


class Syntheticizer:
    """Noisy answers and the histogram whose largest deviation from them is least (Theorem 6.7), by a linear program.

    The book asks for a deviation of at most the noise and rounds down, which loses weight (it sums to 1 − α only). The
    least deviation always exists, and the weights are normalised. With `rows`, the histogram is one of that many rows
    drawn from it (Theorem 6.8), which is what keeps the synopsis short enough to generalise.
    """

    def __init__(
        self, problem: Problem, total: float, *, rows: int | None = None, public_seed: int | None = None
    ) -> None:
        self.problem = problem
        self.total = total
        self.rows = rows
        self.rng = public_sampler(public_seed)

    def generate(self, curator: Curator, sample: Workload, *, price: Fraction, last: bool) -> Vector | None:
        noisy, _ = measured(curator, self.problem, sample, price)
        weights = least_deviation(question_matrix(sample, self.problem.held), noisy / (sample.grid * self.total))
        if weights is None or self.rows is None:
            return weights
        return np.asarray(self.rng.multinomial(self.rows, weights) / self.rows)


class BruteForce:
    """The first of all tables of n rows that fits the noisy answers to within what the noise may be (Theorem 6.6).

    It serves arbitrary questions: functions of the table are evaluated on every table there is, once each.
    """

    def __init__(self, problem: Problem, rows: int, *, failure: float) -> None:
        self.problem = problem
        self.rows = rows
        self.failure = failure
        self.tables = all_tables(problem.cells, rows)
        self.known: dict[Query, NDArray[np.int64]] = {}

    def generate(self, curator: Curator, sample: Workload, *, price: Fraction, last: bool) -> Vector | Rows | None:
        noisy, law = measured(curator, self.problem, sample, price)
        half = maximum_bound(law, len(sample), self.failure)
        if not self.problem.counting:
            return self._evaluated(sample, noisy, half)
        lines = question_matrix(sample, self.problem.held).astype(np.int64)
        worst = np.abs(self.tables @ lines.T - noisy).max(axis=1)
        fitting = np.flatnonzero(worst <= half)
        return self.tables[fitting[0]] / self.rows if fitting.size and self.rows else None

    def _evaluated(self, sample: Workload, noisy: Vector, half: float) -> Rows | None:
        """The first table on which functions, evaluated, are near enough; noise and distance are in steps."""
        queries = list(sample.queries())
        new = sample.take([place for place, query in enumerate(queries) if query not in self.known])
        if len(new):
            values = np.stack([self._values(new, counts) for counts in self.tables], axis=1)
            self.known |= zip(new.queries(), values)
        grids = np.concatenate([np.full(len(block), sample.grid // block.grid) for block in sample.blocks])
        values = np.stack([self.known[query] for query in queries]) * grids[:, None]
        fitting = np.flatnonzero(np.abs(values - noisy[:, None]).max(axis=0) <= half)
        if not fitting.size:
            return None
        total = Total(value=float(sample.denominator or self.rows), exact=True)
        return as_rows(sample.domain, self._codes(self.tables[fitting[0]]), total)

    def _values(self, asked: Workload, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values of questions on a table, each in steps of its own block."""
        codes = self._codes(counts)
        return np.concatenate([block_values(block, codes) for block in asked.blocks])

    def _codes(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """A table row by row; columns that nobody asks about hold their first value."""
        domain, held = self.problem.workload.domain, self.problem.held
        cells = np.stack(np.unravel_index(np.arange(self.problem.cells), domain.shape(held)), axis=1)
        codes = np.zeros((self.rows, len(domain)), dtype=np.int64)
        codes[:, list(held)] = np.repeat(cells, counts, axis=0)
        return codes


def few_tables(problem: Problem) -> bool:
    """Whether brute force can look through all tables of a public number of rows."""
    if not problem.total_is_public or problem.rows is None:
        return False
    return log_number_of_tables(problem.cells, problem.rows) <= math.log(most_tables(problem))


def most_tables(problem: Problem) -> int:
    """How many tables brute force looks through, at most, about: fewer where questions are evaluated on each."""
    return MOST_TABLES if problem.counting else MOST_EVALUATED


def log_number_of_tables(cells: int, rows: int) -> float:
    """ln of the number of tables of so many rows, C(n + |X| − 1, n): it is never too large to compute."""
    return math.lgamma(rows + cells) - math.lgamma(rows + 1) - math.lgamma(cells)


def all_tables(cells: int, rows: int) -> NDArray[np.int64]:
    """Every table of n rows as counts of its cells, in lexicographic order of the sorted rows."""
    bars = np.array(list(combinations(range(rows + cells - 1), cells - 1)), dtype=np.int64)
    ends = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), rows + cells - 1)])
    return np.diff(ends, axis=1)[::-1] - 1
