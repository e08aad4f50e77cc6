"""Answers that are long: they reach whoever asked, and nobody else's request ends with them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
from tests.service.at_home import at_home

import conspectus as cs
from conspectus.service.analysts import Analysts
from conspectus.service.homes.exchange import LONGEST_LINE, Replies, said

PLACES = [f"{number:02d}{'é' * 150_000}" for number in range(16)]


def session_of_long_labels(folder: Path) -> None:
    """A session on a table whose labels alone have more bytes than a line of the exchange may."""
    data, declared = folder.parent / "places.csv", folder.parent / "places.toml"
    pyarrow.csv.write_csv(pa.table({"place": PLACES * 20, "ill": [True, False] * (10 * len(PLACES))}), data)
    listed = ", ".join(f'"{place}"' for place in PLACES)
    text = f'name = "places"\nneighbours = "replace"\n[columns.place]\ntype = "categorical"\nvalues = [{listed}]\n'
    declared.write_text(f'{text}[columns.ill]\ntype = "boolean"\n', encoding="utf-8")
    from conspectus.privacy.guarantee import Budget
    from conspectus.sessions.opening import begin, session_problem

    with cs.open_table(str(data), cs.Schema.load(declared)) as table:
        budget, mechanism = Budget(epsilon=50.0, delta=1e-6), cs.mechanisms.OnlineLaplace()
        problem = session_problem(table, budget, mechanism, questions=100, neighbours=None, rows=None)
        source = {"data": str(data), "schema": str(declared)}
        begin(table, problem, mechanism, path=folder / "live.session", source=source).close()


def test_a_long_answer_reaches_its_asker_and_ends_nobody_elses_request(folder: Path) -> None:
    session_of_long_labels(folder)
    token = Analysts(folder).add("ada")
    select = {"sql": "SELECT place, COUNT(*) FROM places GROUP BY place"}

    async def ask() -> None:
        async with at_home(folder) as living:
            status, schema = await living.call("/sessions/live/schema", token=token)
            assert (status, len(json.dumps(schema)) > LONGEST_LINE) == (200, True)
            asked = [living.call(f"/sessions/live{path}", token=token) for path in ("", "/schema")]
            (status, told), *others = await asyncio.gather(
                living.call("/sessions/live/query", select, token=token), *asked
            )
            assert status == 200, told
            assert [row[0] for row in told["rows"]] == PLACES
            assert told["cost"] > 0
            assert [status for status, _ in others] == [200, 200]

    asyncio.run(ask())


def test_replies_come_whole_however_they_are_cut() -> None:
    sent = [(7, 200, b"{}"), (8, 422, b'"a\nb"'), (9, 200, b""), (10, 200, b"x" * 100_000)]
    stream = b"".join(said(*one) for one in sent)
    taken: list[tuple[int, int, bytes]] = []
    for size in (1, 2, 7, 1000, len(stream)):
        end = Replies(lambda *one: taken.append(one), lambda _: None)
        for place in range(0, len(stream), size):
            end.data_received(stream[place : place + size])
        assert taken == sent, size
        taken.clear()
