"""The experiment itself: its members are as private as they say, its likelihood ratios are right, its choices adapt.

The cases against the theorems and their twins run in test_doors, with all others.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from conspectus.audit.composition_game import (
    Adversary,
    Choice,
    LateFilter,
    NoisyCount,
    RandomisedResponse,
    adaptive,
    experiment,
    filtered,
    neighbouring,
    steady,
)
from conspectus.audit.plays import lower_bound
from conspectus.privacy.accounting import Filter
from conspectus.privacy.composition import optimal_delta

SHARE = Fraction(2, 5)
MEMBERS = (RandomisedResponse(SHARE), NoisyCount(SHARE), Choice(SHARE))
RELATIONS = ("replace", "add-remove")


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: type(member).__name__)
def test_members_keep_their_epsilon_and_know_their_law(member, neighbours):
    words = np.arange(-400, 402) if isinstance(member, NoisyCount) else np.arange(getattr(member, "candidates", 2))
    here, there = (member.log_chance(database, words) for database in neighbouring(neighbours, 3))
    assert np.exp(here).sum() == pytest.approx(1)
    assert np.exp(there).sum() == pytest.approx(1)
    assert np.abs(here - there).max() <= float(SHARE) * (1 + 1e-12)
    # 40,000 draws: a frequency is off by more than 6 deviations with a chance of 2e-9.
    said = member.say(neighbouring(neighbours, 3)[0], 40_000)
    for word in (0, 1):
        chance = math.exp(float(member.log_chance(neighbouring(neighbours, 3)[0], np.array([word]))[0]))
        assert abs((said == word).mean() - chance) < 6 * math.sqrt(chance / 40_000)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("make", [steady, adaptive], ids=lambda make: make.__name__)
def test_likelihood_ratios_are_those_of_the_views(make, neighbours):
    """Under side 1 the mean of P⁰/P¹ is 1; it is at most e^(kε), so 10⁵ plays miss it by 0.05 with a chance of 1e-9."""
    losses = experiment(make(SHARE, neighbours), 1, rounds=4, plays=100_000)
    assert np.exp(losses).mean() == pytest.approx(1, abs=0.05)
    assert np.abs(losses).max() <= 4 * float(SHARE) * (1 + 1e-9)


def test_the_steady_adversary_attains_optimal_composition():
    """Its δ at ε, P⁰ − e^ε·P¹ of the best event, is the theorem's up to what 10⁵ plays can miss."""
    epsilon = 0.8
    here, there = (experiment(steady(SHARE, "replace"), side, rounds=6, plays=100_000) for side in (0, 1))
    found = (here > epsilon).mean() - math.exp(epsilon) * (there > epsilon).mean()
    assert found == pytest.approx(optimal_delta(epsilon, 6, float(SHARE)), abs=0.02)


def test_the_adaptive_adversary_makes_many_different_choices():
    adversary = adaptive(SHARE, "replace")
    seen = set()

    def watched(turn, losses, said):
        chosen = adversary.choose(turn, losses, said)
        seen.update(np.unique(chosen).tolist())
        return chosen

    experiment(Adversary(adversary.moves, watched), 0, rounds=6, plays=2_000)
    assert len(seen) > 5
    assert {type(adversary.moves[number].mechanism) for number in seen} == {RandomisedResponse, NoisyCount, Choice}


def test_no_view_behind_a_filter_loses_more_than_its_cap():
    cap, bets = Fraction(2), {"stake": Fraction(1, 2), "neighbours": "replace", "side": 0, "plays": 20_000}
    losses = filtered(Filter, cap, **bets)
    assert np.abs(losses).max() <= 2 + 1e-9
    assert len(np.unique(losses.round(9))) > 4, "the bets depend on what was won"
    assert filtered(LateFilter, cap, **bets).max() > 2.4


def test_a_side_that_changes_nothing_proves_nothing():
    quiet = Adversary(
        tuple(type(move)(move.mechanism, (move.databases[0],) * 2) for move in adaptive(SHARE, "replace").moves),
        adaptive(SHARE, "replace").choose,
    )
    here, there = (experiment(quiet, side, rounds=4, plays=5_000) for side in (0, 1))
    assert not here.any()
    assert lower_bound(here, there) == 0
