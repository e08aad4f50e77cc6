"""The main path: a table, a workload and a budget become a release. The only code that brings a curator into being."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from conspectus.curator.curator import Curator
from conspectus.curator.truth import Progress, Truth
from conspectus.data.sources import Table
from conspectus.mechanisms.mechanism import Mechanism, Problem, Proposal, propose
from conspectus.mechanisms.registry import OFFLINE, Entry
from conspectus.privacy.accounting import Allowance, Debit, Declared, Filter, sum_of_deltas
from conspectus.privacy.events import Event
from conspectus.privacy.gaussian_filter import GaussianFilter
from conspectus.privacy.guarantee import Budget, large_epsilon
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.reservation import Reservation
from conspectus.privacy.noise import Sampler, SystemSampler
from conspectus.privacy.relation import Neighbours
from conspectus.queries.blocks.moments import Moments
from conspectus.queries.blocks.unsafe_functions import UnsafeFunctions
from conspectus.queries.refuter import examine
from conspectus.queries.workload import Workload

from .moments_inside import answers_inside
from .numbers_from_parts import derived_answers
from .planning import candidates, check_table, nobody_serves, problem_of, rank
from .release import Release
from .within_bins import InsidePlan, WithinBins

KEYWORDS = (
    "epsilon",
    "delta",
    "rho",
    "mechanism",
    "neighbours",
    "objective",
    "within_bins",
    "ledger",
    "rows",
    "progress",
)


DRAFTED = "the schema was drafted from the data, and what it shows of the data is outside the guarantee"


def release(
    table: Table,
    workload: Workload,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    mechanism: str | Mechanism[Any] = "auto",
    neighbours: str | None = None,
    objective: str | None = None,
    within_bins: float | None = None,
    ledger: str | Path | Ledger | None = None,
    rows: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Release:
    """Answer a workload about a table under a privacy budget, as a synopsis that is safe to publish.

    Refusals come before anything is spent, and depend on public facts alone.

    Args:
        table: What `cs.open_table`, `cs.open_records` or `cs.open_pairs` opened.
        workload: The questions, built from the schema of the table.
        epsilon: The privacy loss ε. Give this or `rho`.
        delta: The failure probability δ; 0 is a pure guarantee.
        rho: The concentrated privacy loss ρ, in place of ε; a `delta` then says at which δ it is shown as an ε.
        mechanism: "auto" for the one that expects the least error, a name, or an object of `cs.mechanisms`.
        neighbours: "replace" or "add-remove": what one person may change. None means the schema's, else "replace".
        objective: "max" or "mean": which expected error "auto" compares. None means the mean one for whole marginals of
            several columns, and the largest one for anything else.
        within_bins: The share of the budget, as in 0.1, that buys the mean and the spread of values inside each bin of
            the workload's integer and number columns. Averages and synthetic numbers are then no longer stuck to the
            middles of bins. None buys nothing.
        ledger: The ledger of this table, or its path: it caps all that is ever released, and is debited first.
        rows: Declares the number of rows where it is private and a claim or a warning would depend on it. Where it is
            public, the table's own number is used.
        progress: Called as `progress(what, done, total)` while the work goes on.
        **settings: Settings of the mechanism named, such as `rounds=5`.

    Returns:
        A `Release`: `.answers` are fractions in the order of the workload, `.guarantee` says what was spent; it
        answers other questions with `.ask`, makes `.synthetic` rows, and is saved with `.save`.

    Raises:
        BudgetError: the budget is none.
        ProblemError: the workload is empty, or was built from another schema; or `within_bins` is no share, or no
            column has bins of several numbers.
        NoMechanism: there is no such mechanism, or it cannot serve this workload and budget.
        SettingError: the mechanism has no such setting, or the value is out of range.
        BudgetExceeded: the ledger has not enough left. It is as it was.

    Example:
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True] * 400 + [False] * 600}), schema)
        >>> release = cs.release(table, cs.marginals(schema, 1), epsilon=5.0, mechanism="laplace")
        >>> len(release.answers), release.guarantee.epsilon
        (2, 5.0)
        >>> answer = release.ask("ill")
        >>> answer.low <= answer.fraction <= answer.high
        True
        >>> same = cs.release(table, cs.marginals(schema, 1), epsilon=5.0, mechanism=cs.mechanisms.Laplace())
        >>> same.mechanism
        'laplace'
    """
    check_table(table, "cs.release")
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    problem = problem_of(
        table.schema,
        workload,
        budget=budget,
        neighbours=neighbours,
        rows=rows,
        filtered=table.filtered,
        objective=objective,
    )
    inside: InsidePlan | None = None
    if within_bins is not None:
        inside, rest = InsidePlan.of(table.schema, workload, problem.relation, budget=budget, share=within_bins)
        problem = dataclasses.replace(problem, budget=rest)
    if ledger is not None:
        ledger = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
        problem = dataclasses.replace(problem, ledgered=True, aside=ledger.delta_remaining)
    return run(
        table,
        problem,
        mechanism=mechanism,
        settings=settings,
        ledger=ledger,
        progress=progress,
        asked=workload,
        inside=inside,
    )


def run(
    table: Table,
    problem: Problem,
    *,
    mechanism: str | Mechanism[Any],
    settings: dict[str, Any],
    ledger: Ledger | None = None,
    progress: Progress | None = None,
    sampler: Sampler | None = None,
    asked: Workload | None = None,
    inside: InsidePlan | None = None,
    spending: Callable[[Proposal], tuple[Allowance, Debit]] | None = None,
) -> Release:
    """Choose, reserve, draw, settle. Refusals come before anything is spent, and from public facts alone.

    `asked` is the workload whose measured form is the problem's, where it has means or other moments. `inside` buys
    where values lie inside bins, from its own part of the budget: the problem's budget is the rest. `spending` says
    what may be spent, and where acts are written down, where that was reserved before: nothing is then reserved here.
    """
    sampler = sampler or SystemSampler()
    able = candidates(mechanism, settings, call="release", keywords=KEYWORDS)  # or refused, before a row is read
    truth: Truth | None = None
    if problem.total_is_public:
        rows = table.known_rows
        if rows is None:
            # The plans need the number, and only a pass finds it. What it reads is put aside for the counts.
            truth = _truth(table, problem, mechanism, progress)
            rows = truth.rows()
        problem = dataclasses.replace(problem, rows=rows)
    # Before anything is spent, and on made tables alone: sensitivities that were declared can be wrong.
    examine(problem.workload, problem.relation, rows=problem.rows)
    chosen = choose(problem, mechanism, able)
    narrow = None if inside is None else table.recoded(inside.schema)  # or refused, before anything is spent
    allowance, debit = _allowed(table, chosen, ledger, inside) if spending is None else spending(chosen)
    if truth is None:
        truth = _truth(table, problem, chosen.mechanism, progress)
    truth.public_rows = problem.rows
    if _entry(chosen.mechanism).whole_rows:
        truth.read()  # it counts nothing ahead, and a damaged source must not cost its budget
    curator = Curator(truth, allowance, neighbours=problem.neighbours, debit=debit, sampler=sampler, progress=progress)
    within: WithinBins | None = None
    try:
        if inside is not None and narrow is not None:
            looking = Curator(
                Truth(narrow, columns=inside.columns, once=True, progress=progress),
                allowance,
                neighbours=problem.neighbours,
                debit=debit,
                sampler=sampler,
                progress=progress,
            )
            within = inside.bought(table.schema, looking)
        outcome = chosen.release(curator)
    except KeyboardInterrupt:
        # Whoever stops a release has paid for the acts that were written down, and gets the rest back.
        if isinstance(debit, Reservation):
            debit.settle()
        raise
    # A release that died before this line has spent all that it reserved: a crash loses budget, never privacy.
    if isinstance(debit, Reservation):
        debit.settle()
    whole = problem if inside is None else dataclasses.replace(problem, budget=inside.budget)
    said = (*warnings(table, whole), *outcome.warnings)
    moments = asked is not None and any(isinstance(block, Moments) for block in asked.blocks)
    made = Release(
        schema=table.schema,
        workload=asked if asked is not None and moments else problem.workload,
        answers=derived_answers(asked, outcome.answers, outcome.total) if asked and moments else outcome.answers,
        shares=outcome.answers if moments else None,
        synopsis=outcome.synopsis,
        guarantee=allowance.guarantee(str(table.schema.unit), said, private=sampler.private),
        mechanism=chosen.mechanism.name,
        parameters=outcome.parameters if inside is None else {**outcome.parameters, "within_bins": inside.told()},
        claim=chosen.claim,
        certificate=outcome.certificate,
        measured=outcome.measured,
        events=allowance.events,
        declared=_declared(chosen, inside) == allowance.events,
        within=within,
    )
    if within is None or not moments:
        return made
    return dataclasses.replace(made, answers=answers_inside(made.counts, made.workload, made.answers))


def _declared(chosen: Proposal, inside: InsidePlan | None) -> tuple[Event, ...] | None:
    """All acts of a release, in order, where they are fixed before the first draw."""
    declared = chosen.declare()
    ahead = () if inside is None else (inside.act,)
    return None if declared is None else (*ahead, *declared)


def _allowed(
    table: Table, chosen: Proposal, ledger: Ledger | None, inside: InsidePlan | None
) -> tuple[Allowance, Reservation | None]:
    """What a release may spend, and where it writes its acts down before they are drawn."""
    problem = chosen.problem
    budget = problem.budget if inside is None else inside.budget
    declared = _declared(chosen, inside)  # an act that cannot be drawn is refused here, and costs nothing
    if ledger is None:
        if declared is not None:
            return Declared(declared, budget, problem.neighbours), None
        terms = chosen.mechanism.terms(problem, chosen.plan) if inside is None else None
        if terms is not None:
            return GaussianFilter(terms, budget, problem.neighbours), None
        return Filter.of(budget, problem.neighbours), None
    label = f"{chosen.mechanism.name} on {len(problem.workload):,} queries"
    return reserved(table, ledger, budget, problem.neighbours, label, _with_own_delta(chosen))


def reserved(
    table: Table, ledger: Ledger, budget: Budget, neighbours: Neighbours, label: str, own: tuple[Event, ...]
) -> tuple[Filter, Reservation]:
    """What may be spent under a ledger, which holds it ready; `own` are all acts, where some have a δ of their own."""
    allowance = Filter.of(budget, neighbours, missing=sum_of_deltas(own, neighbours))  # or refused, and not reserved
    reservation = ledger.reserve(
        budget,
        label,
        fingerprint=table.schema.fingerprint,
        neighbours=neighbours,
        unit=str(table.schema.unit),
        events=own or None,
        deferred=True,
    )
    return allowance, reservation


def _truth(table: Table, problem: Problem, asked: str | Mechanism[Any], progress: Progress | None) -> Truth:
    """What the curator will know of the table: what the mechanism may ask about is put aside by the first pass.

    Most ask about the columns of their workload; projections and keys are of whole rows. Where the choice is still open
    ("auto"), whole rows are expected if the questions read them anyway: elsewhere the other columns would cost more
    than the second pass of a choice that is hardly ever made.
    """
    columns: Sequence[int] = problem.workload.columns
    every = range(len(problem.workload.domain))
    once = False
    if asked == "auto":
        keys = len(columns) == len(every) and any(
            entry.keys and isinstance(propose(entry.load()(), problem), Proposal) for entry in OFFLINE.values()
        )
    else:
        entry = _entry(asked)
        columns = every if entry.whole_rows else columns
        keys, once = entry.keys, entry.counts_once
    return Truth(table, columns=columns, keys=keys, once=once, progress=progress)


def _entry(asked: str | Mechanism[Any]) -> Entry:
    """What the registry says of a mechanism: whether it asks about whole rows, counts once, publishes keys."""
    return OFFLINE[asked if isinstance(asked, str) else asked.name]


def _with_own_delta(chosen: Proposal) -> tuple[Event, ...]:
    """The declared acts of a mechanism, where some of them have a δ of their own: a ledger reserves just these."""
    problem = chosen.problem
    declared = tuple(chosen.declare() or ()) if problem.aside else ()
    return declared if sum_of_deltas(declared, problem.neighbours) else ()


def choose(problem: Problem, asked: str | Mechanism[Any], able: Sequence[Mechanism[Any]]) -> Proposal:
    """What the mechanism asked for proposes, or the best of all proposals of those that are able.

    Raises:
        NoMechanism: the mechanism asked for refuses, or all do; the message says why.
    """
    proposals, told = rank(problem, able)
    if not proposals:
        raise nobody_serves(told.refusals, named=asked != "auto")
    return proposals[0]


def warnings(table: Table, problem: Problem) -> tuple[str, ...]:
    """What a reader of the guarantee must know; from public facts alone."""
    said = []
    rows, delta = problem.rows, problem.budget.delta
    if rows is not None and delta > 0 and delta * rows >= 1:
        said.append(
            f"delta = {delta:.3g} is at least 1/{rows:,}: a mechanism that publishes a random person's row would pass"
        )
    said += large_epsilon(problem.budget)
    declared = sum(len(block) for block in problem.workload.blocks if isinstance(block, UnsafeFunctions))
    if declared:
        said.append(
            f"the sensitivity of {declared:,} {'function was' if declared == 1 else 'functions were'} declared, not "
            "proved, and their code ran on the rows: the guarantee rests on both"
        )
    if table.schema.draft:
        said.append(DRAFTED)
    if rows is not None and declared and not problem.total_is_public:
        said.append(
            f"the sensitivities of its functions are declared for tables of {rows:,} rows, and vouched for by the owner"
        )
    return tuple(said)
