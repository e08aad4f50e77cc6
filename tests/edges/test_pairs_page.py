"""The page about users and items is true: its examples run, in Python and on the command line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import conspectus as cs

from .conftest import Command

PAGE = Path(__file__).parent.parent.parent / "docs" / "pairs.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if kind == language]


@pytest.fixture
def views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """1,900 viewers, of whom each has seen a few of the 40 films."""
    rng = np.random.Generator(np.random.PCG64(5))
    lines = [f"{viewer},film {film}" for viewer in range(1900) for film in np.unique(rng.integers(0, 40, 3))]
    (tmp_path / "views.csv").write_text("viewer,film\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "films.txt").write_text("".join(f"film {k}\n" for k in range(40)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_python_example_runs(views: Path) -> None:
    names: dict[str, object] = {}
    for text in blocks("python"):
        exec(compile(text, "pairs.md", "exec"), names)
    made = names["release"]
    assert isinstance(made, cs.Release)
    pairs = made.synthetic_pairs(500, public_seed=1)
    assert pairs.column_names == ["viewer", "film"]
    assert set(pairs["film"].to_pylist()) <= {f"film {k}" for k in range(40)}
    wide = made.synthetic(500, public_seed=1)
    assert sum(wide.column(c).to_numpy(zero_copy_only=False).sum() for c in range(40)) == pairs.num_rows


def test_the_schema_example_is_a_schema(views: Path) -> None:
    (text,) = blocks("toml")
    (views / "page.toml").write_text(text, encoding="utf-8")
    schema = cs.Schema.load(views / "page.toml")
    assert schema.unit.users == 2000
    assert len(schema.columns) == 40
    table = cs.open_table(views / "views.csv", schema)
    assert sum(chunk.rows for chunk in table.chunks(())) == 2000


def test_commands_run(views: Path, command: Command) -> None:
    lines = "\n".join(blocks("sh")).replace("\\\n", " ").splitlines()
    for line in lines:
        words = shlex.split(line, comments=True)
        target = None
        if ">" in words:
            words, target = words[: words.index(">")], words[-1]
        said = command(*words[1:])
        assert said.code == 0, (line, said.err)
        if target is not None:
            assert "NOT PRIVATE" in said.err
            (views / target).write_text(said.out, encoding="utf-8")
            drafted = cs.Schema.load(views / target)
            assert drafted.draft
            assert drafted.domain.names == tuple(sorted(f"film {k}" for k in range(40)))
    assert (views / "made.csv").read_text(encoding="utf-8").splitlines()[0].replace('"', "") == "viewer,film"


def test_refusals(views: Path, command: Command) -> None:
    said = command("schema", "draft", "views.csv", "--pairs", "viewer")
    assert said.code == 2
    assert "two names" in said.err
    both = 'items = ["a"]\nitems_file = "films.txt"\n[unit]\nkind = "pairs"\ncolumn = "viewer"\nitem = "film"\n'
    (views / "both.toml").write_text(both, encoding="utf-8")
    assert command("schema", "check", "both.toml").code == 2
    good = both.replace('items = ["a"]\n', "")
    (views / "good.toml").write_text(good, encoding="utf-8")
    assert command("schema", "check", "good.toml").code == 0
    said = command("schema", "check", "good.toml", "views.csv")
    assert said.code == 2
    assert "no values to check" in said.err


def test_the_report_names_the_unit(views: Path, command: Command) -> None:
    table = cs.open_pairs(views / "views.csv", "viewer", "film", items=[f"film {k}" for k in range(600)])
    questions = cs.conjunctions(table.schema, [{"film 1": True, "film 2": False}])
    cs.release(table, questions, epsilon=1.0, mechanism="laplace").save(views / "out.conspectus")
    assert command("report", "out.conspectus", "-o", "report.html").code == 0
    page = (views / "report.html").read_text(encoding="utf-8")
    assert "viewer (all pairs)" in page
    assert "and 100 more" in page
