"""The net mechanism, the book's Algorithm 7: of a list of public guesses, draw one that answers all questions well.

The list is the owner's: earlier years, other regions, models of the population. The exponential mechanism, scored by
the worst error of each member over the workload, finds one nearly as good as the best.

Privacy: one selection, the row total, and the certificate (`curator/nets.proof.md`); members must not have been made
from the private rows.
Accuracy: Proposition 5.2 for the draw that really runs. The drawn member is at most 2(ln|N| + ln(1/β))/ε counts worse
than the best one; where the owner vouches that every table has a member within `alpha`, every answer is within α plus
that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from conspectus.curator.curator import Curator
from conspectus.mechanisms.certificate import certify
from conspectus.mechanisms.mechanism import Claim, ErrorBound, Outcome, Problem, Refusal, SettingError
from conspectus.mechanisms.total import SHARE, find_total
from conspectus.privacy.events import Event
from conspectus.synopses.synopsis import CannotAnswer

from .mechanism import LEAST_RANGE
from .net_draws import PublicNet, answers_of, choose, coarseness, listed, net_error

FAILURE = 0.05
MOST_GUESSES = 1 << 25
"""Members times questions: three arrays of so many numbers are held."""

CITES = ("Dwork & Roth 2014, Algorithm 7 and Proposition 5.2",)
VOUCHED = "the net is public by its owner's word, and one made from the private rows would void the guarantee"
_USUAL_ROWS = 10_000


@dataclass(frozen=True, kw_only=True)
class NetMechanism:
    """`net` is made by `cs.net(schema, members)`; `alpha` is its owner's word that every table has a member so near.

    `certificate` is the share of the budget that buys the bound.
    """

    net: object = None
    alpha: float | None = None
    certificate: float = 0.03

    name: ClassVar[str] = "net"

    def __post_init__(self) -> None:
        if self.net is not None and not isinstance(self.net, PublicNet):
            raise SettingError("net takes a public net: make it with cs.net(schema, [table, …])")
        if self.alpha is not None and not 0 <= self.alpha < 1:
            raise SettingError("alpha, how near a member of the net is to any table, lies in [0, 1)")
        if not 0 <= self.certificate < 1:
            raise SettingError("certificate lies in [0, 1)")

    def claim(self, problem: Problem, plan: Claim) -> Claim:
        return plan

    def plan(self, problem: Problem) -> Claim | Refusal:
        refused = self._refused(problem)
        if refused is not None:
            return Refusal(mechanism=self.name, reason=refused)
        net = self._net
        whole = problem.denominator or _USUAL_ROWS
        coarse = coarseness(float(whole))
        worse = net_error(problem, self._price(problem), log_mass=math.log(len(net)), coarse=coarse, failure=FAILURE)
        bound = None
        if self.alpha is not None and problem.denominator and (problem.total_is_public or problem.workload.denominator):
            value = self.alpha + worse / whole
            bound = ErrorBound(value=value, statistic="max", probability=1 - FAILURE, theorem=CITES[0])
        # Without a word about how near the members come, half their own width: typical where the truth is among them.
        answers = answers_of(net, problem.workload)
        width = float(np.ptp(answers, axis=0).max()) / 2 if self.alpha is None else self.alpha
        expected = width * whole + 0.2 * worse
        return Claim(
            mechanism=self.name,
            expected_max=expected,
            expected_mean=expected / 3,
            bound=bound,
            memory=3 * 8 * answers.size,
            citations=CITES,
            notes=(
                f"one of {len(net):,} public guesses, at most {worse:,.1f} counts worse than the best of them "
                f"with probability {1 - FAILURE:g}",
            ),
        )

    def declare(self, problem: Problem, plan: Claim) -> Sequence[Event] | None:
        return None

    def release(self, curator: Curator, problem: Problem, plan: Claim) -> Outcome:
        workload, net = problem.workload, self._net
        curator.count_ahead(workload)
        total, left = find_total(curator, problem)
        certificate_price = problem.cap * Fraction(self.certificate)
        guesses = answers_of(net, workload)
        drawn = choose(curator, problem, listed(workload, guesses, total.divisor), left - certificate_price)
        chosen = int(drawn[0])
        answers = guesses[chosen]
        bound = None
        if certificate_price:
            bound = certify(curator, problem, workload=workload, answers=answers, total=total, price=certificate_price)
        return Outcome(
            synopsis=replace(net.members[chosen], total=total),
            answers=answers,
            total=total,
            certificate=bound,
            parameters={"members": len(net), "drawn": chosen, "alpha": self.alpha, "certificate": self.certificate},
            warnings=(VOUCHED,),
        )

    @property
    def _net(self) -> PublicNet:
        assert isinstance(self.net, PublicNet)
        return self.net

    def _price(self, problem: Problem) -> Fraction:
        """What the draw may cost: all but the certificate and, where it is private, the total."""
        bought = 0 if problem.total_is_public or problem.workload.denominator else SHARE
        return problem.cap * (1 - Fraction(self.certificate) - bought)

    def _refused(self, problem: Problem) -> str | None:
        """Why it cannot draw; from public facts alone."""
        net = self.net
        if not isinstance(net, PublicNet):
            return "it draws from public guesses of yours: give net=cs.net(schema, [table, …])"
        if net.domain != problem.workload.domain:
            return "the net was made from another schema: make it with cs.net from the schema of this table"
        if len(net) * len(problem.workload) > MOST_GUESSES:
            made = f"{len(net):,} members for {len(problem.workload):,} questions make too many guesses"
            return f"{made} (limit {MOST_GUESSES:,}): give fewer of either"
        if problem.selection(self._price(problem)) < LEAST_RANGE:
            return "its budget is too small to draw by: raise epsilon"
        try:
            answers_of(net, problem.workload)
        except CannotAnswer as problem_of_a_member:
            return f"a member of the net cannot answer these questions: {problem_of_a_member}"
        return None
