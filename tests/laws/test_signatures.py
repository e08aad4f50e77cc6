"""Classes of records: the same as by looking at every record, and every record has its rank."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.reference import is_true, records

import conspectus as cs
from conspectus.mechanisms.small_db.signatures import MOST_QUESTIONS, signatures

SCHEMA = cs.Schema.from_dict(
    {
        "name": "tiny",
        "columns": {
            "a": {"type": "categorical", "values": ["x", "y", "z"]},
            "b": {"type": "boolean"},
            "c": {"type": "boolean"},
            "d": {"type": "integer", "min": 0, "max": 4},
        },
    }
)
WORKLOADS = {
    "predicates": cs.sql(SCHEMA, ["a = 'x' AND b", "b OR c", "d < 2", "a IN ('x', 'y') AND d > 2", "b AND NOT b"]),
    "parities": cs.parities(SCHEMA, 2) + cs.sql(SCHEMA, ["d < 2 OR a = 'z'"]),
    "marginals": cs.marginals(SCHEMA, 2),
    "prefixes": cs.prefixes(SCHEMA, "d"),
    "unions": cs.sql(SCHEMA, ["(a = 'x' AND b) OR (a = 'y' AND NOT b)", "a = 'x'"]),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_classes_are_what_looking_at_every_record_finds(name):
    workload = WORKLOADS[name]
    found = signatures(workload)
    queries = list(workload.queries())
    seen: dict[tuple[bool, ...], set[tuple[int, ...]]] = {}
    for record in records(workload.domain):
        read = tuple(record[c] for c in found.columns)
        seen.setdefault(tuple(is_true(query, record) for query in queries), set()).add(read)
    assert Counter(dict(zip(map(tuple, found.truth.tolist()), found.sizes))) == {k: len(v) for k, v in seen.items()}
    for number, truth in enumerate(found.truth.tolist()):
        members = [found.record(number, rank) for rank in range(found.sizes[number])]
        assert set(members) == seen[tuple(truth)]
        assert len(set(members)) == len(members)
    with pytest.raises(IndexError):
        found.record(0, found.sizes[0])


def test_a_universe_far_too_large_to_look_at():
    columns = {f"c{i}": {"type": "integer", "min": 0, "max": 9} for i in range(40)}
    schema = cs.Schema.from_dict({"name": "wide", "columns": columns})
    questions = ["c1 < 4 AND c2 > 3", "c3 = 4 OR c39 < 2", " AND ".join(f"c{i} < 9" for i in range(40))]
    found = signatures(cs.sql(schema, questions))
    assert found.records == 10**40
    assert 4 < len(found) <= 8
    assert all(len(found.record(c, size - 1)) == 40 for c, size in enumerate(found.sizes))


def test_too_many_classes_are_none():
    columns = {f"c{i}": {"type": "boolean"} for i in range(16)}
    schema = cs.Schema.from_dict({"name": "wide", "columns": columns})
    assert signatures(cs.marginals(schema, 1)) is None
    assert signatures(cs.marginals(schema, 1), most=1 << 16) is not None
    assert len(cs.marginals(schema, 4)) > MOST_QUESTIONS
    assert signatures(cs.marginals(schema, 4), most=1 << 20) is None
