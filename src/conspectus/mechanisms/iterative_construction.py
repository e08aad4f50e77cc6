"""The book's Algorithm 8, the iterative construction mechanism, with the multiplicative-weights rule or two others.

    A_0 = uniform over X
    for t = 1 … T(α/2):
      1. q_t = the question that A_{t−1} gets most wrong, by the exponential mechanism (Theorem 5.5)
      2. m_t = q_t(x) + noise
      3. stop if |m_t − q_t(A_{t−1})| < 3α/4
      4. A_t = A_{t−1}, multiplied by exp(±η·q_t) towards m_t and normalised (Algorithm 5)
    output the last A

| symbol | here |
| --- | --- |
| α, T | `Aim.alpha`, `Aim.rounds`; T(α) = ln|X|/2α² is `iterative.multiplicative_updates` |
| q_t, m_t | `Step.question`, `Step.noisy`; steps 1 and 2 are `iterative.steps`, which goes through the curator |
| η | `MultiplicativeWeights.rate`: 2α with `theorem=True`, else half of the error that was seen |
| A_t | `rule.weights`, a histogram over the columns asked about |

With `rule` the update of step 4 is that of the median (Algorithm 9) or of the perceptron (Algorithm 10) in place of
Algorithm 5, with their own T(α); a release then holds the histogram that is nearest to what the rule says
(`update_rules/offline_rules.py`).

With free parameters the weights are now and then solved to agree with everything measured so far, which is
post-processing.

Privacy: composes one selection and one measurement a round, the row total, and the certificate.
Accuracy: Theorem 5.4 for the noise that really runs, under replace with a public number of rows; Theorem 5.7 with its
constants corrected (32 for pure, 64 for approximate budgets) stands beside it. T(α) = ln|X|/2α² updates at level α;
the rule runs at level α/2, with rate 2α. If every measurement and the distinguisher are within α/8: a round that does
not stop had an error of at least 3α/4 − α/8 ≥ α/2, so the rule's count T(α/2) applies; a round that stops leaves no
error above 3α/4 + α/8 + α/8 = α.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from scipy.optimize import brentq

from conspectus.curator.curator import Curator
from conspectus.data.domain import Domain
from conspectus.privacy.events import Noise
from conspectus.queries.sensitivity import Sensitivity
from conspectus.synopses.fitting.max_entropy import Measurement, fit_histogram
from conspectus.whole_numbers import MOST_TURNS

from .bounds import FAILURE
from .certificate import certified_width
from .histograms import outcome
from .iterative import (
    Candidates,
    LoopPlan,
    MultiplicativeWeights,
    book_updates,
    check_rounds,
    measurements,
    multiplicative_rate,
    multiplicative_updates,
    steps,
)
from .mechanism import (
    CannotServe,
    Claim,
    ErrorBound,
    Mechanism,
    Outcome,
    Problem,
    expected_maximum,
    expected_size,
    in_counts,
    maximum_bound,
    no_histogram,
    refuse_for,
)
from .settings import SHARE, check_settings, is_share
from .total import find_total, left_after_total, of_fractions
from .typical.expectations import ITERATIVE_LARGEST, ITERATIVE_LEFT, ITERATIVE_MEAN
from .typical.question_facts import most_on_average, narrowness
from .update_rules.offline_rules import MOST_TERMS, MedianRule, PerceptronRule
from .update_rules.update_counts import median_updates, perceptron_updates

REFIT, RIDGE = 20, 0.1
"""With free parameters: how often the weights are solved anew, in rounds, and with which ridge."""

MOST_NET_CELLS = 64
RULES = {"multiplicative": multiplicative_updates, "median": median_updates, "perceptron": perceptron_updates}
"""The update rules by name, and T(α) of each."""

HELD = {"multiplicative": 1.0, "median": 2.5, "perceptron": 2.0}
"""How many times α the histogram that is released may be off, where what the rule says is off by α at most."""

CITES = ("Dwork & Roth 2014, Theorems 5.4 to 5.7 (constants corrected)", "Dwork & Roth 2014, Algorithms 5 and 8")


def remaining_error(rounds: int, cells: int) -> float:
    """What multiplicative weights typically leaves after this many updates; T(α) solved for α would be √(ln|X|/2T)."""
    return ITERATIVE_LEFT * math.sqrt(math.log(cells) / rounds)


def printed_alpha(problem: Problem) -> float:
    """The α of Theorem 5.7 with its own composition theorem, constants corrected; for comparison.

    Pure: α = 32 T(α/2) ln(|Q|/γ)/(nε). Approximate: α = 64 √(T(α/2) ln(1/δ)) ln(|Q|/γ)/(nε). γ = β/2T(α/2).
    """
    rows, budget = problem.rows, problem.budget
    if not rows or budget.epsilon is None:
        return math.inf
    cells, queries, epsilon = problem.cells, len(problem.workload), budget.epsilon

    def excess(alpha: float) -> float:
        turns = max(1.0, book_updates(alpha / 2, cells))
        log_term = math.log(queries * 2 * turns / FAILURE)
        factor = 32 * turns if budget.pure else 64 * math.sqrt(turns * math.log(1 / budget.delta))
        return alpha - factor * log_term / (rows * epsilon)

    return _root(excess)


def promised_alpha(
    problem: Problem, certificate: float, *, updates: Callable[[float, int], float] = multiplicative_updates
) -> float:
    """The smallest α that Theorem 5.4 promises for the noise that really runs; 1 or more promises nothing.

    The theorem asks that all T(α/2) measurements are within α/8 (with probability 1 − β/2) and that the distinguisher
    is, F = (2/ε₀) ln(2T|Q|/β) ≤ α/8 in counts (Theorem 5.5). Each is taken at the exact price of a round. `updates` is
    T of the rule at a level and a number of cells; that of multiplicative weights by default.
    """
    if not problem.rows:
        return math.inf
    queries, rows, cells = len(problem.workload), problem.rows, problem.cells
    single, grid = problem.sensitivity(problem.workload[:1]), problem.workload[:1].grid

    def excess(alpha: float) -> float:
        needed = updates(alpha / 2, cells)
        if not math.isfinite(needed):
            return -math.inf
        turns = max(1, math.ceil(needed))
        half = problem.cap * (1 - Fraction(certificate)) / turns / 2
        tail = maximum_bound(in_counts(problem.law(single, half), grid), turns, FAILURE / 2)
        distinguisher = 2 / float(problem.selection(half)) * math.log(2 * turns * queries / FAILURE)
        return alpha - 8 * max(tail, distinguisher) / rows

    return _root(excess)


def _root(excess: Callable[[float], float]) -> float:
    """Where a growing function crosses zero; the end of the interval that it stays on the near side of, otherwise."""
    low, high = 1e-4, 1e9
    if excess(low) >= 0:
        return low
    if not excess(high) > 0:
        return math.inf
    while math.isinf(excess(low)):  # up to where a net is small enough to hold
        low *= 1.1
    return float(brentq(excess, low, high)) if excess(low) < 0 else low


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What the rounds aim at, for a number of rows: the accuracy `alpha`, as a fraction, in so many rounds at most."""

    alpha: float
    rounds: int
    rows: float


@dataclass(frozen=True, kw_only=True, eq=False)
class IterativePlan:
    """What public facts decide: the questions, the aim, the price of all rounds and that of the certificate.

    `promised` is the α of Theorem 5.4. Where the total is bought and not known yet, the aim is for a declared or usual
    number of rows, and the release aims anew.
    """

    candidates: Candidates
    aim: Aim
    promised: float
    price: Fraction


@dataclass(frozen=True, kw_only=True)
class IterativeConstruction(Mechanism[IterativePlan]):
    """The book's iterative construction: find the worst answer, measure it, update the weights; stop when all is well.

    Choose it to have Theorem 5.4 (`theorem=True`), or to see the book's algorithm at work. In practice `mwem`, which
    measures whole marginals and refits, is more accurate.

    Args:
        rule: How the guess learns from a measured answer: "multiplicative" (Algorithm 5), "median" (Algorithm 9, over
            a net of databases, for at most 64 cells) or "perceptron" (Algorithm 10). For comparison, mostly.
        theorem: Take α and the rounds from Theorem 5.4. Refused where the theorem promises nothing.
        alpha: The largest error aimed at, as a fraction; rounds stop once it seems to be reached. By default what the
            noise of the rounds allows.
        rounds: The most rounds to run; by default what balances their noise with what fewer updates would leave.
        selection: The share of a round that finding costs; measuring costs the rest. With `theorem=True` it is a half.
        certificate: The share of the budget that buys a bound on the largest error; 0 for none.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> columns = {"smoker": {"type": "boolean"}, "ill": {"type": "boolean"}}
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": columns})
        >>> data = pa.table({"smoker": [True, False] * 500, "ill": [True, False, False, False, False] * 200})
        >>> table = cs.open_table(data, schema)
        >>> workload = cs.marginals(schema, 2)
        >>> release = cs.release(table, workload, epsilon=50, delta=1e-6, mechanism="iterative", rounds=20)
        >>> release.parameters["rounds"], release.parameters["rounds_used"] <= 20
        (20, True)
    """

    theorem: bool = False
    alpha: float | None = None
    rounds: int | None = None
    selection: float = 0.5
    certificate: float = 0.03
    rule: str = "multiplicative"

    name: ClassVar[str] = "iterative"

    def __post_init__(self) -> None:
        check_rounds(self.rounds, selection=self.selection, certificate=self.certificate)
        check_settings(
            (self.alpha is None or is_share(self.alpha), f"alpha, the error aimed at, {SHARE}"),
            (
                not self.theorem or (self.alpha is None and self.rounds is None),
                "theorem=True sets alpha and rounds itself: leave them out",
            ),
            (self.rule in RULES, f"rule, how the guess learns, is one of {', '.join(RULES)}"),
        )

    def plan(self, problem: Problem) -> IterativePlan:
        refuse_for(no_histogram(problem))
        refuse_for(self._no_rule(problem))
        promised = promised_alpha(problem, self.certificate, updates=RULES[self.rule])
        if self.theorem and not problem.total_is_public:
            raise CannotServe("Theorem 5.4 is for replaced rows and a public number of rows")
        if self.theorem and not promised < 1:
            said = f"Theorem 5.4 promises an error of {promised:.3g} here, which says nothing"
            raise CannotServe(f"{said}: leave theorem=True out")
        rows = float(problem.planned_rows)
        if self.theorem:
            turns = max(1, math.ceil(RULES[self.rule](promised / 2, problem.cells)))
            aim = Aim(alpha=promised, rounds=_played(turns), rows=rows)
        else:
            aim = self._aim(problem, rows)
        return IterativePlan(
            # The book's rule asks single questions: each is a candidate, marginals included.
            candidates=Candidates.single(problem.workload.distinct()),
            aim=aim,
            promised=promised,
            price=left_after_total(problem, self.certificate),
        )

    def claim(self, problem: Problem, plan: IterativePlan) -> Claim:
        aim = plan.aim
        law = self._law(problem, problem.sensitivity(problem.workload[:1]), aim.rounds)
        left = remaining_error(aim.rounds, problem.cells) * aim.rows
        balanced = expected_maximum(law, aim.rounds) + left
        largest = ITERATIVE_LARGEST * balanced
        mean = ITERATIVE_MEAN * narrowness(problem.workload) * balanced
        bound = None
        if self.theorem:
            bound = ErrorBound(value=HELD[self.rule] * plan.promised, theorem=CITES[0])
        claim = Claim(
            mechanism=self.name,
            expected_max=largest,
            expected_mean=min(mean, most_on_average(problem.workload) * aim.rows),
            bound=bound,
            memory=8 * 4 * problem.cells + 64 * len(problem.workload),
            citations=CITES,
            notes=(
                f"at most {aim.rounds} rounds, aiming at {aim.alpha:.3g}; Theorem 5.4 would promise "
                f"{plan.promised:.3g} (as printed in Theorem 5.7, corrected: {printed_alpha(problem):.3g})",
            ),
            expected_width=certified_width(problem, largest, problem.cap * Fraction(self.certificate)),
        )
        return of_fractions(problem, claim)

    def release(self, curator: Curator, problem: Problem, plan: IterativePlan) -> Outcome:
        asked = plan.candidates.workload
        curator.count_ahead(asked)
        total = find_total(curator, problem)
        rows = total.divisor
        # A bought total is another number than the one that was planned with.
        aim = plan.aim if self.theorem or rows == plan.aim.rows else self._aim(problem, rows)
        selection = Fraction(1, 2) if self.theorem else Fraction(self.selection)
        loop = LoopPlan.of(plan.candidates, aim.rounds, price=plan.price, selection=selection)
        rate = multiplicative_rate(aim.alpha / 2) if self.theorem and self.rule == "multiplicative" else None
        rule = self._rule(asked.domain, problem.held, aim.alpha / 2 if self.theorem else None, rate)
        held = asked.domain.project(problem.held)
        known: list[Measurement] = []
        used = 0
        for step in steps(curator, problem, loop, rule, rows):
            used += 1
            known.extend(measurements(step.question, problem.held, step.noisy, step.law, rows))
            if step.surprise < 0.75 * aim.alpha * rows:
                break
            rule.update(step, rows)
            # Each update forgets a little of the ones before: weights that agree with all of them cost nothing.
            if not self.theorem and used % REFIT == 0 and isinstance(rule, MultiplicativeWeights):
                rule.weights = fit_histogram(held, known, rows, steps=REFIT, ridge=RIDGE).weights
        if not self.theorem:
            weights = fit_histogram(held, known, rows, steps=400, ridge=RIDGE).weights
        else:
            weights = rule.weights if isinstance(rule, MultiplicativeWeights) else rule.weights(asked, rows)
        parameters = {"alpha": aim.alpha, "rounds": aim.rounds, "rounds_used": used, "rate": rate, "rule": self.rule}
        return outcome(
            curator, problem, weights=weights, total=total, certificate=self.certificate, parameters=parameters
        )

    def _rule(
        self, domain: Domain, columns: tuple[int, ...], level: float | None, rate: float | None
    ) -> MultiplicativeWeights | MedianRule | PerceptronRule:
        if self.rule == "median":
            return MedianRule(domain, columns, level)
        if self.rule == "perceptron":
            return PerceptronRule(domain, columns, level)
        return MultiplicativeWeights(domain, columns, rate)

    def _no_rule(self, problem: Problem) -> str | None:
        """Why the rule cannot serve this, if it cannot."""
        if self.rule == "multiplicative":
            return None
        if self.rule == "median" and problem.cells > MOST_NET_CELLS:
            return f"a median is taken over a net of databases of at most {MOST_NET_CELLS} cells: leave rule out"
        if problem.cells * len(problem.workload) > MOST_TERMS:
            return f"the {self.rule} holds every question on every cell, which is too much here: leave rule out"
        return None

    def _aim(self, problem: Problem, rows: float) -> Aim:
        """Free parameters: those that are set, and otherwise as many rounds as keep the noise below a quarter of α."""
        cells, single = problem.cells, problem.sensitivity(problem.workload[:1])

        def affordable(rounds: int) -> float:
            return min(0.9, 4 * expected_size(self._law(problem, single, rounds)) / rows)

        if self.rounds is not None:
            rounds = self.rounds
        elif self.alpha is not None:
            rounds = max(1, math.ceil(book_updates(self.alpha / 2, cells)))
        else:
            # Balance: what the rule typically leaves after T updates against the noise that T rounds cost.
            rounds = min(range(1, 301), key=lambda T: affordable(T) + remaining_error(T, cells))
        return Aim(alpha=self.alpha or affordable(rounds), rounds=_played(rounds), rows=rows)

    def _law(self, problem: Problem, single: Sensitivity, rounds: int) -> Noise:
        """About the noise on one question, if there are so many rounds."""
        law = problem.law(single, problem.cap * Fraction(1 - self.selection) / rounds)
        return in_counts(law, problem.workload[:1].grid)


def _played(rounds: int) -> int:
    """As many rounds; `CannotServe` where nobody would see their end."""
    if rounds > MOST_TURNS:
        raise CannotServe(f"so small an error takes {rounds:,} rounds, more than {MOST_TURNS:,}: give a larger alpha")
    return rounds
