"""A budget so small that its noise cannot be drawn is refused before anything is spent, whatever it was for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.mechanisms.registry import OFFLINE, ONLINE
from conspectus.privacy.guarantee import Budget

ROWS = pa.table({"id": ["1", "2", "3"], "d": [True, False, True], "e": [True, False, False], "n": [1, 2, 3]})
UNITS: list[dict[str, Any]] = [
    {"kind": "row"},
    *({"kind": "id", "column": "id", "max_rows": m} for m in (10**6, 2**40)),
]
BUDGETS = [(1e-7, 0.0), pytest.param(1e-9, 0.0, marks=pytest.mark.audit), (1e-9, 1e-6)]
Act = Callable[[Any, Any, float, float], object]


def spent(place: Path, schema: cs.Schema, epsilon: float, delta: float, act: Act) -> str | None:
    """What is wrong, if an act is refused by an error that is not ours, or with less left than before."""
    place.unlink(missing_ok=True)
    ledger = cs.Ledger.create(
        place,
        budget=Budget(epsilon=4 * epsilon, delta=delta),
        neighbours="replace",
        unit=str(schema.unit),
        schema_fingerprint=schema.fingerprint,
        table="made",
    )
    try:
        act(cs.open_table(ROWS, schema), ledger, epsilon, delta)
    except Exception as why:
        if not type(why).__module__.startswith("conspectus") or ledger.spent:
            return f"{why!r}, {float(ledger.spent)} spent"
    return None


def release(table: Any, ledger: Any, epsilon: float, delta: float, *, name: str, **settings: Any) -> None:
    asked = cs.marginals(table.schema, 1)
    cs.release(table, asked, epsilon=epsilon, delta=delta, mechanism=name, ledger=ledger, **settings)


def value(table: Any, ledger: Any, epsilon: float, delta: float, *, name: str, median: bool) -> None:
    statistic = (cs.column_median if median else cs.column_mode)(table.schema, "n")
    cs.release_value(table, statistic, epsilon=epsilon, delta=delta, mechanism=name, ledger=ledger)


def session(table: Any, ledger: Any, epsilon: float, delta: float, *, name: str) -> None:
    with cs.open_session(
        table, epsilon=epsilon, delta=delta, questions=3, mechanism=name, rows=3, ledger=ledger
    ) as live:
        live.ask("d AND e")


ACTS: dict[str, Act] = {
    **{f"release {name}": partial(release, name=name) for name in ["auto", *OFFLINE] if name != "top"},
    "release top": partial(release, name="top", count=2),
    "release within bins": partial(release, name="laplace", within_bins=0.5),
    **{
        f"{what} {name}": partial(value, name=name, median=what == "median")
        for what in ("mode", "median")
        for name in ("auto", "noisy-max", "permute-and-flip", "exponential", "stable")
    },
    **{f"session {name}": partial(session, name=name) for name in ["auto", *ONLINE]},
}


@pytest.mark.parametrize("unit", UNITS, ids=["rows", "ids", "many"])
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_what_is_refused_costs_nothing(tmp_path: Path, unit: dict[str, Any], epsilon: float, delta: float) -> None:
    columns = {"d": {"type": "boolean"}, "e": {"type": "boolean"}, "n": {"type": "integer", "min": 0, "max": 7}}
    schema = cs.Schema.from_dict({"name": "made", "unit": unit, "columns": columns})
    wrong = {
        name: said for name, act in ACTS.items() if (said := spent(tmp_path / "ledger", schema, epsilon, delta, act))
    }
    assert wrong == {}
