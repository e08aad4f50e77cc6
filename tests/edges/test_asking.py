"""`ask` with several questions, and with widened ones: what was answered is named, and the rest is refused."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import conspectus as cs

from .conftest import Command

OPEN = ("session", "small.csv", "--schema", "small.toml", "--path", "small.session", "--epsilon", "4")


@pytest.fixture(params=["release", "session"])
def asked(request: pytest.FixtureRequest, command: Command, monkeypatch) -> tuple[object, ...]:
    """`ask`, of a release or of a session."""
    if request.param == "release":
        return ("ask", request.getfixturevalue("released"))
    request.getfixturevalue("place")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert command(*OPEN, "--quiet").code == 0
    return ("ask", "--session", "small.session", "--data", "small.csv", "--schema", "small.toml")


GOOD, BAD, WORSE = "sex = 'f' AND age < 20", "height > 3", "age = NULL"


def test_one_bad_question_does_not_lose_the_others(asked, command: Command) -> None:
    said = command(*asked, GOOD, BAD, "ill", WORSE)
    assert said.code == 2
    assert said.err == "conspectus: 2 of 4 questions refused, each with its reason above\n"
    lines = said.out.splitlines()
    assert [lines[i] for i in (0, 2, 4, 6)] == [GOOD, BAD, "ill", WORSE]
    assert "interval" in lines[1]
    assert lines[3].startswith("  refused: there is no column 'height'")
    assert "interval" in lines[5]
    assert "NULL" in lines[7]
    assert "differential privacy" in lines[-1]


def test_in_json_each_question_has_its_answer_or_its_error(asked, command: Command) -> None:
    said = command(*asked, GOOD, BAD, "ill", "--json")
    assert said.code == 2
    answers = json.loads(said.out)["answers"]
    assert [set(answer) >= {"predicate", "fraction", "question", "notes"} for answer in answers] == [True, False, True]
    assert set(answers[1]) == {"predicate", "error"}


def test_all_refused_is_said_for_each(asked, command: Command) -> None:
    said = command(*asked, BAD, WORSE)
    assert (said.code, said.out.count("refused: ")) == (2, 2)


def test_a_single_question_that_is_refused_is_the_error_of_the_command(asked, command: Command) -> None:
    said = command(*asked, BAD)
    assert (said.code, said.out) == (2, "")
    assert "height" in said.err


def test_a_bad_confidence_stops_all(asked, command: Command) -> None:
    said = command(*asked, "ill", "NOT ill", "--confidence", 7)
    assert (said.code, said.out) == (2, "")


def test_a_widened_question_is_named_as_it_was_answered(asked, command: Command) -> None:
    narrow, wide = "age < 33 AND ill", '"age" < 40'
    said = command(*asked, narrow, "--snap")
    assert said.code == 0
    heading, answer, *_ = said.out.splitlines()
    assert heading.endswith(f"  (asked: {narrow})")
    assert wide in heading or '"ill" = TRUE' in heading
    assert "; widened to whole bins" in answer
    (found,) = json.loads(command(*asked, narrow, "--snap", "--json").out)["answers"]
    assert found["predicate"] == narrow
    assert heading.startswith(found["question"])
    assert found["notes"][0] == "widened to whole bins"
    # The same question in its own words has the same answer, under its own name.
    (plain,) = json.loads(command(*asked, found["question"], "--json").out)["answers"]
    assert (plain["question"], plain["fraction"]) == (found["question"], found["fraction"])
    assert "widened to whole bins" not in plain["notes"]


def test_a_question_that_cuts_nothing_keeps_its_name(released: Path, command: Command) -> None:
    said = command("ask", released, GOOD, "--snap")
    assert said.out.splitlines()[0] == GOOD
    assert "widened" not in said.out


def test_an_answer_waits_for_no_compiler_and_no_database(released: Path) -> None:
    """What `ask` takes is the time of its imports: those that take a quarter of a second and more are not needed."""
    heavy = ("numba", "scipy", "duckdb", "pandas", "opendp", "dp_accounting", "rich")
    code = "import sys; from conspectus.cli import run; done = run(sys.argv[1:]); "
    code += f"print(done, [m for m in {heavy!r} if m in sys.modules])"
    asked = [sys.executable, "-c", code, "ask", str(released), "sex = 'f' AND ill"]
    path = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(asked, capture_output=True, text=True, check=True, env=path)
    assert "interval" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 []"


def test_an_answer_of_a_mixture_waits_for_no_compiler(tmp_path: Path) -> None:
    """A release by `adaptive` answers one question from its mixture, which takes a few products and no kernel."""
    schema = cs.Schema.from_dict({"name": "made", "columns": {name: {"type": "boolean"} for name in "abc"}})
    rows = pa.table({name: [place % 2 == 0, True] * 30 for place, name in enumerate("abc")})
    table = cs.open_table(rows, schema)
    settings = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "adaptive"}
    cs.release(table, cs.marginals(schema, 2), **settings).save(tmp_path / "made.conspectus")
    code = "import sys, conspectus as cs; print(cs.load(sys.argv[1]).ask('a AND c')); print('numba' in sys.modules)"
    path = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    asked = [sys.executable, "-c", code, str(tmp_path / "made.conspectus")]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, env=path)
    assert done.stdout.splitlines()[-1] == "False"
