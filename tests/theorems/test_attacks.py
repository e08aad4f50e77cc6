"""Attacks on releases: they recover nearly everything at a huge ε and nothing at a small one, and keep the bounds.

Randomised tests raise a false alarm with probability 1e-6 at most (binomial quantiles of guesses on fixed made tables).
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import conspectus as cs
from conspectus.attacks.targets import TARGETS

ALPHA = 1e-6
EVERY = np.array(list(itertools.product([0, 1], repeat=6)))


def coins(rng, *shape):
    return (rng.random(shape) < 0.5).astype(int)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.booleans(), min_size=6, max_size=6), st.integers(0, 2**20), st.floats(0.05, 1.2))
def test_tables_that_fit_all_answers_have_few_wrong_bits(bits, seed, most):
    """Theorem 8.1: answers within E of the truth, and every table within E of the answers, by brute force."""
    secret = np.array(bits)
    rng = np.random.Generator(np.random.PCG64(seed))
    answers = EVERY @ secret + rng.uniform(-most, most, len(EVERY))
    fits = [table for table in EVERY if np.abs(EVERY @ table - answers).max() <= most]
    assert any((table == secret).all() for table in fits)
    assert all(np.sum(table != secret) <= 4 * most for table in fits)
    found = cs.attacks.exhaustive(EVERY, answers)
    deviations = [np.abs(EVERY @ table - answers).sum() for table in EVERY]
    assert np.abs(EVERY @ found - answers).sum() == pytest.approx(min(deviations))


def test_noise_of_n_over_401_loses_less_than_a_hundredth():
    """The book's worked number: 4E wrong bits of n with E = n/401."""
    assert pytest.approx(0.009975, abs=1e-6) == 4 / 401


def test_a_linear_program_finds_what_noise_below_the_root_of_n_hides():
    """120 people, 5 questions each: exact from noise of 1 count, not from noise of 30."""
    rng = np.random.Generator(np.random.PCG64(3))
    asked, secret = coins(rng, 600, 120), coins(rng, 120)
    near, far = (cs.attacks.linear(asked, asked @ secret + rng.normal(0, noise, 600)) for noise in (1, 60))
    assert (near == secret).mean() > 0.97
    assert (far == secret).mean() < 0.75


def test_little_noise_is_no_noise():
    """Six bits from thirty questions with noise below a quarter: always exact."""
    rng = np.random.Generator(np.random.PCG64(9))
    for _ in range(5):
        asked, secret = coins(rng, 30, 6), coins(rng, 6)
        found = cs.attacks.linear(asked, asked @ secret + rng.uniform(-0.2, 0.2, 30))
        assert (found == secret).all()


def test_tables_that_fit_three_quarters_of_the_answers_have_few_wrong_bits():
    """Theorem 8.2 at η = 1/4: bn questions of random signs, b > 4 ln(3)/η = 17.5778. By brute force over 12 people.

    The quarter of wild answers may be chosen for the table that is to be believed: it then fits three quarters of all
    within α once it has the answers of the secret, to within 2α, on half. So it differs in at most (2α/η)² places.
    """
    eta, alpha, people = 0.25, 0.3, 12
    enough = 4 * math.log(3) / eta
    assert enough == pytest.approx(17.5778, abs=1e-4)
    rng = np.random.Generator(np.random.PCG64(5))
    tables = np.array(list(itertools.product([0, 1], repeat=people)))
    farthest = []
    for _ in range(20):
        signs, secret = 1 - 2 * coins(rng, math.ceil(enough * people), people), coins(rng, people)
        near = np.abs((tables - secret) @ signs.T) <= 2 * alpha
        believed = tables[near.mean(axis=1) >= 2 * eta]
        farthest.append(np.abs(believed - secret).sum(axis=1).max())
    assert max(farthest) <= (2 * alpha / eta) ** 2 < people
    assert max(farthest) > 0  # an adversary with a quarter of the answers does hide some bits


def test_some_wild_answers_do_not_stop_it():
    """A tenth of the answers are nonsense."""
    rng = np.random.Generator(np.random.PCG64(4))
    asked, secret = coins(rng, 400, 50), coins(rng, 50)
    answers = (asked @ secret).astype(float)
    answers[rng.choice(400, 40, replace=False)] = rng.uniform(0, 50, 40)
    assert (cs.attacks.linear(asked, answers) == secret).all()


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "projection"])
@pytest.mark.parametrize("attack", TARGETS)
def test_a_huge_epsilon_hides_nothing_and_a_small_one_everything(attack, mechanism):
    loud, quiet = cs.attacks.run([mechanism], epsilons=[1e4, 0.05], attacks=[attack], runs=2)
    if attack == "membership" and mechanism == "projection":
        assert loud.success is None
        assert "cells" in loud.reason
        return
    assert loud.success > 0.9
    assert loud.bound == 1
    # Guesses of one release are not independent, but of pure ones each succeeds with the bound's probability at most.
    assert quiet.bound == pytest.approx(math.exp(0.05) / (1 + math.exp(0.05)), abs=1e-5)
    assert quiet.success * quiet.guesses <= binom.ppf(1 - ALPHA, quiet.guesses, quiet.bound) + 0.1 * quiet.guesses


def test_no_attack_beats_the_bound_where_guesses_are_independent():
    """Differencing guesses one bit a release; a mechanism that told the secret would pass the bound here."""
    (found,) = cs.attacks.run(["laplace"], epsilons=[1.0], attacks=["differencing"], runs=10)
    right = round(found.success * found.guesses)
    assert found.guesses == 80
    assert right <= binom.ppf(1 - ALPHA, found.guesses, found.bound)
    assert found.guesses > binom.ppf(1 - ALPHA, found.guesses, found.bound)


def test_the_bound_is_attained_by_randomised_response():
    for epsilon in (0.0, 0.1, math.log(3), 5.0):
        told = math.exp(epsilon) / (1 + math.exp(epsilon))
        assert cs.attacks.success_bound(epsilon) == pytest.approx(told)
    assert cs.attacks.success_bound(math.log(3)) == pytest.approx(0.75)
    # (0, δ): with probability δ the secret itself is told.
    assert cs.attacks.success_bound(0.0, 0.2) == pytest.approx(0.6)
    assert cs.attacks.success_bound(5000.0) == 1.0


def test_what_no_attack_can_be_made_on():
    with pytest.raises(cs.attacks.AttackError, match="20 people"):
        cs.attacks.exhaustive(np.ones((3, 21), dtype=bool), np.zeros(3))
    with pytest.raises(cs.attacks.AttackError, match="each answer"):
        cs.attacks.linear(np.ones((3, 4), dtype=bool), np.zeros(2))
    with pytest.raises(cs.attacks.AttackError, match="strictly"):
        cs.attacks.membership(np.zeros(2), np.array([0.0, 0.5]), np.zeros((1, 2), dtype=bool), rows=3)
    with pytest.raises(cs.attacks.AttackError, match="belong"):
        cs.attacks.membership(np.zeros(2), np.array([0.5]), np.zeros((1, 2), dtype=bool), rows=3)
    with pytest.raises(cs.attacks.AttackError, match='did you mean "linear"'):
        cs.attacks.run(["laplace"], attacks=["linaer"])
    with pytest.raises(cs.attacks.AttackError, match="runs"):
        cs.attacks.run(["laplace"], runs=0)
    with pytest.raises(cs.attacks.AttackError, match="probability"):
        cs.attacks.success_bound(1.0, 2.0)
    with pytest.raises(ValueError, match="refused"):
        cs.attacks.picture([])


def test_answers_that_were_not_given_say_nothing():
    """`top` answers its winners alone: the others are not a number, and the attacks go on without them."""
    (found,) = cs.attacks.run(["top"], epsilons=[1e4], attacks=["linear"], runs=1, count=40)
    assert 0 <= found.success <= 1


def test_the_command_prints_and_draws(tmp_path, capsys):
    from conspectus.cli import run

    picture = tmp_path / "attacks.svg"
    line = ["attack", "--mechanism", "laplace", "--epsilon", "1", "--epsilon", "100", "--runs", "1", "--quiet"]
    assert run([*line, "-o", str(picture)]) == 0
    said = capsys.readouterr().out
    assert "any attacker" in said
    assert "membership" in said
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    assert run([*line, "--attack", "linear", "--json"]) == 0
    assert '"bound": 0.73' in capsys.readouterr().out
    assert run(["attack", "--mechanism", "pmw"]) == 2
    assert run(["attack", "--attack", "linaer"]) == 2
