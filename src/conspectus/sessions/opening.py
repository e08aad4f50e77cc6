"""Opening and resuming live sessions: the code that brings their curators into being."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conspectus.curator.acts import relation_of
from conspectus.curator.curator import Curator
from conspectus.curator.truth import Progress, Truth
from conspectus.data.sources import Table
from conspectus.mechanisms.mechanism import Claim, NoMechanism, ProblemError, Refusal
from conspectus.mechanisms.online_mechanism import OnlineMechanism, SessionProblem
from conspectus.mechanisms.registry import make_rule
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger, Reservation
from conspectus.privacy.noise import Sampler, SystemSampler
from conspectus.queries.workload import Workload
from conspectus.releases.planning import neighbours_of
from conspectus.releases.run import warnings

from .account import Account, label_of, reservation_of
from .session import Session
from .store import SessionError, Store, Terms

KEYWORDS = (
    "epsilon",
    "delta",
    "rho",
    "mechanism",
    "questions",
    "neighbours",
    "ledger",
    "path",
    "rows",
    "progress",
)
SIDECAR = ".ledger"
"""What a session's own ledger is called: the session's file name and this."""


def open_session(
    table: Table,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    mechanism: str = "pmw",
    questions: int = 10_000,
    neighbours: str | None = None,
    ledger: str | Path | Ledger | None = None,
    path: str | Path | None = None,
    rows: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Session:
    """Open a session on one table under one budget, for up to `questions` different questions.

    With a `path` the session is kept in a file and can be resumed; its acts are debited in `ledger`, or in a ledger of
    its own beside the file. `rows` declares the number of rows where it is private.
    Settings of the mechanism follow as keywords.
    """
    rule = make_rule(mechanism, settings, also=KEYWORDS)
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    truth = Truth.of(table)
    problem = stream_of(truth, budget, questions=questions, neighbours=neighbours, rows=rows)
    if isinstance(ledger, str | Path):
        ledger = Ledger.open(ledger)
    return begin(truth, problem, rule, settings=settings, ledger=ledger, path=path, progress=progress)


def resume_session(
    path: str | Path, table: Table, *, ledger: str | Path | None = None, progress: Progress | None = None
) -> Session:
    """Go on with the session in a file, alone or beside other processes. Answers given so far stay as they are.

    The first new question opens a new watch, which is paid for: the noisy threshold of the last one died with its
    process. `ledger` says where the ledger is now, if it moved.
    """
    return go_on(Path(path), table, ledger=None if ledger is None else Path(ledger), progress=progress)


def truth_of(table: Table) -> Truth:
    """What a session will know of its table; given to `stream_of` and to `begin`, both read the table once."""
    return Truth.of(table)


def terms_of(path: str | Path) -> Terms:
    """What a session was opened with, as its file has it; nothing is checked against its ledger yet."""
    store = Store.open(Path(path).resolve())
    try:
        return store.terms()
    finally:
        store.close()


def stream_of(
    table: Table | Truth, budget: Budget, *, questions: int, neighbours: str | None, rows: int | None
) -> SessionProblem:
    """The public facts of a session. A truth that had to read its table for them goes on to `begin`."""
    if type(questions) is not int or questions < 1:
        raise ProblemError(f"questions, the number of questions, is a positive integer, not {questions!r}")
    if rows is not None and (type(rows) is not int or rows < 1):
        raise ProblemError(f"rows, the declared number of rows, is a positive integer, not {rows!r}")
    truth = Truth.of(table)
    schema = truth.table.schema
    relation = relation_of(schema, neighbours_of(neighbours, schema), filtered=truth.table.filtered)
    return SessionProblem(
        workload=Workload(schema.domain, ()),
        budget=budget,
        relation=relation,
        rows=truth.rows() if relation.total_is_public else rows,
        ledgered=True,
        questions=questions,
    )


def begin(
    table: Table | Truth,
    problem: SessionProblem,
    rule: OnlineMechanism,
    *,
    settings: Mapping[str, Any],
    ledger: Ledger | None = None,
    path: str | Path | None = None,
    source: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    sampler: Sampler | None = None,
) -> Session:
    """Choose, reserve, open. Refusals come before anything is spent, and from public facts alone.

    `source` says, for a later command line, where table and schema were.
    """
    truth = Truth.of(table)
    table = truth.table
    problem = dataclasses.replace(problem, concentrated=ledger is not None and ledger.currency == "zcdp")
    claim = _claimed(rule, problem)
    file = None if path is None else Path(path).resolve()  # one file, one lock, under whatever name
    bound = {"fingerprint": table.schema.fingerprint, "neighbours": problem.neighbours, "unit": str(table.schema.unit)}
    if ledger is not None:
        ledger.check(problem.budget, **bound)  # type: ignore[arg-type]
    own = None if file is None or ledger is not None else file.with_name(file.name + SIDECAR)
    if own is not None and own.exists():
        raise SessionError(f"{own} already exists, the ledger of another session: choose another name")
    store = Store.create(file)
    reservation: Reservation | None = None
    session: Session | None = None
    try:
        with store.alone():
            if own is not None:
                ledger = _own_ledger(own, table, problem)
            terms = _terms(table, problem, rule, settings, source or {})
            if ledger is not None:
                reservation = ledger.reserve(problem.budget, label_of(terms), **bound)  # type: ignore[arg-type]
                where = str(ledger.path.resolve())
                terms = dataclasses.replace(terms, ledger=where, reservation=reservation.number)
            store.write_terms(terms)
            account = Account(terms, store, reservation)
            opened = _session(truth, problem, rule, claim, account, store, progress=progress, sampler=sampler)
            opened.begin()
            session = opened
    finally:
        if session is None:
            # Nobody has seen anything of it: what it did not spend goes back, and its name is free again.
            if reservation is not None:
                reservation.settle()
            store.discard()
            if own is not None and (reservation is None or not reservation.ledger.spent):
                for name in (own.name, own.name + "-journal"):
                    own.with_name(name).unlink(missing_ok=True)
    return session


def _own_ledger(path: Path, table: Table, problem: SessionProblem) -> Ledger:
    return Ledger.create(
        path,
        budget=problem.budget,
        neighbours=problem.neighbours,
        unit=str(table.schema.unit),
        schema_fingerprint=table.schema.fingerprint,
        table=table.schema.name,
    )


def _terms(
    table: Table, problem: SessionProblem, rule: OnlineMechanism, settings: Mapping[str, Any], source: Mapping[str, str]
) -> Terms:
    return Terms(
        session=os.urandom(8).hex(),
        mechanism=rule.name,
        settings=dict(settings),
        budget=problem.budget,
        neighbours=problem.neighbours,
        questions=problem.questions,
        rows=problem.rows,
        fingerprint=table.schema.fingerprint,
        unit=str(table.schema.unit),
        filtered=table.filtered,
        concentrated=problem.concentrated,
        source=dict(source),
    )


def go_on(
    path: Path,
    table: Table,
    *,
    ledger: Path | None = None,
    progress: Progress | None = None,
    sampler: Sampler | None = None,
) -> Session:
    """A session from its file, after everything in it was checked against its ledger and the table."""
    store = Store.open(path.resolve())
    session: Session | None = None
    try:
        with store.alone():
            terms = store.terms()
            reservation, settled = reservation_of(_ledger_of(store, terms, ledger), terms)
            truth = Truth.of(table)
            problem = _same_table(truth, terms)
            rule = make_rule(terms.mechanism, terms.settings)
            account = Account(terms, store, reservation)
            account.reconcile()
            if store.state() is None:
                if not settled:
                    reservation.settle()
                raise SessionError(
                    f"{path} died while it was being opened, and what it did not spend is back in its ledger: "
                    "open another one"
                )
            claim = _claimed(rule, problem)
            session = _session(
                truth, problem, rule, claim, account, store, progress=progress, sampler=sampler, settled=settled
            )
    finally:
        if session is None:
            store.close()
    return session


def _session(
    truth: Truth,
    problem: SessionProblem,
    rule: OnlineMechanism,
    claim: Claim,
    account: Account,
    store: Store,
    *,
    progress: Progress | None,
    sampler: Sampler | None,
    settled: bool = False,
) -> Session:
    sampler = sampler or SystemSampler()
    table = truth.table
    curator = Curator(truth, account, neighbours=problem.neighbours, sampler=sampler, progress=progress)
    said = warnings(table, problem)
    return Session(
        schema=table.schema,
        problem=problem,
        rule=rule,
        claim=claim,
        curator=curator,
        account=account,
        store=store,
        guarantee=account.guarantee(str(table.schema.unit), said, private=sampler.private),
        settled=settled,
    )


def _claimed(rule: OnlineMechanism, problem: SessionProblem) -> Claim:
    said = rule.claim(problem)
    if isinstance(said, Refusal):
        raise NoMechanism(f"{rule.name} cannot serve this: {said.reason}")
    return said


def _same_table(truth: Truth, terms: Terms) -> SessionProblem:
    """The problem of a stored session, if the table is one that it can go on with."""
    schema = truth.table.schema
    if (schema.fingerprint, str(schema.unit), truth.table.filtered) != (terms.fingerprint, terms.unit, terms.filtered):
        raise SessionError("this session was opened on a table with another schema or source: give it that table")
    found = stream_of(truth, terms.budget, questions=terms.questions, neighbours=terms.neighbours, rows=terms.rows)
    if found.rows != terms.rows:
        # The number is compared where it is public only: elsewhere it is the declared one.
        raise SessionError("this table has another number of rows than the session's: give it the same table")
    return dataclasses.replace(found, concentrated=terms.concentrated)


def _ledger_of(store: Store, terms: Terms, given: Path | None) -> Ledger:
    """The ledger that a session was opened with: where we are told, where it was, or beside the session."""
    if terms.ledger is None or store.path is None:
        raise SessionError("this session names no ledger: the file is damaged")
    known = Path(terms.ledger)
    beside = store.path.with_name(known.name)
    return Ledger.open(given or (known if known.is_file() or not beside.is_file() else beside))
