"""Sessions on the command line: from a pipe, from the keyboard, resumed, interrupted; exit codes and what is shown."""

from __future__ import annotations

import builtins
import io
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.edges.conftest import Command
from tests.standin import ENTRY

from conspectus.mechanisms.registry import ONLINE
from conspectus.privacy.ledger.ledger import Ledger

OPEN = ("session", "small.csv", "--schema", "small.toml", "--path", "small.session", "--mechanism", "standin")
BUDGET = ("--epsilon", 640, "--quiet")


@pytest.fixture(autouse=True)
def standin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ONLINE, "standin", ENTRY)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch):
    """What comes through the pipe."""

    def pipe(*lines: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    return pipe


def test_questions_from_a_pipe(place: Path, command: Command, typed) -> None:
    typed("sex = 'f'", "# a comment", "", "ill", "NOT (NOT sex = 'f')")
    said = command(*OPEN, *BUDGET, "--set", "threshold=20")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == "standin session, 0 of 10,000 questions, ε 0 of 640 spent."
    assert "sex = 'f'" in lines
    guessed, measured = (line for line in lines if line.endswith("cost ε 64"))  # the watch; the measurement
    assert "guessed" in guessed
    assert "0.2000 of the rows (about 48)" in measured
    assert sum("repeated" in line for line in lines) == 1
    assert "2 of 10,000 questions" in lines[-1]
    assert "small.session" in lines[-1]


def test_json_lines_and_a_bad_predicate(place: Path, command: Command, typed) -> None:
    typed("ill", "height > 3", "sex = 'm'")
    said = command(*OPEN, *BUDGET, "--json")
    assert said.code == 2  # a line of the pipe could not be answered; the others were
    first, wrong, last = (json.loads(line) for line in said.out.splitlines())
    assert first["predicate"] == "ill"
    assert first["spent"] + first["remaining"] == 640
    assert set(first) >= {"fraction", "count", "low", "high", "basis", "confidence", "cost", "repeated", "exhausted"}
    assert "height" in wrong["error"]
    assert last["asked"] == 2


def test_a_session_goes_on_in_another_folder(place, command: Command, typed, monkeypatch) -> None:
    typed("ill")
    assert command(*OPEN, *BUDGET).code == 0
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    given = (place / "small.csv", "--schema", place / "small.toml")
    typed("ill = true", "NOT ill")
    said = command("session", *given, "--path", place / "small.session", "--json")
    assert said.code == 0
    first, second = (json.loads(line) for line in said.out.splitlines())
    assert (first["repeated"], second["repeated"]) == (True, False)
    ask = ("ask", "--session", place / "small.session", "--data", *given)
    said = command(*ask, "ill", "NOT ill")
    assert (said.code, said.err) == (0, "")
    assert said.out.count("repeated") == 2
    assert "differential privacy" in said.out
    said = command(*ask, "ill", "age < 10", "--json")
    found = json.loads(said.out)
    assert [answer["repeated"] for answer in found["answers"]] == [True, False]
    assert found["asked"] == 3
    (place / "small.csv").rename(place / "moved.csv")
    assert command(*ask, "ill").code == 2
    moved = ("--data", place / "moved.csv", "--schema", place / "small.toml")
    assert command("ask", "--session", place / "small.session", *moved, "ill").code == 0


def test_a_file_does_not_decide_what_is_opened(place, command: Command, typed, monkeypatch) -> None:
    """It could name another table, or a ledger whose budget is whole. A person may agree to what is shown."""
    assert command("ledger", "init", "ledger", "--epsilon", 1000, "--schema", "small.toml").code == 0
    typed("ill")
    assert command(*OPEN, *BUDGET, "--ledger", "ledger").code == 0
    ask = ("ask", "--session", "small.session", "ill")
    for given in (
        (),
        ("--data", "small.csv"),
        ("--data", "small.csv", "--schema", "small.toml"),
        ("--ledger", "ledger"),
    ):
        said = command(*ask, *given)
        assert (said.code, said.out) == (2, "")
        assert "name it yourself" in said.err
        assert ("small.csv" in said.err) == ("--data" not in given)
        assert ("--ledger" in said.err) == ("--ledger" not in given)
    assert command(*ask, "--data", "small.csv", "--schema", "small.toml", "--ledger", "ledger").code == 0
    typed("ill")
    assert command("session", "--path", "small.session").code == 2

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    for answer, code in (("n", 2), ("", 2), ("y", 0)):
        monkeypatch.setattr(builtins, "input", lambda prompt, answer=answer: answer)
        said = command(*ask)
        assert said.code == code
        assert f"would open: --data {place / 'small.csv'}" in said.out


def test_what_a_file_says_cannot_move_on_a_terminal(place, command: Command, typed) -> None:
    typed("ill")
    assert command(*OPEN, *BUDGET).code == 0
    with closing(sqlite3.connect("small.session", isolation_level=None)) as connection:
        ((content,),) = connection.execute("SELECT content FROM terms").fetchall()
        terms = json.loads(content) | {"source": {"data": "a\x1b[2Kb", "schema": "s"}}
        connection.execute("UPDATE terms SET content = ?", (json.dumps(terms),))
    said = command("ask", "--session", "small.session", "ill")
    assert said.code == 2
    assert "\x1b" not in said.err


def test_typing_ends_with_a_word_or_an_interruption(place, command: Command, monkeypatch) -> None:
    class Keyboard(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Keyboard())
    script = iter(["ill", "no such", "", "ill", "exit", "smoker"])
    monkeypatch.setattr(builtins, "input", lambda prompt: next(script))
    said = command(*OPEN, *BUDGET)
    assert said.code == 0  # a person sees what was wrong, and goes on
    assert "1 of 10,000 questions" in said.out.splitlines()[-1]

    def interrupt(prompt: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(builtins, "input", interrupt)
    said = command(*OPEN, "--quiet")
    assert said.code == 0
    assert "can be resumed" in said.out


def test_a_ledger_pays_and_gets_back(place: Path, command: Command, typed) -> None:
    assert command("ledger", "init", "ledger", "--epsilon", 1000, "--schema", "small.toml").code == 0
    typed("age < 10")
    assert command(*OPEN, *BUDGET, "--ledger", "ledger").code == 0
    assert Ledger.open("ledger").spent == 640
    typed()
    over = (*OPEN[:5], "other.session", *OPEN[6:])
    said = command(*over, *BUDGET, "--ledger", "ledger")
    assert said.code == 3
    assert not Path("other.session").exists()
    typed()
    assert command(*OPEN, "--quiet", "--end", "--ledger", "ledger").code == 0
    assert Ledger.open("ledger").spent == 64
    typed("ill")
    said = command(*OPEN, "--quiet", "--json", "--ledger", "ledger")
    assert json.loads(said.out)["basis"] == "unguaranteed"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("session", "--path", "none.session", "--epsilon", 1), "give DATA"),
        ((*OPEN[:-1], "pwm", *BUDGET), "pmw"),
        ((*OPEN,), "budget"),
        ((*OPEN, *BUDGET, "--confidence", 2), "confidence"),
        ((*OPEN, *BUDGET, "--set", "hitz=3"), "hits"),
        (("ask", "--session", "none.session", "ill"), "no session"),
        (("ask", "--session", "small.csv", "ill"), "not a session"),
        (("ask", "small.conspectus"), "predicate"),
        (("ask", "small.conspectus", "ill", "--data", "small.csv"), "--session"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(place, command: Command, typed, arguments, word) -> None:
    typed()
    said = command(*arguments)
    assert (said.code, said.out) == (2, "")
    assert word in said.err
    assert said.err.count("\n") == 1


def test_another_budget_is_refused_when_it_goes_on(place, command: Command, typed) -> None:
    typed()
    assert command(*OPEN, *BUDGET).code == 0
    assert command(*OPEN, *BUDGET).code == 0
    said = command(*OPEN, "--epsilon", 3, "--quiet")
    assert said.code == 2
    assert "leave the budget out" in said.err


def test_settings_that_say_what_holds_anyway_are_no_other_terms(place: Path, command: Command, typed) -> None:
    typed("ill")
    assert command(*OPEN, *BUDGET, "--set", "hits=5", "--set", "threshold=20").code == 0
    typed("ill")
    again = (*OPEN[:6], "--set", "hits=5", "--set", "threshold=20")
    assert command(*again).code == 0


@pytest.mark.parametrize(
    "other", [("--questions", 7), ("--rows", 9), ("--set", "hits=3"), ("--neighbours", "add-remove")]
)
def test_other_terms_are_refused_when_it_goes_on(place, command: Command, typed, other) -> None:
    typed()
    assert command(*OPEN, *BUDGET).code == 0
    said = command(*OPEN, *other)
    assert said.code == 2
    assert other[0] in said.err
    said = command(*OPEN[:-1], "pmw" if OPEN[-1] != "pmw" else "median")
    assert said.code == 2
    assert "--mechanism" in said.err


def test_an_interrupted_end_is_told_as_one(place, command: Command, monkeypatch) -> None:
    class Keyboard(io.StringIO):
        def isatty(self) -> bool:
            return True

    def interrupt(prompt: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Keyboard())
    monkeypatch.setattr(builtins, "input", interrupt)
    said = command(*OPEN, *BUDGET, "--end")
    assert said.code == 0
    assert "can be resumed" not in said.out
    assert "the session is ended" in said.out
