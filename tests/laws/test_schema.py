"""The schema file: what it declares, and what it says when it is wrong."""

from __future__ import annotations

import datetime
import json
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest

from conspectus.data.columns.kinds import Boolean, Categorical, Date, Integer, Number
from conspectus.data.schema import Schema, SchemaError, Unit
from conspectus.data.sources.drafting import check, draft

WHOLE = """
name = "adult"
neighbours = "add-remove"
null_values = ["?", "NA"]

[unit]
kind = "id"
column = "patient_id"
max_rows = 3

[columns.sex]
type = "categorical"
values = ["Male", "Female"]
other = true

[columns.code]
type = "categorical"
values_file = "codes.txt"
default = "B2"

[columns.age]
type = "integer"
min = 17
max = 90
width = 10
missing = true

[columns.income]
type = "number"
edges = [0, 10000, 25000.5]

[columns.rate]
type = "number"
min = 0
max = 1
width = 0.3

[columns."getting in/out of bed"]
type = "boolean"

[columns.admitted]
type = "date"
min = 2020-01-01
max = 2024-12-31
width = "month"
default = 2021-05-05
"""

SPRING = datetime.date(2021, 5, 5)


def write(folder: Path, text: str) -> Path:
    path = folder / "adult.toml"
    path.write_text(text, encoding="utf-8")
    (folder / "codes.txt").write_text("A1\n\n B2 \nC3\n", encoding="utf-8")
    return path


def test_a_whole_schema_is_read_in_order(tmp_path: Path) -> None:
    schema = Schema.load(write(tmp_path, WHOLE))
    assert schema.name == "adult"
    assert schema.neighbours == "add-remove"
    assert str(schema.unit) == "patient_id (at most 3 rows each)"
    assert not schema.draft
    assert schema.columns == (
        Categorical("sex", ("Male", "Female"), other=True),
        Categorical("code", ("A1", "B2", "C3"), default="B2"),
        Integer("age", 17, 90, width=10, missing=True),
        Number("income", (0, 10000, 25000.5)),
        Number("rate", (0, 0.3, 0.6, 0.3 * 3, 1)),
        Boolean("getting in/out of bed"),
        Date(
            "admitted",
            datetime.date(2020, 1, 1),
            datetime.date(2024, 12, 31),
            width="month",
            default=datetime.date(2021, 5, 5),
        ),
    )
    assert schema.domain.sizes == (3, 3, 9, 2, 4, 2, 60)
    assert schema.column("age").labels[0] == "17–26"
    with pytest.raises(LookupError, match='did you mean "income"'):
        schema.column("incom")
    assert schema.encode(0, pa.array(["?", "Male", "x"])).tolist() == [0, 0, 2]


def test_a_schema_survives_json_and_its_fingerprint_tells_schemas_apart(tmp_path: Path) -> None:
    schema = Schema.load(write(tmp_path, WHOLE))
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False)))
    assert again == schema
    assert hash(again) == hash(schema)
    assert again.fingerprint == schema.fingerprint
    assert len(schema.fingerprint) == 64
    changed = Schema.load(write(tmp_path, WHOLE.replace("width = 10\n", "width = 5\n")))
    assert changed.fingerprint != schema.fingerprint


def test_defaults_are_the_plain_ones(tmp_path: Path) -> None:
    schema = Schema.load(write(tmp_path, '[columns.a]\ntype = "boolean"\n'))
    assert (schema.name, schema.unit, schema.neighbours, schema.null_values) == ("adult", Unit(), None, ())
    assert str(schema.unit) == "row"
    assert str(Unit("id", "p", 1)) == "p (at most 1 row each)"


AGE = '[columns.age]\ntype = "integer"\nmin = 1\nmax = 9\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (AGE + "widht = 3\n", 'column "age": "widht" is not known here, did you mean "width"?'),
        (AGE.replace("type", "tpye"), 'column "age": "tpye" is not known here, did you mean "type"?'),
        (AGE.replace("integer", "integr"), 'type "integr" is not known, did you mean "integer"?'),
        (AGE.replace("max = 9\n", ""), 'column "age": a column of type integer needs min and max: max is not there'),
        (AGE.replace("9", "0"), "min = 1 is above max = 0"),
        (AGE + 'values = ["a"]\n', '"values" is not known here'),
        ("[columns.age]\nmin = 1\n", "it has no type: write one of"),
        ("columns = 3\n", "columns are tables"),
        ("columns.age = 3\n", 'column "age": a column is a table'),
        ("", "a schema needs at least one column"),
        ("colums = 3\n" + AGE, '"colums" is not known here, did you mean "columns"?'),
        ('neighbors = "replace"\n' + AGE, 'did you mean "neighbours"?'),
        ('neighbours = "swap"\n' + AGE, 'write "replace" or "add-remove"'),
        ('null_values = "?"\n' + AGE, "null_values is a list of texts"),
        ("null_values = [3]\n" + AGE, "null_values is a list of texts"),
        ("draft = 1\n" + AGE, "draft is true"),
        ("name = 3\n" + AGE, "name is a text"),
        (AGE + '[unit]\nkind = "person"\n', 'write "row", "id" or "pairs"'),
        (AGE + '[unit]\nkind = "id"\n', "max_rows = 3"),
        (AGE + '[unit]\nkind = "id"\nmax_rows = 3\n', "needs the name of the id column"),
        (AGE + '[unit]\nkind = "id"\ncolumn = "p"\nmax_rows = 0\n', "positive integer"),
        (AGE + '[unit]\nkind = "row"\nmax_rows = 3\n', 'go with kind = "id"'),
        (AGE + '[unit]\nkind = "id"\ncolum = "p"\nmax_rows = 2\n', 'did you mean "column"?'),
        (AGE + AGE.replace("age", "Age"), "differ by case"),
        (AGE + '[columns.c]\ntype = "categorical"\n', "needs values"),
        (AGE + '[columns.c]\ntype = "categorical"\nvalues_file = "no.txt"\n', 'values_file "no.txt" cannot be read'),
        (AGE + '[columns.c]\ntype = "categorical"\nvalues_file = "codes.txt"\nvalues = ["a"]\n', "leave one out"),
        (
            'null_values = ["x"]\n[columns.c]\ntype = "categorical"\nvalues = ["x"]\n',
            "listed in values and in null_values",
        ),
        (
            'null_values = ["1"]\n[columns.c]\ntype = "categorical"\nvalues = [1, 2]\n',
            "listed in values and in null_values",
        ),
        ('[columns.c]\ntype = "number"\n', "needs edges"),
        ('[columns.c]\ntype = "number"\nedges = [1, 2]\nwidth = 3\n', "edges and width do not go together"),
        ('[columns.c]\ntype = "number"\nmin = 1\nmax = 2\nwidth = 0\n', "width = 0 is not positive"),
        ('[columns.c]\ntype = "number"\nmin = 0\nmax = 1\nwidth = 1e-9\n', "at most"),
        ('[columns.c]\ntype = "number"\nmin = 0\nmax = 1e307\nwidth = 1e-308\n', "give a larger width"),
        ('[columns.c]\ntype = "number"\nmin = -1e308\nmax = 1e308\nwidth = 1e308\n', "min is a finite number"),
        (f'[columns.c]\ntype = "number"\nmin = 0\nmax = 1{"0" * 400}\nwidth = 1\n', "max is a finite number"),
        (f'[columns.c]\ntype = "number"\nedges = [0, 1{"0" * 400}]\n', "edges are finite numbers"),
        ('[columns.c]\ntype = "number"\nedges = [-1e308, 1e308]\n', "edges are finite numbers"),
        ('[columns.c]\ntype = "date"\nmin = 3\nmax = 2020-01-01\n', "min is a date"),
        ("[columns.age\n", "is not TOML"),
    ],
)
def test_a_wrong_schema_says_the_file_the_column_and_the_cure(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SchemaError) as problem:
        Schema.load(write(tmp_path, text))
    assert str(problem.value).startswith("adult.toml: ")
    assert message in str(problem.value)
    assert "\n" not in str(problem.value)


def test_files_that_are_no_schema(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.load(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SchemaError, match="UTF-8"):
        Schema.load(tmp_path / "binary.toml")
    with pytest.raises(SchemaError, match="table of name"):
        Schema.from_dict([])  # type: ignore[arg-type]


ROWS = """id;sex;age;when;paid;ok;empty
a1; Male;30;2020-01-05;1.5;yes;
a2;Female;45;2020-03-09;2.25;no;
a3;?;200;2020-02-01;0.5;yes;
"""


def test_a_draft_says_that_it_is_one_and_fits_its_data(tmp_path: Path) -> None:
    data = tmp_path / "people.csv"
    data.write_text(ROWS, encoding="utf-8")
    text = draft(data)
    assert text.startswith("# NOT PRIVATE")
    assert '"empty" holds no value' in text
    schema = Schema.load(write(tmp_path, text))
    assert schema.draft
    assert schema.name == "people"
    assert schema.null_values == ("?",)
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds["sex"] == "categorical"
    assert kinds["age"] == "integer"
    assert kinds["when"] == "date"
    assert kinds["paid"] == "number"
    assert kinds["ok"] == "boolean"
    for line in check(schema, data):
        assert line.rows == 3
        assert (line.clamped, line.recoded) == (0, 0)
        assert str(line).startswith("NOT PRIVATE")
    assert {line.name: line.missing for line in check(schema, data)}["sex"] == 1
    edited = Schema.load(write(tmp_path, text.replace("draft = true\n", "")))
    assert not edited.draft


def test_a_draft_leaves_out_ids_and_cuts_long_lists() -> None:
    many = pa.table(
        {
            "user_id": [f"u{n}" for n in range(1000)],
            "word": [f"w{n % 400}" for n in range(1000)],
            "far": [n * 1000 for n in range(1000)],
            'od"d\\ näme': ["a\nb", 'c"'] * 500,
            "same": [0.5] * 1000,
        }
    )
    text = draft(many)
    assert '# "user_id" looks like an id' in text
    assert "200 most frequent" in text
    schema = Schema.from_dict(tomllib.loads(text))
    assert schema.column("far").size <= 50
    assert schema.column('od"d\\ näme').labels == ("a\nb", 'c"', "other")
    assert schema.column("word").size == 201
    assert {line.name: line.recoded for line in check(schema, many)}["word"] == sum(
        n % 400 >= 0 for n in range(1000)
    ) - 600


def test_a_check_counts_what_the_codes_will_do() -> None:
    schema = Schema(
        "t",
        (Integer("age", 0, 99), Categorical("sex", ("M", "F")), Number("paid", (0, 10)), Boolean("ok")),
        null_values=("?", "-1"),
    )
    rows = pa.table(
        {
            "age": ["5", "100", "old", "?", None, "99.5", "-1", "-2"],
            "sex": ["M", " F ", "X", "?", "", "f", "M", "M"],
            "paid": [0.0, 10.0, 10.5, -1.0, float("nan"), None, 3.0, -0.5],
            "ok": [1, 0, 2, None, 1, 1, 0, -1],
        }
    )
    counts = {line.name: (line.clamped, line.recoded, line.missing) for line in check(schema, rows)}
    assert counts == {"age": (2, 1, 3), "sex": (0, 2, 2), "paid": (2, 0, 3), "ok": (0, 1, 2)}


def test_nouns_are_two_words_and_no_part_of_what_ledgers_compare() -> None:
    plain = {"name": "people", "columns": {"ill": {"type": "boolean"}}}
    schema = Schema.from_dict(plain)
    named = Schema.from_dict({**plain, "nouns": ["person", "people"]})
    assert schema.nouns == ()
    assert "nouns" not in schema.to_dict()
    assert named.nouns == ("person", "people")
    assert Schema.from_dict(named.to_dict()) == named
    assert (named != schema, named.fingerprint == schema.fingerprint) == (True, True)
    for wrong in ("person", ["person"], ["a", "b", "c"], ["person", ""], ["person", 3], 7, ["p" * 41, "people"]):
        with pytest.raises(SchemaError, match="nouns are two words"):
            Schema.from_dict({**plain, "nouns": wrong})
