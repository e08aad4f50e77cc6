"""Every report and every command counts the questions and the columns of the release, whatever made it; and where ids
have more rows than are used, every door says so."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.made import needed, people

import conspectus as cs
from conspectus.cli import run
from conspectus.cli.release_commands import release_json, show_release
from conspectus.mechanisms.registry import OFFLINE
from conspectus.report import report_of

SCHEMA, TABLE = people(400)
ASKED = cs.marginals(SCHEMA, 1, ["region", "smoker"])


@pytest.mark.parametrize("name", OFFLINE)
def test_questions_and_columns_are_those_of_the_release(name, capsys):
    own = {"count": 2} if name == "top" else needed(name, SCHEMA)
    release = cs.release(TABLE, ASKED, epsilon=2.0, delta=1e-6, mechanism=name, **own)
    answered = int(np.isfinite(release.answers).sum())
    assert (release.questions, release.answered) == (len(ASKED), answered)
    page = html.unescape(report_of(release))
    [(asked, columns)] = re.findall(
        r"This release (?:answers|looked at) ([\d,]+) questions? about (\d+) columns?", page
    )
    assert (int(asked), int(columns)) == (len(ASKED), 2)
    counted = "largest counts found" if name == "top" else "questions answered"
    assert f"<b>{answered}</b><span>{counted}</span>" in page
    show_release(release, Path("r.conspectus"))
    assert f"Released {answered} answers with {name}" in capsys.readouterr().out
    told = release_json(release, Path("r.conspectus"))
    assert (told["queries"], told["answered"]) == (len(ASKED), answered)


def test_one_question_about_one_column_is_no_plural():
    release = cs.release(TABLE, cs.sql(SCHEMA, ["smoker"]), epsilon=2.0, mechanism="laplace")
    page = html.unescape(report_of(release))
    assert "This release answers 1 question about 1 column." in page
    assert "1 answer: 1 single question." in page


UNIT = """
name = "stays"
[unit]
kind = "id"
column = "person"
max_rows = 1
[columns.sort]
type = "categorical"
values = ["x", "y"]
[columns.days]
type = "integer"
min = 1
max = 14
[columns.pay]
type = "integer"
min = 0
max = 99
width = 10
"""
NOTE = 'at most 1 of each "person"'


@pytest.fixture
def stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    places = np.arange(2000)
    data = {
        "person": places // 2,
        "sort": np.where(places % 10, "x", "y"),
        "days": places % 14 + 1,
        "pay": places % 100,
    }
    pyarrow.csv.write_csv(pa.table(data), "s.csv")
    Path("s.toml").write_text(UNIT, encoding="utf-8")


@pytest.mark.parametrize(
    "options",
    [
        ["--median", "days", "--epsilon", "1"],
        ["--mode", "sort", "--epsilon", "8", "--delta", "1e-6", "--mechanism", "stable"],
    ],
)
def test_a_value_says_which_rows_it_is_of_and_of_bins_only_where_there_are_any(stays, capsys, options):
    given = ["value", "s.csv", "--schema", "s.toml", *options, "-o", "v.conspectus"]
    assert run(given) == 0
    said = capsys.readouterr().out
    assert NOTE in " ".join(said.split())
    assert "into bins" not in said
    assert NOTE in html.unescape(report_of(cs.load_value("v.conspectus")))
    assert run([*given, "--json"]) == 0
    assert any(NOTE in note for note in json.loads(capsys.readouterr().out)["notes"])


def test_synthetic_rows_and_winners_say_which_rows_they_are_of(stays, capsys):
    made = ["release", "s.csv", "--schema", "s.toml", "--marginal", "sort", "--epsilon", "2", "-o", "r.conspectus"]
    assert run([*made, "--mechanism", "laplace"]) == 0
    capsys.readouterr()
    assert run(["synthesize", "r.conspectus", "-n", "5", "-o", "r.csv"]) == 0
    assert NOTE in capsys.readouterr().out
    assert run(["synthesize", "r.conspectus", "-n", "5", "-o", "r.csv", "--json"]) == 0
    assert NOTE in json.loads(capsys.readouterr().out)["notes"][0]
    assert run([*made, "--mechanism", "top", "--set", "count=1"]) == 0
    assert NOTE in capsys.readouterr().out
    assert NOTE in html.unescape(report_of(cs.load("r.conspectus")))


def test_a_column_with_bins_says_so(stays):
    schema = cs.Schema.load("s.toml")
    assert cs.column_median(schema, "pay").binned
    assert not cs.column_median(schema, "days").binned
    assert not cs.column_mode(schema, "sort").binned
