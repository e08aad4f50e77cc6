"""A ledger keeps its promise wherever its lines lie: a file, or a database that many hosts share."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

import conspectus as cs
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.events import ByRelation, RowTotal, ThresholdWatch
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger import ledger_postgres
from conspectus.privacy.ledger.ledger import Ledger, LedgerError, LedgerRetired
from conspectus.privacy.ledger.reservation import Reservation, StaleCopy

from .postgres_server import Server, running

FORK = multiprocessing.get_context("fork")
BOUND = {"neighbours": "replace", "unit": "row"}
STORES = ("file", "database")


def watch(epsilon: float | Fraction) -> ThresholdWatch:
    bound = Fraction(epsilon)
    return ThresholdWatch(epsilon=ByRelation(replace=bound, add_remove=bound))


def made(place: str, epsilon: float = 1.0, **more: object) -> Ledger:
    return Ledger.create(
        place,
        budget=Budget(epsilon=epsilon),
        schema_fingerprint="f00",
        table="people",
        **BOUND,
        **more,  # type: ignore[arg-type]
    )


def reserved(ledger: Ledger, epsilon: float) -> Reservation:
    return ledger.reserve(Budget(epsilon=epsilon), "a release", fingerprint="f00", **BOUND)


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Places for new ledgers, in the store that the test is run for."""
    if request.param == "file":
        yield lambda name: str(tmp_path / name)
        return
    server: Server = request.getfixturevalue("server")
    names = []

    def place(name: str) -> str:
        names.append(name)
        return f"{server.address}?ledger={name}"

    yield place
    server.run(*(f"DROP SCHEMA IF EXISTS {name} CASCADE" for name in names))


everywhere = pytest.mark.parametrize("places", STORES, indirect=True)


@everywhere
def test_reserve_debit_settle(places: Callable[[str], str]) -> None:
    ledger = made(places("one"))
    first = reserved(ledger, 0.5)
    first.debit(RowTotal())
    first.debit(watch(Fraction(1, 3)), after=1)
    assert ledger.spent == Fraction(1, 2)  # a crash now would have spent everything
    with pytest.raises(StaleCopy):
        first.debit(watch(Fraction(1, 30)), after=1)
    with pytest.raises(BudgetExceeded):
        first.debit(watch(Fraction(1, 3)))
    first.settle()
    with pytest.raises(LedgerError, match="settled"):
        first.debit(watch(Fraction(1, 30)))
    again = Ledger.open(places("one"))
    assert again.spent == Fraction(1, 3)
    assert [(entry.number, entry.kind, entry.price) for entry in again.entries()] == [
        (1, "reserve", Fraction(1, 2)),
        (2, "debit", 0),
        (3, "debit", Fraction(1, 3)),
        (4, "settle", Fraction(1, 3)),
    ]
    with pytest.raises(BudgetExceeded, match="epsilon"):
        reserved(again, 0.75)
    assert len(again.entries()) == 4
    with pytest.raises(LedgerError, match="already exists"):
        made(places("one"))


@everywhere
def test_a_ledger_that_lost_lines_is_refused(places: Callable[[str], str], request: pytest.FixtureRequest) -> None:
    """Restored from an old copy, or made again under the old name: what was seen is not there any more."""
    place = places("restored")
    ledger = made(place)
    reserved(ledger, 0.25)
    if "?ledger=" in place:
        request.getfixturevalue("server").run("DROP SCHEMA restored CASCADE")
    else:
        os.unlink(place)
    made(place)
    for call in (lambda: ledger.spent, lambda: reserved(ledger, 0.25)):
        with pytest.raises(LedgerError, match=r"not the ledger any more"):
            call()


def _spend(place: str, results: multiprocessing.Queue[tuple[int, int]], rounds: int) -> None:
    ledger = Ledger.open(place)
    granted = refused = 0
    for _ in range(rounds):
        try:
            reservation = reserved(ledger, 1 / 64)
        except BudgetExceeded:
            refused += 1
            continue
        granted += 1
        reservation.debit(watch(1 / 64))
        reservation.settle()
    results.put((granted, refused))


def race(place: str, processes: int, rounds: int, spend: Callable[..., None] = _spend) -> list[tuple[int, int]]:
    results: multiprocessing.Queue[tuple[int, int]] = FORK.Queue()
    workers = [FORK.Process(target=spend, args=(place, results, rounds)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    counts = [results.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join(timeout=600)
        assert worker.exitcode == 0
    return counts


def _check_race(ledger: Ledger, counts: list[tuple[int, int]]) -> None:
    assert sum(granted for granted, _ in counts) == 64
    assert ledger.spent == 1
    assert len([entry for entry in ledger.entries() if entry.kind == "debit"]) == 64
    assert [entry.number for entry in ledger.entries()] == list(range(1, 3 * 64 + 1))


@everywhere
def test_processes_at_once_never_overspend(places: Callable[[str], str]) -> None:
    ledger = made(places("raced"))
    _check_race(ledger, race(places("raced"), 10, 8))


@pytest.mark.audit
@everywhere
def test_fifty_processes_at_once_never_overspend(places: Callable[[str], str]) -> None:
    ledger = made(places("raced50"))
    _check_race(ledger, race(places("raced50"), 50, 3))


def _spend_carelessly(place: str, results: multiprocessing.Queue[tuple[int, int]], rounds: int) -> None:
    """The broken twin: it reads what is left, and writes, without the lock; numbers are drawn from a sequence."""
    plain, name = place.partition("?")[0], place.rpartition("=")[2]
    spent = granted = 0
    with psycopg.connect(plain, autocommit=True) as connection:
        for _ in range(rounds):
            with connection.transaction():
                found = connection.execute(f"SELECT coalesce(sum(price::float8), 0) FROM {name}.entries").fetchone()
                assert found is not None
                spent = found[0]
                time.sleep(0.01)  # another host reads
                if spent + 1 / 64 <= 1:
                    granted += 1
                    values = f"nextval('{name}.numbers'), 'reserve', NULL, '0.015625', '0', '0', '0', '{{}}', 'now'"
                    connection.execute(f"INSERT INTO {name}.entries SELECT {values}")
    results.put((granted, rounds - granted))


@pytest.mark.parametrize("places", ["database"], indirect=True)
def test_without_the_lock_the_cap_is_passed(places: Callable[[str], str], server: Server) -> None:
    made(places("careless"))
    server.run("DROP TRIGGER entries_follow ON careless.entries", "CREATE SEQUENCE careless.numbers")
    counts = race(places("careless"), 8, 20, _spend_carelessly)
    assert sum(granted for granted, _ in counts) > 64
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(places("careless"))


def test_a_role_reads_and_adds_lines_and_nothing_else(server: Server) -> None:
    server.run("DROP ROLE IF EXISTS spender", "CREATE ROLE spender LOGIN", "DROP SCHEMA IF EXISTS granted CASCADE")
    made(f"{server.address}?ledger=granted", role="spender")
    address = f"postgresql://spender@127.0.0.1:{server.port}/postgres?ledger=granted"
    ledger = Ledger.open(address)
    reservation = reserved(ledger, 0.5)
    reservation.debit(watch(0.25))
    reservation.settle()
    assert (ledger.spent, ledger.path) == (Fraction(1, 4), address)
    line = "kind, reservation, price, total, delta, delta_total, content, made FROM granted.entries WHERE id = 1"
    for statement in (
        "UPDATE granted.entries SET price = '0'",
        "DELETE FROM granted.entries",
        "TRUNCATE granted.entries",
        "DELETE FROM granted.terms",
        "UPDATE granted.terms SET cap = '99'",
        "DROP TABLE granted.entries",
        "ALTER TABLE granted.entries DISABLE TRIGGER ALL",
        f"INSERT INTO granted.entries SELECT 9, {line}",
        f"INSERT INTO granted.entries SELECT 1, {line}",
        "CREATE TABLE granted.terms2 (id int)",
    ):
        for user in (
            ("spender", "owner") if statement.startswith(("UPDATE", "DELETE", "TRUNC", "INS")) else ("spender",)
        ):
            with pytest.raises(psycopg.Error):
                server.run(statement, user=user)
    assert len(ledger.entries()) == 3
    server.run("DROP SCHEMA granted CASCADE", "DROP ROLE spender")


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE altered.entries DISABLE TRIGGER entries_stay",
        "DROP TRIGGER entries_follow ON altered.entries",
        "ALTER TABLE altered.entries SET UNLOGGED",
        "ALTER TABLE altered.entries ENABLE ROW LEVEL SECURITY",
        "CREATE RULE forgetful AS ON INSERT TO altered.entries DO INSTEAD NOTHING",
        "CREATE OR REPLACE FUNCTION altered.lock() RETURNS void LANGUAGE plpgsql AS $$BEGIN END$$",
        "CREATE TRIGGER extra BEFORE INSERT ON altered.entries FOR EACH ROW EXECUTE FUNCTION altered.follows()",
        "CREATE TABLE altered.child () INHERITS (altered.entries)",
    ],
)
def test_what_somebody_changed_in_the_database_is_found(server: Server, change: str) -> None:
    server.run("DROP SCHEMA IF EXISTS altered CASCADE")
    made(f"{server.address}?ledger=altered")
    server.run(change)
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(f"{server.address}?ledger=altered")
    server.run("DROP SCHEMA altered CASCADE")


def test_a_server_that_may_forget_is_refused() -> None:
    with running() as server:
        place = f"{server.address}?ledger=forgetful"
        ledger = made(place)
        for name in ("fsync", "full_page_writes"):
            server.stop()
            server.start(**{name: "off"})
            for call in (lambda: ledger.spent, lambda: Ledger.open(place), lambda: reserved(ledger, 0.1)):
                with pytest.raises(LedgerError, match="without fsync or full_page_writes"):
                    call()
        server.stop()
        with pytest.raises(LedgerError, match="did not answer") as caught:
            reserved(ledger, 0.1)
        assert "not-to-be-seen" not in str(caught.value)
        server.start(synchronous_commit="off")  # a client asks for its own commits to be kept, whatever is usual
        reserved(ledger, 0.1)
        server.kill()
        assert len(ledger.entries()) == 1


def test_addresses_and_names_that_are_none(server: Server) -> None:
    for place, why in (
        (f"{server.address}?ledger=Big-Name", "small letters"),
        (f"{server.address}?ledger=x;drop", "small letters"),
        (f"{server.address}?ledger=absent", "no ledger at"),
        (f"{server.address}?wrong", "name=value"),
        ("postgresql://u:pa#ss@127.0.0.1/x", "no address"),
    ):
        with pytest.raises(LedgerError, match=why) as caught:
            Ledger.open(place)
        assert "not-to-be-seen" not in str(caught.value)
        assert "pa#ss" not in str(caught.value)
    with pytest.raises(LedgerError, match="a database"):
        made("people.ledger", role="somebody")


def _release_for_ever(place: str, outputs: Path, ready: int, owner: int) -> None:
    """What the curator does, in a hurry: reserve, then debit before every output, then settle."""
    os.write(ready, b"!")
    while True:
        try:
            ledger = Ledger.open(place)
            with outputs.open("ab", buffering=0) as published:
                while True:
                    reservation = reserved(ledger, 2.0**-20)
                    for act in range(2):
                        reservation.debit(watch(Fraction(1, 2**30 + owner)))
                        published.write(f"{reservation.number} {act}\n".encode())
                    reservation.settle()
        except LedgerError:  # the server was killed: somebody starts it again
            time.sleep(0.01)


def kill_clients_and_servers(server: Server, folder: Path, clients: int, servers: int, seed: int) -> Counter[int]:
    """Kill clients, and now and then the server; what was published, by reservation, is in the ledger."""
    place = f"{server.address}?ledger=killed"
    ledger = made(place, 8.0)
    outputs = folder / "outputs"
    outputs.touch()
    moments = random.Random(seed)
    rounds = clients // 4
    for number in range(rounds):
        reader, writer = os.pipe()
        before = outputs.stat().st_size
        victims = [
            FORK.Process(target=_release_for_ever, args=(place, outputs, writer, 4 * number + each))
            for each in range(4)
        ]
        for victim in victims:
            victim.start()
        for _ in victims:
            os.read(reader, 1)
        if number * servers // rounds != (number + 1) * servers // rounds:
            time.sleep(moments.uniform(0.0, 0.3))
            server.kill()
        for victim in victims:
            time.sleep(moments.uniform(0.0, 0.15))
            until = time.monotonic() + 600
            while victim is victims[-1] and outputs.stat().st_size == before and time.monotonic() < until:
                time.sleep(0.01)  # the last one lives until something was published, however busy the machine is
            assert victim.pid is not None
            os.kill(victim.pid, signal.SIGKILL)
            victim.join(timeout=600)
        os.close(reader)
        os.close(writer)
        assert Ledger.open(place).spent <= ledger.cap
    debited = Counter(entry.reservation for entry in ledger.entries() if entry.kind == "debit")
    published = Counter(int(line.split()[0]) for line in outputs.read_text().splitlines())
    assert published <= debited
    return published


def test_kills_of_clients_and_of_the_server(tmp_path: Path) -> None:
    with running() as server:
        assert kill_clients_and_servers(server, tmp_path, 8, 1, seed=3)


@pytest.mark.audit
def test_two_hundred_kills_of_clients_and_twenty_of_the_server(tmp_path: Path) -> None:
    with running() as server:
        assert len(kill_clients_and_servers(server, tmp_path, 200, 20, seed=5)) > 10


def test_a_release_and_a_session_under_a_ledger_in_a_database(server: Server, tmp_path: Path) -> None:
    from tests.made import people

    schema, table = people(300)
    place = f"{server.address}?ledger=used"
    ledger = Ledger.create(
        place,
        budget=Budget(epsilon=3.0),
        schema_fingerprint=schema.fingerprint,
        table="people",
        neighbours="replace",
        unit=str(schema.unit),
    )
    cs.release(table, cs.marginals(schema, 1), epsilon=1.0, mechanism="laplace", ledger=place)
    assert ledger.spent == 1
    with cs.open_session(table, epsilon=1.0, questions=5, ledger=place, path=tmp_path / "live") as session:
        first = session.ask("smoker")
    # The file names the ledger without its password, and finds it where the server asks for none.
    with cs.resume_session(tmp_path / "live", people(300)[1]) as session:
        assert session.ask("smoker").fraction == first.fraction
        session.end()
    assert 1 < ledger.spent <= 2
    server.run("DROP SCHEMA used CASCADE")


def test_the_form_that_is_compared_is_the_one_that_is_made(server: Server) -> None:
    server.run("DROP SCHEMA IF EXISTS formed CASCADE")
    made(f"{server.address}?ledger=formed")
    found = server.run(ledger_postgres._FORM.replace("?", "'formed'"))
    assert sorted(found) == sorted(ledger_postgres._form("formed"))
    server.run("DROP SCHEMA formed CASCADE")


@everywhere
def test_studies_are_capped_and_a_ledger_is_retired(places: Callable[[str], str]) -> None:
    place = places("study")
    ledger = made(place)
    ledger.declare_study("trial", purpose="Does it help?", budget=Budget(epsilon=0.5), by="the board")
    with pytest.raises(LedgerError, match="name one of trial"):
        reserved(ledger, 0.125)
    trial = Ledger.open(place).for_study("trial", by="Ada")
    first = reserved(trial, 0.375)
    first.debit(watch(0.25))
    with pytest.raises(BudgetExceeded, match='the study "trial"'):
        reserved(trial, 0.25)
    assert [(one.name, one.spent, one.by) for one in ledger.studies()] == [("trial", Fraction(3, 8), "the board")]
    ledger.retire("the consent ended", by="the board")
    for call in (
        lambda: first.debit(watch(0.125)),
        lambda: reserved(trial, 0.125),
        lambda: Ledger.open(place).retire("again"),
    ):
        with pytest.raises(LedgerRetired):
            call()
    first.settle()
    again = Ledger.open(place)
    assert (again.spent, again.remaining) == (Fraction(1, 4), 0)
    assert [(line["study"], line["by"]) for line in again.to_arrow().to_pylist()] == [("trial", "Ada")]


def _until_retired(place: str, results: multiprocessing.Queue[tuple[int, int]], ended: Any, rounds: int) -> None:
    """Debits as fast as it can; the last comes after the end, however busy whoever ends it is."""
    ledger = Ledger.open(place)
    done = 0
    try:
        for number in range(rounds):
            if number == rounds - 1:
                ended.wait(600)
            reservation = reserved(ledger, 1 / 1024)
            reservation.debit(watch(1 / 1024))
            done += 1
            reservation.settle()
    except LedgerRetired:
        results.put((done, 1))
        return
    results.put((done, 0))


@everywhere
def test_whoever_races_with_the_end_is_counted_or_refused(places: Callable[[str], str]) -> None:
    place = places("race")
    ledger = made(place)
    results: multiprocessing.Queue[tuple[int, int]] = FORK.Queue()
    ended = FORK.Event()
    workers = [FORK.Process(target=_until_retired, args=(place, results, ended, 300)) for _ in range(3)]
    for worker in workers:
        worker.start()
    while len(ledger.entries()) < 12:
        time.sleep(0.01)
    ledger.retire("enough")
    ended.set()
    counts = [results.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join(timeout=600)
    assert all(refused for _, refused in counts)  # nobody was done before, and nobody after
    assert ledger.spent == Fraction(sum(done for done, _ in counts), 1024)
    assert ledger.entries()[-1].retired == "enough"
