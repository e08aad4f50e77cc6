"""The page about wide tables: its examples run as they stand, in order."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv as pc
import pytest
from tests.test_documents import ROOT, blocks, commands

from conspectus.cli import run

PAGE = ROOT / "docs" / "wide-tables.md"


def test_the_story_runs_from_table_to_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    making, using = blocks(PAGE, "python")
    names: dict[str, object] = {}
    exec(compile(making, "making", "exec"), names)
    lines = commands(PAGE)
    assert [line[0] for line in lines] == ["release", "synthesize", "ask", "report"]
    for line in lines:
        assert run(line) == 0, (line, capsys.readouterr().err)
    synthetic = pc.read_csv("synthetic.csv")
    assert synthetic.num_rows == 5000
    assert set(synthetic["q7"].unique().to_pylist()) <= {"no", "maybe", "yes"}
    page = Path("survey.html").read_text(encoding="utf-8")
    assert "epsilon_by_theorem_4_3" in page
    exec(compile(using, "using", "exec"), names)
