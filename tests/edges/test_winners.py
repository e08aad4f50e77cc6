"""What `top` found, at every door: how many there are, their counts and intervals, and what is refused."""

from __future__ import annotations

import csv
import dataclasses
import html
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

import conspectus as cs
from conspectus.cli import run
from conspectus.cli.evaluate_command import evaluated
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.report import report_of
from conspectus.synopses.synopsis import CannotAnswer

SCHEMA = """
name = "visits"
[columns.ward]
type = "categorical"
values = ["a", "b", "c", "d"]
[columns.old]
type = "boolean"
"""
COUNTS = {"a": 1000, "b": 6000, "c": 3000, "d": 10}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [ward for ward, count in COUNTS.items() for _ in range(count)]
    pyarrow.csv.write_csv(pa.table({"ward": rows, "old": [number % 2 == 0 for number in range(len(rows))]}), "v.csv")
    Path("v.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def released(*more: str) -> cs.Release:
    """Two of four, with a budget so large that the noise changes nobody's place."""
    made = ["release", "v.csv", "--schema", "v.toml", "--marginal", "ward", "--epsilon", "8", "--mechanism", "top"]
    assert run([*made, "--set", "count=2", *more, "-o", "v.conspectus"]) == 0
    return cs.load("v.conspectus")


def words(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


def test_command_and_page_say_what_was_found_and_what_was_looked_at(place, capsys):
    release = released()
    said = capsys.readouterr().out
    assert "Released 2 answers with top, which looked at 4 questions." in said
    page = words(report_of(release))
    assert "looked at 4 questions about 1 column and names 2 of them" in page
    assert "nothing is promised" not in page
    assert "[1, 2]" not in page
    for name in ("b", "c"):
        answer = release.ask(f"ward = '{name}'")
        for text in (said, page):
            assert f"\"ward\" = '{name}'" in text
            assert f"{answer.count:,.0f}" in text
            assert f"{answer.low * 10_010:,.0f} to {answer.high * 10_010:,.0f}" in text
    assert "2 of 4 questions by top" in repr(release)


def test_names_alone_have_no_counts_and_no_intervals(place, capsys):
    page = words(report_of(released("--set", "counts=0")))
    said = capsys.readouterr().out
    assert "Released which 2 of 4 questions top found, without their counts." in said
    assert "intervals come from the noise" not in said
    assert "without their counts" in page
    assert "exact for every measured answer" not in page
    assert run(["evaluate", "v.conspectus", "v.csv"]) == 0
    assert "2 of 2 are truly among the largest 2" in capsys.readouterr().out
    assert run(["export", "v.conspectus", "-o", "v.out.csv"]) == 0
    assert "without counts" in capsys.readouterr().out


def test_evaluate_judges_the_winners(place, capsys):
    release = released()
    capsys.readouterr()
    assert run(["evaluate", "v.conspectus", "v.csv", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["questions"], found["answered"], found["intervals"]) == (4, 2, 2)
    assert found["parts"][0]["questions"] == 2
    errors = [abs(release.answers[at] * 10_010 - COUNTS[name]) / 10_010 for at, name in ((1, "b"), (2, "c"))]
    assert found["largest"] == pytest.approx(max(errors))
    choice = found["choice"]
    assert [one["true"] for one in choice["winners"]] == [6000, 3000] == [one["largest"] for one in choice["winners"]]
    assert (choice["right"], choice["short"], choice["promised"]) == (2, 0, release.parameters["within"])


def test_wrong_winners_are_said_to_be_wrong(place, capsys):
    """A release whose winners were changed by hand: the second is the fourth, 2,990 rows below its place."""
    release = released()
    wrong = dataclasses.replace(release, parameters={**release.parameters, "winners": [1, 3]})
    with cs.open_table("v.csv", release.schema) as table:
        found = evaluated(wrong, table, gamma=0.05, confidence=0.95, worst=1)
    assert found.choice is not None
    assert (found.choice.right, found.choice.short) == (1, 2990)


def test_export_writes_the_winners_and_refusals_say_what_can_be_had(place, capsys):
    release = released()
    assert run(["export", "v.conspectus", "-o", "w.csv"]) == 0
    assert "Wrote 2 winners with intervals" in capsys.readouterr().out
    lines = list(csv.DictReader(Path("w.csv").read_text(encoding="utf-8").splitlines()))
    assert [line["question"] for line in lines] == ["\"ward\" = 'b'", "\"ward\" = 'c'"]
    assert all(float(line["low"]) <= float(line["count"]) <= float(line["high"]) for line in lines)
    assert run(["export", "v.conspectus", "--table", "ward", "-o", "t.csv"]) != 0
    assert "Without --table the winners are written" in capsys.readouterr().err
    for question, reason in (("ward = 'a'", "of ward single numbers alone"), ("old", "covers old: .*knows ward")):
        with pytest.raises(CannotAnswer, match=reason):
            release.ask(question)
    with pytest.raises(CannotAnswer) as refusal:
        release.query("SELECT ward, COUNT(*) FROM visits GROUP BY ward")
    assert "covers ward" not in str(refusal.value)


def test_sums_and_means_are_no_counts_to_choose_among():
    column = {"type": "integer", "min": 0, "max": 9}
    schema = cs.Schema.from_dict({"name": "t", "columns": {"age": column, "old": {"type": "boolean"}}})
    table = cs.open_table(pa.table({"age": [1, 5] * 50, "old": [True, False] * 50}), schema)
    with pytest.raises(NoMechanism, match="use laplace or gaussian"):
        cs.release(table, cs.means(schema, "age", by=["old"]), epsilon=1.0, mechanism="top", count=1)
