"""The rule that bounds the rows of an id: by brute force, it reads that id's rows alone."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import conspectus as cs
from conspectus.data.columns.kinds import Categorical, Integer
from conspectus.data.schema import Schema, Unit
from conspectus.data.sources import open_table
from conspectus.data.sources.drafting import check_unit
from conspectus.report import write_report

PEOPLE = ("ann", "bob", "cem", "dan")
LETTERS = ("a", "b", "c")
Row = tuple[str | None, str | None, int | None]
ExactCounts = Counter[tuple[int, ...]]


def schema_for(max_rows: int, *, listed: bool) -> Schema:
    """Whether the id is a column of the schema too, so that its kept rows can be told apart."""
    columns = (Categorical("letter", LETTERS, other=True, missing=True), Integer("number", 0, 9, width=5))
    ids = (Categorical("who", PEOPLE, other=True, missing=True),) if listed else ()
    return Schema("t", (*columns, *ids), Unit("id", "who", max_rows), null_values=("?",))


def table_of(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            "who": pa.array([row[0] for row in rows], pa.string()),
            "letter": pa.array([row[1] for row in rows], pa.string()),
            "number": pa.array([row[2] for row in rows], pa.int64()),
        }
    )


def kept(source: Any, schema: Schema, *, rows: int = 1 << 17, public_seed: int = 0) -> ExactCounts:
    found: ExactCounts = Counter()
    with open_table(source, schema, public_seed=public_seed) as table:
        assert table.filtered
        for chunk in table.chunks(rows=rows):
            found.update(zip(*(chunk.column(position).tolist() for position in range(len(schema.columns)))))
    return found


def test_what_lies_beyond_max_rows_is_said_beside_every_number(tmp_path):
    """Nobody takes a count of kept rows for one of the file; the owner sees how many are left out."""
    rows = table_of([(who, "a", number % 10) for number in range(40) for who in ("ann", "bob")] + [("cem", "b", 1)])
    schema = schema_for(5, listed=False)
    found = check_unit(schema, rows)
    assert (found.rows, found.kept, found.dropped) == (81, 11, 70)
    assert check_unit(Schema("t", schema.columns), rows) is None
    release = cs.release(open_table(rows, schema), cs.marginals(schema, 2), epsilon=1e6)
    said = 'numbers are of the rows that are used: at most 5 of each "who"'
    shown = [release.ask("letter = 'a'"), release.table("letter"), release.query("SELECT COUNT(*), AVG(number) FROM t")]
    write_report(release, tmp_path / "page.html")
    assert all(said in one.notes and said in str(one) for one in shown)
    assert "at most 5 of each" in (tmp_path / "page.html").read_text()
    with cs.open_session(open_table(rows, schema), epsilon=1.0, questions=5, mechanism="laplace") as session:
        assert said in session.ask("letter = 'a'").notes
        assert said in session.query("SELECT letter, COUNT(*) FROM t GROUP BY letter").notes


rows_of_anyone = st.lists(
    st.tuples(st.sampled_from(PEOPLE), st.none() | st.sampled_from([*LETTERS, "z"]), st.none() | st.integers(-2, 11)),
    max_size=14,
)
rules = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(rows_of_anyone, st.integers(1, 3), st.sampled_from(PEOPLE), rows_of_anyone)
@rules
def test_a_person_changes_no_row_of_another(rows: list[Row], m: int, who: str, others: list[Row]) -> None:
    schema = schema_for(m, listed=True)
    code = PEOPLE.index(who)
    before = kept(table_of(rows), schema)
    for person in range(len(PEOPLE)):
        theirs = sum(row[0] == PEOPLE[person] for row in rows)
        assert sum(count for codes, count in before.items() if codes[2] == person) == min(m, theirs)
    without = [row for row in rows if row[0] != who]
    replaced = [*without, *((who, letter, number) for _, letter, number in others)]
    rest = Counter({codes: count for codes, count in before.items() if codes[2] != code})
    assert kept(table_of(without), schema) == rest
    after = kept(table_of(replaced), schema)
    assert Counter({codes: count for codes, count in after.items() if codes[2] != code}) == rest
    assert sum((after - rest).values()) <= m


@given(rows_of_anyone, st.integers(1, 3), st.sampled_from(PEOPLE), rows_of_anyone)
@rules
def test_the_multiset_and_its_total_move_by_max_rows_at_most(
    rows: list[Row], m: int, who: str, others: list[Row]
) -> None:
    schema = schema_for(m, listed=False)
    before = kept(table_of(rows), schema)
    without = [row for row in rows if row[0] != who]
    gone = kept(table_of(without), schema)
    assert not gone - before
    assert sum((before - gone).values()) <= m
    after = kept(table_of([*without, *((who, letter, number) for _, letter, number in others)]), schema)
    assert sum((after - before).values()) <= m
    assert sum((before - after).values()) <= m
    assert abs(sum(after.values()) - sum(before.values())) <= m


@given(rows_of_anyone, st.integers(1, 3), st.randoms(use_true_random=False))
@rules
def test_order_and_chunks_do_not_matter(rows: list[Row], m: int, shuffler: random.Random) -> None:
    schema = schema_for(m, listed=True)
    expected = kept(table_of(rows), schema)
    shuffled = list(rows)
    shuffler.shuffle(shuffled)
    assert kept(table_of(shuffled), schema) == expected
    assert kept(table_of(shuffled), schema, rows=2) == expected
    cut = len(shuffled) // 2
    pieces = pa.concat_tables([table_of(shuffled[:cut]), table_of(shuffled[cut:])])
    assert kept(pieces, schema) == expected


def test_the_seed_decides_which_rows_stay() -> None:
    rows: list[Row] = [("ann", letter, number) for letter in LETTERS for number in range(10)]
    schema = schema_for(3, listed=False)
    choices = {tuple(sorted(kept(table_of(rows), schema, public_seed=seed).elements())) for seed in range(12)}
    assert len(choices) > 3
    assert kept(table_of(rows), schema, public_seed=5) == kept(table_of(rows[::-1]), schema, public_seed=5)


def test_every_pass_keeps_the_same_rows_whatever_it_reads() -> None:
    rows: list[Row] = [(who, letter, number) for who in PEOPLE for letter in LETTERS for number in range(10)]
    schema = schema_for(2, listed=True)
    with open_table(table_of(rows), schema) as table:
        whole = Counter[tuple[int, int]]()
        for chunk in table.chunks():
            whole.update(zip(chunk.column(0).tolist(), chunk.column(2).tolist()))
        part = Counter[tuple[int, int]]()
        for chunk in table.chunks([0, 2]):
            part.update(zip(chunk.column(0).tolist(), chunk.column(2).tolist()))
        assert part == whole
        assert sum(chunk.rows for chunk in table.chunks([])) == 8


def test_identical_rows_of_one_id_are_counted_one_by_one() -> None:
    rows: list[Row] = [*[("ann", "a", 3)] * 7, ("bob", "a", 3)]
    assert kept(table_of(rows), schema_for(2, listed=False)) == Counter({(0, 0): 3})


def test_rows_that_only_their_separators_tell_apart_are_not_confused() -> None:
    """Joined without lengths, these rows would read the same, and a tie would be broken by the order of the file."""
    schema = Schema(
        "t",
        (Categorical("x", ("1", "1,1:1", "1:1")), Categorical("y", ("1,1:1", "1", "1:1"))),
        Unit("id", "who", 1),
    )
    pairs = [("1", "1,1:1"), ("1,1:1", "1"), ("1:1", "1:1"), ("1", None), (None, "1")]
    made = pa.table({"who": ["p"] * 5, "x": [x for x, _ in pairs], "y": [y for _, y in pairs]})
    backwards = made.take(list(range(5))[::-1])
    for seed in range(8):
        assert kept(made, schema, public_seed=seed) == kept(backwards, schema, public_seed=seed)


def test_rows_without_an_id_form_one_unit() -> None:
    rows: list[Row] = [(who, "a", n) for n, who in enumerate([None, None, "", " ", "?", " ? ", None])]
    schema = schema_for(2, listed=False)
    assert sum(kept(table_of(rows), schema).values()) == 2
    assert sum(kept(table_of([*rows, ("ann", "a", 1)]), schema).values()) == 3


def test_one_person_has_one_id_whatever_its_type_and_spaces(tmp_path: Path) -> None:
    schema = Schema("t", (Integer("number", 0, 9),), Unit("id", "who", 1))
    spaced = pa.table({"who": ["1", " 1", "1 ", "\t1", "2"], "number": range(5)})
    assert sum(kept(spaced, schema).values()) == 2
    mixed = pd.DataFrame({"who": [1, "1", " 1", 2, None], "number": range(5)}, dtype=object)
    assert sum(kept(mixed, schema).values()) == 3
    numbers = pa.table({"who": [1, 1, 1, 2, None], "number": range(5)})
    assert sum(kept(numbers, schema).values()) == 3
    (tmp_path / "t.csv").write_text("number,who\n0,1\n1, 1\n2,1\n3,2\n4,\n", encoding="utf-8")
    assert sum(kept(tmp_path / "t.csv", schema).values()) == 3
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 0), (1, 1), (2, 2), (NULL, 3)) v(who, number)")
    assert sum(kept(connection.table("t"), schema).values()) == 3


def test_a_rule_that_reads_other_rows_would_be_caught() -> None:
    """A twin that keeps the first rows of the file fails the law above: the order would matter."""
    rows: list[Row] = [("ann", "a", 1), ("ann", "b", 2), ("ann", "c", 9)]

    def first(table: list[Row]) -> list[Row]:
        return [row for place, row in enumerate(table) if sum(r[0] == row[0] for r in table[:place]) < 1]

    assert first(rows) != first(rows[::-1])
    schema = schema_for(1, listed=False)
    assert kept(table_of(rows), schema) == kept(table_of(rows[::-1]), schema)


@pytest.mark.parametrize("names", [["v0", "person"], ["whole", "_source"], ["v1", "v0"]])
def test_names_of_columns_do_not_meet_names_of_ours(names: list[str]) -> None:
    schema = Schema("t", tuple(Integer(name, 0, 9) for name in names), Unit("id", 'wh"o', 1))
    made = pa.table({'wh"o': ["p", "p", "q"], names[0]: [1, 1, 3], names[1]: [4, 4, 6]})
    assert kept(made, schema) == Counter({(1, 4): 1, (3, 6): 1})


LONG = 1234567890123456789
ODD_IDS: list[str | bytes] = [
    "x",
    "y",
    "",
    " ",
    "?",
    b"J\xf6rg",
    b"J\xe4rg",
    b"\xff",
    b"\xfe\xff",
    "\ufffd",
    "\ufffdff",
    str(LONG),
    str(LONG + 1),
]


def raw_id(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def with_ids(folder: Path, ids: list[bytes]) -> dict[str, Any]:
    """The same ids as a CSV, behind SQL, as bytes and as texts of Arrow and Parquet."""
    lines = b"\n".join([b"who,letter", *(who + b",a" for who in ids), b""])
    (folder / "t.csv").write_bytes(lines)
    raw = pa.array(ids, pa.binary())
    texts = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())  # Arrow does not look whether it is UTF-8
    table = pa.table({"who": texts, "letter": ["a"] * len(ids)})
    pq.write_table(table, folder / "t.parquet")
    return {
        "csv": folder / "t.csv",
        "sql over csv": f"SELECT * FROM '{folder / 't.csv'}'",
        "arrow": table,
        "bytes": table.set_column(0, "who", raw),
        "parquet": folder / "t.parquet",
        "sql over parquet": f"SELECT * FROM '{folder / 't.parquet'}'",
        "pandas": pd.DataFrame({"who": pd.Series(ids, dtype=object), "letter": ["a"] * len(ids)}),
    }


def test_no_two_ids_become_one(tmp_path: Path) -> None:
    """Read as a number, long ids met one another and words met in NULL; read as text, so did those of wrong bytes."""
    columns = (Categorical("letter", LETTERS), Integer("who", 0, 9))
    schema = Schema("t", columns, Unit("id", "who", 1), null_values=("?",))
    ids = [raw_id(value) for value in ODD_IDS for _ in range(2)]
    absent = 3
    for kind, source in with_ids(tmp_path, ids).items():
        assert sum(kept(source, schema).values()) == len(ODD_IDS) - absent + 1, kind


def test_what_is_kept_does_not_depend_on_the_types_that_others_give_a_column() -> None:
    """One person's missing number turns a column of pandas into floats, one person's word turns it into objects."""
    schema = schema_for(2, listed=False)
    rows = [(who, letter, number) for who in PEOPLE for letter in LETTERS for number in range(10)]
    plain = pd.DataFrame(rows, columns=["who", "letter", "number"])
    expected = kept(plain, schema)
    assert sum(expected.values()) == 8
    for odd in (None, "word", 2.5):
        one = pd.DataFrame([("eve", "a", odd)], columns=["who", "letter", "number"])
        changed = pd.concat([plain.astype(object), one]).infer_objects()
        assert str(changed["number"].dtype) != str(plain["number"].dtype)
        more = kept(changed, schema)
        assert not expected - more
        assert sum((more - expected).values()) == 1
    numbers = Schema("t", (Integer("number", 0, 9),), Unit("id", "who", 1))
    by_number = pd.DataFrame({"who": [1, 1, 2, 3, 3], "number": range(5)})
    assert kept(by_number, numbers) == kept(by_number.astype({"who": "float64"}), numbers)


def test_an_id_that_is_a_number_too_is_bound_by_its_text(tmp_path: Path) -> None:
    """The id is a number column of the schema too: behind SQL it is bound by its text all the same."""
    schema = Schema("t", (Integer("who", 0, 9), Integer("number", 0, 9)), Unit("id", "who", 1))
    path = tmp_path / "t.csv"
    for first in range(4):
        for second in range(4):
            path.write_text(f"who,number\n{LONG},{first}\n{LONG + 1},{second}\nword,5\nother,6\n", encoding="utf-8")
            both = kept(f"SELECT * FROM '{path}' WHERE number < 9", schema)
            assert sorted(number for _, number in both.elements()) == sorted([first, second, 5, 6])


def test_the_rows_kept_look_like_the_rows_there_are() -> None:
    """A thousand people with one row of each kind, of which one row is kept: about half of each kind, binomially.

    A rule that looked at the codes alone would keep the same kind of everybody. The seed is public, so this is no game
    of chance once it passes; a fair rule fails it with probability 1e-6 at most.
    """
    schema = Schema.from_dict(
        {
            "name": "visits",
            "unit": {"kind": "id", "column": "person", "max_rows": 1},
            "columns": {"v": {"type": "integer", "min": 0, "max": 1}},
        }
    )
    people = np.repeat(np.arange(1000), 2)
    values = np.tile([0, 1], 1000)
    kept = []
    for ids in (people, people.astype(float), people.astype(str)):
        with open_table(pa.table({"person": ids, "v": values}), schema) as table:
            kept.append(sum(int(chunk.column(0).sum()) for chunk in table.chunks()))
    assert abs(kept[0] - 500) < 78
    assert kept == [kept[0]] * 3
