"""What schemas declare beyond the plainest: integer edges, null values of one column, spellings of booleans; drafts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conspectus as cs
from conspectus.cli import run
from conspectus.data import schema as schemas
from conspectus.data.columns import kinds
from conspectus.data.columns.kinds import SchemaError, column_from_dict
from conspectus.data.schema import Schema
from conspectus.data.sources.drafting import check, draft

RNG = np.random.Generator(np.random.PCG64(5))


def one(**declared: object) -> Schema:
    return Schema.from_dict({"name": "t", "columns": {"x": declared}})


@settings(deadline=None)
@given(
    st.lists(st.integers(-1000, 1000), min_size=2, max_size=9, unique=True).map(sorted),
    st.lists(st.integers(-1500, 1500) | st.floats(-1500, 1500), max_size=30),
)
def test_integer_edges_are_bins_of_whole_numbers(edges: list[int], values: list[float]) -> None:
    column = column_from_dict("x", {"type": "integer", "edges": edges})
    codes = column.encode(pa.array([float(value) for value in values], pa.float64()))
    for value, code in zip(values, codes.tolist()):
        whole = min(max(int(np.floor(value)), edges[0]), edges[-1])
        low, high = column.bounds(code)
        assert low <= whole <= high
        assert column.code_of(value) == code
    inside = [column.bounds(code) for code in range(column.regular)]
    covered = [value for low, high in inside for value in range(low, high + 1)]
    assert covered == list(range(edges[0], edges[-1] + 1))
    made = column.decode(np.arange(column.regular), RNG)
    assert made.type == pa.int64()
    assert column.encode(made).tolist() == list(range(column.regular))
    assert column_from_dict("x", column.to_dict()) == column


def test_edges_of_integers_are_refused_unless_they_ascend() -> None:
    for edges in ([1], [1, 1], [2, 1], [0, 1.5], "01", 3, [True, 2]):
        with pytest.raises(SchemaError, match="ascending integers"):
            one(type="integer", edges=edges)
    with pytest.raises(SchemaError, match="do not go together"):
        one(type="integer", edges=[0, 1, 2], width=2)


def test_null_values_of_one_column_are_missing_in_it_alone() -> None:
    schema = Schema.from_dict(
        {
            "name": "t",
            "null_values": ["?"],
            "columns": {
                "days": {"type": "integer", "min": 0, "max": 27, "missing": True, "null_values": [999, "never"]},
                "weeks": {"type": "integer", "min": 0, "max": 1000, "missing": True},
                "who": {"type": "categorical", "values": ["a", "b"], "missing": True, "null_values": ["c"]},
            },
        }
    )
    read = pa.array(["3", "999", " never ", "?", "999.0", None])
    assert schema.encode(0, read).tolist() == [3, 28, 28, 28, 28, 28]
    assert schema.encode(1, read).tolist() == [3, 999, 1001, 1001, 999, 1001]
    assert schema.encode(0, pa.array([3, 999])).tolist() == [3, 28]
    assert schema.encode(2, pa.array(["a", "c", "z"])).tolist() == [0, 2, 0]
    assert Schema.from_dict(schema.to_dict()) == schema
    counted = check(schema, pa.table({"days": read, "weeks": read, "who": ["a", "c", "z", "a", "a", "a"]}))
    assert [line.missing for line in counted] == [5, 2, 1]


def test_null_values_need_a_place_to_go() -> None:
    with pytest.raises(SchemaError, match="write missing = true"):
        one(type="integer", min=0, max=9, null_values=[9])
    for wrong in ("9", 9, [None], [[1]]):
        with pytest.raises(SchemaError, match="null_values is a list"):
            one(type="integer", min=0, max=9, missing=True, null_values=wrong)
    with pytest.raises(SchemaError, match="listed in values and in null_values"):
        one(type="categorical", values=["a", "b"], missing=True, null_values=["b"])


def test_a_schema_without_the_new_keys_keeps_its_fingerprint() -> None:
    """Ledgers are bound to fingerprints: what is not declared must not be written."""
    known = Schema.from_dict(
        {"name": "t", "columns": {"a": {"type": "boolean"}, "b": {"type": "integer", "min": 0, "max": 9}}}
    )
    assert [sorted(column) for column in known.to_dict()["columns"]] == [
        ["default", "missing", "name", "type"],
        ["default", "max", "min", "missing", "name", "type", "width"],
    ]


@pytest.mark.parametrize(
    ("spelled", "kind"), [(["no", "yes"], pa.string()), ([0, 1], pa.int64()), (["nein", "ja"], pa.string())]
)
def test_spellings_of_a_boolean_come_back_as_they_were(spelled, kind) -> None:
    schema = one(type="boolean", values=spelled, missing=True)
    column = schema.column("x")
    assert column.labels == (str(spelled[0]), str(spelled[1]), "missing")
    for raw, code in ((spelled[0], 0), (spelled[1], 1), (True, 1), ("false", 0), ("Y", 1), (None, 2), ("?!", 2)):
        assert column.code_of(raw) == code
    made = column.decode(np.array([1, 0, 2, 1]), RNG)
    assert made.type == kind
    assert made.to_pylist() == [spelled[1], spelled[0], None, spelled[1]]
    data = pa.table({"x": pa.array([spelled[1]] * 30 + [spelled[0]] * 10)})
    release = cs.release(cs.open_table(data, schema), cs.marginals(schema, 1), epsilon=1e6, mechanism="laplace")
    text = f"x = '{spelled[1]}'"
    assert release.ask("x").count == release.ask(text).count == release.ask("x = TRUE").count == 30
    assert release.ask("NOT x").count == 10
    assert release.table("x")["x"].to_pylist() == [*spelled, None]
    assert set(release.synthetic(50)["x"].to_pylist()) <= {*spelled, None}
    assert Schema.from_dict(schema.to_dict()) == schema


def test_spellings_that_contradict_truth_are_refused() -> None:
    for wrong, said in (
        (["yes", "no"], "exchange them"),
        (["a"], "spellings of false and true"),
        ("no", "spellings of false and true"),
        (["a", "a"], "alike"),
        (["a", 1.5], "texts or whole numbers"),
    ):
        with pytest.raises(SchemaError, match=said):
            one(type="boolean", values=wrong)


def test_a_draft_reads_what_people_write() -> None:
    rows, rng = 4000, np.random.Generator(np.random.PCG64(5))  # fixed, whatever was drawn for other tests
    tail = np.round(np.exp(rng.normal(6, 2, rows))).astype(int)
    data = pa.table(
        {
            "": np.arange(rows),
            "owner": np.where(rng.random(rows) < 0.3, "yes", "no"),
            "flag": rng.integers(0, 2, rows),
            "paid": tail,
            "days": np.where(rng.random(rows) < 0.8, "N", rng.integers(0, 60, rows).astype(str)),
            "since": np.where(rng.random(rows) < 0.8, 999, rng.integers(0, 28, rows)),
            "note": [f"on the {i}. day nothing much happened at all" for i in range(rows)],
            "patient_id": [f"p{i // 3}" for i in range(rows)],
            "code": np.char.add("c", rng.integers(0, 700, rows).astype(str)),
            "mark": np.where(rng.random(rows) < 0.1, "-", rng.choice(["a", "b"], rows)),
        }
    )
    text = draft(data, nulls=["-"])
    schema = Schema.from_dict(tomllib.loads(text))
    assert schema.domain.names == ("owner", "flag", "paid", "days", "since", "code", "mark")
    assert "a column without a name" in text
    assert "free text" in text
    assert "looks like an id" in text
    assert "200 values from the data" in text
    assert "if 999 means missing or never" in text
    assert schema.column("owner").labels == ("no", "yes")
    assert schema.column("flag").own_value(1) == 1
    assert schema.column("days").kind == "integer"
    assert schema.column("days").null_values == ("N",)
    assert schema.null_values == ("-",)
    assert schema.column("mark").labels == ("a", "b", "other", "missing")
    paid = schema.column("paid")
    assert paid.kind == "integer"
    shares = np.bincount(paid.encode(pa.array(tail)), minlength=paid.size) / rows
    assert shares.max() < 0.2
    assert {line.name: (line.clamped, line.recoded) for line in check(schema, data) if line.name != "code"} == {
        name: (0, 0) for name in schema.domain.names if name != "code"
    }


def test_a_draft_has_as_many_bins_as_it_was_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = {"even": np.arange(2000) * 7, "tail": np.exp(np.linspace(0, 12, 2000)), "real": np.linspace(0, 1, 2000)}
    for bins in (4, 12):
        schema = Schema.from_dict(tomllib.loads(draft(pa.table(values), bins=bins)))
        assert all(2 <= column.size <= bins + 1 for column in schema.columns)
    file = tmp_path / "t.csv"
    file.write_text("a,b\n" + "\n".join(f"{i},{'-' if i % 2 else i}" for i in range(300)) + "\n", encoding="utf-8")
    out = tmp_path / "t.toml"
    assert run(["schema", "draft", str(file), "--null", "-", "--bins", "10", "-o", str(out)]) == 0
    assert "NOT PRIVATE" in capsys.readouterr().err
    made = Schema.load(out)
    assert made.null_values == ("-",)
    assert made.column("a").size == made.column("b").size - 1 == 6
    assert run(["schema", "draft", str(file), "-o", str(tmp_path / "t.txt")]) == 2


SLIPS = [
    (lambda frame, table, schema: cs.release(frame, cs.marginals(schema, 1), epsilon=1), "cs.open_table"),
    (lambda frame, table, schema: cs.release("data.csv", cs.marginals(schema, 1), epsilon=1), "cs.open_table"),
    (lambda frame, table, schema: cs.open_session(frame, epsilon=1), "cs.open_table"),
    (lambda frame, table, schema: cs.release(table, ["x", "y > 3"], epsilon=1), r"cs\.sql"),
    (lambda frame, table, schema: cs.release(table, ["x"], epsilon=1), r"cs\.marginal\("),
    (lambda frame, table, schema: cs.plan(table, cs.marginals(schema, 1), rows=9, epsilon=1), r"table\.schema"),
    (lambda frame, table, schema: cs.marginals(table, 1), r"table\.schema"),
    (lambda frame, table, schema: cs.open_table(pa.table({"z": [1]}), schema), "schema of another table"),
    (lambda frame, table, schema: cs.sql(schema, "SELECT COUNT(*) FROM t"), r"query\("),
]


@pytest.mark.parametrize(("slip", "lesson"), SLIPS, ids=range(len(SLIPS)))
def test_natural_slips_get_an_answer_that_teaches(slip, lesson) -> None:
    schema = Schema.from_dict(
        {"name": "t", "columns": {"x": {"type": "boolean"}, "y": {"type": "integer", "min": 0, "max": 9}}}
    )
    frame = pa.table({"x": [True, False], "y": [1, 2]})
    with pytest.raises((ValueError, LookupError), match=lesson):
        slip(frame, cs.open_table(frame, schema), schema)


def test_the_page_has_every_key_and_no_other() -> None:
    """docs/schema.md lists the keys that are read, for the types that know them."""
    page = (Path(__file__).parents[2] / "docs" / "schema.md").read_text(encoding="utf-8")
    tables = [part.split("\n\n")[0].splitlines()[2:] for part in page.split("| key |")[1:]]
    first = [" ".join(line.split("|")[1] for line in table) for table in tables]
    top, unit, columns = (re.findall(r"`(\w+)`", cells) for cells in first)
    assert set(top) == set(schemas._KEYS)
    assert set(unit) == set(schemas._UNIT_KEYS)
    known = {key for keys in kinds._KEYS.values() for key in keys} | set(kinds._COMMON)
    assert set(columns) == known
    for kind, keys in kinds._KEYS.items():
        for key in keys:
            told = [line for line in page.splitlines() if re.match(rf"\| .*`{key}`.* \|", line)]
            assert any(kind in line.split("|")[2] for line in told), (kind, key)
    example = re.search(r"```toml\n(.*?)```", page, re.S)
    assert example
    assert len(Schema.from_dict(tomllib.loads(example[1])).columns) == 6


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_bins_are_chosen_by_a_small_part_of_the_budget(kind: str) -> None:
    """Fixed seeds of the data, noise of a hundredth of the rows at most: no bin holds more than twice its share."""
    rows = 20_000
    income = np.exp(np.random.Generator(np.random.PCG64(9)).normal(6, 1.5, rows)).clip(0, 99_999)
    values = np.floor(income) if kind == "integer" else income
    fine = one(type=kind, min=0, max=100_000, width=100)
    table = cs.open_table(pa.table({"x": values}), fine)
    small = cs.release(table, cs.prefixes(fine, "x") + cs.marginal(fine, ["x"]), epsilon=20.0, mechanism="laplace")
    edges = cs.quantile_edges(small, "x", 8)
    assert all(type(edge) is int for edge in edges) or kind == "number"
    assert edges == sorted(set(edges))
    assert (edges[0], len(edges) <= 9) == (0, True)
    column = column_from_dict("x", {"type": kind, "edges": edges})
    shares = np.bincount(column.encode(pa.array(values)), minlength=column.size) / rows
    assert shares.max() < 2 / 8 + 0.05
    for wrong in (1, 2.5, True):
        with pytest.raises(ValueError, match="bins is how many"):
            cs.quantile_edges(small, "x", wrong)
    schema = one(type="boolean")
    plain = cs.release(cs.open_table(pa.table({"x": [True]}), schema), cs.marginals(schema, 1), epsilon=1.0)
    with pytest.raises(ValueError, match="integer and number"):
        cs.quantile_edges(plain, "x", 3)
