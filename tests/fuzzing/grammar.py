"""Random expressions in the closed language of sources, typed so that most of them bind, and wild ones beside them."""

from __future__ import annotations

from random import Random

from tests.fuzzing.extremes import OWNED
from tests.fuzzing.sql_words import BEYOND, COLUMNS, FORMATS, LITERALS, NUMBERS, PARTS, PATTERNS, STEPS, TARGETS

from conspectus.data.sources.sql_functions import CASTS, FUNCTIONS

# What makes a value of a kind; {kind} is a part of that kind, {PATTERN} and the like are written out.
RULES: dict[str, list[str]] = {
    "any": [
        "CASE WHEN {bool} THEN {K} ELSE {K} END",
        "CASE WHEN {bool} THEN {K} WHEN {bool} THEN {K} END",
        "coalesce({K}, {K})",
        "nullif({K}, {K})",
        "if({bool}, {K}, {K})",
        "greatest({K}, {K}, {K})",
        "least({K}, {K})",
        "CASE {int} WHEN {int} THEN {K} ELSE {K} END",
    ],
    "int": [
        *(f"{{int}} {sign} {{int}}" for sign in ("+", "-", "*", "//", "%", "&", "|", "<<", ">>")),
        *("- {int}", "~ {int}", "abs({int})", "@ {int}", "sign({num})", "xor({int}, {int})", "gcd({int}, {int})"),
        *(
            "lcm({int}, {int})",
            "mod({int}, {int})",
            "add({int}, {int})",
            "subtract({int}, {int})",
            "divide({int}, {int})",
        ),
        *(
            "multiply({int}, {int})",
            "round({int}, {int})",
            "trunc({int})",
            "round({int}, -2)",
            "hash({text})",
            "hash({num})",
        ),
        *(f"{name}({{text}})" for name in ["length", "len", "strlen", "char_length", "ascii", "unicode", "ord"]),
        *("position({text} IN {text})", "strpos({text}, {text})", "instr({text}, {text})", "CAST({any_kind} AS {INT})"),
        *(
            f"{name}({{when}})"
            for name in [
                "year",
                "month",
                "day",
                "quarter",
                "century",
                "decade",
                "dayofmonth",
                "week",
                "weekday",
                "isodow",
            ]
        ),
        *(
            f"{name}({{when}})"
            for name in ["dayofyear", "isoyear", "yearweek", "epoch_ms", "epoch_us", "weekofyear", "dayofweek"]
        ),
        *(
            f"{name}({{clock}})"
            for name in ["hour", "minute", "second", "millisecond", "microsecond", "epoch_us", "epoch_ms"]
        ),
        *(
            f"{name}({{span}})"
            for name in [
                "year",
                "month",
                "day",
                "hour",
                "minute",
                "second",
                "epoch",
                "epoch_ms",
                "week",
                "isodow",
                "quarter",
            ]
        ),
        *("date_diff({STEP}, {when}, {when})", "date_sub({STEP}, {when}, {when})", "{date} - {date}"),
        *("datediff({STEP}, {ts}, {ts})", "datesub({STEP}, {ts}, {ts})"),
    ],
    "num": [
        *(f"{{num}} {sign} {{num}}" for sign in ("+", "-", "*", "/", "//", "%", "^", "**")),
        *(
            f"{name}({{num}})"
            for name in [
                "abs",
                "ceil",
                "floor",
                "round",
                "trunc",
                "sqrt",
                "cbrt",
                "exp",
                "ln",
                "log",
                "log10",
                "log2",
                "even",
                "sin",
                "cos",
            ]
        ),
        *(f"{name}({{num}})" for name in ["tan", "asin", "acos", "atan", "degrees", "radians", "ceiling"]),
        *(
            "atan2({num}, {num})",
            "pow({num}, {num})",
            "power({num}, {num})",
            "fmod({num}, {num})",
            "fdiv({num}, {num})",
        ),
        *("round({num}, {int})", "trunc({num}, {int})", "log({num}, {num})", "round({num}, 2)", "pi()", "- {num}"),
        *("CAST({any_kind} AS {NUM})", "{any_kind}::DOUBLE", "epoch({when})", "date_part({PART}, {when})", "{int}"),
        *("epoch({span})", "date_part({PART}, {span})", "extract(year FROM {when})", "date_part({PART}, {time})"),
    ],
    "text": [
        *(
            f"{name}({{text}})"
            for name in [
                "upper",
                "lower",
                "trim",
                "ltrim",
                "rtrim",
                "reverse",
                "strip_accents",
                "md5",
                "sha1",
                "sha256",
            ]
        ),
        *("{text} || {text}", "{text} || {any_kind}", "concat({text}, {any_kind})", "concat_ws({text}, {text}, {num})"),
        *("left({text}, {int})", "right({text}, {int})", "substring({text}, {int})", "substring({text}, {int}, {int})"),
        *(
            "replace({text}, 'a', 'bb')",
            "replace({text}, '', 'x')",
            "translate({text}, 'ab', 'é')",
            "trim({text}, 'a ')",
        ),
        *(
            "regexp_extract({text}, {PATTERN})",
            "regexp_extract({text}, {PATTERN}, 1)",
            "split_part({text}, {text}, {int})",
        ),
        *("regexp_replace({text}, {PATTERN}, 'x')", "regexp_replace({text}, {PATTERN}, '\\1y', 'g')", "chr({int})"),
        *("CAST({any_kind} AS VARCHAR)", "{any_kind}::TEXT", "strftime({when}, {FORMAT})", "monthname({when})"),
        *("dayname({when})", "CAST({text} AS VARCHAR(3))"),
    ],
    "bool": [
        *(f"{{num}} {sign} {{num}}" for sign in ("=", "<", ">=", "<>")),
        *(f"{{K2}} {sign} {{K2}}" for sign in ("=", "<", "<=", "<>", "IS DISTINCT FROM")),
        *("{any_kind} = {any_kind}", "{any_kind} < {any_kind}", "{any_kind} IS NULL", "{K2} BETWEEN {K2} AND {K2}"),
        *("{K2} IN ({K2}, {K2})", "{K2} NOT IN ({K2}, {K2})", "NOT {bool}", "{bool} AND {bool}", "{bool} OR {bool}"),
        *("{text} LIKE {PATTERN}", "{text} ILIKE {PATTERN}", "{text} NOT LIKE {PATTERN}", "{text} GLOB 'a*[b]?'"),
        *("regexp_matches({text}, {PATTERN})", "regexp_full_match({text}, {PATTERN})", "contains({text}, {text})"),
        *(
            "starts_with({text}, {text})",
            "ends_with({text}, {text})",
            "prefix({text}, {text})",
            "suffix({text}, {text})",
        ),
        *("{text} ^@ {text}", "isnan({num})", "isinf({num})", "isfinite({num})", "isinf({when})", "isfinite({when})"),
        *("list_contains([{K2}, {K2}], {K2})", "{K2} IN [{K2}, {K2}]", "CAST({any_kind} AS BOOLEAN)", "{bool} IS TRUE"),
        *("TRY({bool})", "{text} ~ {PATTERN}", "{text} SIMILAR TO {PATTERN}"),
    ],
    "date": [
        *("CAST({text} AS DATE)", "CAST({ts} AS DATE)", "{date} + {int}", "{date} - {int}", "last_day({when})"),
        *("make_date({int}, {int}, {int})", "make_date({int})", "add({date}, {int})", "subtract({date}, {int})"),
        *("CAST({zoned} AS DATE)", "{int} + {date}"),
    ],
    "ts": [
        *(
            "CAST({text} AS TIMESTAMP)",
            "CAST({date} AS TIMESTAMP)",
            "{when} + {span}",
            "{when} - {span}",
            "{span} + {when}",
        ),
        *("date_trunc({STEP}, {when})", "make_timestamp({int}, {int}, {int}, {int}, {int}, {num})", "epoch_ms({int})"),
        *(
            "strptime({text}, {FORMAT})",
            "try_strptime({text}, {FORMAT})",
            "CAST({zoned} AS TIMESTAMP)",
            "{date} + {time}",
        ),
        *("datetrunc({STEP}, {ts})", "add({when}, {span})", "subtract({when}, {span})"),
    ],
    "zoned": [
        *(
            "to_timestamp({num})",
            "CAST({ts} AS TIMESTAMPTZ)",
            "CAST({text} AS TIMESTAMP WITH TIME ZONE)",
            "{zoned} + {span}",
        ),
        *("date_trunc({STEP}, {zoned})", "{zoned} - {span}"),
    ],
    "time": [
        *(
            "CAST({text} AS TIME)",
            "CAST({ts} AS TIME)",
            "{time} + {span}",
            "{time} - {span}",
            "make_time({int}, {int}, {num})",
        ),
    ],
    "span": [
        *(
            "CAST({text} AS INTERVAL)",
            "{ts} - {ts}",
            "{span} + {span}",
            "{span} - {span}",
            "{span} * {int}",
            "{span} * {num}",
        ),
        *(f"{name}({{int}})" for name in ["to_days", "to_months", "to_years", "to_hours", "to_minutes", "to_weeks"]),
        *("to_seconds({num})", "{span} / {num}", "- {span}", "date_trunc({STEP}, {span})", "{zoned} - {zoned}"),
        *("{num} * {span}", "{date} - {ts}", "INTERVAL ({int}) DAY", "INTERVAL ({num}) SECOND"),
    ],
    "raw": ["coalesce({raw}, {raw})"],
}
SCALARS = ("int", "num", "text", "bool", "date", "ts", "time", "span", "zoned", "raw")
WHEN = ("date", "ts", "zoned")
OTHER_CALLS = [
    "repeat",
    "lpad",
    "format",
    "printf",
    "random",
    "now",
    "error",
    "range",
    "list_transform",
    "bit_count",
    "row",
]
OTHER_CALLS += [
    "getvariable",
    "json_extract",
    "unnest",
    "sum",
    "uuid",
    "encode",
    "list_sum",
    "factorial",
    "age",
    "timezone",
]


class Grammar:
    """Random expressions from one source of chance; `owned` says that the table has DuckDB's own types."""

    def __init__(self, random: Random, *, owned: bool, wild: float = 0.03) -> None:
        self._random = random
        self._owned = owned
        self._wild = wild

    def expression(self, kind: str | None = None, depth: int | None = None) -> str:
        """An expression of a kind, or of any."""
        kind = kind or self._random.choice(SCALARS)
        depth = self._random.choice((1, 2, 2, 3, 3, 4, 5)) if depth is None else depth
        if kind == "when":
            kind = self._random.choice(WHEN)
        if kind == "clock":
            kind = self._random.choice((*WHEN, "time", "span"))
        if kind == "any_kind" or self._random.random() < self._wild:
            kind = self._random.choice(SCALARS)
        if depth <= 0:
            return self._leaf(kind)
        if self._random.random() < self._wild:
            return self._anything(depth)
        rules = RULES[kind] + (RULES["any"] if self._random.random() < 0.2 else [])
        return self._filled(self._random.choice(rules), kind, depth - 1)

    def _leaf(self, kind: str) -> str:
        columns = COLUMNS.get(kind, [])
        if self._owned and self._random.random() < 0.15:
            return self._random.choice(OWNED)
        if columns and self._random.random() < 0.8:
            return self._random.choice(columns)
        if kind in LITERALS:
            return self._random.choice(LITERALS[kind])
        return f"CAST({self._random.choice(COLUMNS['ts'])} AS TIMESTAMPTZ)"

    def _filled(self, rule: str, kind: str, depth: int) -> str:
        other = self._random.choice(SCALARS)
        written = {"PATTERN": PATTERNS, "STEP": STEPS, "PART": PARTS, "FORMAT": FORMATS, "INT": TARGETS, "NUM": NUMBERS}
        text, place = "", 0
        while (start := rule.find("{", place)) >= 0:
            end = rule.index("}", start)
            name = rule[start + 1 : end]
            if name in written:
                part = self._random.choice(written[name])
            else:
                part = self.expression({"K": kind, "K2": other}.get(name, name), depth - (self._random.random() < 0.3))
                part = part if part.isalnum() else f"({part})"
            text, place = text + rule[place:start] + part, end + 1
        return text + rule[place:]

    def _anything(self, depth: int) -> str:
        """A call, an operator or a cast of anything with anything."""
        chance = self._random
        parts = [self.expression("any_kind", depth - 1) for _ in range(chance.choice((1, 1, 2, 2, 3, 4)))]
        if chance.random() < 0.3:
            target = chance.choice(sorted(CASTS)) if chance.random() < 0.5 else chance.choice(BEYOND)
            return f"CAST({parts[0]} AS {target})"
        name = chance.choice(sorted(FUNCTIONS)) if chance.random() < 0.8 else chance.choice(OTHER_CALLS)
        if name[0].isalpha():
            return f"{name}({', '.join(parts)})"
        return f"({parts[0]}) {name} ({parts[-1]})" if len(parts) > 1 else f"{name} ({parts[0]})"
