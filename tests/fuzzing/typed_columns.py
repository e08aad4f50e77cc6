"""Random columns of every type of Arrow, pandas and polars, with the same values as objects."""

from __future__ import annotations

import datetime
import decimal
import math
import random
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

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
    yield "uuid", pa.array([rng.choice([None, uuid.UUID(int=rng.randrange(3)).bytes]) for _ in range(rows)], pa.uuid())
    yield from layouts(rng, rows, pa.array(cents, pa.decimal128(9, 2)), pa.array(small, pa.list_(pa.int64())))


def layouts(rng: random.Random, rows: int, money: pa.Array, lists: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Values of the types of Arrow that lay out others, or stand for them."""
    ends = [*sorted(rng.sample(range(1, rows), 3)), rows + 3]
    moments = pa.array(ticks(rng, 10**9, rows), pa.timestamp("ns", "Europe/Berlin"))
    for name, held in (("texts", pa.array(texts(rng, 4))), ("moments", moments), ("money", money), ("lists", lists)):
        runs = pa.RunEndEncodedArray.from_arrays(ends, held.slice(0, 4))
        yield f"run ends of {name}", runs.slice(rng.randrange(4), rows)
    for kind in (pa.list_view(pa.int64()), pa.large_list_view(pa.int64())):
        yield str(kind), pa.array(lists.to_pylist(), kind)
    kinds = pa.array([rng.randrange(3) for _ in range(rows)], pa.int8())
    parts = [pa.array(whole_numbers(rng, -9, 9, rows)), pa.array(texts(rng, rows)), lists]
    yield "sparse union", pa.UnionArray.from_sparse(kinds, parts)
    places = pa.array([rng.randrange(rows) for _ in range(rows)], pa.int32())
    yield "dense union", pa.UnionArray.from_dense(kinds, places, parts)
    steps = [rng.choice([None, (1, 2, 3), (0, 0, 0)]) for _ in range(rows)]
    yield "months and days", pa.array(steps, pa.month_day_nano_interval())
    truths = pa.array([rng.choice([None, 0, 1, 5]) for _ in range(rows)], pa.int8())
    yield "bool8", pa.ExtensionArray.from_storage(pa.bool8(), truths)
    yield "json", pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(texts(rng, rows)))
    pairs = pa.array([rng.choice([None, [1, 2], [3, 4]]) for _ in range(rows)], pa.list_(pa.int64(), 2))
    yield "tensor", pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int64(), [2]), pairs)
    yield "dictionary of lists", pa.DictionaryArray.from_arrays(places, lists)
    yield "dictionary with nulls", pa.DictionaryArray.from_arrays(places, pa.array(texts(rng, rows)))
    days = [rng.choice([None, -1, 86_400, 90_000, 2**31 - 1, 34_200]) for _ in range(rows)]
    yield "times beyond a day", pa.array(days, pa.int32()).view(pa.time32("s"))


def polars_series(rng: random.Random, rows: int) -> Iterator[tuple[str, pl.Series]]:
    """Random values of the types that are polars' own."""
    words = [rng.choice(["a", "1", " 1", None]) for _ in range(rows)]
    yield "enum", pl.Series(words, dtype=pl.Enum(["a", "1", " 1"]))
    yield "categorical", pl.Series(words, dtype=pl.Categorical)
    money = [rng.choice([None, decimal.Decimal("1.10"), decimal.Decimal("1.00")]) for _ in range(rows)]
    yield "decimal", pl.Series(money, dtype=pl.Decimal(38, 2))
    yield "array", pl.Series([rng.choice([None, [1, 2]]) for _ in range(rows)], dtype=pl.Array(pl.Int64, 2))
    yield "tuples", pl.Series([rng.choice([None, (1, 2), (3,)]) for _ in range(rows)], dtype=pl.Object)
    yield "time", pl.Series([rng.choice([None, datetime.time(9, 30, 0, 500_000)]) for _ in range(rows)])
    at = [rng.choice([None, datetime.datetime(2020, 1, 1, 22, 30), datetime.datetime(1907, 1, 1)]) for _ in range(rows)]
    for unit in ("ms", "us", "ns"):
        for zone in (None, "Europe/Berlin"):
            yield f"moments {unit} {zone}", pl.Series(at, dtype=pl.Datetime(unit, zone))
    yield "bytes", pl.Series([rng.choice([None, b"a", b"\xff", b"1 "]) for _ in range(rows)])
    yield "long", pl.Series([rng.choice([None, 1, -(2**120), 2**64]) for _ in range(rows)], dtype=pl.Int128)
    yield "null", pl.Series([None] * rows)


class Whole(int):
    """An integer that says that it is another one."""

    def __int__(self) -> int:
        return 3

    def __str__(self) -> str:
        return "a"


class Real(float):
    """A float that says that it is another one."""

    def __float__(self) -> float:
        return 2.0


class Word(str):
    """A text that says that it is another one."""

    def __str__(self) -> str:
        return "a"


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
VIEWS = (  # pandas does not hold these, or breaks down over them
    *("string_view", "binary_view", "run ends", "uuid", "list_view", "large_list_view", "sparse union", "dense union"),
    *("months", "bool8", "json", "tensor", "dictionary of lists", "dictionary with", "times beyond"),
)


def cases(seed: int, rows: int) -> Iterator[Case]:
    """What a typed column is called, the column, and its values as objects."""
    rng = random.Random(seed)
    for name, array in arrow_arrays(rng, rows):
        yield f"arrow {name}", array, [each.as_py() for each in array]
        if name.startswith(VIEWS):
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
    for name, series in polars_series(rng, rows):
        yield f"polars own {name}", series, series.to_list()
    for kind, values in ((Whole, [0, 1, 9]), (Real, [0.1, 1.0]), (Word, ["1", "a", " x"])):
        said: list[Any] = [kind(rng.choice(values)) for _ in range(rows)]  # type: ignore[call-overload]
        yield f"pandas {kind.__name__}", pd.Series(pa.array(said).to_pylist()), said
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


def thrice(typed: Any) -> Any:
    if isinstance(typed, pa.Array):
        return pa.chunked_array([typed] * 3)
    return pl.concat([typed] * 3) if isinstance(typed, pl.Series) else pd.concat([typed] * 3, ignore_index=True)
