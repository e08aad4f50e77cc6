"""The keys of an unknown universe: a noisy histogram of which only what is stable enough is shown.

The idea of the book's Algorithm 13 (release what no neighbour could change, after a noisy test), for every key by
itself: each record that some row has gets Laplace noise on its count, and is published where that reaches a threshold
which the records of one unit alone pass with probability δ at most. Of a table of records of any kind the records
themselves are published, told apart by their canonical forms; of a table with a schema, its rows.

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

from conspectus.curator.acts import keys_act, measurement
from conspectus.curator.curator import Curator
from conspectus.privacy.accounting import price_approximate, rho_of, scale_up
from conspectus.privacy.events import Event, Noise, RowTotal
from conspectus.privacy.relation import Neighbours
from conspectus.queries.addresses import exact
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.builders.conjunctions import always
from conspectus.synopses.published_records import PublishedRecords
from conspectus.synopses.sparse_table import SparseTable
from conspectus.synopses.synopsis import Total

from .mechanism import Claim, Outcome, Problem, Refusal, expected_maximum, root_up
from .total import SHARE

SEEN = 0.01
"""Records of single rows that may be expected to be shown before a claim says so."""


@dataclass(frozen=True, kw_only=True)
class StableHistogram:
    """The published keys; nothing to set."""

    name: ClassVar[str] = "stable-histogram"

    def laws(self, problem: Problem) -> tuple[Noise | None, Noise, int]:
        """The noise on the number of rows, where it has to be bought, that on the keys' counts, and the threshold."""
        assert problem.budget.epsilon is not None
        epsilon, m = Fraction(problem.budget.epsilon), problem.max_rows
        whole = Fraction(1) if problem.total_is_public else 1 - SHARE
        moved = 2 * m if problem.relation.replace else m
        if problem.ledgered:
            # A ledger adds up ρ: the counts move by at most moved·m in squares. Half of δ is left to convert it.
            rho, delta = Fraction(rho_of(problem.budget.epsilon, problem.budget.delta / 2)), problem.budget.delta / 2
            law = Noise("laplace", root_up(moved * m / (2 * rho * whole)))
            bought = None if problem.total_is_public else Noise("gaussian", root_up(m * m / (2 * rho * SHARE)))
            return bought, law, threshold(law.scale, m, delta)
        law = Noise("laplace", scale_up(moved / (epsilon * whole)))
        bought = None if problem.total_is_public else Noise("laplace", scale_up(m / (epsilon * SHARE)))
        return bought, law, threshold(law.scale, m, problem.budget.delta)

    def _refusal(self, problem: Problem) -> str | None:
        if problem.budget.epsilon is None or problem.budget.delta == 0:
            return "to publish keys needs a budget of epsilon and a delta above 0: no threshold excludes every chance"
        if problem.ledgered and (reason := self._beyond(problem)) is not None:
            return reason
        plain = all(isinstance(block, SparseQueries) for block in problem.workload.blocks)
        if problem.workload.denominator or not (plain or problem.counting):
            return "it publishes rows, and these queries are not counts of rows"
        if not plain and not exact(problem.workload.domain):
            return "the keys of so large a universe are fingerprints: ask about listed records, with cs.sparse"
        return None

    def _beyond(self, problem: Problem) -> str | None:
        """Why the ledger cannot pay for the δ of the keys."""
        if not problem.aside:
            return (
                "its delta is its own, and the ledger has none left that was set aside for such acts: make one with "
                "aside=0.5 (conspectus ledger init --aside 0.5), or release it without one"
            )
        _, law, level = self.laws(problem)
        _, delta = price_approximate(keys_act(law.scale, level, max_rows=problem.max_rows), problem.neighbours)
        if delta > problem.aside:
            return (
                f"half of its delta, {problem.budget.delta / 2:.3g}, is its own, and the ledger has "
                f"{float(problem.aside):.3g} left aside for such acts: ask for a smaller delta"
            )
        return None

    def claim(self, problem: Problem, plan: Claim) -> Claim:
        return plan

    def plan(self, problem: Problem) -> Claim | Refusal:
        if (reason := self._refusal(problem)) is not None:
            return Refusal(mechanism=self.name, reason=reason)
        _, law, level = self.laws(problem)
        rows = problem.rows or 1 << 20
        sizes = [
            np.diff(block.offsets) if isinstance(block, SparseQueries) else np.array([rows])
            for block in problem.workload.blocks
        ]
        listed = np.concatenate(sizes)
        # What stays below the threshold is lost: how much that is depends on the table. Rare records are the rule.
        most = float(min(int(listed.max(initial=1)) * level, rows))
        return Claim(
            mechanism=self.name,
            expected_max=most + expected_maximum(law, len(problem.workload)),
            expected_mean=float(np.minimum(listed * level, rows).mean()) / 2 + law.scale,
            bound=None,
            memory=64 * rows,
            citations=("Dwork & Roth 2014, Algorithm 13 (idea)", "Korolova et al. 2009; Bun, Nissim & Stemmer 2016"),
            notes=_notes(level, problem.budget.delta, rows),
        )

    def declare(self, problem: Problem, plan: Claim) -> Sequence[Event]:
        bought, law, level = self.laws(problem)
        act = keys_act(law.scale, level, max_rows=problem.max_rows)
        if bought is None:
            return RowTotal(), act
        rows = measurement(always(problem.workload.domain), bought, relation=problem.relation)
        return rows, act

    def release(self, curator: Curator, problem: Problem, plan: Claim) -> Outcome:
        bought, law, level = self.laws(problem)
        if bought is None:
            total = Total(value=float(curator.rows()), exact=True)
        else:
            noisy = float(curator.measure(always(problem.workload.domain), bought)[0])
            total = Total(value=noisy, exact=False, kind=bought.kind, scale=bought.scale, terms=1)
        keys, counts = curator.stable_keys(law.scale, level)
        domain = problem.workload.domain
        synopsis: SparseTable | PublishedRecords
        if isinstance(keys, tuple):
            synopsis = PublishedRecords(domain, keys, counts, level, law, total)
        else:
            synopsis = SparseTable(domain, keys, counts, level, law, total)
        parameters = {"scale": law.scale, "threshold": level, "keys": len(keys)}
        return Outcome(synopsis=synopsis, answers=synopsis.answer(problem.workload), total=total, parameters=parameters)


def _notes(level: int, delta: float, rows: int) -> tuple[str, ...]:
    lost = f"records with fewer than about {level:,} rows are answered by 0"
    if delta * rows <= SEEN:
        return (lost,)
    seen = f"of {rows:,} records that one row has alone, up to {delta * rows:.2g} are expected to be shown"
    return lost, f"{seen}: choose a delta far below {1 / rows:.1g}"


def threshold(scale: float, max_rows: int, delta: float) -> int:
    """The least threshold whose δ fits: m + t with m·P(Z ≥ t) ≤ δ, about m + b·ln(m/2δ)."""

    def fits(level: int) -> bool:
        act = keys_act(scale, level, max_rows=max_rows)
        return price_approximate(act, Neighbours.ADD_REMOVE)[1] <= Fraction(delta)

    above = max(1, math.floor(scale * math.log(max_rows / (2 * delta))) - 1)
    while above > 1 and fits(max_rows + above - 1):
        above -= 1
    while not fits(max_rows + above):
        above += 1
    return max_rows + above
