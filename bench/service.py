"""`python -m bench service`: 200 clients at a live session of a universe of 2^16 cells, and processes killed at random.

Everything runs on this machine, over its loopback. Half of the questions are repetitions. The load is compared with an
empty request (`/health` without sessions is not one: `/page/page.css` is) under the same clients, since the machine may
have other work to do.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import itertools
import math
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import uvloop
from tests.service.conftest import Service, serve

import conspectus as cs
from bench import record
from bench.service_clients import Client
from conspectus.privacy.guarantee import Budget
from conspectus.service.analysts import Analysts
from conspectus.sessions.opening import begin, session_problem

COLUMNS, ROWS, CLIENTS = 16, 200_000, 200
EPSILON, HITS = 4.0, 40
TARGET = 50.0
SECONDS = float(os.environ.get("CONSPECTUS_SERVICE_SECONDS", "60"))
KILLS = int(os.environ.get("CONSPECTUS_SERVICE_KILLS", "100"))


def folder_in(
    place: Path, *, rows: int, epsilon: float, questions: int, hits: int = HITS, columns: int = COLUMNS
) -> tuple[Path, str]:
    """A folder with a session over a made table of two-valued columns, and a token."""
    rng = np.random.Generator(np.random.PCG64(public_seed := 7))
    assert public_seed
    common = rng.random(rows) < 0.4
    free = [rng.random(rows) < np.where(common, 0.6, 0.3 + 0.02 * i) for i in range(columns // 2)]
    table = {f"c{i}": column for i, column in enumerate(free)}
    for i in range(columns // 2, columns):
        # Parities of three others, mostly: no table of three columns shows them, so that some questions surprise.
        chosen = rng.choice(columns // 2, size=3, replace=False)
        table[f"c{i}"] = np.logical_xor.reduce([free[one] for one in chosen]) ^ (rng.random(rows) < 0.2)
    data = place / "made.parquet"
    pyarrow.parquet.write_table(pa.table(table), data)
    lines = ['name = "made"', *(f'[columns.{name}]\ntype = "boolean"' for name in table)]
    schema = place / "made.toml"
    schema.write_text("\n".join(lines), encoding="utf-8")
    shelf = place / "shelf"
    shelf.mkdir(mode=0o700)
    with cs.open_table(str(data), cs.Schema.load(schema)) as opened:
        mechanism = cs.mechanisms.Pmw(hits=hits)
        budget = Budget(epsilon=epsilon, delta=1e-6)
        problem = session_problem(opened, budget, mechanism, questions=questions, neighbours=None, rows=None)
        source = {"data": str(data), "schema": str(schema)}
        begin(opened, problem, mechanism, path=shelf / "live.session", source=source).close()
    return shelf, Analysts(shelf).add("bench")


def question(number: int, columns: int = COLUMNS) -> str:
    """One of many different conjunctions, from its number."""
    rng = np.random.Generator(np.random.PCG64(public_seed := number + 1))
    assert public_seed
    chosen = rng.choice(columns, size=4, replace=False)
    return " AND ".join(f"{'' if rng.random() < 0.5 else 'NOT '}c{column}" for column in sorted(chosen))


@dataclass
class Seen:
    """What clients saw: times in seconds by kind of request, statuses, bases, and every fraction that was said."""

    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    said: dict[str, set[float]] = field(default_factory=lambda: defaultdict(set))
    statuses: Counter[int] = field(default_factory=Counter)
    bases: Counter[str] = field(default_factory=Counter)
    cost: float = 0.0


async def load(service: Service, token: str, seconds: float, *, thinking: float, first: int) -> Seen:
    """Clients that ask, think, and ask again; half of their questions were asked before, by them or by others.

    Each has thought for `thinking` seconds, a little more or less, since it sent its last question: 0 for a closed
    loop. New questions are numbered from `first` on.
    """
    seen, asked, began = Seen(), [], time.perf_counter()
    numbers = itertools.count(first)

    async def client(number: int) -> None:
        rng = random.Random(1000 * first + number)
        web = await Client.at(service.address, token)
        await asyncio.sleep(rng.random() * thinking)
        turn = rng.randrange(10)
        while time.perf_counter() < began + seconds:
            sent, turn = time.perf_counter(), turn + 1
            old = bool(asked) and rng.random() < 0.5
            where = rng.choice(asked) if old else question(next(numbers))
            status, answer = await web.post("/sessions/live/ask", {"where": where})
            taken = time.perf_counter() - sent
            seen.statuses[status] += 1
            if status == 200:
                seen.times["repeated" if answer["repeated"] else answer["basis"]].append(taken)
                seen.bases[answer["basis"]] += 1
                seen.said[where].add(answer["fraction"])
                seen.cost += answer["cost"]
                asked.append(where)
            if turn % 10 == 0:
                empty = time.perf_counter()
                status, _ = await web.get("/page/page.css")
                seen.times["empty"].append(time.perf_counter() - empty)
                seen.statuses[status] += 1
            if thinking:
                pause = thinking * (0.5 + rng.random()) - (time.perf_counter() - sent)
                await asyncio.sleep(max(0.0, pause))
        web.close()

    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    return seen


def run_loop(main: Coroutine[Any, Any, Seen]) -> Seen:
    """The clients on the fastest loop there is: they run on the processors that they measure.

    No garbage is collected meanwhile: a full collection of what this process holds takes a tenth of a second, which the
    clock of whoever waits would count as the service's.
    """
    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)
    finally:
        gc.enable()


def quantile(times: list[float], share: float) -> float:
    return 1000 * float(np.quantile(times, share)) if times else float("nan")


def cpu_of(service: Service) -> float:
    """Processor seconds of all processes of a service."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    for pid in (service.process.pid, *service.children("home"), *service.children("worker")):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / ticks


def busy() -> float:
    """Processor seconds that all processes of this machine have used."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Part:
    """One kind of load: what clients saw, and the processor seconds of service, clients and everybody else."""

    what: str
    seconds: float
    seen: Seen
    service: float
    clients: float
    others: float


def measured_load() -> list[str]:
    with tempfile.TemporaryDirectory() as place:
        shelf, token = folder_in(Path(place), rows=ROWS, epsilon=EPSILON, questions=100_000)
        service = serve(shelf)
        try:
            service.wait(sessions=True)
            before = service.call("/sessions/live", token=token)[1]
            first = service.call("/sessions/live/ask", {"where": "c0"}, token=token)[1]
            warm = run_loop(load(service, token, 3.0, thinking=1.0, first=1_000_000))  # caches, compiled code
            parts = []
            for what, seconds, thinking, number in (
                ("one question a second each", SECONDS, 1.0, 0),
                ("without a pause", SECONDS / 4, 0.0, 500_000),
            ):
                every, cpu, own = busy(), cpu_of(service), time.process_time()
                seen = run_loop(load(service, token, seconds, thinking=thinking, first=number))
                every, cpu, own = busy() - every, cpu_of(service) - cpu, time.process_time() - own
                parts.append(Part(what, seconds, seen, cpu, own, max(0.0, every - cpu - own)))
            after = service.call("/sessions/live", token=token)[1]
        finally:
            service.stop()
        all_seen = [warm, *(part.seen for part in parts)]
        told = before["spent"] + first["cost"] + sum(seen.cost for seen in all_seen)
        checked = agreement(Path(place), shelf, all_seen, after, told)
    lines = ["| clients ask | request | number | p50 ms | p90 ms | p99 ms | largest |", "|---|---|---|---|---|---|---|"]
    for part in parts:
        for name in ("guessed", "measured", "unguaranteed", "repeated", "empty"):
            times = part.seen.times[name]
            if times:
                cells = " | ".join(f"{quantile(times, share):.1f}" for share in (0.5, 0.9, 0.99, 1.0))
                lines.append(f"| {part.what} | {name} | {len(times):,} | {cells} |")
    lines += [
        "",
        f"{CLIENTS} clients on the same {os.cpu_count()} processors as the service, with one web worker and one home; "
        f"a universe of 2^{COLUMNS} cells, {ROWS:,} rows, ε = {EPSILON:g}. Half of the questions were asked before; "
        "every tenth turn also asks for an empty page. A measured answer is a surprise, whose budget is debited.",
        "",
    ]
    for part in parts:
        number = sum(part.seen.statuses.values())
        lines.append(
            f"- *{part.what}*, {part.seconds:.0f} s: {number / part.seconds:,.0f} requests a second, "
            f"{1000 * part.service / number:.2f} ms of processor time each in the service "
            f"({1000 * part.clients / number:.2f} in the clients). Statuses {dict(part.seen.statuses)}, answers "
            f"{dict(part.seen.bases)}. Other work of the machine took "
            f"{part.others / part.seconds / (os.cpu_count() or 1):.0%} of its processors meanwhile."
        )
    lines += [
        f"- Spent {after['spent'] / after['total']:.1%} of the budget ({before['spent'] / after['total']:.1%} before), "
        f"{after['watches']} watches. {checked}",
        f"- The target is a 99th percentile of guesses below {TARGET:.0f} ms at one question a second each, on an idle "
        f"machine: {'held' if quantile(parts[0].seen.times['guessed'], 0.99) < TARGET else 'NOT held'}.",
    ]
    print("\n".join(lines), flush=True)
    return lines


def agreement(place: Path, shelf: Path, parts: list[Seen], about: dict[str, Any], told: float) -> str:
    """What the session's file says afterwards, which is compared with its ledger act by act when it is resumed, beside
    what the clients were told: every answer, and what all of them cost together."""
    said: dict[str, set[float]] = defaultdict(set)
    for seen in parts:
        for where, fractions in seen.said.items():
            said[where] |= fractions
    twice = sum(len(fractions) > 1 for fractions in said.values())
    schema = cs.Schema.load(place / "made.toml")
    with (
        cs.open_table(str(place / "made.parquet"), schema) as table,
        cs.resume_session(shelf / "live.session", table) as session,
    ):
        answers = {where: session.ask(where) for where in said}
        lost = sum(not answer.repeated for answer in answers.values())
        wrong = sum(answers[where].fraction not in fractions for where, fractions in said.items())
        same = max(abs(session.spent - about["spent"]), abs(session.spent - told)) < 1e-9
        agree = same and session.asked == about["asked"]
        over = session.spent > about["total"] * (1 + 1e-12)
    return (
        f"Questions with two answers: {twice}; answers lost: {lost}, changed: {wrong}; file, ledger and what clients "
        f"were told agree: {'yes' if agree else 'NO'}; overspent: {'YES' if over else 'no'}."
    )


class Askers:
    """Threads that ask one question after the other, whatever becomes of the service, and write down what it said."""

    def __init__(self, token: str, number: int, columns: int) -> None:
        self.service: Service | None = None
        self.said: dict[str, set[float]] = defaultdict(set)
        self.failed = 0
        self._token, self._columns = token, columns
        self._numbers, self._stop = itertools.count(1), threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(seed,)) for seed in range(number)]

    def start(self, service: Service) -> None:
        self.service = service
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, seed: int) -> None:
        rng = random.Random(seed)
        while not self._stop.is_set():
            number = next(self._numbers)
            where = question(rng.randrange(number) if rng.random() < 0.4 else number, self._columns)
            # Every tenth question is bought outright, so that debits are on their way at any moment; always the same
            # ones, whose answer is then never a guess before.
            how = "measure" if zlib.crc32(where.encode()) % 10 == 0 else "ask"
            try:
                assert self.service is not None
                status, answer = self.service.call(f"/sessions/live/{how}", {"where": where}, token=self._token)
            except (OSError, http.client.HTTPException, ValueError):
                status = 0
            if status == 200:
                self.said[where].add(answer["fraction"])
            else:
                self.failed += 1
                time.sleep(0.05)


def measured_kills(seconds: float = math.inf) -> list[str]:
    """Kill a home, a worker or the parent while four clients ask; then file, ledger and answers agree.

    Every second kill waits until the service is whole and has answered for a while; the others come while it is
    starting again, wherever that stands. Stops after so many seconds, however many were killed by then.
    """
    last = time.perf_counter() + seconds
    rng = random.Random(11)
    killed: Counter[str] = Counter()
    columns = 10  # a small universe: a home that starts again fits its guess again
    with tempfile.TemporaryDirectory() as place:
        shelf, token = folder_in(Path(place), rows=20_000, epsilon=50.0, questions=100_000, hits=400, columns=columns)
        service, downs = serve(shelf, "--workers", "2", "--log", "error"), []
        asking = Askers(token, 4, columns)
        service.wait(sessions=True)
        asking.start(service)
        try:
            began = time.perf_counter()
            for turn in range(KILLS):
                if turn % 2 == 0:
                    service.wait(sessions=True)
                    downs.append(time.perf_counter() - began)
                    time.sleep(rng.random())
                else:
                    time.sleep(2 * rng.random())
                what = rng.choice(("home", "worker", "parent"))
                victims = [service.process.pid] if what == "parent" else service.children(what)
                if not victims:  # none has started yet: the parent starts one in a moment
                    what, victims = "parent", [service.process.pid]
                killed[what] += 1
                print(f"kill {turn + 1} of {KILLS}: {what}", file=sys.stderr, flush=True)
                homes = service.children("home")
                victim, began = rng.choice(victims), time.perf_counter()
                os.kill(victim, signal.SIGKILL)
                if what == "parent":
                    service.process.wait()  # it is our own child, and stays until it is waited for
                    _until_gone(homes)  # workers may still finish what they are answering
                    service = asking.service = serve(shelf, "--workers", "2", "--log", "error")
                else:
                    _until_gone([victim])
                if time.perf_counter() > last:
                    break
            service.wait(sessions=True)
            asking.end()
            status, about = 0, {}
            while status != 200:
                status, about = service.call("/sessions/live", token=token)
        finally:
            asking.end()
            service.stop()
        said, schema = asking.said, cs.Schema.load(Path(place) / "made.toml")
        with (
            cs.open_table(str(Path(place) / "made.parquet"), schema) as table,
            cs.resume_session(shelf / "live.session", table) as session,
        ):
            answers = {where: session.ask(where) for where in said}
            wrong = sum(answers[where].fraction not in fractions for where, fractions in said.items())
            lost = sum(not answer.repeated for answer in answers.values())
            agree = abs(session.spent - about["spent"]) < 1e-12 and session.asked == about["asked"]
            over = session.spent > about["total"] * (1 + 1e-12)
    twice = sum(len(fractions) > 1 for fractions in said.values())
    bought = sum(answer.basis == "measured" for answer in answers.values())
    lines = [
        f"{killed.total()} times `kill -9` ({killed['parent']} of the parent, {killed['home']} of the home, "
        f"{killed['worker']} of a worker) while four clients asked: {len(said):,} questions "
        f"answered ({bought} of them measured), {twice} with two answers, {lost} lost, {wrong} changed; "
        f"{asking.failed:,} requests found nobody. File, ledger and answers agree after the last restart: "
        f"{'yes' if agree else 'NO'}; overspent: {'YES' if over else 'no'}; {about['watches']} watches paid, "
        f"{about['spent'] / about['total']:.1%} of the budget spent. Every second kill came at a random moment of the "
        f"second after the service was whole again, the others up to two seconds after the one before, while it was "
        f"starting. Median time from such a kill until it was whole: {statistics.median(downs[1:] or downs):.1f} s.",
    ]
    print("\n".join(lines), flush=True)
    return lines


def _until_gone(processes: list[int]) -> None:
    """Until processes have ended."""
    until = time.monotonic() + 60
    while time.monotonic() < until and any(Path(f"/proc/{pid}").exists() for pid in processes):
        time.sleep(0.05)


def main() -> None:
    command = "python -m bench service"
    record("service", "The service under 200 clients", "\n".join(measured_load()), command)
    record("service-kills", "The service, killed at random", "\n".join(measured_kills()), command)


if __name__ == "__main__":
    main()
