"""The site and the files that a project is known by: nothing is forgotten, and there is one version number."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import conspectus as cs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_has_every_public_name_at_its_home(hooks: ModuleType) -> None:
    text = hooks.reference()
    named = re.findall(r'^      heading: "cs\.(\w+)"$', text, re.MULTILINE)
    assert set(named) == {name for name in cs.__all__ if not name.startswith("__")}
    for address in re.findall(r"^::: (\S+)$", text, re.MULTILINE):
        module, _, name = address.rpartition(".")
        try:
            importlib.import_module(address)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), name), address


def test_the_reference_has_what_users_hold(hooks: ModuleType) -> None:
    returned = {kind.__name__ for kind in hooks.returned(getattr(cs, name) for name in cs.__all__)}
    assert returned >= {"Answer", "LiveAnswer", "Guarantee", "Certificate", "Claim", "Refusal", "Session", "Table"}


def test_every_proof_note_and_every_notebook_is_shown(hooks: ModuleType) -> None:
    shown = hooks.copies()
    assert {*ROOT.glob("src/**/*.proof.md"), *ROOT.glob("examples/*.ipynb")} <= set(shown)
    assert len(set(shown.values())) == len(shown)


def test_links_are_turned_to_the_pages_of_the_site(hooks: ModuleType) -> None:
    note = next(path for path in hooks.copies() if path.name == "curator.proof.md")
    page = hooks.copies()[note]
    written = (
        f"[a](../{note.relative_to(ROOT).as_posix()}#select) [b](../pyproject.toml) [c](nowhere.md) [d](ledger.md)"
    )
    turned = hooks.relinked(written, ROOT / "docs" / "guarantees.md", "guarantees.md", hooks.copies())
    assert turned == f"[a]({page}#select) b [c](nowhere.md) [d](ledger.md)"
    deep = hooks.relinked("[d](ledger.md)", ROOT / "docs" / "guarantees.md", "proofs/x/y.md", hooks.copies())
    assert deep == "[d](../../ledger.md)"
    code = "```python\nx[a](../pyproject.toml)\n```\n"
    assert hooks.relinked(code, ROOT / "docs" / "guarantees.md", "guarantees.md", {}) == code


def test_the_site_builds_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    """A broken link, a page without a place and a name without a home are warnings, and warnings fail."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        fetched = re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="https?:', page.read_text(encoding="utf-8"))
        assert fetched == [], page.name


def test_the_example_on_the_first_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    declared = '[columns.age]\ntype = "integer"\nmin = 18\nmax = 97\nwidth = 10\n[columns.smoker]\ntype = "boolean"\n'
    Path("patients.toml").write_text(f'name = "patients"\n{declared}', encoding="utf-8")
    Path("patients.csv").write_text("age,smoker\n" + "60,true\n30,false\n" * 500, encoding="utf-8")
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    exec(compile(text, "index.md", "exec"), {})
    assert Path("patients.conspectus").exists()


def test_there_is_one_version_number() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in project
    assert not re.search(r'^version = "', project, re.MULTILINE)
    (cited,) = re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    newest = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert cited == newest[1] == cs.__version__


def test_five_papers_are_cited() -> None:
    cited = re.findall(r"^    title: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(cited) == 5
    assert {title.strip('"') for title in cited} == {
        "Boosting and Differential Privacy",
        "Dual Query: Practical Private Query Release for High Dimensional Data",
        "Fast Private Data Release Algorithms for Sparse Queries",
        "The Algorithmic Foundations of Differential Privacy",
    }


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "CITATION.cff", "mkdocs.yml"])
def test_no_path_of_one_machine_is_told_and_lines_are_short(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(work|tmp|home|root|Users)/", text)
    assert all(len(line) <= 120 or line.startswith("|") for line in text.splitlines())
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert target.startswith("http") or (ROOT / target).exists(), target
