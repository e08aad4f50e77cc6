"""A value means the same in a typed column and among objects, whatever stands beside it.

One person's odd value turns a typed column of pandas into one of objects, or integers into floats. If moments of
Berlin were read by one clock in a typed column and by another one among objects, that person would move everybody.
So for every type of Arrow and pandas, and for columns, ids, records and pairs: the law of the first line.
"""

from __future__ import annotations

import datetime
import decimal
import math
import random
import uuid
import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.fuzzing.typed_columns import LISTED, OTHER_VALUES, Case, cases, frame_of, objects, pandas_series, thrice

from conspectus.data.columns.kinds import Boolean, Categorical, Column, Date, Integer, Number
from conspectus.data.columns.values import Nulls
from conspectus.data.schema import Schema, Unit
from conspectus.data.sources import open_pairs, open_records, open_table, units
from conspectus.data.sources.frames import open_frame

DAY = datetime.date
COLUMNS: list[Column] = [
    Categorical("listed", LISTED, other=True, missing=True),
    Categorical("default", ("2019-12-31", "a", "0", "1"), default="a"),
    Boolean("boolean", missing=True),
    Integer("integer", -(2**53), 2**53, width=2**40, missing=True),
    Integer("small", 0, 9, default=3),
    Number("number", (-1e17, -1, 0, 0.1, 0.5, 1, 2**53, 1e17), missing=True),
    Date("date", DAY(2019, 12, 1), DAY(2020, 2, 1), missing=True),
    Date("year", DAY(1960, 1, 1), DAY(2030, 12, 31), width="year", default=DAY(2020, 1, 1)),
]
NULLS = ("?", "-1", "2020-01-02", "7.50")
STRANGERS: list[Any] = [
    *("stranger", b"stranger \xff", "\ud800 stranger", 1e-77, 12345678901, decimal.Decimal("1e-77"), 3 + 4j),
    *(datetime.datetime(1907, 3, 4, 5, 6, 7, tzinfo=datetime.UTC), DAY(1905, 5, 5), datetime.timedelta(days=-12345)),
    *(["stranger"], {"stranger": 1}, ("stranger", 1), np.array([7.25]), pd.Interval(5, 77)),
    *(pd.Period("1903-01"), pd.Timestamp("1904-01-01 01:01:01.000001001", tz="Asia/Tokyo"), uuid.UUID(int=77)),
]
MISSING: list[Any] = [None, float("nan"), pd.NaT, pd.NA, decimal.Decimal("NaN"), np.datetime64("NaT"), -math.inf]


def columns_of(columns: Sequence[Any]) -> list[tuple[list[int], ...]]:
    """The codes of each column of a frame, read as each kind of column."""
    named = {f"{place} {kind.name}": column for place, column in enumerate(columns) for kind in COLUMNS}
    declared = [replace(kind, name=f"{place} {kind.name}") for place in range(len(columns)) for kind in COLUMNS]
    rows = len(columns[0])
    schema = Schema("t", (*declared, Integer("place", 0, rows)), null_values=NULLS)
    with open_table(frame_of({**named, "place": beside(columns[0])}), schema) as table:
        chunks = list(table.chunks())
    order = np.argsort(np.concatenate([chunk.column(len(declared)) for chunk in chunks]))
    read = [np.concatenate([chunk.column(at) for chunk in chunks])[order].tolist() for at in range(len(declared))]
    return [tuple(read[at : at + len(COLUMNS)]) for at in range(0, len(declared), len(COLUMNS))]


def beside(column: Any) -> Any:
    held = list(range(len(column)))
    return pa.array(held) if isinstance(column, pa.Array | pa.ChunkedArray) else held


def people_of(columns: Sequence[Any]) -> list[list[str | None]]:
    """The ids of each column of a frame."""
    names = [f"{place}" for place in range(len(columns))]
    origin = open_frame(frame_of(dict(zip(names, columns))), names)
    with closing(origin):
        batches = list(origin.batches([origin.column(name, "") for name in names], 1 << 16))
    found: list[list[str | None]] = [[] for _ in names]
    for batch in batches:
        for ids, values in zip(found, batch.columns):
            ids.extend(units.people(values, Nulls(NULLS)).to_pylist())
    return found


def kept_of(typed: Any) -> set[int]:
    """The places of the rows that are kept, one of each id."""
    schema = Schema("t", (Integer("place", 0, len(typed)),), Unit("id", "who", 1), null_values=NULLS)
    with open_table(frame_of({"who": typed, "place": beside(typed)}), schema) as table:
        return {int(code) for chunk in table.chunks() for code in chunk.column(0)}


def sharing(typed: Any, rows: int) -> set[tuple[int, ...]]:
    """Which of the first rows have one user: each row is a pair with an item of its own."""
    items = [f"i{place}" for place in range(len(typed))]
    held = pa.array(items) if isinstance(typed, pa.Array) else items
    with open_pairs(frame_of({"who": typed, "it": held}), "who", "it", items=items) as table:
        chunks = list(table.chunks())
        has = [np.stack([chunk.column(position) for position in range(rows)]) for chunk in chunks]
    return {tuple(np.flatnonzero(user).tolist()) for part in has for user in part.T} - {()}


def strange(rng: random.Random) -> list[Any]:
    return rng.sample([*STRANGERS, *MISSING], len(MISSING) + 1)


def by_library(seed: int, rows: int) -> list[list[Case]]:
    groups: dict[str, list[Case]] = {}
    for case in cases(seed, rows):
        groups.setdefault(case[0].partition(" ")[0], []).append(case)
    return list(groups.values())


def check_columns(seed: int, rows: int) -> int:
    rng, compared = random.Random(f"{seed}"), 0
    for group in by_library(seed, rows):
        expected = columns_of([typed for _, typed, _ in group])
        before, after = strange(rng), strange(rng)
        mixed = columns_of([objects([*before, *values, *after]) for _, _, values in group])
        for (name, _, _), codes, found in zip(group, expected, mixed):
            for kind, known, other in zip(COLUMNS, codes, found):
                assert other[len(before) : len(before) + rows] == known, (name, kind.name)
                compared += rows
    return compared


def check_people(seed: int, rows: int) -> int:
    rng, compared = random.Random(f"{seed}"), 0
    for group in by_library(seed, rows):
        known = [case for case in group if case[0] not in OTHER_VALUES]
        expected = people_of([typed for _, typed, _ in known])
        odd = strange(rng)
        mixed = people_of([objects([*odd, *values]) for _, _, values in known])
        for (name, _, _), ids, found in zip(known, expected, mixed):
            assert found[len(odd) :] == ids, name
            compared += rows
    return compared


def check_records(seed: int, rows: int) -> int:
    rng, compared = random.Random(f"{seed}"), 0
    for name, typed, values in cases(seed, rows):
        if name not in OTHER_VALUES:
            read = [open_records(column) for column in (typed, objects([*values, *strange(rng)]))]
            first, second = (np.concatenate([chunk.column(0) for chunk in table.chunks()]) for table in read)
            assert first.tolist() == second[:rows].tolist(), name
            forms = [np.concatenate(list(table.records())) for table in read]
            assert forms[0].tolist() == forms[1][:rows].tolist(), name
            compared += rows
    return compared


def check_kept_rows_and_pairs(seed: int, rows: int, stride: int = 1) -> int:
    rng, compared = random.Random(f"{seed}"), 0
    for name, typed, values in list(cases(seed, rows))[seed % stride :: stride]:
        odd = strange(rng)
        if name not in OTHER_VALUES:
            others = [value for value in odd if not any(value is each for each in MISSING)]
            kept = kept_of(objects([*values * 3, *others]))
            assert {place for place in kept if place < 3 * rows} == kept_of(thrice(typed)), name
        assert sharing(objects([*values, *odd]), rows) == sharing(typed, rows), name
        compared += rows
    return compared


def check_joined(seed: int, rows: int, odd: Sequence[Any]) -> int:
    """One more row with an odd value, and pandas decides what type the column has from then on."""
    rng, compared = random.Random(f"{seed}"), 0
    known = list(pandas_series(rng, rows))
    expected = columns_of([series for _, series in known]), people_of([series for _, series in known])
    prints = [fingerprints_of(series) for _, series in known]
    for value in odd:
        joined = [with_one_more(series, value) for _, series in known]
        codes, ids = columns_of(joined), people_of(joined)
        for place, (name, _) in enumerate(known):
            found = tuple(read[:rows] for read in codes[place])
            assert found == expected[0][place], (name, value)
            assert ids[place][:rows] == expected[1][place], (name, value)
            assert fingerprints_of(joined[place])[:rows] == prints[place], (name, value)
            compared += rows
    return compared


def with_one_more(series: pd.Series, value: Any) -> pd.Series:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas says that it will find other types one day
        try:
            return pd.concat([series, objects([value]).infer_objects()], ignore_index=True)
        except ValueError:  # far moments that pandas cannot hold beside it, or half a sign
            return objects([*series, value])


def fingerprints_of(column: Any) -> list[int]:
    return [int(code) for chunk in open_records(column).chunks() for code in chunk.column(0)]


def test_one_more_row_changes_no_other() -> None:
    assert check_joined(0, 6, [None, 2.5, 1j, "x", STRANGERS[7], STRANGERS[9]]) > 1_000


def test_codes_of_typed_columns_are_those_of_objects() -> None:
    assert check_columns(0, 12) > 20_000


def test_ids_of_typed_columns_are_those_of_objects() -> None:
    assert check_people(0, 12) > 2_000


def test_records_of_typed_columns_are_those_of_objects() -> None:
    assert check_records(0, 12) > 2_000


def test_kept_rows_and_pairs_of_typed_columns_are_those_of_objects() -> None:
    assert check_kept_rows_and_pairs(2, 12, stride=9) > 200


@pytest.mark.audit
@pytest.mark.parametrize("seed", range(1, 21))
def test_typed_columns_are_as_objects_for_many_values(seed: int) -> None:
    check_columns(seed, 60)
    check_people(seed, 60)
    check_records(seed, 60)
    check_kept_rows_and_pairs(seed, 20, stride=4)
    check_joined(seed, 20, [*STRANGERS, *MISSING, 0, 1, 0.5, True, -1, 2**60, np.uint64(2**63)])
