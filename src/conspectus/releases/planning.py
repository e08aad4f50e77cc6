"""`cs.plan`: what every mechanism would do, compared before anything is spent. Reads no row; knows no mechanism."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from conspectus.curator.acts import relation_of
from conspectus.data.schema import Schema
from conspectus.mechanisms.choosing import make, settings_of
from conspectus.mechanisms.effort.expected_effort import Effort, expected_effort
from conspectus.mechanisms.mechanism import (
    Claim,
    Mechanism,
    NoMechanism,
    Objective,
    Problem,
    ProblemError,
    Proposal,
    Refusal,
    propose,
)
from conspectus.mechanisms.registry import OFFLINE
from conspectus.mechanisms.settings import SettingError
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.relation import Neighbours
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.builders.arguments import told
from conspectus.queries.builders.sparse import for_records
from conspectus.queries.proved_kinds import proved
from conspectus.queries.refuter import examine
from conspectus.queries.workload import Workload
from conspectus.suggestions import did_you_mean
from conspectus.synopses.histogram import MOST_CELLS
from conspectus.tabular import Bars, Tabular
from conspectus.whole_numbers import MOST, whole

_LINES = pa.schema(
    [
        ("mechanism", pa.string()),
        ("expected_max", pa.float64()),
        ("expected_mean", pa.float64()),
        ("expected_within", pa.float64()),
        ("expected_width", pa.float64()),
        ("proved_max", pa.float64()),
        ("memory", pa.int64()),
        ("seconds", pa.float64()),
        ("file_bytes", pa.int64()),
        ("synthetic_rows", pa.bool_()),
        ("refusal", pa.string()),
    ]
)
KEYWORDS = ("rows", "epsilon", "delta", "rho", "mechanism", "neighbours", "objective")


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Tabular):
    """What mechanisms say about a problem before anything is spent. Made by `cs.plan`.

    Attributes:
        problem: The public facts that were planned for.
        claims: What each mechanism that can serve the problem claims; the least expected error comes first, the largest
            or the mean one as `problem.objective` says.
        refusals: Why the others cannot serve it.
        efforts: How long a release takes and how large its file is, by the name of the mechanism, where that is known.
    """

    problem: Problem
    claims: tuple[Claim, ...]
    refusals: tuple[Refusal, ...]
    efforts: Mapping[str, Effort] = field(default_factory=dict)

    @property
    def best(self) -> Claim:
        """The claim with the least expected error, the largest or the mean one as the objective says.

        Raises:
            NoMechanism: nobody can serve the problem; the message has everyone's reason.
        """
        if not self.claims:
            raise self.nobody()
        return self.claims[0]

    def nobody(self) -> NoMechanism:
        """The error that says why no mechanism can serve the problem."""
        return nobody_serves(self.refusals)

    def gives_rows(self, claim: Claim) -> bool:
        """Whether synthetic rows can be made from the release that a claim is about, by public facts alone."""
        known = OFFLINE.get(claim.mechanism)
        return known is not None and (known.gives_rows == "always" or (known.gives_rows == "fitted" and self._fits()))

    def _effort(self, claim: Claim) -> dict[str, Any]:
        found = self.efforts.get(claim.mechanism)
        return {"seconds": None, "file_bytes": None} if found is None else dataclasses.asdict(found)

    def _fits(self) -> bool:
        """Whether there are marginals, and a histogram of their columns is not too large."""
        marginals = [block for block in self.problem.workload.blocks if isinstance(block, Marginal)]
        held = tuple(sorted({column for block in marginals for column in block.columns}))
        return bool(marginals) and self.problem.workload.domain.project(held or (0,)).cells <= MOST_CELLS

    def __repr__(self) -> str:
        best = f"{self.best.mechanism} expects the least error" if self.claims else "nobody can serve it"
        return f"<{type(self).__name__}: {best}; {len(self.claims)} claims, {len(self.refusals)} refusals>"

    def to_arrow(self) -> pa.Table:
        """One line for each mechanism, the best first: what it expects in counts, or why it cannot serve."""
        claims = [
            {
                "mechanism": claim.mechanism,
                "expected_max": float(claim.expected_max),
                "expected_mean": float(claim.expected_mean),
                "expected_within": claim.expected_within,
                "expected_width": None if claim.expected_width is None else float(claim.expected_width),
                "proved_max": None if claim.bound is None else float(claim.bound.value),
                "memory": claim.memory,
                **self._effort(claim),
                "synthetic_rows": self.gives_rows(claim),
                "refusal": None,
            }
            for claim in self.claims
        ]
        refusals = [{"mechanism": one.mechanism, "refusal": one.reason} for one in self.refusals]
        return pa.Table.from_pylist([*claims, *refusals], schema=_LINES)

    def _heading(self) -> str:
        return repr(self).strip("<>") + ". Errors are in counts, typical within a factor, and not promised."

    def _bars(self) -> Bars:
        names, errors = [c.mechanism for c in self.claims], [c.expected_max for c in self.claims]
        nothing = [None] * len(names)
        sizes = [error if math.isfinite(error) else None for error in errors]
        return Bars(labels=names, sizes=sizes, lows=nothing, highs=nothing, axis="expected maximum error, in counts")

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values. Errors are fractions of the rows that were planned for, and counts beside them."""
        whole = self.problem.planned_denominator
        return {
            "rows": self.problem.planned_rows,
            "queries": len(self.problem.workload),
            "objective": self.problem.objective,
            "claims": [
                {
                    **dataclasses.asdict(claim),
                    "expected_max": claim.expected_max / whole,
                    "expected_mean": claim.expected_mean / whole,
                    "expected_width": None if claim.expected_width is None else claim.expected_width / whole,
                    "expected_max_counts": claim.expected_max,
                    "expected_mean_counts": claim.expected_mean,
                    "expected_width_counts": claim.expected_width,
                    **self._effort(claim),
                    "synthetic_rows": self.gives_rows(claim),
                }
                for claim in self.claims
            ],
            "refusals": [dataclasses.asdict(refusal) for refusal in self.refusals],
        }


def nobody_serves(refusals: Sequence[Refusal], *, named: bool = False) -> NoMechanism:
    """The error that says why none of these can serve a problem; with `named`, the one that was asked for."""
    if named:
        return NoMechanism(f"{refusals[0].mechanism} cannot serve this: {refusals[0].reason}")
    reasons = "; ".join(f"{refusal.mechanism}: {refusal.reason}" for refusal in refusals)
    return NoMechanism(f"no mechanism can serve this: {reasons}")


def neighbours_of(neighbours: str | None, schema: Schema) -> Neighbours:
    """The relation asked for, else the schema's, else replace."""
    return Neighbours.of(neighbours or schema.neighbours or Neighbours.REPLACE)


def check_rows(rows: int | None) -> None:
    """Refuse a declared number of rows that is none."""
    if rows is not None and not whole(rows):
        raise ProblemError(
            f"rows, the declared number of rows, is a positive integer, at most {MOST:,}, not {told(rows)}"
        )


def check_given(schema: object, workload: object) -> None:
    """Refuse what is no schema or no workload, with the call that makes one of it."""
    if not isinstance(schema, Schema):
        of_table = isinstance(getattr(schema, "schema", None), Schema)
        cure = "take table.schema" if of_table else "cs.Schema.load reads one from its file"
        raise ProblemError(f"a schema is needed here, not a {type(schema).__name__}: {cure}")
    if isinstance(workload, Workload):
        proved(workload)
        return
    texts = [workload] if isinstance(workload, str) else workload if isinstance(workload, list | tuple) else []
    cure = "cs.marginals(schema, 2) makes one"
    if texts and all(isinstance(text, str) for text in texts):
        names = set(texts) <= set(schema.domain.names)
        call = "cs.marginal(schema, […]) makes one of names" if names else "cs.sql(schema, […]) makes one of predicates"
        cure = f"{call}; cs.marginals(schema, 2) asks for every table of two columns"
    raise ProblemError(f"a workload is needed here, not a {type(workload).__name__}: {cure}")


def check_table(table: object, call: str) -> None:
    """Refuse rows that were not opened: what a value means is declared in a schema."""
    if not isinstance(getattr(table, "schema", None), Schema):
        raise ProblemError(
            f"{call} takes a table that was opened with its schema, not a {type(table).__name__}: "
            "cs.open_table(source, schema) opens files and frames"
        )


def problem_of(
    schema: Schema,
    workload: Workload,
    *,
    budget: Budget,
    neighbours: str | None,
    rows: int | None,
    filtered: bool = False,
    objective: str | None = None,
) -> Problem:
    """The public facts of a release, checked."""
    check_given(schema, workload)
    workload = for_records(workload, schema.domain)
    if workload.domain != schema.domain:
        raise ProblemError("the workload was built from another schema: build it from the schema of this table")
    if not len(workload):
        raise ProblemError("the workload holds no query: ask at least one")
    check_rows(rows)
    relation = relation_of(schema, neighbours_of(neighbours, schema), filtered=filtered)
    workload = workload.measured(total_known=relation.total_is_public)
    in_order = tuple(column.regular if column.ordered else 0 for column in schema.columns)
    return Problem(
        workload=workload,
        budget=budget,
        relation=relation,
        rows=rows,
        in_order=in_order,
        objective=objective_of(objective, workload),
    )


def objective_of(objective: str | None, workload: Workload) -> Objective:
    """Which expected error is compared: the one asked for, else the one that suits the workload.

    Whole marginals of several columns are read as tables, whose total variation is the mean error of their cells;
    single questions are read one by one, and the worst of them counts.
    """
    match objective:
        case "max" | "mean":
            return objective
        case None:
            whole = all(isinstance(block, Marginal) and len(block.columns) > 1 for block in workload.blocks)
            return "mean" if whole else "max"
    raise ProblemError(f'objective is "max" or "mean", not {objective!r}')


def rank(problem: Problem, mechanisms: Iterable[Mechanism[Any]]) -> tuple[tuple[Proposal, ...], Plan]:
    """Let every mechanism plan once. Returns the proposals, best first, and the plan that tells of them."""
    said = [propose(mechanism, problem) for mechanism in mechanisms]
    proposals = sorted((item for item in said if isinstance(item, Proposal)), key=_expected)
    refusals = tuple(item for item in said if isinstance(item, Refusal))
    found = {item.mechanism.name: expected_effort(item.mechanism, problem, item.plan) for item in proposals}
    efforts = {name: effort for name, effort in found.items() if effort is not None}
    told = Plan(problem=problem, claims=tuple(item.claim for item in proposals), refusals=refusals, efforts=efforts)
    return tuple(proposals), told


def _expected(item: Proposal) -> tuple[float, float, float]:
    """What proposals are compared by: the error of the objective, then the width of intervals, then the other error."""
    claim = item.claim
    first, last = claim.expected_max, claim.expected_mean
    if item.problem.objective == "mean":
        first, last = last, first
    return first, claim.expected_width or math.inf, last


def candidates(
    asked: str | Mechanism[Any], settings: Mapping[str, Any], *, call: str, keywords: Sequence[str]
) -> list[Mechanism[Any]]:
    """The mechanism asked for, by name or as an object; for "auto" all of them, with their default settings.

    `call` and `keywords` are the name of the public call and the words that it knows itself, for who misspelt one.
    """
    if asked != "auto":
        return [make(asked, settings, also=keywords)]
    if settings:
        word = next(iter(settings))
        owners = [name for name in OFFLINE if word in settings_of(name)]
        right = did_you_mean(word, keywords)
        if owners:
            right = f": it is a setting of {', '.join(owners)}, so name one with mechanism="
        raise SettingError(f'{call} takes no "{word}"{right}')
    return [make(name, {}) for name in OFFLINE]


def plan(
    schema: Schema,
    workload: Workload,
    *,
    rows: int | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    mechanism: str | Mechanism[Any] = "auto",
    neighbours: str | None = None,
    objective: str | None = None,
    **settings: Any,
) -> Plan:
    """Compare mechanisms before anything is spent: expected error, proved bound, memory, time, file, and why not.

    No row is read and nothing is spent: all that is used is public.

    Args:
        schema: The schema of the table.
        workload: The questions, built from the same schema.
        rows: The number of rows to plan for; None for the number that is assumed where it is private and not declared.
        epsilon: The privacy loss ε. Give this or `rho`.
        delta: The failure probability δ; 0 is a pure guarantee.
        rho: The concentrated privacy loss ρ, in place of ε; a `delta` then says at which δ it is shown as an ε.
        mechanism: "auto" for all of them, a name, or an object of `cs.mechanisms`.
        neighbours: "replace" or "add-remove": what one person may change. None means the schema's, else "replace".
        objective: "max" or "mean": which expected error is compared. None means the mean one for whole marginals of
            several columns, and the largest one for anything else.
        **settings: Settings of the mechanism named, as in a release.

    Returns:
        A `Plan`: `.claims`, best first, `.refusals`, and `.best`; `.efforts` says how long a release takes and how
        large its file is, within a factor of about three, and `.gives_rows` whether there will be synthetic rows.

    Raises:
        BudgetError: the budget is none.
        ProblemError: the workload is empty, or was built from another schema.
        NoMechanism: there is no such mechanism. One that refuses is no error here, and stands in `.refusals`.
        SettingError: the mechanism has no such setting, or the value is out of range.

    Example:
        >>> import conspectus as cs
        >>> columns = {"ill": {"type": "boolean"}, "smoker": {"type": "boolean"}}
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": columns})
        >>> found = cs.plan(schema, cs.marginals(schema, 2), rows=10_000, epsilon=1.0)
        >>> found.best.expected_max < 100
        True
        >>> [refusal.mechanism for refusal in found.refusals]
        ['gaussian', 'tree', 'adaptive', 'net', 'top', 'stable-histogram']
        >>> one = cs.plan(schema, cs.marginals(schema, 2), rows=10_000, epsilon=1.0, mechanism="mwem", rounds=3)
        >>> [claim.mechanism for claim in one.claims]
        ['mwem']
    """
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    asked = candidates(mechanism, settings, call="plan", keywords=KEYWORDS)
    problem = problem_of(schema, workload, budget=budget, neighbours=neighbours, rows=rows, objective=objective)
    examine(problem.workload, problem.relation, rows=rows)
    return rank(problem, asked)[1]


def format_error(counts: float, rows: int | None) -> str:
    """An expected error as a fraction of the rows where their number is known, in counts otherwise."""
    if not math.isfinite(counts):
        return "unknown"
    return share(counts / rows) if rows else f"{counts:.0f} rows"


def share(fraction: float) -> str:
    """A fraction with four decimals, or with two digits where four decimals would say nothing."""
    return f"{fraction:.4f}" if fraction >= 0.001 or fraction == 0 else f"{fraction:.2g}"
