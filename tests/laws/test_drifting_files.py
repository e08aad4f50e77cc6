"""Files of one table whose types differ: a value means the same in every type that can hold it, in every file.

Whoever writes a day's file with pandas lets the values of that day decide its types: one missing value makes floats of
integers, a day on which nobody has a value has no type, and a day of which nobody is asked has no column. So one row
changes what the file says of all others. Their codes, ids, records and pairs have to stay what they were.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fuzzing.typed_columns import cases
from tests.laws.test_typed_equals_object import COLUMNS, NULLS

from conspectus.data.columns.kinds import Categorical, Date, Integer, Number
from conspectus.data.columns.values import Nulls, canonical_texts, distinct_of, spelled
from conspectus.data.records.record import Record
from conspectus.data.schema import Schema, Unit
from conspectus.data.sources import open_pairs, open_table, units
from conspectus.data.sources.drafting import draft
from conspectus.data.sources.many_files import open_many
from conspectus.data.sources.numbering import Numbering

DAYS, EACH = 3, 4
ROWS = DAYS * EACH
AGE, PLACE = Integer("age", 0, 99, missing=True), Integer("place", 0, ROWS)
COLUMNS_OF_A_DAY = (
    AGE,
    Number("weight", (0, 1, 2.5, 70, 100), missing=True),
    Categorical("word", ("a", "b", "1", "31"), other=True, missing=True),
    Date("day", datetime.date(2020, 1, 1), datetime.date(2020, 12, 31), missing=True),
    Categorical("flag", ("true", "false", "1", "0"), other=True, missing=True),
    PLACE,
)
SCHEMA = Schema("days", COLUMNS_OF_A_DAY)
BY_ID = replace(SCHEMA, unit=Unit("id", "who", 1))


def plain() -> dict[str, list[Any]]:
    return {
        "age": [31, 4, 64, 7, 8, 99, 10, 31, 12, 13, 14, 15],
        "weight": [1.0, 2.0, 70.0, 4.0, 5.5, 6.0, 7.0, 8.0, 9.0, 1.0, 2.0, 3.0],
        "word": ["a", "b", "1", "31", "a", "a", "b", "b", "c", "a", "a", "31"],
        "day": [pd.Timestamp(2020, 1 + place, 2) for place in range(ROWS)],
        "flag": [True, False, True, False, True, True, False, False, True, False, True, False],
        "who": [1, 2, 3, 1, 2, 4, 1, 5, 6, 7, 7, 1],
        "place": list(range(ROWS)),
    }


def write(rows: dict[str, list[Any]], folder: Path) -> Path:
    """A file for each day, as pandas writes it: columns in which nobody of the day has a value may not be there."""
    folder.mkdir()
    for day in range(DAYS):
        here = {name: values[day * EACH : (day + 1) * EACH] for name, values in rows.items()}
        people = [{n: v for n, v in zip(here, row) if v is not ABSENT} for row in zip(*here.values())]
        pd.DataFrame(people).to_parquet(folder / f"{day}.parquet")
    return folder


ABSENT = object()
Change = Callable[[dict[str, list[Any]]], None]


def in_row(place: int, **values: Any) -> Change:
    def change(rows: dict[str, list[Any]]) -> None:
        for name, value in values.items():
            rows[name][place] = value

    return change


def alone(name: str, kept: Any, day: int = 1) -> Change:
    """All others of a day have no value: then one person decides its type."""

    def change(rows: dict[str, list[Any]]) -> None:
        rows[name][day * EACH : (day + 1) * EACH] = [kept] + [None if kept is not ABSENT else ABSENT] * (EACH - 1)

    return change


# What both tables share, and what one row of one of them has instead.
NEIGHBOURS: dict[str, tuple[Change, Change]] = {
    "integers become floats": (in_row(0), in_row(5, age=None, who=None)),
    "integers become texts": (in_row(0), lambda rows: rows.update(age=[*map(str, rows["age"][:4]), *rows["age"][4:]])),
    "integers become large": (in_row(0), in_row(5, age=2**63 + 5, who=2**63 + 1)),
    "integers become fractions": (in_row(0), in_row(5, age=1.5, who=2.5)),
    "floats become integers": (
        lambda rows: rows["weight"].__setitem__(slice(4, 8), [5.5, 6, 7, 8]),
        in_row(4, weight=5),
    ),
    "truths become objects": (in_row(0), in_row(5, flag=None)),
    "moments to the nanosecond": (in_row(0), in_row(5, day=pd.Timestamp(2020, 6, 2, 3, 4, 5, 6, nanosecond=7))),
    "a moment that is missing": (in_row(0), in_row(5, day=pd.NaT)),
    "nobody but one, a number": (alone("age", 31), in_row(4, age=None)),
    "nobody but one, a text": (alone("word", "a"), in_row(4, word=None)),
    "nobody but one, a moment": (alone("day", pd.Timestamp(2020, 5, 5)), in_row(4, day=None)),
    "nobody but one, another kind": (alone("word", "a"), in_row(4, word=31)),
    "no column but for one": (alone("age", ABSENT), in_row(4, age=31)),
    "no id but for one": (alone("who", ABSENT), in_row(4, who=77)),
}


def tables(name: str, folder: Path) -> tuple[Path, Path, set[int]]:
    """Two tables as folders of files, and the rows that differ."""
    shared, change = NEIGHBOURS[name]
    left, right = plain(), plain()
    for rows in (left, right):
        shared(rows)
    change(right)
    differ = {
        place
        for place in range(ROWS)
        if [str(left[column][place]) for column in left] != [str(right[column][place]) for column in right]
    }
    return write(left, folder / "left"), write(right, folder / "right"), differ


def codes(source: Any, schema: Schema = SCHEMA) -> dict[int, tuple[int, ...]]:
    """The codes of each row, by its place."""
    with open_table(source, schema) as table:
        width = len(table.domain)
        rows = [row for chunk in table.chunks() for row in zip(*(chunk.column(c).tolist() for c in range(width)))]
    return {row[-1]: row for row in rows}


def types(folder: Path) -> list[list[tuple[str, str]]]:
    return [[(f.name, str(f.type)) for f in pq.read_schema(path)] for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_one_row_that_changes_the_type_of_its_file_changes_no_other_row(tmp_path: Path, name: str) -> None:
    left, right, differ = tables(name, tmp_path)
    assert types(left) != types(right) or "objects" in name or "missing" in name or "nano" in name
    queries = ("SELECT * FROM '{}/*.parquet'", "SELECT * REPLACE (CAST(age AS VARCHAR) AS word) FROM '{}/*.parquet'")
    for source in ("{}", "{}/*.parquet", *queries):
        before, after = codes(source.format(left)), codes(source.format(right))
        assert set(before) == set(after) == set(range(ROWS))
        assert {place for place in before if before[place] != after[place]} <= differ
    # Texts of numbers are the same numbers, so there nothing at all may change.
    if name == "integers become texts":
        assert codes(left) == codes(right)


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_ids_records_and_pairs_of_other_rows_stay_what_they_were(tmp_path: Path, name: str) -> None:
    left, right, differ = tables(name, tmp_path)
    changed = {plain()["who"][place] for place in differ} | {None}
    assert [ids(side)[place] for side in (left,) for place in range(ROWS) if place not in differ] == [
        ids(right)[place] for place in range(ROWS) if place not in differ
    ]
    before, after = codes(left, BY_ID), codes(right, BY_ID)
    of_others = [place for place in range(ROWS) if plain()["who"][place] not in changed and place not in differ]
    if "id" not in name:  # there a whole day has no ids, and is one unit together
        assert [place in before for place in of_others] == [place in after for place in of_others]
    assert not [place for place in before if place in after and before[place] != after[place] and place not in differ]
    for column in ("age", "who", "word"):
        schema = Schema("r", (Record(column), PLACE))
        prints = [codes(side, schema) for side in (left, right)]
        if name != "integers become texts":  # a text and a number are two records
            assert {place for place in range(ROWS) if prints[0][place] != prints[1][place]} <= differ
    shares = [pairs(side) for side in (left, right)]
    for place in range(ROWS):
        assert place in differ or shares[0][place] - differ == shares[1][place] - differ


def ids(folder: Path) -> dict[int, str | None]:
    origin = open_many(folder, ["who", "place"])
    assert origin.batches is not None
    found: dict[int, str | None] = {}
    for batch in origin.batches([origin.names["place"], origin.names["who"]], 3):
        found |= zip(batch.column(0).to_pylist(), units.people(batch.column(1), Nulls()).to_pylist())
    origin.close()
    return found


def pairs(folder: Path) -> dict[int, set[int]]:
    """For each row, the rows that belong to the same user."""
    with open_pairs(folder, "who", "place", items=[str(place) for place in range(ROWS)]) as table:
        has = [np.stack([chunk.column(c) for c in range(ROWS)]) for chunk in table.chunks()]
    users = [set(np.flatnonzero(user).tolist()) for part in has for user in part.T]
    return {place: next((user for user in users if place in user), set()) for place in range(ROWS)}


def written(folder: Path, seed: int, rows: int) -> Iterator[tuple[str, Path, pa.Array]]:
    """One file for each type of Arrow that a file can hold, of one column under every name."""
    for number, (name, typed, _) in enumerate(cases(seed, rows)):
        if not isinstance(typed, pa.Array):
            continue
        path = folder / f"{number:03}.parquet"
        table = pa.table({"id": typed, **{kind.name: typed for kind in COLUMNS}})
        try:
            pq.write_table(table, path, version="2.6", use_deprecated_int96_timestamps="96" in name)
        except (pa.ArrowException, NotImplementedError):
            path.unlink(missing_ok=True)
            continue
        yield name, path, typed


def test_a_folder_of_every_type_is_the_rows_of_its_files(tmp_path: Path) -> None:
    """Random values of all types of Arrow that a file can hold: together they read as each file alone."""
    schema = Schema("t", tuple(COLUMNS), null_values=NULLS)
    known = list(written(tmp_path, 1, 24))
    assert len({str(typed.type) for _, _, typed in known}) > 30

    def rows(source: Any) -> list[tuple[int, ...]]:
        with open_table(source, schema) as table:
            found = [[chunk.column(c).tolist() for c in range(len(COLUMNS))] for chunk in table.chunks()]
        return [row for chunk in found for row in zip(*chunk)]

    alone = [row for _, path, _ in known for row in rows(path)]
    assert rows(tmp_path) == alone
    assert rows(tmp_path / "*.parquet") == alone


def test_the_text_of_a_value_is_that_of_the_object(tmp_path: Path) -> None:
    """What a SELECT over several files reads, for every type: the text that the value has among objects."""
    compared = 0
    for name, typed, values in cases(2, 24):
        if isinstance(typed, pa.Array) and not pa.types.is_nested(typed.type):
            distinct, places = distinct_of(typed)
            texts = [*canonical_texts(distinct).to_pylist(), None]
            for place, value in zip(places.tolist(), values):
                if isinstance(value, str | bytes | float | int | datetime.date):
                    expected = spelled(value)
                    if expected is not None and "\ufffd" not in expected:
                        assert (texts[place] or None) == expected, name
                        compared += 1
    assert compared > 300


def test_numbers_for_values_of_several_types_do_not_meet() -> None:
    """1 and true are equal in Python, and are different users: which one came first must not decide for both."""
    named: list[str | None] = []

    def rule(value: object) -> int:
        text = spelled(value)
        if text not in named:
            named.append(text)
        return named.index(text)

    for first, second in (([True], [1]), ([1], [True])):
        named.clear()
        numbering = Numbering(rule)
        found = [numbering.of(pa.array(values)).tolist() for values in (first, second, [1.0], ["1"], ["true"])]
        true, one = found[:2] if first[0] is True else found[1::-1]
        assert one != true
        assert found[2:] == [one, one, true]


def test_a_csv_file_may_lack_a_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,place\n31,0\n")
    (tmp_path / "b.csv").write_text("place;word;more\n1;a;x\n2;b;y\n")
    rows = codes(tmp_path, Schema("t", (AGE, COLUMNS_OF_A_DAY[2], PLACE)))
    whole = pa.table({"age": [31, None, None], "word": [None, "a", "b"], "place": [0, 1, 2]})
    assert rows == codes(whole, Schema("t", (AGE, COLUMNS_OF_A_DAY[2], PLACE)))


def test_a_draft_of_files_of_several_types_reads_them_all(tmp_path: Path) -> None:
    left, right, _ = tables("integers become texts", tmp_path)
    assert draft(left) == draft(right).replace("right", "left")
    assert Schema.from_dict(tomllib.loads(draft(right))).domain.names == tuple(plain())
