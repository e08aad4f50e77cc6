"""Ledgers that set a share of their δ aside: never more than promised in either part, whoever asks, races or dies."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.made import people

import conspectus as cs
from conspectus.audit.ledgers import ForgottenDelta
from conspectus.curator.acts import keys_act
from conspectus.curator.curator import Curator
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.stable_histogram import threshold
from conspectus.privacy.accounting import BudgetExceeded, epsilon_of, price_approximate, rho_of
from conspectus.privacy.events import ByRelation, Event, GaussianNoise, StableKeys, ThresholdWatch
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger, LedgerError, LedgerMismatch
from conspectus.privacy.ledger.reservation import Reservation
from conspectus.privacy.prices import cost_of
from conspectus.privacy.relation import Neighbours

FORK = multiprocessing.get_context("fork")
PROMISE = Budget(epsilon=2.0, delta=1e-6)


def make(path: Path, *, kind: type[Ledger] = Ledger, neighbours: Neighbours = "replace", aside: float = 0.5) -> Ledger:
    bound = {"unit": "row", "schema_fingerprint": "f00", "table": "t"}
    return kind.create(path, budget=PROMISE, neighbours=neighbours, aside=aside, **bound)


def reserve(ledger: Ledger, *events: Event, budget: Budget = PROMISE) -> Reservation:
    bound = {"fingerprint": "f00", "neighbours": ledger.neighbours, "unit": "row"}
    return ledger.reserve(budget, "a release", events=events or None, **bound)  # type: ignore[arg-type]


def keys(delta: float, *, scale: float = 40.0, rows: int = 1) -> StableKeys:
    return keys_act(scale, threshold(scale, rows, delta), max_rows=rows)


def both(bound: Fraction) -> ByRelation:
    return ByRelation(replace=bound, add_remove=bound)


def promised(ledger: Ledger) -> tuple[Fraction, Fraction]:
    """(ρ, δ) that the acts may have in all, from the promise alone: what is set aside, and ρ at the rest."""
    guarantee = ledger.guarantee()
    assert guarantee.epsilon is not None
    assert guarantee.epsilon <= 2 * (1 + 1e-9)
    assert guarantee.delta == 1e-6
    left_over = 1e-6 - guarantee.missing
    return Fraction(rho_of(2.0, left_over)) * (1 + Fraction(1, 2**40)), Fraction(guarantee.missing)


def debited(ledger: Ledger) -> tuple[Fraction, float]:
    """(ρ, δ) of all acts in the file, priced here from the theorems."""
    rho, deltas = Fraction(0), []
    for entry in ledger.entries():
        act, relation = entry.event, ledger.neighbours
        if isinstance(act, StableKeys):
            squares = act.rows * act.rows * (2 if relation == "replace" else 1)
            rho += squares / (2 * act.scale**2)
            p = math.exp(-1 / float(act.scale))
            deltas.append(act.rows * p ** (act.threshold - act.rows) / (1 + p))
        elif isinstance(act, GaussianNoise):
            rho += Fraction(act.l2_squared.under(relation) or 0) / (2 * act.sigma_squared)
        elif isinstance(act, ThresholdWatch):
            rho += Fraction(act.epsilon.under(relation) or 0) ** 2 / 2
    return rho, math.fsum(deltas)


def keeps(ledger: Ledger) -> bool:
    """Whether what was done is within what is promised, in both parts."""
    (rho, delta), (cap, aside) = debited(ledger), promised(ledger)
    return rho <= cap and delta <= float(aside) * (1 + 1e-9)


# Random sequences of acts.

acts = st.one_of(
    st.builds(
        lambda delta, scale, rows: keys(delta, scale=scale, rows=rows),
        st.sampled_from([1e-9, 3e-8, 1e-7, 2.5e-7, 5e-7, 1e-6]),
        st.sampled_from([5.0, 20.0, 400.0]),
        st.integers(1, 3),
    ),
    st.builds(
        lambda square: GaussianNoise(l2_squared=both(Fraction(2)), sigma_squared=Fraction(square)),
        st.sampled_from([40, 1000]),
    ),
    st.builds(lambda share: ThresholdWatch(epsilon=both(Fraction(1, share))), st.integers(4, 50)),
)


@dataclass
class Plan:
    """A release of a random sequence: what it declares, what it tries to do, whether it settles or dies."""

    declared: list[Event]
    tried: list[int]
    settled: bool


plans = st.builds(
    Plan,
    declared=st.lists(acts, min_size=1, max_size=3),
    tried=st.lists(st.integers(0, 2), max_size=4),
    settled=st.booleans(),
)


def play(ledger: Ledger, sequence: list[Plan]) -> Iterator[tuple[str, bool]]:
    """Play it, one transaction after the other; what was asked, and whether it was granted."""
    for plan in sequence:
        try:
            reservation = reserve(ledger, *plan.declared)
        except BudgetExceeded:
            yield "reserve", False
            continue
        yield "reserve", True
        for number in plan.tried:
            try:
                reservation.debit(plan.declared[number % len(plan.declared)])
            except BudgetExceeded:
                yield "debit", False
                continue
            yield "debit", True
        if plan.settled:
            reservation.settle()
            yield "settle", True


@settings(max_examples=25, deadline=None)
@given(
    sequence=st.lists(plans, max_size=6),
    neighbours=st.sampled_from(Neighbours),
    aside=st.sampled_from([0.5, 0.1, 0.9, 1 / 3]),
)
def test_no_sequence_of_acts_passes_either_part(sequence: list[Plan], neighbours: Neighbours, aside: float) -> None:
    with TemporaryDirectory() as place:
        ledger = make(Path(place) / "ledger", neighbours=neighbours, aside=aside)
        before, file = ledger.spending(), ledger.path.read_bytes()
        for what, granted in play(ledger, sequence):
            after = ledger.spending()
            assert keeps(ledger)
            assert after.price <= ledger.cap
            assert after.delta <= ledger.delta_cap
            rho, delta = debited(ledger)
            assert rho <= after.price  # open reservations count as a whole
            assert delta <= float(after.delta) * (1 + 1e-9)
            if what == "debit":
                assert after == before  # it was reserved
            if not granted:
                assert (after, ledger.path.read_bytes()) == (before, file)
            before, file = after, ledger.path.read_bytes()
        assert Ledger.open(ledger.path).spending() == before


def test_a_ledger_that_forgets_the_delta_is_found_out(tmp_path: Path) -> None:
    """The same measure refutes the broken twin, and the view it allows is not (ε, δ): exact, no sampling."""
    act = keys(1e-7)
    _, delta = price_approximate(act, "replace")
    for kind, honest in ((Ledger, True), (ForgottenDelta, False)):
        ledger = make(tmp_path / kind.__name__, kind=kind)
        sequence = [Plan([act], [0], settled=True) for _ in range(15)]
        times = sum(granted for what, granted in play(ledger, sequence) if what == "debit")
        assert keeps(ledger) is honest
        # A record that one unit has alone is seen with this probability, and on the other table never.
        seen = 1 - (1 - float(delta) * (1 - 1e-9)) ** times
        assert (seen <= 1e-6) is honest
        assert (times == 15) is not honest


# The promise.


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("aside", [0.5, 1e-3, 0.999, 1 - 2**-50])
def test_the_guarantee_states_both(tmp_path: Path, neighbours: Neighbours, aside: float) -> None:
    ledger = make(tmp_path / "ledger", neighbours=neighbours, aside=aside)
    promise = ledger.guarantee()
    assert ledger.delta_cap == Fraction(1e-6 * aside) == Fraction(promise.missing)
    assert (promise.delta, promise.neighbours) == (1e-6, neighbours)
    assert promise.epsilon == pytest.approx(2.0, rel=1e-9)
    assert promise.rho is not None
    left_over = Fraction(1e-6) - ledger.delta_cap
    assert epsilon_of(promise.rho, float(left_over) * (1 - 1e-15)) <= 2 * (1 + 1e-9)
    assert "-approximate " in str(promise)
    assert ledger.cap < make(tmp_path / "other", aside=0.0).cap
    assert "approximate" not in str(Ledger.open(tmp_path / "other").guarantee())


@pytest.mark.parametrize(
    ("budget", "aside", "said"),
    [
        (PROMISE, 1.0, "from 0 to below 1"),
        (PROMISE, -0.5, "from 0 to below 1"),
        (PROMISE, math.nan, "from 0 to below 1"),
        (PROMISE, True, "from 0 to below 1"),
        (PROMISE, "half", "from 0 to below 1"),
        (Budget(epsilon=1.0), 0.5, "a delta above 0"),
        (Budget(rho=1.0), 0.5, "a delta above 0"),
        (Budget(rho=1.0, delta=1e-6), 0.5, "a delta above 0"),
        (Budget(epsilon=1.0, delta=1e-300), 1e-30, "try aside"),
    ],
)
def test_shares_that_are_none_are_refused(tmp_path: Path, budget: Budget, aside: float, said: str) -> None:
    bound = {"unit": "row", "schema_fingerprint": "f00", "table": "t"}
    with pytest.raises(LedgerError, match=said):
        Ledger.create(tmp_path / "ledger", budget=budget, neighbours="replace", aside=aside, **bound)
    assert not (tmp_path / "ledger").exists()


def test_a_ledger_without_a_share_says_how_to_have_one(tmp_path: Path) -> None:
    ledger = make(tmp_path / "ledger", aside=0.0)
    before = ledger.path.read_bytes()
    with pytest.raises(LedgerMismatch, match=r"ledger init --aside 0\.5"):
        reserve(ledger, keys(1e-9))
    assert ledger.path.read_bytes() == before
    with pytest.raises(LedgerMismatch, match=r"ledger init --aside 0\.5"):
        reserve(ledger).debit(keys(1e-9))


def test_acts_beyond_what_was_reserved_are_refused_in_either_part(tmp_path: Path) -> None:
    ledger = make(tmp_path / "ledger")
    small, large = keys(1e-8), keys(1e-7)
    whole = reserve(ledger, budget=Budget(epsilon=0.5, delta=1e-6))  # a whole budget reserves no δ of acts
    with pytest.raises(BudgetExceeded, match="reserve more"):
        whole.debit(small)
    declared = reserve(ledger, small, GaussianNoise(l2_squared=both(Fraction(1)), sigma_squared=Fraction(100)))
    with pytest.raises(BudgetExceeded, match="reserve more"):
        declared.debit(large)  # ρ would fit
    declared.debit(small)
    with pytest.raises(BudgetExceeded, match="reserve more"):
        declared.debit(small)
    with pytest.raises(BudgetExceeded, match="set aside for such acts: ask for a smaller delta"):
        reserve(ledger, *[large] * 6)
    with pytest.raises(BudgetExceeded, match="rho"):
        reserve(ledger, keys(1e-9, scale=1.0))


def test_settled_releases_give_back_the_delta_that_they_did_not_spend(tmp_path: Path) -> None:
    ledger = make(tmp_path / "ledger")
    act = keys(2e-7)
    cost = cost_of(act, "zcdp", "replace")
    reservation = reserve(ledger, act, act)
    assert ledger.delta_spent == 2 * cost.delta
    reservation.debit(act)
    assert ledger.delta_spent == 2 * cost.delta
    reservation.settle()
    assert (ledger.delta_spent, ledger.spent) == (cost.delta, cost.price)
    assert [entry.delta for entry in ledger.entries()] == [2 * cost.delta, cost.delta, cost.delta]
    assert ledger.delta_remaining == Fraction(5e-7) - cost.delta


# Processes.


def _race(path: Path, act: StableKeys, start: int, results: multiprocessing.Queue[bool]) -> None:
    ledger = Ledger.open(path)
    os.read(start, 1)
    try:
        reservation = reserve(ledger, act)
    except BudgetExceeded:
        results.put(False)
        return
    reservation.debit(act)
    results.put(True)


@pytest.mark.parametrize("processes", [2, 8])
def test_of_those_who_race_for_the_last_delta_one_wins(tmp_path: Path, processes: int) -> None:
    act = keys(4e-7)
    for turn in range(5):
        ledger = make(tmp_path / f"ledger {turn}")
        reserve(ledger, keys(9e-8)).debit(keys(9e-8))
        reader, writer = os.pipe()
        results: multiprocessing.Queue[bool] = FORK.Queue()
        racers = [FORK.Process(target=_race, args=(ledger.path, act, reader, results)) for _ in range(processes)]
        for racer in racers:
            racer.start()
        os.write(writer, b"!" * processes)
        granted = [results.get(timeout=600) for _ in racers]
        for racer in racers:
            racer.join(timeout=600)
        os.close(reader)
        os.close(writer)
        assert sum(granted) == 1
        assert keeps(ledger)
        assert ledger.delta_spent <= ledger.delta_cap


def _publish_for_ever(path: Path, outputs: Path, ready: int) -> None:
    """What a release does: reserve with the first act, debit before the draw, show, settle."""
    ledger, act = Ledger.open(path), keys(1e-12, scale=4000.0)
    with outputs.open("ab", buffering=0) as published:
        while True:
            reservation = reserve(ledger, act, act)
            for number in range(2):
                reservation.debit(act)
                published.write(f"{reservation.number} {number}\n".encode())
                os.write(ready, b"!")
            reservation.settle()


def test_kills_between_debit_and_draw_lose_delta_and_never_hide_it(tmp_path: Path) -> None:
    ledger = make(tmp_path / "ledger")
    outputs = tmp_path / "outputs"
    outputs.touch()
    moments = random.Random(9)
    for _ in range(12):
        reader, writer = os.pipe()
        victim = FORK.Process(target=_publish_for_ever, args=(ledger.path, outputs, writer))
        victim.start()
        os.read(reader, 1)
        time.sleep(moments.uniform(0.0, 0.1))
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        victim.join(timeout=600)
        assert victim.exitcode == -signal.SIGKILL
        os.close(reader)
        os.close(writer)
        assert Ledger.open(ledger.path).delta_spent <= ledger.delta_cap
    lines = ledger.entries()
    shown = Counter(int(line.split()[0]) for line in outputs.read_text().splitlines())
    written = Counter(line.reservation for line in lines if line.kind == "debit")
    assert shown <= written
    assert len(shown) >= 12
    each = cost_of(keys(1e-12, scale=4000.0), "zcdp", "replace").delta
    settled = {line.reservation for line in lines if line.kind == "settle"}
    dead = {line.number for line in lines if line.kind == "reserve"} - settled
    assert dead
    assert ledger.delta_spent == 2 * each * (len(settled) + len(dead))
    assert sum(shown.values()) * each <= ledger.delta_spent


def _die_before_the_sampler(ledger: Ledger, table: object) -> None:
    debit = Curator._debit

    def die(curator: Curator, event: Event) -> None:
        debit(curator, event)
        if isinstance(event, StableKeys):
            os.kill(os.getpid(), signal.SIGKILL)

    Curator._debit = die  # type: ignore[method-assign]
    publish(ledger, table)


def publish(ledger: Ledger, table: object, **changes: object) -> cs.Release:
    asked = cs.sparse([["a"], ["b"]])
    budget = {"epsilon": 1.0, "delta": 4e-7, **changes}
    return cs.release(table, asked, mechanism="stable-histogram", ledger=ledger, **budget)  # type: ignore[arg-type]


@pytest.fixture
def records() -> object:
    return cs.open_records(["a"] * 3000 + ["b"] * 2000 + ["rare", "rarer"])


def ledger_of(table: object, path: Path, *, aside: float = 0.5, neighbours: Neighbours = "replace") -> Ledger:
    schema = table.schema  # type: ignore[attr-defined]
    return Ledger.create(
        path,
        budget=PROMISE,
        neighbours=neighbours,
        unit=str(schema.unit),
        schema_fingerprint=schema.fingerprint,
        table=schema.name,
        aside=aside,
    )


def test_a_release_that_dies_between_debit_and_draw_has_spent_its_delta(tmp_path: Path, records: object) -> None:
    ledger = ledger_of(records, tmp_path / "ledger")
    child = FORK.Process(target=_die_before_the_sampler, args=(ledger, records))
    child.start()
    child.join(timeout=600)
    assert child.exitcode == -signal.SIGKILL
    kinds = [entry.kind for entry in ledger.entries()]
    assert kinds == ["reserve", "debit", "debit"]  # the number of rows, and the keys
    [act] = [entry for entry in ledger.entries() if isinstance(entry.event, StableKeys)]
    assert 0 < act.delta == ledger.delta_spent <= Fraction(2e-7)


# Releases.


@pytest.mark.parametrize("neighbours", Neighbours)
def test_keys_are_released_from_a_ledger(tmp_path: Path, records: object, neighbours: Neighbours) -> None:
    ledger = ledger_of(records, tmp_path / "ledger", neighbours=neighbours)
    release = publish(ledger, records, neighbours=neighbours)
    costs = [cost_of(event, "zcdp", neighbours) for event in release.events]
    assert ledger.spent == sum(cost.price for cost in costs)
    assert ledger.delta_spent == sum(cost.delta for cost in costs) > 0
    assert 0.999 * rho_of(1.0, 2e-7) <= float(ledger.spent) <= rho_of(1.0, 2e-7)
    held = release.guarantee
    assert (held.delta, held.neighbours) == (4e-7, neighbours)
    assert held.epsilon is not None
    assert held.epsilon <= 1.0
    assert held.rho is not None
    assert ledger.spent <= Fraction(held.rho)
    assert ledger.delta_spent <= Fraction(held.missing) <= Fraction(2e-7)
    assert "-approximate " in str(held)
    assert release.parameters["keys"] == 2  # each of two rare records is shown with a probability of 2e-7 at most
    release.save(tmp_path / "keys.conspectus")
    again = cs.load(tmp_path / "keys.conspectus")
    assert again.guarantee == held
    publish(ledger, records, neighbours=neighbours, delta=2e-7)
    with pytest.raises(NoMechanism, match="left aside for such acts: ask for a smaller delta"):
        publish(ledger, records, neighbours=neighbours, delta=9e-7)
    with pytest.raises(BudgetExceeded, match="rho"):
        publish(ledger, records, neighbours=neighbours, epsilon=1.9, delta=2e-7)
    assert len([entry for entry in ledger.entries() if entry.kind == "settle"]) == 2


@pytest.mark.parametrize("changed", [{"missing": 1e-9}, {"rho": 1e-6}, {"epsilon": 0.01}, {"delta": 2e-7}])
def test_a_stored_promise_that_its_acts_do_not_keep_is_refused(
    tmp_path: Path, records: object, changed: dict[str, float]
) -> None:
    release = publish(ledger_of(records, tmp_path / "ledger"), records)
    broken = replace(release.guarantee, **changed)  # type: ignore[arg-type]
    replace(release, guarantee=broken).save(tmp_path / "broken")
    with pytest.raises(ValueError, match="cost more than its guarantee"):
        cs.load(tmp_path / "broken")


@pytest.mark.parametrize("unit", [None, {"kind": "id", "column": "person", "max_rows": 2}])
def test_other_mechanisms_and_sessions_are_paid_as_before(tmp_path: Path, unit: dict[str, object] | None) -> None:
    schema, table = people(unit=unit)
    ledger = ledger_of(table, tmp_path / "ledger")
    budget = {"epsilon": 0.5, "delta": 1e-6}
    release = cs.release(table, cs.marginals(schema, 1), mechanism="gaussian", ledger=ledger, **budget)
    assert release.guarantee.missing == 0
    assert float(ledger.spent) == pytest.approx(rho_of(0.5, 1e-6), rel=1e-3)
    with cs.open_session(table, epsilon=0.5, delta=1e-6, ledger=ledger, path=tmp_path / "session") as session:
        session.ask("smoker")
    assert ledger.delta_spent == 0
    kept = cs.release(table, cs.marginals(schema, 2), mechanism="stable-histogram", ledger=ledger, **budget)
    assert 0 < ledger.delta_spent <= Fraction(5e-7)
    assert kept.guarantee.epsilon <= 0.5
    assert float(cost_of(kept.events[-1], "zcdp", "replace").price) <= rho_of(0.5, 5e-7)


# Files.

OLD = """
CREATE TABLE terms (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    currency TEXT NOT NULL, cap TEXT NOT NULL, budget TEXT NOT NULL, neighbours TEXT NOT NULL,
    unit TEXT NOT NULL, fingerprint TEXT NOT NULL, subject TEXT NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('reserve', 'debit', 'settle')),
    reservation INTEGER, price TEXT NOT NULL, total TEXT NOT NULL, content TEXT NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE INDEX by_reservation ON entries (reservation, id);
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
PRAGMA application_id = 0x436F6E73;
PRAGMA user_version = 1;
INSERT INTO terms VALUES (1, 'zcdp', '1/2', '{"epsilon": null, "delta": 0.0, "rho": 0.5}', 'replace', 'row', 'f00',
    'adult', '2026-01-02T03:04:05+00:00');
INSERT INTO entries VALUES (1, 'reserve', NULL, '1/4', '0', '{"label": "first"}', '2026-01-02T03:04:06+00:00');
INSERT INTO entries VALUES (2, 'debit', 1, '1/8', '1/8',
    '{"event": {"event": "threshold", "epsilon": {"replace": "1/2", "add_remove": "1/2"}}}',
    '2026-01-02T03:04:07+00:00');
INSERT INTO entries VALUES (3, 'settle', 1, '1/8', '1/8', '{}', '2026-01-02T03:04:08+00:00');
INSERT INTO entries VALUES (4, 'reserve', NULL, '1/16', '0', '{"label": "second"}', '2026-01-02T03:04:09+00:00');
"""


def test_a_file_of_the_older_form_goes_on(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "old")
    connection.executescript(OLD)
    connection.close()
    ledger = Ledger.open(tmp_path / "old")
    assert (ledger.spent, ledger.cap, ledger.delta_cap, ledger.delta_spent) == (Fraction(3, 16), Fraction(1, 2), 0, 0)
    assert [entry.delta for entry in ledger.entries()] == [0] * 4
    assert ledger.entries()[1].event == ThresholdWatch(epsilon=both(Fraction(1, 2)))
    assert str(ledger.guarantee()).startswith("0.5-zero-concentrated")
    second = ledger.resume(4)
    second.debit(ThresholdWatch(epsilon=both(Fraction(1, 4))), after=0)
    second.settle()
    third = reserve(ledger, ThresholdWatch(epsilon=both(Fraction(1, 2))))
    third.debit(ThresholdWatch(epsilon=both(Fraction(1, 2))))
    third.settle()
    assert Ledger.open(tmp_path / "old").spent == Fraction(1, 8) + Fraction(1, 32) + Fraction(1, 8)
    with pytest.raises(BudgetExceeded):
        reserve(ledger, budget=Budget(rho=0.25))
    before = ledger.path.read_bytes()
    with pytest.raises(LedgerMismatch, match="aside"):
        reserve(ledger, keys(1e-9))
    assert ledger.path.read_bytes() == before
    connection = sqlite3.connect(tmp_path / "old")
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()


@pytest.mark.parametrize("aside", ["1/100", "1", "-1/10000000", "half", "1/0"])
def test_a_file_that_sets_aside_what_it_does_not_have_is_refused(tmp_path: Path, aside: str) -> None:
    path = make(tmp_path / "ledger").path
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER terms_stay")
    connection.execute("UPDATE terms SET delta_cap = ?", (aside,))
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(path)


@pytest.mark.parametrize(
    "change", ["cap = '0'", "cap = '1e9'", "currency = '2'", "currency = 'pure'", "budget = '{\"epsilon\": 1e-3}'"]
)
def test_terms_that_contradict_each_other_are_refused(tmp_path: Path, change: str) -> None:
    """A cap of 0 once ended `ledger show` in a division, and any word was a currency."""
    path = make(tmp_path / "ledger", aside=0.0).path
    connection = sqlite3.connect(path)
    trigger = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'terms_stay'").fetchone()[0]
    connection.execute("DROP TRIGGER terms_stay")
    connection.execute(f"UPDATE terms SET {change}")
    connection.execute(trigger)
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(path)


def test_a_file_of_a_later_form_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "ledger").path
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    with pytest.raises(LedgerError, match="not a ledger that this version can read"):
        Ledger.open(path)


def _by_another_name(link: Path, said: multiprocessing.Queue[str]) -> None:
    try:
        reserve(Ledger.open(link), keys(1e-9))
        said.put("granted")
    except LedgerError as refused:
        said.put(str(refused))


def test_a_hard_link_to_a_ledger_is_refused_in_every_process(tmp_path: Path) -> None:
    """What an interrupted transaction leaves behind lies under one name, and would not be found under the other."""
    ledger, link = make(tmp_path / "ledger"), tmp_path / "link"
    reservation = reserve(ledger, keys(1e-9))
    link.hardlink_to(ledger.path)
    said: multiprocessing.Queue[str] = FORK.Queue()
    child = FORK.Process(target=_by_another_name, args=(link, said))
    child.start()
    assert "2 names (hard links)" in said.get(timeout=600)
    child.join(timeout=600)
    with pytest.raises(LedgerError, match="hard links"):
        reservation.debit(keys(1e-9))
    link.unlink()
    reservation.debit(keys(1e-9))
    link.symlink_to(ledger.path)
    child = FORK.Process(target=_by_another_name, args=(link, said))
    child.start()
    assert said.get(timeout=600) == "granted"
    child.join(timeout=600)
    assert len(ledger.entries()) == 3


def test_the_file_holds_exact_fractions(tmp_path: Path) -> None:
    ledger = make(tmp_path / "ledger")
    act = keys(1e-7)
    reserve(ledger, act).debit(act)
    connection = sqlite3.connect(ledger.path)
    [(price, delta, content)] = connection.execute("SELECT price, delta, content FROM entries WHERE kind = 'debit'")
    connection.close()
    cost = cost_of(act, "zcdp", "replace")
    assert (Fraction(price), Fraction(delta)) == (cost.price, cost.delta)
    assert json.loads(content)["event"]["event"] == "stable-keys"
