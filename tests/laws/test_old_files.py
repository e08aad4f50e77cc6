"""Files written by version 0.1 go on loading, and go on giving the same answers to the bit.

Intervals that were too narrow have grown since: they may be wider than they were, and never narrower.
"""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

import conspectus as cs
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.queries.builders.marginals import marginals

FILES = Path(__file__).parent.parent / "files" / "v0.1"
EXPECTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))
RELEASES = sorted(path.stem for path in FILES.glob("*.conspectus"))
SESSIONS = sorted(EXPECTED["sessions"])
WORKLOADS = json.loads((FILES / "workloads.json").read_text(encoding="utf-8"))


def question_of(text):
    """A question as the list has it: a predicate, or the JSON of a workload."""
    return cs.Workload.from_json(json.loads(text)) if text.startswith("{") else text


def said(release, question, confidence):
    """An answer as the list has it: its numbers, or the refusal in words."""
    try:
        answer = release.ask(question, confidence=confidence)
    except ValueError as refusal:
        return f"{type(refusal).__name__}: {refusal}"
    return [answer.fraction, answer.count, answer.low, answer.high, answer.basis]


CERTAIN = "age >= 18"
"""By the schema of these files every row satisfies it."""


def assert_as_before(now, before, question=None, *, private=False):
    """The same answer to the bit. Its interval may have grown, where it was too narrow; a refusal may say more.

    Of a private number of rows it may be shorter, as one of a ratio. What the schema decides had noise before. And an
    answer that had no interval may have got one around it.
    """
    if isinstance(before, str):
        assert now.startswith(before)
        return
    if question == CERTAIN:
        assert [now[0], *now[2:]] == [1, 1, 1, "measured"]
        return
    if before[4] == "unguaranteed":
        assert now[:2] == pytest.approx(before[:2], rel=1e-12)
        assert now[4] == "unguaranteed" or now[2] <= now[0] <= now[3]
        return
    assert [now[0], now[1], now[4]] == [before[0], before[1], before[4]]
    grown = now[2] <= before[2] and before[3] <= now[3]
    shorter = private and now[2] <= now[0] <= now[3] < now[2] + before[3] - before[2]
    assert (now[2], now[3]) == (before[2], before[3]) or grown or shorter


def table():
    return cs.open_table(str(FILES / "people.csv"), cs.Schema.load(FILES / "people.toml"))


def copied(tmp_path, *names):
    """Files that change when they are used, where they may."""
    return [Path(shutil.copy(FILES / name, tmp_path / name)) for name in names]


def test_every_file_is_listed_with_its_answers():
    assert {*RELEASES, "ledger", "sessions"} == set(EXPECTED)
    assert len(RELEASES) == 17


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_answers_as_it_did(name):
    release, expected = cs.load(FILES / f"{name}.conspectus"), EXPECTED[name]
    assert release.answers[:8].tolist() == expected["answers"]
    assert str(release.guarantee) == expected["guarantee"]
    assert release.total.to_json() == expected["total"]
    assert release.questions == expected["questions"]
    for text, (usual, half) in expected["asked"].items():
        question = question_of(text)
        assert_as_before(said(release, question, 0.95), usual, question, private=not release.total.exact)
        now = said(release, question, 0.5)
        moved = not isinstance(half, str) and not release.total.exact and now[0] != half[0]
        if moved and question != CERTAIN:
            # A fitted count beyond its interval is at the end of it, as in a SELECT, however wide that of its share is.
            select = f"SELECT COUNT(*) AS n FROM people WHERE {question}"
            counted = release.query(select, confidence=0.5).to_pylist()[0]
            assert min(abs(now[1] - counted[end]) for end in ("n_low", "n_high")) <= 0.5
            assert abs(now[1] - counted["n"]) <= 0.5  # a SELECT counts whole rows
            now[:2] = half[:2]
        assert_as_before(now, half, question, private=not release.total.exact)


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_written_again_as_it_was_read(tmp_path, name):
    old = FILES / f"{name}.conspectus"
    cs.load(old).save(tmp_path / "again.conspectus")
    assert (tmp_path / "again.conspectus").read_bytes() == old.read_bytes()


def test_a_ledger_stands_where_it_stood_and_goes_on(tmp_path):
    (path,) = copied(tmp_path, "people.ledger")
    ledger, expected = Ledger.open(path), EXPECTED["ledger"]
    for name in ("cap", "spent", "remaining", "delta_remaining"):
        assert str(getattr(ledger, name)) == expected[name]
    assert str(ledger.guarantee()) == expected["guarantee"]
    lines = [[e.number, str(e.kind), e.reservation, str(e.price), e.label, str(e.delta)] for e in ledger.entries()]
    assert lines == expected["entries"]
    opened = table()
    release = cs.release(
        opened, marginals(opened.schema, 1), epsilon=0.25, delta=1e-7, mechanism="gaussian", ledger=ledger
    )
    assert release.guarantee.private
    assert [entry.kind for entry in ledger.entries()[len(lines) :]] == ["reserve", "debit", "debit", "settle"]
    before = ledger.spent
    ledger.resume(lines[-1][0]).settle()  # it had drawn nothing: all that it reserved comes back
    assert ledger.spent == before - Fraction(lines[-1][3])


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_is_resumed_with_the_answers_that_it_gave(tmp_path, name):
    path, ledger = copied(tmp_path, f"{name}.session", f"{name}.session.ledger")
    expected = EXPECTED["sessions"][name]
    with cs.resume_session(path, table(), ledger=ledger) as session:
        assert (session.spent, session.remaining) == (expected["spent"], expected["remaining"])
        assert str(session.guarantee).partition(". Warning: epsilon = 20 is above 10")[0] == expected["guarantee"]
        for text, numbers in expected["asked"].items():
            answer = session.ask(question_of(text))
            assert_as_before([answer.fraction, answer.count, answer.low, answer.high, answer.basis], numbers)
            assert (answer.repeated, answer.cost) == (True, 0.0)
        assert session.spent == expected["spent"]
        new = session.ask("region = 'east' AND age < 30 AND smoker AND NOT ill")
        assert not new.repeated
        assert session.asked == len(expected["asked"]) + 1


@pytest.mark.parametrize("kind", sorted(WORKLOADS))
def test_a_workload_is_read_and_written_again(kind):
    workload = cs.Workload.from_json(WORKLOADS[kind])
    assert kind in {block["kind"] for block in WORKLOADS[kind]["blocks"]}
    assert len(workload) > 0
    assert workload.to_json() == WORKLOADS[kind]
