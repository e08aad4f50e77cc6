"""Labels, names and notes out of files are data: no command lets one steer the terminal, or forge a line of a result.

A label may move the cursor up, clear the screen, hide what follows, begin a new line or turn the reading direction.
"""

from __future__ import annotations

import io
import json
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.edges.conftest import Command, Said
from tests.fuzzing.toml_text import toml_text

from conspectus.cli import run

STEERS = "\x1b[2J\x1b[8m\x07\u202e\x9b1A\nFORGED  1000\r\u2028FORGED  2000"
VALUES = [f"x{STEERS}", "y\nFORGED", "z"]
NAME, COLUMN = f"hos{STEERS}pital", f"sex{STEERS}"
SCHEMA = {
    "name": NAME,
    "unit": {"kind": "row"},
    "columns": {
        COLUMN: {"type": "categorical", "values": VALUES},
        "age": {"type": "integer", "min": 0, "max": 39, "width": 10},
        "ill": {"type": "boolean"},
    },
}
ONE_WAY = ("--marginals", "1")
BUDGET = ("--epsilon", "1e4", "--mechanism", "laplace")
OPENED = ("odd.parquet", "--schema", "odd.toml")
QUOTED = f'"{COLUMN}"'
IS = f"{QUOTED} = '{VALUES[0]}'"
TOP = ("--mechanism", "top", "--set", "count=2", "--epsilon", "1e4")
GROUPED = f'SELECT {QUOTED}, COUNT(*) AS "n{STEERS}" FROM "{NAME}" GROUP BY {QUOTED}'


def unsteered(said: Said) -> bool:
    """Each line is plain, and none is what a label made of it."""
    lines = [line for text in (said.out, said.err) for line in text.split("\n")]
    return all(line.isprintable() and not line.lstrip(" -│").startswith("FORGED") for line in lines)


@pytest.fixture
def odd(place: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.stdin", io.StringIO("age < 10\n"))
    (place / "odd.toml").write_text(toml_text(SCHEMA), encoding="utf-8")
    rows = [{COLUMN: VALUES[i % 3], "age": i % 40, "ill": i % 5 == 0} for i in range(120)]
    pq.write_table(pa.Table.from_pylist(rows), place / "odd.parquet")
    under = ("--ledger", "odd.ledger")
    series = ("series", "open", "odd.series", "--schema", "odd.toml", "--periods", f"a{STEERS},b", *ONE_WAY, *BUDGET)
    for made in (
        ("ledger", "init", "odd.ledger", "--schema", "odd.toml", "--epsilon", "1e9"),
        ("release", *OPENED, "--marginals", "2", *BUDGET, *under, "-o", "odd.conspectus"),
        ("session", *OPENED, "--path", "odd.session", "--questions", "9", "--epsilon", "1e4", "--quiet"),
        (*series, *under),
        ("ledger", "study", "odd.ledger", f"b{STEERS}", "--purpose", STEERS, "--by", STEERS),
    ):
        said = command(*made)
        assert said.code == 0, said.err
        assert unsteered(said)
    return place


COMMANDS = {
    "schema check": ("schema", "check", "odd.toml"),
    "schema check DATA": ("schema", "check", "odd.toml", "odd.parquet"),
    "ledger show": ("ledger", "show", "odd.ledger"),
    "ledger study": ("ledger", "study", "odd.ledger", f"a{STEERS}", "--purpose", STEERS),
    "plan": ("plan", "--schema", "odd.toml", "--marginals", "2", "--rows", "120", "--epsilon", "1"),
    "ask": ("ask", "odd.conspectus", IS, "age < 10"),
    "sql": ("sql", "odd.conspectus", GROUPED),
    "sql --json": ("sql", "odd.conspectus", GROUPED, "--json"),
    "sql refused": ("sql", "odd.conspectus", f'SELECT "{STEERS}" FROM "{NAME}"'),
    "ask refused": ("ask", "odd.conspectus", f"{QUOTED} = '{STEERS}'", f'"{STEERS}" = 1'),
    "evaluate": ("evaluate", "odd.conspectus", "odd.parquet"),
    "export": ("export", "odd.conspectus", "--table", COLUMN, "-o", "odd_table.csv"),
    "session": ("ask", "--session", "odd.session", "--data", *OPENED, IS),
    "session for many": ("ask", "--session", "odd.session", "--data", *OPENED, "age < 10", f'"{STEERS}" = 1'),
    "series show": ("series", "show", "odd.series"),
    "value": ("value", *OPENED, "--mode", COLUMN, "--epsilon", "1e4"),
    "top": ("release", *OPENED, "--marginals", "1", *TOP, "-o", "top.conspectus"),
    "retire": ("ledger", "retire", "odd.ledger", "--reason", STEERS, "--by", STEERS, "--yes"),
}


@pytest.mark.parametrize("what", COMMANDS)
def test_no_label_steers_the_terminal(what: str, odd: Path, command: Command) -> None:
    said = command(*COMMANDS[what])
    assert unsteered(said)
    assert said.code == (2 if what.endswith(("refused", "many")) else 0), said.err


PROMPTS = {
    "sql": ("sql", "odd.conspectus"),
    "sql --session": ("sql", "--session", "odd.session", "--data", *OPENED),
    "session": ("session", *OPENED, "--path", "more.session", "--questions", "9", "--epsilon", "1e4"),
    "resumed": ("session", *OPENED, "--path", "odd.session"),
    "retire": ("ledger", "retire", "odd.ledger", "--reason", "done"),
}


@pytest.mark.parametrize("what", PROMPTS)
def test_no_label_steers_a_prompt(what: str, odd: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal shows prompts itself, and an answer may end what nothing undoes."""
    typed, prompts = iter(["help", IS, f'"{STEERS}" = 1', "SELECT", ""]), list[str]()

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        return next(typed, "exit")

    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", answer)
    assert unsteered(command(*PROMPTS[what]))
    assert prompts
    assert all(prompt.isprintable() for prompt in prompts)


def test_no_label_makes_a_picture_that_is_no_file_of_its_kind(odd: Path, command: Command) -> None:
    assert command("ledger", "show", "odd.ledger", "--picture", "burn.svg").code == 0
    ElementTree.parse("burn.svg")
    assert command("report", "odd.conspectus", "-o", "odd.html").code == 0
    page = (odd / "odd.html").read_text(encoding="utf-8")
    assert page.replace("\n", "").isprintable()
    for drawn in re.findall("<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(drawn)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_values_reach_a_program_whatever_can_be_printed(
    encoding: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = ["größe", "日本", "\U0001f600\u200d\u202e\x1b", "z"]
    pq.write_table(pa.table({"a": labels * 40}), place / "odd.parquet")

    def printed(*command: str) -> str:
        raw = io.BytesIO()
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding=encoding))
        assert run(command) == 0
        return raw.getvalue().decode(encoding)

    draft = printed("schema", "draft", "odd.parquet")
    assert set(tomllib.loads(draft)["columns"]["a"]["values"]) == set(labels)
    (place / "odd.toml").write_text(draft.replace("draft = true", ""), encoding="utf-8")
    assert run(["release", *OPENED, "--marginals", "1", *BUDGET, "-o", "odd.conspectus", "--quiet"]) == 0
    told = json.loads(printed("sql", "odd.conspectus", "SELECT a, COUNT(*) FROM odd GROUP BY a", "--json"))
    assert {line["a"] for line in told["lines"]} >= set(labels)
