"""The prompts of `sql` and `session`: help, an end, SELECTs over several lines; and one a line through a pipe."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.cli import run
from conspectus.cli.prompt import questions

SCHEMA = cs.Schema.from_dict(
    {"name": "people", "columns": {"ill": {"type": "boolean"}, "age": {"type": "integer", "min": 0, "max": 149}}}
)


Typed = Callable[..., list[str]]
Printed = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    """What somebody types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    def put(*lines: str, terminal: bool = True) -> list[str]:
        waiting, prompts = list(lines), list[str]()

        def answer(prompt: str) -> str:
            prompts.append(prompt)
            if not waiting:
                raise EOFError
            return waiting.pop(0)

        text = "".join(f"{line}\n" for line in lines)
        monkeypatch.setattr(sys, "stdin", Terminal(text) if terminal else io.StringIO(text))
        monkeypatch.setattr("builtins.input", answer)
        return prompts

    return put


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> str:
    table = cs.open_table(pa.table({"ill": [True, False] * 300, "age": list(range(150)) * 4}), SCHEMA)
    path = tmp_path_factory.mktemp("prompt") / "people.conspectus"
    cs.release(table, cs.marginals(SCHEMA, 1), epsilon=1e6, mechanism="laplace").save(path)
    return str(path)


def test_a_select_goes_on_until_a_semicolon_or_an_empty_line(typed: Typed, capsys: Printed) -> None:
    prompts = typed("SELECT COUNT(*)", "FROM people;", "", "select 1", "", "age > 3", "exit", "never")
    found = list(questions("people", ["how it is done"], selects=True))
    assert found == ["SELECT COUNT(*)\nFROM people;", "select 1", "age > 3"]
    assert prompts == ["people> ", "      | ", "people> ", "people> ", "      | ", "people> ", "people> "]


@pytest.mark.parametrize("end", ["exit", "QUIT", "quit;", "\\q", None])
def test_help_is_given_and_the_end_is_understood(typed: Typed, capsys: Printed, end: str | None) -> None:
    typed("help", "?", "ill", *([] if end is None else [end, "never"]))
    assert list(questions("people", ["how it is done"])) == ["ill"]
    assert capsys.readouterr().out.count("how it is done") == 2


def test_through_a_pipe_each_line_is_a_question(typed: Typed) -> None:
    typed("SELECT 1", "# a comment", "", "help", "SELECT 2", terminal=False)
    assert list(questions("people", "no help", selects=True)) == ["SELECT 1", "help", "SELECT 2"]


def test_the_prompt_of_sql(typed: Typed, capsys: Printed, out: str) -> None:
    prompts = typed("help", "SELECT COUNT(*)", "FROM people;", "quit")
    assert run(["sql", out]) == 0
    said = capsys.readouterr().out
    assert '"ill" (boolean), "age" (integer)' in said
    assert "600" in said
    assert "no SELECT" not in said
    assert prompts[0] == "people> "


def test_the_prompt_of_a_session(typed: Typed, capsys: Printed, tmp_path: Path) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(pa.table({"ill": [True, False] * 30, "age": [1, 2] * 30}), tmp_path / "people.csv")
    (tmp_path / "people.toml").write_text(
        'name = "people"\n[columns.ill]\ntype = "boolean"\n[columns.age]\ntype = "integer"\nmin = 0\nmax = 9\n'
    )
    typed("?", "ill", "exit")
    budget = ["--epsilon", "1", "--questions", "10", "--path", str(tmp_path / "live.session")]
    assert run(["session", str(tmp_path / "people.csv"), "--schema", str(tmp_path / "people.toml"), *budget]) == 0
    said = capsys.readouterr().out
    assert '"ill" (boolean)' in said
    assert "0 of 10 questions" in said  # the marginals that were bought in advance tell the answer


def test_all_lines_are_printed_on_demand(capsys: Printed, out: str) -> None:
    select = "SELECT age, COUNT(*) FROM people GROUP BY age"
    assert run(["sql", out, select]) == 0
    text = capsys.readouterr().out
    assert "… and 50 more lines\n" in text
    assert "100 of 150 lines are printed: --lines 0 prints all" in text
    assert run(["sql", out, select, "--lines", "0"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 151
    assert run(["sql", out, select, "--lines", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6
