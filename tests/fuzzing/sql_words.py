"""What random expressions are made of: columns, literals, patterns, steps, formats and types to cast to."""

from __future__ import annotations

COLUMNS = {
    "int": ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"],
    "num": [
        "i8",
        "i16",
        "i32",
        "i64",
        "u8",
        "u16",
        "u32",
        "u64",
        "f32",
        "f64",
        "n4_1",
        "n18_3",
        "n38_0",
        "n38_10",
        "n38_38",
    ],
    "text": ["s", "z"],
    "bool": ["yes"],
    "date": ["day"],
    "ts": ["moment", "zoned", "fine"],
    "raw": ["raw"],
}
LITERALS = {
    "int": [
        "0",
        "1",
        "-1",
        "7",
        "31",
        "127",
        "255",
        "32768",
        "2147483647",
        "-9223372036854775808",
        "9223372036854775807",
    ]
    + ["18446744073709551615", "170141183460469231731687303715884105727", "64", "-64", "1000000"],
    "num": [
        "0.0",
        "1.5",
        "-2.5",
        "1e308",
        "1e-300",
        "99999999999999999999.5",
        "0.00000000001",
        "'nan'::DOUBLE",
        "'inf'::DOUBLE",
    ],
    "text": ["''", "'a'", "'7'", "'é'", "'%'", "'2020-01-31'", "'infinity'", "chr(0)", "'\U0001f600'", "'(a'", "' '"],
    "bool": ["true", "false", "NULL"],
    "date": [
        "DATE '2020-02-29'",
        "DATE '0001-01-01'",
        "DATE 'infinity'",
        "DATE '5881580-07-10'",
        "DATE '-5877641-06-25'",
    ],
    "ts": ["TIMESTAMP '2020-02-29 10:00:00'", "TIMESTAMP 'infinity'", "TIMESTAMP '294247-01-10 04:00:54.775806'"]
    + ["TIMESTAMP '290309-12-22 (BC) 00:00:00'", "TIMESTAMP '1970-01-01'"],
    "time": ["TIME '00:00:00'", "TIME '24:00:00'", "TIME '23:59:59.999999'"],
    "span": ["INTERVAL 1 DAY", "INTERVAL '2147483647 months'", "INTERVAL '-2147483648 days'", "INTERVAL 100000 YEAR"]
    + ["INTERVAL '9223372036854775807 microseconds'", "INTERVAL '-1 month 1 day'", "INTERVAL 0 SECOND"],
    "raw": ["'\\xFF'::VARCHAR"],
}
PATTERNS = [
    "'a'",
    "'%a_%'",
    "'[0-9]+'",
    "'(a|b)*c'",
    "'^$'",
    "'(.)(.)'",
    "'\\d{4}-\\d{2}'",
    "''",
    "'('",
    "'(?i)A.*'",
    "'.'",
    "'%'",
]
STEPS = [
    f"'{step}'"
    for step in [
        "century",
        "decade",
        "year",
        "quarter",
        "month",
        "week",
        "day",
        "hour",
        "minute",
        "second",
        "millisecond",
        "microsecond",
    ]
]
PARTS = [
    f"'{part}'"
    for part in [
        "year",
        "month",
        "day",
        "hour",
        "minute",
        "second",
        "quarter",
        "week",
        "dow",
        "doy",
        "epoch",
        "isoyear",
        "millisecond",
    ]
]
FORMATS = ["'%Y-%m-%d'", "'%d'", "'%c'", "'%A %B %j %U'", "'%s'", "'%f%z'", "'%Y-%m-%dT%H:%M:%S.%f'", "'%%'", "'%g'"]
TARGETS = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"]
NUMBERS = [*TARGETS, "FLOAT", "DOUBLE", "DECIMAL(4,1)", "DECIMAL(18,3)", "DECIMAL(38,10)", "DECIMAL(38,38)", "DECIMAL"]
BEYOND = [
    "BIGNUM",
    "BIT",
    "JSON",
    "UUID",
    "BLOB",
    "TIMESTAMP_NS",
    "TIMESTAMP_S",
    "UHUGEINT",
    "TIMETZ",
    "VARIANT",
    "INTEGER[]",
]
BEYOND += ["STRUCT(a INTEGER)", "ENUM('a', 'b')", "MAP(VARCHAR, INTEGER)", "TIME_NS", "GEOMETRY", "UNION(a INTEGER)"]
