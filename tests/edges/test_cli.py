"""The command line: every command does what it says, refuses in order, and leaves nothing half done."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

import conspectus as cs
from conspectus import audit
from conspectus.cli import explain, run
from conspectus.cli.audit_command import doors_of
from conspectus.mechanisms.registry import OFFLINE, ONLINE, Entry

from .conftest import RELEASE, ROWS, Command

COMMANDS = ("schema", "plan", "release", "ask", "export", "synthesize", "report", "ledger", "audit", "demo")
BUDGET = ("--epsilon", "1", "--delta", "1e-6")


def truth(holds: Callable[[dict[str, Any]], bool]) -> int:
    return sum(holds(row) for row in ROWS)


def leftovers(place: Path) -> list[str]:
    return [path.name for path in place.iterdir() if path.name.endswith(".part")]


def test_help_names_every_command(command: Command) -> None:
    said = command("--help")
    assert said.code == 0
    for name in COMMANDS:
        assert f" {name} " in said.out


def test_help_loads_nothing_heavy() -> None:
    heavy = ("numpy", "numba", "pyarrow", "duckdb", "scipy", "opendp", "sqlglot", "pandas", "dp_accounting")
    code = f"import sys; from conspectus.cli.app import app; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version(command: Command) -> None:
    assert command("--version").out.strip() == f"conspectus {cs.__version__}"


@pytest.mark.parametrize(
    "arguments", [[], ["schema"], ["ledger"], ["nonsense"], ["release"], ["plan", "--rows", "many"]]
)
def test_usage_errors_exit_with_two(arguments: list[str], command: Command) -> None:
    said = command(*arguments)
    assert said.code == 2
    assert "Traceback" not in said.err + said.out


def test_ask_answers_with_the_truth_at_a_huge_epsilon(released: Path, command: Command) -> None:
    said = command("ask", released, "sex = 'f' AND age < 20", "ill", "--json")
    assert said.code == 0
    first, second = json.loads(said.out)["answers"]
    assert round(first["count"]) == truth(lambda row: row["sex"] == "f" and row["age"] < 20)
    assert round(second["count"]) == truth(lambda row: row["ill"] == "true")
    assert first["basis"] == "measured"
    assert first["low"] <= first["fraction"] <= first["high"]


def test_ask_prints_interval_basis_and_guarantee(released: Path, command: Command) -> None:
    said = command("ask", released, "ill", "--confidence", 0.9)
    assert said.code == 0
    for part in ("0.2000 of the rows", "90% interval", "measured", "differential privacy for one row replaced"):
        assert part in said.out


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_export_writes_counts_with_intervals(name: str, released: Path, command: Command) -> None:
    said = command("export", released, "--table", '["a, b", "sex"]', "-o", name)
    assert said.code == 0, said.err
    made = pyarrow.csv.read_csv(name) if name.endswith("csv") else pyarrow.parquet.read_table(name)
    assert made.column_names == ["a, b", "sex", "count", "low", "high", "too_noisy"]
    expected = [
        truth(lambda row, a=a, b=b: row["a, b"] == {"other": "w"}.get(a, a) and row["sex"] == b)
        for a, b in zip(made["a, b"].to_pylist(), made["sex"].to_pylist())
    ]
    assert made["count"].to_pylist() == expected


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_synthesize_writes_rows_in_the_schemas_values(name: str, released: Path, command: Command) -> None:
    assert command("synthesize", released, "-n", 50, "-o", name, "--public-seed", 1).code == 0
    made = pyarrow.csv.read_csv(name) if name.endswith("csv") else pyarrow.parquet.read_table(name)
    assert made.num_rows == 50
    assert made.column_names == ["sex", "age", "ill", "a, b"]
    assert set(made["sex"].to_pylist()) <= {"f", "m"}
    assert all(0 <= age <= 39 for age in made["age"].to_pylist())


def test_workload_options_add_up_in_order(place: Path, command: Command) -> None:
    schema = cs.Schema.load("small.toml")
    saved = cs.marginal(schema, ["ill"])
    (place / "saved.json").write_text(json.dumps(saved.to_json()), encoding="utf-8")
    (place / "asked.sql").write_text("# two questions\nage < 10\n\nsex = 'm' OR ill\n", encoding="utf-8")
    options = ["--workload", "saved.json", "--sql", "asked.sql", "--random-conjunctions", "2:5:3", "--parities", 1]
    options += ["--marginal", "sex,age", "--marginal", '["a, b"]', "--marginals", 1]
    said = command(*RELEASE, *options, "--epsilon", 1, "--mechanism", "laplace", "-o", "out.conspectus", "--quiet")
    assert said.code == 0, said.err
    expected = (
        cs.marginals(schema, 1)
        + cs.marginal(schema, ["sex", "age"])
        + cs.marginal(schema, ["a, b"])
        + cs.parities(schema, 1)
        + cs.sql(schema, ["age < 10", "sex = 'm' OR ill"])
        + cs.random_conjunctions(schema, 2, count=5, public_seed=3)
        + saved
    )
    assert cs.load("out.conspectus").workload == expected


def test_release_says_what_it_did(place: Path, command: Command) -> None:
    said = command(
        *RELEASE, "--marginals", 1, *BUDGET, "--mechanism", "mwem", "--set", "rounds=2", "-o", "o.conspectus"
    )
    assert said.code == 0, said.err
    for part in (
        "12 answers with mwem",
        "(1, 1e-06)-differential privacy",
        "expected error",
        "certificate",
        "o.conspectus",
    ):
        assert part in said.out
    assert "counting" in said.err
    assert cs.load("o.conspectus").parameters["rounds"] == 2
    assert leftovers(place) == []


def test_json_is_json_alone(place: Path, command: Command) -> None:
    said = command(*RELEASE, "--marginals", 1, *BUDGET, "-o", "o.conspectus", "--json")
    assert said.err == ""
    told = json.loads(said.out)
    assert told["queries"] == 12
    assert told["guarantee"]["neighbours"] == "replace"
    assert told["guarantee"]["epsilon"] <= 1
    planned = json.loads(
        command("plan", "--schema", "small.toml", "--rows", 240, "--marginals", 1, *BUDGET, "--json").out
    )
    assert planned["claims"][0]["mechanism"] == told["mechanism"]


def test_a_large_delta_is_served_with_a_warning(place: Path, command: Command) -> None:
    budget = ("--epsilon", 1, "--delta", 0.01, "--mechanism", "gaussian")
    said = command(*RELEASE, "--marginals", 1, *budget, "-o", "o.conspectus", "--quiet")
    assert said.code == 0
    assert "warning" in said.out
    assert "1/240" in said.out
    assert any("1/240" in warning for warning in cs.load("o.conspectus").guarantee.warnings)


def test_neighbours_are_explicit(place: Path, command: Command) -> None:
    budget = ("--rho", 0.1, "--delta", 1e-6, "--neighbours", "add-remove", "--mechanism", "gaussian")
    said = command(*RELEASE, "--marginals", 1, *budget, "-o", "o.conspectus", "--json")
    told = json.loads(said.out)["guarantee"]
    assert (told["neighbours"], told["rho"] <= 0.1) == ("add-remove", True)


def test_plan_shows_claims_and_refusals(place: Path, command: Command) -> None:
    said = command("plan", "--schema", "small.toml", "--rows", 240, "--marginals", 2, "--epsilon", 1)
    assert said.code == 0
    assert "laplace" in said.out
    assert "no: Gaussian noise is never pure" in " ".join(said.out.split())


def test_schema_draft_says_that_it_is_not_private_and_can_be_loaded(place: Path, command: Command) -> None:
    said = command("schema", "draft", "small.csv")
    assert said.code == 0, said.err
    assert "NOT PRIVATE" in said.err
    assert "NOT PRIVATE" in said.out
    (place / "draft.toml").write_text(said.out, encoding="utf-8")
    drafted = cs.Schema.load("draft.toml")
    assert drafted.draft
    assert drafted.domain.names == ("sex", "age", "ill", "a, b")
    made = command("release", "small.csv", "--schema", "draft.toml", "--marginals", 1, *BUDGET, "-o", "o.conspectus")
    assert "drafted from the data" in " ".join(made.out.split())


def test_a_draft_of_a_file_without_a_header_says_so(place: Path, command: Command) -> None:
    """The first row of a file without names is somebody's: it is not taken for names without a word."""
    (place / "rows.csv").write_text(
        "39, State-gov, 77516\n50, Private, 83311\n38, State-gov, 215646\n", encoding="utf-8"
    )
    said = command("schema", "draft", "rows.csv")
    assert said.out.startswith("# WARNING: the names of all columns look like values")
    assert "write a line with a name for each column at the top of the file" in said.err
    (place / "years.csv").write_text("country,1990,1991\nFrance,1,2\nSpain,2,3\n", encoding="utf-8")
    named = command("schema", "draft", "years.csv")
    assert "WARNING" not in named.out
    assert "no header" not in named.err


def test_schema_check_counts_for_the_owner(place: Path, command: Command) -> None:
    said = command("schema", "check", "small.toml")
    assert said.code == 0
    assert "NOT PRIVATE" not in said.out
    said = command("schema", "check", "small.toml", "small.csv")
    assert "NOT PRIVATE" in said.out
    told = json.loads(command("schema", "check", "small.toml", "small.csv", "--json").out)
    assert told["private"] is False
    counts = {column["name"]: column for column in told["columns"]}
    assert counts["a, b"]["recoded"] == truth(lambda row: row["a, b"] == "w")
    assert counts["age"]["clamped"] == 0


def test_a_reader_that_goes_away_is_no_error(place: Path) -> None:
    line = f"{sys.executable} -m conspectus plan --schema small.toml --rows 10 --marginals 2 --epsilon 1"
    done = subprocess.run(
        ["bash", "-c", f"{line} | true; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_mechanism_exits_with_four(place: Path, command: Command) -> None:
    said = command(*RELEASE, "--marginals", 1, "--epsilon", 1, "--mechanism", "gaussian", "-o", "o.conspectus")
    assert said.code == 4
    assert "never pure" in said.err
    assert not Path("o.conspectus").exists()


def ledger(command: Command, *more: object) -> None:
    said = command("ledger", "init", "l.ledger", "--schema", "small.toml", "--epsilon", 1.2, "--delta", 1e-6, *more)
    assert said.code == 0, said.err


def spent(command: Command) -> float:
    return float(json.loads(command("ledger", "show", "l.ledger", "--json").out)["spent"])


def test_the_ledger_refuses_what_passes_its_cap(place: Path, command: Command) -> None:
    ledger(command)
    ask = (*RELEASE, "--marginals", 1, *BUDGET, "--mechanism", "gaussian", "--ledger", "l.ledger", "--quiet", "-o")
    assert command(*ask, "one.conspectus").code == 0
    before = spent(command)
    assert before > 0
    said = command(*ask, "two.conspectus")
    assert (said.code, said.err.count("\n")) == (3, 1)
    assert not Path("two.conspectus").exists()
    assert spent(command) == before
    shown = command("ledger", "show", "l.ledger").out
    assert "gaussian on 12 queries" in shown
    assert "settled" in shown


def test_a_ledger_of_another_relation_refuses(place: Path, command: Command) -> None:
    ledger(command, "--neighbours", "add-remove")
    said = command(*RELEASE, "--marginals", 1, *BUDGET, "--ledger", "l.ledger", "-o", "o.conspectus", "--quiet")
    assert said.code == 3
    assert spent(command) == 0


@pytest.mark.parametrize(
    "out", ["missing/o.conspectus", "small.csv", "./small.toml", "l.ledger", ".", "o.parquet", "o.html", "/dev/null"]
)
def test_the_output_is_checked_before_anything_is_spent(out: str, place: Path, command: Command) -> None:
    ledger(command)
    kept = {path.name: path.read_bytes() for path in place.iterdir()}
    said = command(*RELEASE, "--marginals", 1, *BUDGET, "--ledger", "l.ledger", "-o", out)
    assert said.code == 2
    assert spent(command) == 0
    assert {path.name: path.read_bytes() for path in place.iterdir()} == kept


def test_a_failed_command_leaves_the_old_file(released: Path, command: Command) -> None:
    table = released.parent / "t.csv"
    table.write_text("old", encoding="utf-8")
    assert command("export", released, "--table", "sex,nothing", "-o", table).code == 2
    assert table.read_text(encoding="utf-8") == "old"
    assert leftovers(released.parent) == []
    assert command("export", released, "--table", "sex", "-o", released).code == 2
    assert command("ask", released, "ill").code == 0


@pytest.mark.parametrize("name", ["t.txt", "t", ".csv"])
def test_unknown_endings_are_refused(name: str, released: Path, command: Command) -> None:
    for ask in (("export", released, "--table", "sex"), ("synthesize", released, "-n", 3), ("report", released)):
        assert command(*ask, "-o", name).code == 2
        assert not Path(name).exists()


def test_written_files_have_ordinary_rights(released: Path, command: Command) -> None:
    ordinary = released.parent / "ordinary"
    ordinary.touch()
    assert released.stat().st_mode == ordinary.stat().st_mode


def test_a_bug_never_shows_its_text(
    released: Path, command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(path: object) -> object:
        raise RuntimeError("row 17 is Ada Lovelace")

    monkeypatch.setattr(cs, "load", broken)
    said = command("ask", released, "ill")
    assert said.code == 1
    assert "internal error (RuntimeError)" in said.err
    assert "Ada" not in said.err + said.out
    monkeypatch.setenv("CONSPECTUS_DEBUG", "1")
    with pytest.raises(RuntimeError):
        run(["ask", str(released), "ill"])


@pytest.mark.parametrize(
    "error", [ValueError("Ada"), KeyError("Ada"), OSError("Ada"), UnicodeDecodeError("x", b"Ada", 0, 1, "Ada")]
)
def test_foreign_errors_do_not_speak(error: Exception) -> None:
    code, sentence = explain(error)
    assert code == 1
    assert "Ada" not in sentence


def test_memory_errors_are_bad_input() -> None:
    assert explain(MemoryError())[0] == 2


def test_a_mechanism_of_another_command_is_answered_with_that_command(capsys: pytest.CaptureFixture[str]) -> None:
    workload = ("--rows", "9", "--epsilon", "1", "--marginals", "1", "--schema", "s.toml")
    assert run(["plan", *workload, "--mechanism", "pmw"]) == 2
    assert 'no mechanism is called "pmw": conspectus session takes it; there are auto, laplace' in told(capsys)
    opening = ("session", "t.csv", "--path", "x.session", "--schema", "s.toml", "--epsilon", "1")
    assert run([*opening, "--mechanism", "mwem"]) == 2
    assert 'no mechanism is called "mwem": conspectus release takes it; there are auto, pmw, ' in told(capsys)


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(("command", "table"), [("plan", OFFLINE), ("release", OFFLINE), ("session", ONLINE)])
def test_help_lists_the_mechanisms(
    command: str, table: dict[str, Entry], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert run([command, "--help"]) == 0
    assert ", ".join(table) in capsys.readouterr().out


def test_a_misspelt_audit_is_answered_with_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "--mechanism", "boostin"]) == 2
    assert 'did you mean "boosting"?' in capsys.readouterr().err


def test_every_mechanism_can_be_audited() -> None:
    names = {case.name for case in audit.cases()}
    for name, entry in (*OFFLINE.items(), *ONLINE.items()):
        assert entry.doors, name
        assert set(doors_of(name)) == set(entry.doors) <= names
    assert doors_of("watch") == ("watch",), "all whose names begin with it"
    assert doors_of("net-public") == ("net-public",)


@pytest.mark.parametrize(("bound", "twin", "code"), [(0.9, 1.5, 0), (1.2, 1.5, 1), (0.9, 0.8, 1)])
def test_audit_fails_on_a_refuted_claim_or_a_twin_at_large(
    bound: float, twin: float, code: int, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(door: str | None, trials: int, progress: object) -> list[audit.AuditResult]:
        result = audit.AuditResult(
            name=str(door), neighbours="replace", claimed=1.0, delta=0.0, lower_bound=bound, twin="halved",
            twin_bound=twin, trials=trials,
        )  # fmt: skip
        return [result]

    monkeypatch.setattr(audit, "run", found)
    said = command("audit", "--mechanism", "laplace", "--json")
    assert said.code == code
    told = json.loads(said.out)
    assert told["passed"] == (code == 0)
    assert [result["name"] for result in told["results"]] == list(doors_of("laplace"))


def test_audit_prints_each_line_as_it_is_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what a twin claims, where the claim is what is broken."""
    fields: dict[str, Any] = {"neighbours": "replace", "delta": 0.0, "twin": "forgetful", "trials": 1000}
    early = []

    def found(door: str | None, trials: int, progress: object) -> Iterator[audit.AuditResult]:
        yield audit.AuditResult(name="first", claimed=1.0, lower_bound=0.9, twin_bound=1.2, **fields)
        early.append(capsys.readouterr().out)
        second = {"claimed": 2.0, "lower_bound": 1.9, "twin_bound": 1.85, "twin_claimed": 1.5}
        yield audit.AuditResult(name="second", **second, **fields)

    monkeypatch.setattr(audit, "run", found)
    assert run(["audit"]) == 0
    assert "first" in early[0]
    assert "second" not in early[0]
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("second")]
    assert line.split()[2:7] == ["2", "1.9", "1.5", "1.85", "stands"]


def test_demo_ends_with_an_answer_an_interval_and_the_guarantee(tmp_path: Path, command: Command) -> None:
    said = command("demo", "--folder", tmp_path / "story")
    assert said.code == 0, said.err
    end = said.out[said.out.index("At last") :]
    for part in ("of the rows", "95% interval", "(1, 1e-06)-differential privacy"):
        assert part in end
    assert "exit code 3" in said.out
    assert {"patients.conspectus", "report.html", "table.csv", "synthetic.csv"} <= {
        path.name for path in (tmp_path / "story").iterdir()
    }
    assert command("demo", "--folder", tmp_path / "story").code == 2


def test_plan_takes_a_mechanism_and_its_settings(place: Path, command: Command) -> None:
    asked = ("plan", "--schema", "small.toml", "--rows", 10**8, "--marginals", 1, *BUDGET, "--mechanism", "boosting")
    told = json.loads(command(*asked, "--set", "theorem=true", "--json").out)
    assert [claim["mechanism"] for claim in told["claims"]] == ["boosting"]
    assert "Theorem 6.1" in told["claims"][0]["bound"]["theorem"]
    refused = command(*asked, "--set", "theorem=true", "--set", "growth=3.0")
    assert refused.code == 2
    assert "leave it out" in " ".join(refused.err.split())
    assert command("plan", "--schema", "small.toml", "--rows", 9, "--marginals", 1, "--mechanism", "x").code == 2
