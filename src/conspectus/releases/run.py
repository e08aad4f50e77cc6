"""The main path: a table, a workload and a budget become a release. The only code that brings a curator into being."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from conspectus.curator.curator import Curator, Progress
from conspectus.data.sources import Table
from conspectus.mechanisms.mechanism import NoMechanism, Outcome, Problem, Proposal
from conspectus.privacy.accounting import Declared, Filter, allowance, sum_of_deltas
from conspectus.privacy.events import Event
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger, Reservation
from conspectus.privacy.noise import Sampler, SystemSampler
from conspectus.queries.blocks.unsafe_functions import UnsafeFunctions
from conspectus.queries.refuter import examine
from conspectus.queries.workload import Workload

from .planning import candidates, problem_of, rank
from .release import Release

KEYWORDS = ("epsilon", "delta", "rho", "mechanism", "neighbours", "ledger", "rows", "progress")


def release(
    table: Table,
    workload: Workload,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    mechanism: str = "auto",
    neighbours: str | None = None,
    ledger: str | Path | Ledger | None = None,
    rows: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Release:
    """Release a workload of one table under one budget.

    `rows` declares the number of rows where it is private and a claim or a warning would depend on it; where it is
    public the table's own number is used.
    Settings of the mechanism follow as keywords.
    """
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    problem = problem_of(
        table.schema, workload, budget=budget, neighbours=neighbours, rows=rows, filtered=table.filtered
    )
    if ledger is not None:
        ledger = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
        problem = dataclasses.replace(problem, ledgered=True, aside=ledger.delta_remaining)
    return run(table, problem, mechanism=mechanism, settings=settings, ledger=ledger, progress=progress)


def run(
    table: Table,
    problem: Problem,
    *,
    mechanism: str,
    settings: dict[str, Any],
    ledger: Ledger | None = None,
    progress: Progress | None = None,
    sampler: Sampler | None = None,
) -> Release:
    """Choose, reserve, draw, settle. Refusals come before anything is spent, and from public facts alone."""
    sampler = sampler or SystemSampler()
    if problem.total_is_public:
        problem = dataclasses.replace(problem, rows=sum(chunk.rows for chunk in table.chunks(())))
    # Before anything is spent, and on made tables alone: sensitivities that were declared can be wrong.
    examine(problem.workload, problem.relation, rows=problem.rows)
    chosen = choose(problem, mechanism, settings)
    purse: Filter | Declared = allowance(problem.budget, problem.neighbours)
    reservation: Reserving | None = None
    if ledger is not None:
        label = f"{chosen.mechanism.name} on {len(problem.workload):,} queries"
        own = _with_own_delta(chosen)
        purse = allowance(problem.budget, problem.neighbours, missing=sum_of_deltas(own, problem.neighbours))
        reservation = Reserving(ledger, problem, table, label, events=own or None)
    else:
        declared = chosen.declare()
        if declared is not None:
            purse = Declared(declared, problem.budget, problem.neighbours)
    curator = Curator(
        table, purse, neighbours=problem.neighbours, reservation=reservation, sampler=sampler, progress=progress
    )
    outcome = chosen.release(curator)
    if reservation is not None:
        reservation.settle()
    return _bind(table, chosen, outcome, purse, private=sampler.private)


def _with_own_delta(chosen: Proposal) -> tuple[Event, ...]:
    """The declared acts of a mechanism, where some of them have a δ of their own: a ledger reserves just these."""
    problem = chosen.problem
    declared = tuple(chosen.declare() or ()) if problem.aside else ()
    return declared if sum_of_deltas(declared, problem.neighbours) else ()


class Reserving:
    """Reserves the whole budget in a ledger with the first act, before its coins are drawn; or just the acts, where
    they were declared.

    Until then a file that turns out to be damaged, or a table that will not open, has cost nothing.
    """

    def __init__(
        self, ledger: Ledger, problem: Problem, table: Table, label: str, *, events: tuple[Event, ...] | None = None
    ) -> None:
        self._ledger = ledger
        self._budget = problem.budget
        self._label = label
        self._fingerprint, self._unit = table.schema.fingerprint, str(table.schema.unit)
        self._neighbours = problem.neighbours
        self._events = events
        self._reservation: Reservation | None = None
        ledger.check(
            self._budget,
            fingerprint=self._fingerprint,
            neighbours=self._neighbours,
            unit=self._unit,
            events=self._events,
        )

    def debit(self, event: Event) -> None:
        if self._reservation is None:
            self._reservation = self._ledger.reserve(
                self._budget,
                self._label,
                fingerprint=self._fingerprint,
                neighbours=self._neighbours,
                unit=self._unit,
                events=self._events,
            )
        self._reservation.debit(event)

    def settle(self) -> None:
        if self._reservation is not None:
            self._reservation.settle()


def choose(problem: Problem, name: str, settings: dict[str, Any]) -> Proposal:
    """What the mechanism asked for proposes, or the best of all proposals; a refusal is an error that says why."""
    proposals, told = rank(problem, candidates(name, settings, call="release", keywords=KEYWORDS))
    if name != "auto" and told.refusals:
        raise NoMechanism(f"{name} cannot serve this: {told.refusals[0].reason}")
    if not proposals:
        raise told.nobody()
    return proposals[0]


def _bind(
    table: Table,
    chosen: Proposal,
    outcome: Outcome,
    purse: Filter | Declared,
    *,
    private: bool,
) -> Release:
    problem = chosen.problem
    guarantee = purse.guarantee(str(table.schema.unit), (*warnings(table, problem), *outcome.warnings), private=private)
    return Release(
        schema=table.schema,
        workload=problem.workload,
        answers=outcome.answers,
        synopsis=outcome.synopsis,
        guarantee=guarantee,
        mechanism=chosen.mechanism.name,
        parameters=outcome.parameters,
        claim=chosen.claim,
        certificate=outcome.certificate,
        measured=outcome.measured,
        events=purse.events,
    )


def warnings(table: Table, problem: Problem) -> tuple[str, ...]:
    """What a reader of the guarantee must know; from public facts alone."""
    said = []
    rows, delta = problem.rows, problem.budget.delta
    if rows is not None and delta > 0 and delta * rows >= 1:
        said.append(
            f"delta = {delta:.3g} is at least 1/{rows:,}: a mechanism that publishes a random person's row would pass"
        )
    declared = sum(len(block) for block in problem.workload.blocks if isinstance(block, UnsafeFunctions))
    if declared:
        said.append(
            f"the sensitivity of {declared:,} {'function was' if declared == 1 else 'functions were'} declared, not "
            "proved, and their code ran on the rows: the guarantee rests on both"
        )
    if table.schema.draft:
        said.append("the schema was drafted from the data, and what it shows of the data is outside the guarantee")
    declared = any(isinstance(block, UnsafeFunctions) for block in problem.workload.blocks)
    if rows is not None and declared and not problem.total_is_public:
        said.append(
            f"the sensitivities of its functions are declared for tables of {rows:,} rows, and vouched for by the owner"
        )
    return tuple(said)
