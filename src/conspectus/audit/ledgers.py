"""An adversary that publishes keys under one ledger again and again, until it is refused.

Bob's record is his alone. Each act shows it with the small probability that is the act's δ, and nobody else's record
can be mistaken for it: to have seen it once is to know that he is there. So the δ of all acts together, not that of
one, is what the ledger has to hold down.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.acts import keys_act
from conspectus.mechanisms.stable_histogram import threshold
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.events import Event, StableKeys
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.noise import SystemSampler, discrete_laplace
from conspectus.privacy.prices import Cost
from conspectus.privacy.relation import Neighbours

from .plays import Experiment

PROMISE = Budget(epsilon=2.0, delta=0.2)
ASIDE = 0.5
EACH = 0.03
"""The δ of each act: three of them fit into what is set aside."""
ASKED = 24
SCALE = 20.0


class ForgottenDelta(Ledger):
    """Broken on purpose: a ledger that adds up the ρ of acts and forgets the δ that is their own."""

    def cost_of(self, event: Event) -> Cost:
        return Cost(price=super().cost_of(event).price)


def admitted(kind: type[Ledger], act: StableKeys, neighbours: Neighbours) -> int:
    """How often a ledger of this kind lets an act happen, of `ASKED` times that it is asked for."""
    with tempfile.TemporaryDirectory() as place:
        bound = {"fingerprint": "", "neighbours": neighbours, "unit": "row"}
        ledger = kind.create(
            Path(place) / "ledger",
            budget=PROMISE,
            neighbours=neighbours,
            unit="row",
            schema_fingerprint="",
            table="audited",
            aside=ASIDE,
        )
        for number in range(ASKED):
            try:
                reservation = ledger.reserve(PROMISE, "keys", events=(act,), **bound)  # type: ignore[arg-type]
                reservation.debit(act)
                reservation.settle()
            except BudgetExceeded:
                return number
        return ASKED


def cases(neighbours: Neighbours) -> Iterator[Experiment]:
    """The ledger against its twin."""
    act = keys_act(SCALE, threshold(SCALE, 1, EACH), max_rows=1)
    assert PROMISE.epsilon is not None
    yield Experiment(
        name="composition-ledger",
        neighbours=neighbours,
        views=partial(_seen, Ledger, act, neighbours),
        claim=(PROMISE.epsilon, PROMISE.delta),
        twin=ForgottenDelta,
        twin_views=partial(_seen, ForgottenDelta, act, neighbours),
    )


def _seen(kind: type[Ledger], act: StableKeys, neighbours: Neighbours, side: int, plays: int) -> NDArray[np.float64]:
    """How often Bob's record was shown in each play; on side 1 he is not there, and it never is."""
    seen = np.zeros(plays)
    if side == 0:
        for _ in range(admitted(kind, act, neighbours)):
            noisy = discrete_laplace(np.ones(plays, dtype=np.int64), float(act.scale), SystemSampler())
            seen += noisy >= act.threshold
    return seen
