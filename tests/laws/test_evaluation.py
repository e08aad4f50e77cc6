"""Answers from marginals and the arithmetic of dense histograms, against plain numpy."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conspectus.data.domain import Domain
from conspectus.queries import evaluation
from conspectus.queries.conjunctions import Conjunctions, Intervals, Marginal, always, marginals, random_conjunctions
from conspectus.queries.evaluation import (
    answers_from_marginals,
    indicator,
    is_true,
    marginal_of,
    marginals_of_histogram,
    multiply_marginal,
    spread,
)
from conspectus.queries.formulas import union
from conspectus.queries.parities import ParityList, parities
from conspectus.queries.query import Literal, Predicate, Workload

DOMAIN = Domain(("a", "b", "c", "d", "e"), (2, 3, 1, 4, 2))


class Bare:
    domain = DOMAIN

    def column(self, name: str) -> Any:
        raise LookupError(name)


WORKLOAD = (
    marginals(Bare(), 2)
    + marginals(Bare(), 0)
    + Workload(DOMAIN, (Marginal(DOMAIN, (3, 0, 1)), Intervals(DOMAIN, 3, 3, False), Intervals(DOMAIN, 3, 4, True)))
    + random_conjunctions(Bare(), 3, 120, 2, negations=True)
    + parities(Bare(), 2)
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
RECORDS = list(product(*map(range, DOMAIN.sizes)))


def histograms(shape: tuple[int, ...] = DOMAIN.sizes) -> st.SearchStrategy[np.ndarray]:
    return st.integers(0, 10_000).map(lambda seed: np.random.Generator(np.random.PCG64(seed)).random(shape))


def plain_marginal(histogram: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    return histogram.sum(axis=tuple(c for c in range(histogram.ndim) if c not in columns))


@settings(max_examples=10, deadline=None)
@given(histograms())
@pytest.mark.parametrize("entries", [1, 1 << 22])
def test_answers_are_sums_over_records(entries: int, histogram: np.ndarray) -> None:
    asked: list[tuple[int, ...]] = []

    def marginal(columns: tuple[int, ...]) -> np.ndarray:
        asked.append(columns)
        return plain_marginal(histogram, columns)

    with pytest.MonkeyPatch.context() as patch:
        # Both ways of summing boxes: all combinations of literals, and one box after another.
        patch.setattr(evaluation, "_MOST_ENTRIES", entries)
        answers = answers_from_marginals(WORKLOAD, marginal)
    weights = histogram.ravel()
    expected = [sum(w for w, r in zip(weights, RECORDS) if is_true(q, r)) for q in WORKLOAD.queries()]
    assert np.allclose(answers, expected, rtol=1e-12, atol=1e-12)
    assert len(asked) == len(set(asked))
    assert all(columns == tuple(sorted(columns)) for columns in asked)


def test_integers_stay_integers() -> None:
    histogram = np.arange(DOMAIN.cells).reshape(DOMAIN.sizes)
    answers = answers_from_marginals(WORKLOAD, lambda columns: plain_marginal(histogram, columns), dtype=np.int64)
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
    found = marginals_of_histogram(histogram, sets)
    assert len(found) == len(sets)
    for columns, table in zip(sets, found):
        assert table.shape == DOMAIN.shape(columns)
        assert np.allclose(table, plain_marginal(histogram, columns), rtol=1e-13)
        assert np.allclose(marginal_of(histogram.ravel(), DOMAIN.sizes, columns), table, rtol=1e-13)


def test_all_marginals_of_sixteen_columns() -> None:
    histogram = np.random.Generator(np.random.PCG64(1)).random((2,) * 16)
    sets = list(combinations(range(16), 3))
    for columns, table in zip(sets, marginals_of_histogram(histogram, sets)):
        assert np.allclose(table, plain_marginal(histogram, columns), rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(histograms(), st.sampled_from(SETS), st.integers(0, 99))
def test_spreading_is_the_adjoint_of_the_marginal(histogram: np.ndarray, columns: tuple[int, ...], seed: int) -> None:
    factors = np.random.Generator(np.random.PCG64(seed)).random(DOMAIN.shape(columns))
    spreaded = spread(DOMAIN.sizes, columns, factors)
    assert np.isclose((plain_marginal(histogram, columns) * factors).sum(), (histogram * spreaded).sum(), rtol=1e-12)
    changed = histogram.copy()
    multiply_marginal(changed, columns, factors)
    assert np.array_equal(changed, histogram * spreaded)
    flat = histogram.ravel().copy()
    multiply_marginal(flat, columns, factors, sizes=DOMAIN.sizes)
    assert np.array_equal(flat, changed.ravel())


def test_histograms_that_cannot_be_changed_in_place_are_refused() -> None:
    histogram = np.ones((2, 3))
    with pytest.raises(ValueError, match="contiguous"):
        multiply_marginal(histogram.T, (0,), np.ones(3))
    with pytest.raises(ValueError, match="one factor for each cell"):
        multiply_marginal(histogram, (0,), np.ones(3))
    with pytest.raises(ValueError, match="one entry for each"):
        multiply_marginal(histogram, (0,), np.ones(4), sizes=(4, 2))
