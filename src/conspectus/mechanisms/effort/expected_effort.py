"""What a release will take and how large its file will be: seconds of one processor and bytes, from public facts alone.

Each mechanism has a count of the steps of each kind that its plan asks for: rows that are read and counted, noises that
are drawn, cells that a fit looks at. Seconds are these times constants that were measured (`expectations`). The file
holds the answers, the questions where they are listed one by one, and the numbers of the synopsis. Both are meant to be
right within a factor of three on a usual machine; nothing private and no promise rests on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conspectus.mechanisms.mechanism import Mechanism, Problem
from conspectus.mechanisms.typical.expectations import (
    BYTES_ANSWER,
    BYTES_LITERAL,
    BYTES_START,
    BYTES_WEIGHT,
    BYTES_WHOLE,
    SECONDS_ADAPTIVE,
    SECONDS_ANSWER,
    SECONDS_COUNT,
    SECONDS_COUNT_ONE,
    SECONDS_EVALUATION,
    SECONDS_FIT,
    SECONDS_KEY,
    SECONDS_NOISE,
    SECONDS_READ,
    SECONDS_ROUND,
    SECONDS_START,
    SECONDS_SUM,
    SECONDS_TALLY,
)
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal


@dataclass(frozen=True, kw_only=True)
class Effort:
    """What a release takes, within a factor of about three.

    Attributes:
        seconds: Of one processor, once the kernels are compiled.
        file_bytes: The size of its file.
    """

    seconds: float
    file_bytes: int


@dataclass(frozen=True, kw_only=True)
class _Work:
    """Beyond reading, counting and answering: seconds, and what the file holds beyond the answers.

    `whole` are whole numbers near zero, which pack well, and `weights` fractions of full length.
    """

    seconds: float = 0.0
    whole: float = 0.0
    weights: float = 0.0


def expected_effort(mechanism: Mechanism[Any], problem: Problem, plan: Any) -> Effort | None:
    """What a planned release takes; None for a mechanism that is not one of ours.

    Args:
        mechanism: With its settings.
        problem: The public facts.
        plan: What it made of them.
    """
    work_of = _WORK.get(mechanism.name)
    if work_of is None:
        return None
    work = work_of(mechanism, problem, plan)
    asked, rows = len(problem.workload), float(problem.planned_rows)
    marginals = sum(isinstance(block, Marginal) for block in problem.workload.blocks)
    listed = _listed(problem)
    counting = rows * (SECONDS_READ * len(problem.held) + SECONDS_COUNT * marginals + SECONDS_COUNT_ONE * listed)
    literals = sum(block.terms.size for block in problem.workload.blocks if isinstance(block, Conjunctions))
    size = BYTES_START + BYTES_ANSWER * asked + BYTES_LITERAL * literals
    return Effort(
        seconds=SECONDS_START + counting + SECONDS_ANSWER * asked + work.seconds,
        file_bytes=math.ceil(size + BYTES_WHOLE * work.whole + BYTES_WEIGHT * work.weights),
    )


def _noise(_: Any, problem: Problem, plan: Any) -> _Work:
    asked = len(problem.workload)
    return _Work(seconds=SECONDS_NOISE * asked, whole=asked)


def _joint_table(_: Any, problem: Problem, plan: Any) -> _Work:
    seconds = SECONDS_NOISE * problem.cells + SECONDS_SUM * _listed(problem)
    return _Work(seconds=seconds, whole=problem.cells)


def _tree(_: Any, problem: Problem, plan: Any) -> _Work:
    nodes = len(plan.tree)
    return _Work(seconds=SECONDS_NOISE * nodes + SECONDS_SUM / 10 * _listed(problem), whole=nodes)


def _listed(problem: Problem) -> int:
    """How many questions stand on their own, outside marginals."""
    return sum(len(block) for block in problem.workload.blocks if not isinstance(block, Marginal))


def _single(plan: Any) -> bool:
    """Whether a plan finds single questions, and not whole marginals."""
    return len(plan.candidates) == len(plan.candidates.workload)


def _fit(cells: int, evaluations: float) -> float:
    """Seconds of a fit of a histogram to marginals."""
    return evaluations * (SECONDS_EVALUATION + SECONDS_FIT * cells)


def _mwem(mechanism: Any, problem: Problem, plan: Any) -> _Work:
    evaluations = (plan.rounds + 10) * mechanism.evaluations
    alone = SECONDS_FIT / 3 * problem.cells * evaluations * plan.rounds / 2 if _single(plan) else 0.0
    seconds = (
        _fit(problem.cells, evaluations) + alone + plan.rounds * (SECONDS_ROUND + SECONDS_TALLY * len(problem.workload))
    )
    return _Work(seconds=seconds, weights=problem.cells)


def _iterative(_: Any, problem: Problem, plan: Any) -> _Work:
    rounds = plan.aim.rounds
    seconds = rounds * (SECONDS_ROUND + SECONDS_TALLY * len(problem.workload)) + _fit(problem.cells, 2 * rounds)
    return _Work(seconds=seconds, weights=min(rounds / 500, 1.0) * problem.cells)  # few steps leave many weights alike


def _projection(mechanism: Any, problem: Problem, plan: Any) -> _Work:
    asked, often = len(problem.workload), mechanism.evaluations
    seconds = _fit(problem.cells, often) + (SECONDS_NOISE + often * SECONDS_TALLY) * asked
    return _Work(seconds=seconds, whole=asked, weights=problem.cells)


def _boosting(_: Any, problem: Problem, plan: Any) -> _Work:
    asked = len(problem.workload)
    each = _fit(problem.cells, 200 if _single(plan) else 40)
    seconds = plan.rounds * (SECONDS_ROUND + SECONDS_TALLY * asked + each)
    return _Work(seconds=seconds, weights=plan.rounds * problem.cells)


def _dual_query(_: Any, problem: Problem, plan: Any) -> _Work:
    found = plan.schedule.rounds * plan.responses
    seconds = found * (SECONDS_ROUND / 4 + SECONDS_TALLY / 4 * len(problem.workload))
    return _Work(seconds=seconds, whole=found * len(problem.held))


def _adaptive(mechanism: Any, problem: Problem, plan: Any) -> _Work:
    components, width = mechanism.components or 3_000, sum(min(size, plan.most_groups) for size in plan.sizes)
    runs = 4 if mechanism.intervals else 1
    seconds = SECONDS_ADAPTIVE * runs * components * width * max(len(plan.pairs), 1) ** 0.5
    return _Work(seconds=seconds, whole=1.2 * components * width)


def _small_db(_: Any, problem: Problem, plan: Any) -> _Work:
    return _Work(seconds=1.0, whole=plan.net.size * len(problem.held))


def _net(_: Any, problem: Problem, plan: Any) -> _Work:
    return _Work(seconds=SECONDS_TALLY * plan.guesses.size, whole=len(problem.held) * problem.planned_rows)


def _sparse_project(_: Any, problem: Problem, plan: Any) -> _Work:
    size = plan.projection.size
    rows = float(problem.planned_rows)
    return _Work(seconds=SECONDS_NOISE * size + SECONDS_KEY * rows, whole=size)


def _top(_: Any, problem: Problem, plan: Any) -> _Work:
    return _Work(seconds=plan.winners * (SECONDS_ROUND + SECONDS_TALLY * len(problem.workload)), whole=plan.winners)


def _stable_histogram(_: Any, problem: Problem, plan: Any) -> _Work:
    rows = float(problem.planned_rows)
    keys = min(float(problem.cells), rows / max(plan.threshold, 1))
    return _Work(seconds=SECONDS_KEY * rows + SECONDS_SUM / 2 * len(problem.workload), whole=len(problem.held) * keys)


_WORK: dict[str, Callable[[Any, Problem, Any], _Work]] = {
    "laplace": _noise,
    "gaussian": _noise,
    "histogram": _joint_table,
    "tree": _tree,
    "mwem": _mwem,
    "iterative": _iterative,
    "adaptive": _adaptive,
    "projection": _projection,
    "boosting": _boosting,
    "dual-query": _dual_query,
    "small-db": _small_db,
    "net": _net,
    "sparse-project": _sparse_project,
    "top": _top,
    "stable-histogram": _stable_histogram,
}
"""The work of each mechanism by its name: of its settings, the public facts and its plan."""
