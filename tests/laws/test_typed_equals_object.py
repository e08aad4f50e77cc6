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
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from conspectus.data.columns.kinds import Boolean, Categorical, Column, Date, Integer, Number
from conspectus.data.columns.values import Nulls
from conspectus.data.schema import Schema, Unit
from conspectus.data.sources import open_pairs, open_records, open_table, units
from conspectus.data.sources.frames import open_frame

DAY = datetime.date
LISTED = (
    "1",
    "true",
    "0.1",
    "2020-01-01",
    "2020-01-01 22:30:00",
    "09:30:00.5",
    "a",
    "1.5",
    "9007199254740994",
    "(0, 1]",
)
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
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
ZONES = (None, "UTC", "Europe/Berlin", "America/St_Johns", "+05:30")
MOMENT = 1577836800  # 2020-01-01


def whole_numbers(rng: random.Random, low: int, high: int, rows: int) -> list[int | None]:
    near = [value for value in (0, 1, -1, 2, 9, 2**53, 2**53 + 1, -(2**53) - 1, low, high) if low <= value <= high]
    return [rng.choice([*near, None, rng.randint(low, high)]) for _ in range(rows)]


def reals(rng: random.Random, rows: int) -> list[float | None]:
    near = [0.1, -0.0, 1.0, 1.5, 0.5, -1.0, 7.5, 2.0**53 + 2, 2.0**62, 1e17, 1e300, math.inf, -math.inf, math.nan, None]
    return [rng.choice([*near, rng.uniform(-2, 2), float(rng.randint(-9, 9))]) for _ in range(rows)]


def ticks(rng: random.Random, parts: int, rows: int) -> list[int | None]:
    second = [MOMENT, MOMENT + 80999, MOMENT - 3600, MOMENT + 86400, 0, -1, 34200, rng.randint(-(10**9), 4 * 10**9)]
    extra = [0, parts // 2, 1, rng.randrange(parts)]
    return [None if rng.random() < 0.1 else rng.choice(second) * parts + rng.choice(extra) for _ in range(rows)]


def texts(rng: random.Random, rows: int) -> list[str | None]:
    words = [
        *LISTED,
        " 1 ",
        "+1",
        "1.",
        "1e0",
        "\ufffd",
        "\ufffdff",
        "?",
        "-1.0",
        "yes",
        "nan",
        "",
        " ",
        "2020-01-01T09",
        None,
    ]
    return [rng.choice([*words, str(rng.uniform(-2, 2)), chr(rng.randrange(32, 0x300))]) for _ in range(rows)]


def arrow_arrays(rng: random.Random, rows: int) -> Iterator[tuple[str, pa.Array]]:
    """Random values of every type of Arrow, with those among them that a schema lists or that lie at an edge."""
    for bits in (8, 16, 32, 64):
        signed = whole_numbers(rng, -(1 << bits - 1), (1 << bits - 1) - 1, rows)
        yield f"int{bits}", pa.array(signed, pa.type_for_alias(f"int{bits}"))
        yield f"uint{bits}", pa.array(whole_numbers(rng, 0, (1 << bits) - 1, rows), pa.type_for_alias(f"uint{bits}"))
    with np.errstate(over="ignore"):
        half = [None if value is None else np.float16(value) for value in reals(rng, rows)]
    yield "float16", pa.array(half, pa.float16())
    yield "float32", pa.array(reals(rng, rows), pa.float32())
    yield "float64", pa.array(reals(rng, rows), pa.float64())
    money = [rng.choice([None, "0.10", "1.00", "1.50", "-1.00", "7.50", "0.50", "0.00"]) for _ in range(rows)]
    cents = [None if value is None else decimal.Decimal(value) for value in money]
    for kind in (pa.decimal32(7, 2), pa.decimal64(15, 3), pa.decimal128(38, 10), pa.decimal256(70, 20)):
        yield str(kind), pa.array(cents, kind)
    long = [decimal.Decimal(rng.randrange(10**37)) / 1 for _ in range(rows)]
    yield "long decimals", pa.array([value.scaleb(-9, decimal.Context(50)) for value in long], pa.decimal128(38, 9))
    yield "bool", pa.array([rng.choice([True, False, None]) for _ in range(rows)])
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        yield str(kind), pa.array(texts(rng, rows), kind)
    raw = [None if text is None else text.encode() + rng.choice([b"", b"", b"\xff"]) for text in texts(rng, rows)]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        yield str(kind), pa.array(raw, kind)
    yield "fixed binary", pa.array([rng.choice([b"1  ", b"a\xff ", b"0.1", None]) for _ in range(rows)], pa.binary(3))
    days = [None if at is None else at // 86400 for at in ticks(rng, 1, rows)]
    yield "date32", pa.array(days, pa.int32()).cast(pa.date32())
    yield "date64", pa.array([None if at is None else at * 86_400_000 for at in days], pa.int64()).cast(pa.date64())
    for unit, parts in UNITS.items():
        for zone in ZONES:
            yield f"timestamp {unit} {zone}", pa.array(ticks(rng, parts, rows), pa.timestamp(unit, zone))
        yield f"duration {unit}", pa.array(ticks(rng, parts, rows), pa.duration(unit))
        clock = [None if at is None else at % (86400 * parts) for at in ticks(rng, parts, rows)]
        yield f"time {unit}", pa.array(clock, pa.time32(unit) if parts <= 1000 else pa.time64(unit))
    yield "nulls", pa.nulls(rows)
    small = [rng.choice([None, [], [1], [1, 2], [None, 1]]) for _ in range(rows)]
    for kind in (pa.list_(pa.int64()), pa.large_list(pa.float32()), pa.list_(pa.string())):
        held = small if "string" not in str(kind) else [None if row is None else list(map(str, row)) for row in small]
        yield str(kind), pa.array(held, kind)
    yield "fixed list", pa.array([rng.choice([None, [1, 2], [3, 4]]) for _ in range(rows)], pa.list_(pa.int8(), 2))
    moments = [rng.choice([None, [datetime.datetime(2020, 1, 1)], []]) for _ in range(rows)]
    yield "list of moments", pa.array(moments, pa.list_(pa.timestamp("ns", "Europe/Berlin")))
    structs = [rng.choice([None, {"a": 1, "b": "x"}, {"a": None, "b": "y"}]) for _ in range(rows)]
    yield "struct", pa.array(structs, pa.struct([("a", pa.int32()), ("b", pa.string())]))
    maps = [rng.choice([None, [("a", 1)], [("a", 2), ("b", 3)], []]) for _ in range(rows)]
    yield "map", pa.array(maps, pa.map_(pa.string(), pa.int64()))
    for name, held in (
        ("texts", pa.array(texts(rng, rows))),
        ("moments", pa.array(ticks(rng, 10**9, rows), pa.timestamp("ns", "Europe/Berlin"))),
        ("integers", pa.array(whole_numbers(rng, -9, 9, rows), pa.int16())),
        ("decimals", pa.array(cents, pa.decimal128(9, 2))),
    ):
        yield f"dictionary of {name}", held.dictionary_encode()
    yield "run ends", pa.RunEndEncodedArray.from_arrays([rows // 2, rows], pa.array(["1", "a"]))
    yield "uuid", pa.array([rng.choice([None, uuid.UUID(int=rng.randrange(3)).bytes]) for _ in range(rows)], pa.uuid())


def pandas_series(rng: random.Random, rows: int) -> Iterator[tuple[str, pd.Series]]:
    """Random values of the types that are pandas' own."""
    for name in ("int8", "Int8", "UInt64", "Int64", "Float32", "Float64", "boolean", "bool", "complex128"):
        numbers = [rng.choice([0, 1, 1, 0] if "ool" in name else [0, 1, 2, 9]) for _ in range(rows)]
        series = pd.Series(numbers).astype(name)
        if name[0] in "UIF" or name == "boolean":
            series[rng.randrange(rows)] = pd.NA
        yield name, series
    yield "longdouble", pd.Series(np.array([rng.choice([0.1, 1, 2.5]) for _ in range(rows)], np.longdouble))
    for storage in ("python", "pyarrow"):
        yield f"string {storage}", pd.Series(texts(rng, rows), dtype=pd.StringDtype(storage))
    yield "str", pd.Series(texts(rng, rows), dtype="str")
    for unit, parts in UNITS.items():
        at = np.array([0 if value is None else value for value in ticks(rng, parts, rows)], np.int64)
        yield f"datetime64[{unit}]", pd.Series(at.astype(f"M8[{unit}]"))
        yield (
            f"datetime64[{unit}, tz]",
            pd.Series(at.astype(f"M8[{unit}]"))
            .dt.tz_localize("UTC")
            .dt.tz_convert(rng.choice(["Europe/Berlin", "Asia/Kolkata", "Pacific/Apia"])),
        )
        yield f"timedelta64[{unit}]", pd.Series(at.astype(f"m8[{unit}]"))
    far = [2**40, -(2**40), 2**62, -(2**62), 0, MOMENT]
    yield "far moments", pd.Series(np.array([rng.choice(far) for _ in range(rows)], np.int64).astype("M8[s]"))
    yield "far spans", pd.Series(np.array([rng.choice(far) for _ in range(rows)], np.int64).astype("m8[s]"))
    for freq in ("Y", "M", "D", "h"):
        yield (
            f"period {freq}",
            pd.Series(pd.PeriodIndex.from_ordinals([rng.randrange(40, 60) for _ in range(rows)], freq=freq)),
        )
    ends = [rng.randrange(3) for _ in range(rows)]
    yield "interval", pd.Series(pd.arrays.IntervalArray.from_arrays(ends, [end + 1 for end in ends]))
    gaps = [math.nan if rng.random() < 0.2 else float(end) for end in ends]
    yield "interval float", pd.Series(pd.arrays.IntervalArray.from_arrays(gaps, [end + 1 for end in gaps]))
    yield "cut", pd.Series(pd.cut([rng.random() for _ in range(rows)], [0, 0.25, 0.5, 1]))
    yield "sparse", pd.Series(pd.arrays.SparseArray([rng.choice([0, 0, 1, 5]) for _ in range(rows)]))
    yield "sparse floats", pd.Series(pd.arrays.SparseArray([rng.choice([math.nan, 0.1, 1.0]) for _ in range(rows)]))
    yield "category", pd.Series(texts(rng, rows)).astype("category")
    yield "category of numbers", pd.Series([rng.choice([1.0, 0.1, None]) for _ in range(rows)]).astype("category")
    tz = pd.Series(np.array([MOMENT + rng.randrange(4) * 43200 for _ in range(rows)]).astype("M8[s]"))
    yield "category of moments", tz.dt.tz_localize("Europe/Berlin").astype("category")
    kinds = pd.Index(objects(["1", 1, 0.5, (1, 2)]), tupleize_cols=False)
    yield (
        "category of anything",
        pd.Series(pd.Categorical.from_codes([rng.randrange(-1, 4) for _ in range(rows)], kinds)),
    )


Case = tuple[str, Any, list[Any]]
OTHER_VALUES = ("arrow map",)  # pandas has no maps: it holds lists of pairs, which are other ids and other records
POLARS = (
    *("int", "uint", "float32", "float64", "bool", "string", "date32", "list<", "struct"),
    *("duration s", "duration ms", "duration us"),  # of nanoseconds polars makes other spans, to the one nearer to 0
)
VIEWS = ("string_view", "binary_view", "run ends", "uuid")  # pandas does not hold these, or breaks down over them


def cases(seed: int, rows: int) -> Iterator[Case]:
    """What a typed column is called, the column, and its values as objects."""
    rng = random.Random(seed)
    for name, array in arrow_arrays(rng, rows):
        yield f"arrow {name}", array, [each.as_py() for each in array]
        if name in VIEWS:
            continue
        if not pa.types.is_dictionary(array.type):
            held = pd.Series(array, dtype=pd.ArrowDtype(array.type))
            yield f"pandas arrow {name}", held, list(held.astype(object))
        if name not in ("date64", "nulls", "time ns"):
            plain = array.to_pandas()
            yield f"pandas {name}", plain, list(plain.astype(object))
        if name.startswith(POLARS):
            columns = pl.from_arrow(pa.table({"v": array})).get_column("v")
            yield f"polars {name}", columns, columns.to_list()
    for name, series in pandas_series(rng, rows):
        yield f"pandas own {name}", series, list(series.astype(object))


def frame_of(columns: dict[str, Any]) -> Any:
    """A frame of the library that its columns come from."""
    kinds = {type(column).__module__.partition(".")[0] for column in columns.values()}
    if "polars" in kinds:
        return pl.DataFrame({name: pl.Series(name, column) for name, column in columns.items()})
    return pd.DataFrame(columns) if "pandas" in kinds else pa.table(columns)


def objects(values: list[Any]) -> pd.Series:
    found = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        found[place] = value
    return pd.Series(found, dtype=object)


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


def thrice(typed: Any) -> Any:
    if isinstance(typed, pa.Array):
        return pa.chunked_array([typed] * 3)
    return pl.concat([typed] * 3) if isinstance(typed, pl.Series) else pd.concat([typed] * 3, ignore_index=True)


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
