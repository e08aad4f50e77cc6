"""Two hundred analysts killed at random moments: ledger, session file and what was shown agree every time."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crashing import kill_again_and_again
from tests.standin import ENTRY

from conspectus.mechanisms.registry import ONLINE


@pytest.mark.audit
def test_two_hundred_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ONLINE, "standin", ENTRY)
    shown, trials = kill_again_and_again(tmp_path, trials=200, each=10, seed=1, longest=0.06)
    assert trials == 200
    assert shown > 1000
