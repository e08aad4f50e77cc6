"""A ledger stays with the file that was opened: whatever becomes of its name, no other budget is spent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from tests.children import child
from tests.made import people

import conspectus as cs
from conspectus.privacy.events import ByRelation, ThresholdWatch
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger, LedgerError
from conspectus.privacy.ledger.reservation import Reservation

BOUND = {"neighbours": "replace", "unit": "row"}
HALF = Fraction(1, 2)
ACT = ThresholdWatch(epsilon=ByRelation(replace=HALF, add_remove=HALF))


def made(path: Path | str) -> Ledger:
    return Ledger.create(path, budget=Budget(epsilon=1.0), schema_fingerprint="f00", table="people", **BOUND)


def reserved(ledger: Ledger) -> Reservation:
    return ledger.reserve(Budget(epsilon=0.5), "a release", fingerprint="f00", **BOUND)


def spent_in_a_child(ledger: Ledger) -> bool:
    """Whether a forked process could spend."""
    process, read = child(lambda write: reserved(ledger).debit(ACT))
    os.close(read)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two folders with a ledger of the same name in each; we are in the first."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (there, here):
        folder.mkdir()
        monkeypatch.chdir(folder)
        made("people.ledger")
    return here, there


def test_a_relative_name_does_not_follow_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = folders(tmp_path, monkeypatch)
    ledger = Ledger.open("people.ledger")
    open_one = reserved(ledger)
    monkeypatch.chdir(there)
    open_one.debit(ACT)
    open_one.settle()
    assert spent_in_a_child(ledger)
    assert ledger.path == here / "people.ledger"
    assert (ledger.remaining < HALF, Ledger.open("people.ledger").spent) == (True, 0)
    (there / "people.ledger").unlink()
    assert ledger.spent == 1


def test_a_release_and_a_session_debit_the_ledger_that_was_opened(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, table = people()
    here, there = tmp_path / "here", tmp_path / "there"
    bound = {"budget": Budget(epsilon=1.0), "schema_fingerprint": schema.fingerprint, "table": "people", **BOUND}
    for folder in (there, here):
        folder.mkdir()
        monkeypatch.chdir(folder)
        ledger = Ledger.create("people.ledger", **bound)
    session = cs.open_session(table, epsilon=0.25, path="a.session", mechanism="perceptron", ledger=ledger)
    monkeypatch.chdir(there)
    cs.release(table, cs.marginals(schema, 1), epsilon=0.25, mechanism="laplace", ledger=ledger)
    session.ask("smoker")
    session.close()
    with cs.resume_session(here / "a.session", table) as session:
        assert session.remaining > 0
    assert Ledger.open(there / "people.ledger").spent == 0
    assert ledger.spent == HALF


def test_a_link_is_resolved_once(tmp_path: Path) -> None:
    first, second, link = tmp_path / "first", tmp_path / "second", tmp_path / "link"
    made(first)
    made(second)
    link.symlink_to(first)
    ledger = Ledger.open(link)
    link.unlink()
    link.symlink_to(second)
    reserved(ledger)
    assert (Ledger.open(first).spent, Ledger.open(second).spent) == (HALF, 0)


def test_a_ledger_made_through_a_link_is_where_the_link_led(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    ledger = made(link)
    assert ledger.path == tmp_path / "target"
    link.unlink()
    reserved(ledger)


def replaced_by_a_copy(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    copy.replace(path)


def removed(path: Path) -> None:
    path.unlink()


def removed_and_made_again(path: Path) -> None:
    path.unlink()
    made(path)


def written_over(path: Path) -> None:
    """Another ledger's bytes in the same file: the number of the file stays."""
    other = made(path.with_name("other")).path
    path.write_bytes(other.read_bytes())


def led_elsewhere(path: Path) -> None:
    """The folder becomes a link to one with another ledger."""
    folder, other = path.parent, path.parent.with_name("elsewhere")
    other.mkdir()
    made(other / path.name)
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(other)


def twice(path: Path) -> None:
    path.with_name("second name").hardlink_to(path)


@pytest.mark.parametrize(
    "change", [replaced_by_a_copy, removed, removed_and_made_again, written_over, led_elsewhere, twice]
)
def test_another_file_under_the_old_name_is_refused(tmp_path: Path, change: Callable[[Path], None]) -> None:
    (tmp_path / "folder").mkdir()
    ledger = made(tmp_path / "folder" / "people.ledger")
    reservation = reserved(ledger)
    change(ledger.path)
    before = ledger.path.read_bytes() if ledger.path.is_file() else b""
    for attempt in (
        lambda: reservation.debit(ACT),
        reservation.settle,
        lambda: reserved(ledger),
        lambda: ledger.spent,
        ledger.entries,
        lambda: Reservation(ledger, 1).debit(ACT),
    ):
        with pytest.raises(LedgerError, match=r"not the ledger any more|no ledger at|hard links"):
            attempt()
    assert not spent_in_a_child(ledger)
    assert (ledger.path.read_bytes() if ledger.path.is_file() else b"") == before


def test_a_copy_restored_under_an_open_ledger_is_refused_where_it_knows_less(tmp_path: Path) -> None:
    """Its bytes in the old file: the number is the same, and so are the terms; the lines that were seen are gone."""
    ledger = made(tmp_path / "ledger")
    earlier = ledger.path.read_bytes()
    Reservation(Ledger.open(ledger.path), reserved(Ledger.open(ledger.path)).number).debit(ACT)  # by somebody else
    assert ledger.spent == HALF
    later = ledger.path.read_bytes()
    ledger.path.write_bytes(earlier)
    with pytest.raises(LedgerError, match="not the ledger any more"):
        reserved(ledger)
    ledger.path.write_bytes(later)
    reserved(ledger)


def test_names_that_lead_nowhere_are_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    gone = tmp_path / "gone"
    gone.mkdir()
    for name in (loop, tmp_path, tmp_path / "nothing", "a\0b"):
        with pytest.raises(LedgerError):
            Ledger.open(name)
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(LedgerError, match="leads nowhere"):
        Ledger.open("people.ledger")


def test_a_table_does_not_follow_chdir_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = cs.Schema.from_dict({"name": "people", "columns": {"ill": {"type": "boolean"}}})
    for name, rows in (("there", 7), ("here", 3)):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        (tmp_path / name / "people.csv").write_text("ill\n" + "true\n" * rows)
    tables = [cs.open_table(source, schema) for source in ("people.csv", "SELECT ill FROM 'people.csv'")]
    monkeypatch.chdir(tmp_path / "there")
    for table in tables:
        assert sum(chunk.rows for chunk in table.chunks()) == 3
