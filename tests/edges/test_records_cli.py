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
    """At this delta one of the 400 addresses of five rows is published, too, once in three million runs."""
    asked = ["--schema", "mail.toml", "--workload", "asked.json", "--epsilon", "1", "--delta", "1e-10"]
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
    assert "holds records of any kind, and not all of them can be listed" in said
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


def test_a_table_of_records_cannot_be_listed_and_small_db_names_who_can(mail, capsys):
    asked = ["mail.parquet", "--schema", "mail.toml", "--workload", "asked.json", *BUDGET, "-o", "out.conspectus"]
    assert run(["release", *asked, "--mechanism", "laplace"]) == 0
    capsys.readouterr()
    assert run(["export", "out.conspectus", "--table", "address", "-o", "table.csv"]) == 2
    said = capsys.readouterr().err
    assert "ask about some, by their values or with cs.sparse" in said
    assert "coarser" not in said
    assert run(["release", *asked, "--mechanism", "small-db"]) == 4
    assert "use sparse-project or laplace" in capsys.readouterr().err


def test_no_maker_tries_to_list_all_records(mail):
    schema = cs.Schema.load("mail.toml")
    makers = (
        lambda: cs.marginal(schema, ["address"]),
        lambda: cs.marginals(schema, 1),
        lambda: cs.random_conjunctions(schema, 1, 5, 1),
        lambda: cs.mode_shares(schema),
    )
    for make in makers:
        with pytest.raises(ValueError, match="not all of them can be listed"):
            make()


def test_records_need_no_schema(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = [f"w{i % 300}" for i in range(1200)] + ["all"] * 600
    (tmp_path / "words.csv").write_text("\n".join(["word", *words]) + "\n", encoding="utf-8")
    cs.sparse([["all"], ["w1", "w2"]]).save("asked.json")
    workload = ["--workload", "asked.json", "--epsilon", "50"]
    assert run(["plan", "--rows", "1800", *workload]) == 0
    assert run(["release", "words.csv", *workload, "--mechanism", "laplace", "-o", "bare.conspectus"]) == 0
    (tmp_path / "words.toml").write_text('name = "w"\n[columns.word]\ntype = "record"\n', encoding="utf-8")
    declared = ["--schema", "words.toml", *workload, "--mechanism", "laplace", "-o", "declared.conspectus"]
    assert run(["release", "words.csv", *declared]) == 0
    for name in ("bare", "declared"):
        answers = cs.load(f"{name}.conspectus").answers
        # Noise of scale 1/25 on counts: beyond two counts once in e^50.
        assert abs(answers[0] - 600 / 1800) < 2 / 1800
        assert abs(answers[1] - 8 / 1800) < 2 / 1800
    capsys.readouterr()
    assert run(["ask", "bare.conspectus", "record = 'all'", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert answer["basis"] == "measured"
    assert abs(answer["fraction"] - 600 / 1800) < 2 / 1800
    for unmeasured in ("record = 'w7'", "NOT record = 'all'", "record IS NOT NULL"):
        assert run(["ask", "bare.conspectus", unmeasured]) == 2
    assert "Traceback" not in capsys.readouterr().err
    for missing in (["--marginals", "1"], ["--marginals", "1", *workload[:2]], []):
        budget = [*missing, "--epsilon", "1", "-o", "x.conspectus"]
        assert run(["release", "words.csv", *budget]) == 2
        said = capsys.readouterr().err
        assert "--schema is missing" in said
        assert "cs.sparse" in said


def test_a_workload_of_records_fits_any_one_column_of_them():
    schema = cs.Schema.from_dict({"name": "w", "columns": {"word": {"type": "record"}}})
    table = cs.open_table(pa.table({"word": ["a", "b", "a"]}), schema)
    release = cs.release(table, cs.sparse([["a"], ["b"]]), epsilon=100, mechanism="laplace")
    assert abs(release.answers - [2 / 3, 1 / 3]).max() < 0.2
    other = cs.Schema.from_dict({"name": "x", "columns": {"word": {"type": "boolean"}}})
    truths = cs.open_table(pa.table({"word": [True]}), other)
    with pytest.raises(ValueError, match="another schema"):
        cs.release(truths, cs.sparse([["a"]]), epsilon=1)


def test_a_draft_of_many_words_proposes_records(tmp_path, capsys):
    words = [f"w{i}" for i in range(600) for _ in range(3)]
    (tmp_path / "words.csv").write_text("\n".join(["word", *words]) + "\n", encoding="utf-8")
    assert run(["schema", "draft", str(tmp_path / "words.csv")]) == 0
    text = capsys.readouterr().out
    assert 'type = "record"' in text
    assert "w17" not in text
    (tmp_path / "drafted.toml").write_text(text, encoding="utf-8")
    assert cs.Schema.load(tmp_path / "drafted.toml").column("word").kind == "record"
    lines = [f"{word},{i % 7}" for i, word in enumerate(words)]
    (tmp_path / "two.csv").write_text("\n".join(["word,n", *lines]) + "\n", encoding="utf-8")
    assert run(["schema", "draft", str(tmp_path / "two.csv")]) == 0
    both = capsys.readouterr().out
    assert 'type = "categorical"' in both
    assert '# type = "record"' in both
