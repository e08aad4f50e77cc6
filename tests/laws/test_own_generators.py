"""Generators of one's own: what they are shown, what they may return, and that a broken one costs accuracy only."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.made import people, truth
from tests.reference import rounds_for

import conspectus as cs
from conspectus.curator.scores import LOG_WEIGHT_STEPS
from conspectus.mechanisms.boosting.reweighting import growing_rates
from conspectus.mechanisms.settings import SettingError
from conspectus.privacy.events import LaplaceNoise
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.rows import Rows

SCHEMA, TABLE = people(500)
COUNTS = cs.marginals(SCHEMA, 2)
FUNCTIONS = cs.mode_shares(SCHEMA, given=[{}, {"smoker": True}]) + cs.independence_gaps(SCHEMA)
CELLS = COUNTS.domain.cells
BUDGET = {"epsilon": 1, "delta": 1e-6, "mechanism": "boosting", "rounds": 3}


def raising(sample):
    raise RuntimeError("broken")


def exiting(sample):
    raise SystemExit(3)


BROKEN = {
    "raises": raising,
    "exits": exiting,
    "nothing": lambda sample: None,
    "a word": lambda sample: "rows",
    "too short": lambda sample: np.ones(3),
    "not a number": lambda sample: np.full(CELLS, np.nan),
    "negative": lambda sample: -np.ones(CELLS),
    "no mass": lambda sample: np.zeros(CELLS),
    "endless": lambda sample: np.full(CELLS, np.inf),
    "no rows": lambda sample: np.zeros((0, len(sample.domain)), dtype=int),
    "too few columns": lambda sample: np.zeros((5, 1), dtype=int),
    "codes out of range": lambda sample: np.full((5, len(sample.domain)), 99),
    "codes below zero": lambda sample: np.full((5, len(sample.domain)), -1),
    "codes that are no integers": lambda sample: np.zeros((5, len(sample.domain))),
    "ragged": lambda sample: [[1, 2], [3]],
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_generator_is_replaced_by_a_public_synopsis(name):
    release = cs.release(TABLE, COUNTS, **BUDGET, generator=BROKEN[name])
    assert len(release.parameters["failures"]) == 3
    assert release.parameters["failures"][1].startswith("round 2: it ")
    cells = Histogram(COUNTS.domain, np.full(CELLS, 1 / CELLS), release.total, release.workload.columns)
    np.testing.assert_allclose(release.answers, cells.answer(COUNTS))
    # What was drawn and measured was paid for, and the certificate says how bad it is.
    assert release.guarantee.epsilon <= 1
    assert len(release.events) >= 6
    assert release.certificate.bound < 1.5


@pytest.mark.parametrize("name", ["raises", "not a number", "ragged"])
def test_functions_fall_back_to_public_rows(name):
    release = cs.release(TABLE, FUNCTIONS, **BUDGET, generator=BROKEN[name])
    assert len(release.parameters["failures"]) == 3
    assert all(isinstance(member, Rows) for member in release.synopsis.members)


def test_one_bad_round_is_outvoted(tmp_path):
    def sometimes(sample):
        if sample.round == 1:
            raise ValueError
        codes = np.concatenate([np.stack(c.columns, axis=1) for c in TABLE.chunks()])
        return codes.astype(np.int64)

    release = cs.release(TABLE, COUNTS, **BUDGET, generator=sometimes)
    assert release.parameters["failures"] == ["round 2: it raised ValueError"]
    assert release.parameters["generator"] == "own"
    counts, rows = truth(TABLE, COUNTS)
    np.testing.assert_allclose(release.answers, counts / rows)
    release.save(tmp_path / "own.conspectus")
    np.testing.assert_array_equal(cs.load(tmp_path / "own.conspectus").answers, release.answers)


@pytest.mark.parametrize("workload", [COUNTS, FUNCTIONS])
def test_it_is_shown_noise_and_public_facts_and_nothing_else(workload):
    seen = []

    def looks(sample):
        seen.append(sample)
        with pytest.raises(ValueError, match="read-only"):
            sample.answers[:] = 0

    cs.release(TABLE, workload, **BUDGET, generator=looks)
    rows = 500
    assert [sample.round for sample in seen] == [0, 1, 2]
    for sample in seen:
        assert set(vars(sample)) == {"domain", "columns", "questions", "answers", "deviation", "round", "rounds"}
        true, _ = truth(TABLE, sample.questions)
        off = sample.answers - true / (sample.questions.grid * rows)
        # Exact answers would be off by nothing; noise of this size is within six deviations, but for 2e-9 each.
        assert 0.2 * sample.deviation < np.abs(off).max() < 6.5 * sample.deviation


def test_it_is_shown_the_exact_deviation_of_its_noise():
    """One marginal under replace, pure: the noise has scale 2/ε' for the ε' that the certificate leaves. At b = 0.1 the
    deviation is 0.0095 counts, where that of a continuous noise is 0.1414."""
    schema = cs.Schema.from_dict({"name": "coins", "columns": {"heads": {"type": "boolean"}}})
    table = cs.open_table(pa.table({"heads": [True, False] * 250}), schema)
    seen = []
    budget = {"epsilon": 20, "certificate": 0.0, "mechanism": "boosting"}
    release = cs.release(table, cs.marginals(schema, 1), **budget, generator=seen.append)
    (event,) = [event for event in release.events if isinstance(event, LaplaceNoise)]
    assert event.scale == pytest.approx(0.1)
    assert seen[0].deviation * 500 == pytest.approx(0.0095, abs=5e-5)


def test_arrays_that_change_later_change_nothing():
    kept = []

    def keeps(sample):
        for array in kept:
            array[:] = 0
        kept.append(np.ones((50, len(sample.domain)), dtype=np.int64))
        return kept[-1]

    release = cs.release(TABLE, COUNTS, **BUDGET, generator=keeps)
    assert all((np.stack(member.codes) == 1).all() for member in release.synopsis.members)


@pytest.mark.parametrize("workload", [COUNTS, FUNCTIONS])
def test_the_price_does_not_depend_on_what_the_code_does(workload):
    runs = [
        cs.release(TABLE, workload, **BUDGET, generator=own)
        for own in (raising, lambda sample: np.zeros((7, len(sample.domain)), dtype=int))
    ]
    first, second = ([type(event).__name__ for event in run.events] for run in runs)
    assert first == second
    # Standard deviations are rounded up to floats, so what is spent differs in the last digits.
    assert runs[0].guarantee.epsilon == pytest.approx(runs[1].guarantee.epsilon, rel=1e-6)


def test_weights_are_shares_of_their_sum():
    uniform, large = (
        cs.release(TABLE, COUNTS, **BUDGET, generator=lambda sample, weight=weight: np.full(CELLS, weight))
        for weight in (1, 1e308)
    )
    assert uniform.parameters["failures"] == large.parameters["failures"] == []
    np.testing.assert_allclose(uniform.answers, large.answers)
    assert uniform.answers[:24] == pytest.approx(1 / 24)


K, EDGE = 12, 0.25
WIDE = cs.Schema.from_dict({"name": "w", "columns": {f"c{i}": {"type": "boolean"} for i in range(K)}})
SINGLES = cs.conjunctions(WIDE, [{f"c{i}": True} for i in range(K)])
ROWS = 400
TRUE = np.repeat(np.arange(ROWS)[:, None] < 80, K, axis=1)


class Adversary:
    """Knows the table, and is wrong on as much of the weight as an edge allows, on what it was wrong on before."""

    def __init__(self, edge: float, rounds: int) -> None:
        self.edge = edge
        self.rate = growing_rates(K, rounds, 1.0)[0] / LOG_WEIGHT_STEPS
        self.marks = np.zeros(K)

    def __call__(self, sample):
        weights = np.exp(-self.rate * self.marks)
        weights /= weights.sum()
        wrong = np.zeros(K, dtype=bool)
        left = 0.5 - self.edge
        for place in range(K):
            if weights[place] <= left:
                wrong[place], left = True, left - weights[place]
        self.marks += np.where(wrong, -1, 1)
        return np.where(wrong, ~TRUE, TRUE).astype(np.int64)


def boosted(edge: float):
    table = cs.open_table(pa.table({f"c{i}": TRUE[:, i] for i in range(K)}), WIDE)
    rounds = rounds_for(K, EDGE)
    settings = {"rounds": rounds, "first": 3, "draws": 3, "mechanism": "boosting", "aggregate": "median"}
    release = cs.release(table, SINGLES, rho=20.0, delta=1e-6, generator=Adversary(edge, rounds), **settings)
    allowed = (release.parameters["near"] + release.parameters["gap"]) / ROWS
    assert release.parameters["needed_edge"] <= EDGE
    assert release.parameters["failures"] == []
    assert allowed < 0.5, "a wrong answer is off by 0.6"
    return np.abs(release.answers - 0.2).max(), allowed


def test_one_that_is_right_on_more_than_half_of_the_weight_is_boosted_to_all():
    error, allowed = boosted(EDGE)
    assert error <= allowed


def test_one_that_is_not_is_not():
    """The twin: it is wrong on a little more than half of the weight, always on the same questions."""
    error, allowed = boosted(-0.1)
    assert error > allowed


def test_what_cannot_be_a_generator_is_refused():
    for wrong in ("entropi", 3, Adversary):
        with pytest.raises(SettingError, match="generator"):
            cs.release(TABLE, COUNTS, **BUDGET, generator=wrong)
    with pytest.raises(SettingError, match="take brute or syntheticizer"):
        cs.release(TABLE, COUNTS, epsilon=1, mechanism="boosting", theorem=True, generator=raising)
