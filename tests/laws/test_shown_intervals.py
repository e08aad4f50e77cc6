"""Intervals of published records hold given that the records were published, whatever their true counts are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom
from tests.reference import law_given_shown

import conspectus as cs
from conspectus.data.domain import RECORDS
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import shown_interval, sum_quantile
from conspectus.synopses.sparse_table import SparseTable
from conspectus.synopses.synopsis import BadSynopsis, Total

ALPHA = 1e-6


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
def test_each_end_holds_given_that_a_record_was_shown(scale, confidence):
    """By enumeration, for counts from 1 to far above the threshold."""
    threshold = 1 + math.ceil(14 * scale)
    missed = (1 - confidence) / 2 + 1e-9
    for count in {
        1,
        threshold // 2,
        threshold - 1,
        threshold,
        threshold + 1,
        threshold + int(3 * scale),
        9 * threshold,
    }:
        shown, law = law_given_shown(scale, count, threshold, threshold + count + int(60 * scale) + 20)
        low, high = shown_interval(scale, shown, threshold, confidence)
        assert law[low > count].sum() <= missed
        assert law[high < count].sum() <= missed
        assert ((low >= 1) & (low <= shown) & (shown <= high)).all()
    margin = sum_quantile("laplace", scale, 1, confidence)
    far = np.array([10**6])
    assert [end.tolist() for end in shown_interval(scale, far, threshold, confidence)] == [far - margin, far + margin]
    # The interval of the noise alone is the wrong one: of a single row it shows nothing but what is too high.
    shown, law = law_given_shown(scale, 1, threshold, 10 * threshold + 100)
    if threshold - margin > 1:
        assert law[shown - margin > 1].sum() > 0.99


def test_intervals_are_no_wider_than_they_must_be():
    """Moving an end by one row would leave out a count for which what was shown is not unlikely enough."""
    scale, threshold, confidence = 2.0, 28, 0.95
    shown = np.arange(threshold, 80)
    low, high = shown_interval(scale, shown, threshold, confidence)
    for y, least, most in zip(shown, low.tolist(), high.tolist()):
        for count in (least, most):
            support, law = law_given_shown(scale, count, threshold, 300)
            tail = law[support >= y].sum() if count == least else law[support <= y].sum()
            assert tail > 0.025 * (1 - 1e-6)
    assert low[0] == 1
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high) >= 0).all()


@pytest.mark.parametrize("count", [24, 28, 33])
def test_what_a_release_shows_near_its_threshold_is_covered(count):
    """Of 4,000 such records, those shown: each end holds for 97.5 % of them at least (binomial quantile, ALPHA). The
    noise alone, where counts of 24 are shown, passes for that with probability 1e-11."""
    table = cs.open_records(np.repeat(np.arange(4000), count), neighbours="replace")
    release = cs.release(table, cs.sparse([[0]]), epsilon=1.0, delta=1e-6, mechanism="stable-histogram")
    assert (release.synopsis.threshold, release.synopsis.noise) == (28, Noise("laplace", 2.0))
    made = release.table(["record"])
    low, high, noisy = (made[name].to_numpy() for name in ("low", "high", "count"))
    enough = binom.ppf(ALPHA, len(low), 0.975)
    assert (low <= count).sum() >= enough
    assert (high >= count).sum() >= enough
    if count == 24:
        assert (noisy - sum_quantile("laplace", 2.0, 1, 0.95) <= count).sum() < enough
    answers = [release.ask(cs.sparse([[record]])) for record, _ in release.records[:150]]
    share = count / (4000 * count)
    enough = binom.ppf(ALPHA, len(answers), 0.975)
    assert sum(answer.low <= share + 1e-12 for answer in answers) >= enough
    assert sum(answer.high >= share - 1e-12 for answer in answers) >= enough
    assert all(answer.low * 4000 * count >= 1 - 1e-9 for answer in answers)


def test_records_of_single_rows_that_are_shown_are_covered():
    rows = cs.open_records(np.arange(100_000), neighbours="replace")
    release = cs.release(rows, cs.sparse([[0]]), epsilon=1.0, delta=3e-3, mechanism="stable-histogram")
    low = release.table(["record"])["low"].to_numpy()
    assert len(low) > 100
    assert (low <= 1).sum() >= binom.ppf(ALPHA, len(low), 0.975)


def test_a_question_about_records_that_were_not_shown_keeps_its_interval():
    held = SparseTable(
        RECORDS, np.array([3, 9], dtype=np.uint64), np.array([29, 500]), 28, Noise("laplace", 2.0), TOTAL
    )
    none = cs.sparse([["not there"]])
    each = sum_quantile("laplace", 2.0, 1, 0.975)
    assert held.interval(none, 0.95) == (0.0, (0.0, 28 + each))


@pytest.mark.parametrize("counts", [(6, 6), (8, 9), (9, 14), (30, 30)])
def test_two_records_together_hold_given_that_both_were_shown(counts):
    """By enumeration of what may be shown of both, which are independent."""
    scale, threshold, confidence = 1.0, 8, 0.8
    asked = cs.sparse([["one", "other"]])
    keys = np.sort(asked.blocks[0].addresses)
    laws = [law_given_shown(scale, count, threshold, threshold + count + 40) for count in counts]
    laws = [(shown[law > 1e-4], law[law > 1e-4]) for shown, law in laws]
    missed = 0.0
    for first, likely in zip(*laws[0]):
        for second, also in zip(*laws[1]):
            held = SparseTable(
                RECORDS,
                keys,
                np.array([first, second]),
                threshold,
                Noise("laplace", scale),
                Total(value=99.0, exact=True),
            )
            count, (below, above) = held.interval(asked, confidence)
            missed += likely * also * (not count - below <= sum(counts) <= count + above)
    assert missed <= 1 - confidence


def test_keys_with_other_noise_are_refused():
    with pytest.raises(BadSynopsis, match="Laplace"):
        SparseTable(RECORDS, np.array([3], dtype=np.uint64), np.array([40]), 30, Noise("gaussian", 2.0), TOTAL)


TOTAL = Total(value=1000.0, exact=True)
