"""`python -m bench service`: 200 clients at a live session of a universe of 2^16 cells, and processes killed at random.

Everything runs on this machine, over its loopback. Half of the questions are repetitions. The load is compared with an
empty request (`/health` without sessions is not one: `/page/page.css` is) under the same clients, since the machine may
have other work to do.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from tests.service.conftest import Service, serve

import conspectus as cs
from bench import record
from conspectus.privacy.guarantee import Budget
from conspectus.service.analysts import Analysts
from conspectus.sessions.opening import begin, session_problem

COLUMNS, ROWS, CLIENTS = 16, 200_000, 200
SECONDS = float(os.environ.get("CONSPECTUS_SERVICE_SECONDS", "60"))
KILLS = int(os.environ.get("CONSPECTUS_SERVICE_KILLS", "100"))


def folder_in(place: Path, *, rows: int, epsilon: float, questions: int) -> tuple[Path, str]:
    """A folder with a session over a made table of two-valued columns, and a token."""
    rng = np.random.Generator(np.random.PCG64(public_seed := 7))
    assert public_seed
    common = rng.random(rows) < 0.4
    table = {f"c{i}": rng.random(rows) < np.where(common, 0.6, 0.2 + 0.02 * i) for i in range(COLUMNS)}
    data = place / "made.parquet"
    pyarrow.parquet.write_table(pa.table(table), data)
    lines = ['name = "made"', *(f'[columns.{name}]\ntype = "boolean"' for name in table)]
    schema = place / "made.toml"
    schema.write_text("\n".join(lines), encoding="utf-8")
    shelf = place / "shelf"
    shelf.mkdir(mode=0o700)
    with cs.open_table(str(data), cs.Schema.load(schema)) as opened:
        mechanism = cs.mechanisms.Pmw()
        budget = Budget(epsilon=epsilon, delta=1e-6)
        problem = session_problem(opened, budget, mechanism, questions=questions, neighbours=None, rows=None)
        source = {"data": str(data), "schema": str(schema)}
        begin(opened, problem, mechanism, path=shelf / "live.session", source=source).close()
    return shelf, Analysts(shelf).add("bench")


def question(number: int) -> str:
    """One of many different conjunctions, from its number."""
    rng = np.random.Generator(np.random.PCG64(public_seed := number + 1))
    assert public_seed
    columns = rng.choice(COLUMNS, size=4, replace=False)
    return " AND ".join(f"{'' if rng.random() < 0.5 else 'NOT '}c{column}" for column in sorted(columns))


async def load(service: Service, token: str, seconds: float) -> dict[str, Any]:
    """Clients that ask once a second each; half of their questions are repetitions."""
    times: dict[str, list[float]] = defaultdict(list)
    said: dict[str, set[float]] = defaultdict(set)
    statuses: Counter[int] = Counter()
    bases: Counter[str] = Counter()
    until = time.perf_counter() + seconds
    headers = {"authorization": f"Bearer {token}"}

    async def client(number: int, web: httpx.AsyncClient) -> None:
        rng = np.random.Generator(np.random.PCG64(public_seed := number))
        assert public_seed is not None
        await asyncio.sleep(float(rng.random()))
        fresh = 0
        while time.perf_counter() < until:
            began = time.perf_counter()
            if fresh and rng.random() < 0.5:
                kind, asked = "repeated", question(1000 * number + int(rng.integers(fresh)))
            else:
                kind, asked = "new", question(1000 * number + fresh)
                fresh += 1
            try:
                response = await web.post("/sessions/live/ask", json={"where": asked}, headers=headers)
            except httpx.TransportError:
                statuses[0] += 1
                continue
            times[kind].append(time.perf_counter() - began)
            statuses[response.status_code] += 1
            if response.status_code == 200:
                answer = response.json()
                said[asked].add(answer["fraction"])
                bases[answer["basis"]] += 1
            began_empty = time.perf_counter()
            empty = await web.get("/page/page.css")
            times["empty"].append(time.perf_counter() - began_empty)
            statuses[empty.status_code] += 1
            await asyncio.sleep(max(0.0, 1.0 - (time.perf_counter() - began)))

    limits = httpx.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
    async with httpx.AsyncClient(base_url=service.address, limits=limits, timeout=60, trust_env=False) as web:
        await asyncio.gather(*(client(number, web) for number in range(CLIENTS)))
    return {"times": times, "said": said, "statuses": statuses, "bases": bases}


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


def measured_load() -> list[str]:
    with tempfile.TemporaryDirectory() as place:
        shelf, token = folder_in(Path(place), rows=ROWS, epsilon=2.0, questions=100_000)
        service = serve(shelf, "--log", "error")
        try:
            service.wait(sessions=True)
            before = service.call("/sessions/live", token=token)[1]
            service.call("/sessions/live/ask", {"where": "c0"}, token=token)
            began = cpu_of(service)
            found = asyncio.run(load(service, token, SECONDS))
            spent_cpu = cpu_of(service) - began
            after = service.call("/sessions/live", token=token)[1]
        finally:
            service.stop()
    times, asked = found["times"], sum(found["statuses"].values())
    twice = sum(len(answers) > 1 for answers in found["said"].values())
    over = after["spent"] > after["total"] * (1 + 1e-12)
    lines = [
        "| request | number | p50 ms | p90 ms | p99 ms |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {len(times[name]):,} | {quantile(times[name], 0.5):.1f} | {quantile(times[name], 0.9):.1f} | "
            f"{quantile(times[name], 0.99):.1f} |"
            for name in ("new", "repeated", "empty")
        ),
        "",
        f"{CLIENTS} clients for {SECONDS:.0f} s at one question a second each and one empty request, one web worker, "
        f"a universe of 2^{COLUMNS} cells, {ROWS:,} rows, ε = 2. Statuses: {dict(found['statuses'])}. Answers: "
        f"{dict(found['bases'])}. Questions with two answers: {twice}. Spent {after['spent'] / after['total']:.1%} of "
        f"the budget ({before['spent'] / after['total']:.1%} before), overspent: {'yes' if over else 'no'}; watches "
        f"paid: {after['watches']}. Processor time of the service: {1000 * spent_cpu / asked:.2f} ms a request. Load "
        f"average while it ran: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors.",
    ]
    print("\n".join(lines), flush=True)
    return lines


def measured_kills() -> list[str]:
    """Kill a home, a worker or the parent at random moments while clients ask; then file, ledger and answers agree."""
    rng = np.random.Generator(np.random.PCG64(public_seed := 11))
    assert public_seed
    killed: Counter[str] = Counter()
    said: dict[str, set[float]] = defaultdict(set)
    with tempfile.TemporaryDirectory() as place:
        shelf, token = folder_in(Path(place), rows=20_000, epsilon=50.0, questions=100_000)
        service, number, downs = serve(shelf, "--workers", "2", "--log", "error"), 0, []
        try:
            for turn in range(KILLS):
                service.wait(sessions=True)
                until = time.perf_counter() + float(rng.random()) * 0.5
                while time.perf_counter() < until:
                    number += 1
                    asked = question(number if rng.random() < 0.6 else int(rng.integers(number)))
                    status, answer = service.call("/sessions/live/ask", {"where": asked}, token=token)
                    if status == 200:
                        said[asked].add(answer["fraction"])
                what = ("home", "worker", "parent")[turn % 3]
                killed[what] += 1
                pids = [service.process.pid] if what == "parent" else service.children(what)
                began, family = time.perf_counter(), [*service.children("home"), *service.children("worker")]
                os.kill(pids[int(rng.integers(len(pids)))], signal.SIGKILL)
                if what == "parent":
                    service.process.wait()
                    _until_gone(family)
                    service = serve(shelf, "--workers", "2", "--log", "error")
                service.wait(sessions=True)
                downs.append(time.perf_counter() - began)
            about = service.call("/sessions/live", token=token)[1]
        finally:
            service.stop()
        schema = cs.Schema.load(Path(place) / "made.toml")
        with (
            cs.open_table(str(Path(place) / "made.parquet"), schema) as table,
            cs.resume_session(shelf / "live.session", table) as session,
        ):
            wrong = sum(session.ask(asked).fraction not in answers for asked, answers in said.items())
            lost = len(said) - sum(session.ask(asked).repeated for asked in said)
            agree = session.spent == about["spent"] and session.asked == about["asked"]
    twice = sum(len(answers) > 1 for answers in said.values())
    lines = [
        f"{KILLS} times `kill -9` ({dict(killed)}) while questions were asked: {len(said):,} different questions "
        f"answered, {twice} with two answers, {lost} lost, {wrong} changed; file, ledger and answers agree after the "
        f"last restart: {'yes' if agree else 'no'}; {about['watches']} watches paid, "
        f"{about['spent'] / about['total']:.1%} of the budget spent. "
        f"Median time until the service was whole again: {statistics.median(downs):.1f} s.",
    ]
    print("\n".join(lines), flush=True)
    return lines


def _until_gone(family: list[int]) -> None:
    """Until the children of a dead parent have ended."""
    until = time.monotonic() + 60
    while time.monotonic() < until and any(Path(f"/proc/{pid}").exists() for pid in family):
        time.sleep(0.05)


def main() -> None:
    command = "python -m bench service"
    record("service", "The service under 200 clients", "\n".join(measured_load()), command)
    record("service-kills", "The service, killed at random", "\n".join(measured_kills()), command)


if __name__ == "__main__":
    main()
