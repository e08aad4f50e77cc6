"""`conspectus release "SELECT …"` on two tables that differ in one person: what is refused is so by its text alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Command

SCHEMA = """
name = "few"
[unit]
kind = "row"
[columns.x]
type = "integer"
min = 0
max = 9
missing = true
"""
PLAIN = [f"{n % 10},word,2020-01-0{n % 9 + 1}" for n in range(40)]
PERSONS = {
    "plain": "3,word,2020-01-05",
    "number": "9223372036854775807,9223372036854775807,5881580-07-10",
    "text": "\x00,(,infinity",
    "long": f"-1,{'ab' * 90_000},290309-12-22 (BC)",
    "bytes": "\xff,\xff\xfe,\xff",
}
REFUSED = [
    "CAST(CAST(x AS BIGNUM) AS TINYINT)",
    "CAST(CAST(CASE WHEN s = '(' THEN '\"a\"' END AS JSON) AS BIT)",
    "make_timestamp(x::BIGINT)",
    "s || s || s || s || s || s || s || s || s || s || s || s || s || s || s || s || s",
    "regexp_matches('a', s)",
    "date_diff('year', s::TIME, s::TIME)",
    "regexp_matches(s, '(')",
    "error(s)",
    "nothing",
    "s + s + (",
]
SERVED = [
    "x",
    "s::INT",
    "length(s || s)",
    "year(d::DATE + INTERVAL 1 DAY) - 2018",
    "CASE WHEN s > 'a' THEN x * 1e300 * x END",
]


def said(expression: str, person: str, place: Path, command: Command) -> tuple[int, str]:
    text = "\n".join(["x,s,d", *PLAIN, PERSONS[person], ""])
    (place / "few.csv").write_bytes(text.encode("latin-1"))
    (place / "few.toml").write_text(SCHEMA, encoding="utf-8")
    asked = ("--schema", "few.toml", "--marginals", 1, "--epsilon", 1, "--mechanism", "laplace", "-o", "o.conspectus")
    query = f"SELECT {expression} AS x FROM 'few.csv'"
    (place / "o.conspectus").unlink(missing_ok=True)
    found = command("release", query, *asked, "--quiet")
    return found.code, found.err


@pytest.mark.parametrize("expression", REFUSED)
def test_a_refusal_says_the_same_of_every_table(expression: str, place: Path, command: Command) -> None:
    found = {said(expression, person, place, command) for person in PERSONS}
    assert len(found) == 1
    ((code, message),) = found
    assert code == 2
    assert "Traceback" not in message


@pytest.mark.parametrize("expression", SERVED)
def test_what_is_served_is_served_whoever_is_there(expression: str, place: Path, command: Command) -> None:
    assert {said(expression, person, place, command)[0] for person in PERSONS} == {0}
