"""The keys of an unknown universe: a noisy histogram of which only what is stable enough is shown.

The idea of the book's Algorithm 13, for every key by itself:

    Algorithm 13  A_dist(x, g, ε, δ)                         here, for every record that some row has
      d ← distance from x to the nearest unstable instance     its count: so many rows must go until it is gone
      d̂ ← d + Lap(1/ε)                                         count + Laplace noise of scale plan.law.scale
      if d̂ > ln(1/δ)/ε, output g(x)                            if that reaches plan.threshold, publish both
      else output ⊥                                            else answer 0

Both steps are `curator.stable_keys`, since they read the table. The threshold is one that the records of one unit alone
pass with probability δ at most (`threshold`). Of a table of records of any kind the records themselves are published,
told apart by their canonical forms; of a table with a schema, its rows.

Privacy: composes one act, the published keys, and the row total. It has a δ of its own, and is never pure.
Accuracy: a published count is off by Laplace noise of scale b; a record that was not published is answered by 0, and
has less than about threshold + b·ln(1/β) rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.acts import keys_act
from conspectus.curator.curator import Curator
from conspectus.privacy.accounting import price_approximate, rho_of, scale_up
from conspectus.privacy.events import Event, Noise, StableKeys
from conspectus.privacy.prices import least_that_fits
from conspectus.privacy.relation import Neighbours
from conspectus.queries.addresses import exact
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.rules import demand
from conspectus.queries.workload import Workload
from conspectus.synopses.published_records import PublishedRecords
from conspectus.synopses.sparse_table import SparseTable

from .mechanism import CannotServe, Claim, Mechanism, Outcome, Problem, expected_maximum, root_up
from .sums_of_noise import half_width
from .total import bought_from, of_fractions, take_total, total_act
from .typical.expectations import STABLE_CAREFUL, STABLE_RECORDS
from .typical.question_facts import nominal_shares

SEEN = 0.01
"""Records of single rows that may be expected to be shown before a claim says so."""


@dataclass(frozen=True, kw_only=True)
class StableHistogramPlan:
    """The noise on each count, the threshold, and the noise on the number of rows where it has to be bought."""

    law: Noise
    threshold: int
    total_law: Noise | None

    def act(self, problem: Problem) -> StableKeys:
        """The act of publishing the keys."""
        return keys_act(self.law.scale, self.threshold, max_rows=problem.max_rows)


@dataclass(frozen=True, kw_only=True)
class StableHistogram(Mechanism[StableHistogramPlan]):
    """The records that many rows share, with noisy counts, where nobody could list the records in advance.

    Choose it to learn which records there are: words, queries, addresses, combinations of values. What only a few rows
    have is never shown, and answered by 0. It needs a delta above 0, far below one over the number of rows. There is
    nothing to set.

    Example:
        >>> import conspectus as cs
        >>> table = cs.open_records(["flu"] * 900 + ["cold"] * 600 + ["a rare disease"])
        >>> asked = cs.sparse([["flu"], ["a rare disease"]])
        >>> release = cs.release(table, asked, epsilon=1, delta=1e-9, mechanism="stable-histogram")
        >>> release.parameters["keys"], float(release.answers[1])
        (2, 0.0)
    """

    name: ClassVar[str] = "stable-histogram"

    def plan(self, problem: Problem) -> StableHistogramPlan:
        """The noise and the threshold that the budget buys."""
        if problem.budget.epsilon is None or problem.budget.delta == 0:
            raise CannotServe(
                "to publish keys needs a budget of epsilon and a delta above 0: no threshold excludes every chance"
            )
        if problem.ledgered and not problem.aside:
            raise CannotServe(
                "its delta is its own, and the ledger has none left that was set aside for such acts: make one with "
                "aside=0.5 (conspectus ledger init --aside 0.5), or release it without one"
            )
        plan = _laws(problem, problem.budget.epsilon)
        plain = all(isinstance(block, SparseQueries) for block in problem.workload.blocks)
        demand(
            CannotServe,
            (
                not problem.ledgered or price_approximate(plan.act(problem), problem.neighbours)[1] <= problem.aside,
                f"half of its delta, {problem.budget.delta / 2:.3g}, is its own, and the ledger has "
                f"{float(problem.aside):.3g} left aside for such acts: ask for a smaller delta",
            ),
            (
                not problem.workload.denominator and (plain or problem.counting),
                "it publishes rows, and these queries are not counts of rows",
            ),
            (
                plain or exact(problem.workload.domain),
                "the keys of so large a universe are fingerprints: ask about listed records, with cs.sparse",
            ),
        )
        return plan

    def claim(self, problem: Problem, plan: StableHistogramPlan) -> Claim:
        rows, level = problem.planned_rows, plan.threshold
        lost, summed = _typical(problem.workload, rows=rows, level=level)
        noise = np.sqrt(np.maximum(summed, 1.0))
        largest = float(lost.max()) + float(noise.max()) * expected_maximum(plan.law, len(problem.workload))
        claim = Claim(
            mechanism=self.name,
            expected_max=STABLE_CAREFUL * largest,
            expected_mean=STABLE_CAREFUL * (float(lost.mean()) / 2 + float(noise.mean()) * plan.law.scale),
            bound=None,
            memory=64 * rows,
            citations=("Dwork & Roth 2014, Algorithm 13 (idea)", "Korolova et al. 2009; Bun, Nissim & Stemmer 2016"),
            notes=_notes(level, problem.budget.delta, rows),
            expected_width=min(_width(problem.workload, plan, rows=rows, lost=float(lost.max())), rows),
        )
        return of_fractions(problem, claim)

    def declare(self, problem: Problem, plan: StableHistogramPlan) -> Sequence[Event]:
        return total_act(problem, plan.total_law), plan.act(problem)

    def release(self, curator: Curator, problem: Problem, plan: StableHistogramPlan) -> Outcome:
        """Add noise to the count of every record there is, and publish those that reach the threshold."""
        total = take_total(curator, problem, plan.total_law)
        keys, counts = curator.stable_keys(plan.law.scale, plan.threshold)
        domain = problem.workload.domain
        synopsis: SparseTable | PublishedRecords
        if isinstance(keys, tuple):
            synopsis = PublishedRecords(domain, keys, counts, plan.threshold, plan.law, total)
        else:
            synopsis = SparseTable(domain, keys, counts, plan.threshold, plan.law, total)
        return Outcome(
            synopsis=synopsis,
            answers=synopsis.answer(problem.workload),
            total=total,
            parameters={"scale": plan.law.scale, "threshold": plan.threshold, "keys": len(keys)},
        )


def _records(workload: Workload, *, else_: int) -> NDArray[np.float64]:
    """How many records each question lists; `else_` for questions that list none."""
    sizes = [
        np.diff(block.offsets) if isinstance(block, SparseQueries) else np.full(len(block), else_)
        for block in workload.blocks
    ]
    return np.concatenate(sizes).astype(np.float64)


def _typical(workload: Workload, *, rows: int, level: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each question the rows that it typically loses to the threshold, and of how many noisy counts it is the sum.

    How uneven records are is not public. Those of a declared universe are taken to follow Zipf's law, the i-th having
    n/(i·H) rows: between uniform tables, of which all or nothing is lost, and those of a few combinations. Of records
    of any kind nothing is known but that few rows are lost with each.
    """
    listed = _records(workload, else_=0)
    if all(isinstance(block, SparseQueries) for block in workload.blocks):
        return np.minimum(STABLE_RECORDS * level * np.sqrt(listed), rows), listed
    cells = min(float(workload.domain.cells), float(rows))
    harmonic = math.log(cells) + np.euler_gamma
    shown = min(cells, rows / (level * harmonic))
    kept = min(1.0, (math.log(max(shown, 1.0)) + np.euler_gamma) / harmonic) if shown >= 1 else 0.0
    share = nominal_shares(workload)
    return (1 - kept) * rows * share, shown * share


def _width(workload: Workload, plan: StableHistogramPlan, *, rows: int, lost: float) -> float:
    """How far the ends of an interval will typically be from the answer: each record that is not shown may have had
    what the threshold takes, and each that is shown its own noise, the same way for all."""
    listed = _records(workload, else_=0)
    if all(isinstance(block, SparseQueries) for block in workload.blocks):
        return float(listed.max(initial=1.0)) * (plan.threshold + half_width(plan.law)) / 2
    cells = min(float(workload.domain.cells), float(rows)) * float(nominal_shares(workload).max())
    return max(2.0 * plan.threshold, lost) + half_width(plan.law) * cells


def _laws(problem: Problem, epsilon: float) -> StableHistogramPlan:
    """The least noise and the least threshold that ε and δ pay for."""
    m, delta = problem.max_rows, problem.budget.delta
    moved = 2 * m if problem.relation.replace else m
    if problem.ledgered:
        # A ledger adds up ρ: the counts move by at most moved·m in squares. Half of δ is left to convert it.
        delta = delta / 2
        total_law, left = bought_from(problem, "gaussian", Fraction(rho_of(epsilon, delta)))
        law = Noise("laplace", root_up(moved * m / (2 * left)))
    else:
        total_law, left = bought_from(problem, "laplace", Fraction(epsilon))
        law = Noise("laplace", scale_up(moved / left))
    return StableHistogramPlan(law=law, threshold=threshold(law.scale, m, delta), total_law=total_law)


def _notes(level: int, delta: float, rows: int) -> tuple[str, ...]:
    lost = f"records with fewer than about {level:,} rows are answered by 0"
    if delta * rows <= SEEN:
        return (lost,)
    seen = f"of {rows:,} records that one row has alone, up to {delta * rows:.2g} are expected to be shown"
    return lost, f"{seen}: choose a delta far below {1 / rows:.1g}"


def threshold(scale: float, max_rows: int, delta: float) -> int:
    """The least threshold whose δ fits: m + t with m·P(Z ≥ t) ≤ δ, about m + b·ln(m/2δ).

    P(Z ≥ t) falls as t grows, and so does its float, which is the exponential of a float that falls.
    """

    def fits(above: int) -> bool:
        act = keys_act(scale, max_rows + above, max_rows=max_rows)
        return price_approximate(act, Neighbours.ADD_REMOVE)[1] <= Fraction(delta)

    return max_rows + least_that_fits(fits, math.floor(scale * math.log(max_rows / (2 * delta))))
