"""Whether the acts that a file lists keep the promise that it states, each priced afresh.

A file may have been changed by anyone. What acts cost together hangs on how they came to be: of a list that was fixed
before the first draw every theorem holds, and the best one counts. Of acts that were chosen as one went, how many there
were is itself an outcome: what holds is the theorem of the filter that admitted them, at the cap that it had, and the
cap is what such a file states. So the stated numbers have to fit together as those of one filter do, and to pay for the
acts; a theorem that is better for what happened to be drawn is no proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from . import composition
from .accounting import GAUSSIAN, best, epsilon_of
from .events import Event, RowTotal
from .guarantee import Guarantee
from .prices import Cost, cost_of, gaussian_acts, price_pure, scale_down, scale_up, total_of
from .relation import Relation

Allowed = Literal["declared", "filtered", "gaussian"]
"""How acts were allowed: as a `Declared` list, by a `Filter`, or by a `GaussianFilter`."""

_SLACK = 1 + Fraction(1, 2**40)
"""A promise is kept but for a last bit of its floats."""


def keeps(promised: Guarantee, events: Sequence[Event], relation: Relation, *, allowed: Allowed) -> bool:
    """Whether acts, priced afresh, keep a promise.

    Args:
        promised: What is stated of them.
        events: The acts, at least one.
        relation: Who are neighbours. The exact number of rows is free where it is public, and has no price elsewhere.
        allowed: How the acts were allowed, by the mechanism that made them.

    Raises:
        Unpriced: An act has no price in the currency of the promise.

    Guarantee: acts that were allowed so, and by caps as stated, keep what is promised.
    """
    if not events or (any(isinstance(event, RowTotal) for event in events) and not relation.total_is_public):
        return False
    if promised.rho is None and not promised.delta and promised.epsilon is not None:
        # Some acts have a pure price alone: a promise of pure ε asks for no other.
        spent = total_of(price_pure(event, promised.neighbours) for event in events)
        return spent <= Fraction(promised.epsilon) * _SLACK
    if promised.missing or allowed != "declared":
        gaussian = allowed == "gaussian" and promised.theorem.startswith(GAUSSIAN)
        return _keeps_filtered(promised, events, gaussian=gaussian)
    epsilon, rho, _ = best(events, promised.delta, promised.neighbours)
    if promised.rho is not None and (rho is None or rho > Fraction(promised.rho) * _SLACK):
        return False
    return promised.epsilon is None or (epsilon is not None and epsilon <= Fraction(promised.epsilon) * _SLACK)


def _keeps_filtered(promised: Guarantee, events: Sequence[Event], *, gaussian: bool) -> bool:
    """The same of a filter in ρ: its cap, in both parts, pays for the acts, and ε is that of the cap at what is left of
    δ, and not that of what was spent."""
    spent = sum((cost_of(event, "zcdp", promised.neighbours) for event in events), Cost())
    missing = Fraction(promised.missing)
    rho = spent.price if promised.rho is None else Fraction(promised.rho)
    if not spent.within(Cost(price=rho * _SLACK, delta=missing)):
        return False
    if promised.epsilon is None:
        return True
    left_over = scale_down(Fraction(promised.delta) - missing)
    if left_over <= 0:
        return False
    proved = epsilon_of(rho, left_over)
    noisy = gaussian_acts(events, promised.neighbours) if gaussian and not missing else None
    if noisy:
        # The least noise that was agreed on is not in a file: that of the acts is no less, and proves no larger ε.
        least = min(square for _, square in noisy)
        proved = min(proved, composition.gaussian_epsilon([(scale_up(2 * rho), least)], left_over))
    return Fraction(proved) <= Fraction(promised.epsilon) * _SLACK
