"""The offline role, and its values: a Problem of public facts, a plan or a Refusal, a Claim, an Outcome."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.scores import error_sensitivity
from conspectus.data.domain import in_words
from conspectus.privacy.accounting import cap_of
from conspectus.privacy.events import Event, Noise, ScaleError, drawable
from conspectus.privacy.gaussian_filter import GaussianTerms
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.prices import root_down as root_down
from conspectus.privacy.prices import root_up as root_up
from conspectus.privacy.prices import scale_up
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.rules import demand
from conspectus.queries.sensitivity import Sensitivity
from conspectus.queries.workload import Workload
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.synopsis import Synopsis, Total

from .bounds import FAILURE, Certificate
from .typical.expectations import ROWS_ASSUMED, UNKNOWN_ROWS, VARIES

if TYPE_CHECKING:  # a release that is read has no curator, and need not wait for databases
    from conspectus.curator.curator import Curator

MAX_CELLS = 1 << 24
"""The largest dense histogram that a mechanism of ours will hold: 128 MiB of weights."""


class ProblemError(ValueError):
    """Public facts that do not make a problem: another table's workload, an empty one, an impossible number of rows."""


class CannotServe(Exception):
    """Raised by a plan: why a mechanism cannot serve a problem, in a sentence that says what would help."""


class NoMechanism(LookupError):
    """No mechanism can serve the problem, or the one that was asked for refuses it."""


Objective = Literal["max", "mean"]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Everything public about a release. Claims, defaults and refusals are functions of this alone.

    Attributes:
        workload: The questions.
        budget: What may be spent.
        relation: Which tables are neighbours.
        rows: The public or declared number of rows; None where there is neither.
        ledgered: Whether a ledger pays. It adds up in one currency, so that every act needs a price in that one.
        aside: The δ that the ledger set aside for acts with a δ of their own, as far as it is left.
        in_order: For each column how many of its codes, from the first on, stand in an order: bins of numbers and
            dates. Empty where nothing is known of that.
        objective: Which expected error the planner compares: the largest one, or the mean one.
        rho: What Gaussian noise alone may sum to, where that is more than the conversion of ρ allows.
    """

    workload: Workload
    budget: Budget
    relation: Relation
    rows: int | None = None
    ledgered: bool = False
    aside: Fraction = Fraction(0)
    in_order: tuple[int, ...] = ()
    objective: Objective = "max"
    rho: Fraction | None = None

    @property
    def neighbours(self) -> Neighbours:
        return self.relation.neighbours

    @property
    def max_rows(self) -> int:
        return self.relation.max_rows

    @property
    def total_is_public(self) -> bool:
        return self.relation.total_is_public

    @property
    def currency(self) -> Literal["pure", "zcdp"]:
        return "pure" if self.budget.pure else "zcdp"

    @property
    def cap(self) -> Fraction:
        """The whole budget in its currency: ε, or ρ."""
        return cap_of(self.budget)[1] if self.rho is None else self.rho

    @property
    def counting(self) -> bool:
        """Whether every query is 0 or 1 on a record."""
        return self.workload.counting

    @property
    def linear(self) -> bool:
        """Whether every query has a value in [0, 1] on a record: what a histogram can answer."""
        return self.workload.linear

    @property
    def listed(self) -> bool:
        """Whether some queries list records, of any universe, instead of asking about columns."""
        return any(isinstance(block, SparseQueries) for block in self.workload.blocks)

    @property
    def held(self) -> tuple[int, ...]:
        """The columns that a dense histogram for this workload needs: those that it asks about."""
        return self.workload.columns or (0,)

    @property
    def cells(self) -> int:
        """The number of cells of the columns held."""
        return self.workload.domain.project(self.held).cells

    def sensitivity(self, workload: Workload) -> Sensitivity:
        """How far one unit moves the counts of a workload, jointly, under this problem's relation."""
        return workload.sensitivity(self.relation)

    @property
    def error_sensitivity(self) -> int:
        """How many steps of an error one unit moves any query of the workload."""
        moved = error_sensitivity(self.workload, self.relation).under(self.neighbours)
        assert moved is not None
        return max(int(moved), 1)

    @property
    def denominator(self) -> int | None:
        """What a share of one amounts to in counts, where that is public or declared."""
        return self.workload.denominator or self.rows

    @property
    def planned_rows(self) -> int:
        """The rows that are planned for: the public or declared number, else the one assumption that all share."""
        return UNKNOWN_ROWS if self.rows is None else max(self.rows, 1)

    @property
    def assumed(self) -> tuple[str, ...]:
        """What is said of a number of rows that was assumed; nothing where it is known or takes no part."""
        return () if self.rows is not None or self.workload.denominator else (ROWS_ASSUMED,)

    @property
    def planned_denominator(self) -> int:
        """What a share of one amounts to in counts, by what is planned for."""
        return self.workload.denominator or self.planned_rows

    def law(self, moved: Sensitivity, price: Fraction) -> Noise:
        """The noise that makes a measurement cost `price`: Laplace for a pure budget, Gaussian otherwise."""
        if self.currency == "pure":
            return drawable(Noise("laplace", scale_up(Fraction(max(moved.l1, 1)) / price)))
        return drawable(Noise("gaussian", root_up(Fraction(max(moved.l2_squared, 1)) / (2 * price))))

    def law_of_one(self, moved: int, price: Fraction) -> Noise:
        """The noise that makes one number cost `price` which one unit moves by `moved`."""
        return self.law(Sensitivity(l1=moved, l2_squared=moved * moved, linf=moved), price)

    def selection(self, price: Fraction) -> Fraction:
        """The range at which one draw of the exponential mechanism costs at most `price`."""
        return price if self.currency == "pure" else root_down(8 * price)


@dataclass(frozen=True, kw_only=True)
class ErrorBound:
    """With this probability the statistic of the error, in fractions of the rows, is at most `value`."""

    value: float
    statistic: Literal["max", "mean", "rms"] = "max"
    probability: float = 1 - FAILURE
    theorem: str

    def __post_init__(self) -> None:
        number = type(self.value) is float and 0 <= self.value < math.inf and 0 < self.probability < 1
        named = self.statistic in ("max", "mean", "rms") and isinstance(self.theorem, str)
        demand(
            ValueError,
            (number, "an error bound is a number from 0 on that holds with a probability between 0 and 1"),
            (named, "an error bound is on the max, mean or rms error, by a theorem"),
        )

    @property
    def vacuous(self) -> bool:
        return self.value >= 1


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a mechanism says before anything is spent. Errors are in counts: `bound` is proved, the others typical.

    `expected_within` is the factor by which the typical ones are right in about nine of ten releases; None where nobody
    knows. `expected_width` is about how far the ends of a 95 % interval will be from the answer, in counts: None where
    no interval is printed. `answered` is of sessions: at least how likely all declared questions are answered with a
    guarantee, where the guess is as right as expected.
    """

    mechanism: str
    expected_max: float
    expected_mean: float
    bound: ErrorBound | None
    memory: int
    citations: tuple[str, ...]
    notes: tuple[str, ...] = ()
    expected_width: float | None = None
    answered: float | None = None
    expected_within: float | None = None

    def __post_init__(self) -> None:
        perhaps = (self.expected_width, self.answered, self.expected_within)
        given = (number for number in perhaps if number is not None)
        numbers = (self.expected_max, self.expected_mean, self.memory, *given)
        if any(type(number) not in (int, float) or not number >= 0 for number in numbers):
            raise ValueError("a claim expects errors and memory from 0 on")
        if not all(isinstance(word, str) for word in (self.mechanism, *self.citations, *self.notes)):
            raise ValueError("a claim names its mechanism, its citations and its notes in words")


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A mechanism that cannot serve a problem, and why, in a sentence that says what would help."""

    mechanism: str
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What a mechanism hands over: a synopsis, the workload's answers as fractions, and how they came about.

    `measured` are the noisy answers that the synopsis was made from, where they say more about single questions;
    `warnings` what a reader of the guarantee must know about the settings.
    """

    synopsis: Synopsis
    answers: NDArray[np.float64]
    total: Total
    certificate: Certificate | None = None
    measured: NoisyAnswers | ResidualAnswers | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


Planned = TypeVar("Planned")


class Mechanism(Protocol[Planned]):
    """The offline role. Settings are the fields of a frozen dataclass, checked when it is made.

    What public facts decide is decided once, by `plan`; the claim describes that plan and the release carries it out.
    """

    name: ClassVar[str]
    answers_of_a_table: ClassVar[bool] = True
    """Whether some table could have given its answers. Plain noisy ones may lie far beyond the rows."""

    def plan(self, problem: Problem) -> Planned:
        """Everything about the release that public facts decide; `CannotServe` where it cannot serve them."""

    def claim(self, problem: Problem, plan: Planned) -> Claim:
        """What to expect of the release that was planned."""

    def declare(self, problem: Problem, plan: Planned) -> Sequence[Event] | None:
        """The complete list of acts, where it is fixed before the first draw; None for an adaptive mechanism."""
        return None

    def terms(self, problem: Problem, plan: Planned) -> GaussianTerms | None:
        """Of an adaptive mechanism whose acts are all Gaussian noise: what these keep to; None to add up in ρ."""
        return None

    def release(self, curator: Curator, problem: Problem, plan: Planned) -> Outcome:
        """Carry the plan out: the only step that spends."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A mechanism that can serve a problem, with its plan and what it claims of it."""

    mechanism: Mechanism[Any]
    problem: Problem
    plan: Any
    claim: Claim

    def declare(self) -> Sequence[Event] | None:
        """The complete list of acts, where it is fixed before the first draw."""
        return self.mechanism.declare(self.problem, self.plan)

    def release(self, curator: Curator) -> Outcome:
        """Carry the plan out."""
        return self.mechanism.release(curator, self.problem, self.plan)


def propose(mechanism: Mechanism[Any], problem: Problem) -> Proposal | Refusal:
    """Plan once, and say what to expect, and how sure that is.

    Typical errors are models. Here none of the answers of a table is wrong by more than its rows, and no error is
    smaller at worst than on average.
    """
    try:
        plan = mechanism.plan(problem)
        claim = mechanism.claim(problem, plan)
    except (CannotServe, ScaleError) as why:
        return Refusal(mechanism=mechanism.name, reason=str(why))
    bounded = getattr(mechanism, "answers_of_a_table", True)  # it may be any object with its methods
    most = problem.planned_denominator if bounded else math.inf
    mean, width = min(claim.expected_mean, most), claim.expected_width
    claim = dataclasses.replace(
        claim,
        notes=(*claim.notes, *problem.assumed),
        expected_mean=mean,
        expected_max=max(mean, min(claim.expected_max, most)),
        expected_width=None if width is None else min(width, problem.planned_denominator),
        expected_within=VARIES.get(claim.mechanism),
    )
    return Proposal(mechanism=mechanism, problem=problem, plan=plan, claim=claim)


def expected_maximum(law: Noise, coordinates: int) -> float:
    """About what the largest of this many independent noises is, in size."""
    k = max(coordinates, 1)
    if law.kind == "laplace":
        return law.scale * (math.log(k) + 0.5772 + 0.5 / k)  # the k-th harmonic number, nearly
    # The level above which e^(−γ) of all noises are: the mean of Gumbel's law.
    return -law.scale * NormalDist().inv_cdf(math.exp(-np.euler_gamma) / (2 * k)) if k > 1 else expected_size(law)


def expected_size(law: Noise) -> float:
    """The mean of the noise's absolute value."""
    return law.scale if law.kind == "laplace" else law.scale * math.sqrt(2 / math.pi)


def in_counts(law: Noise, grid: int) -> Noise:
    """A noise on steps of a grid as the noise in counts that it nearly is: for fits and expectations, not for tails."""
    return law if grid == 1 else Noise(law.kind, law.scale / grid)


def maximum_bound(law: Noise, coordinates: int, failure: float) -> float:
    """A bound that all of this many noises keep, except with probability `failure`, by a union bound.

    Discrete Laplace: P[|Z| ≥ t] = 2pᵗ/(1+p) with p = e^(−1/b). Discrete Gaussian: sub-Gaussian with parameter σ.
    """
    k = max(coordinates, 1)
    if law.kind == "laplace":
        return law.scale * math.log(2 * k / (failure * (1 + math.exp(-1 / law.scale))))
    return law.scale * math.sqrt(2 * math.log(2 * k / failure))


def refuse_for(reason: str | None) -> None:
    """Refuse a problem for this reason, where there is one."""
    if reason is not None:
        raise CannotServe(reason)


def not_counting(problem: Problem) -> str | None:
    """Why a mechanism that asks which records satisfy a query cannot serve these; None where it can."""
    if problem.listed:
        return "these queries put weights on listed records, not predicates on columns: use sparse-project or laplace"
    if not problem.linear:
        return "functions of the whole table are not counts of records: use boosting, gaussian or laplace"
    if not problem.counting:
        return "sums of values are not counts of records: use laplace, gaussian, histogram, projection or mwem"
    return None


def not_linear(problem: Problem) -> str | None:
    """Why a mechanism that needs a value in [0, 1] of each record cannot serve these; None where it can."""
    return None if problem.linear else not_counting(problem)


def no_histogram(problem: Problem, *, copies: float = 1) -> str | None:
    """Why there can be no `copies` histograms over the columns asked about, one weight per cell; None if they can."""
    if (refused := not_linear(problem)) is not None:
        return refused
    if (kept := math.ceil(problem.cells * Fraction(max(copies, 1)))) <= MAX_CELLS:
        return None
    many = "" if copies <= 1 else f", of all its tables {in_words(kept)}"
    made = f"{len(problem.held)} columns make {in_words(problem.cells)} cells{many} (limit {MAX_CELLS:,})"
    return f"it keeps one weight per cell, and {made}: ask about fewer columns, or declare wider bins"
