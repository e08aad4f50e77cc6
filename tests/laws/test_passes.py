"""How often a source is read: once, for every mechanism and every kind of question, whatever was drawn."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.made import needed, truth

import conspectus as cs
from conspectus.data import spool
from conspectus.data.sources import SourceError, Table
from conspectus.mechanisms.mechanism import NoMechanism, ProblemError
from conspectus.mechanisms.registry import OFFLINE, ONLINE
from conspectus.privacy.guarantee import Budget

SOURCE = Path(cs.__file__).parent
DECLARED: dict[str, Any] = {
    "name": "people",
    "columns": {
        "age": {"type": "integer", "min": 0, "max": 5},
        "region": {"type": "categorical", "values": ["north", "east", "south"]},
        "smoker": {"type": "boolean"},
        "ill": {"type": "boolean"},
        "old": {"type": "boolean"},
    },
}
ROWS = 400
UNITS: dict[str, dict[str, Any]] = {
    "replace": {"neighbours": "replace"},
    "add-remove": {"neighbours": "add-remove"},
    "id": {"unit": {"kind": "id", "column": "person", "max_rows": 1}},
}


def schema_of(unit: str) -> cs.Schema:
    return cs.Schema.from_dict({**DECLARED, **UNITS[unit]})


def rows() -> pa.Table:
    rng = np.random.Generator(np.random.PCG64(3))
    age = rng.integers(0, 6, ROWS)
    return pa.table(
        {
            "age": age,
            "region": rng.choice(["north", "east", "south"], ROWS, p=[0.6, 0.3, 0.1]),
            "smoker": rng.random(ROWS) < 0.3,
            "ill": rng.random(ROWS) < 0.1 + 0.1 * age,
            "old": age > 3,
            "person": np.arange(ROWS) // 2,
        }
    )


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("passes") / "people.csv"
    pyarrow.csv.write_csv(rows(), path)
    return path


def watched(table: Table) -> list[str]:
    """A list that grows by one with each pass over the source of a table, however it is started."""
    passes: list[str] = []

    def counted(begin: Callable[..., Any]) -> Callable[..., Any]:
        def begun(*arguments: Any) -> Any:
            passes.append("pass")
            return begin(*arguments)

        return begun

    for each in (table, getattr(table, "_beside", None)):
        if hasattr(each, "_origin"):
            for way in ("relation", "batches"):
                if getattr(each._origin, way) is not None:
                    object.__setattr__(each._origin, way, counted(getattr(each._origin, way)))
        if hasattr(each, "_batches"):
            each._batches = counted(each._batches)
    return passes


def mean_age(codes: np.ndarray) -> float:
    return float(codes[:, 0].mean() / 5) if len(codes) else 0.0


def workloads(schema: cs.Schema) -> dict[str, cs.Workload]:
    cell = (1, "north", True, False, False)
    return {
        "marginals": cs.marginals(schema, 2),
        "conjunctions": cs.random_conjunctions(schema, 2, 40, public_seed=1),
        "parities": cs.parities(schema, 2),
        "ranges": cs.ranges(schema, "age") + cs.prefixes(schema, "age"),
        "mixed": cs.marginals(schema, 1) + cs.random_conjunctions(schema, 3, 30, public_seed=2),
        "sparse": cs.sparse([{cell: 1.0}, {(age, *cell[1:]): 0.5 for age in (2, 3)}], schema),
        "statistics": cs.mode_shares(schema) + cs.independence_distances(schema),
        "functions": cs.unsafe_functions(schema, {"mean": (mean_age, 1 / ROWS)}),
    }


KINDS = list(workloads(schema_of("replace")))
SETTINGS: dict[str, dict[str, Any]] = {"boosting": {"rounds": 3}, "mwem": {"rounds": 4}, "dual-query": {}}
BUDGET = {"epsilon": 3.0, "delta": 1e-4}


@pytest.mark.parametrize("unit", ["replace", "id", pytest.param("add-remove", marks=pytest.mark.audit)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mechanism", OFFLINE)
def test_a_release_reads_its_source_once(mechanism: str, kind: str, unit: str, csv: Path) -> None:
    schema = schema_of(unit)
    settings = SETTINGS.get(mechanism, {}) | needed(mechanism, schema)
    declared = {} if unit == "replace" else {"rows": ROWS}
    workload = workloads(schema)[kind]
    with cs.open_table(csv, schema) as table:
        passes = watched(table)
        for budget in (BUDGET, {"epsilon": 3.0}):
            try:
                cs.release(table, workload, mechanism=mechanism, **budget, **declared, **settings)
            except (NoMechanism, ProblemError):
                # It may have had to count the rows before it could say no.
                assert len(passes) <= (unit == "replace")
                passes.clear()
                continue
            assert len(passes) == 1
            return
    served = {
        "marginals": set(OFFLINE) - {"sparse-project"},
        "sparse": {"laplace", "gaussian", "sparse-project", "stable-histogram"},
        "statistics": {"laplace", "gaussian", "boosting"},
    }
    assert mechanism not in served.get(kind, ()) or unit == "id", "this pair is expected to be served"


@pytest.mark.parametrize("unit", ["replace", "add-remove"])
@pytest.mark.parametrize("form", ["parquet", "frame", "select"])
@pytest.mark.parametrize("mechanism", ["gaussian", "mwem", "boosting", "stable-histogram"])
def test_other_sources_are_read_once_too(mechanism: str, form: str, unit: str, tmp_path: Path, csv: Path) -> None:
    schema = schema_of(unit)
    pyarrow.parquet.write_table(rows(), tmp_path / "people.parquet")
    source = {"parquet": tmp_path / "people.parquet", "frame": rows(), "select": f"SELECT * FROM '{csv}'"}[form]
    with cs.open_table(source, schema) as table:
        passes = watched(table)
        workload = cs.random_conjunctions(schema, 2, 40, public_seed=1)
        cs.release(table, workload, mechanism=mechanism, rows=None if unit == "replace" else ROWS, **BUDGET)
        assert len(passes) == 1


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "sparse-project", "stable-histogram", "auto"])
@pytest.mark.parametrize("form", ["csv", "parquet", "list", "frame"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_records_of_any_kind_are_read_once(mechanism: str, form: str, neighbours: str, tmp_path: Path) -> None:
    words = [f"word{number % 17}" for number in range(ROWS)]
    frame = pa.table({"word": words})
    pyarrow.csv.write_csv(frame, tmp_path / "words.csv")
    pyarrow.parquet.write_table(frame, tmp_path / "words.parquet")
    source = {"csv": tmp_path / "words.csv", "parquet": tmp_path / "words.parquet", "list": words, "frame": frame}
    with cs.open_records(source[form], neighbours=neighbours) as table:
        passes = watched(table)
        asked = cs.sparse([{"word1": 1.0, "word2": 0.5}])
        # Where nobody says how many rows there are, a projection is made for very many, which takes seconds.
        declared = {} if neighbours == "replace" or form == "csv" else {"rows": ROWS}
        release = cs.release(table, asked, mechanism=mechanism, epsilon=5.0, delta=1e-4, **declared)
        assert len(passes) == 1
        if mechanism == "stable-histogram":
            assert release.answers[0] > 0


@pytest.mark.parametrize("listed", [True, False])
def test_pairs_are_read_once_and_then_held(listed: bool, tmp_path: Path) -> None:
    rng = np.random.Generator(np.random.PCG64(5))
    frame = pa.table({"user": rng.integers(0, 60, 500), "item": rng.integers(0, 6, 500)})
    pyarrow.csv.write_csv(frame, tmp_path / "pairs.csv")
    table = cs.open_pairs(tmp_path / "pairs.csv", items=range(6) if listed else None)
    with table:
        # Where the items are not listed, the opening itself was the pass that found and numbered them.
        passes = watched(table)
        workload = cs.random_conjunctions(table.schema, 2, 20, public_seed=1)
        for mechanism in ("laplace", "mwem"):
            cs.release(table, workload, mechanism=mechanism, epsilon=1.0)
        assert len(passes) == listed


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("mechanism", ONLINE)
def test_a_session_reads_its_source_once(mechanism: str, unit: str, csv: Path, tmp_path: Path) -> None:
    schema = schema_of(unit)
    declared = {} if unit == "replace" else {"rows": ROWS}
    asked = cs.random_conjunctions(schema, 2, 30, public_seed=4)
    path = tmp_path / "session"
    with cs.open_table(csv, schema) as table:
        passes = watched(table)
        try:
            opened = cs.open_session(table, mechanism=mechanism, epsilon=4.0, delta=1e-4, path=path, **declared)
        except (NoMechanism, ProblemError):
            assert len(passes) <= (unit == "replace")
            return
        with opened:
            for question in asked:
                opened.ask(question)
        assert len(passes) == 1
    with cs.open_table(csv, schema) as table:
        passes = watched(table)
        with cs.resume_session(path, table) as resumed:
            for question in cs.random_conjunctions(schema, 3, 30, public_seed=5):
                resumed.ask(question)
        assert len(passes) == 1


def test_a_full_disk_costs_passes_and_no_release(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was put aside cannot be written: the source is read again, and the counts are the same."""

    def full(*_: object) -> int:
        raise OSError("no space left on device")

    monkeypatch.setattr(spool, "IN_MEMORY", 64)
    monkeypatch.setattr(spool.os, "pwrite", full)
    schema = schema_of("replace")
    with cs.open_table(csv, schema) as table:
        passes = watched(table)
        release = cs.release(table, cs.marginals(schema, 1), mechanism="laplace", epsilon=1e6)
        assert len(passes) == 2
        assert release.answers.sum() == pytest.approx(5)


def test_rows_that_went_to_a_file_come_back(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY", 64)
    schema = schema_of("replace")
    workload = cs.marginals(schema, 3) + cs.parities(schema, 2)
    with cs.open_table(csv, schema) as table:
        passes = watched(table)
        release = cs.release(table, workload, mechanism="laplace", epsilon=1e9)
        assert len(passes) == 1
        counts, number = truth(table, workload)
        np.testing.assert_allclose(release.answers, counts / number, atol=1e-5)


@pytest.fixture(scope="module")
def nodes() -> dict[str, list[ast.AST]]:
    """Every module of the package, and what it is made of."""
    paths = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    return {name: list(ast.walk(ast.parse(path.read_text(encoding="utf-8")))) for name, path in paths.items()}


def calls(nodes: dict[str, list[ast.AST]], name: str) -> Iterator[str]:
    """Every module of the package that calls a method of this name, but for a call of its own by `self`."""
    for place, found in nodes.items():
        for node in found:
            match node:
                case ast.Call(func=ast.Attribute(attr=called, value=value)) if called == name:
                    if not (isinstance(value, ast.Name) and value.id == "cls"):
                        yield place


def test_rows_are_read_in_one_place(nodes: dict[str, list[ast.AST]]) -> None:
    """A table is folded by the curator's truth, and by nets, whose tables are public; `chunks` stays with its owner."""
    assert set(calls(nodes, "fold")) == {"curator/truth.py", "releases/public_nets.py"}
    # The studio shows its owner the owner's own table, and says NOT PRIVATE.
    owners = {"service/owner_draft.py", "audit/stability_audit.py"}  # the latter in a broken twin, of made tables
    assert {place for place in calls(nodes, "chunks") if not place.startswith("data/")} == {"curator/truth.py", *owners}
    assert set(calls(nodes, "raw")) == {"data/sources/drafting.py", "data/sources/table.py"}


def test_what_looks_at_raw_values_serves_the_command_line_alone(nodes: dict[str, list[ast.AST]]) -> None:
    """`drafting` shows exact values to the owner of a table: the command line and the owner's page may import it."""
    importing = set()
    for place, found in nodes.items():
        for node in found:
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if any(name.rpartition(".")[2] == "drafting" for name in [module, *named]):
                importing.add(place)
    assert {place for place in importing if not place.startswith("cli/")} == {"service/owner_draft.py"}


@pytest.mark.parametrize("mechanism", ["laplace", "mwem", "stable-histogram", "sparse-project"])
def test_a_damaged_source_costs_nothing(mechanism: str, tmp_path: Path) -> None:
    """The footer is whole and says how many rows there are; the pages are not, and that is found before any debit."""
    path, schema = tmp_path / "people.parquet", schema_of("replace")
    pyarrow.parquet.write_table(rows(), path, compression="gzip")
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(len(whole) // 3) + whole[4 + len(whole) // 3 :])
    book = cs.Ledger.create(
        tmp_path / "ledger",
        budget=Budget(epsilon=9.0, delta=1e-3),
        neighbours="replace",
        unit=str(schema.unit),
        schema_fingerprint=schema.fingerprint,
        table="people",
        aside=0.5,
    )
    with cs.open_table(path, schema) as table, pytest.raises(SourceError):
        cs.release(table, cs.marginals(schema, 1), mechanism=mechanism, ledger=book, epsilon=1.0, delta=1e-4)
    assert not book.spent
