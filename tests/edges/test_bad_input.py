"""Bad input: exit code 2, one sentence, no traceback, nothing spent. And what never is bad input: a value."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import conspectus as cs

from .conftest import RELEASE, ROWS, SCHEMA, Command, Said, write_table

MARGINALS = ("--marginals", "1")
BUDGET = ("--epsilon", "1", "--delta", "1e-6")


def refused(said: Said, *words: str, code: int = 2) -> None:
    assert said.code == code, said
    assert said.out == ""
    assert said.err.startswith("conspectus: ")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    for word in words:
        assert word in said.err


@pytest.fixture
def ledger(place: Path, command: Command) -> Path:
    made = command("ledger", "init", "l.ledger", "--schema", "small.toml", "--epsilon", 2, "--delta", 1e-6)
    assert made.code == 0, made.err
    return place / "l.ledger"


def release(command: Command, *options: object, data: object = "small.csv", schema: object = "small.toml") -> Said:
    return command(
        "release", data, "--schema", schema, *options, "--ledger", "l.ledger", "-o", "o.conspectus", "--quiet"
    )


@pytest.fixture
def nothing_spent(ledger: Path) -> object:
    yield ledger
    opened = cs.Ledger.open(ledger)
    assert (opened.spent, opened.entries()) == (0, ())
    assert not (ledger.parent / "o.conspectus").exists()
    assert [path.name for path in ledger.parent.iterdir() if path.name.endswith(".part")] == []


BUDGETS = [
    (("--epsilon", "0"), "epsilon"),
    (("--epsilon", "-1"), "epsilon"),
    (("--epsilon", "nan"), "epsilon"),
    (("--epsilon", "inf"), "epsilon"),
    (("--epsilon", "1e999"), "epsilon"),
    (("--epsilon", "much"), "--epsilon"),
    (("--epsilon", "1", "--delta", "1"), "delta"),
    (("--epsilon", "1", "--delta", "1.5"), "delta"),
    (("--epsilon", "1", "--delta", "-1e-9"), "delta"),
    (("--epsilon", "1", "--delta", "nan"), "delta"),
    (("--rho", "0"), "rho"),
    (("--rho", "nan"), "rho"),
    (("--epsilon", "1", "--rho", "1"), "not both"),
    ((), "epsilon"),
    ((*BUDGET, "--neighbours", "swap"), "add-remove"),
]


@pytest.mark.parametrize(("budget", "word"), BUDGETS)
def test_budgets(budget: tuple[str, ...], word: str, nothing_spent: object, command: Command) -> None:
    refused(release(command, *MARGINALS, *budget), word)
    refused(command("plan", "--schema", "small.toml", "--rows", 10, *MARGINALS, *budget), word)


def test_files_that_are_not_tables(nothing_spent: object, place: Path, command: Command) -> None:
    (place / "noise.csv").write_bytes(bytes(range(256)) * 40)
    (place / "noise.parquet").write_bytes(b"Ada Lovelace" * 100)
    (place / "empty.csv").write_bytes(b"")
    (place / "table.xlsx").write_bytes(b"PK")
    for name in ("noise.csv", "noise.parquet", "empty.csv", "table.xlsx", "nowhere.csv", ".", "SELECT 1"):
        said = release(command, *MARGINALS, *BUDGET, data=name)
        refused(said)
        assert "Ada" not in said.err


def test_a_missing_column(nothing_spent: object, place: Path, command: Command) -> None:
    write_table(place / "less.csv", [{"sex": "f", "age": 3, "a, b": "x"}])
    refused(release(command, *MARGINALS, *BUDGET, data="less.csv"), '"ill"')
    write_table(place / "less.csv", [{"sex": "f", "Age": 3, "ill": 1, "a, b": "x"}])
    refused(release(command, *MARGINALS, *BUDGET, data="less.csv"), 'did you mean "Age"')


SCHEMAS = [
    ("name = [", "bad.toml"),
    ("hello", "bad.toml"),
    ("name = 'x'", "column"),
    (SCHEMA.replace("width", "widht"), "width"),
    (SCHEMA.replace('"boolean"', '"bool"'), "bool"),
    (SCHEMA.replace("max = 39", "max = -1"), "age"),
    (SCHEMA.replace('["f", "m"]', "[]"), "sex"),
    (SCHEMA.replace('kind = "row"', 'kind = "household"'), "household"),
]


@pytest.mark.parametrize(("text", "word"), SCHEMAS)
def test_schemas_that_are_none(text: str, word: str, nothing_spent: object, place: Path, command: Command) -> None:
    (place / "bad.toml").write_text(text, encoding="utf-8")
    refused(release(command, *MARGINALS, *BUDGET, schema="bad.toml"), word)
    refused(command("schema", "check", "bad.toml"), word)


def test_schema_files_that_cannot_be_read(nothing_spent: object, place: Path, command: Command) -> None:
    (place / "bytes.toml").write_bytes(b"\xff\xfe\x00name")
    for name in ("nowhere.toml", ".", "bytes.toml", "small.csv"):
        refused(release(command, *MARGINALS, *BUDGET, schema=name))


WORKLOADS = [
    (("--marginals", "9"), ""),
    (("--marginals", "-1"), ""),
    (("--marginal", "sex,height"), "height"),
    (("--marginal", "sex,sex"), "twice"),
    (("--marginal", "[sex"), "JSON"),
    (("--parities", "7"), ""),
    (("--random-conjunctions", "3"), "K:COUNT:SEED"),
    (("--random-conjunctions", "2:x:1"), "K:COUNT:SEED"),
    (("--random-conjunctions", "2:10:-1"), ""),
    (("--random-conjunctions", "2:1000000000000:1"), ""),
    (("--sql", "nowhere.sql"), "nowhere.sql"),
    (("--workload", "small.csv"), "JSON"),
    (("--workload", "other.json"), ""),
    ((), "--marginals"),
]


@pytest.mark.parametrize(("options", "word"), WORKLOADS)
def test_workloads(options: tuple[str, ...], word: str, nothing_spent: object, place: Path, command: Command) -> None:
    (place / "other.json").write_text('{"format": "something"}', encoding="utf-8")
    refused(release(command, *options, *BUDGET), word)


def test_a_workload_of_another_schema(nothing_spent: object, place: Path, command: Command) -> None:
    (place / "two.toml").write_text('[columns.sex]\ntype = "boolean"\n', encoding="utf-8")
    other = cs.marginals(cs.Schema.load("two.toml"), 1)
    (place / "w.json").write_text(json.dumps(other.to_json()), encoding="utf-8")
    refused(release(command, "--workload", "w.json", *BUDGET), "another schema")


def test_a_marginal_too_large_for_memory(nothing_spent: object, place: Path, command: Command) -> None:
    columns = "".join(f'[columns.c{i}]\ntype = "integer"\nmin = 0\nmax = 9999\n' for i in range(6))
    (place / "wide.toml").write_text(columns, encoding="utf-8")
    write_table(place / "wide.csv", [{f"c{i}": i for i in range(6)}])
    refused(release(command, "--marginals", 5, *BUDGET, data="wide.csv", schema="wide.toml"))
    refused(command("plan", "--schema", "wide.toml", "--rows", 10, "--marginals", 5, *BUDGET))


PREDICATES = [
    ("height > 3", "height"),
    ("agee > 3", "age"),
    ("SELECT 1", ""),
    ("DROP TABLE x", ""),
    ("sex = 'f'; DROP TABLE x", ""),
    ("age >", ""),
    ("age > 15", "10"),
    ("sex = 'q'", "q"),
    ("age > (SELECT max(age) FROM t)", ""),
    ("read_csv('small.csv') = 1", ""),
    ("count(*) > 3", ""),
    ("age + 1 > 3", ""),
    ("", ""),
    ("(" * 500 + "ill" + ")" * 500, ""),
    ("NOT " * 5000 + "ill", ""),
]


@pytest.mark.parametrize(("predicate", "word"), PREDICATES)
def test_predicates(predicate: str, word: str, released: Path, place: Path, command: Command) -> None:
    said = command("ask", released, predicate)
    if predicate.startswith("((") and said.code == 0:
        return  # deep, but a predicate all the same
    refused(said, word)


def test_a_bad_line_is_named(nothing_spent: object, place: Path, command: Command) -> None:
    (place / "q.sql").write_text("ill\n# fine\nage >= 10\nheight = 3\n", encoding="utf-8")
    refused(release(command, "--sql", "q.sql", *BUDGET), "q.sql, line 4", "height")


SETTINGS = [
    (("--mechanism", "mwen"), "mwem"),
    (("--mechanism", "mwem", "--set", "round=3"), "rounds"),
    (("--mechanism", "mwem", "--set", "rounds=0"), "rounds"),
    (("--mechanism", "mwem", "--set", "rounds=many"), "rounds"),
    (("--mechanism", "mwem", "--set", "rounds"), "name=value"),
    (("--set", "rounds=3"), "rounds"),
    (("--rows", "0"), "--rows"),
]


@pytest.mark.parametrize(("options", "word"), SETTINGS)
def test_settings(options: tuple[str, ...], word: str, nothing_spent: object, command: Command) -> None:
    refused(release(command, *MARGINALS, *BUDGET, *options), word)


def test_ledgers_that_are_none(place: Path, command: Command) -> None:
    (place / "l.ledger").write_bytes(b"not a ledger" * 100)
    refused(release(command, *MARGINALS, *BUDGET))
    assert not Path("o.conspectus").exists()
    refused(command("ledger", "show", "l.ledger"))
    refused(command("ledger", "show", "nowhere.ledger"))
    refused(command("ledger", "init", "l.ledger", "--schema", "small.toml", "--epsilon", 1))
    assert (place / "l.ledger").read_bytes() == b"not a ledger" * 100


def damaged(path: Path) -> list[bytes]:
    """A release file cut short, bent, swapped and rewritten."""
    whole = path.read_bytes()
    bent = bytearray(whole)
    bent[len(whole) // 2] ^= 0x55
    versions = [b"", b"hello", whole[: len(whole) // 2], whole[:-30], bytes(bent), whole[100:]]
    for entry in zipfile.ZipFile(path).namelist():
        rewritten = path.with_suffix(".zip")
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(rewritten, "w") as new:
            for name in old.namelist():
                content = old.read(name)
                new.writestr(name, content[:-7] + b'"x": 1}' if name == entry else content)
        versions.append(rewritten.read_bytes())
    return versions


def test_truncated_and_tampered_releases(released: Path, command: Command) -> None:
    versions = damaged(released)
    assert len(versions) > 8
    for version in versions:
        Path("bad.conspectus").write_bytes(version)
        refused(command("ask", "bad.conspectus", "ill"))
        refused(command("report", "bad.conspectus", "-o", "r.html"))
    for name in ("nowhere.conspectus", ".", "small.csv"):
        refused(command("ask", name, "ill"))


@pytest.mark.parametrize("confidence", ["0", "1", "nan", "95"])
def test_confidence(confidence: str, released: Path, command: Command) -> None:
    refused(command("ask", released, "ill", "--confidence", confidence), "confidence")


def test_more_rows_than_memory(released: Path, command: Command) -> None:
    refused(command("synthesize", released, "-n", 10**15, "-o", "rows.csv"))
    refused(command("synthesize", released, "-n", -1, "-o", "rows.csv"))


def test_values_outside_the_schema_never_stop_a_release_and_never_show(place: Path, command: Command) -> None:
    odd = {"sex": "Ada Lovelace", "age": "Ada", "ill": "Ada?", "a, b": "Ada!"}
    write_table(place / "odd.csv", [*ROWS, odd, {**odd, "age": 10**30, "ill": ""}])
    said = command("release", "odd.csv", *RELEASE[2:], *MARGINALS, *BUDGET, "-o", "o.conspectus")
    assert said.code == 0
    assert "Ada" not in said.out + said.err
    assert cs.load("o.conspectus").total.rows == len(ROWS) + 2


def test_a_process_of_its_own_behaves_the_same(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "conspectus", *RELEASE, *MARGINALS, "--epsilon", "nan", "-o", "o.conspectus"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_table_where_none_is_read(place: Path, command: Command) -> None:
    """`plan` is given the table first, as `release` is: the refusal says what to write in its place."""
    refused(command("plan", "small.csv", "--schema", "small.toml", "--marginals", "2", "--epsilon", "1"), "--rows")
    refused(command("export", "a.conspectus", "--table", "sex", "age", "-o", "t.csv"), "quotes")


def test_a_select_of_another_table_or_in_another_place(released: Path, command: Command) -> None:
    """What to type instead stands in the refusal."""
    refused(command("sql", released, "SELECT COUNT(*) FROM others"), 'write FROM "small"')
    refused(command("ask", released, "SELECT COUNT(*) FROM small"), "conspectus sql")
