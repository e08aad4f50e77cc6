"""The net mechanism: of a list of public guesses, draw one that answers all questions well.

Algorithm 7 of Dwork and Roth 2014:

    Algorithm 7  NetMechanism(x, Q, ε, α)
      R ← N_α(Q), an α-net: every table has a member that answers all of Q to within α
      q(x, y) = −max_{f ∈ Q} |f(x) − f(y)|
      draw y from R by the exponential mechanism with score q, and output it

| book | code | where |
| --- | --- | --- |
| x | the table | `curator`, which alone reads it |
| Q | `problem.workload` | |
| N_α(Q), α | `plan.net`, `alpha` | the owner's guesses, from `cs.net`, and the owner's word on them |
| f(y) | `plan.guesses[y]` | `net_draws.answers_of` |
| R, q | `listed(…)` | `net_draws`; scored in `curator.nets`, since that reads the table |
| ε | `plan.price` | all of the budget but the certificate and, where it is private, the row total |
| y | `drawn` | the number of the guess |

The guesses are earlier years, other regions, models of the population.

Privacy: one selection, the row total, and the certificate (`curator/nets.proof.md`). Guesses that were made from the
private rows would void the guarantee.
Accuracy: Proposition 5.2 for the draw that really runs (`theorem`). The drawn guess is at most 2(ln|N| + ln(1/β))/ε
counts worse than the best one. Where the owner vouches for `alpha`, every answer is within α plus that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from conspectus.curator.curator import Curator
from conspectus.mechanisms.certificate import certify_workload
from conspectus.mechanisms.mechanism import Claim, Mechanism, Outcome, Problem
from conspectus.mechanisms.total import find_total

from .claim import net_claim
from .net_draws import choose, listed
from .parameters import NetSettings, counted_rows, net_plan
from .plan import NetPlan

VOUCHED = "the net is public by its owner's word, and one made from the private rows would void the guarantee"


@dataclass(frozen=True, kw_only=True)
class NetMechanism(NetSettings, Mechanism[NetPlan]):
    """The best of a list of public guesses at the table, nearly.

    Choose it where good guesses are at hand: the same survey in other years, neighbouring regions, models of the
    population. The error is that of the best guess, and a few counts for the draw, however many questions there are.

    Args:
        net: The guesses, made by `cs.net(schema, members)`. None of them may have been made from the private rows.
        alpha: The owner's word that every table has a member that answers all questions to within alpha, a fraction of
            the rows. With it a bound is proved; without it the claim expects half the width of the guesses.
        certificate: The share of the budget for a bound on the maximum error; 0 for none.

    Example:
        >>> import conspectus as cs, numpy as np, pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "ill", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True] * 300 + [False] * 700}), schema)
        >>> net = cs.net(schema, [np.array([1 - share, share]) for share in (0.1, 0.3, 0.5)])
        >>> release = cs.release(table, cs.sql(schema, ["ill"]), epsilon=1, mechanism="net", net=net)
        >>> float(release.answers[0])
        0.3
    """

    name: ClassVar[str] = "net"

    def plan(self, problem: Problem) -> NetPlan:
        """The guesses with their answers, and what is proved of the draw."""
        return net_plan(self, problem)

    def claim(self, problem: Problem, plan: NetPlan) -> Claim:
        return net_claim(self.name, plan, alpha=self.alpha, rows=counted_rows(problem))

    def release(self, curator: Curator, problem: Problem, plan: NetPlan) -> Outcome:
        """Algorithm 7, and the certificate."""
        curator.count_ahead(problem.workload)
        total = find_total(curator, problem)
        range_and_score = listed(problem.workload, plan.guesses, total.divisor)
        drawn = int(choose(curator, problem, range_and_score, plan.price)[0])
        answers = plan.guesses[drawn]
        return Outcome(
            synopsis=replace(plan.net.members[drawn], total=total),
            answers=answers,
            total=total,
            certificate=certify_workload(curator, problem, answers=answers, total=total, share=self.certificate),
            parameters={
                "members": len(plan.net),
                "drawn": drawn,
                "alpha": self.alpha,
                "certificate": self.certificate,
            },
            warnings=(VOUCHED,),
        )
