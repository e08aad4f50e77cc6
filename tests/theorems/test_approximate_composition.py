"""Acts with a δ of their own under a filter, chosen by all that was seen: every view enumerated, no sampling.

The worst act of (ε₀, δ₀) gives the table away with probability δ₀ and is randomised response otherwise. An adversary
that picks the next act by what it saw goes on until the filter refuses all that it has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import pytest
from tests.reference import hockey_stick

from conspectus.curator.acts import keys_act
from conspectus.mechanisms.stable_histogram import threshold
from conspectus.privacy.accounting import Filter, price_approximate
from conspectus.privacy.events import StableKeys
from conspectus.privacy.guarantee import Budget

BUDGET = Budget(epsilon=1.0, delta=0.1)


def worst(epsilon: float, delta: float) -> StableKeys:
    """An act of these, of one row a unit that is added or removed."""
    return keys_act(1 / epsilon, threshold(1 / epsilon, 1, delta), max_rows=1)


MENUS = {
    "mixed": [worst(0.4, 0.01), worst(0.2, 0.02), worst(0.05, 0.005)],
    "large deltas": [worst(0.05, 0.024), worst(0.1, 0.012)],
    "large epsilons": [worst(0.45, 0.001), worst(0.3, 0.002)],
}


def views(menu: list[StableKeys], missing: Fraction, seen: tuple[tuple[int, int], ...] = ()) -> Iterator[tuple]:
    """(P(view), Q(view)) of every view. What was said: 0 or 1, and 2 or 3 where the table was given away."""
    gate = Filter("zcdp", Filter.of(BUDGET, "add-remove", missing=0.05).cap, "add-remove", missing=missing)
    here = there = 1.0
    for number, said in seen:
        gate.admit(menu[number])
        epsilon, delta = (float(part) for part in price_approximate(menu[number], "add-remove"))
        likely = (1 - delta) / (1 + math.exp(-epsilon))
        here *= (likely, 1 - delta - likely, delta, 0.0)[said]
        there *= (1 - delta - likely, likely, 0.0, delta)[said]
    admitted = [number for number, act in enumerate(menu) if gate.admits(act)]
    if not here and not there:
        return
    if not admitted or len(seen) == 6:
        yield here, there
        return
    losses = sum(1 - 2 * said for _, said in seen if said < 2)
    chosen = admitted[(losses + len(seen)) % len(admitted)]
    for said in range(4):
        yield from views(menu, missing, (*seen, (chosen, said)))


def delta_at(epsilon: float, menu: list[StableKeys], missing: Fraction) -> float:
    """The least δ at ε of all views, exactly: the worse of the two directions."""
    here, there = (dict(enumerate(law)) for law in zip(*views(menu, missing)))
    for law in (here, there):
        assert math.fsum(law.values()) == pytest.approx(1)
    return max(hockey_stick(here, there, epsilon), hockey_stick(there, here, epsilon))


@pytest.mark.parametrize("menu", MENUS.values(), ids=MENUS)
def test_every_view_keeps_epsilon_and_the_whole_delta(menu):
    held = Filter.of(BUDGET, "add-remove", missing=0.05).guarantee("row")
    assert (held.delta, held.missing) == (0.1, 0.05)
    assert held.epsilon is not None
    assert delta_at(held.epsilon, menu, Fraction(0.05)) <= 0.1


def test_a_filter_that_forgets_the_delta_does_not():
    assert delta_at(1.0, MENUS["large deltas"], Fraction(1)) > 0.1
