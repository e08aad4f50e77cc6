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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import conspectus as cs
from conspectus.sessions.answered import Answered
from conspectus.sessions.live_answer import LiveAnswer
from conspectus.sessions.session import Session
from conspectus.sessions.spending import Spending, spending_of

from . import describing
from .analysts import Analysts
from .desk import told_of, written
from .journal import Journal, take_over
from .refusing import NOTHING, Refused, busy, internal, refusal_of
from .shelf import Hosted

T = TypeVar("T")
LONGEST_LINE = 1 << 22
HISTORY = 50
QUEUE = 256


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
        self._queue, self._waiting = queue, 0
        self._asking: dict[tuple[str, bool], asyncio.Future[LiveAnswer]] = {}
        self._one = ThreadPoolExecutor(max_workers=1)
        self._first = spending_of(session)
        self._paid: float | None = None

    async def answer(self, op: str, told: dict[str, Any]) -> Any:
        """What one line asks for."""
        match op:
            case "about":
                return await self._about()
            case "ask" | "measure":
                return await self._ask(told, outright=op == "measure")
            case "query":
                return await self._query(told)
            case "quote":
                return await self._quote(told)
            case "history":
                return [
                    {**self._told(answer, where), "cost": cost}
                    for where, answer, cost in self._answered.history(HISTORY)
                ]
            case "schema":
                return self._session.schema.to_dict()
            case "release":
                path = Path(str(told["to"]))
                await self._alone(lambda: self._session.release().save(path))
                return {"bytes": path.stat().st_size}
        raise Refused(status=404, error="unknown", title="Not served", text="A session has no such address.")

    async def _ask(self, told: dict[str, Any], *, outright: bool) -> dict[str, Any]:
        schema, confidence, snap = self._session.schema, told["confidence"], told["snap"]
        where = told.get("where")
        try:
            where = describing.spelled(schema, where, told.get("picks"))
            question = self._answered.question(where, snap=snap)
            found = self._answered.find(question, confidence=confidence, bought=outright)
            if found is None:
                key = (question.key, outright)
                if key in self._asking:  # somebody else has just asked it: there is one answer, and one price
                    await asyncio.shield(self._asking[key])
                else:
                    found = await self._new(key, where, told, outright=outright)
                if found is None:
                    found = self._answered.find(question, confidence=confidence, bought=outright)
            assert found is not None
        except (ValueError, LookupError) as error:
            raise refusal_of(error, schema=schema, where=where) from error
        return self._told(found, where)

    async def _new(self, key: tuple[str, bool], where: str, told: dict[str, Any], *, outright: bool) -> LiveAnswer:
        if self._waiting >= self._queue:
            raise busy()
        who = told["analyst"]
        if who["share"] is not None:
            # The lock of the session is not ours alone, so the quote stands in the same queue as the question.
            quote = functools.partial(self._session.quote, where, snap=told["snap"], outright=outright)
            self._check_share(who, (await self._alone(quote)).cost)
        self._analysts.count(who["name"], most=who["questions"])
        put: Callable[..., LiveAnswer] = self._session.measure if outright else self._session.ask
        call = functools.partial(put, where, confidence=told["confidence"], snap=told["snap"])
        asking: asyncio.Future[LiveAnswer] = asyncio.ensure_future(self._alone(call))
        self._asking[key] = asking
        try:
            answer = await asyncio.shield(asking)
        finally:
            self._asking.pop(key, None)
        if answer.cost:
            self._analysts.spend(who["name"], self.name, answer.cost)
            self._note_restart()
        return answer

    async def _alone(self, call: Callable[[], T]) -> T:
        """Work on the session, one piece at a time, in the order in which it was asked for."""
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._one, call)
        finally:
            self._waiting -= 1

    def _check_share(self, who: dict[str, Any], cost: float) -> None:
        share = who["share"]
        if self._analysts.spent(who["name"], self.name) + cost > share * self._first.total:
            raise Refused(
                status=429,
                error="share",
                title="Your share of this budget does not pay for this",
                text=f"Your questions may spend {share:.0%} of the session's budget, and with this one could spend "
                f"more. {NOTHING} Questions that cost nothing are still answered.",
            )

    def _note_restart(self) -> None:
        """Say once what it cost that the session went on in a new process: a watch that would still have served."""
        if self._paid is None:
            now = spending_of(self._session)
            lost = self._first.watching and now.opened > self._first.opened
            self._paid = self._first.last if lost else 0.0
            self._journal.say("resumed", session=self.name, cost=self._paid, currency=self._session.currency)

    async def _query(self, told: dict[str, Any]) -> dict[str, Any]:
        """A SELECT. All counts that it would put anew are counted, and held against the share, before it is asked."""
        if self._waiting >= self._queue:
            raise busy()
        session, select, who, snap = self._session, told["sql"], told["analyst"], told["snap"]
        try:
            quote = await self._alone(functools.partial(session.quote, select, snap=snap))
            if who["share"] is not None:
                self._check_share(who, quote.cost)
            if quote.questions:
                self._analysts.count(who["name"], most=who["questions"], questions=quote.questions)
            call = functools.partial(session.query, select, confidence=told["confidence"], snap=snap)
            found = await self._alone(call)
        except (ValueError, LookupError) as error:
            raise refusal_of(error) from error
        if found.cost:
            self._analysts.spend(who["name"], self.name, found.cost)
            self._note_restart()
        return {"arrow": base64.b64encode(written(told_of(found), "arrow")).decode()}

    async def _quote(self, told: dict[str, Any]) -> dict[str, Any]:
        """What a question would cost at most, from public facts alone; nothing is spent."""
        schema, where, session = self._session.schema, told.get("where"), self._session
        try:
            where = describing.spelled(schema, where, told.get("picks"))
            words = where if _is_select(where) else self._answered.question(where, snap=told["snap"]).words
            quote = await self._alone(functools.partial(session.quote, where, snap=told["snap"]))
        except (ValueError, LookupError) as error:
            raise refusal_of(error, schema=schema, where=where) from error
        return {
            "where": words or where,
            "at_most": quote.cost,
            "currency": quote.currency,
            "of": self._first.total,
            "affordable": quote.affordable,
            "free_because": None if quote.cost else "bought" if quote.questions else "repeated",
        }

    async def _about(self) -> dict[str, Any]:
        session = self._session
        spent, asked, exhausted = await self._alone(lambda: (spending_of(session), session.asked, session.exhausted))
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
            "remaining": session.remaining if not exhausted else max(0.0, spent.total - spent.spent),
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

    def _told(self, answer: LiveAnswer, where: str) -> dict[str, Any]:
        why = None
        if answer.low is None:
            why = (
                "The budget or the number of questions was used up, so this is a guess that nothing was compared with."
            )
        return describing.answered(self._session.schema, answer, where, why=why)

    def close(self) -> None:
        """Finish what is being asked, and let go of the session. What waits is told to come again."""
        self._one.shutdown(wait=True, cancel_futures=True)
        self._answered.close()
        self._session.close()


def _is_select(text: str) -> bool:
    return text.lstrip()[:6].casefold() == "select"


async def serve(home: Home, socket: Path, journal: Journal) -> None:
    """Answer workers until the parent goes away or says so."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # The parent holds the other end of the standard input: it ends with the parent, however that dies.
    loop.add_reader(sys.stdin.fileno(), lambda: stop.set() if not os.read(sys.stdin.fileno(), 1) else None)
    server = await asyncio.start_unix_server(
        functools.partial(_converse, home, journal), path=str(socket), limit=LONGEST_LINE
    )
    journal.say("home", session=home.name, standing="ready")
    async with server:
        await stop.wait()
    socket.unlink(missing_ok=True)
    journal.say("home", session=home.name, standing="closing")


async def _converse(home: Home, journal: Journal, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Lines of one worker, each answered when its answer is there, with its number."""
    writing = asyncio.Lock()
    tasks: set[asyncio.Task[None]] = set()

    async def reply(line: bytes) -> None:
        told = json.loads(line)
        said: dict[str, Any] = {"id": told["id"]}
        try:
            said["answer"] = await home.answer(told["op"], told)
        except Exception as error:
            refused = refusal_of(error)
            if refused.error == "internal":
                journal.fault("fault", error, session=home.name, op=told["op"])
                refused = internal()
            said["refused"] = {"status": refused.status, "wait": refused.wait, **refused.to_json()}
        async with writing:
            writer.write(json.dumps(said).encode() + b"\n")
            await writer.drain()

    try:
        while line := await reader.readline():
            task = asyncio.create_task(reply(line))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    except (ConnectionError, ValueError):
        pass
    finally:
        writer.close()


def first_line() -> dict[str, Any]:
    """What the parent says first, by the pipe that it holds: a command line would show it to everybody."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(sys.stdin.fileno(), 1)
        if not part:
            raise SystemExit
        line += part
    told: dict[str, Any] = json.loads(line)
    return told


def run(hosted: Hosted, *, folder: Path, socket: Path, log: str, queue: int = QUEUE) -> None:
    """Resume a session and answer for it; returns when the parent is gone or asks for it."""
    journal = Journal(f"home-{hosted.name}", log)
    take_over(journal)
    with (
        cs.open_table(hosted.data, cs.Schema.load(hosted.schema)) as table,
        cs.resume_session(hosted.path, table, ledger=hosted.ledger) as session,
    ):
        home = Home(hosted.name, session, Analysts(folder), journal, queue=queue)
        told: Spending = spending_of(session)
        journal.say("opened", session=hosted.name, asked=session.asked, watches=told.opened, spent=told.spent)
        try:
            asyncio.run(serve(home, socket, journal))
        finally:
            home.close()


def main() -> None:
    """The entry point of the process: everything that the owner decided comes as one line of JSON."""
    told = first_line()
    given = told["hosted"]
    paths = {name: Path(given[name]) for name in ("path", "schema")}
    hosted = Hosted(name=given["name"], data=given["data"], ledger=given["ledger"], **paths)
    run(hosted, folder=Path(told["folder"]), socket=Path(told["socket"]), log=told["log"], queue=told["queue"])


if __name__ == "__main__":
    main()
