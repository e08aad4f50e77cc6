"""All there is to try on four cells and up to six rows: all tables, all questions, all sets of wrong ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from bench.faithful import (
    ADVERSARIES,
    EDGES,
    GROWTHS,
    MOST_ROWS,
    SUBSETS,
    adversarial_run,
    every_question,
    every_table,
    range_shares,
    wrong_ones,
)
from tests.made import truth

import conspectus as cs
from conspectus.curator.scores import ERROR_STEPS, LOG_WEIGHT_STEPS, Reweighting

QUESTIONS, TABLES = every_question(), every_table()


def test_the_universe_is_complete():
    """209 tables; the questions count what their sets of cells hold."""
    assert len(TABLES) == 4 + 10 + 20 + 35 + 56 + 84
    cells = np.array([2, 0, 1, 3])
    rows = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], cells, axis=0)
    schema = cs.Schema.from_dict({"name": "tiny", "columns": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}})
    counts, n = truth(cs.open_table(pa.table({"a": rows[:, 0] > 0, "b": rows[:, 1] > 0}), schema), QUESTIONS)
    assert n == 6
    assert counts.tolist() == (SUBSETS @ cells).tolist()


@pytest.mark.parametrize("kind", ADVERSARIES)
def test_lemma_6_2_holds_in_every_run(kind):
    rng = np.random.Generator(np.random.PCG64(3))
    for number, table in enumerate(TABLES[:: 20 if kind == "exact" else 9]):
        for edge in EDGES:
            run = adversarial_run(QUESTIONS, table, kind, edge, GROWTHS[number % 2], rng)
            assert run.holds
            assert run.bad == 0


def test_the_exact_adversary_is_wrong_on_all_that_it_may():
    rng = np.random.Generator(np.random.PCG64(4))
    for _ in range(20):
        weights = rng.dirichlet(np.ones(len(SUBSETS)))
        wrong = weights[wrong_ones("exact", weights, 0.25, rng)].sum()
        assert 0.25 - 1e-3 < wrong <= 0.25


def test_an_adversary_that_is_wrong_on_more_breaks_the_bound():
    """The twin: judged by an edge of 0.25, one that has only 0.05 leaves Z above the bound."""
    rng = np.random.Generator(np.random.PCG64(5))
    honest = adversarial_run(QUESTIONS, TABLES[-1], "exact", 0.25, 1.0, rng)
    cheating = adversarial_run(QUESTIONS, TABLES[-1], "exact", 0.25, 1.0, rng, kept=0.05)
    assert honest.holds
    assert not cheating.holds
    assert cheating.share > 2


@pytest.mark.parametrize("rounds", [1, 3])
def test_the_range_of_lemma_6_4_is_attained_and_never_exceeded(rounds):
    rng = np.random.Generator(np.random.PCG64(6))
    most = 0.0
    for table in TABLES:
        for guess in (np.zeros(len(SUBSETS)), rng.uniform(-1, MOST_ROWS + 1, len(SUBSETS))):
            rates = (LOG_WEIGHT_STEPS // 2,) * rounds
            score = Reweighting(QUESTIONS, np.arange(len(SUBSETS)), 0, 16 * ERROR_STEPS, (guess,) * rounds, rates)
            shares = range_shares(QUESTIONS, table, score)
            assert max(shares) <= 1
            most = max(most, *shares)
    assert most == 1
