"""The local model: one person's report, on two answers that this person may have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from conspectus.local import RandomisedResponse
from conspectus.privacy.relation import Neighbours

from .plays import Experiment

EPSILON = math.log(3)


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """A report of one of three answers. Adding a person is no question here: everybody answers for themselves."""
    if neighbours is Neighbours.REPLACE:
        yield Experiment(
            name="local-response",
            neighbours=neighbours,
            views=partial(_reports, EPSILON),
            claim=(EPSILON, 0.0),
            twin="the coin of two answers on three: the truth with probability 3/4, each other one with 1/8",
            twin_views=partial(_reports, math.log(6)),
        )


def _reports(epsilon: float, side: int, trials: int) -> NDArray[np.float64]:
    survey = RandomisedResponse(values=(0, 1, 2), epsilon=epsilon)
    return np.array([float(survey.respond(side)) for _ in range(trials)])
