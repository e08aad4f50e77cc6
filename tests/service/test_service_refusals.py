"""What the home of a session refuses is the same next door: status, words, ledger, and what it counts of analysts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import SETTINGS, Side, neighbours

import conspectus as cs
from conspectus.service.analysts import Analysts
from conspectus.service.homes.home import Home
from conspectus.service.journal import Journal
from conspectus.service.refusing import Refused

FREE = {"name": "free", "share": None, "questions": None}
POOR = {"name": "poor", "share": 0.0, "questions": None}
GROUPS = "SELECT sex, count(*) FROM people GROUP BY sex"
ASKED: dict[str, tuple[str, dict[str, Any], int]] = {
    "no address": ("wealth", {}, 404),
    "no predicate": ("ask", {"where": "DROP TABLE people"}, 422),
    "no column": ("ask", {"where": "weight > 3"}, 422),
    "no value": ("ask", {"where": "sex = 'nobody'"}, 422),
    "no order": ("ask", {"where": "sex < 'm'"}, 422),
    "a cut bin": ("ask", {"where": "age < 15"}, 422),
    "no confidence": ("ask", {"where": "ill", "confidence": 2.0}, 422),
    "no such code": ("ask", {"picks": {"sex": [9]}}, 422),
    "nothing asked": ("ask", {}, 422),
    "no more questions": ("ask", {"where": "ill", "analyst": {**FREE, "name": "few", "questions": 0}}, 429),
    "no share": ("measure", {"where": "ill", "analyst": POOR}, 429),
    "no share for a SELECT": ("query", {"sql": GROUPS, "analyst": POOR}, 429),
    "no SELECT": ("query", {"sql": "SELECT max(age) FROM people JOIN people"}, 422),
    "no quote": ("quote", {"where": "weight > 3"}, 422),
    "after the end": ("measure", {"where": "ill AND sex = 'f'"}, 409),
}  # fmt: skip


class Served:
    """One side, and the home of a session on it."""

    def __init__(self, side: Side) -> None:
        self.side = side
        path = side.place / "live.session"
        self.session = cs.open_session(
            side.table, epsilon=0.5, mechanism="perceptron", questions=5, ledger=side.ledger, path=path
        )
        self.analysts = Analysts(side.place)
        for name in ("free", "few", "poor"):
            self.analysts.add(name)
        self.loop = asyncio.new_event_loop()
        self.home = Home("live", self.session, self.analysts, Journal("home-live", "error"))

    def refused(self, op: str, told: dict[str, Any]) -> tuple[Any, ...]:
        """The refusal, and all that it could have changed."""
        line = {"op": op, "snap": False, "confidence": 0.95, "analyst": FREE, **told}
        before = self.state()

        async def ask() -> None:
            said = self.home.take(line)
            if not isinstance(said, bytes):
                await said

        with pytest.raises(Refused) as caught:
            self.loop.run_until_complete(ask())
        assert self.state()[1] == before[1], "nothing is spent by a refusal"
        return caught.value.status, caught.value.to_json(), self.state()

    def state(self) -> tuple[Any, ...]:
        ledger = [(entry.number, entry.kind, entry.price) for entry in cs.Ledger.open(self.side.ledger).entries()]
        return [(analyst.name, analyst.asked) for analyst in self.analysts.all()], ledger


@pytest.fixture(params=SETTINGS, ids="-".join)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Served, Served]]:
    relation, unit = request.param
    made = []
    for name, rows in zip(("here", "there"), neighbours(relation, unit)):
        side = Side(tmp_path / name, rows, relation, unit, "csv")
        side.make()
        made.append(Served(side))
    yield made[0], made[1]
    for each in made:
        each.home.close()
        each.loop.close()


def test_a_home_refuses_alike_on_neighbouring_tables(both: tuple[Served, Served]) -> None:
    for name, (op, told, status) in ASKED.items():
        if name == "after the end":
            for each in both:
                each.session.end()
        here, there = (each.refused(op, told) for each in both)
        assert here == there, name
        assert here[0] == status, (name, here)
