"""Every command on names and texts that are odd: it works or is refused in one sentence, and what is refused is free.

The commands and their options are those that the parser knows; each has a call here that works, and the laws put one
odd value into it at a time.
"""

from __future__ import annotations

import io
import os
import shutil
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.edges.conftest import ROWS, SCHEMA, Command, write_table

import conspectus as cs
from conspectus.cli import run
from conspectus.cli.app import app
from conspectus.cli.texts import PLACES
from conspectus.service.analysts import Analysts

BUDGET = {"schema": "small.toml", "epsilon": "1"}
MADE = {**BUDGET, "data": "small.csv", "ledger": "book", "study": "", "by": ""}
CALLS: dict[str, dict[str, Any]] = {
    "plan": {**BUDGET, "marginals": "1", "mechanism": "laplace", "rows": "240", "objective": "max"},
    "release": {**MADE, "out": "o.conspectus", "marginals": "1", "mechanism": "laplace", "columns": "sex,ill"},
    "value": {**MADE, "median": "age", "mechanism": "exponential", "output": "v.conspectus"},
    "ask": {"words": ["small.conspectus", "ill"]},
    "sql": {"words": ["small.conspectus", "SELECT COUNT(*) FROM small"]},
    "export": {"out": "small.conspectus", "output": "e.csv", "table": "sex"},
    "synthesize": {"out": "rows.conspectus", "rows": "5", "output": "r.csv"},
    "report": {"out": "small.conspectus", "output": "r.html", "ledger": "book", "owner": "me", "purpose": "x"},
    "evaluate": {"out": "small.conspectus", "data": "small.csv"},
    "session": {**MADE, "path": "new.session", "questions": "5", "mechanism": "laplace"},
    "studio": {"data": "small.csv", "folder": ".", "ledger": "book", "browser": None},
    "audit": {"mechanism": "histogram", "trials": "1000"},
    "attack": {"mechanism": "laplace", "epsilon": "1", "kind": "differencing", "runs": "1", "out": "a.svg"},
    "demo": {"folder": "shown"},
    "schema draft": {"data": "small.csv", "output": "drafted.toml"},
    "schema check": {"schema": "small.toml", "data": "small.csv"},
    "series open": {**BUDGET, "path": "new.series", "periods": "3", "ledger": "book", "marginals": "1"},
    "series release": {"ledger": "s.book", "path": "s.series", "data": "small.csv", "out": "p.conspectus"},
    "series show": {"ledger": "s.book", "path": "s.series"},
    "series end": {"ledger": "s.book", "path": "s.series"},
    "ledger init": {**BUDGET, "path": "new.book"},
    "ledger show": {"path": "book", "picture": "p.svg"},
    "ledger study": {"path": "book", "name": "heart", "purpose": "x", "epsilon": "0.1", "by": "me"},
    "ledger retire": {"path": "book", "reason": "done", "by": "me", "yes": None},
    "serve folder": {"folder": "shelf", "port": "0"},
    "serve token add": {"name": "bob", "folder": "shelf", "only": "small"},
    "serve token list": {"folder": "shelf"},
    "serve token revoke": {"name": "eve", "folder": "shelf"},
}
"""A call of each command that works. The values of other options are put in by the laws."""


@dataclass(frozen=True)
class Given:
    """One option or argument of a command: how it is written, and what it takes."""

    name: str
    flag: str | None
    kind: type


def commands(group: typer.Typer = app, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Callable[..., None]]]:
    """Every command by its words, as the parser holds them."""
    for one in group.registered_commands:
        assert one.callback is not None
        assert one.name is not None
        yield " ".join((*path, one.name)), one.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        assert inner.name is not None
        yield from commands(inner.typer_instance, (*path, inner.name))


def givens(command: Callable[..., None]) -> list[Given]:
    found = []
    for name, hint in typing.get_type_hints(command, include_extras=True).items():
        if not hasattr(hint, "__metadata__"):
            continue
        info, kind = hint.__metadata__[0], hint.__origin__
        while args := [one for one in typing.get_args(kind) if one is not type(None)]:
            kind = args[0]
        said = [one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str) and one[:1] == "-"]
        flag = (said or [f"--{name.replace('_', '-')}"])[-1].split("/")[-1]
        found.append(Given(name, flag if isinstance(info, typer.models.OptionInfo) else None, kind))
    return found


KNOWN = {name: givens(callback) for name, callback in commands()}
TEXTS = [(name, one) for name, known in KNOWN.items() for one in known if one.kind in (str, Path)]


def written(command: str, values: dict[str, Any]) -> list[str]:
    """A call as it is typed; what begins with a dash stays the value of its option."""
    options, arguments = [], []
    for one in KNOWN[command]:
        if one.name not in values:
            continue
        value = values[one.name]
        if one.flag is None:
            arguments += value if isinstance(value, list) else [value]
        else:
            options += [one.flag] if value is None else [f"{one.flag}={value}"]
    return [*command.removesuffix(" folder").split(), *options, *(["--"] if arguments else []), *arguments]


def odd_values(usual: str, folder: Path, *, named: bool) -> Iterator[str]:
    """Names that lead nowhere or to something else, and texts that are none, with the ending of the usual one."""
    ending = Path(usual).suffix if " " not in usual else ""
    (folder / f"loop{ending}").symlink_to(f"loop{ending}")
    (folder / f"folder{ending}").mkdir()
    (folder / "locked").mkdir(mode=0o000)
    strange = os.fsdecode(b"caf\xe9") + ending
    if (folder / usual).is_file():
        shutil.copy(folder / usual, folder / strange)
    yield from (strange, f"nul\0{ending}", "n" * 5000, "")
    if named:
        yield from (f"loop{ending}", f"loop{ending}/x{ending}", f"folder{ending}", f"locked/x{ending}")
        yield from ("n" * 300 + ending, "../x/y", "/dev/null")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every call works."""
    folder = tmp_path_factory.mktemp("template")
    write_table(folder / "small.csv", ROWS)
    (folder / "small.toml").write_text(SCHEMA, encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        table = ("small.csv", "--schema", "small.toml", "--epsilon", "1", "--marginals", "1", "--quiet")
        assert run(["release", *table, "--mechanism", "laplace", "-o", "small.conspectus"]) == 0
        assert run(["release", *table, "--mechanism", "histogram", "-o", "rows.conspectus"]) == 0
        for name in ("book", "s.book"):
            assert run(["ledger", "init", name, "--schema", "small.toml", "--epsilon", "50"]) == 0
        series = ("s.series", "--periods", "3", "--ledger", "s.book", "--schema", "small.toml", "--epsilon", "3")
        assert run(["series", "open", *series, "--marginals", "1", "--mechanism", "laplace"]) == 0
    finally:
        os.chdir(before)
    (folder / "shelf").mkdir(mode=0o700)
    shutil.copy(folder / "small.conspectus", folder / "shelf")
    Analysts(folder / "shelf").add("eve")
    return folder


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that would serve, show or attack something for long do all but that."""
    from conspectus.service import supervisor

    async def nothing(*given: Any, **more: Any) -> None: ...

    monkeypatch.setattr("uvicorn.Server.serve", nothing)
    monkeypatch.setattr(supervisor.Supervisor, "run", lambda self: self._end())
    monkeypatch.setattr("conspectus.audit.run", lambda *given: ())
    monkeypatch.setattr("conspectus.cli.demo_command._story", lambda folder, run: None)
    monkeypatch.setattr("sys.stdin", open(os.devnull, encoding="utf-8"))  # noqa: SIM115 (for the length of a test)


def test_every_command_has_a_call() -> None:
    assert set(CALLS) == set(KNOWN)
    assert len(TEXTS) > 60  # a registry that is read wrongly has none
    for command, values in CALLS.items():
        assert set(values) <= {one.name for one in KNOWN[command]}, command


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("name", sorted(CALLS))
def test_odd_values_are_taken_or_refused(
    name: str, template: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fresh() -> Path:
        shutil.rmtree(tmp_path / "here", ignore_errors=True)
        shutil.copytree(template, tmp_path / "here")
        monkeypatch.chdir(tmp_path / "here")
        return tmp_path / "here"

    fresh()
    said = command(*written(name, CALLS[name]))
    assert said.code == 0, said
    wrong = []
    for one in (one for one in KNOWN[name] if one.kind in (str, Path)):
        given = CALLS[name].get(one.name, "")
        usual = given if isinstance(given, list) else [given]
        named = one.kind is Path or one.name in PLACES
        for place, value in enumerate(usual):
            for turn in range(11 if named else 4):
                folder = fresh()
                odd = list(odd_values(value, folder, named=named))[turn]
                spent = [cs.Ledger.open(folder / book).spent for book in ("book", "s.book")]
                values = [*usual[:place], odd, *usual[place + 1 :]]
                said = command(*written(name, {**CALLS[name], one.name: values if isinstance(given, list) else odd}))
                free = spent == [cs.Ledger.open(folder / book).spent for book in ("book", "s.book")]
                told = said.err.rpartition("\nconspectus: ")[2].removeprefix("conspectus: ")
                if said.code not in (0, 2, 3, 4) or (said.code and not (free and told.count("\n") == 1)):
                    wrong.append((one.name, odd[:40], said))
    assert not wrong


@pytest.mark.usefixtures("calm")
def test_piped_questions_that_are_no_text_are_refused_one_by_one(
    template: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(template)
    lines = io.TextIOWrapper(
        io.BytesIO(b"SELECT COUNT(*) FROM small%b\n" * 3 % (b"", b" WHERE sex = 'caf\xe9'", b"")), encoding="utf-8"
    )
    monkeypatch.setattr("sys.stdin", lines)
    said = command("sql", "small.conspectus")
    assert said.code == 2, said
    assert (said.out.count("has no value"), said.out.count("count_low")) == (1, 2), said
