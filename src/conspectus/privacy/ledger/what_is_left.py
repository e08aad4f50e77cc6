"""What is left of a ledger, in words: people choose an ε, and a ledger that counts ρ would not tell them which."""

from __future__ import annotations

import decimal
from fractions import Fraction

from conspectus.privacy.accounting import BudgetExceeded, epsilon_of, rho_of
from conspectus.privacy.guarantee import LEAST
from conspectus.privacy.prices import Cost, Currency

_FEW = decimal.Context(prec=4, rounding=decimal.ROUND_FLOOR)


def affordable(rho: Fraction, delta: float) -> float:
    """The largest ε of a few digits that a release at this δ may ask for when so much ρ is left; 0 for none."""
    epsilon = epsilon_of(rho, delta) if rho > 0 else 0.0
    said = _FEW.create_decimal_from_float(epsilon)
    if Fraction(rho_of(float(said), delta)) > rho:  # a conversion is rounded up, and may be so in its last digit
        said = _FEW.next_minus(said)
    return float(said) if said >= LEAST else 0.0


def left_in_words(left: Fraction, cap: Fraction, currency: Currency, delta: float) -> str:
    """What is left, as in "rho 0.01 of 0.08 (epsilon 0.6 at delta 1e-06)"."""
    if left <= cap / 10**9:
        return f"nothing of {_sign(currency)} {float(cap):.6g}"
    said = f"{_sign(currency)} {float(left):.6g} of {float(cap):.6g}"
    return said if currency == "pure" else f"{said} (epsilon {affordable(left, delta):g} at delta {delta:g})"


def _sign(currency: Currency) -> str:
    return "epsilon" if currency == "pure" else "rho"


def check_left(spent: Cost, cost: Cost, cap: Cost, currency: Currency, delta: float) -> None:
    """Refuse, in words, what does not fit into a cap beside what was spent; `delta` is where ρ is shown as an ε."""
    total = spent + cost
    if total.within(cap):
        return
    if total.price > cap.price:
        sign = "epsilon" if currency == "pure" else "rho"
        left = left_in_words(cap.price - spent.price, cap.price, currency, delta)
        raise BudgetExceeded(
            f"this release asks for {sign} {float(cost.price):.6g}, and the ledger has {left} left: ask for less"
        )
    left, of = _shown(cap.delta - spent.delta, cap.delta), f"{float(cap.delta):.6g}"
    raise BudgetExceeded(
        f"this release publishes keys with a delta of {float(cost.delta):.6g}, and the ledger has {left} left of "
        f"the {of} that it set aside for such acts: ask for a smaller delta"
    )


def _shown(left: Fraction, cap: Fraction) -> str:
    return f"{float(left):.6g}" if left > cap / 10**9 else "nothing"
