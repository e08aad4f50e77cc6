"""What every mechanism that ends in a histogram does last: answer the workload, and buy the certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.intervals.simulated_errors import SimulatedErrors
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.synopsis import Total

from .certificate import certify_workload
from .mechanism import Outcome, Problem


def outcome(
    curator: Curator,
    problem: Problem,
    *,
    weights: NDArray[np.float64],
    total: Total,
    certificate: float,
    parameters: dict[str, Any],
    measured: NoisyAnswers | ResidualAnswers | None = None,
    errors: SimulatedErrors | None = None,
    warnings: tuple[str, ...] = (),
) -> Outcome:
    """The histogram over the columns held, its answers, and for this share of the budget a bound on its worst one."""
    workload = problem.workload
    synopsis = Histogram(workload.domain, weights, total, problem.held, errors)
    answers = synopsis.answer(workload)
    return Outcome(
        synopsis=synopsis,
        answers=answers,
        total=total,
        certificate=certify_workload(curator, problem, answers=answers, total=total, share=certificate),
        measured=measured,
        parameters=parameters,
        warnings=warnings,
    )
