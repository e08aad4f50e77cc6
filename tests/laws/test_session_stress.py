"""Eight processes on one session, and analysts that are killed: one answer to a question, and nothing overspent."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.children import child
from tests.crashing import QUESTIONS, agree, analyst, heard, kill_again_and_again, session_at
from tests.standin import ENTRY

from conspectus.mechanisms.registry import ONLINE


@pytest.fixture(autouse=True)
def standin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ONLINE, "standin", ENTRY)


def test_eight_processes_get_one_answer_each(tmp_path: Path) -> None:
    path = tmp_path / "shared.session"
    with session_at(path) as session:
        session.ask(QUESTIONS[0])
    orders = [random.Random(number).sample(range(len(QUESTIONS)), 15) for number in range(8)]
    children = [child(lambda write, order=order: analyst(path, order, write)) for order in orders]
    said = [heard(read) for _, read in children]
    assert [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process, _ in children] == [0] * 8
    assert [[number for number, _ in answers] for answers in said] == orders
    shown: dict[int, float] = {}
    for number, fraction in (answer for answers in said for answer in answers):
        assert shown.setdefault(number, fraction) == fraction
    assert 0 < agree(path, shown) <= 4096


def test_a_kill_at_any_moment_leaves_agreement(tmp_path: Path) -> None:
    shown, _ = kill_again_and_again(tmp_path, trials=6, each=3, seed=5, longest=0.05)
    assert shown > 0
