"""Records of any kind from the command line: one column of records, a stored workload, both mechanisms."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import conspectus as cs
from conspectus.cli import run

SCHEMA = 'name = "mail"\n[columns.address]\ntype = "record"\n'
BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def mail(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mail.toml").write_text(SCHEMA, encoding="utf-8")
    addresses = [f"u{i % 400}@x" for i in range(2000)] + ["all@x"] * 500
    pq.write_table(pa.table({"address": addresses}), tmp_path / "mail.parquet")
    schema = cs.Schema.load("mail.toml")
    cs.sparse([[f"u{i}@x" for i in range(start, start + 20)] for start in range(10)], schema).save("asked.json")
    return tmp_path


@pytest.mark.parametrize("mechanism", ["sparse-project", "stable-histogram", "laplace"])
def test_release_ask_and_report(mail, mechanism, capsys):
    asked = ["--schema", "mail.toml", "--workload", "asked.json", *BUDGET]
    assert run(["release", "mail.parquet", *asked, "--mechanism", mechanism, "-o", "out.conspectus"]) == 0
    assert run(["report", "out.conspectus", "-o", "out.html"]) == 0
    capsys.readouterr()
    if mechanism != "laplace":
        assert run(["ask", "out.conspectus", "address = 'all@x'", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        (answer,) = told["answers"] if isinstance(told, dict) else told
        # The interval misses one time in twenty; by 0.05, which is 125 rows, hardly once in e^30.
        assert answer["low"] - 0.05 <= 0.2 <= answer["high"] + 0.05
        assert answer["low"] <= answer["fraction"] <= answer["high"] < 0.5


def test_published_records_are_exported_and_synthesized(mail, capsys):
    asked = ["--schema", "mail.toml", "--workload", "asked.json", *BUDGET]
    assert run(["release", "mail.parquet", *asked, "--mechanism", "stable-histogram", "-o", "out.conspectus"]) == 0
    assert run(["export", "out.conspectus", "--table", "address", "-o", "out.csv"]) == 0
    assert run(["synthesize", "out.conspectus", "-n", "20", "-o", "rows.csv"]) == 0
    assert run(["report", "out.conspectus", "-o", "out.html"]) == 0
    lines = (mail / "out.csv").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith('"all@x",') for line in lines[1:])
    assert set((mail / "rows.csv").read_text(encoding="utf-8").splitlines()[1:]) == {'"all@x"'}
    page = (mail / "out.html").read_text(encoding="utf-8")
    assert "published records" in page
    assert "all@x" in page
    assert "u7@x" not in page


def test_what_needs_a_list_of_values_is_refused_in_one_sentence(mail, capsys):
    asked = ["mail.parquet", "--schema", "mail.toml", *BUDGET, "-o", "out.conspectus"]
    assert run(["release", *asked, "--marginals", "1"]) == 2
    assert run(["release", *asked, "--workload", "asked.json", "--mechanism", "mwem"]) == 4
    said = capsys.readouterr().err
    assert "too many for memory" in said
    assert "sparse-project" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("mechanism", ["sparse-project", "stable-histogram"])
def test_a_file_without_questions(mail, mechanism, capsys):
    asked = ["mail.parquet", "--schema", "mail.toml", "--workload", "asked.json", *BUDGET, "--without-questions"]
    assert run(["release", *asked, "--mechanism", mechanism, "-o", "out.conspectus"]) == 0
    assert "Released 10 answers" in capsys.readouterr().out
    assert run(["ask", "out.conspectus", "address = 'all@x'"]) == 0
    assert run(["report", "out.conspectus", "-o", "out.html"]) == 0
    page = (mail / "out.html").read_text(encoding="utf-8")
    assert "10 answers: the file does not list their questions" in page
    assert "answers 10 questions" in page
    capsys.readouterr()
    assert run(["release", *asked, "--mechanism", "laplace", "-o", "other.conspectus"]) == 2
    assert run(["release", *asked, "-o", "other.conspectus"]) == 2
    assert "--mechanism sparse-project" in capsys.readouterr().err
    assert not (mail / "other.conspectus").exists()


def test_the_plan_names_the_projection(mail, capsys):
    assert run(["plan", "--rows", "2500", "--schema", "mail.toml", "--workload", "asked.json", *BUDGET, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"sparse-project", "laplace", "gaussian"} <= {claim["mechanism"] for claim in told["claims"]}
