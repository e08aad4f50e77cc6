"""A live session: questions one at a time, each answered once and for good, paid for only when they surprise.

Every answer is in the session's file before anybody sees it. See `session.proof.md` for why crashes, copies, forks and
other processes cannot spend more than the budget.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from conspectus.curator.curator import Curator
from conspectus.data.schema import Schema
from conspectus.mechanisms.online_mechanism import HandOver, OnlineProposal, OnlineRun, RefitsAside
from conspectus.privacy.accounting import BudgetExceeded, Filter
from conspectus.privacy.guarantee import Budget, Guarantee, printed
from conspectus.queries.workload import Workload
from conspectus.releases.answer import checked_confidence
from conspectus.releases.release import Release
from conspectus.suggestions import suggest_keywords

from .above import Watching
from .account import Account
from .forecast import in_words
from .given_answer import Given
from .live_answer import LiveAnswer, reply_by_schema, reply_of, shown
from .moments_asked import moment_of
from .oracle import Consulted
from .questions import Question, canonical
from .selects import Selecting
from .session_parts import ENDED
from .session_release import what_was_learned
from .store import SessionError, Standing, Store


@suggest_keywords
class Session(Watching, Consulted, Selecting):
    """One budget, many questions: opened by `cs.open_session` or `cs.resume_session`.

    Threads may share a session. Another process resumes the same file and shares that.

    Attributes:
        schema: The schema of the table.
        guarantee: What the session promises to every unit of the table: its budget, spent or not.
        mechanism: The name of the online mechanism.
        claim: What was to be expected of it when it was opened: how wide intervals are, and how sure answers.

    Example:
        A budget so large hides nobody; it only keeps the numbers of the example still.

        >>> import conspectus as cs, pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "people", "columns": {
        ...     "smoker": {"type": "boolean"}, "ill": {"type": "boolean"}}})
        >>> rows = pa.table({"smoker": [True, True, False, False], "ill": [True, False, False, False]})
        >>> with cs.open_session(cs.open_table(rows, schema), epsilon=1000.0, questions=10) as session:
        ...     first = session.ask("smoker AND ill")
        ...     again = session.ask("ill AND smoker")
        ...     session.asked, again.repeated, again.cost, again.fraction == first.fraction
        (1, True, 0.0, True)
    """

    def __init__(
        self,
        *,
        schema: Schema,
        proposal: OnlineProposal,
        curator: Curator,
        account: Account,
        store: Store,
        guarantee: Guarantee,
        settled: bool = False,
    ) -> None:
        self.schema = schema
        self.guarantee = guarantee
        self.mechanism = proposal.mechanism.name
        self.claim = proposal.claim
        self._proposal, self._problem = proposal, proposal.problem
        self._curator, self._account, self._store = curator, account, store
        self._settled = settled
        self._loop: OnlineRun | None = None
        self._version = self._answered = -1  # of nothing: the first question looks
        self._hand_over: HandOver | None = None
        self._closed = self._at_work = False
        self._process = os.getpid()
        self._lock = threading.RLock()

    def _begin(self) -> None:
        """Buy what the mechanism buys in advance, and write it down. Called once, by whoever opened the session."""
        loop = self._proposal.open(self._curator)
        self._store.learn(loop.state())
        self._loop, self._version = loop, self._store.look().version

    def ask(self, question: str | Workload, *, confidence: float = 0.95, snap: bool = False) -> LiveAnswer:
        """Answer one question.

        A question that was asked before, in this or other words with the same meaning, gets the same answer and costs
        nothing. Once the budget or the number of questions is used up, what measurements tell is still measured, and
        other answers come from what was learned, marked `unguaranteed`.

        Args:
            question: A SQL predicate over the columns, or a workload of one query. A sum, mean, variance or covariance
                is computed from its parts, each a question of its own.
            confidence: The probability, over the noise, with which the interval holds the truth.
            snap: Whether a predicate that cuts a bin is widened to the bin's edges. Otherwise it is refused. The answer
                names the question that was answered.

        Returns:
            The answer, with what it cost and whether it was given before.

        Raises:
            NotAPredicate: The question is not a predicate over the columns, or is more than one.
            WorkloadError: The mechanism does not take such a question; nothing is spent.
            ConfidenceError: The confidence is not strictly between 0 and 1.
            SessionError: The session is closed, belongs to another process, or its file cannot be used.

        Guarantee: an answer is in the session's file before it is returned, and no question ever has two, unless a
        guess was bought outright since.
        """
        checked_confidence(confidence)
        moment = moment_of(question)
        if moment is not None and isinstance(question, Workload) and question.domain == self.schema.domain:
            return self._ask_moment(moment, confidence)
        return self._asked(canonical(self.schema, question, snap=snap), confidence)

    def _asked(self, asked: Question, confidence: float) -> LiveAnswer:
        with self._lock:
            given, repeated = self._put(asked)
            return shown(given, asked, self._learned().total, confidence=confidence, repeated=repeated)

    def _put(self, asked: Question) -> tuple[Given, bool]:
        """The answer to a question, and whether it was given before."""
        with self._lock:
            self._check_here()
            given = self._store.find(asked.key)
            if given is not None:
                return given, True
            with self._alone() as standing:
                if standing.asked != self._answered:  # somebody else was answered, perhaps the same question
                    given = self._store.find(asked.key)
                return (given, True) if given is not None else (self._answer(asked, standing), False)

    def measure(self, question: str | Workload, *, confidence: float = 0.95, snap: bool = False) -> LiveAnswer:
        """Buy the answer to one question outright, with fresh noise, whether or not it would be a surprise.

        It costs what the measurement of a surprise costs. A question that was measured before keeps its answer and
        costs nothing; one that was guessed, or answered unguaranteed, has the measured answer from now on. Where
        marginals bought in advance tell the answer, it is what they and the new measurement say together, which is
        narrower than either; where that would be no narrower, nothing is bought. The guess learns from it.

        Args:
            question: A SQL predicate over the columns, or a workload of one query.
            confidence: The probability, over the noise, with which the interval holds the truth.
            snap: Whether a predicate that cuts a bin is widened to the bin's edges. Otherwise it is refused.

        Returns:
            The measured answer, with what it cost and whether it was given before.

        Raises:
            BudgetExceeded: What is left of the budget does not pay for it; nothing is spent.
            NotAPredicate: The question is not a predicate over the columns, or is more than one.
            WorkloadError: The mechanism does not take such a question; nothing is spent.
            ConfidenceError: The confidence is not strictly between 0 and 1.
            SessionError: The session is closed, belongs to another process, or its file cannot be used.

        Guarantee: the measurement is debited before its noise is drawn, and in the session's file, in place of a guess
        that was given before, when it is returned.

        Example:
            >>> import conspectus as cs
            >>> import pyarrow as pa
            >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
            >>> table = cs.open_table(pa.table({"ill": [True] * 400 + [False] * 600}), schema)
            >>> with cs.open_session(table, epsilon=5.0, mechanism="pmw", priming=0.0, questions=100) as session:
            ...     bought = session.measure("ill")
            ...     again = session.ask("ill")
            >>> bought.basis, bought.cost > 0, again.repeated, again.fraction == bought.fraction
            ('measured', True, True, True)
        """
        checked_confidence(confidence)
        return self._measured(canonical(self.schema, question, snap=snap), confidence)

    def _measured(self, asked: Question, confidence: float) -> LiveAnswer:
        with self._lock:
            with self._alone() as standing:
                before = self._store.find(asked.key)
                bought = before is not None and before.bought
                given = before if bought else self._answer(asked, standing, outright=True, former=before)
            assert given is not None
            return shown(given, asked, self._learned().total, confidence=confidence, repeated=given is before)

    @property
    def path(self) -> Path | None:
        """The session's file; None for a session in memory."""
        return self._store.path

    @property
    def budget(self) -> Budget:
        """What the session was allowed when it was opened."""
        return self._problem.budget

    @property
    def currency(self) -> str:
        """What `spent`, `remaining` and costs are counted in: "epsilon", or "rho" where a delta was allowed."""
        return "epsilon" if self._account.filter.currency == "pure" else "rho"

    @property
    def spent(self) -> float:
        """What all processes have spent in this session, in its currency."""
        return float(self._fresh().spent)

    @property
    def remaining(self) -> float:
        """What is left of the session's budget, in its currency; nothing once it was ended."""
        with self._alone() as standing:
            return 0.0 if self._settled or standing.ended else float(self._account.filter.remaining)

    @property
    def asked(self) -> int:
        """How many different questions were answered."""
        with self._lock:
            self._check_here()
            return self._store.look().asked

    @property
    def questions(self) -> int:
        """How many different questions it was opened for; `counted` says how many count towards them."""
        return self._problem.questions

    @property
    def expectation(self) -> str:
        """What was to be expected when it was opened, in words: how wide intervals are, and how sure answers."""
        return in_words(self.claim, self._problem)

    @property
    def exhausted(self) -> bool:
        """Whether the next new question that measurements do not decide will be answered unguaranteed; or refused."""
        with self._alone() as standing:
            return self._over(standing) or self._learned().exhausted

    def release(self) -> Release:
        """What the session has learned, as a release. Nothing is spent, and the session goes on.

        Returns:
            A release with the session's synopsis, all questions asked so far and the answers given. It holds for the
            guarantee of the session, and can be saved and shared as any other.

        Raises:
            SessionError: The session is closed, belongs to another process, or its file cannot be used.
        """
        with self._lock:
            self._fresh()
            loop = self._learned()
            return what_was_learned(self, loop, self._store.history(), self._proposal, self._account.filter.events)

    def end(self) -> None:
        """End the session for good: what it did not spend goes back to its ledger, and nothing more can be bought.

        It still answers, from what it learned.

        Raises:
            SessionError: The session is closed, belongs to another process, or its file cannot be used.
        """
        with self._alone() as standing:
            if not (self._settled or standing.ended):
                self._account.settle()
                self._settled = True
                self._store.end()

    def close(self) -> None:
        """Let go of the table and the file. A session in a file can be resumed; one in memory is ended.

        Closing it again does nothing. A session that is used in a `with` statement is closed at its end.

        Raises:
            SessionError: The session is at work, and what it called closes it.
        """
        with self._lock:
            if self._closed or os.getpid() != self._process:
                return
            self._check_here()
            if self._store.path is None:
                self.end()
            self._store.close()
            self._loop = None
            self._closed = True

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def __str__(self) -> str:
        with self._lock:
            if self._closed or self._at_work:
                return f"{self.mechanism} session, {'closed' if self._closed else 'at work'}"
            sign = "ε" if self._account.filter.currency == "pure" else "ρ"
            return (
                f"{self.mechanism} session, {self.counted:,} of {self.questions:,} questions, "
                f"{sign} {printed(self.spent, 4)} of {float(self._account.filter.cap):.4g} spent"
            )

    def _check_here(self) -> None:
        if self._closed:
            raise SessionError("this session is closed: resume it from its file, or open another one")
        if os.getpid() != self._process:
            # A fork copied the noisy threshold too, and one watch must not have a first hit in each of two processes.
            raise SessionError("this session belongs to the process that opened it: resume its file in this one")
        if self._at_work:
            raise SessionError("this session is at work, and was called by what it called: wait until that returns")

    @contextmanager
    def _alone(self) -> Iterator[Standing]:
        """The session held against all other threads and processes, and where it stands, caught up with them.

        An act has many steps, and between two of them file, ledger and memory do not agree. Whatever is called in
        there and is not ours (a progress bar, a mechanism of one's own) finds every method closed to it.
        """
        with self._lock:
            self._check_here()
            self._at_work = True
            try:
                with self._store.alone():
                    yield self._catch_up()
            finally:
                self._at_work = False

    def _over(self, standing: Standing) -> bool:
        return self._settled or standing.ended or standing.counted >= self.questions

    def _fresh(self) -> Filter:
        """The filter, which knows by then what all processes have spent."""
        with self._alone():
            return self._account.filter

    def _catch_up(self) -> Standing:
        """Go on from what other processes learned since; after an interruption, from what was written down."""
        standing = self._store.look()
        if standing.unsure or standing.version != self._version or self._loop is None:
            if self._loop is None:
                self._account.reconcile()  # an interruption may have come between any two steps of an act
            else:
                self._account.catch_up()
            standing, state = self._store.look(), self._store.state()  # what a crash left open is settled by now
            if state is None:
                raise SessionError("this session has not learned anything yet: it died while it was being opened")
            if self._loop is None:
                self._loop = self._proposal.restore(self._curator, state)
                self._aside()
            else:
                self._loop.adopt(state)
            self._version = standing.version
        return standing

    def _aside(self) -> None:
        """Hand the refits of the loop over, where somebody takes them."""
        if self._hand_over is not None and isinstance(self._loop, RefitsAside):
            self._loop.refit_aside(self._hand_over)

    def _learned(self) -> OnlineRun:
        if self._loop is None:
            self._fresh()
        assert self._loop is not None
        return self._loop

    def _answer(
        self, asked: Question, standing: Standing, *, outright: bool = False, former: Given | None = None
    ) -> Given:
        loop = self._learned()
        known, before = len(self._account.filter.events), self._account.filter.spent
        # Until the answer is written down the loop is not ours: whatever interrupts us, the next question goes on from
        # the file, as a new process would.
        self._loop = None
        try:
            reply = reply_by_schema(asked.workload, loop.total)
            if reply is None and outright:
                if self._settled or standing.ended:
                    raise BudgetExceeded(ENDED)
                reply = loop.measure(asked.workload)
            elif reply is None:
                reply = reply_of(loop, asked.workload, over=self._over(standing))
        except (ValueError, LookupError):
            if len(self._account.filter.events) == known:
                self._loop = loop  # refused before anything was done: the watch is as good as before
            raise
        acted = len(self._account.filter.events) > known
        if former is not None and former.basis == "measured" and not acted:
            self._loop = loop
            return former  # a measurement would not have made it narrower, and none was bought
        price = self._account.filter.spent - before if acted else Fraction(0)
        given = Given(count=reply.count, basis=reply.basis, margin=reply.margin, price=price)
        state, replacing = loop.state() if acted else None, former is not None
        self._store.keep(asked.key, asked.text, given, state=state, replacing=replacing)
        self._loop, self._version = loop, standing.version + acted
        self._answered = standing.asked + (not replacing)
        return given
