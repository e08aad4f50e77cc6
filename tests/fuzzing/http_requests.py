"""`python -m tests.fuzzing.http_requests --count 100000`: random requests to a service; none is a server error.

Requests are valid ones, and valid ones with something broken: methods, addresses, headers, tokens, bodies and
predicates. Every answer has a status below 500 and, if it is a refusal, the one shape; what is refused spends nothing
of a live session, and all that the answers say they cost is all that was spent; and memory does not grow. They go to
the application itself, without a network in between, and from there to the home of a session.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.made import people
from tests.service.at_home import at_home, send
from tests.service.conftest import add_session

import conspectus as cs
from conspectus.service.analysts import Analysts
from conspectus.service.gate import Limits

PARTS = 10
SHAPE = {"error", "title", "text", "at", "repairs", "spent"}
WORDS = (
    *("smoker", "ill", "age", "region", "wealth", "AND", "OR", "NOT", "(", ")", "=", "<>", ">=", "<", "BETWEEN", "IN"),
    *(
        "'north'",
        "'moon'",
        "30",
        "42",
        "1e999",
        "NULL",
        "IS NULL",
        ",",
        ";",
        "--",
        "/*",
        '"',
        "'",
        "SELECT",
        "\x00",
        "é",
    ),
    *("age >= 42", "smoker AND ill", "region IN ('north', 'west')", "\ud800".encode("utf-8", "replace").decode()),
)
PATHS = (
    *("/", "/synopses", "/synopses/people", "/synopses/people/ask", "/synopses/people/table", "/synopses/people/rows"),
    *("/synopses/people/query", "/synopses/people/file", "/synopses/people/schema", "/sessions", "/sessions/live/ask"),
    *("/sessions/live", "/sessions/live/ask", "/sessions/live/ask", "/sessions/live/quote", "/sessions/live/query"),
    *("/sessions/live/measure", "/sessions/live/schema", "/sessions/live/release", "/sessions/moon/ask"),
    *("/health", "/metrics", "/openapi.json", "/page/page.css", "/page/../analysts.db", "/synopses/..%2fanalysts.db"),
)

ADDRESSES = (
    *(b"", b"http://[", b"http://[::1", b"//[", b"http://]", b"http://[v1.x]:80", b"http://localhost:99999999999"),
    *(
        b"localhost",
        b"localhost:x",
        b"[::1]:8765",
        b"[",
        b"]",
        b"null",
        b"\xff\xfe",
        b"http://\xb2.example",
        b"x" * 9000,
    ),
    *(b"http://a@b@localhost/%zz?#", b"\x00", b" localhost ", b"xn--a.example", "http://\u2100.example".encode()),
)
NUMBERS = (b"", b"5", b"-1", b"+1", b"1_0", b"x", b"0x1", b"1e3", b"\xb2", b"\xd9\xa3", b"9" * 25, b"9" * 5000, b"1, 1")
WORDY = (
    *(b"", b" ", b";", b",", b"=", b"*", b"*/*;q=nan", b"application/json; charset=utf-7", b"application/json;;;"),
    *(b"text/html; boundary=\xff", b'multipart/form-data; boundary="', b"a=b; " * 2000, b'W/"', b"bytes=5-1,-,x"),
    *(
        b"Bearer",
        b"Bearer ",
        b"Bearer \xff\x00",
        b"Bearer a b",
        b"Basic \xff",
        b"Basic ====",
        b"Digest a=",
        b"\x80" * 300,
    ),
)
ODD_HEADERS = tuple(
    (name, value)
    for names, values in (
        ((b"host", b"origin", b"referer", b"forwarded", b"x-forwarded-for", b"x-forwarded-host"), ADDRESSES),
        ((b"content-length", b"age", b"max-forwards", b"upgrade-insecure-requests"), NUMBERS),
        ((b"authorization", b"cookie", b"accept", b"accept-encoding", b"accept-language", b"content-type"), WORDY),
        ((b"content-encoding", b"transfer-encoding", b"if-none-match", b"if-modified-since", b"range"), WORDY),
        ((b"expect", b"te", b"connection", b"upgrade", b"sec-fetch-site", b"x-" + b"y" * 300), WORDY),
    )
    for name in names
    for value in values
)
"""Headers that somebody parses, each with values of its kind that are none: an address, a number, a list of words."""


def a_request(rng: random.Random, token: str) -> dict[str, Any]:
    """One request: method, path, query, headers and body."""
    path = rng.choice(PATHS)
    if rng.random() < 0.2:
        path += rng.choice(("/", "%00", "/ask", "?", "%ff", "/" + "x" * rng.choice((1, 300, 5000)), "/é"))
    method = "POST" if path.endswith(("/ask", "/query", "/measure", "/quote")) else "GET"
    if rng.random() < 0.1:
        method = rng.choice(("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "BREW"))
    pairs = [
        rng.choice(
            (
                *("by=region", "by=age", "by=moon", "by=", "as=csv", "as=parquet", "as=exe", "n=5", "n=-1", "n=1e9"),
                *(
                    "n=99999999999999999999",
                    "seed=3",
                    "seed=-1",
                    "confidence=0.9",
                    "confidence=2",
                    "confidence=nan",
                    "%",
                ),
            )
        )
        for _ in range(rng.choice((0, 0, 1, 2, 3)))
    ]
    headers = [(b"host", b"localhost" if rng.random() < 0.9 else rng.choice((b"127.0.0.1:8765", b"evil.example", b"")))]
    if path.startswith("/sessions") and rng.random() < 0.7:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    elif rng.random() < 0.4:
        kind = rng.choice(("Bearer ", "Basic ", "bearer", ""))
        headers.append((b"authorization", (kind + rng.choice((token, "cs_wrong", "", "x" * 5000))).encode()))
    if rng.random() < 0.05:
        headers.append((b"origin", rng.choice((b"http://localhost", b"http://evil.example", b"null", b"\xff"))))
    if rng.random() < 0.03:
        headers.append((b"content-length", rng.choice((b"5", b"-1", b"x", b"99999999999"))))
    return {"method": method, "path": path, "query": "&".join(pairs), "headers": headers, "body": a_body(rng)}


def a_body(rng: random.Random) -> bytes:
    where = " ".join(rng.choice(WORDS) for _ in range(rng.choice((0, 1, 1, 3, 6, 30, 400))))
    body: Any = rng.choice(
        (
            {"where": where},
            {"where": f"age >= {rng.choice((30, 42, 54))} AND region = '{rng.choice(('north', 'west'))}'"},
            {"where": where, "snap": rng.choice((True, 1, None)), "confidence": rng.choice((0.9, 0, 1, "x", None))},
            {"picks": {rng.choice(("age", "region", "moon")): rng.choice(([0], [1, 2], [99], [], [-1], "x", [2**70]))}},
            {"sql": f"SELECT count(*) FROM people WHERE {where}"},
            [],
            None,
            3,
        )
    )
    plain = json.dumps(body).encode()
    return rng.choice((plain, plain, plain, plain[: rng.randrange(len(plain) + 1)], b"", b"{" * 3000, b"x" * 5000))


async def fuzz(
    folder: Path, count: int, seed: int, *, seconds: float = float("inf"), done: Callable[[int], None] = lambda _: None
) -> Counter[int]:
    """Send so many requests; fails at the first answer that is wrong. Returns how often each status was.

    `done` is told after each request how many there were.
    """
    rng, odd = random.Random(seed), random.Random(seed + 1)  # heads of their own: requests keep their numbers
    token = Analysts(folder).add(f"fuzz-{seed}")
    statuses: Counter[int] = Counter()
    until = time.monotonic() + seconds
    async with at_home(folder, limits=Limits(body=4000)) as living:
        session = living.sessions["live"]
        before, over = session.spent, session.exhausted
        spent = before
        for number in range(count):
            asked = a_request(rng, token)
            if odd.random() < 0.1:
                asked["headers"] += [odd.choice(ODD_HEADERS) for _ in range(odd.choice((1, 1, 2, 5)))]
            content = (b"content-type", b"application/json")
            status, body = await send(
                living.app, asked["method"], asked["path"], [*asked["headers"], content], asked["body"], asked["query"]
            )
            statuses[status] += 1
            assert status < 500, (number, asked, status, body[:500])
            if status >= 400 and asked["method"] != "HEAD" and not asked["path"].startswith("/page"):
                assert set(json.loads(body)) == SHAPE, (number, asked, body[:500])
            if status == 200 and asked["path"].startswith("/sessions") and body.startswith(b"{"):
                spent += json.loads(body).get("cost", 0.0)
            assert abs(session.spent - spent) < 1e-9, (number, asked, status, session.spent, spent)
            done(number + 1)
            if time.monotonic() > until:
                break
        assert spent > before or over or count < 100
    return statuses


def folder_in(place: Path) -> Path:
    """A folder with one small release and a live session."""
    schema, table = people(500)
    shelf = place / "shelf"
    shelf.mkdir(mode=0o700)
    release = cs.release(table, cs.marginals(schema, 2), epsilon=5.0, delta=1e-6, mechanism="projection")
    release.save(shelf / "people.conspectus")
    add_session(shelf, epsilon=20.0, priming=0.25, order=1, hits=50, threshold=0.02)
    return shelf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        shelf = folder_in(Path(place))
        memory: list[float] = []

        def look(number: int) -> None:
            if number * PARTS % given.count < PARTS:
                memory.append(_memory())

        statuses = asyncio.run(fuzz(shelf, given.count, given.seed, done=look))
    print(
        f"{sum(statuses.values()):,} requests, statuses {dict(sorted(statuses.items()))}; "
        f"memory after each {given.count // PARTS:,} of them: {', '.join(f'{held:.0f}' for held in memory)} MiB"
    )


def _memory() -> float:
    """MiB that this process holds, after whatever can be let go was let go."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


if __name__ == "__main__":
    main()
