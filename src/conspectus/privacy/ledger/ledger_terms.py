"""The terms of a ledger: what it is bound to for good, and what it may spend."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from conspectus.privacy.accounting import BudgetExceeded, cap_of, set_aside
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.prices import Cost, Currency
from conspectus.privacy.relation import Neighbours, RelationError

_ULP = Fraction(1, 1 << 52)
_ROOM = Fraction(1, 10**9)
"""What versions may differ by in the ρ of an ε and a δ."""


class LedgerError(ValueError):
    """A file that is not a ledger, is damaged, or already exists; or an entry that has no place in it."""


class LedgerRetired(BudgetExceeded):
    """An act under a ledger that was closed for good."""


@dataclass(frozen=True, kw_only=True)
class LedgerTerms:
    """What a ledger is bound to for good; `cap` holds the most that may be spent in either part. `made`: when it was
    made, where it was read from its place."""

    currency: Currency
    cap: Cost
    budget: Budget
    neighbours: Neighbours
    unit: str
    fingerprint: str
    table: str
    made: str = ""


def terms_for(
    budget: Budget, *, neighbours: Neighbours, unit: str, fingerprint: str, table: str, aside: float
) -> LedgerTerms:
    """The terms of a new ledger; `aside` is the share of δ for acts with a δ of their own. Raises `LedgerError`."""
    try:
        neighbours = Neighbours.of(neighbours)
    except RelationError as wrong:
        raise LedgerError(str(wrong)) from None
    delta = _share_of(budget, aside)
    currency, cap = cap_of(budget)
    if delta:
        cap = set_aside(budget, delta)
    # Ten times the float 0.1 is a little more than 1: the cap is one unit in the last place above the number given,
    # so that shares that add up in decimals fit. The guarantee says so too.
    return LedgerTerms(
        currency=currency,
        cap=Cost(price=cap * (1 + _ULP), delta=Fraction(delta)),
        budget=budget,
        neighbours=neighbours,
        unit=unit,
        fingerprint=fingerprint,
        table=table,
    )


def follows(terms: LedgerTerms) -> bool:
    """Whether the cap is one that the budget allows: a ledger states both, and a changed one may contradict itself."""
    currency, most = cap_of(terms.budget)
    if terms.cap.delta:
        most = set_aside(terms.budget, float(terms.cap.delta))
    # A cap below the least float is none: shares of it are shown.
    return terms.currency == currency and terms.cap.price <= most * (1 + _ROOM) and float(terms.cap.price) > 0


def _share_of(budget: Budget, aside: float) -> float:
    """So much of a budget's δ is set aside."""
    if isinstance(aside, bool) or not isinstance(aside, int | float) or not 0 <= aside < 1:
        raise LedgerError(f"what is set aside of delta is a share from 0 to below 1, as in aside=0.5, not {aside!r}")
    if aside and (budget.epsilon is None or not budget.delta):
        raise LedgerError("a share is set aside of a delta: give the ledger an epsilon and a delta above 0")
    delta = budget.delta * aside
    if aside and not 0 < delta < budget.delta:
        raise LedgerError(f"nothing is left of delta {budget.delta:g} on one side of this share: try aside=0.5")
    return delta
