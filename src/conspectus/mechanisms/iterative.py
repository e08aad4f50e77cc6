"""The one loop of the theory: find a question the guess gets wrong, measure it, update the guess.

The book's Algorithm 8 with its parts apart: candidates to find among, the exponential mechanism as the distinguisher
(Theorem 5.5), fresh noise for the answer, and a rule that turns answers into the next guess.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.curator.scores import WorstErrors
from conspectus.data.domain import Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import deviation_of
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.lbfgs import Vector
from conspectus.synopses.fitting.max_entropy import Measurement, fit_histogram
from conspectus.synopses.fitting.measured_parts import as_measured, part_tables
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.synopsis import Total
from conspectus.whole_numbers import MOST_TURNS

from .mechanism import Problem, in_counts
from .settings import SHARE, check_settings, is_share
from .typical.expectations import UNMEASURED
from .typical.question_facts import dimensions


def check_rounds(rounds: int | None, *, selection: float, certificate: float) -> None:
    """Refuse settings that no loop can run with: less than one round, or shares that leave nothing of the budget."""
    check_settings(
        (rounds is None or 1 <= rounds <= MOST_TURNS, f"rounds lie between 1 and {MOST_TURNS:,}"),
        (
            is_share(selection) and is_share(certificate, or_nothing=True),
            f"selection {SHARE}, and certificate does so or is 0",
        ),
    )


@dataclass(frozen=True, eq=False)
class Candidates:
    """What can be asked next: groups of consecutive questions of a workload, each from its place in `starts` on."""

    workload: Workload
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, workload: Workload) -> Candidates:
        """A marginal as one vector question, anything else question by question."""
        starts: list[NDArray[np.int64]] = []
        for block, at in zip(workload.blocks, workload.offsets):
            whole = isinstance(block, Marginal)
            starts.append(np.array([at]) if whole else np.arange(at, at + len(block)))
        return cls(workload, np.concatenate(starts).astype(np.int64))

    @classmethod
    def single(cls, workload: Workload) -> Candidates:
        """Everything question by question, the cells of marginals too: what the theorems are about."""
        return cls(workload, np.arange(len(workload), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, numbers: NDArray[np.int64]) -> Workload:
        """The questions of some candidates, each once however often it is named."""
        ends = np.append(self.starts[1:], len(self.workload))
        places = [np.arange(self.starts[i], ends[i]) for i in np.unique(numbers)]
        return self.workload.take(np.concatenate(places))

    def __getitem__(self, index: int) -> Workload:
        return self.take(np.array([index]))


def unmeasured(problem: Problem, candidates: Candidates, measured: int) -> float:
    """The typical largest error, in counts, of single questions that are not measured, where so many others are.

    It is 0 for marginals, since a marginal tells about many others and a single question about hardly any; and 0 where
    all are measured. The shape is the theorems': √(√ln|X|·ln|Q|/(n√ρ)) as a fraction of the rows.
    """
    if len(candidates) < len(candidates.workload) or measured >= len(candidates):
        return 0.0
    return _hidden(problem, len(candidates), measured)


def left_out(problem: Problem, candidates: Candidates, measured: int, *, gap: float) -> float:
    """The same for a guess that is fitted to what is measured alone, where marginals may be asked for as well.

    A marginal says nothing of single questions about other columns. Of prefixes and ranges the largest error is no
    less than the part `gap` of the rows, whatever the budget: nothing says where rows lie between two ends that were
    measured, where there are many more ends than that. Where the questions that are measured span all others, nothing
    is hidden.
    """
    if measured >= min(len(candidates), dimensions(candidates.workload)):
        return 0.0
    blocks = candidates.workload.blocks
    whole = [set(block.columns) for block in blocks if isinstance(block, Marginal)]
    apart = [b for b in blocks if not isinstance(b, Marginal) and not any(set(b.columns) <= each for each in whole)]
    single = sum(len(block) for block in apart)
    if not single:
        return 0.0
    ends = max((block.regular - 1 for block in apart if isinstance(block, Intervals)), default=0)
    between = gap * problem.planned_rows * max(1 - measured / ends, 0.0) if ends else 0.0
    return max(_hidden(problem, single, measured), between)


def _hidden(problem: Problem, questions: int, measured: int) -> float:
    """√(√ln|X|·ln|Q|/(n√ρ)), in counts."""
    cap = float(problem.cap)
    # A pure budget is cut into equal parts, which cost this much in ρ.
    rho = cap if problem.currency == "zcdp" else cap * cap / (2 * measured)
    size = math.sqrt(math.log(max(problem.cells, 2))) * math.log(questions) / math.sqrt(rho)
    return UNMEASURED * math.sqrt(problem.planned_rows * size) * problem.max_rows


@dataclass(frozen=True, eq=False)
class Step:
    """One turn of the loop: what was asked, what came back and the guess before; all of it and the law in counts."""

    question: Workload
    noisy: Vector
    guessed: Vector
    law: Noise

    @property
    def surprise(self) -> float:
        return float(np.abs(self.noisy - self.guessed).max())


@dataclass(frozen=True, kw_only=True, eq=False)
class LoopPlan:
    """The loop laid out in advance: what to find among, how often, and what finding and asking cost each time."""

    candidates: Candidates
    rounds: int
    select: Fraction
    measure: Fraction

    @classmethod
    def of(cls, candidates: Candidates, rounds: int, *, price: Fraction, selection: Fraction) -> LoopPlan:
        """Equal rounds for a price in all, of which `selection` is the share that finding costs."""
        select = price / rounds * selection
        return cls(candidates=candidates, rounds=rounds, select=select, measure=price / rounds - select)


class Rule(Protocol):
    """An update algorithm U, with its state: it answers every question, and learns from a measured one."""

    def answers(self, workload: Workload, total: float) -> Vector:
        """What it says to every question, as fractions."""

    def update(self, step: Step, total: float) -> None:
        """Take in what one turn of the loop measured."""


def by_histogram(weights: Vector, columns: tuple[int, ...], workload: Workload, total: float) -> Vector:
    """What a histogram over some columns says to every question, as fractions."""
    return Histogram(workload.domain, weights, Total(value=total, exact=True), columns).answer(workload)


def steps(curator: Curator, problem: Problem, plan: LoopPlan, rule: Rule, total: float) -> Iterator[Step]:
    """Run the loop. The caller updates the rule after each step, or stops."""
    candidates = plan.candidates
    workload = candidates.workload
    for turn in range(plan.rounds):
        curator.report_progress("rounds", turn, plan.rounds)
        guess = rule.answers(workload, total) * total
        score = WorstErrors(workload, guess, candidates.starts)
        index = int(curator.select(score, problem.selection(plan.select))[0])
        question = candidates[index]
        law = problem.law(problem.sensitivity(question), plan.measure)
        start = int(candidates.starts[index])
        noisy = curator.measure(question, law) / question.grid
        yield Step(question, noisy, guess[start : start + len(question)], in_counts(law, question.grid))


def multiplicative_updates(alpha: float, cells: int) -> float:
    """T(α) = ln|X|/2α²: how often multiplicative weights at the rate η = 4α can be off by α.

    Let x be the weights and x* the table, as fractions, and let r = ±f be what the step multiplies by, exp(−ηr), where
    r(x) ≥ r(x*) + α. KL(x*‖x) changes by η·r(x*) + ln E_x exp(−ηr). The values of r lie in an interval of length 1, so
    by Hoeffding's lemma the logarithm is at most −η·r(x) + η²/8: KL falls by ηα − η²/8, which is 2α² at η = 4α. It is
    ln|X| at most in the beginning, and never below 0.

    The book has η = α/2 and T(α) = 4 ln|X|/α² (Theorem 4.10), by a second-order expansion.
    """
    return math.log(cells) / (2 * alpha**2)


def multiplicative_rate(alpha: float) -> float:
    """η = 4α, for which `multiplicative_updates` is proved."""
    return 4 * alpha


def book_updates(alpha: float, cells: int) -> float:
    """T(α) = 4 ln|X|/α² as the book prints it (Theorem 4.10), to be compared with."""
    return 4 * math.log(cells) / alpha**2


class MultiplicativeWeights:
    """The book's Algorithm 5: weights ← weights · exp(±η f), towards the measured answer, then normalised.

    `rate` is η; without one it is half of the error that was seen, which is the book's η = α/2 at that level α.
    """

    def __init__(self, domain: Domain, columns: tuple[int, ...], rate: float | None = None) -> None:
        self.columns = columns
        self.held = domain.project(columns)
        self.rate = rate
        self.weights: Vector = np.full(self.held.cells, 1 / self.held.cells)

    def answers(self, workload: Workload, total: float) -> Vector:
        return by_histogram(self.weights, self.columns, workload, total)

    def update(self, step: Step, total: float) -> None:
        off = np.clip(step.noisy, 0.0, total) - step.guessed
        towards = off / (2 * total) if self.rate is None else self.rate * np.sign(off)
        table = self.weights.reshape(self.held.sizes)
        for columns, parts, values in part_tables(step.question, self.columns):
            exponent = np.where(parts >= 0, towards[np.maximum(parts, 0)], 0.0) * values
            order = np.argsort(columns)
            exponent = exponent.reshape(self.held.shape(columns)).transpose(order) if len(columns) > 1 else exponent
            shape = tuple(size if c in columns else 1 for c, size in enumerate(self.held.sizes))
            table = table * np.exp(exponent).reshape(shape)
        self.weights = (table / table.sum()).ravel()


class Refit:
    """Multiplicative weights with a memory: the maximum-entropy histogram of everything measured so far.

    Its weights are exp(Σ θ), as those of Algorithm 5 are, with the exponents solved for instead of stepped.
    """

    def __init__(self, domain: Domain, columns: tuple[int, ...], *, evaluations: int, ridge: float) -> None:
        self.columns = columns
        self.held = domain.project(columns)
        self.evaluations = evaluations
        self.ridge = ridge
        self.measured: list[Measurement] = []
        self._fit = fit_histogram(self.held, (), 1.0)

    @property
    def weights(self) -> Vector:
        return self._fit.weights

    def answers(self, workload: Workload, total: float) -> Vector:
        return by_histogram(self.weights, self.columns, workload, total)

    def update(self, step: Step, total: float) -> None:
        self.take_in(step, total)
        self.solve(total, self.evaluations)

    def take_in(self, step: Step, total: float) -> None:
        """Remember what was measured, for the next time that the fit is solved."""
        self.measured.extend(measurements(step.question, self.columns, step.noisy, step.law, total))

    def solve(self, total: float, evaluations: int, *, refits: int = 0, heavy_tails: bool = False) -> None:
        """Solve the fit anew, from where it stands: for the last time, to convergence.

        `refits` and `heavy_tails` are those of `fit_histogram`: whether the ridge gives way to what stands out.
        """
        self._fit = fit_histogram(
            self.held,
            tuple(self.measured),
            total,
            start=self._fit.potentials,
            steps=evaluations,
            ridge=self.ridge,
            refits=refits,
            heavy_tails=heavy_tails,
        )


def fitted_deviation(law: Noise) -> float:
    """How far off a fit takes an answer to be: the deviation of its noise, but never less than the scale.

    Noise far narrower than a step is hardly ever drawn, and its deviation is nearly 0. Answers with such noise would
    outweigh all others by many orders of magnitude, and a fit would look at nothing else.
    """
    return max(deviation_of(law), law.scale)


def measurements(
    question: Workload, held: tuple[int, ...], noisy: Vector, law: Noise, total: float
) -> Iterator[Measurement]:
    """Measured answers as measured (parts of) marginals."""
    return as_measured(question, held, noisy, fitted_deviation(law), total)
