"""The home of a live session: one process that holds its watch, and answers web workers over a local socket.

A watch cannot be shared: each further process that resumes a session pays for one of its own. So workers hold no
session. They send a line of JSON here and get one back; questions wait in one bounded queue, and answers that were
given before are found without waiting.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import conspectus as cs
from conspectus.queries.language.from_select import is_select, read_select
from conspectus.releases.selects.query_result import QueryResult
from conspectus.service import describing
from conspectus.service.analysts import Analysts
from conspectus.service.desk import told_of, written
from conspectus.service.journal import Journal, take_over
from conspectus.service.refusing import NOTHING, Refused, refusal_of
from conspectus.service.shelf import Hosted
from conspectus.sessions.answered import Answered
from conspectus.sessions.at_home import free, put, put_select, quote_select, refit_aside
from conspectus.sessions.live_answer import LiveAnswer
from conspectus.sessions.questions import Question
from conspectus.sessions.quote import Quote
from conspectus.sessions.session import Session
from conspectus.sessions.spending import Spending, spending_of

from .event_loop import run_loop
from .exchange import Lines, as_text, first_line, said
from .line_up import LineUp
from .threads import Queue, end_soon

HISTORY = 50
QUEUE = 256
READERS = 4
"""Threads that read questions: a slow one takes a share of the processor, and leaves the rest to others."""
_SWITCH = 0.0005
"""Seconds after which a refit lets a question in: the usual five milliseconds are longer than most questions take."""
_SPENT = "The budget or the number of questions was used up, so this is a guess that nothing was compared with."


class Home:
    """A session and whoever waits for it."""

    def __init__(
        self, name: str, session: Session, analysts: Analysts, journal: Journal, *, queue: int = QUEUE
    ) -> None:
        assert session.path is not None
        self.name, self._session, self._analysts, self._journal = name, session, analysts, journal
        learned = session.release()
        self._answered = Answered(session.path, session.schema, learned.total)
        self._rows = learned.total
        self._readers = Queue(working=READERS, waiting=queue)
        self._line = LineUp(queue, lambda problem: journal.fault(problem, session=name, op="refit"))
        refit_aside(session, self._line.hand_over)
        self._asking: dict[tuple[str, bool], asyncio.Task[LiveAnswer]] = {}
        self._first = spending_of(session)
        self._paid: float | None = None

    def take(self, told: dict[str, Any]) -> bytes | Coroutine[Any, Any, bytes]:
        """What one line asks for: the text at once where it is there, such as an answer that was given before."""
        op = told["op"]
        if op in ("ask", "measure"):
            return self._ask(told, outright=op == "measure")
        return self._later(op, told)

    async def _later(self, op: str, told: dict[str, Any]) -> bytes:
        match op:
            case "about":
                return as_text(await self._about())
            case "query":
                return as_text(await self._query(told))
            case "quote":
                return as_text(await self._quote(told))
            case "history":
                kept = await self._readers.run(self._answered.history, self._answered.kept(HISTORY))
                return as_text([{**self._told(answer, where), "cost": cost} for where, answer, cost in kept])
            case "schema":
                return as_text(self._session.schema.to_dict())
            case "release":
                path = Path(str(told["to"]))
                await self._line.turn(lambda: self._session.release().save(path))
                return as_text({"bytes": path.stat().st_size})
        raise Refused(status=404, error="unknown", title="Not served", text="A session has no such address.")

    def _ask(self, told: dict[str, Any], *, outright: bool) -> bytes | Coroutine[Any, Any, bytes]:
        where = told.get("where") or ""
        asked = self._answered.known(where, snap=told["snap"]) if told.get("picks") is None else None
        if asked is None:
            return self._unread(told, outright=outright)
        found = self._before(asked, where, told, outright=outright)
        return self._new(asked, where, told, outright=outright) if found is None else found

    async def _unread(self, told: dict[str, Any], *, outright: bool) -> bytes:
        """A text that was not read before: others are answered meanwhile, however long it takes."""
        where, asked = await self._readers.run(self._read, told)
        found = self._before(asked, where, told, outright=outright)
        return await self._new(asked, where, told, outright=outright) if found is None else found

    def _read(self, told: dict[str, Any]) -> tuple[str, Question]:
        """The words of a question and what they mean: from the schema alone, in whatever thread."""
        schema, where = self._session.schema, told.get("where")
        try:
            where = describing.spelled(schema, where, told.get("picks"))
            return where, self._answered.question(where, snap=told["snap"])
        except (ValueError, LookupError) as error:
            raise refusal_of(error, schema=schema, where=where) from error

    def _before(self, asked: Question, where: str, told: dict[str, Any], *, outright: bool) -> bytes | None:
        """What was answered to the same question before."""
        try:
            found = self._answered.find(asked, confidence=told["confidence"], bought=outright)
        except (ValueError, LookupError) as error:
            raise refusal_of(error) from error
        return None if found is None else as_text(self._told(found, where, asked))

    async def _new(self, asked: Question, where: str, told: dict[str, Any], *, outright: bool) -> bytes:
        key, confidence = (asked.key, outright), told["confidence"]
        try:
            found = await self._joined(key, asked, confidence)
            if found is None:
                # A task of its own: it goes on when whoever asked has gone away.
                self._asking[key] = asyncio.create_task(self._asked(key, asked, told["analyst"], confidence))
                found = await asyncio.shield(self._asking[key])
        except (ValueError, LookupError) as error:
            raise refusal_of(error, schema=self._session.schema, where=where) from error
        return as_text(self._told(found, where, asked))

    async def _joined(self, key: tuple[str, bool], asked: Question, confidence: float) -> LiveAnswer | None:
        """The answer to what somebody else is just asking, or just has: there is one answer, and one price.

        None where nobody has, or whoever did was refused. A cap is that of its asker alone: nobody is refused by
        another's, or told of it. See the proof note of sessions.
        """
        while (asking := self._asking.get(key)) is not None:
            with suppress(Refused):  # its asker's affair: by now nobody asks it, or a third does
                await asyncio.shield(asking)
        # Looked up again, whoever asked: the answer may have come since the first look.
        return self._answered.find(asked, confidence=confidence, bought=key[1])

    async def _asked(
        self, key: tuple[str, bool], asked: Question, who: dict[str, Any], confidence: float
    ) -> LiveAnswer:
        work = functools.partial(self._put, asked, who, confidence, key[1])
        # Short work, unless another process holds the session, for who knows how long.
        short = functools.partial(free, self._session)
        try:
            return await self._line.turn(work, asked.workload.columns, short=short)
        finally:
            del self._asking[key]  # before anybody who waits goes on: whoever finds a task here finds it at work

    def _put(self, asked: Question, who: dict[str, Any], confidence: float, outright: bool) -> LiveAnswer:
        """A new question, in the thread of the session: what caps it, its answer and what that took are one piece."""
        session, again = self._session, False
        if outright or who["share"] is not None:
            cost = session.quote(asked.workload, outright=outright).cost
            again = not cost and session.quote(asked.workload).repeated > 0  # nothing is new, and nothing is bought
            if who["share"] is not None:
                self._check_share(who, cost)
        if not again:
            self._analysts.count(who["name"], most=who["questions"])
        answer = put(session, asked, confidence=confidence, outright=outright)
        if answer.cost:
            self._spent(who, answer.cost)
        return answer

    def _spent(self, who: dict[str, Any], cost: float) -> None:
        self._analysts.spend(who["name"], self.name, cost)
        if self._paid is None:
            # Say once what it cost that the session went on in a new process: a watch that would still have served.
            now = spending_of(self._session)
            lost = self._first.watching and now.opened > self._first.opened
            self._paid = self._first.last if lost else 0.0
            self._journal.say("resumed", session=self.name, cost=self._paid, currency=self._session.currency)

    def _check_share(self, who: dict[str, Any], cost: float) -> None:
        share = who["share"]
        if cost and self._analysts.spent(who["name"], self.name) + cost > share * self._first.total:
            raise Refused(
                status=429,
                error="share",
                title="Your share of this budget does not pay for this",
                text=f"Your questions may spend {share:.0%} of the session's budget, and with this one could spend "
                f"more. {NOTHING} Questions that cost nothing are still answered.",
            )

    async def _query(self, told: dict[str, Any]) -> dict[str, Any]:
        """A SELECT. All counts that it would put anew are counted, and held against the share, before it is asked."""
        session, who = self._session, told["analyst"]

        def check(quote: Quote) -> None:
            if who["share"] is not None:
                self._check_share(who, quote.cost)
            if quote.questions:
                self._analysts.count(who["name"], most=who["questions"], questions=quote.questions)

        def put_all() -> QueryResult:
            found = put_select(session, plan, confidence=told["confidence"], check=check)
            if found.cost:
                self._spent(who, found.cost)
            return found

        try:
            plan = await self._readers.run(read_select, session.schema, told["sql"], snap=told["snap"])
            found = await self._line.turn(put_all, range(len(session.schema.columns)))
        except (ValueError, LookupError) as error:
            raise refusal_of(error) from error
        return {"arrow": base64.b64encode(written(told_of(found), "arrow")).decode()}

    async def _quote(self, told: dict[str, Any]) -> dict[str, Any]:
        """What a question would cost at most, from public facts alone; nothing is spent."""
        session, where, snap = self._session, told.get("where") or "", told["snap"]
        try:
            if told.get("picks") is None and is_select(where):
                plan = await self._readers.run(read_select, session.schema, where, snap=snap)
                priced = functools.partial(quote_select, session, plan)
            else:
                where, asked = await self._readers.run(self._read, told)
                priced = functools.partial(session.quote, asked.workload)
                where = asked.words or where
            quote = await self._line.turn(priced)
        except (ValueError, LookupError) as error:
            raise refusal_of(error) from error
        return {
            "where": where,
            "at_most": quote.cost,
            "currency": quote.currency,
            "of": self._first.total,
            "affordable": quote.affordable,
            "free_because": None if quote.cost else "bought" if quote.questions else "repeated",
        }

    async def _about(self) -> dict[str, Any]:
        session = self._session

        def look() -> tuple[Spending, int, bool, float]:
            return spending_of(session), session.asked, session.exhausted, session.remaining

        spent, asked, exhausted, remaining = await self._line.turn(look)
        return {
            "kind": "session",
            "name": self.name,
            **describing.about_table(session.schema, session.guarantee),
            "rows": self._rows.rows,
            "rows_public": self._rows.exact,
            "mechanism": session.mechanism,
            "currency": session.currency,
            "total": spent.total,
            "spent": spent.spent,
            "remaining": remaining if not exhausted else max(0.0, spent.total - spent.spent),
            "by_kind": {"watches": spent.watches, "measurements": spent.measurements},
            "watches": spent.opened,
            "asked": asked,
            "questions": session.questions,
            "exhausted": exhausted,
            "expectation": session.expectation,
            "restart_cost": self._paid,
            "has_rows": False,
            "has_tables": False,
        }

    def _told(self, answer: LiveAnswer, where: str, asked: Question | None = None) -> dict[str, Any]:
        columns = None if asked is None else asked.workload.columns
        why = _SPENT if answer.low is None else None
        return describing.answered(self._session.schema, answer, where, why=why, columns=columns)

    def close(self) -> None:
        """Finish what is being asked, and let go of the session. What waits is told to come again."""
        self._readers.close()
        self._line.close()
        self._answered.close()
        self._session.close()


class Reception:
    """The lines of all workers, each answered when its answer is there, with its number."""

    def __init__(self, home: Home, journal: Journal) -> None:
        self._home, self._journal = home, journal
        self._tasks: set[asyncio.Task[None]] = set()

    def lines(self) -> Lines:
        """One more worker."""
        return Lines(self._take, lambda _: None)

    def _take(self, lines: Lines, line: bytes) -> None:
        told = json.loads(line)
        try:
            found = self._home.take(told)
        except Exception as error:
            self._refuse(lines, told, error)
            return
        if isinstance(found, bytes):
            lines.write(said(told["id"], 200, found))
            return
        task = asyncio.create_task(self._later(lines, told, found))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _later(self, lines: Lines, told: dict[str, Any], found: Coroutine[Any, Any, bytes]) -> None:
        try:
            lines.write(said(told["id"], 200, await found))
        except Exception as error:
            self._refuse(lines, told, error)

    def _refuse(self, lines: Lines, told: dict[str, Any], error: Exception) -> None:
        refused = refusal_of(error)
        if refused.error == "internal":
            self._journal.fault(error, session=self._home.name, op=told["op"])
        lines.write(said(told["id"], refused.status, as_text({"wait": refused.wait, **refused.to_json()})))


async def serve(home: Home, socket: Path, journal: Journal) -> None:
    """Answer workers until the parent goes away or says so."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # The parent holds the other end of the standard input: it ends with the parent, however that dies.
    loop.add_reader(sys.stdin.fileno(), lambda: stop.set() if not os.read(sys.stdin.fileno(), 1) else None)
    server = await loop.create_unix_server(Reception(home, journal).lines, path=str(socket))
    journal.say("home", session=home.name, standing="ready")
    async with server:
        await stop.wait()
    socket.unlink(missing_ok=True)
    journal.say("home", session=home.name, standing="closing")


def run(hosted: Hosted, *, folder: Path, socket: Path, log: str, queue: int = QUEUE) -> None:
    """Resume a session and answer for it; returns when the parent is gone or asks for it."""
    sys.setswitchinterval(_SWITCH)
    journal = Journal(f"home-{hosted.name}", log)
    take_over(journal)
    with (
        cs.open_table(hosted.data, cs.Schema.load(hosted.schema)) as table,
        cs.resume_session(hosted.path, table, ledger=hosted.ledger) as session,
    ):
        home = Home(hosted.name, session, Analysts(folder), journal, queue=queue)
        told = spending_of(session)
        journal.say("opened", session=hosted.name, asked=session.asked, watches=told.opened, spent=told.spent)
        try:
            run_loop(serve(home, socket, journal))
        finally:
            home.close()


def main() -> None:
    """The entry point of the process: everything that the owner decided comes as one line of JSON."""
    told = first_line()
    given = told["hosted"]
    paths = {name: Path(given[name]) for name in ("path", "schema")}
    hosted = Hosted(name=given["name"], data=given["data"], ledger=given["ledger"], **paths)
    run(hosted, folder=Path(told["folder"]), socket=Path(told["socket"]), log=told["log"], queue=told["queue"])
    end_soon()


if __name__ == "__main__":
    main()
