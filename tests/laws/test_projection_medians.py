"""The median over the sections of a projection: heavy records are ignored, and what is claimed of it holds."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, norm
from tests import made

import conspectus as cs
from conspectus.audit.keys_and_projections import column
from conspectus.data.domain import RECORDS
from conspectus.data.records.fingerprints import fingerprints
from conspectus.mechanisms.choosing import make
from conspectus.mechanisms.sparse_project.theorem import price_of_median
from conspectus.privacy.events import Noise
from conspectus.privacy.guarantee import Budget
from conspectus.queries.blocks.sparse_projection import SparseProjection
from conspectus.releases.planning import problem_of
from conspectus.synopses.random_projection import RandomProjection, kept_by_hash, majority_fails, section_failure
from conspectus.synopses.synopsis import BadSynopsis, Total, load_synopsis

ALPHA = 1e-6
FIVE = norm.isf(ALPHA / 2)
HEAVY = [("heavy", 3000), *((number, 1) for number in range(40))]


@cache
def place(record):
    return int(fingerprints(np.array([record]))[0])


def projected(counts, size, s, seed, estimator, noise=1e-9):
    """A synopsis of a table given by its counts; a deviation of 1e-9 stands for no noise at all."""
    projection = SparseProjection(RECORDS, size, s, 4, seed)
    sums = np.zeros(size, dtype=np.int64)
    places = np.array([place(record) for record, _ in counts], dtype=np.uint64)
    projection.add(places, np.array([count for _, count in counts]), sums)
    law = Noise("gaussian", noise)
    if noise > 1:
        sums += np.rint(np.random.default_rng(seed).normal(0, noise, size)).astype(np.int64)
    rows = sum(count for _, count in counts)
    return RandomProjection(RECORDS, projection, sums, law, Total(value=float(rows), exact=True), estimator)


def test_an_answer_is_the_median_of_what_the_blocks_say():
    synopsis = projected(HEAVY, 50, 5, 3, "median")
    asked = cs.sparse([{1: 0.5, 2: 1.0}, ["heavy"], ["absent", 7]])
    weights = [{1: 0.5, 2: 1.0}, {"heavy": 1.0}, {"absent": 1.0, 7: 1.0}]
    for found, query in zip(synopsis.answer(asked) * synopsis.total.divisor, weights):
        estimates = np.zeros(5)
        for record, weight in query.items():
            signs = column(synopsis.projection, int(fingerprints(np.array([record]))[0]))
            estimates += weight * (signs * synopsis.values).reshape(5, 10).sum(axis=1)
        assert found == pytest.approx(sorted(estimates)[2])


def spoilt(s, estimator, trials=600):
    """How often a query of 10 records is off by a tenth of the heavy one."""
    asked = cs.sparse([list(range(10))])
    found = 0
    for seed in range(trials):
        synopsis = projected(HEAVY, 500 * s, s, seed, estimator)
        found += abs(synopsis.answer(asked)[0] * synopsis.total.divisor - 10) > 300
    return found


def test_a_heavy_record_must_spoil_a_majority():
    """One block is spoilt with probability p = 1 − (1 − 1/500)^10 at most 0.02: the median of five as often as three
    of five, 8e-5. The mean of the five is wrong whenever one is, in a tenth of the hashes (bounds at ALPHA)."""
    trials = 600
    assert spoilt(5, "median") <= binom.isf(ALPHA, trials, majority_fails(5, 0.02))
    assert spoilt(5, "mean") > binom.isf(ALPHA, trials, majority_fails(5, 0.02))
    assert spoilt(5, "mean") >= binom.ppf(ALPHA, trials, 0.09)


def test_blocks_are_independent():
    """Two records meet in each of two blocks of 4 with probability 1/4, in both with 1/16, over 4,000 hashes (five
    deviations); of one block that is looked at twice the test says otherwise."""
    places = fingerprints(np.array([1, 2]))
    meet = np.zeros((4000, 2), dtype=bool)
    for seed in range(len(meet)):
        projection = SparseProjection(RECORDS, 8, 2, 4, seed)
        first, second = (np.abs(column(projection, int(place))).reshape(2, 4) for place in places)
        meet[seed] = (first * second).sum(axis=1) > 0

    def close(found, p):
        return abs(found.mean() - p) < FIVE * math.sqrt(p * (1 - p) / len(found))

    assert close(meet[:, 0], 1 / 4)
    assert close(meet[:, 1], 1 / 4)
    assert close(meet[:, 0] & meet[:, 1], 1 / 16)
    assert not close(meet[:, 0] & meet[:, 0], 1 / 16)


@pytest.mark.parametrize("s", [3, 5, 9, 63])
@pytest.mark.parametrize("failure", [0.2, 0.01, 1e-6])
def test_the_failure_of_a_block_is_the_largest_that_may_be(s, failure):
    p = section_failure(s, failure)
    assert majority_fails(s, p) == pytest.approx(binom.sf(s // 2, s, p), rel=1e-9)
    assert binom.sf(s // 2, s, p) <= failure < binom.sf(s // 2, s, p * 1.0001)
    assert section_failure(1, failure) == failure


@pytest.mark.parametrize("s", [3, 5, 9])
def test_the_price_of_a_median(s):
    """4·10^5 medians of Gaussians: a relative deviation of their variance of 0.3 %, beside the 3 % that are stated."""
    drawn = np.random.default_rng(s).normal(size=(400_000, s))
    assert np.median(drawn, axis=1).var() * s == pytest.approx(price_of_median(s), rel=0.045)
    assert price_of_median(1) == 1


@pytest.mark.parametrize(("size", "noise"), [(60, 1e-9), (300, 40.0), (3000, 40.0)])
def test_the_mean_square_is_below_its_bound(size, noise):
    """2s²/(s + 1)·‖w‖²(σ² + 2F/T), over 500 hashes on a table with a heavy record: a bound with room to spare."""
    s, asked = 5, cs.sparse([list(range(10))])
    found = []
    for seed in range(500):
        synopsis = projected(HEAVY, size, s, seed, "median", noise)
        found.append(synopsis.answer(asked)[0] * synopsis.total.divisor - 10)
    second = sum(count * count for _, count in HEAVY)
    variance = 10 * ((noise if noise > 1 else 0) ** 2 / s + 2 * second / size)
    assert np.square(found).mean() < 2 * s * s / (s + 1) * variance


@pytest.mark.parametrize("size", [50, 1000])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_intervals_of_a_median_cover_and_tell_something(size, confidence):
    """Over 120 hashes and noises each end covers as often as it says (binomial quantile, ALPHA); in few coordinates
    noise alone would not (the median of the same blocks, with the noise's part of the interval)."""
    asked, sigma = cs.sparse([list(range(30))]), 1.5
    low = high = bare = 0
    widths = []
    for seed in range(120):
        synopsis = projected(HEAVY, size, 5, seed, "median", sigma)
        count, half = synopsis.interval(asked, confidence)
        low, high = low + (count - half <= 30), high + (count + half >= 30)
        bare += abs(count - 30) <= 2 * sigma * math.sqrt(30)
        widths.append(half)
    assert min(low, high) >= binom.ppf(ALPHA, 120, confidence)
    assert max(widths) < 3040 * (8 if size == 1000 else 160)  # what Chebyshev's inequality says, and no more
    if size == 50:
        assert bare < binom.ppf(ALPHA, 120, 0.5)


def test_a_median_is_worth_its_intervals():
    """On a table of different records at confidence 0.999: narrower than Chebyshev's inequality for the mean."""
    counts = [(number, 1) for number in range(2000)]
    asked = cs.sparse([list(range(100))])
    median = projected(counts, 2000, 5, 1, "median", 5.0).interval(asked, 0.999)[1]
    mean = projected(counts, 2000, 5, 1, "mean", 5.0).interval(asked, 0.999)[1]
    assert median < mean / 1.5


DIFFERENT = [(number, 1) for number in range(5000)]


@pytest.mark.parametrize(("counts", "size"), [(DIFFERENT, 64), (HEAVY, 64), (HEAVY, 1024)])
def test_second_moments_are_bounded_as_often_as_stated(counts, size):
    """F is at most the bound but for a quarter of 300 hashes and noises (binomial quantile, ALPHA); what is seen of it
    without any allowance is not."""
    second = sum(count * count for _, count in counts)
    bounds, seen = [], []
    for seed in range(300):
        synopsis = projected(counts, size, 1, seed, "mean", 3.0)
        bounds.append(synopsis.second_moment(0.25))
        seen.append(float(np.square(synopsis.values).sum() - 9 * size))
    assert np.sum(np.array(bounds) >= second) >= binom.ppf(ALPHA, 300, 0.75)
    assert np.sum(np.array(seen) >= second) < binom.ppf(ALPHA, 300, 0.75)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_smallest_default_size_tells_different_records_from_one_heavy_record(confidence):
    """1,024 coordinates: F is known to be far below n², and intervals are some times the noise, not the table."""
    synopsis = projected(DIFFERENT, 1024, 1, 3, "mean", 3.0)
    assert synopsis.second_moment(0.3 * (1 - confidence)) < 5000**2 / (100 if confidence < 0.99 else 1 / 2)
    half = synopsis.interval(cs.sparse([list(range(100))]), confidence)[1]
    assert half < 3.0 * 10 * (20 if confidence < 0.99 else 40)
    assert kept_by_hash(1024, 0.5 * (1 - confidence)) > 0.2


@pytest.mark.parametrize("size", [300, 1024])
@pytest.mark.parametrize("counts", [DIFFERENT, HEAVY])
def test_intervals_of_few_coordinates_cover(counts, size):
    """Over 100 hashes and noises each end covers as often as it says (binomial quantile, ALPHA)."""
    asked, low, high = cs.sparse([list(range(30))]), 0, 0
    for seed in range(100):
        count, half = projected(counts, size, 1, seed, "mean", 1.5).interval(asked, 0.8)
        low, high = low + (count - half <= 30), high + (count + half >= 30)
    assert min(low, high) >= binom.ppf(ALPHA, 100, 0.8)


def test_files_keep_the_estimator(tmp_path):
    table = cs.open_records(list(range(3000)))
    asked = cs.sparse([list(range(20))])
    release = cs.release(table, asked, epsilon=1, mechanism="sparse-project", size=1 << 12, nonzeros=5)
    assert release.parameters["estimator"] == release.synopsis.estimator == "median"
    release.save(tmp_path / "median.conspectus")
    again = cs.load(tmp_path / "median.conspectus")
    assert again.synopsis.estimator == "median"
    assert again.ask(asked) == release.ask(asked)
    meta, tables = release.synopsis.parts()
    asking = {"estimator": "mean"}
    mean = load_synopsis(RECORDS, "random-projection", {**meta, **asking}, tables)
    assert not np.array_equal(mean.answer(asked), release.synopsis.answer(asked))
    older = {key: value for key, value in meta.items() if key != "estimator"}  # written before there was a choice
    assert load_synopsis(RECORDS, "random-projection", older, tables).estimator == "mean"
    even = projected(HEAVY, 8, 4, 1, "mean").parts()
    whole = projected(HEAVY, 5, 5, 1, "mean").parts()
    for parts in ((meta, tables), even, whole):
        for wrong in ("mode", None, 5, ["median"], *(["median"] if parts[0] is not meta else [])):
            with pytest.raises(BadSynopsis):
                load_synopsis(RECORDS, "random-projection", {**parts[0], "estimator": wrong}, parts[1])


def claimed(rows, asked, s, failure):
    """What one answer is off by at most, on any table, at this failure level: written out once more."""
    m, sigma = asked.blocks[0].sparsity, 2 * math.sqrt(2 * s)
    size = min(1024 * math.ceil(math.sqrt(m) * rows * s / (sigma * math.sqrt(s)) / 1024), 1 << 22) // s * s
    each = sigma * math.sqrt(2 * math.log(2 / failure) * m * price_of_median(s))
    return each + rows * math.sqrt(2 * m * s / (size * section_failure(s, failure)))


@pytest.mark.parametrize("rows", [100, 50_000, 1_000_000])
@pytest.mark.parametrize(("failure", "expected"), [(0.05, (1,)), (1e-4, (3, 5))])
def test_the_default_is_what_claims_the_least_at_the_failure_level(rows, failure, expected):
    """At 0.05 one block, however many records are listed; where answers must seldom be wrong, a median."""
    asked = cs.sparse([list(range(k, k + 50)) for k in range(0, 20_000, 50)])
    problem = problem_of(
        cs.open_records([0]).schema, asked, budget=Budget(epsilon=1.0, delta=1e-6), neighbours=None, rows=rows
    )
    s = make("sparse-project", {"failure": failure}).plan(problem).projection.nonzeros
    assert s in expected
    assert s == min((1, 3, 5), key=lambda blocks: claimed(rows, asked, blocks, failure))
    assert made.claimed(make("sparse-project", {"failure": failure}), problem).bound.probability == 1 - failure


def test_settings_choose_the_number_of_blocks():
    table = cs.open_records(list(range(500)))
    for settings, s, estimator in (
        ({"estimator": "mean"}, 1, "mean"),
        ({"estimator": "median"}, (3, 5), "median"),
        ({"nonzeros": 3, "estimator": "mean"}, 3, "mean"),
        ({"nonzeros": 3}, 3, "median"),
        ({"nonzeros": 4}, 4, "mean"),
    ):
        release = cs.release(table, cs.sparse([[1]]), epsilon=1, mechanism="sparse-project", size=1000, **settings)
        assert release.parameters["nonzeros"] in (s if isinstance(s, tuple) else (s,))
        assert release.parameters["estimator"] == estimator
        assert release.parameters["size"] % release.parameters["nonzeros"] == 0
        assert 1000 - 5 < release.parameters["size"] <= 1000


@pytest.mark.parametrize("s", [1, 5])
def test_the_claim_is_what_the_errors_are(s):
    """Means of 400 sizes of errors, which share a noise but few coordinates: within a third of the claim."""
    rows = 20_000
    asked = cs.sparse([list(range(k, k + 50)) for k in range(0, rows, 50)])
    release = cs.release(
        cs.open_records(list(range(rows))), asked, epsilon=1.0, delta=1e-6, mechanism="sparse-project", nonzeros=s
    )
    assert release.parameters["estimator"] == ("median" if s > 1 else "mean")
    claim = release.claim
    errors = np.abs(release.answers * rows - 50)
    assert errors.mean() == pytest.approx(claim.expected_mean, rel=1 / 3)
    assert np.sqrt(np.square(errors).mean()) / rows <= claim.bound.value
