"""All answers that a small database can give, with the number of databases that give each: no database is listed.

Few questions have few vectors of answers. They are counted class by class of records: a state is the number of rows so
far and their answers, and a class of w records adds j rows in C(w + j − 1, j) ways. The way back from a vector to a
database that gives it is the same sum taken apart. Everything here is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.nets import databases

MOST_WORK = 1 << 26
"""Additions of long integers: about a minute."""


def vectors_work(classes: int, queries: int, size: int) -> float:
    """At most so many additions, up to a small factor, count the answer vectors: states, times classes, times rows."""
    by_answers = (queries + 1) * math.log(size + 1) - math.log(queries + 1)
    by_classes = math.lgamma(classes + size + 1) - math.lgamma(classes + 1) - math.lgamma(size + 1)
    return math.exp(min(by_answers, by_classes, 100.0)) * classes * size / 2


class AnswerVectors:
    """The answer vectors of all databases of `size` rows over classes of records, each with its number of databases."""

    def __init__(self, truth: NDArray[np.bool_], sizes: Sequence[int], size: int) -> None:
        self._size = size
        self._ways = [[databases(records, j) for j in range(size + 1)] for records in sizes]
        # A state is one integer in base size + 1: the number of rows, then each answer.
        base = size + 1
        self._steps = [1 + sum(base ** (q + 1) for q in np.flatnonzero(line).tolist()) for line in truth]
        self._layers: list[dict[int, int]] = [{0: 1}]
        for step, ways in zip(self._steps, self._ways):
            after: dict[int, int] = {}
            for state, known in self._layers[-1].items():
                for j in range(size - state % base + 1):
                    reached = state + j * step
                    after[reached] = after.get(reached, 0) + known * ways[j]
            self._layers.append(after)
        self._states = [state for state in self._layers[-1] if state % base == size]
        self.masses = tuple(self._layers[-1][state] for state in self._states)
        self.answers = np.array(
            [[state // base ** (q + 1) % base for q in range(truth.shape[1])] for state in self._states],
            dtype=np.int64,
        ).reshape(len(self._states), truth.shape[1])

    def database(self, vector: int, rank: int) -> NDArray[np.int64]:
        """The rows in each class of the database of this rank (from 0 on) among those that give this vector."""
        found = np.zeros(len(self._steps), np.int64)
        state = self._states[vector]
        for number in range(len(self._steps) - 1, -1, -1):
            step, ways, before = self._steps[number], self._ways[number], self._layers[number]
            for j in range(state % (self._size + 1) + 1):
                here = before.get(state - j * step, 0) * ways[j]
                if rank < here:
                    found[number], state, rank = j, state - j * step, rank // ways[j]
                    break
                rank -= here
        return found
