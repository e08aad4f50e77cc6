"""SELECTs over one table, drawn from a grammar of all that `query` reads and of what lies next to it.

Where this library has a word of its own, a text is written as `«ours¦theirs»`, with what a database calls the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from random import Random

_PAIR = re.compile("«([^«»¦]*)¦([^«»¦]*)»")
SIDES = {
    "numbers": ("age", "s", "g", "grade"),
    "bins": ("pay", "s", "g"),
    "dates": ("since", "s", "g"),
}
"""Which columns a case speaks of: those of one measured marginal."""
_NUMBERS = {"numbers": ("age", "age", "grade"), "bins": ("pay",), "dates": ("s::INT",)}


@dataclass(frozen=True)
class Number:
    """A number of a SELECT; `loose` where only its interval can be compared with a database."""

    text: str
    name: str
    loose: bool = False
    digits: int | None = None


@dataclass(frozen=True)
class Case:
    """A SELECT in parts, so that it can be put with and without its last clauses."""

    keys: tuple[str, ...] = ()
    numbers: tuple[Number, ...] = ()
    where: str = ""
    grouped: tuple[str, ...] = ()
    having: str = ""
    order: str = ""
    limit: str = ""

    def sql(self, *, theirs: bool = False, lines: bool = True) -> str:
        """The SELECT, in our words or a database's; without `lines` all groups, in any order."""
        items = [f"{key} AS k{at}" for at, key in enumerate(self.keys)]
        items += [f"{number.text} AS {number.name}" for number in self.numbers]
        text = f"SELECT {', '.join(items)} FROM people"
        text += f" WHERE {self.where}" if self.where else ""
        text += f" GROUP BY {', '.join(self.grouped)}" if self.grouped else ""
        if lines:
            for clause in (self.having, self.order, self.limit):
                text += f" {clause}" if clause else ""
        while _PAIR.search(text):
            text = _PAIR.sub(r"\2" if theirs else r"\1", text)
        return text

    def undecided(self) -> Case:
        """The groups of which HAVING says neither yes nor no, as of an average of no rows; none where it is absent."""
        asked = self.having.removeprefix("HAVING ") or "true"
        return replace(self, having=f"HAVING ({asked}) IS NULL", order="", limit="")


def _sum(text: str) -> str:
    """A sum or a count of truths, which is 0 of no rows here and null there."""
    return f"«{text}¦COALESCE({text}, 0)»"


@dataclass
class Grammar:
    """Draws the parts of one case."""

    random: Random
    side: str = field(init=False)
    miss: float = field(init=False)

    def __post_init__(self) -> None:
        self.side = self.random.choice(("numbers",) * 6 + ("bins", "dates"))
        self.miss = self.random.choice((0.0, 0.0, 0.03, 0.15))

    def near(self, served: str, *misses: str) -> str:
        """What is served, or now and then something next to it."""
        return self.random.choice(misses) if self.random.random() < self.miss else served

    def of(self, *options: str) -> str:
        return self.random.choice(options)

    def case(self) -> Case:
        keys = tuple(self.key() for _ in range(self.random.choice((0, 0, 1, 1, 1, 2))))
        numbers = tuple(self.number(f"n{at}") for at in range(self.random.choice((1, 1, 2, 3))))
        grouped = [
            self.near(self.of(key, key, f"k{at}", str(at + 1), f"({at + 1})"), key if "'" in key else key.upper())
            for at, key in enumerate(keys)
        ]
        if keys and self.random.random() < 0.15:
            grouped.append(self.of(*keys, "1", "k0"))
        having = f"HAVING {self.held(keys, numbers)}" if self.random.random() < 0.25 else ""
        order, limit = "", ""
        if keys and self.random.random() < 0.3:
            first = self.of(
                "COUNT(*)",
                f"k{len(keys) - 1}",
                "1",
                "(1)",
                f"({len(keys)})",
                *(one.name for one in numbers if not one.loose),
            )
            ties = ", ".join(f"k{at}" for at in range(len(keys)))
            order = f"ORDER BY {first}{self.of('', ' ASC', ' DESC')}{self.near('', ' NULLS FIRST')}, {ties}"
        if self.random.random() < 0.15:
            limit = f"LIMIT {self.near(self.of('1', '2', '3'), '50%', '1 + 1', '2.5')}"
            limit += self.of("", "", f" OFFSET {self.of('0', '1')}")
        where = self.condition(2) if self.random.random() < 0.4 else ""
        return Case(keys, numbers, where, tuple(grouped), having, order, limit)

    def condition(self, depth: int = 1) -> str:
        """A condition on rows."""
        if depth > 0 and self.random.random() < 0.5:
            first, second = self.condition(depth - 1), self.condition(depth - 1)
            return self.of(f"({first}) AND ({second})", f"({first}) OR ({second})", f"NOT ({first})", first)
        atoms = ["s", "NOT s", "s IS TRUE", "s IS NOT TRUE", "s IS NULL", "s = FALSE", "s <> TRUE"]
        atoms += [
            "g = 'A'",
            "g = 'a'",
            "g <> 'f'",
            "g IN ('a', 'A')",
            "g NOT IN ('f', 'a')",
            "g IS NOT NULL",
            "'m' = g",
        ]
        whole = self.random.randint(-6, 5)
        if self.side == "numbers":
            atoms += [f"age > {whole}", f"age <= {whole}", f"age BETWEEN {whole} AND {whole + 3}", f"{whole} < age"]
            atoms += [f"age NOT BETWEEN {whole} AND 2", f"age <> {whole}", f"age IN ({whole}, 1, 3)", "age IS NULL"]
            atoms += ["grade >= 2", "grade = 1", f"age > {whole}.5", f"age = '{whole}'", "AGE = 0", '"age" < 0']
        if self.side == "bins":
            atoms += ["pay >= 10", "pay < 20", "NOT pay < 10", "pay BETWEEN 10 AND 20"]
        if self.side == "dates":
            atoms += ["since >= DATE '2020-04-01'", "since < '2020-09-01'"]
        misses = ("age + 1 > 0", "g LIKE 'a%'", "g > 'a'", "g = 'F'", "s = NULL", "age > 99", "(age > 0) = s", "TRUE")
        misses += ("s IS NOT DISTINCT FROM TRUE", "age % 2 = 0", "LOWER(g) = 'a'", "COALESCE(s, FALSE)", "s > FALSE")
        return self.near(self.of(*atoms), *misses)

    def key(self) -> str:
        """What rows are grouped by."""
        condition, number = self.condition(0), self.of("2", "3", "4", "7")
        keys = ["g", "g", "s", "g = 'A'", "g = 'a'", "NOT s", condition, "g IS NULL"]
        keys += [f"CASE WHEN {condition} THEN 'A' WHEN s THEN 'a' ELSE 'b' END", f"CASE WHEN {condition} THEN 1 END"]
        keys += [f"CASE WHEN {condition} THEN -1 WHEN g = 'm' THEN NULL ELSE 0.5 END", "G", '"g"']
        if self.side == "numbers":
            keys += ["age", "grade", f"age // {number}", f"FLOOR(age / {number})", f"(age // {number}) * {number}"]
            keys += [
                f"FLOOR(age / {number}) * {number}",
                f"CAST(FLOOR(age / {number}) AS INTEGER)",
                "age > 0",
                "age IS NULL",
            ]
            keys += [f"«BIN(age, {number})¦FLOOR(age / {number}) * {number}»", f"{number} * (age // {number})"]
        if self.side == "dates":
            keys += [
                "YEAR(since)",
                "DATE_TRUNC('quarter', since)",
                "EXTRACT(year FROM since)",
                "DATE_TRUNC('month', since)",
            ]
        misses = (
            "UPPER(g)",
            "s::INT",
            "age % 2",
            "pay // 10",
            "FLOOR(pay / 10)",
            "CAST(age // 4 AS BOOLEAN)",
            "age // 2.5",
            "age // 4.0",
            "(age // 4e0) * 4",
            "CASE WHEN s THEN 0.1 ELSE 0.10000000000000001 END",
        )
        misses += (
            "COALESCE(s, FALSE)",
            "CASE WHEN s THEN '1' ELSE 1 END",
            "ROUND(age / 4)",
            "age / 2",
            "age::VARCHAR",
            "TRUE",
        )
        misses += (
            "CASE g WHEN 'A' THEN 1 END",
            "FLOOR(age / 2) * 4",
            "CAST(age / 4 AS INTEGER)",
            "DATE_TRUNC('week', since)",
        )
        return self.near(self.of(*keys), *misses)

    def count(self) -> str:
        """A count of rows."""
        condition, column = self.condition(0), self.of(*SIDES[self.side])
        counts = [
            "COUNT(*)",
            "COUNT(*)",
            "COUNT(1)",
            f"COUNT({column})",
            _sum(f"COUNT_IF({condition})"),
            "COUNT('x')",
            _sum("SUM(s)"),
        ]
        counts += [
            f"COUNT(*) FILTER (WHERE {condition})",
            f"COUNT({column}) FILTER (WHERE {condition})",
            _sum("SUM(s::INT)"),
        ]
        counts += [_sum(f"SUM(CASE WHEN {condition} THEN 1 ELSE 0 END)"), _sum(f"SUM(CAST({condition} AS INTEGER))")]
        counts += [
            f"COUNT(CASE WHEN {condition} THEN 1 END)",
            _sum(f"SUM(CASE WHEN {condition} THEN 1.0 ELSE NULL END)"),
        ]
        misses = (
            "COUNT(DISTINCT g)",
            f"COUNT(CASE WHEN {condition} THEN 1 ELSE 0 END)",
            "COUNT(NULL)",
            "COUNT(age, s)",
        )
        misses += (
            "SUM(1)",
            f"COUNT({condition})",
            "SUM(CASE WHEN s THEN 2 ELSE 0 END)",
            "COUNT(*) OVER ()",
            "SUM(grade::BOOLEAN)",
        )
        misses += ("COUNT(g ORDER BY s)", "SUM(s::BOOLEAN)", "SUM(CAST(CAST(age AS BOOLEAN) AS INT))")
        return self.near(self.of(*counts), *misses)

    def plain(self) -> tuple[str, bool]:
        """An aggregate, and whether it is loose."""
        column, condition = self.of(*_NUMBERS[self.side]), self.condition(0)
        loose = column == "pay"
        ours = f"«RATE({condition})¦AVG(CASE WHEN {condition} THEN 1 ELSE 0 END)»"
        filtered = self.of("", "", f" FILTER (WHERE {condition})")
        shapes = [(self.count(), False)] * 6
        shapes += [(self.of(f"AVG({column}){filtered}", _sum(f"SUM({column}){filtered}")), loose)] * 4
        shapes += [
            (f"AVG(CAST({condition} AS INTEGER)){filtered}", False),
            (f"AVG(s::INT){filtered}", False),
            (ours, False),
        ]
        shapes += [(f"AVG(CASE WHEN {condition} THEN 1 ELSE 0 END){filtered}", False)]
        shapes += [(f"«AVG({condition})¦AVG(CAST({condition} AS INTEGER))»{filtered}", False)]
        spread = self.of("VAR_POP", "VARIANCE", "VAR_SAMP", "STDDEV", "STDDEV_POP", "STDDEV_SAMP")
        shapes += [(f"{spread}({column}){filtered}", loose), (f"AVG({column}::DOUBLE)", loose)]
        if self.side == "numbers":
            ranked = self.of("age", "grade")
            share = self.of("0.1", "0.25", "0.5", "0.9")
            shapes += [(f"{self.of('CORR', 'COVAR_POP', 'COVAR_SAMP')}({self.of('age, grade', 'grade, age')})", False)]
            shapes += [
                (f"MEDIAN({ranked}){filtered}", True),
                (f"{self.of('QUANTILE', 'QUANTILE_CONT')}({ranked}, {share})", True),
            ]
            shapes += [(f"PERCENTILE_DISC({share}) WITHIN GROUP (ORDER BY {ranked}{self.of('', ' DESC')})", True)]
        if self.side == "dates":
            shapes += [("MEDIAN(since)", True)]
        misses = [
            "MIN(age)",
            "SUM(DISTINCT age)",
            "AVG(age + 1)",
            "AVG(age::BOOLEAN::INT)",
            "SUM(CAST(pay AS INTEGER))",
            "FIRST(g)",
        ]
        misses += [
            f"AVG(CASE WHEN {condition} THEN 1 ELSE NULL END)",
            f"AVG(CASE WHEN {condition} THEN 1 END)",
            "SUM(-age)",
        ]
        misses += [
            "SUM(age ORDER BY g)",
            "QUANTILE(age, [0.1, 0.9])",
            "AVG(CAST(age AS VARCHAR)::INT)",
            "AVG(ABS(age))",
        ]
        if self.random.random() < self.miss:
            return self.of(*misses), False
        return self.random.choice(shapes)

    def ratio(self) -> str:
        """A number over another."""
        column, condition = self.of(*SIDES[self.side]), self.condition(0)
        above, below = self.count(), self.count()
        if self.random.random() < 0.2 and self.side == "numbers":
            above, below = (
                f"SUM({column})",
                self.of(f"COUNT({column})", "COUNT(*)", f"COUNT({column}) FILTER (WHERE s)"),
            )
        if self.random.random() < 0.15:
            above, below = f"SUM(age) FILTER (WHERE {condition})", f"COUNT(age) FILTER (WHERE {condition})"
        if self.random.random() < 0.2:
            above, below = (
                "COUNT(*)",
                self.near(
                    "SUM(COUNT(*)) OVER ()",
                    *("SUM(COUNT(age)) OVER ()", "SUM(COUNT(*)) OVER (ORDER BY g)", "SUM(COUNT(DISTINCT g)) OVER ()"),
                    *("SUM(COUNT(*)) OVER (PARTITION BY g)", "AVG(COUNT(*)) OVER ()", "COUNT(*) OVER ()"),
                    "SUM(COUNT(*)) OVER (ORDER BY g ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
                    "SUM(COUNT(*)) FILTER (WHERE g = 'f') OVER ()",
                ),
            )
        above = self.of(above, above, f"100 * {above}", f"{above} * 1.0", f"CAST({above} AS DOUBLE)", f"-{above}")
        above = self.of(
            above,
            above,
            above,
            f"CAST({above} AS FLOAT)",
            self.near(above, f"CAST({above} AS BOOLEAN)", f"ROUND({above} / 7)"),
        )
        below = self.of(
            below,
            below,
            below,
            f"NULLIF({below}, 0)",
            f"({below})",
            self.near(below, f"NULLIF({below}, 4)", f"({below} + 1)"),
        )
        below = self.of(below, below, f"CAST({below} AS DOUBLE)", f"(2 * {below})") if "OVER" not in below else below
        return f"{above} / {below}" if "OVER" in below else f"{above} / «{below}¦NULLIF({below}, 0)»"

    def number(self, name: str) -> Number:
        """A number, with what may stand around it."""
        text, loose = (self.ratio(), False) if self.random.random() < 0.35 else self.plain()
        if self.random.random() < 0.05 and self.side != "bins":
            text = "«SHARE(*)¦COUNT(*) / SUM(COUNT(*)) OVER ()»"
        for _ in range(self.random.choice((0, 0, 0, 1, 2))):
            factor = self.near(self.of("2", "100", "0.5", "-3", "1e2"), "1e400", "0", "COUNT(*)", "NULL", "'2'")
            served = (f"{factor} * ({text})", f"({text}) * {factor}", f"({text}) / {factor}", f"-({text})")
            served += (
                f"CAST({text} AS DOUBLE)",
                f"({text})::FLOAT",
                f"CAST({text} AS DECIMAL(18, 3))",
                f"TRY_CAST({text} AS BIGINT)",
            )
            misses = (
                f"CAST({text} AS INTEGER)",
                f"CAST({text} AS BOOLEAN)",
                f"ABS({text})",
                f"({text}) + 1",
                f"ROUND({text}) * 3",
            )
            misses += (
                f"1 / ({text})",
                f"FLOOR({text})",
                f"({text}) // 2",
                f"COALESCE({text}, 0)",
                f"CAST({text} AS VARCHAR)",
            )
            text = self.near(self.of(*served), *misses)
        digits = self.random.choice((None, None, None, None, 0, 1, 3))
        if digits is not None:
            text = f"ROUND({text})" if digits == 0 and self.random.random() < 0.5 else f"ROUND({text}, {digits})"
        return Number(text, name, loose, digits)

    def held(self, keys: tuple[str, ...], numbers: tuple[Number, ...]) -> str:
        """A condition on lines."""
        bound = self.of("0.37", "1.618", "40.5", "150.5", "-2.71")
        sure = [number.name for number in numbers if not number.loose]
        atoms = [
            f"COUNT(*) > {bound}",
            f"{self.count()} <= {bound}",
            f"COUNT(*) - COUNT(s) > {bound}",
            f"AVG(s::INT) < {bound}",
        ]
        atoms += [f"{name} {self.of('>', '<', '>=', '<>')} {bound}" for name in sure]
        atoms += [f"COUNT(*) BETWEEN 20 AND {bound}", f"COUNT(*) NOT IN (1, {bound})", f"{self.ratio()} > {bound}"]
        atoms += ["ROUND(AVG(s::INT) * 3) = 1", f"NOT (AVG(s::INT) > {bound} AND COUNT(s) > 3)"]
        for at, key in enumerate(keys):
            atoms += [f"k{at} = 'A'", f"{key} IN ('a', 'A')"] if key == "g" else []
            atoms += [f"k{at} = TRUE OR NOT k{at} = TRUE"] if key in ("s", "NOT s") else []
        misses = (
            "COUNT(*)",
            "k0 = 1",
            "k0 > 'A'",
            "COUNT(*) = 'x'",
            "g = 'A'",
            "SUM(COUNT(*)) OVER () > 1",
            "COUNT(*) IS NULL",
            "k0",
        )
        first, second = (self.near(self.of(*atoms), *misses) for _ in range(2))
        return self.of(first, first, first, f"{first} AND {second}", f"({first}) OR {second}", f"NOT ({first})")
