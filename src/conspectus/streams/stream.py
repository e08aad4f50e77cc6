"""Counts that run on as rows arrive: one debit for the whole horizon, a noisy count at every step."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.stream_counter import StreamCounter
from conspectus.data.schema import Schema
from conspectus.data.sources import Table, open_table
from conspectus.privacy.guarantee import Budget, Guarantee
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.reservation import Reservation
from conspectus.privacy.noise import Sampler, SystemSampler
from conspectus.queries.workload import Workload
from conspectus.releases.answer import Answer, checked_confidence
from conspectus.releases.planning import neighbours_of
from conspectus.releases.release import Release
from conspectus.releases.released_counts import ReleasedCounts
from conspectus.suggestions import suggest_keywords
from conspectus.synopses.evidence import Evidence
from conspectus.synopses.stream_answers import StreamAnswers
from conspectus.synopses.synopsis import Total

from .step_marks import OTHER_LEDGER, StepMarks
from .stream_file import DAMAGE, StreamError, StreamFile
from .stream_plan import StreamPlan


def open_stream(
    schema: Schema,
    workload: Workload,
    *,
    horizon: int | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    neighbours: str | None = None,
    events: int = 1,
    ledger: str | Path | Ledger | None = None,
    path: str | Path | None = None,
) -> Stream:
    """Open a stream: rows arrive step by step, and after each step the counts so far are published with noise.

    The whole of the budget is debited once, for all steps there will be. The noise of a count grows with the logarithm
    of the horizon, where counting every step alone would make it grow with the root.

    Args:
        schema: Declares the rows. Rows are the events.
        workload: What is counted: questions about single rows.
        horizon: How many steps there will be at most. None where that is not known: then the noise grows as steps come.
        epsilon: The privacy loss ε of the whole stream. Give this or `rho`.
        delta: The failure probability δ; 0 is a pure guarantee, with Laplace noise.
        rho: The concentrated privacy loss ρ, in place of ε.
        neighbours: "add-remove": an event more or less. "replace": an event that is another one, in the same step. None
            means the schema's, else "replace".
        events: The promise is about a person with at most so many events in the whole stream: 1 for single events.
        ledger: The ledger of this table, or its path; for `events=1`.
        path: A file to keep the stream in, so that it can be resumed. Without it the stream lives in memory.

    Returns:
        A `Stream`, to be used in a `with` statement or closed: `.append`, `.value`, `.window`, `.range`, `.release`.

    Raises:
        BudgetError: The budget is none.
        StreamError: The horizon, `events` or the workload cannot be served, or there is a file at `path` already.
        BudgetExceeded: The ledger has not enough left. It is as it was.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": {"ill": {"type": "boolean"}}})
        >>> with cs.open_stream(schema, cs.sql(schema, ["ill"]), horizon=12, epsilon=50.0) as stream:
        ...     for month in range(3):
        ...         stream.append(pa.table({"ill": [True] * 400 + [False] * 600}))
        ...     so_far, last = stream.value(0), stream.window(0, 1)
        >>> abs(so_far.count - 1200) < 20, abs(last.count - 400) < 20
        (True, True)
    """
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    terms = {
        "schema": schema.to_dict(),
        "workload": workload.to_json(),
        "horizon": horizon,
        "budget": {"epsilon": epsilon, "delta": delta, "rho": rho},
        "neighbours": str(neighbours_of(neighbours, schema)),
        "events": events,
    }
    return begin(schema, workload, terms, budget, ledger=ledger, path=None if path is None else Path(path))


def begin(
    schema: Schema,
    workload: Workload,
    terms: dict[str, Any],
    budget: Budget,
    *,
    ledger: str | Path | Ledger | None = None,
    path: Path | None = None,
    sampler: Sampler | None = None,
) -> Stream:
    """Check, debit, draw the first noise. Refusals come before anything is spent, and from public facts alone."""
    plan = StreamPlan(schema, workload, terms, budget)
    if ledger is not None and terms["events"] != 1:
        raise StreamError("a ledger counts single events: leave events out, or the ledger")
    file = StreamFile(path, new=True)
    stream: Stream | None = None
    reservation: Reservation | None = None
    try:
        plan.spending.admit(plan.act)
        if ledger is not None:
            kept = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
            bound = {"neighbours": plan.problem.neighbours, "unit": str(schema.unit)}
            label = f"stream of {len(workload):,} counts"
            reservation = kept.reserve(budget, label, fingerprint=schema.fingerprint, **bound)  # type: ignore[arg-type]
            reservation.debit(plan.act)
            if path is None:
                reservation.settle()  # what is in memory has no copies: `append` refuses that of a fork
            else:
                terms = {**terms, "ledger": str(kept.path), "reservation": reservation.number}
        opened = Stream(plan, file, sampler)
        first = file.first(terms, opened._counter(0).begin())
        if reservation is not None and path is not None:
            opened._marks = StepMarks.of_new(reservation, first)
        file.begin(terms, first)
        stream = opened
    finally:
        if stream is None:  # nobody has seen anything of it, and its name is free again
            file.close()
            if path is not None:
                path.unlink(missing_ok=True)
    return stream


def resume_stream(path: str | Path, *, ledger: str | Path | Ledger | None = None) -> Stream:
    """Go on with the stream in a file. Nothing is debited again, and no noise is drawn again.

    Args:
        path: The stream's file. With a ledger an old copy of it is refused, and so is a changed one. Without one keep
            no copies: one that is gone on with would draw later noise a second time.
        ledger: The ledger that the stream was opened with; without it the one that the file names. Give it where others
            can write to the file: they could let it name another one, or none.

    Returns:
        The `Stream`; `stream.steps` says how many steps it has.

    Raises:
        StreamError: There is no stream at `path`, another process has it, it is an old copy or was changed, or it was
            not opened with this ledger.
        LedgerError: Its ledger is not where it was.

    Example:
        >>> import tempfile, pathlib
        >>> import conspectus as cs, pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": {"ill": {"type": "boolean"}}})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "visits.stream"
        ...     with cs.open_stream(schema, cs.sql(schema, ["ill"]), horizon=8, epsilon=1.0, path=path) as stream:
        ...         stream.append(pa.table({"ill": [True, False]}))
        ...         before = stream.value(0)
        ...     with cs.resume_stream(path) as stream:
        ...         stream.steps, stream.value(0) == before
        (1, True)
    """
    file = StreamFile(Path(path), new=False)
    stream: Stream | None = None
    try:
        terms = file.terms()
        schema, workload = Schema.from_dict(terms["schema"]), Workload.from_json(terms["workload"])
        plan = StreamPlan(schema, workload, terms, Budget(**terms["budget"]))
        plan.spending.admit(plan.act)
        file.check(len(plan.measured), plan.horizon.going_on)
        if plan.horizon.steps is not None and file.steps() > plan.horizon.steps:
            raise file.damaged()  # no tree holds the steps behind the horizon
        marks: StepMarks | None = None
        if terms.get("reservation") is not None:
            kept = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger or terms["ledger"])
            if type(terms["reservation"]) is not int:
                raise file.damaged()
            marks = StepMarks.of_file(file, kept, terms["reservation"], plan.act)
        elif ledger is not None:
            raise StreamError(OTHER_LEDGER)
        stream = Stream(plan, file, None, marks)
    except (KeyError, TypeError, AttributeError, *DAMAGE):
        raise file.damaged() from None
    finally:
        if stream is None:
            file.close()
    return stream


@suggest_keywords
class Stream:
    """Counts that run on, opened by `cs.open_stream` or `cs.resume_stream`. All that it tells was published with noise.

    Attributes:
        schema: Declares the rows.
        workload: What is counted.
        guarantee: What the whole stream promises.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "visits", "columns": {"ill": {"type": "boolean"}}})
        >>> with cs.open_stream(schema, cs.sql(schema, ["ill"]), epsilon=1.0) as stream:
        ...     stream.append(pa.table({"ill": [True, False]}))
        ...     stream.steps, stream.guarantee.epsilon
        (1, 1.0)
    """

    def __init__(
        self, plan: StreamPlan, file: StreamFile, sampler: Sampler | None, marks: StepMarks | None = None
    ) -> None:
        self.schema, self.workload = plan.schema, plan.workload
        self._plan, self._file, self._marks = plan, file, marks
        self._sampler = sampler or SystemSampler()
        self._lock = threading.RLock()
        self._process = os.getpid()
        unit = str(plan.schema.unit)
        self.guarantee: Guarantee = plan.spending.guarantee(unit, plan.said, private=self._sampler.private)

    @property
    def steps(self) -> int:
        """How many steps of time there were."""
        with self._lock:
            return self._file.steps()

    def append(self, rows: Any) -> None:
        """Take in the rows of the next step of time. A step without rows is a step, too.

        Args:
            rows: A table of rows: whatever `cs.open_table` takes, or what it opened.

        Raises:
            StreamError: The horizon is reached, the rows have another schema, the file is an old copy, or this process
                is not the one that opened the stream.
            BudgetExceeded: The ledger of the stream was retired.

        Guarantee: when this returns, the step and its output are in the file. If it does not return, either both are or
        neither is, and `steps` says which. The noise of no interval is drawn twice.
        """
        table = rows if isinstance(rows, Table) else open_table(rows, self.schema)
        if table.schema.fingerprint != self.schema.fingerprint or table.filtered:
            raise StreamError("these rows have another schema than the stream: open them with the stream's")
        with self._lock:
            if os.getpid() != self._process:
                # A fork copied noises that were drawn ahead: two counts with the same one tell their exact difference.
                raise StreamError(
                    "this stream belongs to the process that opened it: append there, or resume its file here"
                )
            step, horizon = self._file.steps(), self._plan.horizon
            if horizon.steps is not None and step >= horizon.steps:
                raise StreamError(f"this stream was opened for {horizon.steps:,} steps, which are over: open another")
            held = self._file.state()
            if self._marks is not None:  # before anything is drawn: an old copy of the file is refused here
                self._marks.begin(step, self._file)
            tree, counter = horizon.tree_at(step), self._counter(step)
            # The counter of the first tree was drawn when the stream was opened.
            state = counter.begin() if step and step == tree.start else held
            after, shown = counter.step(state, step - tree.start, table)
            before, base = self._file.output(tree.start - 1) if tree.start else (0, np.zeros_like(shown))
            known = self._file.output(step - 1)[0] if step else before
            arrived = counter.rows(table) if self._plan.problem.total_is_public else 0
            kept = self._file.after(step, known + arrived, base + shown, after)
            if self._marks is not None:
                self._marks.drawn(step, kept)
            self._file.keep(kept)
            if self._marks is not None:
                self._marks.done(step)

    def value(self, query: int, *, confidence: float = 0.95) -> Answer:
        """The count of one question over all steps so far.

        Args:
            query: Its position in the workload.
            confidence: The probability, over the noise, with which the interval holds the truth.

        Returns:
            The answer: `.count` events, and the fraction of all events that they are.

        Raises:
            StreamError: There was no step yet, or there is no such question.
            ConfidenceError: The confidence is not strictly between 0 and 1.
        """
        return self.range(query, 0, self.steps, confidence=confidence)

    def window(self, query: int, last: int, *, confidence: float = 0.95) -> Answer:
        """The count of one question over the last few steps.

        Args:
            query: Its position in the workload.
            last: How many steps the window has.
            confidence: The probability, over the noise, with which the interval holds the truth.

        Returns:
            The answer.

        Raises:
            StreamError: There were not so many steps, or there is no such question.
            ConfidenceError: The confidence is not strictly between 0 and 1.
        """
        steps = self.steps
        return self.range(query, steps - last, steps, confidence=confidence)

    def range(self, query: int, first: int, end: int, *, confidence: float = 0.95) -> Answer:
        """The count of one question over some steps: from `first` on, up to and without `end`.

        Args:
            query: Its position in the workload.
            first: The first step, from 0 on.
            end: The step after the last one.
            confidence: The probability, over the noise, with which the interval holds the truth.

        Returns:
            The answer.

        Raises:
            StreamError: There are no such steps, or there is no such question.
            ConfidenceError: The confidence is not strictly between 0 and 1.
        """
        checked_confidence(confidence)
        if isinstance(query, bool) or not isinstance(query, int) or not 0 <= query < len(self.workload):
            raise StreamError(f"the questions of this stream are numbered from 0 to {len(self.workload) - 1}")
        asked, held = self.workload[query], self._answers(first, end)
        told = Evidence(workload=self.workload, answers=held.counts / held.total.divisor)
        return ReleasedCounts(self.schema, held, told, lambda _: None).answer(asked, confidence)

    def release(self) -> Release:
        """All counts so far, as a release that can be saved and shared. Nothing is spent, and the stream goes on.

        Returns:
            A release that answers the questions of the stream.

        Raises:
            StreamError: There was no step yet.
        """
        synopsis = self._answers(0, self.steps)
        return Release(
            schema=self.schema,
            workload=self.workload,
            answers=synopsis.answer(self.workload),
            synopsis=synopsis,
            guarantee=self.guarantee,
            mechanism="stream",
            parameters={"steps": self.steps, "horizon": self._plan.horizon.steps, "events": self._plan.events},
            claim=None,
            certificate=None,
            measured=None,
            events=(self._plan.act_at(self.steps - 1),),
        )

    def close(self) -> None:
        """Let go of the file. A stream in a file can be resumed; one in memory is gone."""
        with self._lock:
            if os.getpid() == self._process:
                self._file.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _counter(self, step: int) -> StreamCounter:
        tree = self._plan.horizon.tree_at(step)
        return StreamCounter(self._plan.measured, tree.law, tree.levels, sampler=self._sampler)

    def _answers(self, first: int, end: int) -> StreamAnswers:
        """What is known of some steps."""
        counts, total = self._between(first, end)
        law, terms = self._plan.horizon.noises(first, end - 1)
        where = self.workload.positions_in(self.workload.distinct())
        values = (counts / self._plan.measured.grid)[where]
        alike = self._plan.horizon.alike(first, end - 1)
        return StreamAnswers(self.schema.domain, self.workload, values, law, terms, total, alike=alike)

    def _between(self, first: int, end: int) -> tuple[NDArray[np.int64], Total]:
        """The noisy counts of some steps, and how many events they had."""
        with self._lock:
            if not 0 <= first < end <= self._file.steps():
                raise StreamError(f"this stream has {self._file.steps():,} steps: ask about one or more of them")
            rows, counts = self._file.output(end - 1)
            before, earlier = self._file.output(first - 1) if first else (0, np.zeros_like(counts))
        if self._plan.problem.total_is_public:
            return counts - earlier, Total(value=float(rows - before), exact=True)
        law, terms = self._plan.horizon.noises(first, end - 1)
        return counts - earlier, self._plan.noisy_total(counts - earlier, law, terms)
