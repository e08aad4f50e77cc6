"""The joint table of all columns asked about, measured once: every question about them is a sum of its cells.

The book's Example 3.2: a histogram has sensitivity 1 under add-remove, and 2 under replace, however many cells it has.
So each cell gets the noise of a single count, and a question that sums m cells the noise of m. Where questions are many
and cells are few that is far less than the noise of all questions together.

Privacy: composes one measurement of one marginal (and the row total).
Accuracy: exact: an answer is off by the sum of m independent noises, of which intervals are exact quantiles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.curator import Curator
from conspectus.data.domain import in_words
from conspectus.privacy.events import Event, Noise
from conspectus.privacy.tails import deviation_of
from conspectus.queries.block import Block
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.dyadic_tree import DyadicTree
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.literals import LiteralArrays
from conspectus.queries.query import VALUE_STEPS
from conspectus.queries.workload import Workload

from .additive import Gaussian, Laplace, NoisePlan
from .mechanism import CannotServe, Claim, Mechanism, Outcome, Problem, not_linear, refuse_for
from .sums_of_noise import largest_of, typical_width

MOST_CELLS = 1 << 20
"""The largest table that is measured cell by cell."""

PREFIXES, BRIDGED, RANGES = 7, 15, 32
"""Of as many independent errors the largest is like that of all prefixes of a column, of the same where the number of
rows is public, and of all its intervals."""


@dataclass(frozen=True, kw_only=True)
class JointTable(Mechanism[Noise]):
    """The table of all columns asked about, measured once; answers are sums of its cells. It has no settings.

    Choose it where the columns asked about have few combinations of values, up to some thousands, and the questions are
    many: it does not matter how many there are. Its answers agree with each other, are unbiased, and have exact
    intervals; anything else about the same columns can be asked afterwards.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> columns = {"smoker": {"type": "boolean"}, "ill": {"type": "boolean"}}
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": columns})
        >>> data = pa.table({"smoker": [True, False] * 500, "ill": [True, False, False, False, False] * 200})
        >>> workload = cs.sql(schema, ["smoker", "ill", "smoker AND ill", "smoker OR ill", "NOT smoker"])
        >>> release = cs.release(cs.open_table(data, schema), workload, epsilon=10.0, mechanism="histogram")
        >>> release.parameters["cells"], abs(release.ask("smoker AND NOT ill").fraction - 0.4) < 0.05
        (4, True)
    """

    name: ClassVar[str] = "histogram"
    answers_of_a_table: ClassVar[bool] = False

    def plan(self, problem: Problem) -> Noise:
        """The noise on each cell: of the two laws the one that spreads less for the whole budget."""
        refuse_for(not_linear(problem))
        if problem.cells > MOST_CELLS:
            raise CannotServe(
                f"it measures each of {in_words(problem.cells)} cells (limit {MOST_CELLS:,}): ask about fewer columns, "
                "or declare wider bins"
            )
        return cheaper_noise(dataclasses.replace(problem, workload=joint_table(problem)))

    def claim(self, problem: Problem, plan: Noise) -> Claim:
        parts = [_noises(block, problem) for block in problem.workload.blocks]
        cells = np.concatenate(parts) if parts else np.zeros(0)
        spreads = deviation_of(plan) * np.sqrt(cells)
        _, mean = largest_of(spreads, plan, single=cells <= 1)
        known = problem.total_is_public
        apart = [_far_apart(block, part, known=known) for block, part in zip(problem.workload.blocks, parts)]
        few = np.concatenate(apart) if apart else cells
        largest, _ = largest_of(deviation_of(plan) * np.sqrt(few), plan, single=few <= 1)
        return Claim(
            mechanism=self.name,
            expected_max=largest,
            expected_mean=mean,
            bound=None,
            memory=32 * problem.cells,
            citations=("Dwork & Roth 2014, Example 3.2",),
            notes=(f"{plan.kind} noise of scale {plan.scale:.4g} counts on each of {problem.cells:,} cells",),
            expected_width=typical_width(spreads, plan, single=cells <= 1),
        )

    def declare(self, problem: Problem, plan: Noise) -> Sequence[Event]:
        measured = dataclasses.replace(problem, workload=joint_table(problem))
        return _additive(plan).declare(measured, NoisePlan(law=plan))

    def release(self, curator: Curator, problem: Problem, plan: Noise) -> Outcome:
        measured = dataclasses.replace(problem, workload=joint_table(problem))
        made = _additive(plan).release(curator, measured, NoisePlan(law=plan))
        parameters = {**made.parameters, "cells": problem.cells}
        return dataclasses.replace(made, answers=made.synopsis.answer(problem.workload), parameters=parameters)


def _noises(block: Block, problem: Problem) -> NDArray[np.float64]:
    """For each query how many noises its error adds up, in variance.

    Where the number of rows is public, what the cells sum to beyond it is taken away from each of them: of m cells of C
    the noise of m(C − m)/C is left. Of sums of weights that is not known here, and they are taken as they are.
    """
    cells = _share_of_cells(block) * problem.cells
    if not problem.total_is_public:
        return cells
    if isinstance(block, LinearQueries):
        return np.asarray(np.minimum(cells, np.maximum(problem.cells - cells, 0.0)))
    return np.asarray(cells * np.maximum(1 - cells / problem.cells, 0.0))


def _far_apart(block: Block, noises: NDArray[np.float64], *, known: bool) -> NDArray[np.float64]:
    """Some queries of a block whose errors are about independent of each other.

    The errors of prefixes are a walk of C steps. Its largest distance from 0 is 1.25 times the deviation of its end, or
    1.74 times that of its middle where both ends are known: as of few independent ones. The largest interval between
    two of its places is like that of some more.
    """
    if not isinstance(block, Intervals):
        return noises
    few = RANGES if not block.prefixes_only else BRIDGED if known else PREFIXES
    some = np.linspace(0, len(noises) - 1, min(len(noises), few)).astype(np.int64)
    return np.asarray((noises if block.prefixes_only else np.sort(noises))[some])


def joint_table(problem: Problem) -> Workload:
    """The marginal of all columns asked about."""
    domain = problem.workload.domain
    return Workload(domain, (Marginal(domain, tuple(sorted(problem.held))),))


def cheaper_noise(problem: Problem) -> Noise:
    """The noise on a whole workload that spreads least for the whole budget."""
    laws = [Laplace().plan(problem).law]
    if not problem.budget.pure:
        laws.append(Gaussian().plan(problem).law)
    return min(laws, key=deviation_of)


def _additive(law: Noise) -> Laplace | Gaussian:
    return Laplace() if law.kind == "laplace" else Gaussian()


def _share_of_cells(block: Block) -> NDArray[np.float64]:
    sizes = block.domain.sizes
    match block:
        case Marginal():
            return np.full(len(block), 1 / len(block))
        case Intervals():
            low, high = block.bounds
            return np.asarray((high - low + 1) / sizes[block.column])
        case DyadicTree():
            return np.concatenate([np.full(n, w / block.leaves) for w, n in zip(block.widths, block.level_sizes)])
        case Conjunctions():
            return _shares(block)
        case LinearQueries():
            squares = [float(np.square(w.steps / VALUE_STEPS).mean()) for w in block.weightings]
            return np.asarray(_shares(block.given) * np.array(squares)[block.which])
    return np.full(len(block), 0.5)  # a parity holds on half of all cells


def _shares(block: Conjunctions) -> NDArray[np.float64]:
    """The share of all cells that each predicate holds on: the product of the shares of its codes, box by box."""
    arrays = LiteralArrays(block.literals)
    sizes = np.array([block.domain.sizes[literal.column] for literal in block.literals] + [1], dtype=np.float64)
    lengths = np.append(arrays.length[: len(block.literals)], 1).astype(np.float64)
    boxes = np.prod((lengths / sizes)[block.terms], axis=1)
    owner = np.repeat(np.arange(len(block)), np.diff(block.starts))
    return np.bincount(owner, weights=boxes, minlength=len(block)).astype(np.float64)
