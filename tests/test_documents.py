"""Documents that cannot rot: examples run, commands exist, guarantees have proofs, pictures and docstrings are true."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import inspect
import io
import re
import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.cli import run
from conspectus.cli.people import write_people
from conspectus.data.schema import Schema
from conspectus.mechanisms.registry import ONLINE
from conspectus.queries.sensitivity import WorkloadError
from conspectus.sessions.session import Session

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
    "docs/attacks.md",
    "docs/choosing.md",
    "docs/local.md",
    "docs/streams.md",
    "docs/ledger.md",
    "docs/series.md",
    "docs/live-sessions.md",
    "docs/numbers.md",
    "docs/results.md",
    "docs/single-values.md",
    "docs/sql.md",
    "docs/schema.md",
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
    assert [line[0] for line in found] == ["plan", "session", "ask", "ask"]
    for line in found:
        assert run(line) == 0, (line, capsys.readouterr().err)


def test_ledger_examples_run(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = commands(ROOT / "docs" / "ledger.md")
    done = ["ledger", "release", "release", "ledger", "ledger", "release", "ledger", "ledger"]
    assert [line[0] for line in found] == done
    for line in found:
        assert run(line) == 0, (line, capsys.readouterr().err)


def test_series_examples_run(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = commands(ROOT / "docs" / "series.md")
    assert [line[:2] for line in found][1:] == [["series", name] for name in ("open", "release", "show", "end")]
    for line in found:
        assert run(line) == 0, (line, capsys.readouterr().err)


def test_command_examples_run(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = commands(ROOT / "README.md")
    assert {line[0] for line in found} >= {"release", "ask", "ledger", "report", "export", "synthesize", "audit"}
    for line in found:
        if line[0] == "audit":
            continue  # its time is minutes; `make audit` runs it
        if line[0] in ("serve", "studio"):
            continue  # they run until they are stopped; tests/service starts them
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


def stated(path: Path) -> dict[str, ast.FunctionDef | ast.ClassDef]:
    """Functions, methods and classes whose docstring states a guarantee, by name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and "Guarantee:" in (ast.get_docstring(node) or ""):
            found[node.name] = node
    return found


def missing_proofs(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.rglob("*.py")):
        notes = path.with_name(f"{path.stem}.proof.md")
        text = notes.read_text(encoding="utf-8") if notes.exists() else ""
        headings = {heading.strip("`") for heading in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE)}
        found += [f"{path.relative_to(folder)}: {name}" for name in stated(path) if name not in headings]
    return found


def missing_guarantees(folder: Path) -> list[str]:
    """What privacy rests on and says nothing about it: doors, scores and nets, samplers, blocks of queries."""
    return [
        *_silent(folder, "curator", _doors),
        *_silent(folder, "curator", _players),
        *_silent(folder, "privacy", _samplers),
        *_silent(folder, "queries", _blocks),
    ]


Finder = Callable[[ast.Module], Iterator[str]]


def _silent(folder: Path, room: str, wanted: Finder) -> list[str]:
    paths = sorted((folder / room).rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    said = {name for path in paths for name in stated(path)}
    return [f"{path.relative_to(folder)}: {name}" for path in paths for name in wanted(trees[path]) if name not in said]


def _doors(tree: ast.Module) -> Iterator[str]:
    """Public methods of the curator that debit an act and draw from the sampler."""
    for kind in tree.body:
        if isinstance(kind, ast.ClassDef) and kind.name == "Curator":
            for node in kind.body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    used = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
                    if "_sampler" in used:
                        yield node.name


def _players(tree: ast.Module) -> Iterator[str]:
    """Members of the closed lists: Score = A | B | …, Net = A | B | …"""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("Score", "Net"):
            yield from (name.strip() for name in ast.unparse(node.value).split("|"))


def _samplers(tree: ast.Module) -> Iterator[str]:
    """Public functions that draw."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and "sampler" in _parameters(node):
            yield node.name


def _parameters(function: ast.FunctionDef) -> set[str]:
    return {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}


def _blocks(tree: ast.Module) -> Iterator[str]:
    """Blocks: classes that say how far one unit moves them, or inherit it from counting blocks; roles are none."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name not in ("CountingBlock", "Workload"):
            bases = {ast.unparse(base) for base in node.bases}
            methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            if "Protocol" not in bases and ("CountingBlock" in bases or "sensitivity" in methods):
                yield node.name


def test_every_guarantee_has_a_proof_under_its_name() -> None:
    assert missing_proofs(SOURCE) == []
    rooms = {path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py") if stated(path)}
    assert rooms >= {"privacy", "curator", "queries", "sessions", "data", "mechanisms"}


def test_a_missing_proof_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "noise.py").write_text('def draw():\n    """x\n\n    Guarantee: y\n    """\n', encoding="utf-8")
    assert missing_proofs(tmp_path) == ["noise.py: draw"]
    (tmp_path / "noise.proof.md").write_text("# Noise\n\n## draw\n\nBecause.\n", encoding="utf-8")
    assert missing_proofs(tmp_path) == []


def test_whatever_privacy_rests_on_states_its_guarantee() -> None:
    assert missing_guarantees(SOURCE) == []


DOORS = ("measure", "select", "above_threshold", "stable_keys", "stable_value")


def test_there_are_five_doors() -> None:
    (doors,) = filter(None, (list(_doors(ast.parse(path.read_text()))) for path in (SOURCE / "curator").glob("*.py")))
    assert tuple(doors) == DOORS


SILENT = {
    "curator/curator.py": "class Curator:\n    def fifth(self): return self._sampler\n    def rows(self): return 1\n",
    "curator/scores.py": "class Told:\n    'Guarantee: x'\nclass Quiet: ...\nScore = Told | Quiet\n",
    "privacy/noise.py": "def draw(scale, sampler): ...\ndef _inner(sampler): ...\ndef shown(scale): ...\n",
    "queries/blocks/new.py": "class Cells(CountingBlock): ...\nclass Sums:\n    def sensitivity(self): ...\n",
    "queries/block.py": "class Block(Protocol):\n    def sensitivity(self): ...\n",
}


def test_a_missing_guarantee_is_noticed(tmp_path: Path) -> None:
    for file, text in SILENT.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    assert missing_guarantees(tmp_path) == [
        "curator/curator.py: fifth",
        "curator/scores.py: Quiet",
        "privacy/noise.py: draw",
        "queries/blocks/new.py: Cells",
        "queries/blocks/new.py: Sums",
    ]


def paths_of(picture: str) -> list[str]:
    """The paths that a tree picture shows, as often as it does.

    Two spaces a level. A line names one folder, or one module or more; what comes after two spaces explains them. A
    line that names nothing goes on explaining.
    """
    found: list[str] = []
    folders: list[str] = []
    for line in picture.splitlines():
        names = re.match(r" *((?:[\w.]+(?:/|\.py) ?)+)(?= |$)", line)
        if names is None:
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        del folders[depth:]
        for name in names[1].split():
            found.append("/".join([*folders, name.rstrip("/")]) + ("/" if name.endswith("/") else ""))
        if names[1].strip().endswith("/"):
            folders.append(names[1].strip().rstrip("/"))
    return found


def twice(paths: list[str]) -> list[str]:
    return sorted(path for path, times in Counter(paths).items() if times > 1)


def house_paths(source: Path) -> set[str]:
    """Every folder and every module but `__init__`, below the package's own folder."""
    modules = {path.relative_to(source) for path in source.rglob("*.py")}
    folders = {f"{folder}/" for path in modules for folder in path.parents if folder != Path()}
    return {str(path) for path in modules if path.name != "__init__.py"} | folders


def test_the_picture_of_the_house_is_true() -> None:
    """Every module of the package stands in docs/architecture.md under its own path, and every path there exists."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = next(block for kind, block in BLOCK.findall(text) if kind == "text" and block.startswith("conspectus/"))
    paths = [path.removeprefix("conspectus/") for path in paths_of(picture)]
    shown = set(paths) - {""}
    assert {
        "there twice": twice(paths),
        "not in the picture": sorted(house_paths(SOURCE) - shown),
        "not there": sorted(shown - house_paths(SOURCE)),
    } == {
        "there twice": [],
        "not in the picture": [],
        "not there": [],
    }


def test_a_module_in_the_wrong_room_is_noticed(tmp_path: Path) -> None:
    for file in ("data/domain.py", "data/columns/dates.py", "queries/query.py", "queries/__init__.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    true = "data/  X\n  domain.py  cells,\n             and more\n  columns/\n    dates.py\nqueries/\n  query.py\n"
    assert set(paths_of(true)) == house_paths(tmp_path)
    assert set(paths_of(true.replace("    dates.py", "  dates.py"))) ^ house_paths(tmp_path) == {
        "data/dates.py",
        "data/columns/dates.py",
    }
    assert twice(paths_of(true)) == []


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("  query.py block.py\n", ["queries/query.py"]),
        ("  block.py block.py  blocks\n", ["queries/block.py"]),
        ("data/\n  domain.py\n", ["data/", "data/domain.py"]),
    ],
)
def test_a_module_that_a_picture_names_twice_is_noticed(line: str, named: list[str]) -> None:
    """All that is there is shown, and nothing else: only that it is there twice is wrong."""
    true = "data/  X\n  domain.py  cells\nqueries/\n  query.py\n"
    assert twice(paths_of(true + line)) == named


def examples(path: Path) -> list[tuple[str, int, str]]:
    """The docstrings of a module that hold examples: name, line, text. Read from the file, whatever decorates them."""
    found = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ">>>" in (ast.get_docstring(node) or ""):
            found.append((getattr(node, "name", path.stem), node.body[0].lineno, ast.get_docstring(node) or ""))
    return found


def failed_examples(path: Path, names: dict[str, Any]) -> list[str]:
    parser, failures = doctest.DocTestParser(), []
    for name, line, text in examples(path):
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        said = io.StringIO()
        runner.run(parser.get_doctest(text, dict(names), name, str(path), line), out=said.write)
        if runner.failures:
            failures.append(said.getvalue())
    return failures


SCHEMA = {
    "name": "patients",
    "columns": {
        "sex": {"type": "categorical", "values": ["female", "male"]},
        "age": {"type": "integer", "min": 0, "max": 99, "width": 20},
        "smoker": {"type": "boolean"},
        "diagnosis": {"type": "categorical", "values": ["none", "heart", "lung"]},
    },
}
"""What examples in docstrings call `schema`; their `table` holds 40 made patients."""


def example_names() -> dict[str, Any]:
    schema = cs.Schema.from_dict(SCHEMA)
    rows = {
        "sex": ["female", "male"] * 20,
        "age": [(7 * number) % 100 for number in range(40)],
        "smoker": [number % 3 == 0 for number in range(40)],
        "diagnosis": ["none", "none", "heart", "lung"] * 10,
    }
    return {"cs": cs, "schema": schema, "table": cs.open_table(pa.table(rows), schema)}


WITH_EXAMPLES = [path for path in sorted(SOURCE.rglob("*.py")) if examples(path)]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_examples_in_docstrings_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    home = ".".join(["conspectus", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")
    assert failed_examples(path, vars(importlib.import_module(home)) | example_names()) == []


@pytest.mark.audit
@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_examples_hold_whatever_was_drawn(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example that fails once in ten runs is noticed with probability .99."""
    for number in range(44):
        (tmp_path / str(number)).mkdir()
        test_examples_in_docstrings_run(path, tmp_path / str(number), monkeypatch)


def test_the_calls_that_people_make_have_examples() -> None:
    kinds = (cs.mechanisms.Pmw, cs.mechanisms.SparseMw, cs.mechanisms.Median, cs.mechanisms.Perceptron)
    for call in (cs.plan, cs.release, cs.open_session, cs.resume_session, *kinds):
        assert ">>> " in (call.__doc__ or ""), call
        assert "Args:" in (call.__doc__ or ""), call


@pytest.mark.parametrize("name", ONLINE)
def test_every_setting_of_an_online_mechanism_is_explained(name: str) -> None:
    kind = ONLINE[name].load()
    explained = kind.__doc__.split("Example:")[0]
    assert all(f"    {field.name}: " in explained for field in dataclasses.fields(kind))


def test_a_wrong_example_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "sums.py"
    path.write_text(
        'def add():\n    """Add.\n\n    Example:\n        >>> 1 + 1\n        3\n    """\n', encoding="utf-8"
    )
    assert len(failed_examples(path, {})) == 1


def public_names() -> dict[str, Any]:
    """Everything that users call, by the name under which they find it: functions, classes and their methods."""
    found: dict[str, Any] = {}
    given = {name: getattr(cs, name) for name in cs.__all__} | {"Session": Session}  # what open_session returns
    for name, value in given.items():
        if inspect.ismodule(value):
            found |= {f"{name}.{each}": getattr(value, each) for each in value.__all__}
        elif callable(value):
            found[name] = value
    for name, value in list(found.items()):
        # The methods of a mechanism play a role that the library calls; users make it, and hand it over.
        settings = name.startswith("mechanisms.")
        if inspect.isclass(value) and not issubclass(value, Exception) and not settings:
            members = inspect.getmembers_static(value)
            found |= {f"{name}.{key}": member for key, member in members if _public_member(key, member, value)}
    return found


def _public_member(name: str, member: Any, kind: type) -> bool:
    plain = getattr(member, "__func__", getattr(member, "fget", getattr(member, "func", member)))
    ours = str(getattr(plain, "__module__", "")).startswith("conspectus") and not inspect.isclass(plain)
    return not name.startswith("_") and name in vars(kind) and callable(plain) and ours


def lacking(value: Any) -> list[str]:
    """The parts that a docstring should have and has not."""
    plain = inspect.unwrap(getattr(value, "__func__", value))
    text = inspect.getdoc(plain) or ""
    if not text:
        return ["a docstring"]
    if inspect.isclass(plain):
        missing = [] if issubclass(plain, Exception) or ">>>" in text else ["Example"]
        if dataclasses.is_dataclass(plain) and plain.__module__.startswith("conspectus.mechanisms"):
            told = _part(text, "Args") + _part(text, "Attributes")
            settings = [field.name for field in dataclasses.fields(plain) if field.init]
            missing += [f"Args: {name}" for name in settings if not re.search(rf"^ +{name}:", told, re.MULTILINE)]
        return missing
    if not inspect.isfunction(plain):
        return []  # a property says what it is
    signature = inspect.signature(plain)
    parameters = [name.lstrip("*") for name in signature.parameters if name not in ("self", "cls")]
    missing = [
        f"Args: {name}" for name in parameters if not re.search(rf"^ +\*{{0,2}}{name}:", _part(text, "Args"), re.M)
    ]
    if signature.return_annotation not in (None, "None", "Self") and not _part(text, "Returns"):
        missing.append("Returns")
    if _raises(plain) and not _part(text, "Raises"):
        missing.append("Raises")
    method = "." in plain.__qualname__.rpartition("<locals>.")[2]  # the example of its class shows it
    return missing if method or ">>>" in _part(text, "Example") else [*missing, "Example"]


def _part(text: str, name: str) -> str:
    """The indented lines below a heading of a docstring."""
    found = re.search(rf"^{name}:\n((?:(?: .*)?\n)*(?: .*)?)", text, re.MULTILINE)
    return found[1] if found else ""


def _raises(function: Callable[..., Any]) -> bool:
    """Whether its own lines raise an error of ours."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    names = {
        ast.unparse(node.exc.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    }
    raised = [function.__globals__.get(name) for name in names]
    return any(inspect.isclass(kind) and kind.__module__.startswith("conspectus") for kind in raised)


def test_public_names_say_how_to_call_them() -> None:
    found = {name: parts for name, value in public_names().items() if (parts := lacking(value))}
    assert found == {}


def test_a_docstring_that_says_too_little_is_noticed() -> None:
    def told(rows: int, *, scale: float = 1.0) -> int:
        """Count.

        Args:
            rows: how many.
            scale: how far.

        Returns:
            A number.

        Raises:
            WorkloadError: never.

        Example:
            >>> 1
            1
        """
        if rows < 0:
            raise WorkloadError("no")
        return rows

    assert lacking(told) == []
    text = told.__doc__ or ""
    for part, rest in {
        "Args: scale": text.replace("    scale: how far.", ""),
        "Returns": text.replace("Returns:", "Gives:"),
        "Raises": text.replace("Raises:", "Throws:"),
        "Example": text.replace(">>>", ""),
    }.items():
        told.__doc__ = rest
        assert lacking(told) == [part]
    told.__doc__ = None
    assert lacking(told) == ["a docstring"]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere_and_no_path_of_one_machine_is_told(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(work|tmp|home|root)/", text)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
