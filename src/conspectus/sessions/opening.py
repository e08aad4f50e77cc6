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
from conspectus.mechanisms.choosing import given_settings, make_online
from conspectus.mechanisms.online_mechanism import OnlineMechanism, OnlineProposal, SessionProblem, propose_online
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.reservation import Reservation
from conspectus.privacy.noise import Sampler, SystemSampler
from conspectus.real_path import real_path
from conspectus.releases.planning import check_rows, check_table, neighbours_of
from conspectus.releases.run import warnings
from conspectus.server_address import is_server

from .account import Account, label_of, reservation_of
from .forecast import AUTO, FACTS, asked_for, best_of, prepared, problem_for
from .session import Session
from .session_terms import Terms
from .store import SessionError, Store

KEYWORDS = (*FACTS, "ledger", "path", "progress")
SIDECAR = ".ledger"
"""What a session's own ledger is called: the session's file name and this."""


def open_session(
    table: Table,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    mechanism: str | OnlineMechanism[Any] = AUTO,
    questions: int | None = None,
    neighbours: str | None = None,
    ledger: str | Path | Ledger | None = None,
    path: str | Path | None = None,
    rows: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Session:
    """Open a session: questions one at a time, each of which may depend on all answers before.

    A question that was asked before gets the same answer and costs nothing. Where many questions are declared, a guess
    of the table answers them, and only surprises are paid for; where few are, each is measured. Once the budget or the
    number of questions is used up, a guess goes on to answer, marked "unguaranteed". `session.claim` says beforehand
    how wide intervals will be.

    Args:
        table: What `cs.open_table`, `cs.open_records` or `cs.open_pairs` opened.
        epsilon: The privacy loss ε of the whole session. Give this or `rho`.
        delta: The failure probability δ; 0 is a pure guarantee.
        rho: The concentrated privacy loss ρ, in place of ε; a `delta` then says at which δ it is shown as an ε.
        mechanism: "auto" for the one with the narrowest expected intervals (on tables of more than 2²⁴ cells a mixture,
            unless others are more than twice as narrow), the name of an online mechanism, or an object of
            `cs.mechanisms`.
        questions: How many different questions to prepare for. More of them make each answer worse. Unless given, as
            many of 10,000 as leave intervals that say something on a table of this size.
        neighbours: "replace" or "add-remove": what one person may change. None means the schema's, else "replace".
        ledger: The ledger of this table, or its path. The budget is reserved in it, and each act debited.
        path: A file to keep the session in, so that it can be resumed. Without a `ledger` it gets one of its own
            beside that file. Without a path the session lives in memory, and ends with it.
        rows: Declares the number of rows where it is private.
        progress: Called as `progress(what, done, total)` while the session is being opened.
        **settings: Settings of the mechanism named, such as `hits=20`; of `pmw` where none is named.

    Returns:
        A `Session`, to be used in a `with` statement or closed: `.ask`, `.measure`, `.claim`, `.spent`, `.remaining`,
        `.release`, `.end`.

    Raises:
        BudgetError: the budget is none.
        ProblemError: `questions` or `rows` is not a positive number.
        NoMechanism: there is no such mechanism, or it cannot serve this table and budget.
        SettingError: the mechanism has no such setting, or the value is out of range.
        SessionError: there is a file at `path` already.
        BudgetExceeded: the ledger has not enough left. It is as it was.

    Example:
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True] * 400 + [False] * 600}), schema)
        >>> with cs.open_session(table, epsilon=5.0, questions=100) as session:
        ...     first = session.ask("ill")
        ...     again = session.ask("NOT (NOT ill)")
        >>> abs(first.fraction - 0.4) < 0.1, again.repeated, again.fraction == first.fraction
        (True, True, True)
    """
    chosen = asked_for(mechanism, settings, keywords=KEYWORDS)
    check_table(table, "cs.open_session")
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    truth = Truth.of(table, progress)
    problem = session_problem(truth, budget, chosen, questions=questions, neighbours=neighbours, rows=rows)
    if isinstance(ledger, str | Path):
        ledger = Ledger.open(ledger)
    return begin(truth, problem, chosen, ledger=ledger, path=path, progress=progress)


def resume_session(
    path: str | Path, table: Table, *, ledger: str | Path | Ledger | None = None, progress: Progress | None = None
) -> Session:
    """Go on with the session in a file, alone or beside other processes. Answers given so far stay as they are.

    The first new question opens a new watch, which is paid for: the noisy threshold of the last one died with its
    process.

    Args:
        path: The session's file.
        table: The table that it was opened on.
        ledger: Where its ledger is now, if it moved; or the ledger itself, in the name of whoever asks from now on
            (`ledger.for_study(by=…)`). Otherwise what is spent is in the name of whoever opened the session.
        progress: Called as `progress(what, done, total)` while the session is being opened.

    Returns:
        The `Session`, with the budget and the mechanism that it was opened with.

    Raises:
        SessionError: there is no session at `path`, it was opened on another table, or it does not agree with its
            ledger.

    Example:
        >>> import tempfile, pathlib
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True] * 400 + [False] * 600}), schema)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "made.session"
        ...     with cs.open_session(table, epsilon=5.0, path=path) as session:
        ...         before = session.ask("ill")
        ...     with cs.resume_session(path, table) as session:
        ...         after = session.ask("ill")
        >>> after.fraction == before.fraction, after.repeated
        (True, True)
    """
    # Everything in the file is checked against its ledger and the table.
    store = Store.open(real_path(path, SessionError))
    session: Session | None = None
    try:
        with store.alone():
            terms = store.terms()
            reservation, settled = reservation_of(_ledger_of(store, terms, ledger), terms)
            truth = Truth.of(table, progress)
            problem = _same_table(truth, terms)
            mechanism = make_online(terms.mechanism, settled_settings(terms))
            account = Account(terms, store, reservation)
            account.reconcile()
            if store.state() is None:
                if not settled:
                    reservation.settle()
                raise SessionError(
                    f"{path} died while it was being opened, and what it did not spend is back in its ledger: "
                    "open another one"
                )
            proposal = propose_online(mechanism, problem)
            session = _session(truth, proposal, account, store, progress=progress, settled=settled)
    finally:
        if session is None:
            store.close()
    return session


def terms_of(path: str | Path) -> Terms:
    """What a session was opened with, as its file has it; nothing is checked against its ledger yet."""
    store = Store.open(real_path(path, SessionError))
    try:
        return store.terms()
    finally:
        store.close()


def session_problem(
    table: Table | Truth,
    budget: Budget,
    mechanism: OnlineMechanism[Any] | None = None,
    *,
    questions: int | None,
    neighbours: str | None,
    rows: int | None,
) -> SessionProblem:
    """The public facts of a session, checked. A truth that had to read its table for them goes on to `begin`."""
    check_rows(rows)
    truth = Truth.of(table)
    schema = truth.table.schema
    relation = relation_of(schema, neighbours_of(neighbours, schema), filtered=truth.table.filtered)
    known = truth.rows() if relation.total_is_public else rows
    truth.public_rows = known
    problem = problem_for(schema, budget, relation=relation, rows=known, questions=1)
    return prepared(problem, mechanism, questions)


def begin(
    table: Table | Truth,
    problem: SessionProblem,
    mechanism: OnlineMechanism[Any] | None,
    *,
    ledger: Ledger | None = None,
    path: str | Path | None = None,
    source: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    sampler: Sampler | None = None,
) -> Session:
    """Choose, reserve, open. Refusals come before anything is spent, and from public facts alone.

    Without a mechanism the plan chooses one. `source` says, for a later command line, where table and schema were.
    """
    truth = Truth.of(table)
    table = truth.table
    problem = dataclasses.replace(problem, concentrated=ledger is not None and ledger.currency == "zcdp")
    proposal = best_of(problem, mechanism)
    file = None if path is None else real_path(path, SessionError)  # one file, one lock, under whatever name
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
            terms = _terms(table, proposal, source or {})
            if ledger is not None:
                label, digest = label_of(terms), terms.digest
                reservation = ledger.reserve(problem.budget, label, terms=digest, **bound)  # type: ignore[arg-type]
                terms = dataclasses.replace(terms, ledger=str(ledger.path), reservation=reservation.number)
            store.write_terms(terms)
            account = Account(terms, store, reservation)
            opened = _session(truth, proposal, account, store, progress=progress, sampler=sampler)
            opened._begin()
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


def _terms(table: Table, proposal: OnlineProposal, source: Mapping[str, str]) -> Terms:
    problem = proposal.problem
    return Terms(
        session=os.urandom(8).hex(),
        mechanism=proposal.mechanism.name,
        settings=given_settings(proposal.mechanism),
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


def settled_settings(terms: Terms) -> dict[str, Any]:
    """The settings of a session with what it chose itself when it was opened.

    Version 0.1 wrote down only what it was told: its `pmw` spent half of the budget on marginals.
    """
    unsaid = {"priming": 0.5} if terms.mechanism == "pmw" and not terms.settings.get("theorem") else {}
    return {**unsaid, **terms.settings}


def _session(
    truth: Truth,
    proposal: OnlineProposal,
    account: Account,
    store: Store,
    *,
    progress: Progress | None,
    sampler: Sampler | None = None,
    settled: bool = False,
) -> Session:
    sampler, problem, table = sampler or SystemSampler(), proposal.problem, truth.table
    curator = Curator(
        truth, account.filter, neighbours=problem.neighbours, debit=account, sampler=sampler, progress=progress
    )
    return Session(
        schema=table.schema,
        proposal=proposal,
        curator=curator,
        account=account,
        store=store,
        guarantee=account.filter.guarantee(str(table.schema.unit), warnings(table, problem), private=sampler.private),
        settled=settled,
    )


def _same_table(truth: Truth, terms: Terms) -> SessionProblem:
    """The problem of a stored session, if the table is one that it can go on with."""
    schema = truth.table.schema
    if (schema.fingerprint, str(schema.unit), truth.table.filtered) != (terms.fingerprint, terms.unit, terms.filtered):
        raise SessionError("this session was opened on a table with another schema or source: give it that table")
    found = session_problem(
        truth, terms.budget, questions=terms.questions, neighbours=terms.neighbours, rows=terms.rows
    )
    if found.rows != terms.rows:
        # The number is compared where it is public only: elsewhere it is the declared one.
        raise SessionError("this table has another number of rows than the session's: give it the same table")
    return dataclasses.replace(found, concentrated=terms.concentrated)


def _ledger_of(store: Store, terms: Terms, given: Path | str | Ledger | None) -> Ledger:
    """The ledger that a session was opened with: where we are told, where it was, or beside the session."""
    if terms.ledger is None or store.path is None:
        raise SessionError("this session names no ledger: the file is damaged")
    if isinstance(given, Ledger):
        return given
    if given is not None or is_server(terms.ledger):
        return Ledger.open(given if given is not None else terms.ledger)
    known = Path(terms.ledger)
    beside = store.path.with_name(known.name)
    return Ledger.open(known if known.is_file() or not beside.is_file() else beside)
