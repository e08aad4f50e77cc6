"""Studies under a ledger, who asked, how fast it is spent, and its end."""

from __future__ import annotations

import json
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.events import ByRelation, ThresholdWatch
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.burn_rate import MONTH, BurnRate
from conspectus.privacy.ledger.ledger import Ledger, LedgerError, LedgerMismatch, LedgerRetired
from conspectus.privacy.ledger.reservation import Reservation
from conspectus.report import report_of
from conspectus.report.burn_picture import burn_picture

OLD = Path(__file__).parent.parent / "files" / "v0.1" / "people.ledger"
BOUND = {"neighbours": "replace", "unit": "row"}
JANUARY = datetime(2026, 1, 1, tzinfo=UTC)


def watch(epsilon: float) -> ThresholdWatch:
    bound = Fraction(epsilon)
    return ThresholdWatch(epsilon=ByRelation(replace=bound, add_remove=bound))


def made(path: Path, budget: Budget | None = None) -> Ledger:
    return Ledger.create(
        path / "ledger", budget=budget or Budget(epsilon=1.0), schema_fingerprint="f00", table="visits", **BOUND
    )


def reserve(ledger: Ledger, epsilon: float) -> Reservation:
    return ledger.reserve(Budget(epsilon=epsilon), "a release", fingerprint="f00", **BOUND)


def test_lines_say_for_whom_and_for_what(tmp_path: Path) -> None:
    ledger = made(tmp_path)
    ledger.declare_study("trial", purpose="Does it help?", budget=Budget(epsilon=0.5), by="the board")
    ledger.declare_study("open", purpose="Everything else")
    with reserve_settled(ledger.for_study("trial", by="Ada"), 0.25):
        pass
    reserve(ledger.for_study("open"), 0.125)
    trial, other = Ledger.open(ledger.path).studies()
    assert (trial.name, trial.purpose, trial.by, trial.spent) == ("trial", "Does it help?", "the board", Fraction(1, 4))
    assert trial.cap == Fraction(1, 2) * (1 + Fraction(1, 2**52))
    assert (other.cap, other.spent, other.remaining) == (None, Fraction(1, 8), None)
    lines = ledger.to_arrow().to_pylist()
    assert [(line["study"], line["by"], line["price"]) for line in lines] == [
        ("trial", "Ada", 0.25),
        ("open", "", 0.125),
    ]
    assert [entry.by for entry in ledger.entries() if entry.kind == "debit"] == ["Ada"]
    assert ledger.spent == Fraction(3, 8)


class reserve_settled:
    def __init__(self, ledger: Ledger, epsilon: float) -> None:
        self.reservation = reserve(ledger, epsilon)
        self.reservation.debit(watch(epsilon))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *problem: object) -> None:
        self.reservation.settle()


def test_a_study_is_refused_beyond_its_cap_and_nothing_is_written(tmp_path: Path) -> None:
    ledger = made(tmp_path)
    ledger.declare_study("trial", purpose="p", budget=Budget(epsilon=0.5))
    ledger.declare_study("other", purpose="p")
    trial = ledger.for_study("trial")
    for _ in range(5):
        reserve(trial, 0.1)  # five times this float is a little more than a half
    before = Path(ledger.path).read_bytes()
    with pytest.raises(BudgetExceeded, match=r'the study "trial" has nothing of epsilon 0\.5 left'):
        reserve(trial, 0.01)
    with pytest.raises(BudgetExceeded):
        trial.check(Budget(epsilon=0.01), fingerprint="f00", **BOUND)
    assert Path(ledger.path).read_bytes() == before
    reserve(ledger.for_study("other"), 0.25)
    with pytest.raises(BudgetExceeded, match="the ledger has"):
        reserve(ledger.for_study("other"), 0.5)
    ledger.declare_study("trial", purpose="p", budget=Budget(epsilon=0.625))  # an amendment: the newest line counts
    reserve(trial, 0.125)
    ledger.declare_study("trial", purpose="p", budget=Budget(epsilon=0.125))
    with pytest.raises(BudgetExceeded, match=r"nothing of epsilon 0\.125"):
        reserve(trial, 0.0625)


def test_a_release_without_a_known_study_is_refused(tmp_path: Path) -> None:
    ledger = made(tmp_path)
    with pytest.raises(LedgerError, match="has no studies: declare one"):
        ledger.for_study("trial")
    reserve(ledger.for_study(by="Ada"), 0.125)
    ledger.declare_study("trial-7", purpose="p")
    before = Path(ledger.path).read_bytes()
    with pytest.raises(LedgerError, match="name one of trial-7"):
        reserve(ledger, 0.125)
    with pytest.raises(LedgerError, match='did you mean "trial-7"'):
        ledger.for_study("trial7")
    for name, purpose in (("", "p"), (" ", "p"), ("a", ""), ("a" * 3000, "p"), (7, "p")):
        with pytest.raises(LedgerError, match="is a text"):
            ledger.declare_study(name, purpose=purpose)  # type: ignore[arg-type]
    with pytest.raises(LedgerMismatch, match="pure epsilon"):
        ledger.declare_study("other", purpose="p", budget=Budget(rho=0.1))
    assert Path(ledger.path).read_bytes() == before


def test_caps_are_in_the_currency_of_the_ledger(tmp_path: Path) -> None:
    ledger = made(tmp_path, Budget(epsilon=4.0, delta=1e-6))
    study = ledger.declare_study("trial", purpose="p", budget=Budget(epsilon=1.0, delta=1e-6))
    assert study.cap is not None
    assert study.cap >= ledger.price_of(Budget(epsilon=1.0, delta=1e-6))
    trial = ledger.for_study("trial")
    trial.reserve(Budget(epsilon=0.5, delta=1e-6), "a", fingerprint="f00", **BOUND)
    with pytest.raises(BudgetExceeded, match=r"the study .* has rho .* of .* \(epsilon .* at delta 1e-06\) left"):
        trial.reserve(Budget(epsilon=1.0, delta=1e-6), "b", fingerprint="f00", **BOUND)


def test_nothing_is_debited_under_a_retired_ledger(tmp_path: Path) -> None:
    ledger = made(tmp_path)
    elsewhere = Ledger.open(ledger.path)
    running, done = reserve(elsewhere, 0.5), reserve(elsewhere, 0.25)
    running.debit(watch(0.125))
    done.debit(watch(0.25))
    done.settle()
    ledger.retire("the consent ended", by="the board")
    assert ledger.spent == Fraction(3, 8)  # the acts that were done, and not what was reserved beside them
    assert (ledger.remaining, ledger.epsilon_remaining, ledger.delta_remaining) == (0, 0, 0)
    assert ledger.retired is not None
    assert (ledger.retired.retired, ledger.retired.by) == ("the consent ended", "the board")
    before = Path(ledger.path).read_bytes()
    for call in (
        lambda: running.debit(watch(0.01)),
        lambda: reserve(elsewhere, 0.01),
        lambda: reserve(Ledger.open(ledger.path), 0.01),
        lambda: elsewhere.declare_study("late", purpose="p"),
        lambda: elsewhere.retire("again"),
        lambda: elsewhere.resume(running.number),
    ):
        with pytest.raises(LedgerRetired, match="was retired on"):
            call()
    running.settle()  # its acts were drawn and count: nothing is left to close
    assert Path(ledger.path).read_bytes() == before
    assert len(ledger.to_arrow()) == 2


def test_a_program_that_knows_of_no_retiring_finds_nothing_left(tmp_path: Path) -> None:
    """Whoever adds up prices, as version 2 of the file has it, is at the cap, in both parts."""
    ledger = Ledger.create(
        tmp_path / "l",
        budget=Budget(epsilon=1.0, delta=1e-6),
        schema_fingerprint="f00",
        table="visits",
        aside=0.5,
        **BOUND,
    )
    ledger.reserve(Budget(epsilon=0.5, delta=1e-6), "a", fingerprint="f00", **BOUND)
    ledger.retire("done")
    connection = sqlite3.connect(ledger.path)
    settled = {
        row[0]: row[1:]
        for row in connection.execute("SELECT reservation, total, delta_total FROM entries WHERE kind = 'settle'")
    }
    opened = connection.execute("SELECT id, price, delta FROM entries WHERE kind = 'reserve'").fetchall()
    connection.close()
    counted = [settled.get(row[0], row[1:]) for row in opened]
    assert sum(Fraction(price) for price, _ in counted) == ledger.cap
    assert sum(Fraction(delta) for _, delta in counted) == ledger.delta_cap


def test_a_line_behind_the_last_one_is_found(tmp_path: Path) -> None:
    ledger = made(tmp_path)
    ledger.retire("done")
    connection = sqlite3.connect(ledger.path)
    connection.execute(
        "INSERT INTO entries (kind, price, total, delta, delta_total, content, made) "
        "VALUES ('reserve', '0', '0', '0', '0', '{\"label\": \"late\"}', '2026-01-01T00:00:00+00:00')"
    )
    connection.commit()
    connection.close()
    for call in (lambda: ledger.spent, lambda: reserve(ledger, 0.1)):
        with pytest.raises(LedgerError, match="damaged"):
            call()


def test_an_old_file_takes_studies_and_is_retired(tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    shutil.copy(OLD, path)
    ledger = Ledger.open(path)
    before, lines = ledger.spent, len(ledger.to_arrow())
    ledger.declare_study("trial", purpose="p", budget=Budget(epsilon=0.01, delta=1e-7))
    assert (ledger.spent, len(ledger.to_arrow()), len(ledger.studies())) == (before, lines, 1)
    ledger.retire("done")
    again = Ledger.open(path)
    assert again.remaining == 0
    assert again.spent <= before  # reservations that were open count with their acts


@pytest.mark.parametrize(
    "content",
    [
        '{"label": "x", "declares": {"name": 7}}',
        '{"label": "x", "declares": 7}',
        '{"retired": 7}',
        '{"label": "x", "declares": {"name": "a", "purpose": "b", "cap": "much"}}',
        '{"label": "x", "by": 7}',
    ],
)
def test_damaged_lines_are_refused_in_words(tmp_path: Path, content: str) -> None:
    ledger = made(tmp_path)
    connection = sqlite3.connect(ledger.path)
    connection.execute(
        "INSERT INTO entries (kind, price, total, delta, delta_total, content, made) "
        "VALUES ('reserve', '0', '0', '0', '0', ?, '2026-01-01T00:00:00+00:00')",
        (content,),
    )
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="damaged"):
        reserve(Ledger.open(ledger.path), 0.1)


def test_sessions_and_releases_go_on_from_what_they_learned(tmp_path: Path) -> None:
    columns = {"ill": {"type": "boolean"}, "old": {"type": "boolean"}}
    schema = cs.Schema.from_dict({"name": "visits", "columns": columns})
    table = cs.open_table(pa.table({"ill": [True, False] * 50, "old": [False, False] * 50}), schema)
    ledger = Ledger.create(
        tmp_path / "l", budget=Budget(epsilon=4.0), schema_fingerprint=schema.fingerprint, table="visits", **BOUND
    )
    ledger.declare_study("trial", purpose="Does it help?")
    mine = ledger.for_study("trial", by="Ada")
    kept = cs.release(table, cs.marginals(schema, 1), epsilon=1.0, mechanism="laplace", ledger=mine)
    with cs.open_session(
        table, epsilon=2.0, questions=5, mechanism="laplace", ledger=mine, path=tmp_path / "s"
    ) as live:
        paid = live.ask("ill")
        ledger.retire("done")
        with pytest.raises(BudgetExceeded):
            live.ask("old")
        assert live.ask("ill").fraction == paid.fraction
        live.end()
    with cs.resume_session(tmp_path / "s", table) as live:
        assert live.ask("ill").fraction == paid.fraction
        assert live.remaining == 0
    with pytest.raises(LedgerRetired):
        cs.release(table, cs.marginals(schema, 1), epsilon=0.1, ledger=mine)
    page = report_of(kept, ledger=ledger)
    for said in ("Ada", "Does it help?", "It was retired on", "How much of the ledger of “visits” was spent over time"):
        assert said in page


def test_the_rate_is_what_was_spent_over_the_time(tmp_path: Path) -> None:
    ledger = made(tmp_path)
    reserve(ledger, 0.25)
    reserve(ledger, 0.125)
    rate = ledger.burn_rate(now=datetime.now(UTC) + 10 * MONTH)
    assert [step[2] for step in rate.steps] == pytest.approx([0.25, 0.375])
    assert rate.per_month == pytest.approx(0.0375, rel=1e-6)
    assert rate.empty is not None
    assert rate.empty - rate.now == pytest.approx(MONTH * (0.625 / 0.0375), rel=1e-6)  # type: ignore[comparison-overlap]
    assert ledger.burn_rate().per_month is None
    assert ledger.burn_rate().empty is None
    ledger.retire("done")
    assert ledger.burn_rate(now=datetime.now(UTC) + 10 * MONTH).empty is None


def heights(picture: str) -> list[float]:
    root = ElementTree.fromstring(picture)
    (path,) = root.iter("{http://www.w3.org/2000/svg}path")
    return [float(point.split()[1]) for point in path.attrib["d"].removeprefix("M").split("L")]


def test_the_picture_says_what_it_shows() -> None:
    steps = tuple((JANUARY + timedelta(days=30 * n), f"<release {n}>", 0.2 * n) for n in range(1, 5))
    rate = BurnRate(made=JANUARY, now=JANUARY + timedelta(days=180), steps=steps)
    drawn = burn_picture(rate, table="a & b", alone=True)
    root = ElementTree.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    assert root.attrib["role"] == "img"
    assert "a & b" in root.attrib["aria-label"]
    assert "4 releases, 80.0 % of the cap spent" in str(root.findtext(f"{space}desc"))
    assert len(list(root.iter(f"{space}circle"))) == 4
    assert "<release 4>, 2026-05-01: 80.0 % spent by then" in [one.text for one in root.iter(f"{space}title")]
    assert all(later <= earlier for earlier, later in pairwise(heights(drawn)))  # y grows downwards
    assert heights(drawn)[0] - heights(drawn)[-1] == pytest.approx(0.8 * 190, abs=0.2)
    empty = BurnRate(made=JANUARY, now=JANUARY, steps=())
    assert heights(burn_picture(empty, table="t", alone=True)) == [204.0, 204.0]


def test_a_ledger_stays_readable_as_json(tmp_path: Path) -> None:
    from conspectus.cli.ledger_commands import ledger_json

    ledger = made(tmp_path)
    ledger.declare_study("trial", purpose="p", budget=Budget(epsilon=0.5))
    ledger.retire("done")
    found = json.loads(json.dumps(ledger_json(ledger)))
    assert (found["remaining"], found["retired"]["reason"]) == (0.0, "done")
    assert found["studies"][0]["cap"] == pytest.approx(0.5)


def test_whoever_opened_is_named_by_all_that_goes_on(tmp_path: Path) -> None:
    """Sessions, series and streams that are resumed debit in the name of whoever opened them, or of a new name."""
    schema = cs.Schema.from_dict(
        {"name": "visits", "columns": {"ill": {"type": "boolean"}, "old": {"type": "boolean"}}}
    )
    table = cs.open_table(pa.table({"ill": [True, False] * 50, "old": [False, False] * 50}), schema)
    ledger = Ledger.create(
        tmp_path / "l", budget=Budget(epsilon=9.0), schema_fingerprint=schema.fingerprint, table="visits", **BOUND
    )
    ledger.declare_study("trial", purpose="Does it help?")
    mine = ledger.for_study("trial", by="Ada")

    def named() -> list[str]:
        return [entry.by for entry in ledger.entries() if entry.kind == "debit"]

    path = tmp_path / "s"
    with cs.open_session(table, epsilon=2.0, questions=5, mechanism="laplace", ledger=mine, path=path) as live:
        live.ask("ill")
    with cs.resume_session(path, table) as live:
        live.ask("old")
    with cs.resume_session(path, table, ledger=ledger.for_study(by="Bob")) as live:
        live.ask("ill AND old")
    with cs.resume_session(path, table, ledger=str(tmp_path / "l")) as live:
        live.ask("ill OR old")
    assert named() == ["Ada", "Ada", "Ada", "Bob", "Ada"]  # the first is the number of rows, which is public
    with cs.open_stream(schema, cs.sql(schema, ["ill"]), epsilon=1.0, horizon=4, ledger=mine, path=tmp_path / "st"):
        pass
    for book in (None, ledger.for_study(by="Bob")):
        with cs.resume_stream(tmp_path / "st", ledger=book) as stream:
            stream.append(table)
    # The act and the seal of the opened file, and three marks a step: begun, drawn and done.
    assert named()[5:] == ["Ada"] * 5 + ["Bob"] * 3
    cs.open_series(
        schema,
        cs.marginals(schema, 1),
        periods=["May", "June"],
        epsilon=2.0,
        mechanism="laplace",
        ledger=mine,
        path=tmp_path / "se",
    )
    cs.resume_series(tmp_path / "se").release(table)
    assert set(named()[13:]) == {"Ada"}
    trial = {line["study"] for line in ledger.to_arrow().to_pylist()}
    assert trial == {"trial"}
