"""Answers from marginals and the arithmetic of dense histograms, against plain numpy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.made import BareSchema
from tests.reference import is_true, marginal_of, records, sums

from conspectus.counting import evaluation
from conspectus.counting.evaluation import answers_from_marginals, indicator
from conspectus.counting.marginal_tree import MarginalTree
from conspectus.data.domain import Domain
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import ParityList
from conspectus.queries.builders.conjunctions import always
from conspectus.queries.builders.marginals import marginals
from conspectus.queries.builders.parities import parities
from conspectus.queries.builders.random_conjunctions import random_conjunctions
from conspectus.queries.formulas import union
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload

DOMAIN = Domain(("a", "b", "c", "d", "e"), (2, 3, 1, 4, 2))
SCHEMA = BareSchema(domain=DOMAIN)


WORKLOAD = (
    marginals(SCHEMA, 2)
    + marginals(SCHEMA, 0)
    + Workload(DOMAIN, (Marginal(DOMAIN, (3, 0, 1)), Intervals(DOMAIN, 3, 3, False), Intervals(DOMAIN, 3, 4, True)))
    + random_conjunctions(SCHEMA, 3, 120, 2, negations=True)
    + parities(SCHEMA, 2)
    + Workload(DOMAIN, (ParityList(DOMAIN, ((), (0,), (0, 4))),))
    + always(DOMAIN)
    + Workload(
        DOMAIN,
        (
            Conjunctions.of(
                DOMAIN,
                [
                    Predicate(()),
                    union(DOMAIN, [(Literal(0, (1,)),), (Literal(1, (0, 2)), Literal(3, (1,))), (Literal(4, (0,)),)]),
                ],
            ),
        ),
    )
)
RECORDS = records(DOMAIN)


def histograms(shape: tuple[int, ...] = DOMAIN.sizes) -> st.SearchStrategy[np.ndarray]:
    return st.integers(0, 10_000).map(lambda seed: np.random.Generator(np.random.PCG64(seed)).random(shape))


@settings(max_examples=10, deadline=None)
@given(histograms())
@pytest.mark.parametrize("entries", [1, 1 << 22])
def test_answers_are_sums_over_records(entries: int, histogram: np.ndarray) -> None:
    asked: list[tuple[int, ...]] = []

    def marginal(columns: tuple[int, ...]) -> np.ndarray:
        asked.append(columns)
        return marginal_of(histogram, columns)

    with pytest.MonkeyPatch.context() as patch:
        # Both ways of summing boxes: all combinations of literals, and one box after another.
        patch.setattr(evaluation, "_MOST_ENTRIES", entries)
        answers = answers_from_marginals(WORKLOAD, marginal)
    assert np.allclose(answers, sums(WORKLOAD, histogram), rtol=1e-12, atol=1e-12)
    assert len(asked) == len(set(asked))
    assert all(columns == tuple(sorted(columns)) for columns in asked)


def test_integers_stay_integers() -> None:
    histogram = np.arange(DOMAIN.cells).reshape(DOMAIN.sizes)
    answers = answers_from_marginals(WORKLOAD, lambda columns: marginal_of(histogram, columns), dtype=np.int64)
    assert answers.dtype == np.int64
    assert answers[-3] == histogram.sum()


def test_indicators_are_the_meaning_of_queries() -> None:
    for query in WORKLOAD.queries():
        columns, inside = indicator(query, DOMAIN)
        assert inside.shape == DOMAIN.shape(columns)
        assert all(is_true(query, r) == bool(inside[tuple(r[c] for c in columns)]) for r in RECORDS)


SETS = [columns for k in range(6) for columns in combinations(range(5), k)]


@settings(max_examples=40, deadline=None)
@given(histograms(), st.lists(st.sampled_from(SETS), max_size=12))
def test_marginals_by_the_shared_tree(histogram: np.ndarray, sets: list[tuple[int, ...]]) -> None:
    found = MarginalTree(DOMAIN.sizes, sets).marginals(histogram)
    assert len(found) == len(sets)
    for columns, table in zip(sets, found):
        assert np.allclose(table.reshape(DOMAIN.shape(columns)), marginal_of(histogram, columns), rtol=1e-13)


def test_all_marginals_of_sixteen_columns() -> None:
    histogram = np.random.Generator(np.random.PCG64(1)).random((2,) * 16)
    sets = list(combinations(range(16), 3))
    for columns, table in zip(sets, MarginalTree((2,) * 16, sets).marginals(histogram)):
        assert np.allclose(table, marginal_of(histogram, columns).ravel(), rtol=1e-12)
