"""A statistical-query oracle whose asker puts the same question again and again, in other words each time.

The noise of an answer is fixed by the tolerance, and drawn once for each question. An oracle that drew it anew, and
charged for the question once, would let its noise be averaged away.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from conspectus.privacy.noise import SystemSampler, discrete_laplace
from conspectus.privacy.relation import Neighbours
from conspectus.sessions.oracle import Promise
from conspectus.synopses.synopsis import Total

from .plays import Experiment

ROWS, TIMES = 20, 6
PROMISE = Promise(tolerance=0.15, questions=1, failure=0.1, total=Total(value=float(ROWS), exact=True))


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """One predicate whose count one unit moves by one, under either relation."""
    scale = PROMISE.law("laplace", 1).scale
    yield Experiment(
        name="oracle",
        neighbours=neighbours,
        views=partial(_seen, scale, 1),
        claim=(1 / scale, 0.0),
        twin="fresh noise for a question that was answered before, at no cost",
        twin_views=partial(_seen, scale, TIMES),
    )


def _seen(scale: float, draws: int, side: int, plays: int) -> NDArray[np.float64]:
    """The mean of all answers to the question: of one draw, or of several."""
    counts = np.full(plays, ROWS // 2 + side, dtype=np.int64)
    answers = [discrete_laplace(counts, scale, SystemSampler()) for _ in range(draws)]
    return np.asarray(np.mean(answers, axis=0), dtype=np.float64)
