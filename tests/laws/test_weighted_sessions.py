"""Weighted records in sessions: noise on their finer grid, in the answers given and in the release."""

from __future__ import annotations

from fractions import Fraction

import pytest

import conspectus as cs
from conspectus.mechanisms.bounds import Margin
from conspectus.mechanisms.sparse_vector import SparsePlan
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import sum_quantile

RECORDS = ["x"] * 600 + ["y"] * 300 + [f"z{i}" for i in range(100)]
WEIGHTED = cs.sparse([{"x": 0.3, "nobody": 1.0}])
TRUTH = 600 * WEIGHTED.query(0).steps[1 - WEIGHTED.query(0).steps.index(WEIGHTED.grid)] / WEIGHTED.grid / 1000


def test_a_release_answers_a_weighted_question_with_an_interval_that_holds() -> None:
    """At confidence 0.9, 40 sessions: more than 18 misses have a chance below 1e-6. A tenth of the interval fails."""
    misses = twin = 0
    for _ in range(40):
        options = {"mechanism": "sparse-mw", "questions": 10, "sparsity": 4, "hits": 2}
        with cs.open_session(cs.open_records(RECORDS), epsilon=2.0, **options) as session:
            assert session.ask(WEIGHTED).basis == "measured"
            plain = session.ask(cs.sparse([["y"]]))
            release = session.release()
        answer = release.ask(WEIGHTED, confidence=0.9)
        assert answer.basis == "measured"
        off, half = abs(answer.fraction - TRUTH), (answer.high - answer.low) / 2
        misses += off > half
        twin += off > half / 10
        if plain.basis == "measured":  # on a grid of its own, beside the finer one
            beside = release.ask(cs.sparse([["y"]]))
            assert beside.high - beside.low > (plain.high - plain.low) / 10
    assert misses <= 18 < twin


def test_small_noise_on_a_fine_grid_has_the_quantile_of_that_grid() -> None:
    """Noise of scale 0.2 on whole counts is hardly ever above 0: on a fine grid it is, in every second answer."""
    plan = SparsePlan(
        hits=1, threshold=5.0, epsilon=Fraction(10), share=Fraction(1, 2), law=Noise("laplace", 0.2), max_rows=1
    )
    assert plan.measured(1).counts_at(0.95) == 1  # noise never leaves a point
    fine = plan.measured(1 << 16).counts_at(0.95)
    assert fine == pytest.approx(0.2 * 2.9957, rel=1e-3)
    assert plan.measured_half_width(0.95) >= fine
    passed = plan.passed(1)
    laws = (plan.threshold_noise, plan.error_noise)
    reached = sum(sum_quantile(law.kind, law.scale * 16, 1, 0.975) / 16 for law in laws)
    assert passed.counts_at(0.95) == pytest.approx(5 + 1 / 16 + reached)
    assert Margin.from_json(passed.to_json()) == passed


def test_measured_answers_with_small_noise_are_within_their_intervals() -> None:
    """At confidence 0.5, 60 answers: more than 49 misses have a chance below 1e-6. On whole counts all would miss."""
    misses = measured = 0
    options = {"mechanism": "sparse-mw", "questions": 1, "sparsity": 4, "hits": 1, "measuring": 0.5}
    for _ in range(60):
        with cs.open_session(cs.open_records(RECORDS), epsilon=20.0, **options) as session:
            answer = session.ask(WEIGHTED, confidence=0.5)
        measured += answer.basis == "measured"
        misses += not answer.low - 1e-9 <= TRUTH <= answer.high + 1e-9
    assert measured == 60
    assert misses <= 49
