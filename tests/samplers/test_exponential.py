"""The exponential mechanism: its weights against 60 digits, its draws integer by integer, its range on neighbours.

Randomised tests raise a false alarm with probability ALPHA = 1e-6; each has a broken twin that is caught.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2
from tests.reference import log_weights, noise_law, peeled_sequences

from conspectus.privacy.exponential import (
    FLOOR_BITS,
    SelectionError,
    draw,
    integer_weights,
    peel,
    report_noisy_max,
    slack,
)
from conspectus.privacy.noise import SystemSampler, UnsafeSeededSampler

ALPHA = 1e-6
RATES = st.one_of(
    st.fractions(min_value=Fraction(1, 10**12), max_value=40, max_denominator=10**12),
    st.floats(min_value=1e-17, max_value=1e3).map(Fraction),
    st.sampled_from([Fraction(12, 10) / 494_021, Fraction(1, 2**70), Fraction(10**30)]),
)


class Replayed:
    """Coins that say what they are told to."""

    private = False

    def __init__(self, numbers: Sequence[int]) -> None:
        words = [word for number in numbers for word in (number >> 64, number & (2**64 - 1))]
        self.content = np.array(words, "<u8").tobytes()

    def bytes(self, count: int) -> bytes:
        said, self.content = self.content[:count], self.content[count:]
        return said.ljust(count, b"\xff")


@settings(max_examples=150, deadline=None)
@given(rate=RATES, data=st.data())
def test_weights_are_exact_to_their_claimed_error(rate: Fraction, data: st.DataObject) -> None:
    widest = min(2**63 - 1, int(45 / rate) + 2)
    scores = data.draw(st.lists(st.integers(-widest, widest), min_size=1, max_size=8))
    weights = integer_weights(np.array(scores, np.int64), rate=rate)
    with mpmath.workdps(60):
        for weight, log in zip(weights, log_weights(scores, rate)):
            error = mpmath.mpf(weight) / (mpmath.exp(log) * mpmath.mpf(2) ** (FLOOR_BITS + 55)) - 1
            assert -(2.0**-53) <= error <= 2.0**-150


def test_distances_at_the_ends_of_the_type() -> None:
    ends = np.array([-(2**63), 0, 2**63 - 1], np.int64)
    lowest, middle, highest = integer_weights(ends, rate=Fraction(1, 2**64))
    assert highest == 2**95
    assert middle / highest == pytest.approx(math.exp(-0.5), rel=1e-12)
    assert lowest / highest == pytest.approx(math.exp(-1), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=700), st.sampled_from([Fraction(1, 3), Fraction(1, 1000)]))
def test_every_uniform_integer_goes_to_its_candidate(scores: list[int], rate: Fraction) -> None:
    """Counting integers leaves no sampling error: candidate q gets exactly its weight's worth of 0 … total − 1."""
    array = np.array(scores, np.int64)
    weights = integer_weights(array, rate=rate)
    starts = np.concatenate(([0], np.cumsum(np.array(weights, object))))
    goals, owners = [], []
    for candidate in range(0, len(scores), max(1, len(scores) // 40)):
        goals += [int(starts[candidate]), int(starts[candidate + 1]) - 1]
        owners += [candidate, candidate]
    chosen = draw(array, rate=rate, draws=len(goals), sampler=Replayed(goals))
    assert chosen.tolist() == owners


def test_integers_from_the_total_on_are_thrown_away() -> None:
    scores = np.array([3, 3, 0], np.int64)
    total = sum(integer_weights(scores, rate=Fraction(1)))
    sampler = Replayed([total, 0, total + 5, total - 1, 1])
    assert draw(scores, rate=Fraction(1), draws=3, sampler=sampler).tolist() == [0, 2, 0]


def range_of(weights: Sequence[int], others: Sequence[int]) -> float:
    """The length of the interval in which the log-weights moved; infinite where a weight is 0."""
    if 0 in weights or 0 in others:
        return math.inf
    with mpmath.workdps(60):
        moves = [mpmath.log(mpmath.mpf(a) / b) for a, b in zip(weights, others)]
        return max(moves) - min(moves)


def ceiled(scores: NDArray[np.int64], *, rate: Fraction) -> list[int]:
    """A broken twin: narrow weights, rounded up."""
    return [math.ceil(1024 * math.exp(float(rate) * int(s - scores.max()))) for s in scores]


def cut(scores: NDArray[np.int64], *, rate: Fraction) -> list[int]:
    """A broken twin: what falls below the floor is dropped instead of raised to it."""
    weights = integer_weights(scores, rate=rate)
    return [weight if weight > 2**55 else 0 for weight in weights]


def worst_excess(weigh: Callable[..., list[int]], scores: NDArray[np.int64], moves: NDArray[np.int64]) -> float:
    rate, bound = Fraction(1, 7), Fraction(int(np.ptp(moves)), 7) + slack()
    with mpmath.workdps(60):
        moved = range_of(weigh(scores, rate=rate), weigh(scores + moves, rate=rate))
        return float(moved - mpmath.mpf(bound.numerator) / bound.denominator)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_range_on_neighbours_stays_within_the_charge(data: st.DataObject) -> None:
    """The lemma of the shift and the clamp: a private maximum and a public floor cost nothing."""
    scores = data.draw(st.lists(st.integers(0, 400), min_size=2, max_size=12))
    low = data.draw(st.integers(-6, 6))
    moves = data.draw(st.lists(st.integers(low, low + 5), min_size=len(scores), max_size=len(scores)))
    assert worst_excess(integer_weights, np.array(scores), np.array(moves)) <= 0


@pytest.mark.parametrize("twin", [ceiled, cut])
def test_broken_weights_exceed_the_charge(twin: Callable[..., list[int]]) -> None:
    generator = np.random.Generator(np.random.PCG64(5))
    excess = [worst_excess(twin, generator.integers(0, 400, 12), generator.integers(-1, 2, 12)) for _ in range(200)]
    assert max(excess) > 0


def p_value(chosen: NDArray[np.int64], chances: NDArray[np.float64]) -> float:
    expected = chances * len(chosen)
    observed = np.bincount(chosen, minlength=len(chances))
    rare = expected < 20
    expected = np.append(expected[~rare], expected[rare].sum())
    observed = np.append(observed[~rare], observed[rare].sum())
    kept = expected > 0
    return float(chi2.sf(np.sum((observed - expected)[kept] ** 2 / expected[kept]), kept.sum() - 1))


@pytest.mark.parametrize("sampler", [SystemSampler(), UnsafeSeededSampler(3)], ids=["system", "seeded"])
def test_draws_follow_the_weights(sampler: SystemSampler | UnsafeSeededSampler) -> None:
    scores = np.random.Generator(np.random.PCG64(1)).integers(0, 5_000, 1_500)  # several blocks
    chosen = draw(scores, rate=Fraction(1, 900), draws=60_000, sampler=sampler)
    for rate, right in ((1 / 900, True), (1.1 / 900, False), (0.9 / 900, False)):
        weights = np.exp(rate * (scores - scores.max()))
        assert (p_value(chosen, weights / weights.sum()) > ALPHA) == right


def test_peeled_draws_are_different_and_follow_the_weights_of_what_is_left() -> None:
    scores, barred = np.array([5, 0, 9, 7, 2]), np.array([2, 2])
    exact = peeled_sequences(integer_weights(scores, rate=Fraction(1, 3)), barred.tolist(), 3)
    sampler, number = UnsafeSeededSampler(8), {sequence: place for place, sequence in enumerate(exact)}
    peeled = [peel(scores, barred, rate=Fraction(1, 3), draws=3, sampler=sampler) for _ in range(20_000)]
    chosen = np.array([number[tuple(sequence.tolist())] for sequence in peeled])
    assert p_value(chosen, np.array([float(chance) for chance in exact.values()])) > ALPHA
    # A wrong twin: the chances of sorted samples without regard to what the first draws took away.
    twin = np.array([math.prod(math.exp(scores[c] / 3) for c in sequence) for sequence in exact])
    assert p_value(chosen, twin / twin.sum()) < ALPHA


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_peeled_sequences_keep_the_range_of_as_many_draws(data: st.DataObject) -> None:
    """Exact on neighbours: every sequence's chance moves within k ranges; to bar by the truth is caught."""
    scores = np.array(data.draw(st.lists(st.integers(0, 30), min_size=4, max_size=6)))
    moves = np.array(data.draw(st.lists(st.integers(-1, 1), min_size=len(scores), max_size=len(scores))))
    barred, draws, rate = data.draw(st.sets(st.integers(0, 3), max_size=2)), 2, Fraction(1, 4)
    both = [peeled_sequences(integer_weights(s, rate=rate), sorted(barred), draws) for s in (scores, scores + moves)]
    charge = draws * float(2 * rate + slack())
    assert all(abs(math.log(both[0][s] / both[1][s])) <= charge * (1 + 1e-12) for s in both[0])
    # A broken twin: the best candidate of the true table is barred.
    best = [
        peeled_sequences(integer_weights(s, rate=rate), [int(np.argmax(s))], draws) for s in (scores, scores + moves)
    ]
    assert np.argmax(scores) == np.argmax(scores + moves) or best[0].keys() != best[1].keys()


def test_more_than_there_are_cannot_be_peeled() -> None:
    with pytest.raises(SelectionError, match="different"):
        peel(np.zeros(3, np.int64), np.array([1]), rate=Fraction(1), draws=3, sampler=SystemSampler())


def test_noisy_maximum_follows_its_law() -> None:
    """Exact probabilities of the winner by summing over all noises; a scale off by 20 % is caught."""
    scores, support = np.array([0, 1, 3]), np.arange(-150, 151)

    def winner(scale: float) -> NDArray[np.float64]:
        law = noise_law("laplace", scale, 150)
        chances = []
        for mine, score in enumerate(scores):
            total = 0.0
            for noise, chance in zip(support, law):
                others = [
                    law[support + other < score + noise + (rival > mine)].sum()  # the first of equals wins
                    for rival, other in enumerate(scores)
                    if rival != mine
                ]
                total += chance * math.prod(others)
            chances.append(total)
        return np.array(chances)

    assert winner(2.0).sum() == pytest.approx(1)
    sampler = UnsafeSeededSampler(2)
    chosen = np.array([report_noisy_max(scores, scale=2.0, sampler=sampler) for _ in range(20_000)])
    assert p_value(chosen, winner(2.0)) > ALPHA
    assert p_value(chosen, winner(2.4)) < ALPHA


def test_noisy_maximum_needs_twice_the_noise_where_scores_move_apart() -> None:
    """Two scores that move by one in opposite directions: more than 1/scale, and at most 2/scale."""
    scale = 1.0
    law = noise_law("laplace", scale, 80)
    difference = np.convolve(law, law)  # of the two noises
    middle = len(difference) // 2

    def first_wins(lead: int) -> float:
        return float(difference[middle - lead :].sum())

    losses = [math.log(first_wins(lead + 2) / first_wins(lead)) for lead in range(-30, 5)]
    assert 1 / scale < max(losses) <= 2 / scale


def test_the_winning_value_itself_is_not_free() -> None:
    """(index, its noisy value) with the same noise: m equal counts that all move by one lose m times ε."""

    def log_chance(m: int, count: int, value: int) -> float:
        """Of one candidate winning with this value below all counts, for continuous noise of scale 1."""
        return -(count - value) + (m - 1) * (math.log(0.5) - (count - value))

    for m in (2, 10):
        assert log_chance(m, 0, -40) - log_chance(m, 1, -40) == pytest.approx(m)


def test_selections_that_cannot_be_are_refused() -> None:
    sampler = SystemSampler()
    with pytest.raises(SelectionError, match="candidates"):
        draw(np.zeros(0, np.int64), rate=Fraction(1), draws=1, sampler=sampler)
    for rate in (Fraction(0), Fraction(-1)):
        with pytest.raises(SelectionError, match="budget"):
            draw(np.zeros(2, np.int64), rate=rate, draws=1, sampler=sampler)
    with pytest.raises(SelectionError, match="draws"):
        draw(np.zeros(2, np.int64), rate=Fraction(1), draws=-1, sampler=sampler)
    with pytest.raises(TypeError, match="integers"):
        draw(np.zeros(2), rate=Fraction(1), draws=1, sampler=sampler)  # type: ignore[arg-type]
    assert len(draw(np.zeros(2, np.int64), rate=Fraction(1), draws=0, sampler=sampler)) == 0


def test_rounding_is_negligible_for_pure_budgets() -> None:
    assert 300_000 * slack() < Fraction(1, 10**6)
