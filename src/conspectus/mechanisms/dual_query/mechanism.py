"""DualQuery (Gaboardi, Gallego Arias, Hsu, Roth and Wu 2014): synthetic rows for tables of any width.

The paper's Algorithm 2, with the signs of its Section 3 (printed in Algorithm 2 are both opposite ones, which is the
same game with every query and its negation exchanged; mixing the two pairs diverges):

    Algorithm 2  DualQuery(D, q_1 … q_k; α, β)
      𝒬 ← {q_1 … q_k} and their negations;  Q¹ ← uniform over 𝒬
      T ← 16 ln|𝒬|/α²;  η ← α/4;  s ← 48 ln(2|X|T/β)/α²
      payoff:  A_D(x, q) = q(D) − q(x)
      for t = 1 … T:
          draw s queries from Q^t;  q̃ ← their average
          find x^t with A_D(x^t, q̃) ≤ min_x A_D(x, q̃) + α/4,  that is, one that satisfies most of what was drawn
          for each q in 𝒬:  Q^{t+1}_q ← Q^t_q · exp(η·A_D(x^t, q));  normalise
      output  D̂ = {x^1 … x^T}

| paper | code | where |
| --- | --- | --- |
| T, s, η_t | `schedule.rounds`, `.draws`, `.rates` (η in units of 1/LOG_WEIGHT_STEPS) | `schedule` |
| α | `accuracy` | `theorem` makes T, s and η of it; without it `parameters` fits them to the budget |
| 𝒬 | candidates 0 … 2k − 1 | i is query i, and k + i its negation |
| Q^t | `DualPayoffs` | `curator.scores`, since it reads the table; drawn from by `curator.select` |
| Σ_τ η_τ | `rate` | `play` |
| Σ_τ η_τ·q(x^τ) | `played[q]` | `play`; ln Q^t_q is rate·q(D) − played[q], and of a negation its negative |
| q̃ | `sample` | `play` |
| x^t | `found`, one row or more | `data_player.respond`, by one of `oracles` |
| D̂ | `Played` | `data_player` |

Beyond the paper: steps that change (`decay`), several rows a round, rows that start from noisy marginals
(`initial_rows`), and multiplicities fitted to noisy counts (`row_weights`). Memory and the time of a round are linear
in the queries and the columns; no cell of the universe is ever listed.

Privacy: composes the draws, each by the exponential mechanism with the payoffs of all earlier rounds (Theorem 4.2's
score; the first round is free), the row total, the one-way marginals that rows start from, the counts of a
re-weighting, and the certificate. Accuracy: Theorem 4.6 where `accuracy` is given; otherwise nothing is promised, and
the certificate says what became of it.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import processors
from conspectus.curator.curator import Curator
from conspectus.curator.scores import LOG_WEIGHT_STEPS, DualPayoffs
from conspectus.data.domain import Codes
from conspectus.mechanisms.certificate import certify_workload
from conspectus.mechanisms.mechanism import Claim, Mechanism, Outcome, Problem
from conspectus.mechanisms.total import find_total
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import public_sampler

from .claim import claim_of
from .clauses import AskedClauses
from .data_player import Played, Responding, answers_of, respond
from .initial_rows import InitialRows, measured_columns, shares_of, single_columns
from .parameters import DualQueryPlan, DualQuerySettings, plan_of, schedule_of
from .row_weights import reweighted
from .schedule import Schedule
from .theorem import cost_by_theorems


def play(
    curator: Curator,
    asked: AskedClauses,
    schedule: Schedule,
    *,
    initial: InitialRows,
    responding: Responding,
    rng: np.random.Generator,
    pool: Executor,
) -> Played:
    """Algorithm 2. The table is touched by `curator.select` alone."""
    k = len(asked.workload)
    played, rate = np.zeros(k, dtype=np.int64), 0
    drawn = np.zeros(2 * k, dtype=np.int64)
    rows: list[Codes] = []
    rates: list[NDArray[np.int64]] = []
    for t in range(schedule.rounds):
        curator.report_progress("rounds", t, schedule.rounds)
        # Draw s queries from Q^t. All weights of Q¹ are equal, whatever the table: the first draw is public.
        if t == 0:
            sample = rng.integers(0, 2 * k, schedule.draws[0])
        else:
            payoffs = DualPayoffs(asked.workload, schedule.total, rate, played.copy())
            sample = curator.select(payoffs, schedule.ranges[t - 1], draws=schedule.draws[t])
        np.add.at(drawn, sample, 1)
        # Find x^t: one row or several, which share the step.
        found = respond(asked, sample, initial=initial, responding=responding, rng=rng, pool=pool)
        each = schedule.rates[t] // len(found)
        # Update Q^{t+1}: each row adds its part of the step to every query that it satisfies.
        asked.tally(found, played, each, pool)
        rate += each * len(found)
        rows.append(found)
        rates.append(np.full(len(found), each))
    copies = np.concatenate(rates)
    return Played(np.concatenate(rows), copies // np.gcd.reduce(copies), drawn)


@dataclass(frozen=True, kw_only=True)
class DualQuery(DualQuerySettings, Mechanism[DualQueryPlan]):
    """Synthetic rows that answer many counting queries, for tables that are too wide for a histogram.

    Choose it for hundreds of columns and thousands to millions of conjunctions, marginals or parities. With fewer than
    a few thousand queries compare with `gaussian`; where all columns asked about make fewer than 16 million cells, with
    `mwem` and `projection`. Settings that are left out follow from public facts, so that the budget is used up.

    Args:
        rounds: T, rounds of the game.
        draws: s, queries that are drawn in a round.
        eta: η, the step: how fast weight moves to the queries that the rows answer badly.
        accuracy: Takes rounds, draws and eta from the theorem (Theorem 4.6) for this accuracy, a fraction of the rows.
            With `oracle="exact"` the accuracy is then promised, however long that takes. Most budgets are too small.
        decay: Makes the step η·t^(−decay) in round t; below 0 it grows.
        responses: Rows that answer a round: more rows, finer answers, at no cost in privacy.
        restarts: Local searches for each row, of which the best one is taken.
        oracle: "search", or "exact" by integer programming (needs `conspectus[exact]`; one row a round).
        seconds: What the exact oracle may take for one row, unless `accuracy` is given.
        initial: What a row starts from, and keeps in columns that no drawn query reads: noisy one-way "marginals",
            "uniform" values, or each column's "first" value, which suits tables that are mostly first values.
        marginals: The share of the budget for the one-way marginals.
        reweighting: The share of the budget for counts to which copies of rows are fitted; 0 for none.
        certificate: The share of the budget for a bound on the maximum error; 0 for none.
        public_seed: Fixes the public coins of the searches.
        untouched: The former name of `initial`.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": {c: {"type": "boolean"} for c in "abcdef"}})
        >>> table = cs.open_table(pa.table({c: [True, False, False] * 200 for c in "abcdef"}), schema)
        >>> asked = cs.marginals(schema, 3)
        >>> release = cs.release(table, asked, epsilon=5, mechanism="dual-query", rounds=8, initial="uniform")
        >>> release.parameters["rounds"], release.parameters["initial"], len(release.answers) == len(asked)
        (8, 'uniform', True)
        >>> release.synthetic(10).num_rows
        10
    """

    name: ClassVar[str] = "dual-query"

    def plan(self, problem: Problem) -> DualQueryPlan:
        """The shares, and the schedule for the public or declared number of rows."""
        return plan_of(self, problem)

    def claim(self, problem: Problem, plan: DualQueryPlan) -> Claim:
        return claim_of(self.name, self, problem, plan)

    def release(self, curator: Curator, problem: Problem, plan: DualQueryPlan) -> Outcome:
        """Buy what rows start from, play, fit multiplicities, certify."""
        asked = problem.workload.distinct()
        singles = single_columns(asked) if plan.marginals else None
        curator.count_ahead(asked if singles is None else asked + singles)
        total = find_total(curator, problem)
        columns = None
        if singles is not None:
            price = problem.cap * Fraction(plan.marginals)
            columns = measured_columns(curator, problem, singles, total=total, price=price)
        schedule = schedule_of(self, problem, plan, max(total.rows, 1))
        responding = Responding(
            responses=plan.responses,
            restarts=plan.restarts,
            exact=self.oracle == "exact",
            seconds=math.inf if self.theorem else self.seconds,
        )
        clauses, rng = AskedClauses(asked), public_sampler(self.public_seed)
        initial = InitialRows(asked.domain, self.initial, None if columns is None else shares_of(columns))
        with ThreadPoolExecutor(processors()) as pool:
            game = play(curator, clauses, schedule, initial=initial, responding=responding, rng=rng, pool=pool)
            if plan.reweighting:
                price, rounds = problem.cap * Fraction(plan.reweighting), schedule.rounds
                game = reweighted(curator, problem, clauses, game, total=total.divisor, rounds=rounds, price=price)
            answers = answers_of(clauses, game, pool)[problem.workload.positions_in(asked)]
        kept = game.multiplicities > 0
        copies = None if (game.multiplicities[kept] == 1).all() else game.multiplicities[kept]
        return Outcome(
            synopsis=Rows(asked.domain, tuple(game.rows[kept].T), total, copies, asked.columns),
            answers=answers,
            total=total,
            certificate=certify_workload(curator, problem, answers=answers, total=total, share=self.certificate),
            measured=columns,
            parameters=self._parameters(problem, plan, schedule),
        )

    def _parameters(self, problem: Problem, plan: DualQueryPlan, schedule: Schedule) -> dict[str, Any]:
        named = {
            "rounds": schedule.rounds,
            "draws": schedule.draws[-1],
            "eta": schedule.rates[0] / LOG_WEIGHT_STEPS,
            "decay": self.decay,
            "responses": plan.responses,
            "oracle": self.oracle,
            "initial": self.initial,
            "reweighting": plan.reweighting,
            "certificate": self.certificate,
        }
        if plan.marginals:
            named["marginals"] = plan.marginals
        return {**named, **cost_by_theorems(problem, schedule)}
