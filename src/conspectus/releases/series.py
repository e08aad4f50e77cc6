"""A synopsis that is released again every month, on the grown table: one plan for the year, under one ledger.

Releases about the same people add up, also when the table grows between them: whoever is in it in January is in it in
June. A series reserves the price of all its releases when it is opened, and cuts it into shares that are declared then.
Each period is released once, in order, and debited within its share before anything is drawn. What was done stands in
the lines of the ledger, each act with the name of its period: the file of a series holds what was agreed on, never
changes, and no copy of it knows less than another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from conspectus.curator.truth import Progress
from conspectus.data.schema import Schema
from conspectus.mechanisms.choosing import make
from conspectus.mechanisms.mechanism import Problem
from conspectus.privacy.accounting import Debit, Filter
from conspectus.privacy.events import Event
from conspectus.privacy.guarantee import Budget, Guarantee, large_epsilon
from conspectus.privacy.ledger.ledger import Entry
from conspectus.privacy.ledger.reservation import Reservation, StaleCopy
from conspectus.queries.workload import Workload
from conspectus.suggestions import did_you_mean, suggest_keywords
from conspectus.tabular import Tabular

from .planning import Plan, candidates, check_table, problem_of, rank
from .release import Release
from .run import KEYWORDS, run
from .series_terms import SeriesError, SeriesTerms

_LINES = pa.schema(
    [
        ("period", pa.string()),
        ("state", pa.string()),
        ("when", pa.string()),
        ("share", pa.float64()),
        ("acts", pa.int64()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class _Standing:
    """Where a series stands: the acts of every period that has one, the place of the last of them, whether it was
    ended, the next period, and how many lines the ledger has of it. All at one moment: what is due is debited only if
    no line was added since."""

    done: Mapping[str, tuple[Entry, ...]]
    last: int
    ended: bool
    next: str | None
    lines: int


@suggest_keywords
class Series(Tabular):
    """Releases of a table that grows, planned together: opened by `cs.open_series` or `cs.resume_series`.

    Attributes:
        schema: The schema of the table.
        workload: The questions of every release.
        periods: The names of the periods, in order.
        guarantee: What all releases keep together.
        path: The file that holds what was agreed on.
        ledger: The ledger that paid.

    Example:
        >>> import tempfile, conspectus as cs
        >>> from conspectus.privacy.guarantee import Budget
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": {"ill": {"type": "boolean"}}})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = cs.Ledger.create(f"{folder}/l", budget=Budget(epsilon=1.0), neighbours="replace", unit="row",
        ...                               schema_fingerprint=schema.fingerprint, table="visits")
        ...     series = cs.open_series(schema, cs.marginals(schema, 1), periods=3, epsilon=0.75, ledger=ledger,
        ...                             path=f"{folder}/visits.series")
        ...     series.to_dict()["state"], series.guarantee.epsilon
        (['next', 'to come', 'to come'], 0.75)
    """

    def __init__(
        self, schema: Schema, workload: Workload, terms: SeriesTerms, reservation: Reservation, path: Path
    ) -> None:
        self.schema, self.workload, self.periods, self.path = schema, workload, terms.periods, path
        self.ledger = reservation.ledger
        self._terms, self._reservation = terms, reservation
        whole = Filter.of(terms.budget, terms.neighbours)
        self.guarantee: Guarantee = whole.guarantee(str(schema.unit), large_epsilon(terms.budget))

    @property
    def next(self) -> str | None:
        """The name of the period that is released next; None when all are over or the series was ended."""
        return self._standing().next

    @property
    def ended(self) -> bool:
        """Whether the series was ended, or its ledger retired."""
        return self._standing().ended

    def budget_of(self, period: str) -> Budget:
        """What one period may spend.

        Args:
            period: Its name.

        Returns:
            Its part of the budget: ε of a pure one, ρ otherwise.

        Raises:
            SeriesError: There is no such period.
        """
        return self._terms.budget_of(self._known(period))

    def plan(self, *, rows: int, period: str | None = None) -> Plan:
        """What every mechanism would do with the share of a period, compared before anything is spent.

        Args:
            rows: The number of rows to plan for.
            period: Which period; the next one by default.

        Returns:
            The plan, as `cs.plan` makes it.

        Raises:
            SeriesError: There is no such period, or none is left.
        """
        terms = self._terms
        able = candidates(terms.mechanism, terms.settings, call="plan", keywords=KEYWORDS)
        named = self._due(self._standing(), None) if period is None else self._known(period)
        problem = dataclasses.replace(period_problem(self.schema, terms, named), rows=rows)
        return rank(problem, able)[1]

    def release(
        self,
        table: Any,
        period: str | None = None,
        *,
        skip: bool = False,
        rows: int | None = None,
        progress: Progress | None = None,
    ) -> Release:
        """Make the release of the next period, from the table as it is by then.

        Args:
            table: The grown table, as `cs.open_table` opened it with the schema of the series.
            period: The name of the period, to be sure which one is meant; the next one by default.
            skip: Whether periods before it that were never released may be left out for good. Their shares are not
                spent, and go back to the ledger when the series is ended.
            rows: Declares the number of rows where it is private, as for `cs.release`.
            progress: Called as `progress(what, done, total)` while the work goes on.

        Returns:
            The release of this period. Its guarantee is that of its share, and says what all of them keep.

        Raises:
            SeriesError: There is no such period, it was released or begun before, a later one was, or periods before it
                were not released and `skip` was not said; the series was ended; or the table has another schema.
            NoMechanism: No mechanism can serve the share of this period.
            BudgetExceeded: The ledger was retired, or the share does not pay.

        Guarantee: acts of a period are debited in the ledger before they are drawn, in its own share, and no period is
        ever drawn for twice.
        """
        check_table(table, "series.release")
        terms = self._terms
        if table.schema.fingerprint != self.schema.fingerprint or str(table.schema.unit) != str(self.schema.unit):
            raise SeriesError("this table has another schema than the series: open it with the schema of the series")
        standing = self._standing()
        named = self._due(standing, period, skip=skip)
        problem = dataclasses.replace(period_problem(self.schema, terms, named, filtered=table.filtered), rows=rows)
        debit = _PeriodDebit(self._reservation, named, standing.lines)
        made = run(
            table,
            problem,
            mechanism=terms.mechanism if terms.mechanism == "auto" else make(terms.mechanism, terms.settings),
            settings={},
            progress=progress,
            asked=self.workload,
            spending=lambda chosen: (Filter.of(chosen.problem.budget, problem.neighbours), debit),
        )
        place = self.periods.index(named) + 1
        whole = dataclasses.replace(self.guarantee, warnings=())
        said = f"it is release {place} of {len(self.periods)} about a growing table, which together keep {whole}"
        return dataclasses.replace(
            made,
            guarantee=dataclasses.replace(made.guarantee, warnings=(*made.guarantee.warnings, said)),
            parameters={**made.parameters, "period": named, "place": place, "periods": len(self.periods)},
        )

    def end(self) -> None:
        """End the series: the shares of periods that were not released go back to the ledger.

        Raises:
            LedgerError: It was ended before.
        """
        self._reservation.settle()

    def to_arrow(self) -> pa.Table:
        """One line for each period: its state, when it was released, its share of the budget, and its acts."""
        standing = self._standing()
        rows = []
        for place, period in enumerate(self.periods):
            acts = standing.done.get(period, ())
            over = place < standing.last or standing.ended
            state = "next" if period == standing.next else "released" if acts else "skipped" if over else "to come"
            when = acts[0].made.replace("T", " ").removesuffix("+00:00") if acts else None
            share = self._terms.budget_of(period)
            price = share.epsilon if share.rho is None else share.rho
            rows.append({"period": period, "state": state, "when": when, "share": price, "acts": len(acts)})
        return pa.Table.from_pylist(rows, schema=_LINES)

    def __repr__(self) -> str:
        done = len(self._standing().done)
        return f'<Series of "{self.schema.name}": {done} of {len(self.periods)} periods released>'

    def _heading(self) -> str:
        return repr(self).strip("<>")

    def _standing(self) -> _Standing:
        """Where the series stands, by the lines of its ledger at one moment."""
        entries = self.ledger.entries_of(self._reservation.number)
        acts = [entry for entry in entries if entry.kind == "debit"]
        done: dict[str, tuple[Entry, ...]] = {}
        for entry in acts:
            done[entry.label] = (*done.get(entry.label, ()), entry)
        places = {period: place for place, period in enumerate(self.periods)}
        if not done.keys() <= places.keys():
            raise SeriesError("the ledger has acts of this series in a period that it does not have: it was changed")
        last = max((places[period] for period in done), default=-1)
        ended = any(entry.kind == "settle" for entry in entries)
        upcoming = None if ended or last + 1 == len(self.periods) else self.periods[last + 1]
        return _Standing(done=done, last=last, ended=ended, next=upcoming, lines=len(acts))

    def _known(self, period: str) -> str:
        if period in self.periods:
            return period
        known = ", ".join(self.periods[:4]) + (", …" if len(self.periods) > 4 else "")
        right = did_you_mean(str(period), self.periods)
        raise SeriesError(f"this series has no period {period!r}{right}; its periods are {known}")

    def _due(self, standing: _Standing, period: str | None, *, skip: bool = False) -> str:
        """The period to release now, or why not."""
        if standing.ended:
            raise SeriesError("this series was ended, and what it did not spend went back: open another one")
        if period is None and standing.next is None:
            raise SeriesError("all periods of this series are over: open another one")
        named = self._known(period or standing.next or "")
        done, place, last = standing.done, self.periods.index(named), standing.last
        if named in done:
            day = done[named][0].made.partition("T")[0]
            raise SeriesError(
                f"{named} was released on {day}, or died while it was: its share is spent, and nothing is drawn for it"
            )
        if place < last:
            raise SeriesError(f"{named} is over, since {self.periods[last]} was released: it stays left out")
        if place > last + 1 and not skip:
            missed = ", ".join(self.periods[last + 1 : place])
            raise SeriesError(f"{missed} would be left out for good: release that first, or say skip")
        return named


class _PeriodDebit(Debit):
    """Writes the acts of one period into the reservation of its series; two processes cannot both begin one."""

    def __init__(self, reservation: Reservation, period: str, acts: int) -> None:
        self._reservation, self._period, self._acts = reservation, period, acts

    def check(self, event: Event) -> None:
        self._reservation.check(event)

    def debit(self, event: Event) -> None:
        try:
            self._reservation.debit(event, after=self._acts, label=self._period)
        except StaleCopy:
            raise SeriesError("another process is releasing from this series: wait for it, and look again") from None
        self._acts += 1


def period_problem(schema: Schema, terms: SeriesTerms, period: str, *, filtered: bool = False) -> Problem:
    """The public facts of one period."""
    problem = problem_of(
        schema,
        Workload.from_json(dict(terms.workload)),
        budget=terms.budget_of(period),
        neighbours=str(terms.neighbours),
        rows=None,
        filtered=filtered,
        objective=terms.objective,
    )
    return dataclasses.replace(problem, ledgered=True)
