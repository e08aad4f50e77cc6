"""Refusals of servers and clusters are functions of public inputs: the same words, code and ledgers next door."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import SETTINGS, Case, neighbours

import conspectus as cs
from conspectus.cli import run
from conspectus.cli.exit_codes import BUG, DONE, explain
from conspectus.counting.counters import Counting
from conspectus.data.sources import SourceError

from .postgres_server import Server
from .server_refusals import FAR_COMMANDS, POSTGRES, SPARK, Far, Spread

HOUSE = Path(cs.__file__).parent


@pytest.fixture(scope="module")
def far(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], tuple[Far, Far]]]:
    """Two neighbouring tables in two databases, for each relation and unit."""
    made = {}
    for number, (relation, unit) in enumerate(SETTINGS):
        place = tmp_path_factory.mktemp(f"far-{number}")
        sides = []
        for side, rows in zip(("here", "there"), neighbours(relation, unit)):
            server.run(f"CREATE DATABASE {side}{number}")
            sides.append(Far(place / side, rows, relation, unit, "csv", server=server, name=f"{side}{number}"))
            sides[-1].make()
        made[relation, unit] = (sides[0], sides[1])
    yield made
    for pair in made.values():
        for each in pair:
            if "table" in vars(each):
                each.table.close()


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory, session: Any) -> dict[tuple[str, str], tuple[Spread, Spread]]:
    """Two neighbouring tables as frames of Spark, for each relation and unit."""
    made = {}
    for relation, unit in SETTINGS:
        place = tmp_path_factory.mktemp(f"spread-{relation}-{unit}")
        here, there = neighbours(relation, unit)
        sides = [
            Spread(place / name, rows, relation, unit, "csv", cluster=session)
            for name, rows in (("here", here), ("there", there))
        ]
        for side in sides:
            side.make()
        made[relation, unit] = (sides[0], sides[1])
    return made


def refused(case: Case, side: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """What a case says on one side: the error, the code of a command that met it, the sentence, and the ledgers."""
    monkeypatch.chdir(side.place)
    before = side.spent()
    with pytest.raises(Exception) as caught:
        case.act(side)
    error = caught.value
    assert type(error).__name__ == case.kind, error
    if case.site:
        sites = [
            f"{Path(frame.filename).relative_to(HOUSE).as_posix()}:{frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).is_relative_to(HOUSE)
        ]
        name = f"{case.site.partition(':')[0]}:{case.site.rpartition('.')[2].rpartition(':')[2]}"
        assert name in sites, sites
    code, sentence = explain(error)
    assert code not in (DONE, BUG)
    assert "not-to-be-seen" not in sentence
    assert error.__cause__ is None
    return type(error).__name__, code, shown(sentence, side), before, side.spent()


def shown(text: str, side: Any) -> str:
    return text.replace(str(side.place), "PLACE").replace(getattr(side, "name", "") or "PLACE", "NAME")


def test_refusals_of_a_database_are_the_same_next_door(far, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every refusal of a database, and of a ledger in it, under both relations and for both units in turn."""
    for number, case in enumerate(POSTGRES):
        variant = SETTINGS[number % len(SETTINGS)]
        here, there = (refused(case, side, monkeypatch) for side in far[variant])
        assert here == there, (case.name, variant)
        assert here[3] == here[4], case.name


@pytest.mark.parametrize("number", range(len(FAR_COMMANDS)))
def test_a_refused_command_is_the_same_next_door(number: int, far, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    for pair in list(far.values())[number % 2 :: 2]:
        said = []
        for side in pair:
            monkeypatch.chdir(side.place)
            before, files = side.spent(), sorted(side.place.iterdir())
            code = run(
                [word.replace("DATA", side.address) for word in FAR_COMMANDS[number]] + ["--schema", "people.toml"]
            )
            out, err = capfd.readouterr()
            said.append((code, shown(out, side), shown(err, side)))
            assert (side.spent(), sorted(side.place.iterdir())) == (before, files)
            assert "not-to-be-seen" not in out + err
        assert said[0] == said[1]
        assert said[0][0] in (2, 3, 4), said[0]


def test_refusals_of_a_cluster_are_the_same_next_door(spread, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, case in enumerate(SPARK):
        variant = SETTINGS[number % len(SETTINGS)]
        here, there = (refused(case, side, monkeypatch) for side in spread[variant])
        assert here == there, (case.name, variant)
        if case.name not in ("a file that is cut", "functions of all rows"):
            assert here[3] == here[4], case.name


@pytest.mark.parametrize("client", ["UTF8", "LATIN1"])
def test_no_text_stops_a_pass_whatever_the_encodings(
    server: Server, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    """A text without a counterpart in what the client asks for stopped all passes, and LATIN1 was read as nothing."""
    monkeypatch.setenv("PGCLIENTENCODING", client)
    column = {"type": "categorical", "values": ["a", "é"], "other": True, "missing": True}
    schema = cs.Schema.from_dict({"name": "texts", "columns": {"t": column}})
    for encoding, odd, code in (("UTF8", "'漢'", 2), ("LATIN1", "'ÿ'", 2), ("SQL_ASCII", "E'\\xff'", 3)):
        name = f"texts_{encoding.lower()}"
        server.run(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
        side = Far(Path(), [], "replace", "row", "csv", server=server, name=name)
        made = ("CREATE TABLE t (t text)", "INSERT INTO t VALUES ('a'), ('é'), ('é')", f"INSERT INTO t VALUES ({odd})")
        side.run("SET client_encoding = 'UTF8'", *made)
        with side.opened("t", schema) as table:
            counts = table.fold(Counting(cs.marginals(schema, 1)))[0].tolist()
        assert counts == [1, 2, int(code == 2), int(code == 3)], encoding
        server.run(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_refusal_that_counts_rows_would_be_found(far, monkeypatch: pytest.MonkeyPatch) -> None:
    def counting(side: Any) -> None:
        raise SourceError(f"{side.table.fold(Counting(side.asked))[1]} rows are too few")

    twin = Case("telling", "SourceError", counting)
    here, there = (refused(twin, side, monkeypatch) for side in far["add-remove", "id"])
    assert here != there
