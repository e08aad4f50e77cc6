"""Children that ask a session and are killed, and a look at whether file, ledger and what was shown still agree."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path

from tests.children import killed
from tests.made import people
from tests.standin import ENTRY

import conspectus as cs
from conspectus.mechanisms.registry import ONLINE
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.reservation import Reservation
from conspectus.sessions.account import debits
from conspectus.sessions.session import Session

QUESTIONS = [
    f"age < {18 + 12 * i} AND {n}smoker AND {m}ill{where}"
    for i in range(1, 7)
    for n in ("", "NOT ")
    for m in ("", "NOT ")
    for where in ("", " AND region = 'north'", " AND region = 'west'", " AND region <> 'west'")
]
SETTINGS = {"epsilon": 4096.0, "mechanism": "standin", "hits": 24, "threshold": 120}


def session_at(path: Path) -> Session:
    """A new session in a file."""
    ONLINE["standin"] = ENTRY
    return cs.open_session(people()[1], path=path, **SETTINGS)


def resumed(path: Path) -> Session:
    ONLINE["standin"] = ENTRY
    return cs.resume_session(path, people()[1])


def analyst(path: Path, order: list[int], write: int) -> None:
    """Ask in this order, and show every answer at once: one line, written whole or not at all."""
    with resumed(path) as session:
        os.write(write, b"ready\n")
        for number in order:
            os.write(write, f"{number} {session.ask(QUESTIONS[number]).fraction!r}\n".encode())


def heard(read: int) -> list[tuple[int, float]]:
    """Every answer that a child has shown."""
    with os.fdopen(read) as lines:
        return answers_in(lines)


def answers_in(lines: Iterable[str]) -> list[tuple[int, float]]:
    said = [line.split() for line in lines]
    return [(int(number), float(fraction)) for number, fraction in (words for words in said if words != ["ready"])]


def asks_and_dies(path: Path, rng: random.Random, *, longest: float) -> list[tuple[int, float]]:
    """What an analyst showed before it was killed."""
    order = rng.sample(range(len(QUESTIONS)), len(QUESTIONS))
    return answers_in(killed(lambda write: analyst(path, order, write), rng, lines=12, longest=longest))


def agree(path: Path, shown: dict[int, float]) -> float:
    """Check that file, ledger and what was shown agree, in every number; what was spent."""
    with resumed(path) as session:
        ledger = Ledger.open(f"{path}.ledger")
        acts = debits(Reservation(ledger, 1))
        assert session._store.acts() == acts
        paid = sum(entry.price for entry in ledger.entries() if entry.kind == "debit")
        assert session.spent == float(paid) <= 4096
        for number, fraction in shown.items():
            again = session.ask(QUESTIONS[number])
            assert (again.fraction, again.repeated, again.cost) == (fraction, True, 0.0)
        assert session.asked >= len(shown)
        assert session.spent == float(paid)
        return session.spent


def kill_again_and_again(folder: Path, *, trials: int, each: int, seed: int, longest: float) -> tuple[int, int]:
    """Kill analysts of a few sessions, `each` times a session; (answers shown, kills)."""
    rng = random.Random(seed)
    total = 0
    for start in range(0, trials, each):
        path = folder / f"{start}.session"
        with session_at(path) as session:
            shown = {0: session.ask(QUESTIONS[0]).fraction}
        spent = 0.0
        for _ in range(min(each, trials - start)):
            for number, fraction in asks_and_dies(path, rng, longest=longest):
                assert shown.setdefault(number, fraction) == fraction, "two answers to one question"
                total += 1
            now = agree(path, shown)
            assert now >= spent
            spent = now
    return total, trials
