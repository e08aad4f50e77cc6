"""What to expect of DualQuery: typical errors as shares of the regret, and the theorem's bound where it holds."""

from __future__ import annotations

import math
from fractions import Fraction

from conspectus.curator.scores import LOG_WEIGHT_STEPS
from conspectus.mechanisms.certificate import certified_width
from conspectus.mechanisms.mechanism import Claim, ErrorBound, Problem
from conspectus.mechanisms.total import of_fractions
from conspectus.mechanisms.typical.expectations import (
    DUAL_QUERY_FITTED_MAX,
    DUAL_QUERY_FITTED_MEAN,
    DUAL_QUERY_MAX,
    DUAL_QUERY_MEAN,
)
from conspectus.mechanisms.typical.question_facts import most_on_average, narrowness
from conspectus.privacy.guarantee import printed

from .parameters import DualQueryPlan, DualQuerySettings
from .schedule import Schedule
from .theorem import PAPER, cost_by_theorems

CITES = (PAPER, "Cesar & Rogers 2021 (price of a draw)")


def claim_of(name: str, settings: DualQuerySettings, problem: Problem, plan: DualQueryPlan) -> Claim:
    """The claim of a plan: all of it follows from the number of rows that is planned for."""
    columns = len(problem.workload.domain)
    largest, mean = expected_errors(problem, plan.schedule, fitted=plan.reweighting > 0)
    expected_max, expected_mean = largest * problem.planned_rows, mean * problem.planned_rows
    # Theorem 4.6 is about best responses, a public number of rows, and the rows as they were played.
    played = settings.oracle == "exact" and not plan.reweighting
    bound = None
    if settings.accuracy is not None and problem.total_is_public and played:
        bound = ErrorBound(value=settings.accuracy, theorem=PAPER)
    claim = Claim(
        mechanism=name,
        expected_max=expected_max,
        expected_mean=expected_mean,
        bound=bound,
        memory=40 * len(problem.workload) + 64 * columns + 256 * columns * plan.responses,
        citations=CITES,
        notes=(_schedule_note(plan.schedule), _cost_note(cost_by_theorems(problem, plan.schedule))),
        expected_width=certified_width(problem, expected_max, problem.cap * Fraction(settings.certificate)),
    )
    return of_fractions(problem, claim)


def expected_errors(problem: Problem, schedule: Schedule, *, fitted: bool) -> tuple[float, float]:
    """Typical maximum and mean errors, in fractions of the rows; `fitted` says whether multiplicities are."""
    workload = problem.workload
    regret = math.log(2 * len(workload)) / (sum(schedule.rates) / LOG_WEIGHT_STEPS)
    largest, mean = DUAL_QUERY_MAX, DUAL_QUERY_MEAN
    if fitted:
        largest, mean = DUAL_QUERY_FITTED_MAX, DUAL_QUERY_FITTED_MEAN
    return min(1.0, largest * regret), min(most_on_average(workload), mean * narrowness(workload) * regret)


def _schedule_note(schedule: Schedule) -> str:
    step = schedule.rates[0] / LOG_WEIGHT_STEPS
    return f"{schedule.rounds} rounds of {schedule.draws[-1]:,} draws, step {step:.3g}; the error depends on the table"


def _cost_note(costs: dict[str, float]) -> str:
    if "epsilon_by_theorem_4_3" not in costs:
        return f"the draws cost epsilon {printed(costs['epsilon_by_theorem_4_2'], 3)} by Theorem 4.2"
    theirs, ours = costs["epsilon_by_theorem_4_3"], costs["epsilon_of_the_draws"]
    return f"the draws cost epsilon {printed(theirs, 3)} by Theorem 4.3, {printed(ours, 3)} by ours"
