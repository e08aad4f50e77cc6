"""The ledger: bound, exact, append-only; fifty processes never overspend; a kill at any moment never hides a draw."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from tests.made import people

import conspectus as cs
from conspectus.curator.curator import Curator
from conspectus.privacy import noise
from conspectus.privacy.accounting import BudgetExceeded, Filter, Unpriced, rho_of
from conspectus.privacy.events import (
    ByRelation,
    Event,
    ExponentialDraws,
    GaussianNoise,
    LaplaceNoise,
    Noise,
    RowTotal,
    ThresholdWatch,
)
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger, LedgerError, LedgerMismatch
from conspectus.privacy.ledger.reservation import Reservation
from conspectus.privacy.relation import Neighbours

FORK = multiprocessing.get_context("fork")
PURE = Budget(epsilon=1.0)
CONCENTRATED = Budget(epsilon=1.0, delta=1e-6)


def reach(bound: Fraction | int) -> ByRelation:
    return ByRelation(replace=Fraction(bound), add_remove=Fraction(bound))


def watch(epsilon: Fraction | float) -> ThresholdWatch:
    return ThresholdWatch(epsilon=reach(Fraction(epsilon)))


def make(path: Path, budget: Budget = PURE, neighbours: Neighbours = "replace") -> Ledger:
    return Ledger.create(
        path / "ledger", budget=budget, neighbours=neighbours, unit="row", schema_fingerprint="f00", table="adult"
    )


def reserve(ledger: Ledger, budget: Budget, **changes: object) -> Reservation:
    bound: dict[str, object] = {"fingerprint": "f00", "neighbours": "replace", "unit": "row", **changes}
    return ledger.reserve(budget, "a release", **bound)  # type: ignore[arg-type]


def test_a_release_reserves_debits_and_settles(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    reservation = reserve(ledger, Budget(epsilon=0.5))
    assert (ledger.spent, ledger.remaining) == (Fraction(1, 2), ledger.cap - Fraction(1, 2))
    reservation.debit(RowTotal())
    reservation.debit(watch(Fraction(1, 3)))
    assert ledger.spent == Fraction(1, 2)  # a crash now would have spent everything
    reservation.settle()
    assert ledger.spent == Fraction(1, 3)
    again = Ledger.open(tmp_path / "ledger")
    kinds = [(entry.kind, entry.reservation, entry.price, entry.label, entry.event) for entry in again.entries()]
    assert kinds == [
        ("reserve", 1, Fraction(1, 2), "a release", None),
        ("debit", 1, Fraction(0), "", RowTotal()),
        ("debit", 1, Fraction(1, 3), "", watch(Fraction(1, 3))),
        ("settle", 1, Fraction(1, 3), "", None),
    ]
    assert (again.table, again.unit, again.neighbours, again.budget) == ("adult", "row", "replace", PURE)


def test_the_cap_is_reached_exactly_and_never_passed(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    for _ in range(10):
        reservation = reserve(ledger, Budget(epsilon=0.1))  # ten times this float is a little more than 1
        reservation.debit(watch(0.1))
        reservation.settle()
    assert 1 < ledger.spent <= ledger.cap == 1 + Fraction(1, 2**52)
    with pytest.raises(BudgetExceeded, match="ask for less"):
        reserve(ledger, Budget(epsilon=1e-9))
    assert ledger.guarantee().epsilon >= ledger.spent  # type: ignore[operator]


def test_events_survive_and_are_priced_in_the_ledgers_currency(tmp_path: Path) -> None:
    ledger = make(tmp_path, CONCENTRATED)
    assert ledger.cap == Fraction(rho_of(1.0, 1e-6)) * (1 + Fraction(1, 2**52))
    laplace = LaplaceNoise(l1=reach(2), l2_squared=reach(2), linf=reach(1), scale=Fraction(90))
    acts: list[tuple[Event, Fraction]] = [
        (laplace, Fraction(1, 8100)),
        (GaussianNoise(l2_squared=reach(2), sigma_squared=Fraction(1000)), Fraction(1, 1000)),
        (ExponentialDraws(range=reach(Fraction(1, 50)), draws=4), Fraction(1, 5000)),
        (watch(Fraction(1, 40)), Fraction(1, 3200)),
    ]
    reservation = reserve(ledger, Budget(epsilon=0.5, delta=1e-6))
    for event, _ in acts:
        reservation.debit(event)
    reservation.settle()
    debits = [(entry.event, entry.price) for entry in ledger.entries() if entry.kind == "debit"]
    assert debits == acts
    assert ledger.spent == sum(price for _, price in acts)


@pytest.mark.parametrize(
    ("asked", "price"),
    [
        (Budget(epsilon=0.125), Fraction(1, 128)),
        (Budget(rho=0.0625), Fraction(1, 16)),
        (Budget(epsilon=0.5, delta=1e-6), Fraction(rho_of(0.5, 1e-6))),
    ],
)
def test_budgets_are_changed_into_rho(tmp_path: Path, asked: Budget, price: Fraction) -> None:
    ledger = make(tmp_path, Budget(rho=1.0))
    reserve(ledger, asked)
    assert ledger.spent == price


def test_a_declared_list_is_reserved_at_its_own_price(tmp_path: Path) -> None:
    ledger = make(tmp_path, CONCENTRATED)
    reservation = reserve(ledger, CONCENTRATED, events=(watch(0.125),))
    assert ledger.spent == Fraction(1, 128)
    reservation.debit(watch(0.125))
    with pytest.raises(BudgetExceeded):
        reservation.debit(watch(0.125))


def test_a_deferred_reservation_reserves_with_its_first_act(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    reservation = reserve(ledger, Budget(epsilon=0.75), deferred=True)
    assert ledger.entries() == ()
    with pytest.raises(LedgerError, match="nothing is reserved yet"):
        reservation.number  # noqa: B018
    reservation.settle()  # nothing was reserved, and nothing is to be closed
    assert ledger.entries() == ()
    with pytest.raises(Unpriced):
        reservation.debit(GaussianNoise(l2_squared=reach(1), sigma_squared=Fraction(1)))
    assert ledger.entries() == ()  # an act without a price reserves nothing
    reservation.debit(watch(0.25))
    assert (ledger.spent, reservation.number) == (Fraction(3, 4), 1)
    reservation.debit(watch(0.25))
    reservation.settle()
    assert [entry.kind for entry in ledger.entries()] == ["reserve", "debit", "debit", "settle"]
    assert ledger.spent == Fraction(1, 2)


def test_a_deferred_reservation_is_refused_at_once_and_again_with_its_first_act(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    with pytest.raises(LedgerMismatch):
        reserve(ledger, PURE, unit="person", deferred=True)
    late = reserve(ledger, Budget(epsilon=0.75), deferred=True)
    reserve(ledger, Budget(epsilon=0.5))  # somebody else is faster
    with pytest.raises(BudgetExceeded, match="left"):
        late.debit(watch(0.25))
    assert [entry.kind for entry in ledger.entries()] == ["reserve"]
    with pytest.raises(BudgetExceeded):
        reserve(ledger, Budget(epsilon=0.75), deferred=True)


class Recorder(Filter):
    """A filter and a debit in one that notes what it was asked, and refuses to check or to write on demand."""

    def __init__(self, refuse: str = "") -> None:
        super().__init__("pure", Fraction(10), Neighbours.REPLACE)
        self.asked: list[str] = []
        self.refuse = refuse

    def check(self, event: Event) -> None:
        self._note("check")

    def admit(self, event: Event) -> None:
        self._note("admit")
        super().admit(event)

    def debit(self, event: Event) -> None:
        self._note("debit")

    def _note(self, step: str) -> None:
        self.asked.append(step)
        if step == self.refuse:
            raise BudgetExceeded("refused")


@pytest.mark.parametrize("refused", ["check", "admit", "debit", ""])
def test_every_act_is_checked_admitted_and_debited_before_its_noise_is_drawn(
    refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, table = people(rows=20)
    recorder = Recorder(refused)
    drawn = noise.discrete_laplace
    monkeypatch.setattr(noise, "discrete_laplace", lambda *given: (recorder.asked.append("draw"), drawn(*given))[1])
    curator = Curator(table, recorder, neighbours=Neighbours.REPLACE, debit=recorder)
    order = ["check", "admit", "debit", "draw"]
    if refused:
        with pytest.raises(BudgetExceeded, match="refused"):
            curator.measure(cs.marginals(schema, 1), Noise("laplace", 4.0))
        assert recorder.asked == order[: order.index(refused) + 1]
    else:
        curator.measure(cs.marginals(schema, 1), Noise("laplace", 4.0))
        assert recorder.asked == order


def refusals() -> list[tuple[str, type[ValueError], Callable[[Ledger, Reservation], object]]]:
    return [
        ("too much", BudgetExceeded, lambda ledger, _: reserve(ledger, Budget(epsilon=0.9))),
        ("delta on pure", LedgerMismatch, lambda ledger, _: reserve(ledger, Budget(epsilon=0.1, delta=1e-9))),
        ("rho on pure", LedgerMismatch, lambda ledger, _: reserve(ledger, Budget(rho=0.1))),
        ("relation", LedgerMismatch, lambda ledger, _: reserve(ledger, PURE, neighbours="add-remove")),
        ("unit", LedgerMismatch, lambda ledger, _: reserve(ledger, PURE, unit="patient (at most 3 rows each)")),
        ("schema", LedgerMismatch, lambda ledger, _: reserve(ledger, PURE, fingerprint="bad")),
        ("act beyond", BudgetExceeded, lambda _, open_one: open_one.debit(watch(0.51))),
        (
            "act without price",
            Unpriced,
            lambda _, open_one: open_one.debit(GaussianNoise(l2_squared=reach(1), sigma_squared=Fraction(9))),
        ),
        ("no such reservation", LedgerError, lambda ledger, _: ledger.resume(99)),
    ]


@pytest.mark.parametrize(("name", "error", "request_"), refusals(), ids=[name for name, *_ in refusals()])
def test_refused_requests_leave_the_file_as_it_was(
    tmp_path: Path, name: str, error: type[ValueError], request_: Callable[[Ledger, Reservation], object]
) -> None:
    ledger = make(tmp_path)
    reservation = reserve(ledger, Budget(epsilon=0.5))
    before = ledger.path.read_bytes()
    with pytest.raises(error):
        request_(ledger, reservation)
    assert ledger.path.read_bytes() == before
    leftover = tmp_path / "ledger-journal"
    assert not leftover.exists() or leftover.stat().st_size == 0


def test_an_act_without_a_bound_under_the_relation_is_refused(tmp_path: Path) -> None:
    ledger = make(tmp_path, neighbours="add-remove")
    reservation = reserve(ledger, Budget(epsilon=0.5), neighbours="add-remove")
    with pytest.raises(Unpriced):
        reservation.debit(RowTotal())
    one_sided = ThresholdWatch(epsilon=ByRelation(replace=Fraction(1, 9), add_remove=None))
    with pytest.raises(Unpriced):
        reservation.debit(one_sided)
    assert len(ledger.entries()) == 1


def test_settled_reservations_are_closed_and_open_ones_can_be_resumed(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    reservation = reserve(ledger, Budget(epsilon=0.5))
    reservation.debit(watch(0.25))
    resumed = Ledger.open(ledger.path).resume(reservation.number)
    with pytest.raises(BudgetExceeded):
        resumed.debit(watch(0.375))
    resumed.debit(watch(0.25))
    resumed.settle()
    for late in (reservation.settle, lambda: reservation.debit(watch(0.0)), lambda: ledger.resume(reservation.number)):
        with pytest.raises(LedgerError, match="settled"):
            late()


def test_the_guarantee_is_the_cap(tmp_path: Path) -> None:
    (tmp_path / "pure").mkdir()
    promise = make(tmp_path / "pure").guarantee()
    assert (promise.epsilon, promise.delta, promise.rho) == (1 + 2.0**-52, 0.0, None)
    promise = make(tmp_path, CONCENTRATED, "add-remove").guarantee()
    assert (promise.delta, promise.neighbours) == (1e-6, "add-remove")
    assert promise.epsilon == pytest.approx(1.0, rel=1e-12)
    assert promise.rho == pytest.approx(rho_of(1.0, 1e-6), rel=1e-15)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET price = '0'",
        "DELETE FROM entries",
        "INSERT OR REPLACE INTO entries SELECT id, kind, reservation, '0', '0', '0', '0', content, made FROM entries",
        "UPDATE terms SET cap = '1000'",
        "DELETE FROM terms",
        "INSERT OR REPLACE INTO terms SELECT * FROM terms",
    ],
)
def test_entries_can_only_be_added(tmp_path: Path, statement: str) -> None:
    ledger = make(tmp_path)
    reserve(ledger, Budget(epsilon=0.5))
    connection = sqlite3.connect(ledger.path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()
    assert Ledger.open(ledger.path).spent == Fraction(1, 2)


def test_files_that_are_no_ledger_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="make one first"):
        Ledger.open(tmp_path / "nothing")
    text = tmp_path / "text"
    text.write_text("epsilon = 3\n" * 400)
    with pytest.raises(LedgerError):
        Ledger.open(text)
    with pytest.raises(LedgerError):
        Ledger.create(text, budget=PURE, neighbours="replace", unit="row", schema_fingerprint="f00", table="t")
    assert text.read_text() == "epsilon = 3\n" * 400
    other = sqlite3.connect(tmp_path / "other")
    other.execute("CREATE TABLE terms (cap TEXT)")
    other.commit()
    other.close()
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger.open(tmp_path / "other")
    ledger = make(tmp_path)
    with pytest.raises(LedgerError, match="already exists"):
        make(tmp_path)
    content = bytearray(ledger.path.read_bytes())
    (tmp_path / "short").write_bytes(content[: len(content) // 2])
    content[5000:9000] = b"\x00" * 4000
    (tmp_path / "damaged").write_bytes(content)
    for name in ("short", "damaged"):
        with pytest.raises(LedgerError):
            Ledger.open(tmp_path / name).entries()


def test_long_running_totals_stay_short_and_never_shrink(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    reservation = reserve(ledger, PURE)
    acts = [watch(Fraction(1, 2**61 + 2 * k + 1)) for k in range(100)]
    for event in acts:
        reservation.debit(event)
    reservation.settle()
    exact = sum(event.epsilon.replace or 0 for event in acts)
    assert exact <= ledger.spent < exact + Fraction(1, 2**4000)
    assert ledger.spent.denominator.bit_length() < 4200


def _spend(path: Path, results: multiprocessing.Queue[tuple[int, int]]) -> None:
    ledger = Ledger.open(path)
    granted = refused = 0
    for _ in range(3):
        try:
            reservation = reserve(ledger, Budget(epsilon=1 / 64))
        except BudgetExceeded:
            refused += 1
            continue
        granted += 1
        reservation.debit(watch(1 / 64))
        reservation.settle()
    results.put((granted, refused))


def test_fifty_processes_at_once_never_overspend(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    results: multiprocessing.Queue[tuple[int, int]] = FORK.Queue()
    workers = [FORK.Process(target=_spend, args=(ledger.path, results)) for _ in range(50)]
    for worker in workers:
        worker.start()
    counts = [results.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join(timeout=600)
        assert worker.exitcode == 0
    assert sum(granted for granted, _ in counts) == 64
    assert sum(refused for _, refused in counts) == 86
    assert ledger.spent == 1
    debits = [entry for entry in ledger.entries() if entry.kind == "debit"]
    assert len(debits) == 64


def _release_for_ever(path: Path, outputs: Path, ready: int, owner: int) -> None:
    """What the curator does, in a hurry: reserve, then debit before every output, then settle."""
    os.write(ready, b"!")
    ledger = Ledger.open(path)
    with outputs.open("ab", buffering=0) as published:
        while True:
            reservation = reserve(ledger, Budget(epsilon=2.0**-20))
            for act in range(2):
                reservation.debit(ThresholdWatch(epsilon=reach(Fraction(1, 2**30 + owner))))
                published.write(f"{reservation.number} {act}\n".encode())
            reservation.settle()


def test_two_hundred_kills_never_hide_a_draw_nor_damage_the_ledger(tmp_path: Path) -> None:
    ledger = make(tmp_path, Budget(epsilon=8.0))
    outputs = tmp_path / "outputs"
    outputs.touch()
    moments = random.Random(4)
    trials = 200
    for first in range(0, trials, 4):
        reader, writer = os.pipe()
        before = outputs.stat().st_size
        victims = [
            FORK.Process(target=_release_for_ever, args=(ledger.path, outputs, writer, first + number))
            for number in range(4)
        ]
        for victim in victims:
            victim.start()
        for _ in victims:
            os.read(reader, 1)
        for victim in victims:
            time.sleep(moments.uniform(0.0, 0.05))
            until = time.monotonic() + 600
            while victim is victims[-1] and outputs.stat().st_size == before and time.monotonic() < until:
                time.sleep(0.001)  # the last one lives until something was published, however busy the machine is
            assert victim.pid is not None
            os.kill(victim.pid, signal.SIGKILL)
        for victim in victims:
            victim.join(timeout=600)
            assert victim.exitcode == -signal.SIGKILL
        os.close(reader)
        os.close(writer)
        assert Ledger.open(ledger.path).spent <= ledger.cap  # it opens, and is whole
    seen = ledger.entries()
    debited = Counter(entry.reservation for entry in seen if entry.kind == "debit")
    published = Counter(int(line.split()[0]) for line in outputs.read_text().splitlines())
    assert published <= debited  # a dead process debits no more, so no debit came late
    assert len(published) > 10  # the kills came late enough to matter
    open_ones = {entry.number for entry in seen if entry.kind == "reserve"}
    open_ones -= {entry.reservation for entry in seen if entry.kind == "settle"}
    assert open_ones  # and early enough
    settled = sum((entry.price for entry in seen if entry.kind == "settle"), Fraction(0))
    assert ledger.spent == settled + len(open_ones) * Fraction(1, 2**20)
    assert ledger.spent <= ledger.cap


def test_an_output_before_its_debit_would_be_found(tmp_path: Path) -> None:
    """The broken twin of the release above: it publishes first, and dies before the debit."""
    ledger = make(tmp_path)
    reservation = reserve(ledger, Budget(epsilon=0.5))
    child = FORK.Process(target=lambda: ((tmp_path / "outputs").write_text("1 0\n"), os.kill(os.getpid(), 9)))
    child.start()
    child.join(timeout=600)
    debits = [entry for entry in ledger.entries() if entry.kind == "debit" and entry.reservation == reservation.number]
    assert len(debits) < len((tmp_path / "outputs").read_text().splitlines())


def test_the_file_holds_nothing_but_its_terms_and_entries(tmp_path: Path) -> None:
    ledger = make(tmp_path)
    reserve(ledger, Budget(epsilon=0.5)).debit(watch(0.25))
    connection = sqlite3.connect(ledger.path)
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {"terms", "entries", "sqlite_sequence"}
    [(content,)] = connection.execute("SELECT content FROM entries WHERE kind = 'debit'")
    connection.close()
    assert json.loads(content)["event"]["epsilon"] == {"replace": "1/4", "add_remove": "1/4"}
