"""Tables of the most extreme values of every type, and their plain neighbours, as files and as a DuckDB table."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 96


def _integers(bits: int, *, signed: bool) -> list[Any]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    beyond = [-9223372022400000001, -9223372030000000, -9223372030000] if bits == 64 and signed else []
    return [
        *beyond,
        *(value for value in (low, low + 1, -1, 0, 1, 2, 7, 31, high - 1, high) if low <= value <= high),
        None,
    ]


_FLOATS = [
    -9223372030000.0,
    float("nan"),
    float("inf"),
    -float("inf"),
    0.0,
    -0.0,
    1.5,
    -2.5,
    1e-45,
    9.3e18,
    -9.3e18,
    2147483648.0,
    1e38,
]
TEXTS: list[bytes | None] = [
    *(b"", b"a", b" ", b"0", b"-1", b"7", b"1e400", b"nan", b"infinity", b"-infinity", b"9" * 40, b"true", b"12:00:00"),
    *(b"2020-02-30", b"2020-02-29 10:00:00", b"290309-12-22 (BC) 00:00:00", b"5881580-07-10", b"24:00:00", b"1 day"),
    *(b"9223372036854775807 months", b"%", b"(", b"\\", b"[1", b'{"a":', b"\x00", b"a\x00b", b"1.7976931348623157e308"),
    *("é".encode(), "a\u0301".encode(), "\U0001f600".encode(), "\ufffd".encode(), "ß".encode(), "İ".encode()),
    *("\U0001f468\u200d\U0001f469\u200d\U0001f467".encode(), "\ufeff1".encode(), b"\xff", b"\xc3", b"a\xed\xa0\x80"),
    *(b"ab" * 20_000, "\U0001f600".encode() * 20_000, b"\xff" * 300, b"a" * 200_000, b"%Y-%m-%d", b"-170141183460e30"),
    *(b"-9223372036854775808", b"170141183460469231731687303715884105727", b"0001-01-01", b"9999-12-31", b"1,2", None),
    *(b"290309-12-22 (BC) 00:00:00+05", b"290309-12-21 (BC) 23:00:00", b"294247-01-10 05:00:00+01"),
]
_DAYS = [-719162, 2932896, 0, 18321, -(2**31), 2**31 - 1, 2**31 - 2, -2147483647, 106751991, None]
_MOMENTS = [
    -9223372022400000001,
    -(2**63),
    -(2**63) + 1,
    2**63 - 1,
    2**63 - 2,
    0,
    10**15,
    -62135596800000000,
    253402300799999999,
    None,
]


def _decimals(precision: int, scale: int) -> list[Any]:
    most = f"{'9' * (precision - scale)}.{'9' * scale}"
    return [Decimal(most), Decimal("-" + most), Decimal(0), Decimal(1).scaleb(-scale), None]


def _kinds() -> dict[str, tuple[pa.DataType, list[Any], Any]]:
    """Columns by name: the type, its extreme values and a plain one."""
    found: dict[str, tuple[pa.DataType, list[Any], Any]] = {}
    for bits in (8, 16, 32, 64):
        found[f"i{bits}"] = (getattr(pa, f"int{bits}")(), _integers(bits, signed=True), 5)
        found[f"u{bits}"] = (getattr(pa, f"uint{bits}")(), _integers(bits, signed=False), 5)
    found["f32"] = (pa.float32(), [*_FLOATS, 3.4e38, None], 5.0)
    found["f64"] = (pa.float64(), [*_FLOATS, 1.7976931348623157e308, 5e-324, -1e300, None], 5.0)
    for precision, scale in ((4, 1), (18, 3), (38, 0), (38, 10), (38, 38)):
        name = f"n{precision}_{scale}"
        found[name] = (pa.decimal128(precision, scale), _decimals(precision, scale), Decimal(1).scaleb(-scale))
    found["s"], found["z"] = (pa.string(), TEXTS, b"5"), (pa.string(), TEXTS[::-1], b"five")
    found["raw"] = (pa.binary(), [b"", b"\x00", b"\xff\xfe", b"a", b"x" * 70_000, None], b"a")
    found["yes"] = (pa.bool_(), [True, False, None], True)
    found["day"] = (pa.date32(), _DAYS, 18321)
    found["moment"] = (pa.timestamp("us"), _MOMENTS, 10**15)
    found["zoned"] = (pa.timestamp("us", "Europe/Paris"), _MOMENTS, 10**15)
    found["fine"] = (pa.timestamp("ns"), _MOMENTS, 10**15)
    found["clock"] = (pa.time64("us"), [0, 86_399_999_999, 86_400_000_000, 43_200_000_000, None], 0)
    found["many"] = (pa.list_(pa.int64()), [[], [1, None], None], [1])
    found["pair"] = (pa.struct([("a", pa.int64())]), [{"a": 1}, None], {"a": 1})
    return found


KINDS = _kinds()


def _array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if kind == pa.string():
        return pa.StringArray.from_buffers(*_buffers(values))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        plain = pa.array(values, pa.int32() if pa.types.is_date(kind) else pa.int64())
        return plain.view(kind)
    return pa.array(values, kind)


def _buffers(values: list[bytes | None]) -> tuple[Any, ...]:
    whole = pa.array(values, pa.binary())
    bits, offsets, data = whole.buffers()
    return len(values), offsets, data, bits


def _table(*, extreme: bool) -> pa.Table:
    """Rows that meet every extreme value of a column with many of the others, or the same columns without any."""
    random = Random(7)
    columns = {}
    for name, (kind, values, plain) in KINDS.items():
        picked = [values[row % len(values)] for row in range(ROWS)] if extreme else [plain] * 3
        random.shuffle(picked)
        columns[name] = _array(kind, picked)
    return pa.table(columns)


def write(folder: Path) -> None:
    """Write the extreme table and its plain neighbour: extreme.parquet, plain.parquet, extreme.csv, plain.csv."""
    for name, extreme in (("extreme", True), ("plain", False)):
        pq.write_table(_table(extreme=extreme), folder / f"{name}.parquet", coerce_timestamps=None, version="2.6")
        texts = [*TEXTS] if extreme else [b"5"]
        quoted = [b'"' + (text or b"").replace(b'"', b'""') + b'"' for text in texts if b"\n" not in (text or b"")]
        header = ",".join(["x", *(name for name in KINDS if name not in ("many", "pair"))]).encode()
        width = header.count(b",") + 1
        lines = [b",".join(quoted[(row + 7 * place) % len(quoted)] for place in range(width)) for row in range(ROWS)]
        (folder / f"{name}.csv").write_bytes(b"\n".join([header, *lines, b""]))


_OWNED = {
    "h": ("HUGEINT", ["-170141183460469231731687303715884105728", "170141183460469231731687303715884105727", "0", "7"]),
    "uh": ("UHUGEINT", ["340282366920938463463374607431768211455", "0"]),
    "span": ("INTERVAL", ["2147483647 months", "-2147483648 days", "9223372036854775807 microseconds", "1 day"]),
    "ti": ("TIME", ["00:00:00", "24:00:00", "23:59:59.999999"]),
    "tz": (
        "TIMESTAMPTZ",
        ["infinity", "-infinity", "290309-12-22 (BC) 00:00:00+00", "294247-01-10 04:00:54.775806+00"],
    ),
    "zt": ("TIMETZ", ["00:00:00+15:59:59", "24:00:00-15:59:59"]),
    "ns": ("TIMESTAMP_NS", ["1677-09-22 00:00:00", "2262-04-11 23:47:16.854775806", "infinity"]),
    "who": ("UUID", ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"]),
    "few": ("ENUM('a', 'b', '7')", ["a", "b", "7"]),
    "bits": ("BIT", ["0", "1" * 70]),
    "big": ("BIGNUM", ["9" * 60, "-" + "9" * 60, "0"]),
    "js": ("JSON", ['{"a": [1, 2, {"b": null}]}', '"text"', "7", "null"]),
    "li": ("INTEGER[]", ["[1, NULL]", "[]"]),
    "st": ("STRUCT(a INTEGER, b VARCHAR)", ["{'a': 1, 'b': x}"]),
    "m": ("MAP(VARCHAR, INTEGER)", ["{a=1}"]),
}
OWNED = tuple(_OWNED)


def owned(folder: Path, *, extreme: bool) -> Any:
    """A connection with a table `t` of the same columns, and of the types that only DuckDB has."""
    connection = duckdb.connect()
    whole = _table(extreme=extreme)
    kept = pa.table({name: whole[name] for name in KINDS if name not in ("s", "z", "fine", "clock")})
    texts = [text.decode("utf-8", "replace") for text in TEXTS if text is not None] if extreme else ["5"]
    rows = kept.num_rows
    kept = kept.append_column("s", pa.array([texts[row % len(texts)] for row in range(rows)]))
    kept = kept.append_column("z", pa.array([texts[(5 * row + 3) % len(texts)] for row in range(rows)]))
    connection.register("kept", kept)
    columns = []
    for name, (kind, values) in _OWNED.items():
        spelled = ", ".join("'" + value.replace("'", "''") + "'" for value in (values if extreme else values[-1:]))
        columns.append(
            f"CAST(([{spelled}])[1 + row_number() OVER () % {len(values) if extreme else 1}] AS {kind}) AS {name}"
        )
    connection.execute(f"CREATE TABLE t AS SELECT *, {', '.join(columns)} FROM kept")
    connection.unregister("kept")
    return connection


DATES = (datetime.date(2000, 1, 1), datetime.date(2030, 12, 31))
