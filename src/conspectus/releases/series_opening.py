"""Opening a series of releases, and going on with one: all is checked before anything is reserved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conspectus.data.schema import Schema
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.reservation import Reservation
from conspectus.queries.workload import Workload

from .planning import candidates, neighbours_of
from .run import KEYWORDS
from .series import Series, period_problem
from .series_terms import SeriesError, SeriesTerms, read_terms, write_terms


def open_series(
    schema: Schema,
    workload: Workload,
    *,
    periods: int | Sequence[str],
    ledger: str | Path | Ledger,
    path: str | Path,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    shares: Sequence[float] | None = None,
    mechanism: str = "auto",
    neighbours: str | None = None,
    objective: str | None = None,
    **settings: Any,
) -> Series:
    """Plan releases of a table that grows, such as one a month: reserve the price of all, and cut it into shares.

    Nothing is read and nothing is drawn. Each release is made later, by `series.release`.

    Args:
        schema: The schema of the table, the same in every period.
        workload: The questions, the same in every period.
        periods: How many releases there will be, or their names in order, as in ["2026-01", "2026-02"].
        ledger: The ledger of the table, or its path. It reserves the whole of the budget now.
        path: A new file that holds what was agreed on.
        epsilon: The privacy loss ε of all releases together. Give this or `rho`.
        delta: The failure probability δ; 0 is a pure guarantee.
        rho: The concentrated privacy loss ρ, in place of ε.
        shares: How the budget is cut, one positive number for each period; equal parts by default. The parts are of ε
            for a pure budget, and of ρ otherwise.
        mechanism: "auto" for the one that expects the least error in each period, or a name.
        neighbours: "replace" or "add-remove". None means the schema's, else "replace".
        objective: "max" or "mean", as for `cs.release`.
        **settings: Settings of the mechanism named.

    Returns:
        A `Series`: `.release(table)` makes the next release, `.plan(rows=…)` says what to expect of it.

    Raises:
        SeriesError: The periods or shares are none, or there is a file at `path`.
        BudgetExceeded: The ledger has not enough left. It is as it was.
        LedgerError: The ledger is bound to another table, unit, relation or currency.

    Example:
        >>> import tempfile, conspectus as cs, pyarrow as pa
        >>> from conspectus.privacy.guarantee import Budget
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": {"ill": {"type": "boolean"}}})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = cs.Ledger.create(f"{folder}/l", budget=Budget(epsilon=40.0), neighbours="replace", unit="row",
        ...                               schema_fingerprint=schema.fingerprint, table="visits")
        ...     series = cs.open_series(schema, cs.marginals(schema, 1), periods=["January", "February"], epsilon=40.0,
        ...                             ledger=ledger, path=f"{folder}/visits.series", mechanism="laplace")
        ...     first = series.release(cs.open_table(pa.table({"ill": [True, False] * 50}), schema))
        ...     series.next, first.guarantee.epsilon
        ('February', 20.0)
    """
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    relation = neighbours_of(neighbours, schema)
    terms = SeriesTerms.of(
        schema,
        workload,
        periods=periods,
        shares=shares,
        budget=budget,
        neighbours=relation,
        mechanism=mechanism,
        objective=objective,
        settings=settings,
    )
    for period in terms.periods:  # refused now, and not in the middle of the year
        period_problem(schema, terms, period)
    candidates(mechanism, settings, call="open_series", keywords=(*KEYWORDS, "periods", "shares", "path"))
    kept = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    with write_terms(Path(path), terms) as keep:
        bound = {"fingerprint": schema.fingerprint, "neighbours": relation, "unit": str(schema.unit)}
        reservation = kept.reserve(budget, terms.label, terms=terms.digest, **bound)  # type: ignore[arg-type]
        keep(str(kept.path), reservation.number)
    return Series(schema, workload, terms, reservation, Path(path))


def resume_series(path: str | Path, *, ledger: str | Path | Ledger | None = None) -> Series:
    """Go on with the series in a file, where its ledger says it is.

    Args:
        path: The file that `cs.open_series` or `conspectus series open` made.
        ledger: Its ledger, where that was moved.

    Returns:
        The `Series`.

    Raises:
        SeriesError: There is no series at `path`, or it is not the one that its ledger has.
        LedgerError: There is no ledger where it was.

    Example:
        >>> cs.resume_series("nowhere.series")
        Traceback (most recent call last):
        ...
        conspectus.releases.series_terms.SeriesError: there is no series at nowhere.series: open one first
    """
    found = read_terms(Path(path))
    terms, number = found.terms, found.reservation
    kept = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger if ledger is not None else found.ledger)
    first = next(iter(kept.entries_of(number)), None)
    schema, workload = Schema.from_dict(dict(terms.schema)), Workload.from_json(dict(terms.workload))
    bound = (kept.schema_fingerprint, kept.neighbours, kept.unit)
    same = bound == (schema.fingerprint, terms.neighbours, str(schema.unit))
    line = None if first is None else (first.kind, first.label, first.terms)
    if first is None or not same or line != ("reserve", terms.label, terms.digest):
        raise SeriesError(f"{path} is not a series of this ledger: use the file and the ledger that belong together")
    return Series(schema, workload, terms, Reservation(kept.going_on(first), number), Path(path))
