"""The page on boosting says where other mechanisms are better, and its numbers are those of the benchmarks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def measured(mark: str, mechanism: str, *, table: int = 0, column: int = 2) -> float:
    """The largest error of a mechanism in one of the marked tables; column 2 is ε = 1."""
    text = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    part = text.split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0]
    lines = [line for line in part.splitlines() if line.startswith(f"| {mechanism} |")]
    return float(lines[table].split("|")[column + 1].split("/")[0])


def said(sentence: str) -> tuple[float, ...]:
    text = " ".join((DOCS / "boosting.md").read_text(encoding="utf-8").split())
    found = re.search(sentence, text)
    assert found, sentence
    return tuple(float(number) for number in found.groups())


NUMBER = r"(0\.\d+)"


def test_where_something_is_hidden():
    quoted = said(rf"`mwem` has a largest error of {NUMBER} at ε = 1, boosting {NUMBER} and `projection` {NUMBER}")
    names = ("`mwem`", "`boosting`", "`projection`")
    assert quoted == pytest.approx([measured("boosting-hidden", name) for name in names], rel=0.2)
    assert quoted[0] < quoted[1], "then the page should not send its reader away"


def test_where_the_sample_misses_little():
    quoted = said(rf"they have {NUMBER} and {NUMBER}, boosting {NUMBER} and `mwem` {NUMBER}")
    names = ("base generator alone", "`projection`", "`boosting`", "`mwem`")
    assert quoted == pytest.approx([measured("boosting", name) for name in names], rel=0.2)
    assert max(quoted[:2]) < quoted[2]


def test_very_many_marginals():
    quoted = said(rf"5-way marginals of NLTCS boosting has {NUMBER} and `mwem` {NUMBER}, though .*? alone has {NUMBER}")
    names = ("`boosting`", "`mwem`", "base generator alone")
    assert quoted == pytest.approx([measured("boosting", name, table=1) for name in names], rel=0.2)
    assert quoted[0] < quoted[1]
