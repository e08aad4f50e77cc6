"""What a synopsis says about one query: by itself, and with what a release publishes beside it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.made import needed, people

import conspectus as cs
from conspectus.data.domain import Domain
from conspectus.mechanisms.registry import OFFLINE
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload
from conspectus.synopses.estimate import Estimate
from conspectus.synopses.evidence import Evidence
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.median_ensemble import MedianEnsemble
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import KINDS, BadSynopsis, CannotAnswer, Synopsis, Total, load_synopsis

DOMAIN = Domain(("sex", "ill"), (2, 2))
ROWS = Total(value=100.0, exact=True)
BOTH = Workload(DOMAIN, (Marginal(DOMAIN, (0, 1)),))
ILL = Workload(DOMAIN, (Marginal(DOMAIN, (1,)),))
HISTOGRAM = Histogram(DOMAIN, np.array([0.1, 0.2, 0.3, 0.4]), ROWS)
COUNTS = np.array([13.0, 18.0, 33.0, 36.0])
NOISY = NoisyAnswers(DOMAIN, BOTH, COUNTS, (Noise("laplace", 1.0),), ROWS)


class Within:
    """A bound that says five counts at any confidence."""

    def counts_at(self, confidence):
        return 5.0


def beside(**what):
    return Evidence(workload=BOTH, answers=HISTOGRAM.answer(BOTH), **what)


def test_a_synopsis_alone_does_not_know_how_wrong_it_is():
    estimate = HISTOGRAM.estimate(BOTH[0], 0.95)
    assert (estimate.low, estimate.high, estimate.basis) == (None, None, "unguaranteed")
    assert estimate == HISTOGRAM.estimate(BOTH[0], 0.95, beside())
    assert np.isnan(HISTOGRAM.intervals(BOTH, 0.95)[0]).all()


def test_a_bound_on_released_answers_bounds_their_sums():
    bounded = beside(bound=Within())
    assert HISTOGRAM.estimate(BOTH[3], 0.95, bounded) == Estimate(count=40.0, low=35.0, high=45.0, basis="guessed")
    estimate = HISTOGRAM.estimate(ILL[1], 0.95, bounded)  # a sum of two cells
    assert (estimate.low, estimate.high) == (pytest.approx(50.0), pytest.approx(70.0))
    low, high = HISTOGRAM.intervals(ILL, 0.95, bounded)
    np.testing.assert_allclose([low, high], [[30.0, 50.0], [50.0, 70.0]])


def test_a_bound_on_medians_bounds_sums_of_released_cells_one_by_one():
    """The median of a sum is no sum of medians: what is known is how far each released cell is off."""
    ensemble = MedianEnsemble(DOMAIN, (HISTOGRAM,), (1,), BOTH, ROWS)
    bounded = beside(bound=Within())
    assert ensemble.estimate(BOTH[3], 0.95, bounded).basis == "guessed"
    estimate = ensemble.estimate(ILL[1], 0.95, bounded)  # a sum of two cells
    assert (estimate.basis, estimate.low, estimate.high) == ("guessed", pytest.approx(50.0), pytest.approx(70.0))
    np.testing.assert_allclose(ensemble.intervals(ILL, 0.95, bounded), [[30.0, 50.0], [50.0, 70.0]])


def test_noisy_answers_beside_a_synopsis_give_the_interval_and_it_gives_the_answer():
    estimate = HISTOGRAM.estimate(BOTH[0], 0.95, beside(measured=NOISY, bound=Within()))
    own = NOISY.estimate(BOTH[0], 0.95)
    share = float(HISTOGRAM.answer(BOTH[0])[0])
    assert (estimate.count, estimate.basis, estimate.share) == (own.count, own.basis, share)
    # All measurements together say at least as much as its own.
    assert own.low <= estimate.low < estimate.count < estimate.high <= own.high
    assert (own.count, own.basis, own.share) == (13.0, "measured", None)
    for found, expected in zip(HISTOGRAM.intervals(ILL, 0.9, beside(measured=NOISY)), NOISY.intervals(ILL, 0.9)):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", OFFLINE)
def test_what_a_release_answers_is_what_its_synopsis_estimates(name):
    schema, table = people(rows=4000 if name == "stable-histogram" else 400)
    own = needed(name, schema)
    workload = cs.marginals(schema, 2)
    release = cs.release(table, workload, epsilon=1, delta=1e-6, mechanism=name, **own)
    evidence = Evidence(
        workload=workload, answers=release.answers, bound=release.certificate, measured=release.measured
    )
    for i in (0, 11, len(workload) - 1):
        estimate, answer = release.synopsis.estimate(workload[i], 0.95, evidence), release.ask(workload[i])
        assert estimate.basis == answer.basis
        if estimate.share is None:
            assert (answer.count, answer.fraction) == (estimate.count, estimate.count / release.total.divisor)
        else:
            assert answer.low is None or answer.low <= answer.fraction <= answer.high
        if release.synopsis.answers_alone or release.synopsis.all_measured:
            assert estimate == release.synopsis.estimate(workload[i], 0.95)


def test_a_kind_of_ones_own_is_one_class(monkeypatch):
    """Whatever answers, samples and is filed can be released, and everything else follows."""

    @dataclasses.dataclass(frozen=True, eq=False)
    class Uniform(Synopsis):
        domain: Domain
        total: Total
        kind = "uniform"

        def answer(self, workload):
            return Histogram(self.domain, np.ones(self.domain.cells), self.total).answer(workload)

        def sample(self, rows, *, public_seed=None):
            raise CannotAnswer("it has no rows")

        def parts(self):
            return {"total": self.total.to_json()}, {}

        @classmethod
        def from_parts(cls, domain, meta, tables):
            return cls(domain, Total.from_json(meta["total"]))

    held = Uniform(DOMAIN, ROWS)
    assert held.estimate(BOTH[0], 0.95) == Estimate.unguaranteed(0.25, 100.0)
    with pytest.raises(CannotAnswer, match="holds no tables"):  # rounded one by one they would not agree
        held.integer_marginal((0, 1))
    assert held.listed() is None
    assert held.source_of_rows() is held
    assert not held.answers_alone
    with pytest.raises(BadSynopsis, match="no synopsis is called"):
        load_synopsis(DOMAIN, "uniform", *held.parts())
    assert "uniform" not in KINDS


def test_a_synopsis_without_an_answer_is_none():
    with pytest.raises(TypeError, match="abstract"):
        type("Nothing", (Synopsis,), {"kind": "nothing"})()
