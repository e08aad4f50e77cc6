"""Analysts, releases and debits killed at random moments: ledger, files and what was shown agree every time."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crashing import kill_again_and_again
from tests.fuzzing.kills import kill_victims
from tests.standin import ENTRY

from conspectus.mechanisms.registry import ONLINE


@pytest.mark.audit
def test_two_hundred_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ONLINE, "standin", ENTRY)
    shown, trials = kill_again_and_again(tmp_path, trials=200, each=10, seed=1, longest=0.06)
    assert trials == 200
    assert shown > 1000


@pytest.mark.audit
def test_a_thousand_kills(tmp_path: Path) -> None:
    seen = kill_victims(tmp_path, count=1000, seed=1)
    assert len(seen.drawn) > 500
    assert len(seen.published) > 100
    assert len(seen.shown) > 100
