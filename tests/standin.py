"""An online rule for the tests of sessions: it guesses uniformly for ever, and remembers what it measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS
from conspectus.curator.watch import Watch
from conspectus.mechanisms.bounds import Margin
from conspectus.mechanisms.mechanism import Claim, Refusal
from conspectus.mechanisms.online_mechanism import BadState, Reply, SessionProblem, State
from conspectus.mechanisms.registry import Entry
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.events import Noise
from conspectus.queries.query import Predicate
from conspectus.queries.workload import Workload
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import Synopsis, Total


@dataclass(frozen=True, kw_only=True)
class StandIn:
    """`hits` watches with a measurement each, half of the (pure) budget for either kind; `threshold` in counts."""

    hits: int = 5
    threshold: int = 100

    name: ClassVar[str] = "standin"

    def plan(self, problem: SessionProblem) -> Fraction | Refusal:
        """What a watch or a measurement costs."""
        if not problem.budget.pure:
            return Refusal(mechanism=self.name, reason="it takes a pure budget: leave delta out")
        return problem.cap / (2 * self.hits)

    def claim(self, problem: SessionProblem, plan: Fraction) -> Claim:
        return Claim(mechanism=self.name, expected_max=1.0, expected_mean=1.0, bound=None, memory=0, citations=())

    def open(self, curator: Curator, problem: SessionProblem, plan: Fraction) -> StandInLoop:
        return StandInLoop(self, curator, problem, plan, curator.rows(), [])

    def restore(self, curator: Curator, problem: SessionProblem, plan: Fraction, state: State) -> StandInLoop:
        loop = StandInLoop(self, curator, problem, plan, state[0]["rows"], [])
        loop.adopt(state)
        return loop

    def settled(self, problem: SessionProblem, plan: Fraction) -> StandIn:
        return self

    def parameters(self, problem: SessionProblem, plan: Fraction) -> dict[str, Any]:
        return {"hits": self.hits}


ENTRY = Entry("tests.standin", "StandIn", ())


class StandInLoop:
    def __init__(
        self,
        rule: StandIn,
        curator: Curator,
        problem: SessionProblem,
        share: Fraction,
        rows: int,
        measured: list[float],
    ) -> None:
        self.rule, self.curator, self.problem = rule, curator, problem
        self.total = Total(value=float(rows), exact=True)
        self.seen = measured
        self.share = share
        self.watch: Watch | None = None
        self.over = False

    @property
    def exhausted(self) -> bool:
        return self.over or len(self.seen) >= self.rule.hits

    def known(self, query: Workload) -> None:
        """Nothing is bought in advance."""

    def guess(self, query: Workload) -> float:
        domain = query.domain
        asked = query.query(0)
        assert isinstance(asked, Predicate)
        boxes = [math.prod(len(part.codes) / domain.sizes[part.column] for part in box) for box in asked.boxes]
        return sum(boxes) * self.total.divisor

    def ask(self, query: Workload) -> Reply:
        if self.exhausted:
            return Reply(count=self.guess(query), basis="unguaranteed", margin=None)
        try:
            return self.answered(query)
        except BudgetExceeded:
            self.over = True
            raise

    def answered(self, query: Workload) -> Reply:
        if self.watch is None:
            self.watch = self.curator.above_threshold(Fraction(self.rule.threshold), self.share)
        guess = self.guess(query)
        if not self.watch.exceeds(query, guess):
            noise = Noise("laplace", float(4 / self.share))  # no less than that of the threshold, or of a comparison
            noises = ((noise, 1), (noise, 1))
            margin = Margin(offset=self.rule.threshold + 1 / ERROR_STEPS, noises=noises, grid=ERROR_STEPS)
            return Reply(count=guess, basis="guessed", margin=margin)
        self.watch = None
        return self.measure(query)

    def measure(self, query: Workload) -> Reply:
        law = Noise("laplace", float(1 / self.share))
        count = float(self.curator.measure(query, law)[0])
        self.seen.append(count)
        return Reply(count=count, basis="measured", margin=Margin(noises=((law, 1),)))

    def state(self) -> State:
        return {"rows": int(self.total.value)}, {"seen": pa.table({"count": np.array(self.seen, dtype=np.float64)})}

    def adopt(self, state: State) -> None:
        if "seen" not in state[1]:
            raise BadState("not a state of the stand-in")
        self.seen = state[1]["seen"]["count"].to_pylist()

    def synopsis(self) -> Synopsis:
        domain = self.curator.domain
        return Histogram(domain, np.full(domain.cells, 1 / domain.cells), self.total)

    def measured(self) -> NoisyAnswers | None:
        return None
