"""An adversary that publishes keys under one ledger again and again, until it is refused.

Bob's record is his alone. Each act shows it with the small probability that is the act's δ, and nobody else's record
can be mistaken for it: to have seen it once is to know that he is there. So the δ of all acts together, not that of
one, is what the ledger has to hold down.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from conspectus.curator.acts import keys_act
from conspectus.mechanisms.stable_histogram import threshold
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.events import Event, StableKeys
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.noise import SystemSampler, discrete_laplace
from conspectus.privacy.prices import Cost
from conspectus.privacy.relation import Neighbours

from .composition_game import Experiment, Floats, Views

PROMISE = Budget(epsilon=2.0, delta=0.2)
ASIDE = 0.5
EACH = 0.03
"""The δ of each act: three of them fit into what is set aside."""
MOST = 24
SCALE = 20.0


class ForgottenDelta(Ledger):
    """Broken on purpose: a ledger that adds up the ρ of acts and forgets the δ that is their own."""

    def cost_of(self, event: Event) -> Cost:
        return Cost(price=super().cost_of(event).price)


def admitted(kind: type[Ledger], act: StableKeys, neighbours: Neighbours, *, most: int = MOST) -> int:
    """How often a ledger of this kind lets an act happen, of so many times that it is asked for."""
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
        for number in range(most):
            try:
                reservation = ledger.reserve(PROMISE, "keys", events=(act,), **bound)  # type: ignore[arg-type]
                reservation.debit(act)
                reservation.settle()
            except BudgetExceeded:
                return number
        return most


def cases() -> Iterator[Experiment]:
    """The ledger against its twin, under both relations."""
    for neighbours in Neighbours:
        act = keys_act(SCALE, threshold(SCALE, 1, EACH), max_rows=1)
        assert PROMISE.epsilon is not None
        claim = (PROMISE.epsilon, PROMISE.delta)
        yield Experiment(
            name="composition-ledger",
            neighbours=neighbours,
            views=_views(Ledger, act, neighbours),
            claim=claim,
            twin=(ForgottenDelta.__doc__ or "").split(": ", 1)[1].split(".")[0],
            twin_claim=claim,
            twin_views=_views(ForgottenDelta, act, neighbours),
            effort=1,
        )


def _views(kind: type[Ledger], act: StableKeys, neighbours: Neighbours) -> Views:
    def views(side: int, plays: int) -> Floats:
        """How often Bob's record was shown in each play; on side 1 he is not there, and it never is."""
        seen = np.zeros(plays)
        if side == 0:
            for _ in range(admitted(kind, act, neighbours)):
                noisy = discrete_laplace(np.ones(plays, dtype=np.int64), float(act.scale), SystemSampler())
                seen += noisy >= act.threshold
        return seen

    return views
