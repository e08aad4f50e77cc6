"""From tables to a mixture of products: P(x) = Σ_k w_k Π_j P_kj(x_j), fitted to targets over one, two or more columns.

One step is one of expectation and maximisation for the sum of all Kullback-Leibler divergences from targets to the
mixture's own tables, with momentum on the logarithms. All pair tables at once are one product of matrices, so that a
step over K components and D codes in all costs two products of K·D² numbers.

A few dozen steps are the fit: what a mixture has not yet learned of noisy targets acts as shrinkage. With more
components than a pair table has cells, many more steps would learn the noise too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from conspectus.compiled import one_thread, processors
from conspectus.data.domain import Domain
from conspectus.queries.rules import demand

from .mixture_questions import QuestionTarget
from .mixture_steps import State, Workers, miss, step
from .mixture_targets import CannotFit, Floats, Goal, Target


@dataclass(frozen=True, eq=False)
class MixtureFit:
    """A fitted mixture, ready to be gone on with or to be made a `ProductMixture`.

    Attributes:
        weights: One weight for each component, with sum 1.
        tables: For each component the conditional shares of all columns, side by side in schema order.
        steps: The steps that were taken.
        miss: The mean L1 distance of its pair tables from the targets; NaN where there is no pair target.
    """

    weights: Floats
    tables: Floats
    steps: int
    miss: float


def fit_mixture(
    domain: Domain,
    targets: Sequence[Target],
    *,
    components: int,
    iterations: int,
    public_seed: int,
    start: MixtureFit | None = None,
    questions: Sequence[QuestionTarget] = (),
    close_enough: float | None = None,
    least_gain: float = 0.07,
    first_steps: int = 40,
    block_steps: int = 20,
    tables_per_step: int | None = None,
    concentration: float = 3.0,
    momentum: float = 0.7,
    progress: Callable[[int, float], None] | None = None,
) -> MixtureFit:
    """Fit a mixture of products to tables: post-processing, a function of its arguments on one machine.

    Pair targets without groups are met together in every step. All other tables of two or more columns are met one by
    one, `tables_per_step` of them in a step, drawn at random.

    Args:
        domain: The columns, coded as the mixture shall hold them.
        targets: Tables over these columns; a pair may be among them once. Targets of one column are where the search
            starts from, and columns without any start uniform.
        components: K; what `start` has, where it is given.
        iterations: The most steps.
        public_seed: Makes the start and the choice of tables repeatable; it protects nobody.
        start: A fit to go on with.
        questions: Single questions with their shares, to be met as well, in every step.
        close_enough: Stop when the mean L1 distance of all pair tables from their targets is below this, or when a
            block of steps has lowered it by less than `least_gain` of it. None takes all steps.
        least_gain: See `close_enough`.
        first_steps: The length of the first block.
        block_steps: The length of the others; momentum starts anew with each.
        tables_per_step: How many of the other tables a step looks at; None for all.
        concentration: How alike the components are at the start.
        momentum: The share of the last step that is taken again.
        progress: Called after each block with the steps taken and the distance.

    Returns:
        The fit.

    Raises:
        CannotFit: A target does not fit the columns, or is no table of shares.

    Example:
        >>> pair = Target((0, 1), np.array([[0.4, 0.1], [0.1, 0.4]]))
        >>> one = [Target((c,), np.array([0.5, 0.5])) for c in range(2)]
        >>> fit = fit_mixture(Domain(("a", "b"), (2, 2)), [*one, pair], components=20, iterations=200, public_seed=1)
        >>> bool(fit.miss < 0.01)
        True
    """
    goal = Goal(domain, targets)
    rng = np.random.Generator(np.random.PCG64(public_seed))
    if start is None:
        state = State.random(goal, components, concentration, rng)
    else:
        demand(CannotFit, (start.tables.shape[1] == goal.offsets[-1], "the fit to go on with has other columns"))
        state = State(np.array(start.weights, dtype=np.float32), np.array(start.tables, dtype=np.float32))
    taken, before = 0, np.inf
    with one_thread(), ThreadPoolExecutor(min(len(state.parts), processors())) as pool:
        workers: Workers = map if len(state.parts) == 1 else pool.map
        while taken < iterations:
            state.still()
            for _ in range(min(first_steps if not taken else block_steps, iterations - taken)):
                step(state, goal, goal.chosen(tables_per_step, rng), questions, np.float32(momentum), workers)
                taken += 1
            far = miss(state, goal, workers) if close_enough is not None or progress is not None else np.nan
            if progress is not None:
                progress(taken, far)
            if close_enough is not None and (far < close_enough or not far < (1 - least_gain) * before):
                break
            before = far
        return MixtureFit(state.weights.copy(), state.tables.copy(), taken, miss(state, goal))


def together(fits: Sequence[MixtureFit]) -> MixtureFit:
    """One mixture of several that were fitted by themselves: its tables are the means of theirs.

    Args:
        fits: One or more, of the same columns.

    Returns:
        The mixture; its `miss` is the mean of theirs, which is no less than its own.

    Example:
        >>> one = MixtureFit(np.ones(1, dtype=np.float32), np.array([[1, 0]], dtype=np.float32), 10, 0.1)
        >>> other = MixtureFit(np.ones(1, dtype=np.float32), np.array([[0, 1]], dtype=np.float32), 10, 0.3)
        >>> both = together([one, other])
        >>> both.weights.tolist(), both.tables.tolist(), both.steps, both.miss
        ([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]], 20, 0.2)
    """
    weights: Floats = np.concatenate([fit.weights for fit in fits])
    weights /= np.float32(len(fits))
    return MixtureFit(
        weights,
        np.concatenate([fit.tables for fit in fits]),
        sum(fit.steps for fit in fits),
        float(np.mean([fit.miss for fit in fits])),
    )
