"""What a run has bought, question by question: in memory, as noisy answers, and as a state that files can hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from conspectus.data.domain import Domain
from conspectus.mechanisms.bounds import Margin
from conspectus.mechanisms.mechanism import Problem
from conspectus.mechanisms.online_mechanism import BadState, State
from conspectus.privacy.events import Noise
from conspectus.queries.rules import possible
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import BadSynopsis, Total, part


class Learned:
    """Questions that were measured one by one, with noise of one law in counts, each on its own grid."""

    def __init__(self, problem: Problem, total: Total, law: Noise) -> None:
        self.total = total
        self.law = law
        self._problem = problem
        self._questions: list[Workload] = []
        self._noisy: list[float] = []
        self._blocks: list[Any] = []  # of all questions, as JSON: a state is made after every measurement

    def __len__(self) -> int:
        return len(self._questions)

    def law_of(self, query: Workload) -> Noise:
        """The law of the noise on one question, in steps of its grid.

        A function that one unit moves by more rows than a count gets as much more noise, and costs the same.
        """
        return Noise(self.law.kind, self.law.scale * query.grid * self._moved(query))

    def margin_of(self, query: Workload) -> Margin:
        """How far the noise moves one question."""
        law = Noise(self.law.kind, self.law.scale * self._moved(query))
        return Margin(noises=((law, 1),), grid=query.grid)

    def _moved(self, query: Workload) -> int:
        """How many times the rows of a unit one unit moves a question by, at most: 1 for counts."""
        relation = self._problem.relation
        return 1 if query.linear else max(1, math.ceil(query.linf(relation) / relation.max_rows))

    def add(self, query: Workload, noisy: float) -> None:
        """Take in one measured count."""
        self._questions.append(query)
        self._noisy.append(noisy)
        self._blocks += query.to_json()["blocks"]

    def answers(self, primed: NoisyAnswers | None = None) -> NoisyAnswers:
        """Everything measured so far, after what was measured at once before the first question."""
        asked = _joined(self._problem.workload.domain, self._questions)
        laws = tuple(self.law_of(question) for question in self._questions)
        grids = tuple(block.grid for block in asked.blocks)
        if primed is None:
            return NoisyAnswers(asked.domain, asked, np.array(self._noisy), laws, self.total, grids)
        counts = np.concatenate([primed.counts, self._noisy])
        laws, grids = (*primed.noise, *laws), (*primed.grids, *grids)
        return NoisyAnswers(asked.domain, primed.workload + asked, counts, laws, self.total, grids)

    def state(self, *, asked: int, hits: int) -> State:
        """It as a state."""
        meta: dict[str, Any] = {
            "total": self.total.to_json(),
            "asked": asked,
            "hits": hits,
            "learned": {**_joined(self._problem.workload.domain, ()).to_json(), "blocks": list(self._blocks)},
        }
        return meta, {"learned": pa.table({"count": pa.array(self._noisy, pa.float64())})}

    def beyond(self, stored: Stored) -> list[tuple[Workload, float]]:
        """What a state of the same run knows and this does not; `BadState` if it is another run's."""
        mine = len(self)
        known = (stored.total, stored.questions[:mine], stored.noisy[:mine])
        if known != (self.total, self._questions, self._noisy):
            raise BadState("this state is not the one that this session goes on from: resume it from its own file")
        return list(zip(stored.questions[mine:], stored.noisy[mine:]))


class Stored(NamedTuple):
    """What a state holds: the total, how many questions and hits there were, and the questions that were measured."""

    total: Total
    asked: int
    hits: int
    questions: list[Workload]
    noisy: list[float]


def read_state(state: State, problem: Problem) -> Stored:
    """A stored state, all of it checked; `BadState` if it is not one of this problem."""
    meta, tables = state
    try:
        total = Total.from_json(meta.get("total"))
        learned = Workload.from_json(meta.get("learned"))
        noisy = part(tables, "learned", [("count", pa.float64())])["count"].to_pylist()
    except (BadSynopsis, WorkloadError, ValueError) as unreadable:
        raise BadState(f"the state of the session is not readable: {unreadable}") from unreadable
    asked, hits = meta.get("asked"), meta.get("hits")
    if type(asked) is not int or type(hits) is not int or not 0 <= hits <= asked:
        raise BadState("the state of the session does not say how many questions and surprises there were")
    if learned.domain != problem.workload.domain or len(learned) != len(noisy) or not possible(noisy):
        raise BadState("the measured answers of the session's state do not belong to this table")
    return Stored(total, asked, hits, list(learned), noisy)


def _joined(domain: Domain, questions: Sequence[Workload]) -> Workload:
    """Single questions as one workload, a block for each, so that it gives them back as they were."""
    return Workload(domain, tuple(block for question in questions for block in question.blocks))
