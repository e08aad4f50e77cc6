"""Documents that cannot rot: examples run, commands exist, every guarantee has its proof, no stray paths."""

from __future__ import annotations

import ast
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from conspectus.cli import run
from conspectus.cli.people import write_people
from conspectus.data.schema import Schema

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "conspectus"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *SOURCE.rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(path: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(path.read_text(encoding="utf-8")) if kind == language]


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("smoker AND age >= 58\n"))  # for whoever asks line by line
    write_people(tmp_path)
    return tmp_path


EXAMPLES = (
    "README.md",
    "docs/guarantees.md",
    "docs/boosting.md",
    "docs/ledger.md",
    "docs/live-sessions.md",
    "docs/sparse.md",
    "docs/small-db.md",
    "docs/composition.md",
)


@pytest.mark.parametrize("page", EXAMPLES)
def test_python_examples_run(page: str, people: Path) -> None:
    names: dict[str, object] = {}
    found = blocks(ROOT / page, "python")
    assert found
    for text in found:
        exec(compile(text, page, "exec"), names)


def commands(page: Path) -> list[list[str]]:
    """Every line of a shell example that calls us, with its continuation and without its comment."""
    text = "\n".join(blocks(page, "sh")).replace("\\\n", " ")
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    return [line[1:] for line in lines if line and line[0] == "conspectus"]


def test_session_examples_run(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = commands(ROOT / "docs" / "live-sessions.md")
    assert [line[0] for line in found] == ["session", "ask"]
    for line in found:
        assert run(line) == 0, (line, capsys.readouterr().err)


def test_ledger_examples_run(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = commands(ROOT / "docs" / "ledger.md")
    assert [line[0] for line in found] == ["ledger", "release", "release", "ledger"]
    for line in found:
        assert run(line) == 0, (line, capsys.readouterr().err)


def test_command_examples_run(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = commands(ROOT / "README.md")
    assert {line[0] for line in found} >= {"release", "ask", "ledger", "report", "export", "synthesize", "audit"}
    for line in found:
        if line[0] == "audit":
            continue  # its time is minutes; `make audit` runs it
        assert run(line) == 0, (line, capsys.readouterr().err)


def test_help_lists_every_command_of_the_documents(capsys: pytest.CaptureFixture[str]) -> None:
    mentioned = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        mentioned |= set(re.findall(r"`conspectus ([a-z]+)", text)) | {line[0] for line in commands(page)}
    assert mentioned
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert {name for name in mentioned if f" {name} " not in shown} == set()


def test_schema_examples_are_schemas(tmp_path: Path) -> None:
    found = blocks(ROOT / "README.md", "toml")
    assert found
    for number, text in enumerate(found):
        path = tmp_path / f"{number}.toml"
        path.write_text(text, encoding="utf-8")
        assert len(Schema.load(path).columns) == 2


def guarantees(path: Path) -> list[str]:
    """The names of functions, methods and classes whose docstring states a guarantee."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [n.name for n in ast.walk(tree) if isinstance(n, kinds) and "Guarantee:" in (ast.get_docstring(n) or "")]


def missing_proofs(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.rglob("*.py")):
        names = guarantees(path)
        notes = path.with_name(f"{path.stem}.proof.md")
        text = notes.read_text(encoding="utf-8") if notes.exists() else ""
        headings = {heading.strip("`") for heading in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE)}
        found += [f"{path.name}: {name}" for name in names if name not in headings]
    return found


@pytest.mark.parametrize("room", ["privacy", "curator", "sessions"])
def test_every_guarantee_has_a_proof_under_its_name(room: str) -> None:
    assert any(guarantees(path) for path in (SOURCE / room).rglob("*.py"))
    assert missing_proofs(SOURCE / room) == []


def test_a_missing_proof_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "noise.py").write_text('def draw():\n    """x\n\n    Guarantee: y\n    """\n', encoding="utf-8")
    assert missing_proofs(tmp_path) == ["noise.py: draw"]
    (tmp_path / "noise.proof.md").write_text("# Noise\n\n## draw\n\nBecause.\n", encoding="utf-8")
    assert missing_proofs(tmp_path) == []


@pytest.mark.parametrize("door", ["measure", "select", "above_threshold"])
def test_each_door_states_its_guarantee(door: str) -> None:
    assert door in guarantees(SOURCE / "curator" / "curator.py")


def test_the_picture_of_the_house_is_true() -> None:
    """Every module of the package stands in docs/architecture.md, and every module named there exists."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (picture,) = [block for block in BLOCK.findall(text) if block[0] == "text"]
    named = set(re.findall(r"\b([a-z_]+)\.py\b", picture[1]))
    there = {path.stem for path in SOURCE.rglob("*.py") if not path.stem.startswith("__")}
    assert there - named == set()
    assert named - there == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere_and_no_path_of_one_machine_is_told(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(work|tmp|home|root)/", text)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
