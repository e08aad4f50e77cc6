"""A small dose of kills over releases, sessions and plain debits; the full one is `python -m tests.fuzzing.kills`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzzing.kills import kill_victims

from conspectus.privacy.events import Event
from conspectus.privacy.ledger.reservation import Reservation


def test_nothing_is_drawn_that_was_not_debited(tmp_path: Path) -> None:
    seen = kill_victims(tmp_path, count=9, seed=2, longest=0.05)
    assert set(seen.kills.values()) == {3}
    assert seen.drawn


def test_a_debit_that_does_not_last_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: reserved, but the act is not written down."""

    def forgetful(self: Reservation, event: Event, **_: object) -> None:
        if self._number is None and self._opening is not None:
            self._number = self._opening()

    monkeypatch.setattr(Reservation, "debit", forgetful)
    with pytest.raises(AssertionError, match=r"drew more than it debited|acts the ledger does not have|disagree"):
        kill_victims(tmp_path, count=3, seed=2)
