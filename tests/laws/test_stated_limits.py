"""A refusal that names a limit names the number that is beyond it."""

from __future__ import annotations

import re

import pytest

import conspectus as cs
from conspectus.mechanisms.registry import OFFLINE

SIZES = [(1 << 10, 60, 20), (1 << 12, 1 << 11), (1 << 12, 1 << 12, 2), (2,) * 60]
STATED = re.compile(r"(about 10\^[\d,]+|[\d,]*\d)[^\d(]*\(limit ([\d,]+)\)")


def read(text: str) -> int:
    return 10 ** int(text[9:].replace(",", "")) if text.startswith("about") else int(text.replace(",", ""))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_number_before_a_limit_is_beyond_it(sizes):
    columns = {f"c{i}": {"type": "integer", "min": 0, "max": size - 1} for i, size in enumerate(sizes)}
    schema = cs.Schema.from_dict({"name": "t", "columns": columns})
    few = cs.marginals(schema, 1) if len(sizes) > 2 else cs.prefixes(schema, "c0") + cs.marginals(schema, 1)
    lines = cs.plan(schema, few, rows=10_000, epsilon=1.0, delta=1e-6)
    reasons = {refusal.mechanism: refusal.reason for refusal in lines.refusals}
    assert set(reasons) <= set(OFFLINE)
    assert any("(limit" in reason for reason in reasons.values())
    for mechanism, reason in reasons.items():
        if "(limit" in reason:
            said, limit = STATED.search(reason).groups()
            assert read(said) > read(limit), (mechanism, reason)
