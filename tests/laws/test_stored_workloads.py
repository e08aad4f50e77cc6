"""Stored workloads: a question has one spelling, and whatever a builder would have spelled otherwise is refused."""

from __future__ import annotations

from itertools import combinations, product
from random import Random
from typing import Any

import numpy as np
import pytest

from conspectus.data.domain import Domain
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.query import Literal
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

WIDE = Domain(tuple(f"c{i}" for i in range(12)), (2,) * 12)
SMALL = Domain(("a", "b", "c"), (2, 3, 2))


def stored(domain: Domain, literals: list[list[int]], width: int, terms: list[int], starts: Any = None) -> Any:
    block = {"kind": "conjunctions", "literals": literals, "width": width, "terms": terms, "starts": starts}
    columns, sizes = list(domain.names), list(domain.sizes)
    return {"format": "conspectus-workload", "version": 1, "columns": columns, "sizes": sizes, "blocks": [block]}


def test_padding_stands_behind_the_literals() -> None:
    """One question in C(12, 6) spellings was taken for as many disjoint cells: printed ε = 1, true ε = 462."""
    spellings = []
    for places in combinations(range(12), 6):
        row = [-1] * 12
        for literal, place in enumerate(places):
            row[place] = literal
        spellings.append(row)
    literals = [[column, 1, 1] for column in range(12)]
    with pytest.raises(WorkloadError):
        Workload.from_json(stored(WIDE, literals, 12, [term for row in spellings for term in row]))
    with pytest.raises(WorkloadError):
        Conjunctions(
            WIDE,
            tuple(Literal(c, (1,)) for c in range(6)),
            np.array(spellings, dtype=np.int32),
            np.arange(len(spellings) + 1),
        )


@pytest.mark.parametrize(
    ("literals", "width", "terms", "starts"),
    [
        ([[0, 0, 0], [0, 1, 1]], 3, [0, -1, 1], None),  # a column twice, with padding between
        ([[0, 1, 1]], 2, [-1, 0], None),  # padding in front
        ([[0, 1, 1]], 2, [0, -1], None),  # a place that no box uses
        ([[0, 0, 0], [0, 1, 1]], 1, [0], None),  # a literal that no box uses
        ([[0, 0, 0], [0, 1, 1]], 1, [1, 0], [0, 2]),  # boxes out of order
        ([[0, 1, 1]], 1, [0], [0, 1]),  # starts that nobody writes
        ([[0, 0, 0], [1, 1, 1]], 2, [0, 1, 0, 1], [0, 1, 1, 2]),  # fine: the same box again, and a question never true
    ],
)
def test_one_spelling_is_read(literals: list[list[int]], width: int, terms: list[int], starts: Any) -> None:
    found = stored(SMALL, literals, width, terms, starts)
    if len(terms) == 4:
        read = Workload.from_json(found)
        assert read.to_json() == found
        assert read.sensitivity(Relation("add-remove")).l1 == 2
    else:
        with pytest.raises(WorkloadError):
            Workload.from_json(found)


def test_a_block_holds_exactly_what_its_builder_makes() -> None:
    """Over all short lists of boxes on three literals and random longer ones: accepted if and only if built so."""
    literals = (Literal(0, (0,)), Literal(0, (1,)), Literal(1, (0, 2)))
    rows = list(product(range(-1, 3), repeat=2))
    lists = [[one] for one in rows] + [[one, two] for one, two in product(rows, repeat=2)]
    cases = [(literals, each, bounds) for each in lists for bounds in ([0, len(each)], [*range(len(each) + 1)])]
    random = Random(5)
    for _ in range(1500):
        some = tuple(sorted(random.sample([*literals, Literal(1, (1,)), Literal(2, (1,))], random.randint(1, 3))))
        each = [tuple(random.randrange(-1, len(some)) for _ in range(2)) for _ in range(random.randint(0, 4))]
        inner = sorted(random.randrange(len(each) + 1) for _ in range(random.randint(0, 3)))
        cases.append((some, each, [0, *inner, len(each)]))
    accepted = 0
    for named, each, bounds in cases:
        for width in (1, 2):
            terms = np.array([row[:width] for row in each], dtype=np.int32).reshape(len(each), width)
            starts = np.array(bounds)
            try:
                built = Conjunctions.build(SMALL, named, terms, starts)
                same = np.array_equal(built.terms, terms) and np.array_equal(built.starts, starts)
                expected = same and built.literals == named
            except WorkloadError:
                expected = False
            try:
                Conjunctions(SMALL, named, terms, starts)
                found = True
            except WorkloadError:
                found = False
            assert found == expected, (named, each, bounds, width)
            accepted += found
    assert accepted > 20
