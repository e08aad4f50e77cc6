"""Which questions have counts above a threshold: the book's AboveThreshold and Sparse, put to a session.

The book's Algorithm 2, Sparse(D, {f_i}, T, c, ε), is c times Algorithm 1:

    let T̂ = T + Lap(2/ε′)                  `Curator.above_threshold`, a watch of ε′
    for each query f_i:
        if f_i(D) + Lap(4/ε′) ≥ T̂: ⊤        `Watch.exceeds` with the guess 0: a count is its own distance from 0
        else ⊥
    after each ⊤ draw T̂ anew; halt after c    `hits`

Each watch is paid when it is opened, whatever number of questions it then says no to; nothing is paid for hits that do
not come. Only yes or no leaves the curator. What a count is has to be asked, and paid, by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from fractions import Fraction

from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS
from conspectus.mechanisms.bounds import FAILURE
from conspectus.mechanisms.mechanism import maximum_bound, root_down
from conspectus.mechanisms.settings import SettingError
from conspectus.privacy.accounting import BudgetExceeded, Filter
from conspectus.privacy.events import Noise
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords

from .questions import canonical
from .session_parts import ENDED, SessionParts

SHARE = 0.1
"""The part of a session's budget that one call may spend, unless told."""


@dataclass(frozen=True, kw_only=True)
class Above:
    """What `session.above` found: which questions, in order, and how sure that is.

    Attributes:
        found: The positions of the questions whose counts were said to be above the threshold.
        looked: How many questions were compared with it: all, or those up to the last hit that was asked for.
        within: With probability 0.95 no count that was found is below the threshold by more than this, and no count
            that was passed over is above it by more.
        cost: What it cost, in the currency of the session.
    """

    found: tuple[int, ...]
    looked: int
    within: float
    cost: float

    @property
    def first(self) -> int | None:
        """The position of the first question that was found; None where there was none."""
        return self.found[0] if self.found else None


@dataclass(frozen=True, kw_only=True)
class Search:
    """A threshold in counts, how many hits to find, and the price of them all in the currency of a filter."""

    count: float
    hits: int
    price: Fraction
    pure: bool

    @classmethod
    def of(cls, spending: Filter, *, count: float, hits: int, share: float) -> Search:
        """Checked: from what the caller says alone."""
        number = type(count) in (int, float) and math.isfinite(count) and count > 0
        if not number or type(hits) is not int or hits < 1 or not 0 < share <= 1:
            raise SettingError("above takes a count above 0, at least one hit, and a share of the budget up to 1")
        return cls(count=count, hits=hits, price=spending.cap * Fraction(share), pure=spending.currency == "pure")

    @property
    def epsilon(self) -> Fraction:
        """What one watch costs, as an ε."""
        each = self.price / self.hits
        return each if self.pure else root_down(2 * each)

    def within(self, max_rows: int, looked: int) -> float:
        """How wrong all answers may be at once, in counts: the threshold's noises, then those of the comparisons."""
        scales = (2 * max_rows / self.epsilon, 4 * max_rows / self.epsilon)
        laws = [Noise("laplace", float(scale * ERROR_STEPS)) for scale in scales]
        noises = maximum_bound(laws[0], self.hits, FAILURE / 2) + maximum_bound(laws[1], looked, FAILURE / 2)
        return (noises + 1) / ERROR_STEPS

    def run(
        self, curator: Curator, questions: Iterable[Workload], held: Callable[[], AbstractContextManager[Filter]]
    ) -> tuple[tuple[int, ...], int, Fraction]:
        """Put the questions one after the other; which were above, how many were put, and what that cost.

        A question is taken before the session is held: where it comes from may use the session, or wait for another.

        Guarantee: it composes one ThresholdWatch for each hit, and one more where the questions end first; each is
        debited before its threshold is drawn.
        """
        found: list[int] = []
        looked, cost = 0, Fraction(0)
        threshold = Fraction(self.count)
        watch = None
        for position, query in enumerate(questions):
            with held() as spending:
                before = spending.spent
                watch = watch or curator.above_threshold(threshold, self.epsilon)
                cost += spending.spent - before
                hit = watch.exceeds(query, 0.0)
            looked = position + 1
            if hit:
                found.append(position)
                watch = None
                if len(found) == self.hits:
                    break
        return tuple(found), looked, cost


@suggest_keywords
class Watching(SessionParts):
    """What lets a session say which questions are above a threshold."""

    def above(self, questions: Iterable[str | Workload], count: float, *, hits: int = 1, share: float = SHARE) -> Above:
        """Say which of many questions have a count of at least about `count`: the first one, or the first few.

        It costs the same for ten questions and for a million, and says nothing but yes or no. Questions are taken one
        by one, so that a generator may wait for something to happen, or ask this very session, and looked at until
        enough are found. Asking again is paid again.

        Args:
            questions: SQL predicates over the columns, or workloads of one query, in the order in which to look.
            count: The threshold, in rows.
            hits: How many questions to find. More of them make each comparison worse.
            share: The part of the session's whole budget that it may spend. It is paid in as many equal parts as
                there are hits, each when the search for it begins.

        Returns:
            Which were found, how many were looked at, and how sure that is.

        Raises:
            BudgetExceeded: What is left of the budget does not pay for it; nothing is spent. Of a generator's questions
                also later, where the session was ended or its budget spent in between.
            SettingError: `count`, `hits` or `share` is out of range.
            NotAPredicate: A question is not a predicate over the columns, or is more than one.
            SessionError: The session is closed, belongs to another process, or its file cannot be used.

        Guarantee: each comparison goes through a watch of the curator, which is debited before its threshold is drawn.

        Example:
            >>> import conspectus as cs
            >>> import pyarrow as pa
            >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"age": {"type": "integer", "min": 0,
            ...     "max": 99}}})
            >>> table = cs.open_table(pa.table({"age": [3] * 50 + [40] * 900 + [41] * 50}), schema)
            >>> with cs.open_session(table, epsilon=20.0, questions=10) as session:
            ...     found = session.above([f"age = {age}" for age in range(100)], 500)
            >>> found.found, found.looked
            ((40,), 41)
        """
        asked: Iterable[Workload] = (canonical(self.schema, question).workload for question in questions)
        at_hand = isinstance(questions, Sequence | Workload)
        if at_hand:  # what can be refused is refused before anything is spent, unless questions are still to come
            asked = list(asked)
        with self._spending() as spending:
            search = Search.of(spending, count=count, hits=hits, share=share)
            if spending.remaining < search.price:
                raise BudgetExceeded(
                    "what is left of this session's budget is less than this share: take a smaller one"
                )
            if at_hand:
                found, looked, cost = search.run(self._curator, asked, lambda: nullcontext(spending))
        if not at_hand:
            found, looked, cost = search.run(self._curator, asked, self._spending)
        within = search.within(self._curator.relation.max_rows, max(looked, 1))
        return Above(found=found, looked=looked, within=within, cost=float(cost))

    @contextmanager
    def _spending(self) -> Iterator[Filter]:
        """The session held against all others, and what it has spent by then; its acts are sure when this ends.

        Whatever interrupts it, the next question goes on from the file, as after an answer that was not written down.
        """
        with self._alone() as standing:
            if self._settled or standing.ended:
                raise BudgetExceeded(ENDED)
            loop, known = self._learned(), len(self._account.filter.events)
            self._loop = None
            try:
                yield self._account.filter
            except (ValueError, LookupError):
                if len(self._account.filter.events) == known:
                    self._loop = loop
                raise
            acted = len(self._account.filter.events) > known
            if acted:
                self._store.learn(loop.state())
            self._loop, self._version = loop, standing.version + acted
