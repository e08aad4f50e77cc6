"""Releases of a growing table: one plan, one ledger, each period once, in order, within its share."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.curator.curator import Curator
from conspectus.data.sources import Table
from conspectus.privacy.accounting import BudgetExceeded, cap_of
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger, LedgerError, LedgerMismatch, LedgerRetired
from conspectus.releases.series import Series
from conspectus.releases.series_terms import SeriesError

FORK = multiprocessing.get_context("fork")
SCHEMA = cs.Schema.from_dict({"name": "visits", "columns": {"ill": {"type": "boolean"}, "old": {"type": "boolean"}}})
ASKED = cs.marginals(SCHEMA, 1)
BUDGETS = (Budget(epsilon=1.0), Budget(epsilon=1.0, delta=1e-6), Budget(rho=0.1))


def grown(month: int) -> Table:
    rows = 100 * month
    return cs.open_table(
        pa.table({"ill": [n % 4 == 0 for n in range(rows)], "old": [n % 3 == 0 for n in range(rows)]}), SCHEMA
    )


def ledger_for(folder: Path, budget: Budget, neighbours: str = "replace") -> Ledger:
    return Ledger.create(
        folder / "ledger",
        budget=budget,
        neighbours=neighbours,  # type: ignore[arg-type]
        unit="row",
        schema_fingerprint=SCHEMA.fingerprint,
        table="visits",
    )


def opened(folder: Path, budget: Budget = BUDGETS[1], **more: object) -> Series:
    given: dict[str, object] = {"periods": ["a", "b", "c", "d"], "mechanism": "laplace", **more}
    if "ledger" not in given:
        given["ledger"] = ledger_for(folder, budget)
    told = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    return cs.open_series(SCHEMA, ASKED, path=folder / "visits.series", **told, **given)  # type: ignore[arg-type]


def spent_in(series: Series, period: str) -> Fraction:
    lines = series.ledger.entries()
    return sum((e.price for e in lines if e.kind == "debit" and e.label == period), Fraction(0))


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("shares", [None, [4, 1, 1, 2]])
def test_all_periods_keep_the_budget_and_each_its_share(
    tmp_path: Path, budget: Budget, neighbours: str, shares: list[float] | None
) -> None:
    ledger = ledger_for(tmp_path, budget, neighbours)
    series = opened(tmp_path, budget, ledger=ledger, neighbours=neighbours, shares=shares)
    _, cap = cap_of(budget)
    assert ledger.spent == cap  # all of it, from the beginning
    sizes = shares or [1] * 4
    parts = []
    for month, period in enumerate(series.periods):
        release = series.release(grown(month + 1), period)
        part = cap_of(series.budget_of(period))[1]
        assert part <= cap * sizes[month] / sum(sizes)
        assert spent_in(series, period) <= part
        assert release.parameters["period"] == period
        assert f"release {month + 1} of 4" in release.guarantee.warnings[-1]
        parts.append(spent_in(series, period))
    assert sum(parts) <= cap
    assert sum(parts) >= cap * Fraction(99, 100)  # and nothing much is left lying about
    series.end()
    assert ledger.spent == sum(parts)
    whole = series.guarantee
    assert (whole.epsilon is None) == (budget.epsilon is None)
    if budget.epsilon is not None:
        assert whole.epsilon is not None
        assert whole.epsilon <= budget.epsilon


def test_a_release_says_what_one_period_keeps(tmp_path: Path) -> None:
    first = opened(tmp_path, BUDGETS[0]).release(grown(1))
    assert first.guarantee.epsilon == 0.25
    assert len(first.answers) == len(ASKED)


def test_periods_come_once_and_in_order(tmp_path: Path) -> None:
    series = opened(tmp_path)
    series.release(grown(1))
    lines = series.ledger.entries()
    for period, skip, said in (
        ("a", True, "a was released on"),
        ("c", False, "b would be left out for good"),
        ("B", False, 'did you mean "b"'),
        ("2026", False, "its periods are a, b, c, d"),
    ):
        with pytest.raises(SeriesError, match=said):
            series.release(grown(2), period, skip=skip)
    assert series.ledger.entries() == lines
    series.release(grown(3), "c", skip=True)
    with pytest.raises(SeriesError, match="b is over, since c was released"):
        series.release(grown(3), "b", skip=True)
    assert series.to_dict()["state"] == ["released", "skipped", "released", "next"]
    series.release(grown(4))
    assert series.next is None
    with pytest.raises(SeriesError, match="all periods of this series are over"):
        series.release(grown(4))
    before = series.ledger.spent
    series.end()
    assert series.ledger.spent < before  # the share of b went back
    with pytest.raises(SeriesError, match="was ended"):
        series.release(grown(4), "d")
    with pytest.raises(LedgerError, match="settled"):
        series.end()


def test_a_file_that_goes_on_elsewhere_knows_what_was_done(tmp_path: Path) -> None:
    series = opened(tmp_path)
    shutil.copy(series.path, tmp_path / "old.series")
    series.release(grown(1))
    again = cs.resume_series(tmp_path / "old.series")  # an old copy knows no less
    assert (again.next, again.periods, again.guarantee) == ("b", series.periods, series.guarantee)
    assert (again.path.read_bytes(), len(again.workload)) == (series.path.read_bytes(), len(ASKED))
    again.release(grown(2))
    assert series.next == "c"
    shutil.move(series.ledger.path, tmp_path / "moved")
    assert cs.resume_series(series.path, ledger=tmp_path / "moved").next == "c"
    with pytest.raises(LedgerError, match="there is no ledger"):
        cs.resume_series(series.path)


@pytest.mark.parametrize(
    "change",
    [
        lambda terms: terms["shares"].__setitem__(1, 100.0),
        lambda terms: terms["periods"].__setitem__(0, "again"),
        lambda terms: terms["periods"].append("e") or terms["shares"].append(1.0),
        lambda terms: terms["budget"].__setitem__("epsilon", 2.0),
        lambda terms: terms.__setitem__("mechanism", "gaussian"),
        lambda terms: terms.__setitem__("neighbours", "add-remove"),
    ],
)
def test_a_changed_file_is_refused(tmp_path: Path, change: object) -> None:
    series = opened(tmp_path)
    stored = json.loads(series.path.read_text())
    change(stored["terms"])  # type: ignore[operator]
    series.path.write_text(json.dumps(stored))
    with pytest.raises(SeriesError, match="not a series of this ledger"):
        cs.resume_series(series.path)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"series": 9}', '{"series": 1, "ledger": 3}'])
def test_files_that_are_no_series_are_refused_in_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.series").write_text(text)
    with pytest.raises(SeriesError, match="is not a series"):
        cs.resume_series(tmp_path / "x.series")


def test_what_cannot_be_planned_is_refused_before_anything_is_reserved(tmp_path: Path) -> None:
    ledger = ledger_for(tmp_path, BUDGETS[0])
    for given in (
        {"periods": 0},
        {"periods": "abc"},
        {"periods": ["a", "a"]},
        {"periods": ["a", ""]},
        {"periods": 3, "shares": [1, 1]},
        {"periods": 2, "shares": [1, 0]},
        {"periods": 2, "shares": [1, float("nan")]},
    ):
        with pytest.raises(SeriesError):
            opened(tmp_path, BUDGETS[0], ledger=ledger, **given)
    for budget, error in ((BUDGETS[1], LedgerMismatch), (Budget(epsilon=2.0), BudgetExceeded)):
        with pytest.raises(error):
            opened(tmp_path, budget, ledger=ledger)
    assert not (tmp_path / "visits.series").exists()
    assert ledger.entries() == ()
    opened(tmp_path, BUDGETS[0], ledger=ledger)
    with pytest.raises(SeriesError, match="already exists"):
        opened(tmp_path, BUDGETS[0], ledger=ledger)
    other = cs.Schema.from_dict({"name": "visits", "columns": {"ill": {"type": "boolean"}}})
    with pytest.raises(SeriesError, match="another schema"):
        cs.resume_series(tmp_path / "visits.series").release(cs.open_table(pa.table({"ill": [True]}), other))


def test_a_death_in_the_middle_of_a_period_spends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series = opened(tmp_path)
    measure = Curator.measure

    def dies(self: Curator, *args: object, **kwargs: object) -> object:
        measure(self, *args, **kwargs)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(Curator, "measure", dies)
    with pytest.raises(KeyboardInterrupt):
        series.release(grown(1))
    monkeypatch.undo()
    assert series.next == "b"
    with pytest.raises(SeriesError, match="died while it was"):
        series.release(grown(1), "a")


def _race(path: Path, barrier: object, results: object) -> None:
    series = cs.resume_series(path)
    table = grown(1)
    barrier.wait()  # type: ignore[attr-defined]
    try:
        series.release(table, "a")
    except SeriesError:
        results.put("refused")  # type: ignore[attr-defined]
    else:
        results.put("released")  # type: ignore[attr-defined]


def test_of_processes_that_race_for_a_period_one_draws(tmp_path: Path) -> None:
    series = opened(tmp_path)
    barrier, results = FORK.Barrier(3), FORK.Queue()
    workers = [FORK.Process(target=_race, args=(series.path, barrier, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    said = sorted(results.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join(timeout=60)
    assert said == ["refused", "refused", "released"]
    assert spent_in(series, "a") <= cap_of(series.budget_of("a"))[1]


def test_a_period_that_another_process_begins_meanwhile_is_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the worst moment: after this process found out what is due, and before its first act."""
    series, other = opened(tmp_path), cs.resume_series(tmp_path / "visits.series")
    due, begun = Series._due, []

    def while_the_other_releases(self: Series, *args: object, **kwargs: object) -> str:
        named = due(self, *args, **kwargs)  # type: ignore[arg-type]
        if not begun:
            begun.append(named)
            other.release(grown(1), named)
        return named

    monkeypatch.setattr(Series, "_due", while_the_other_releases)
    with pytest.raises(SeriesError, match="another process"):
        series.release(grown(1), "a")
    monkeypatch.undo()
    assert begun == ["a"]
    assert spent_in(series, "a") <= cap_of(series.budget_of("a"))[1]


def test_a_retired_ledger_ends_a_series(tmp_path: Path) -> None:
    series = opened(tmp_path)
    series.release(grown(1))
    series.ledger.retire("done")
    assert series.ended
    with pytest.raises(SeriesError, match="was ended"):
        series.release(grown(2))


def test_a_ledger_retired_while_a_period_is_counted_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series = opened(tmp_path)
    due = Series._due

    def then_retired(self: Series, *args: object, **kwargs: object) -> str:
        named = due(self, *args, **kwargs)  # type: ignore[arg-type]
        self.ledger.retire("done")
        return named

    monkeypatch.setattr(Series, "_due", then_retired)
    with pytest.raises(LedgerRetired):
        series.release(grown(1))
    assert spent_in(series, "a") == 0


def test_a_plan_is_for_the_share_of_a_period(tmp_path: Path) -> None:
    series = opened(tmp_path, BUDGETS[0], mechanism="auto")
    alone = cs.plan(SCHEMA, ASKED, rows=1000, epsilon=0.25, mechanism="laplace").best
    claims = {claim.mechanism: claim for claim in series.plan(rows=1000).claims}
    assert claims["laplace"].expected_max == alone.expected_max
