"""`evaluate`: exact errors of a release for the owner, and said to be NOT PRIVATE; and the options of workloads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
from tests.made import people, truth

import conspectus as cs
from conspectus.cli import run
from conspectus.synopses.synopsis import CannotAnswer

SCHEMA = """
name = "people"
[columns.region]
type = "categorical"
values = ["north", "east", "south", "west"]
[columns.age]
type = "integer"
min = 18
max = 89
width = 12
[columns.smoker]
type = "boolean"
[columns.ill]
type = "boolean"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.Generator(np.random.PCG64(1))
    rows = 3000
    table = pyarrow.table(
        {
            "region": rng.choice(["north", "east", "south", "west"], rows),
            "age": rng.integers(18, 90, rows),
            "smoker": rng.random(rows) < 0.3,
            "ill": rng.random(rows) < 0.1,
        }
    )
    pyarrow.csv.write_csv(table, "people.csv")
    Path("people.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def released(*workload: str) -> cs.Release:
    budget = ("--epsilon", "1", "--mechanism", "laplace", "-o", "out.conspectus", "--quiet")
    assert run(["release", "people.csv", "--schema", "people.toml", *workload, *budget]) == 0
    return cs.load("out.conspectus")


def test_errors_are_those_of_the_table_and_said_to_be_not_private(place, capsys) -> None:
    release = released("--marginals", "2")
    capsys.readouterr()
    assert run(["evaluate", "out.conspectus", "people.csv"]) == 0
    assert "NOT PRIVATE" in capsys.readouterr().out
    assert run(["evaluate", "out.conspectus", "people.csv", "--json", "--worst", "3", "--gamma", "0.1"]) == 0
    said = json.loads(capsys.readouterr().out)
    with cs.open_table("people.csv", release.schema) as table:
        counts, rows = truth(table, release.workload)
    errors = np.abs(release.answers - counts / rows)
    assert said["private"] is False
    assert said["largest"] == pytest.approx(errors.max())
    assert said["mean"] == pytest.approx(errors.mean())
    assert said["within"] == pytest.approx(np.quantile(errors, 0.9))
    assert [miss["error"] for miss in said["worst"]] == pytest.approx(sorted(errors, reverse=True)[:3])
    assert len(said["parts"]) == 6
    assert sum(part["questions"] for part in said["parts"]) == len(release.workload)
    assert said["intervals"] == len(release.workload)
    assert said["covered"] > 0.7


def test_workloads_by_columns_ranges_prefixes_and_means(place, capsys) -> None:
    few = released("--marginals", "2", "--columns", "region,smoker,ill")
    assert {few.schema.domain.names[c] for c in few.workload.columns} == {"region", "smoker", "ill"}
    assert len(released("--ranges", "age").workload) == 21
    assert len(released("--prefixes", "age").workload) == 6
    assert len(released("--means", "age:region,smoker").workload) == 8
    assert len(released("--means", "age").workload) == 1
    capsys.readouterr()
    budget = ("--epsilon", "1", "-o", "o.conspectus")
    assert run(["release", "people.csv", "--schema", "people.toml", "--columns", "age", *budget]) == 2
    assert "--marginals" in capsys.readouterr().err
    assert run(["evaluate", "out.conspectus", "people.csv"]) == 0
    assert "mean of age" in capsys.readouterr().out


def test_plans_know_which_releases_give_synthetic_rows() -> None:
    """Before anything is spent; each mechanism that can serve the problem then keeps its word."""
    schema, table = people(rows=400)
    for workload in (cs.marginals(schema, 2), cs.sql(schema, ["smoker", "ill AND age < 42"])):
        plan = cs.plan(schema, workload, rows=400, epsilon=1.0)
        for claim in plan.claims:
            release = cs.release(table, workload, epsilon=1.0, mechanism=claim.mechanism)
            try:
                gave = release.synthetic(5).num_rows == 5
            except CannotAnswer:
                gave = False
            assert gave == plan.gives_rows(claim), claim.mechanism
    assert set(plan.to_pandas()["synthetic_rows"].dropna()) == {True, False}


def test_the_report_says_who_answers_and_what_it_is_good_for(place) -> None:
    released("--marginals", "2")
    told = ("--owner", "Ada <Board>", "--purpose", "Planning of wards")
    assert run(["report", "out.conspectus", "-o", "out.html", *told]) == 0
    text = Path("out.html").read_text(encoding="utf-8")
    assert "Ada &lt;Board&gt;" in text
    assert "Planning of wards" in text
    assert "Good to within 5%" in text
    assert text.index("What it is good for") < text.index("Pictures of the answers") < text.index("The guarantee")
    assert run(["release", "people.csv", "--schema", "people.toml", "--marginals", "2", "--epsilon", "0.0005",
                "--mechanism", "laplace", "-o", "out.conspectus", "--quiet"]) == 0  # fmt: skip
    assert run(["report", "out.conspectus", "-o", "out.html"]) == 0
    assert "Noise: do not use" in Path("out.html").read_text(encoding="utf-8")


def test_means_and_sums_are_compared_in_their_own_units(place, capsys) -> None:
    """Bins by their middles, as they were released; errors as shares of what each of them can be."""
    schema = cs.Schema.load("people.toml")
    table = cs.open_table("people.csv", schema)
    asked = cs.means(schema, "age", by=["region"]) + cs.sums(schema, "smoker") + cs.marginal(schema, ["ill"])
    release = cs.release(table, asked, epsilon=2.0, mechanism="laplace")
    release.save("numbers.conspectus")
    capsys.readouterr()
    assert (
        run(["evaluate", "numbers.conspectus", "people.csv", "--worst", "9", "--json", "--confidence", "0.99999999"])
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    rows = pyarrow.csv.read_csv("people.csv").to_pandas()
    middles = 18 + 12 * ((rows["age"] - 18) // 12) + 5.5
    regions = {name: rows["region"] == name for name in ("north", "east", "south", "west")}
    found = {miss["question"]: miss for miss in told["worst"]}
    assert told["questions"] == len(found) == 7
    assert told["covered"] == 1.0
    assert told["intervals"] == 7
    for name, there in regions.items():
        (mean,) = (miss for question, miss in found.items() if question.startswith("mean of age") and name in question)
        assert mean["true"] == pytest.approx(middles[there].mean(), abs=1e-4)
        assert mean["error"] == pytest.approx(abs(mean["answered"] - mean["true"]) / 60, abs=1e-5)
    (smokers,) = (miss for question, miss in found.items() if question.startswith("sum of smoker"))
    assert smokers["true"] == pytest.approx(rows["smoker"].sum(), abs=1e-3)
    assert run(["evaluate", "numbers.conspectus", "people.csv"]) == 0
    assert "of what is possible" in capsys.readouterr().out
