"""Claims compared before anything is spent. Reads no row; knows no mechanism by name."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conspectus.curator.acts import relation_of
from conspectus.data.schema import Schema
from conspectus.mechanisms.mechanism import (
    Claim,
    Mechanism,
    NoMechanism,
    Problem,
    ProblemError,
    Proposal,
    Refusal,
    SettingError,
    propose,
)
from conspectus.mechanisms.registry import OFFLINE, make, settings_of
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.relation import Neighbours
from conspectus.queries.builders.sparse import for_records
from conspectus.queries.refuter import examine
from conspectus.queries.workload import Workload
from conspectus.suggestions import did_you_mean

KEYWORDS = ("rows", "epsilon", "delta", "rho", "mechanism", "neighbours")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Claims, best first, and refusals with their reasons."""

    problem: Problem
    claims: tuple[Claim, ...]
    refusals: tuple[Refusal, ...]

    @property
    def best(self) -> Claim:
        """The claim with the least expected maximum error.

        Raises:
            NoMechanism: nobody can serve the problem; the message has everyone's reason.
        """
        if not self.claims:
            raise self.nobody()
        return self.claims[0]

    def nobody(self) -> NoMechanism:
        """The error that says why no mechanism can serve the problem."""
        reasons = "; ".join(f"{refusal.mechanism}: {refusal.reason}" for refusal in self.refusals)
        return NoMechanism(f"no mechanism can serve this: {reasons}")

    def to_json(self) -> dict[str, Any]:
        whole = self.problem.denominator
        return {
            "rows": self.problem.rows,
            "queries": len(self.problem.workload),
            "claims": [
                {
                    **dataclasses.asdict(claim),
                    "expected_max": claim.expected_max / whole if whole else None,
                    "expected_mean": claim.expected_mean / whole if whole else None,
                    "expected_max_counts": claim.expected_max,
                    "expected_mean_counts": claim.expected_mean,
                }
                for claim in self.claims
            ],
            "refusals": [dataclasses.asdict(refusal) for refusal in self.refusals],
        }


def neighbours_of(neighbours: str | None, schema: Schema) -> Neighbours:
    """The relation asked for, else the schema's, else replace."""
    return Neighbours.of(neighbours or schema.neighbours or Neighbours.REPLACE)


def problem_of(
    schema: Schema,
    workload: Workload,
    *,
    budget: Budget,
    neighbours: str | None,
    rows: int | None,
    filtered: bool = False,
) -> Problem:
    """The public facts of a release."""
    workload = for_records(workload, schema.domain)
    if workload.domain != schema.domain:
        raise ProblemError("the workload was built from another schema: build it from the schema of this table")
    if not len(workload):
        raise ProblemError("the workload holds no query: ask at least one")
    if rows is not None and (type(rows) is not int or rows < 1):
        raise ProblemError(f"rows, the declared number of rows, is a positive integer, not {rows!r}")
    relation = relation_of(schema, neighbours_of(neighbours, schema), filtered=filtered)
    return Problem(workload=workload, budget=budget, relation=relation, rows=rows)


def rank(problem: Problem, mechanisms: Mapping[str, Mechanism[Any]]) -> tuple[tuple[Proposal, ...], Plan]:
    """Let every mechanism plan, and sort the proposals by the expected maximum error: what is proposed, and told."""
    said = [propose(mechanism, problem) for mechanism in mechanisms.values()]
    proposals = sorted(
        (item for item in said if isinstance(item, Proposal)),
        key=lambda item: (item.claim.expected_max, item.claim.expected_mean),
    )
    refusals = tuple(item for item in said if isinstance(item, Refusal))
    told = Plan(problem=problem, claims=tuple(item.claim for item in proposals), refusals=refusals)
    return tuple(proposals), told


def candidates(
    name: str, settings: Mapping[str, Any], *, call: str, keywords: Sequence[str]
) -> dict[str, Mechanism[Any]]:
    """The mechanism asked for with its settings, or all of them, which take none."""
    if name != "auto":
        return {name: make(name, settings, also=keywords)}
    if settings:
        word = next(iter(settings))
        owners = [each for each in OFFLINE if word in settings_of(each)]
        right = did_you_mean(word, keywords)
        if owners:
            right = f": it is a setting of {', '.join(owners)}, so name one with mechanism="
        raise SettingError(f'{call} takes no "{word}"{right}')
    return {each: make(each, {}) for each in OFFLINE}


def plan(
    schema: Schema,
    workload: Workload,
    *,
    rows: int,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    mechanism: str = "auto",
    neighbours: str | None = None,
    **settings: Any,
) -> Plan:
    """What each mechanism would do for a table of this many rows, or the one named: reads no row, spends nothing.

    Settings of the mechanism named follow as keywords, as in a release.
    """
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    asked = candidates(mechanism, settings, call="plan", keywords=KEYWORDS)
    problem = problem_of(schema, workload, budget=budget, neighbours=neighbours, rows=rows)
    examine(workload, problem.relation, rows=rows)
    return rank(problem, asked)[1]


def format_error(counts: float, rows: int | None) -> str:
    """An expected error as a fraction of the rows where their number is known, in counts otherwise."""
    if not math.isfinite(counts):
        return "unknown"
    return share(counts / rows) if rows else f"{counts:.0f} rows"


def share(fraction: float) -> str:
    """A fraction with four decimals, or with two digits where four decimals would say nothing."""
    return f"{fraction:.4f}" if fraction >= 0.001 or fraction == 0 else f"{fraction:.2g}"
