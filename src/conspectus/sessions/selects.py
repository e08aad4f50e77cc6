"""A SELECT put to a session: which counts it asks for, what they would cost, and what follows from them.

A session answers counts. A SELECT is a list of them, one for each group, or for each cell where values are added up;
everything else is post-processing. So a SELECT costs what its counts cost, and those that were asked before cost
nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from conspectus.data.schema import Schema
from conspectus.mechanisms.online_mechanism import OnlineRun
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.moments import Moment
from conspectus.queries.formulas import under_one_limit
from conspectus.queries.language.from_select import is_select, read_select
from conspectus.queries.language.select_plan import Select
from conspectus.queries.language.unanswerable import CannotQuery
from conspectus.queries.query import Predicate
from conspectus.queries.workload import Workload
from conspectus.releases.answer import Answer, checked_confidence, value_answer
from conspectus.releases.cells.cell_estimates import CellCounts, Interval
from conspectus.releases.cells.known_cells import measured_cells
from conspectus.releases.numbers_from_parts import middle_notes, one_value_each
from conspectus.releases.released_counts import counted
from conspectus.releases.said_counts import said_cells, said_moment, said_ratio
from conspectus.releases.selects.query_result import QueryResult
from conspectus.releases.selects.selecting import answer_select
from conspectus.suggestions import suggest_keywords
from conspectus.synopses.moment_estimates import MomentEstimate
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import Total

from .given_answer import Given
from .live_answer import LiveAnswer, shown
from .moments_asked import moment_of, part_questions
from .questions import Question, canonical
from .quote import Quote, quoted
from .session_parts import SessionParts

MOST_QUESTIONS = 5_000
"""How many counts one SELECT may ask for."""


@dataclass(eq=False)
class AskedCounts:
    """Counts that are asked one by one; with `by_parts` sums of values by the parts of their moments, too.

    `measured` is what was bought: cells of marginals among it have the noise that these were measured with. `has` says
    whether a question was asked before.
    """

    schema: Schema
    total: Total
    put: Callable[[Question], Given]
    has: Callable[[Question], bool]
    by_parts: bool = False
    measured: NoisyAnswers | None = None
    within: None = field(default=None, init=False)
    partial: ClassVar[tuple[str, ...]] = ()
    free: ClassVar[bool] = False

    def count(self, query: Predicate, failure: float) -> Interval:
        """How many rows satisfy a predicate."""
        return counted(self._given(query).estimate(1 - failure, self.total), self.total)

    def share(self, query: Predicate, failure: float) -> Answer:
        """What share of all rows satisfies a predicate, as `ask` says it."""
        asked = self._question(query)
        return shown(self.put(asked), asked, self.total, confidence=1 - failure, repeated=True)

    def cells(self, columns: tuple[int, ...], needed: NDArray[np.bool_]) -> CellCounts:
        """The counts of the cells that are needed; all others are told as nothing."""
        places = np.flatnonzero(needed)
        if len(places) > MOST_QUESTIONS:
            raise CannotQuery(
                f"this asks a session for {len(places):,} counts, and at most {MOST_QUESTIONS:,} are put at once: "
                "narrow WHERE, or ask about coarser columns"
            )
        block = Marginal(self.schema.domain, columns)
        found = [self._given(block.query(place)) for place in places.tolist()]
        return said_cells(found, needed, measured_cells(self.measured, columns))

    def cells_known(self, columns: tuple[int, ...], needed: NDArray[np.bool_]) -> bool:
        """Whether all cells that are needed were asked for, or a marginal was bought that holds them."""
        if measured_cells(self.measured, columns) is not None:
            return True
        block = Marginal(self.schema.domain, columns)
        places = np.flatnonzero(needed).tolist()
        return len(places) <= MOST_QUESTIONS and all(self.has(self._question(block.query(place))) for place in places)

    def rate(self, above: Predicate, below: Predicate, failure: float, *, part: bool) -> Interval | None:
        """A count over a count, where both were asked for before; None for any other."""
        first, second = self._question(above), self._question(below)
        if not (self.has(first) and self.has(second)):
            return None
        return said_ratio(self.put(first), self.put(second), failure, part=part)

    def moment(self, moment: Moment, failure: float) -> MomentEstimate | None:
        """A sum, mean, variance or covariance from its parts; None where its cells are asked for."""
        if not self.by_parts or not one_value_each(self.schema, moment):
            return None
        parts = part_questions(self.schema, moment, self.total)
        return said_moment(self.schema.domain, moment, [self.put(part) for part in parts], self.total, 1 - failure)

    def ranks(self, column: int, rows: Predicate) -> None:
        """Ranks follow from the cells that are asked for."""

    def _given(self, query: Predicate) -> Given:
        return self.put(self._question(query))

    def _question(self, query: Predicate) -> Question:
        domain = self.schema.domain
        return canonical(self.schema, Workload(domain, (Conjunctions.of(domain, [query]),)))


@suggest_keywords
class Selecting(SessionParts):
    """The part of a session that answers whole SELECTs, and says what questions would cost."""

    @property
    def counted(self) -> int:
        """How many of the declared questions were used up.

        Answers that the schema or marginals bought in advance decide are never watched, and use up none.
        """
        with self._lock:
            self._check_here()
            return min(self._store.look().counted, self._problem.questions)  # what is told after the end uses up none

    def query(self, select: str, *, confidence: float = 0.95, snap: bool = False) -> QueryResult:
        """Answer a SELECT from counts that the session is asked for: one for each group, or for each cell of values.

        `quote` says beforehand what it would cost at most. Counts that were asked before cost nothing.

        Args:
            select: One SELECT over the table, as `release.query` takes it.
            confidence: The probability, over the noise, with which each interval holds the truth.
            snap: Whether a condition that cuts a bin is widened to the bin's edges. Otherwise it is refused.

        Returns:
            A table: beside each number `x` its ends `x_low` and `x_high`, null where no interval would be honest; and
            what it cost.

        Raises:
            CannotQuery: The SELECT cannot be answered, or asks for too many counts; nothing is spent.
            NoGuess: What is left does not pay for it, and there is no guess in its place; nothing is spent.
            NotAPredicate: A condition in it is none that is served; nothing is spent.
            WorkloadError: The mechanism does not take such counts or sums; nothing is spent.
            ConfidenceError: The confidence is not strictly between 0 and 1.
            SessionError: The session is closed, belongs to another process, or its file cannot be used.
        """
        checked_confidence(confidence)
        return self._selected(read_select(self.schema, select, snap=snap), confidence)

    def quote(self, question: str | Workload, *, snap: bool = False, outright: bool = False) -> Quote:
        """What a question, or a whole SELECT, would cost at most. Nothing is spent, and the table is not looked at.

        Args:
            question: What `ask` takes, or a SELECT as `query` takes it.
            snap: Whether a condition that cuts a bin is widened to the bin's edges. Otherwise it is refused.
            outright: Whether it would be bought outright, by `measure`.

        Returns:
            The most that it may cost, in the session's currency, and whether what is left pays for that.

        Raises:
            NotAPredicate: The question is not a predicate over the columns, or is more than one.
            CannotQuery: The SELECT cannot be answered.
            WorkloadError: The mechanism does not take such a question.
            SessionError: The session is closed, belongs to another process, or its file cannot be used.
        """
        if isinstance(question, str) and is_select(question):
            return self._quoted_select(read_select(self.schema, question, snap=snap), outright=outright)
        with self._lock:
            moment = moment_of(question)
            if moment is not None:
                return self._quoted(part_questions(self.schema, moment, self._learned().total), outright=outright)
            return self._quoted([canonical(self.schema, question, snap=snap)], outright=outright)

    def _selected(self, plan: Select, confidence: float, check: Callable[[Quote], None] | None = None) -> QueryResult:
        """The answer to a SELECT that was read before. `check` may refuse it by its quote, before anything is spent."""
        cost = 0.0

        def put(asked: Question) -> Given:
            nonlocal cost
            given, repeated = self._put(asked)
            cost += 0.0 if repeated else float(given.price)
            return given

        with self._lock:
            by_parts, quote, asked = self._cheaper(plan)  # or refused, before anything is spent
            run = self._learned()
            if not quote.affordable:
                self._check_guessed(run, asked)
            if check is not None:
                check(quote)
            source = AskedCounts(self.schema, run.total, put, self._has, by_parts, run.measured())
            with under_one_limit(times=2):  # what was tried out under the limit is not refused by it half way
                found = answer_select(plan, source, confidence)
        return dataclasses.replace(found, cost=cost)

    def _quoted_select(self, plan: Select, *, outright: bool = False) -> Quote:
        with self._lock:
            return self._cheaper(plan, outright=outright)[1]

    def _quoted(self, asked: list[Question], *, outright: bool = False) -> Quote:
        held, standing = self._fresh(), self._store.look()
        left = max(self._problem.questions - standing.counted, 0)
        over = self._over(standing)
        return quoted(self._learned(), self._store, held, asked, left=left, over=over, outright=outright)

    @under_one_limit()
    def _cheaper(self, plan: Select, *, outright: bool = False) -> tuple[bool, Quote, list[Question]]:
        """Whether a SELECT costs less by the parts of its moments than by the cells of their columns; and its quote,
        and what it asks for.

        Marginals that were bought in advance answer cells for nothing, and two parts of a mean are fewer questions than
        the cells of a long column. Both quotes are public, and the smaller one is taken: the one that costs less, or
        uses up fewer questions.
        """
        by_parts = self._asked_for(plan, by_parts=True)
        parts = self._quoted(by_parts, outright=outright)
        try:
            by_cells = self._asked_for(plan, by_parts=False)
        except CannotQuery:  # too many cells
            return True, parts, by_parts
        cells = self._quoted(by_cells, outright=outright)
        if not parts.questions or (parts.cost, parts.counted) < (cells.cost, cells.counted):
            return True, parts, by_parts  # what was asked before is told again
        return False, cells, by_cells

    def _check_guessed(self, run: OnlineRun, asked: list[Question]) -> None:
        """Refuse, with `NoGuess`, what would be refused half way: fresh noise has no guess for what it cannot pay."""
        for question in asked:
            if not self._has(question) and run.known(question.workload) is None:
                run.guess(question.workload)
                return

    def _ask_moment(self, moment: Moment, confidence: float) -> LiveAnswer:
        """A sum, mean, variance or covariance, from questions about its parts."""
        with self._lock:
            total = self._learned().total
            put = [self._put(part) for part in part_questions(self.schema, moment, total)]
            found = said_moment(self.schema.domain, moment, [given for given, _ in put], total, confidence)
        answer = value_answer(found, total, confidence, middle_notes(self.schema, moment))
        return LiveAnswer(
            **vars(answer),
            cost=float(sum((given.price for given, repeated in put if not repeated), Fraction(0))),
            repeated=all(repeated for _, repeated in put),
        )

    def _asked_for(self, plan: Select, *, by_parts: bool) -> list[Question]:
        """The counts that a SELECT asks for: the same, whatever they are and whether or not they have a bound."""
        groups = len(plan.groups(self.schema.domain))
        if groups > MOST_QUESTIONS:
            raise CannotQuery(
                f"this has {groups:,} groups, and a session is asked for at most {MOST_QUESTIONS:,} counts: "
                "group by fewer columns"
            )
        asked: dict[str, Question] = {}

        def note(question: Question) -> Given:
            asked[question.key] = question
            return _NOTHING

        def noted(question: Question) -> bool:
            return question.key in asked or self._has(question)

        with self._lock:
            run = self._learned()
            source = AskedCounts(self.schema, run.total, note, noted, by_parts, run.measured())
            answer_select(plan, source, 0.95)
        return list(asked.values())

    def _has(self, question: Question) -> bool:
        return self._store.find(question.key) is not None


_NOTHING = Given(count=1.0, basis="unguaranteed", margin=None, price=Fraction(0))
