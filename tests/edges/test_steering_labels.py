"""Labels, names and notes out of files are data: no command lets one steer the terminal, or forge a line of a result.

A label may move the cursor up, clear the screen, hide what follows, begin a new line or turn the reading direction.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.edges.conftest import Command, Said, write_table
from tests.fuzzing.toml_text import toml_text

STEERS = "\x1b[2J\x1b[8m\x07\u202e\x9b1A"
VALUES = [f"x{STEERS}", "y\ncolumn  1,000,000", "z"]
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
BUDGET = ("--epsilon", "1e4", "--mechanism", "laplace")
OPENED = ("odd.csv", "--schema", "odd.toml")
QUOTED = f'"{COLUMN}"'
IS = f"{QUOTED} = '{VALUES[0]}'"
GROUPED = f'SELECT {QUOTED}, COUNT(*) AS "n{STEERS}" FROM "{NAME}" GROUP BY {QUOTED}'


def unsteered(said: Said) -> bool:
    return all(line.isprintable() for text in (said.out, said.err) for line in text.split("\n"))


@pytest.fixture
def odd(place: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"age < 10\n{IS}\n"))
    (place / "odd.toml").write_text(toml_text(SCHEMA), encoding="utf-8")
    rows = [{COLUMN: VALUES[i % 3], "age": i % 40, "ill": str(i % 5 == 0).lower()} for i in range(120)]
    write_table(place / "odd.csv", rows)
    under = ("--ledger", "odd.ledger")
    series = ("series", "open", "odd.series", "--schema", "odd.toml", "--periods", "a,b", "--marginals", "1", *BUDGET)
    for made in (
        ("ledger", "init", "odd.ledger", "--schema", "odd.toml", "--epsilon", "1e9"),
        ("release", *OPENED, "--marginals", "2", *BUDGET, *under, "-o", "odd.conspectus"),
        ("session", *OPENED, "--path", "odd.session", "--questions", "9", "--epsilon", "1e4", "--quiet"),
        (*series, *under),
    ):
        said = command(*made)
        assert said.code == 0, said.err
        assert unsteered(said)
    return place


COMMANDS = {
    "schema check": ("schema", "check", "odd.toml"),
    "schema check DATA": ("schema", "check", "odd.toml", "odd.csv"),
    "ledger show": ("ledger", "show", "odd.ledger"),
    "ledger study": ("ledger", "study", "odd.ledger", f"a{STEERS}", "--purpose", STEERS),
    "plan": ("plan", "--schema", "odd.toml", "--marginals", "2", "--rows", "120", "--epsilon", "1"),
    "ask": ("ask", "odd.conspectus", IS, "age < 10"),
    "sql": ("sql", "odd.conspectus", GROUPED),
    "sql --json": ("sql", "odd.conspectus", GROUPED, "--json"),
    "sql refused": ("sql", "odd.conspectus", f'SELECT "{STEERS}" FROM "{NAME}"'),
    "ask refused": ("ask", "odd.conspectus", f"{QUOTED} = '{STEERS}'", f'"{STEERS}" = 1'),
    "evaluate": ("evaluate", "odd.conspectus", "odd.csv"),
    "export": ("export", "odd.conspectus", "--table", COLUMN, "-o", "odd_table.csv"),
    "session": ("ask", "--session", "odd.session", "--data", *OPENED, IS),
    "series show": ("series", "show", "odd.series"),
}


@pytest.mark.parametrize("what", COMMANDS)
def test_no_label_steers_the_terminal(what: str, odd: Path, command: Command) -> None:
    said = command(*COMMANDS[what])
    assert unsteered(said)
    assert said.code == (2 if what.endswith("refused") else 0), said.err
