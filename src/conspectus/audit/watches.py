"""The sparse vector under audit: the two forms that are private, and the four broken ones as twins.

Lyu, Su and Li (2017) compare six published variants. Their first (one noisy threshold, comparisons with noise scaled
by the number of hits) and second (the book's, a new threshold after each hit) are what the curator's watches do. The
other four release the noisy value that was compared (3), forget the number of hits (4), compare without noise (5), or
never stop (6); each is a twin here that the audit must refute.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.curator import HALF, Curator
from conspectus.curator.scores import ERROR_STEPS, Score, error_of
from conspectus.curator.watch import Watch
from conspectus.privacy.accounting import scale_up
from conspectus.privacy.events import Noise
from conspectus.privacy.noise import discrete_laplace
from conspectus.privacy.relation import Neighbours
from conspectus.queries.workload import Workload

from .doors import WIDTH, Play, case, one_falls, ones
from .plays import Experiment

ENDLESS = 1 << 30


class _Variant(Curator):
    """Draws a threshold as a published variant does; `epsilon` is all that it believes to spend."""

    def _drawn(self, threshold: Fraction, epsilon: Fraction) -> int:
        steps = np.array([int(threshold * ERROR_STEPS)], dtype=np.int64)
        return int(discrete_laplace(steps, self._scale(epsilon), self._sampler)[0])

    def _scale(self, epsilon: Fraction) -> float:
        return scale_up(ERROR_STEPS * self.relation.max_rows / epsilon)


class BareThreshold(_Variant):
    """Broken on purpose: the threshold itself gets no noise."""

    def above_threshold(
        self, threshold: Fraction, epsilon: Fraction, *, share: Fraction = HALF, hits: int = 1
    ) -> Watch:
        return Watch(self._noisy_error, int(threshold * ERROR_STEPS), self._scale(epsilon / 4))


class SameNoise(_Variant):
    """Broken on purpose: a hit releases the noisy value that was compared, not one with fresh noise (variant 3)."""

    def above_threshold(
        self, threshold: Fraction, epsilon: Fraction, *, share: Fraction = HALF, hits: int = 1
    ) -> Watch:
        def remembered(query: Workload, guess: float, scale: float) -> int:
            self._compared = self._noisy_error(query, guess, scale)
            return self._compared

        return Watch(remembered, self._drawn(threshold, epsilon / 2), self._scale(epsilon / (2 * hits)), hits=hits)

    def measure(self, what: Workload | Score, law: Noise) -> NDArray[np.int64]:
        return np.array([self._compared // ERROR_STEPS], dtype=np.int64)


class UnscaledNoise(_Variant):
    """Broken on purpose: several hits with the noise that one of them needs (variant 4)."""

    def above_threshold(
        self, threshold: Fraction, epsilon: Fraction, *, share: Fraction = HALF, hits: int = 1
    ) -> Watch:
        spent = epsilon * (1 + (hits - 1) * (1 - share))
        return Watch(self._noisy_error, self._drawn(threshold, spent / 4), self._scale(spent * 3 / 4), hits=hits)


class BareComparisons(_Variant):
    """Broken on purpose: only the threshold gets noise, what is compared with it gets none (variant 5)."""

    def above_threshold(
        self, threshold: Fraction, epsilon: Fraction, *, share: Fraction = HALF, hits: int = 1
    ) -> Watch:
        def bare(query: Workload, guess: float, scale: float) -> int:
            return error_of(int(self._truth(query)[0]), query.grid, guess)

        return Watch(bare, self._drawn(threshold, epsilon / 2), 1.0, hits=ENDLESS)


class NeverOver(_Variant):
    """Broken on purpose: the watch goes on after its hits, as if they were free (variant 6)."""

    def above_threshold(
        self, threshold: Fraction, epsilon: Fraction, *, share: Fraction = HALF, hits: int = 1
    ) -> Watch:
        return Watch(self._noisy_error, self._drawn(threshold, epsilon / 2), self._scale(epsilon / 2), hits=ENDLESS)


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """The book's watch, both private forms for several hits, and a released value."""
    guess, tables = one_falls(neighbours)
    play = _pattern(guess, misses=8, watches=1, epsilon=Fraction(3), threshold=Fraction(2, 3))
    yield case("above-threshold", neighbours, tables, play, BareThreshold, (3.0, 0.0), effort=6)
    # One threshold and three hits: ε₁ = 1 and three times ε₂ = 1/3.
    play = _pattern(guess, misses=3, watches=1, epsilon=Fraction(4, 3), share=Fraction(3, 4), hits=3)
    yield case("watch-one-threshold", neighbours, tables, play, UnscaledNoise, (2.0, 0.0))
    play = _pattern(guess, misses=3, watches=3, epsilon=Fraction(2, 3))
    yield case("watch-restarted", neighbours, tables, play, BareComparisons, (2.0, 0.0))
    yield case("watch-ended", neighbours, tables, _tallied(guess, Fraction(1)), NeverOver)
    play = _released(guess, Fraction(3), Noise("laplace", 64.0), misses=6)
    yield case("watch-released", neighbours, tables, play, SameNoise, (3 + 1 / 64, 0.0), effort=3)


def _pattern(
    guess: NDArray[np.float64],
    *,
    misses: int,
    watches: int,
    epsilon: Fraction,
    share: Fraction = HALF,
    hits: int = 1,
    threshold: Fraction = HALF,
) -> Play:
    """Whether so many other questions are no hits and then the first one is a hit as often as it can be."""
    questions = list(ones(WIDTH))

    def play(curator: Curator) -> float:
        curator.hold_in_memory()
        watch = curator.above_threshold(threshold, epsilon, share=share, hits=hits)
        if any(watch.exceeds(questions[i], float(guess[i])) for i in range(1, misses + 1)):
            return 0.0
        for turn in range(watches * hits):
            if turn and watch.over:
                watch = curator.above_threshold(threshold, epsilon, share=share, hits=hits)
            if not watch.exceeds(questions[0], float(guess[0])):
                return 0.0
        return 1.0

    return play


def _tallied(guess: NDArray[np.float64], epsilon: Fraction) -> Play:
    """Hits of the first question minus hits of the others, for as long as the watch goes on."""
    questions = list(ones(WIDTH))

    def play(curator: Curator) -> float:
        curator.hold_in_memory()
        watch = curator.above_threshold(HALF, epsilon)
        found = 0.0
        for i in range(1, 6):
            for at, sign in ((0, 1.0), (i, -1.0)):
                if not watch.over and watch.exceeds(questions[at], float(guess[at])):
                    found += sign
        return found

    return play


def _released(guess: NDArray[np.float64], epsilon: Fraction, law: Noise, *, misses: int) -> Play:
    """The value that the first question's hit releases, where no other question was one; far away otherwise."""
    questions = list(ones(WIDTH))

    def play(curator: Curator) -> float:
        curator.hold_in_memory()
        watch = curator.above_threshold(HALF, epsilon)
        others = any(watch.exceeds(questions[i], float(guess[i])) for i in range(1, misses + 1))
        if others or not watch.exceeds(questions[0], float(guess[0])):
            return 1e6
        return float(curator.measure(questions[0], law)[0])

    return play
