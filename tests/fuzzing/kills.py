"""Releases, sessions and plain debits under one ledger, killed at random moments: nothing is drawn undebited.

A victim writes a line before every draw, with the reservation and the number of acts that were admitted by then, and a
line for everything that it published. Whatever it said before it died has to stand in the ledger.

    python -m tests.fuzzing.kills --count 1000 --seed 1
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from tests.children import killed
from tests.made import people

import conspectus as cs
from conspectus.privacy import exponential, levels, noise
from conspectus.privacy.accounting import Declared, Filter
from conspectus.privacy.events import ByRelation, Event, ThresholdWatch, to_json
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.reservation import Reservation
from conspectus.sessions.account import debits

ROWS = 300
MECHANISMS = ("laplace", "gaussian", "mwem", "iterative", "projection")
QUESTIONS = [
    f"age < {18 + 12 * edge} AND {'NOT ' * no}smoker AND region = '{region}'"
    for edge in range(1, 6)
    for no in (0, 1)
    for region in ("north", "east", "south", "west")
]
BOUND = {"neighbours": "replace", "unit": "row"}
Job = Callable[[Path, int, int], None]
DRAWS = ((noise, "discrete_laplace"), (noise, "discrete_gaussian"), (exponential, "draw"), (exponential, "peel"))


class Witness:
    """Sees, in a victim, every act that is admitted and debited, and says so before anything is drawn."""

    def __init__(self, write: int) -> None:
        self.write, self.admitted, self.reservation = write, 0, 0

    def watch(self) -> None:
        """Stand beside the allowances, the ledger and the samplers of this process, which will be killed."""
        for allowance in (Filter, Declared):
            self._beside(allowance, "admit", after=self._admitted)
        self._beside(Reservation, "debit", after=self._debited)
        for module, name in (*DRAWS, (levels, "draw_levels")):
            self._beside(module, name, before=self._draws)

    def say(self, **fields: Any) -> None:
        """One line, written whole or not at all."""
        os.write(self.write, (json.dumps(fields) + "\n").encode())

    def _beside(self, owner: Any, name: str, **seen: Callable[..., None]) -> None:
        real = getattr(owner, name)

        def seeing(*args: Any, **named: Any) -> Any:
            seen.get("before", _nothing)(*args)
            found = real(*args, **named)
            seen.get("after", _nothing)(*args)
            return found

        setattr(owner, name, seeing)

    def _admitted(self, allowance: Filter | Declared, *_: Event) -> None:
        self.admitted = len(allowance.events)

    def _debited(self, reservation: Reservation, *_: Event) -> None:
        self.reservation = reservation.number

    def _draws(self, *_: Any) -> None:
        self.say(drawn=self.admitted, reservation=self.reservation)


def _nothing(*_: Any) -> None:
    return None


def releases(place: Path, number: int, write: int) -> None:
    """Release after release, each with an ε of its own, by which its acts are known."""
    witness = Witness(write)
    witness.watch()
    schema, table = people(ROWS)
    asked = cs.marginals(schema, 1)
    turn = 0
    while True:
        witness.reservation, turn = 0, turn + 1
        mechanism, delta = MECHANISMS[turn % len(MECHANISMS)], 1e-6 * (turn % 2)
        epsilon = 0.01 * (1 + number * 1e-6 + turn * 1e-9)
        if mechanism == "gaussian":
            delta = 1e-6
        made = cs.release(table, asked, epsilon=epsilon, delta=delta, mechanism=mechanism, ledger=place / "ledger")
        witness.say(published=[to_json(event) for event in made.events])


def sessions(place: Path, number: int, write: int) -> None:
    """The session that all victims share, asked in an order of one's own."""
    witness = Witness(write)
    witness.watch()
    with cs.resume_session(_session(place, number), people(ROWS)[1]) as session:
        for question in random.Random(number).sample(range(len(QUESTIONS)), len(QUESTIONS)):
            answer = session.ask(QUESTIONS[question])
            witness.say(asked=question, fraction=answer.fraction, session=number // EACH)


def plain_debits(place: Path, number: int, write: int) -> None:
    """Reserve, debit, settle, without a table."""
    witness = Witness(write)
    ledger = Ledger.open(place / "ledger")
    while True:
        bound = {"fingerprint": ledger.schema_fingerprint, **BOUND}
        reservation = ledger.reserve(Budget(epsilon=0.002), "a plain one", **bound)  # type: ignore[arg-type]
        for act in range(3):
            price = Fraction(1, 2000 + number)
            reservation.debit(ThresholdWatch(epsilon=ByRelation(replace=price, add_remove=price)))
            witness.say(drawn=act + 1, reservation=reservation.number)
        reservation.settle()


def _victim(job: Job, place: Path, number: int, write: int) -> None:
    try:
        job(place, number, write)
    except Exception as problem:
        os.write(write, (json.dumps({"failed": repr(problem)}) + "\n").encode())


JOBS: tuple[Job, ...] = (releases, sessions, plain_debits)
EACH = 3 * 20
"""Kills for which one session serves, a third of them its own."""


def _session(place: Path, number: int) -> Path:
    return place / f"{number // EACH}.session"


@dataclass
class Seen:
    """All that victims ever said."""

    kills: Counter[str] = field(default_factory=Counter)
    drawn: dict[int, int] = field(default_factory=dict)
    undebited: int = 0
    published: list[list[Any]] = field(default_factory=list)
    shown: dict[tuple[int, int], set[float]] = field(default_factory=dict)

    def hear(self, lines: Iterable[str]) -> None:
        for line in lines:
            said = json.loads(line)
            assert "failed" not in said, said
            if "drawn" in said:
                number = said["reservation"]
                self.undebited += not number
                self.drawn[number] = max(self.drawn.get(number, 0), said["drawn"])
            elif "published" in said:
                self.published.append(said["published"])
            else:
                self.shown.setdefault((said["session"], said["asked"]), set()).add(said["fraction"])


def kill_victims(place: Path, *, count: int, seed: int, longest: float = 0.1) -> Seen:
    """Kill so many, each at a random moment, and compare what they said with the ledger; raises where they differ."""
    rng, seen = random.Random(seed), Seen()
    schema, table = people(ROWS)
    bound = {"schema_fingerprint": schema.fingerprint, "table": "people", **BOUND}
    ledger = Ledger.create(place / "ledger", budget=Budget(rho=1e6), **bound)  # type: ignore[arg-type]
    for number in range(count):
        if number % EACH == 0:
            terms = {"mechanism": "perceptron", "epsilon": 50.0, "hits": 40, "questions": 1000}
            cs.open_session(table, path=_session(place, number), ledger=ledger, **terms).close()
        job = JOBS[number % len(JOBS)]
        seen.kills[job.__name__] += 1
        seen.hear(killed(partial(_victim, job, place, number), rng, lines=12, longest=longest))
        assert ledger.spent <= ledger.cap  # it opens, and is whole
    _agree(place, ledger, seen, table)
    return seen


def _agree(place: Path, ledger: Ledger, seen: Seen, table: Any) -> None:
    acts: dict[int, list[Any]] = {}
    for entry in ledger.entries():
        if entry.event is not None:
            acts.setdefault(entry.reservation, []).append(to_json(entry.event))
    assert not seen.undebited, "something was drawn before anything was debited"
    for number, drawn in seen.drawn.items():
        assert drawn <= len(acts.get(number, ())), f"reservation {number} drew more than it debited"
    known = Counter(json.dumps(each) for each in acts.values())
    published = Counter(json.dumps(each) for each in seen.published)
    assert published <= known, "a release was published whose acts the ledger does not have"
    for path in sorted(place.glob("*.session")):
        with cs.resume_session(path, table) as session:
            number = session._store.terms().reservation
            assert number is not None
            assert session._store.acts() == debits(Reservation(ledger, number)), "file and ledger disagree"
            before = session.spent
            for (which, question), fractions in seen.shown.items():
                if path.stem == str(which):
                    again = session.ask(QUESTIONS[question])
                    assert (again.repeated, {again.fraction}) == (True, fractions), "an answer that was shown changed"
            assert session.spent == before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        seen = kill_victims(Path(folder), count=given.count, seed=given.seed)
    draws, answers = sum(seen.drawn.values()), len(seen.shown)
    print(
        f"{dict(seen.kills)}: {len(seen.drawn):,} reservations drew {draws:,} times, {len(seen.published):,} releases"
    )
    print(f"and {answers:,} answers were published, all debited first ({time.monotonic() - start:.0f} s)")


if __name__ == "__main__":
    main()
